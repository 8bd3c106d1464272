//! A Java heap as an .hprof.

use crate::addr::Addr;
use crate::analysis::heap_notes::{tell_in_gc, tell_walk};
use crate::commands::export::analysis::Files;
use crate::commands::export::report::{ExportReport, FigureRow};
use crate::commands::{ThreadOptions, threads};
use crate::export::ExportError;
use crate::export::hprof::{self, Frame, Source, Thread, Written, java};
use crate::hotspot::HotSpot;
use crate::managed::{Heap as _, Root};
use crate::phase::Phase;
use crate::progress::Progress;
use crate::report::{FrameRow, ThreadRow};
use crate::session::Session;
use crate::units::{count, exact};

pub(super) fn write(
    session: &Session<'_>,
    files: &mut dyn Files,
    progress: &Progress,
) -> Result<ExportReport, ExportError> {
    let process = session.process;
    let first = session.coreclr().len();
    let heaps = session.hotspot().iter().zip(first..).filter_map(|(vm, number)| Some((vm, number, vm.objects()?)));
    let mut heaps = heaps.filter(|(.., heap)| !heap.parts().is_empty());
    let Some((vm, number, heap)) = heaps.next() else {
        return Err(ExportError::Unfit(
            "no heap of Java can be read from this core, and an .hprof is one: nothing was written. `export --to gcdump` takes the heaps of \
             other runtimes"
                .into(),
        ));
    };
    let others = heaps.count();
    process.target().expect_scan();
    let rows = threads(session, ThreadOptions::default()).threads;
    let _phase = process.enter(Phase::References);
    tell_in_gc(process, vm, heap);
    let roots = session.roots(number);
    let threads: Vec<Thread> = rows.iter().map(|row| thread(vm, row, &roots.all)).collect();
    let encoding = &vm.classes().encoding;
    let narrow = |word: u64| encoding.narrow(word as u32).get();
    let wide = |word: u64| encoding.wide(word).get();
    let source = Source {
        heap,
        memory: &process.memory,
        reference: if encoding.narrow { 4 } else { 8 },
        length_at: encoding.length_at,
        decode: if encoding.narrow { &narrow } else { &wide },
        roots: &roots.all,
        threads: &threads,
    };
    let mut written = Written::default();
    let row = files.make(None, &mut |out| {
        written = hprof::write(&source, &|present: &[Addr]| java::classes(vm, present), out, progress)?;
        Ok(written.instances.count + written.object_arrays.count + written.value_arrays.count)
    })?;
    tell_walk(process, vm, heap, &written.losses);
    for (number, what) in [
        (written.lost, "objects are not in the core as a whole: zeros stand for what is missing"),
        (written.unknown, "objects have no class that can be read, and are left out"),
    ] {
        if number > 0 {
            process.diag.partial("heap", format!("{} {what}", exact(number)));
        }
    }
    let mut limits = limits(&written);
    if others > 0 {
        limits.push(format!("a file has one heap: {} more of Java are not in it", count(others as u64, "heap")));
    }
    Ok(ExportReport { files: vec![row], figures: figures(&written), limits, ..ExportReport::default() })
}

/// A thread with those of its frames that are Java's.
fn thread(vm: &HotSpot<'_>, row: &ThreadRow, roots: &[Root]) -> Thread {
    let object = roots.iter().find(|root| root.kind.name() == "thread object" && root.thread == Some(row.tid));
    let frames = row.frames.iter().filter_map(|row| frame(vm, row)).collect();
    Thread { tid: Some(row.tid), object: object.map(|root| root.object), frames }
}

fn frame(vm: &HotSpot<'_>, row: &FrameRow) -> Option<Frame> {
    let whole = row.method.as_ref().filter(|_| row.runtime.is_some())?.to_string();
    let info = row.method_desc.and_then(|method| vm.classes().method(method));
    let name = whole.split_once('(').map_or(&*whole, |(name, _)| name);
    let method = if info.is_some() { name.rsplit_once('.').map_or(name, |(_, method)| method) } else { name };
    let line = row.line.and_then(|line| i32::try_from(line).ok());
    let is_native = info.as_ref().is_some_and(|info| info.is_native);
    Some(Frame {
        method: method.to_owned(),
        signature: info.as_ref().map(|info| info.descriptor.clone()).unwrap_or_default(),
        class: info.map(|info| info.holder),
        file: row.file.as_ref().map(ToString::to_string).unwrap_or_default(),
        line: if is_native { hprof::NATIVE_LINE } else { line.unwrap_or(hprof::NO_LINE) },
        sp: row.sp,
    })
}

fn figures(written: &Written) -> Vec<FigureRow> {
    let objects = [written.instances, written.object_arrays, written.value_arrays];
    let rows = [
        ("objects", objects.iter().map(|tally| tally.count).sum()),
        ("object_bytes", objects.iter().map(|tally| tally.size).sum()),
        ("instances", written.instances.count),
        ("object_arrays", written.object_arrays.count),
        ("value_arrays", written.value_arrays.count),
        ("classes", written.classes),
        ("class_objects", written.mirrors.count),
        ("class_object_bytes", written.mirrors.size),
        ("references", written.references),
        ("roots", written.roots),
        ("threads", written.threads),
    ];
    rows.into_iter().map(|(figure, value)| FigureRow { figure, value }).collect()
}

fn limits(written: &Written) -> Vec<String> {
    let mut limits = vec![
        "it has what the heap holds, as a dump of the JDK does: texts and numbers, passwords too. Of a core that was scrubbed \
         (`shrink --scrub`) it has none"
            .to_owned(),
    ];
    if written.cut > 0 {
        limits.push(format!("{} of arrays that have more than 4 GiB are left out", count(written.cut, "element")));
    }
    limits
}
