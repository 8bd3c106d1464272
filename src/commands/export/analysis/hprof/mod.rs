//! A managed heap as an .hprof: Java's, or .NET's in the terms of Java.

mod threads;

use crate::addr::Addr;
use crate::analysis::heap_notes::{tell_in_gc, tell_walk};
use crate::commands::export::analysis::Files;
use crate::commands::export::report::{ExportReport, FigureRow};
use crate::commands::{ThreadOptions, threads as ask_threads};
use crate::dotnet::CoreClr;
use crate::dotnet::gc::Handle;
use crate::dotnet::heap::Heap as OfDotnet;
use crate::export::ExportError;
use crate::export::hprof::{self, Classes, Source, Thread, Written, dotnet, java};
use crate::hotspot::HotSpot;
use crate::hotspot::heap::Heap as OfJava;
use crate::managed::{Heap, ManagedRuntime, Root, RootKind};
use crate::phase::Phase;
use crate::progress::Progress;
use crate::session::Session;
use crate::units::{count, exact};

/// Bytes of a reference, and from an array's start to its length, in .NET.
const WORD: u64 = 8;

/// A heap that the format can take.
enum Taken<'s, 'p> {
    Java(&'s HotSpot<'p>, &'s OfJava<'p>),
    Dotnet(&'s CoreClr<'p>, &'s OfDotnet<'p>),
}

impl<'s, 'p> Taken<'s, 'p> {
    fn runtime(&self) -> &'s dyn ManagedRuntime {
        match *self {
            Taken::Java(vm, _) => vm,
            Taken::Dotnet(runtime, _) => runtime,
        }
    }

    fn heap(&self) -> &'s dyn Heap {
        match *self {
            Taken::Java(_, heap) => heap,
            Taken::Dotnet(_, heap) => heap,
        }
    }
}

/// The heaps that the format can take, with the numbers of their runtimes: Java's come first, as it is theirs.
fn heaps<'s, 'p>(session: &'s Session<'p>) -> Vec<(usize, Taken<'s, 'p>)> {
    let dotnet = session.coreclr();
    let of_java = session.hotspot().iter().zip(dotnet.len()..);
    let of_java = of_java.filter_map(|(vm, number)| Some((number, Taken::Java(vm, vm.objects()?))));
    let of_dotnet = dotnet.iter().enumerate();
    let of_dotnet =
        of_dotnet.filter_map(|(number, runtime)| Some((number, Taken::Dotnet(runtime, runtime.heap_of_objects()?))));
    of_java.chain(of_dotnet).filter(|(_, heap)| !heap.heap().parts().is_empty()).collect()
}

/// What dependent handles keep beside objects: the format has no way to say by which.
fn kept_beside(runtime: &CoreClr<'_>) -> Vec<Root> {
    let dependent = runtime.handles().iter().filter(|handle| !handle.object.is_null());
    let root =
        |handle: &Handle| Some(Root::new(RootKind::Of(u8::MAX, "DependentHandle"), handle.address, handle.secondary?));
    dependent.filter_map(root).collect()
}

pub(super) fn write(
    session: &Session<'_>,
    files: &mut dyn Files,
    progress: &Progress,
) -> Result<ExportReport, ExportError> {
    let process = session.process;
    let heaps = heaps(session);
    let Some((number, taken)) = heaps.first() else {
        return Err(ExportError::Unfit(
            "no heap of Java or .NET can be read from this core, and an .hprof is one: nothing was written. `export --to gcdump` takes \
             the heaps of other runtimes"
                .into(),
        ));
    };
    let (runtime, heap) = (taken.runtime(), taken.heap());
    process.target().expect_scan();
    let rows = ask_threads(session, ThreadOptions::default()).threads;
    let _phase = process.enter(Phase::References);
    tell_in_gc(process, runtime, heap);
    let mut roots = session.roots(*number).all;
    let threads: Vec<Thread> = match *taken {
        Taken::Java(vm, _) => rows.iter().map(|row| threads::of_java(vm, row, &roots)).collect(),
        Taken::Dotnet(runtime, _) => {
            roots.extend(kept_beside(runtime));
            threads::of_dotnet(process, runtime, &rows)
        }
    };
    let plain = |word: u64| word;
    let source = Source {
        heap,
        memory: &process.memory,
        reference: WORD,
        length_at: WORD,
        decode: &plain,
        roots: &roots,
        threads: &threads,
    };
    let mut written = Written::default();
    let row = files.make(None, &mut |out| {
        written = match *taken {
            Taken::Java(vm, _) => {
                let encoding = &vm.classes().encoding;
                let narrow = |word: u64| encoding.narrow(word as u32).get();
                let wide = |word: u64| encoding.wide(word).get();
                let decode: &(dyn Fn(u64) -> u64 + Sync) = if encoding.narrow { &narrow } else { &wide };
                let source = Source { reference: encoding.unit(), length_at: encoding.length_at, decode, ..source };
                hprof::write(&source, &|present: &[Addr]| java::classes(vm, present), out, progress)?
            }
            Taken::Dotnet(_, heap) => {
                let classes = |present: &[Addr]| -> Classes { dotnet::classes(heap, present) };
                hprof::write(&source, &classes, out, progress)?
            }
        };
        Ok(written.instances.count + written.object_arrays.count + written.value_arrays.count)
    })?;
    tell_walk(process, runtime, heap, &written.losses);
    for (number, what) in [
        (
            written.lost,
            "objects are not in the core as a whole: values that are missing are zeros, elements at the end are left out",
        ),
        (written.unknown, "objects have no class that can be read, and are left out"),
    ] {
        if number > 0 {
            process.diag.partial("heap", format!("{} {what}", exact(number)));
        }
    }
    let mut limits = limits(&written, matches!(taken, Taken::Dotnet(..)));
    if heaps.len() > 1 {
        limits.push(format!(
            "a file has one heap, here that of {}: {} more is not in it",
            runtime.label(),
            count(heaps.len() as u64 - 1, "heap")
        ));
    }
    Ok(ExportReport { files: vec![row], figures: figures(&written), limits, ..ExportReport::default() })
}

fn figures(written: &Written) -> Vec<FigureRow> {
    let objects = [written.instances, written.object_arrays, written.value_arrays];
    let rows = [
        ("objects", objects.iter().map(|tally| tally.count).sum()),
        ("object_bytes", objects.iter().map(|tally| tally.size).sum()),
        ("instances", written.instances.count),
        ("object_arrays", written.object_arrays.count),
        ("value_arrays", written.value_arrays.count),
        ("texts", written.texts),
        ("classes", written.classes),
        ("class_objects", written.mirrors.count),
        ("class_object_bytes", written.mirrors.size),
        ("references", written.references),
        ("roots", written.roots),
        ("threads", written.threads),
    ];
    rows.into_iter().map(|(figure, value)| FigureRow { figure, value }).collect()
}

fn limits(written: &Written, of_dotnet: bool) -> Vec<String> {
    let mut limits = vec![
        "it has what the heap holds, as a dump of the JDK does: texts and numbers, passwords too. Of a core that was scrubbed \
         (`shrink --scrub`) it has none"
            .to_owned(),
    ];
    if of_dotnet {
        limits.push(
            "the format is Java's: System.String is java.lang.String, with an array of characters each, some 24 bytes more than there are; \
             arrays of numbers have Java's names, whatever their sign; arrays of structs are arrays of references, with no other field. \
             What a dependent handle keeps is a root"
                .to_owned(),
        );
    }
    if written.cut > 0 {
        limits.push(format!("{} of arrays that have more than 4 GiB are left out", count(written.cut, "element")));
    }
    limits
}
