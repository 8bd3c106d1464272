//! A managed heap as an .hprof: Java's, or .NET's in the terms of Java.

use crate::analysis::heap_notes::{tell_in_gc, tell_walk};
use crate::commands::export::analysis::Files;
use crate::commands::export::report::{ExportReport, FigureRow};
use crate::commands::{ThreadOptions, threads};
use crate::diag::WarningCode;
use crate::export::ExportError;
use crate::export::hprof::{Written, heaps};
use crate::phase::Phase;
use crate::progress::Progress;
use crate::session::Session;
use crate::units::{count, exact};

pub(super) fn write(
    session: &Session<'_>,
    files: &mut dyn Files,
    progress: &Progress,
) -> Result<ExportReport, ExportError> {
    let process = session.process;
    let heaps = heaps(session);
    let Some(taken) = heaps.first() else {
        return Err(ExportError::Unfit(
            "no heap of Java or .NET can be read from this core, and an .hprof is one: nothing was written. `export --to gcdump` takes \
             the heaps of other runtimes"
                .into(),
        ));
    };
    let (runtime, heap) = (taken.runtime(), taken.heap());
    process.target().expect_scan();
    let rows = threads(session, ThreadOptions::default()).threads;
    let _phase = process.enter(Phase::References);
    tell_in_gc(process, runtime, heap);
    let roots = session.roots(taken.number).all;
    let mut written = Written::default();
    let row = files.make(None, &mut |out| {
        written = taken.write(process, roots.clone(), &rows, out, progress)?;
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
            process.diag.partial(WarningCode::Heap, format!("{} {what}", exact(number)));
        }
    }
    let mut limits = limits(&written, taken.is_foreign());
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

fn limits(written: &Written, is_foreign: bool) -> Vec<String> {
    let mut limits = vec![
        "it has what the heap holds, as a dump of the JDK does: texts and numbers, passwords too. Of a core that was scrubbed \
         (`shrink --scrub`) it has none"
            .to_owned(),
    ];
    if is_foreign {
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
