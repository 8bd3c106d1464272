//! A Java heap as an .hprof.

use crate::addr::Addr;
use crate::analysis::heap_notes::{tell_in_gc, tell_walk};
use crate::commands::export::analysis::Files;
use crate::commands::export::report::{ExportReport, FigureRow};
use crate::commands::{ThreadOptions, threads};
use crate::export::ExportError;
use crate::export::hprof::{self, Frame, Source, Thread, Written, java};
use crate::managed::Heap as _;
use crate::phase::Phase;
use crate::progress::Progress;
use crate::report::FrameRow;
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
    let threads: Vec<Thread> = threads(session, ThreadOptions::default()).threads.iter().map(thread).collect();
    let _phase = process.enter(Phase::References);
    tell_in_gc(process, vm, heap);
    let roots = session.roots(number);
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
    let mut limits = limits(&written, encoding.narrow);
    if others > 0 {
        limits.push(format!("a file has one heap: {} more of Java are not in it", count(others as u64, "heap")));
    }
    Ok(ExportReport { files: vec![row], figures: figures(&written), limits, ..ExportReport::default() })
}

/// A thread with those of its frames that are Java's.
fn thread(row: &crate::report::ThreadRow) -> Thread {
    Thread { tid: Some(row.tid), frames: row.frames.iter().filter_map(frame).collect() }
}

fn frame(row: &FrameRow) -> Option<Frame> {
    let whole = row.method.as_ref().filter(|_| row.runtime.is_some())?.to_string();
    let (name, arguments) = whole.split_once('(').unwrap_or((&whole, ""));
    let (class, method) = name.rsplit_once('.').unwrap_or(("", name));
    Some(Frame {
        method: method.to_owned(),
        signature: if arguments.is_empty() { String::new() } else { format!("({arguments}") },
        class: class.to_owned(),
        file: row.file.as_ref().map(ToString::to_string).unwrap_or_default(),
        line: row.line.and_then(|line| i32::try_from(line).ok()).unwrap_or(-1),
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

fn limits(written: &Written, narrow: bool) -> Vec<String> {
    let mut limits = vec![
        "it has what the heap holds, as a dump of the JDK does: texts and numbers, passwords too. Of a core that was scrubbed \
         (`shrink --scrub`) it has none"
            .to_owned(),
    ];
    if narrow && written.object_arrays.count > 0 {
        limits.push(
            "the VM has references of 4 bytes, and the format has 8: tools reckon arrays of references larger than they are".to_owned(),
        );
    }
    if written.cut > 0 {
        limits.push(format!("{} of arrays that have more than 4 GiB are left out", count(written.cut, "element")));
    }
    limits
}
