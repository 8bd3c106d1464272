//! Exports a managed heap as an .hprof. Heaps of .NET are expressed in Java's terms.

use crate::analysis::heap_notes::{warn_in_gc, warn_losses};
use crate::commands::export::analysis::OutputFiles;
use crate::commands::export::report::{ExportReport, FigureRow};
use crate::commands::{ThreadOptions, threads};
use crate::diag::WarningCode;
use crate::export::ExportError;
use crate::export::hprof::{Written, heaps};
use crate::phase::Phase;
use crate::progress::Progress;
use crate::session::Session;
use crate::sums::SaturatingSum;
use crate::units::{count, exact};

pub(super) fn write(
    session: &Session<'_>,
    files: &mut dyn OutputFiles,
    progress: &Progress,
) -> Result<ExportReport, ExportError> {
    let process = session.process;
    let heaps = heaps(session);
    let Some(supported) = heaps.first() else {
        return Err(ExportError::Unfit(
            "nothing was written: an .hprof is a heap of Java or .NET, and none can be read from this core. `export --to gcdump` takes \
             the heaps of other runtimes"
                .into(),
        ));
    };
    let (runtime, heap) = (supported.runtime, supported.heap);
    process.target().expect_scan();
    let rows = threads(session, ThreadOptions::default()).threads;
    let _phase = process.enter(Phase::References);
    warn_in_gc(process, runtime, heap);
    let roots = session.roots(supported.id).all;
    let mut written = Written::default();
    let row = files.create(None, &mut |out| {
        written = supported.write(process, roots.clone(), &rows, out, progress)?;
        Ok(written.instances.count + written.object_arrays.count + written.value_arrays.count)
    })?;
    warn_losses(process, runtime, heap, &written.losses);
    for (number, what) in [
        (
            written.lost,
            "objects are only partly in the core: missing values are zeros, missing elements at the end are omitted",
        ),
        (written.unknown, "objects have no readable class and are omitted"),
    ] {
        if number > 0 {
            process.diag.partial(WarningCode::Heap, format!("{} {what}", exact(number)));
        }
    }
    let mut limits = limits(&written, supported.is_foreign());
    if heaps.len() > 1 {
        limits.push(format!(
            "the format stores one heap: the heap of {} is in the file, {} more is not",
            runtime.label(),
            count(heaps.len() as u64 - 1, "heap")
        ));
    }
    Ok(ExportReport { files: vec![row], figures: figures(&written), limits, ..ExportReport::default() })
}

fn figures(written: &Written) -> Vec<FigureRow> {
    let objects = [written.instances, written.object_arrays, written.value_arrays];
    let rows = [
        ("objects", objects.iter().map(|tally| tally.count).saturating_sum()),
        ("object_bytes", objects.iter().map(|tally| tally.size).saturating_sum()),
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
        "like a heap dump of the JDK, the file contains the data of the heap: texts and numbers, passwords too. Export a \
         core written by `shrink --scrub` to avoid that"
            .to_owned(),
    ];
    if is_foreign {
        limits.push(
            "the format is Java's. System.String becomes java.lang.String with a separate character array, some 24 bytes \
             larger. Arrays of unsigned numbers have the names of Java's signed types. Arrays of structs become arrays of \
             references, without their other fields. Objects that a dependent handle keeps alive become roots"
                .to_owned(),
        );
    }
    if written.cut > 0 {
        limits.push(format!("{} of arrays larger than 4 GiB are omitted", count(written.cut, "element")));
    }
    limits
}
