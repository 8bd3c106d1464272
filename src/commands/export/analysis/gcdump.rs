//! Exports a managed heap as a .gcdump.

use crate::analysis::heap_notes::{warn_in_gc, warn_losses};
use crate::commands::export::analysis::OutputFiles;
use crate::commands::export::report::{ExportReport, FigureRow};
use crate::diag::WarningCode;
use crate::export::ExportError;
use crate::export::gcdump::{self, About, MAX_PERFVIEW_NODES, Source, Written};
use crate::phase::Phase;
use crate::process::Process;
use crate::progress::Progress;
use crate::runtimes::api::Roots;
use crate::session::Session;
use crate::units::exact;

/// Name of the node above a runtime's roots, as official tools have it.
fn root_of(runtime: &str) -> String {
    let is_dotnet = runtime == ".NET" || runtime == "NativeAOT";
    format!("{} Roots", if is_dotnet { ".NET" } else { runtime })
}

pub(super) fn write(
    session: &Session<'_>,
    files: &mut dyn OutputFiles,
    progress: &Progress,
) -> Result<ExportReport, ExportError> {
    let process = session.process;
    process.target().expect_scan();
    let runtimes = session.runtimes_by_id().into_iter();
    let heaps = runtimes.filter_map(|(id, runtime)| Some((id, runtime, runtime.heap()?)));
    let heaps: Vec<_> = heaps.filter(|(.., heap)| !heap.ranges().is_empty()).collect();
    if heaps.is_empty() {
        return Err(ExportError::Unfit(
            "nothing was written: a .gcdump is a managed heap, and no managed heap can be read from this core".into(),
        ));
    }
    let _phase = process.enter(Phase::References);
    heaps.iter().for_each(|&(_, runtime, heap)| warn_in_gc(process, runtime, heap));
    let roots: Vec<Roots> = heaps.iter().map(|(id, ..)| session.roots(*id)).collect();
    let sources = heaps.iter().zip(&roots);
    let sources = sources.map(|((_, runtime, heap), roots)| Source {
        heap: *heap,
        roots: &roots.all,
        root: root_of(&runtime.row().name),
    });
    let sources: Vec<Source<'_>> = sources.collect();
    let warnings = process.diag.warnings();
    let about = About {
        process: process.facts().process.as_ref().map(|info| info.name.clone()),
        pid: process.pid(),
        tool: format!("coremap {}", env!("CARGO_PKG_VERSION")),
        log: warnings.iter().map(|warning| format!("{}: {}\n", warning.code, warning.message)).collect(),
    };
    let mut written = Written::default();
    let row = files.create(None, &mut |out| {
        written = gcdump::write(&sources, &about, out, progress)?;
        Ok(written.nodes)
    })?;
    for ((_, runtime, heap), losses) in heaps.iter().zip(&written.losses) {
        warn_losses(process, *runtime, *heap, losses);
    }
    warn_strays(process, &written);
    Ok(ExportReport {
        files: vec![row],
        figures: figures(&written),
        limits: limits(&written),
        ..ExportReport::default()
    })
}

fn warn_strays(process: &Process, written: &Written) {
    for (count, what) in [(written.strays, "references"), (written.stray_roots, "roots")] {
        if count > 0 {
            process
                .diag
                .partial(WarningCode::Heap, format!("{} {what} point to no object and are omitted", exact(count)));
        }
    }
}

fn figures(written: &Written) -> Vec<FigureRow> {
    let rows = [
        ("objects", written.objects.count),
        ("object_bytes", written.objects.size),
        ("free_bytes", written.free.size),
        ("types", written.types),
        ("references", written.references),
        ("roots", written.roots),
        ("static_variables", written.statics),
        ("nodes", written.nodes),
        ("segments", written.segments),
    ];
    rows.into_iter().map(|(figure, value)| FigureRow { figure, value }).collect()
}

fn limits(written: &Written) -> Vec<String> {
    let mut limits = Vec::new();
    let clipped = written.clipped;
    if clipped.count > 0 {
        limits.push(format!(
            "{} larger than 2,147,483,647 bytes, the largest size that the format can store: sizes in the file are {} bytes too small",
            crate::units::count(clipped.count, "object"),
            exact(clipped.size)
        ));
    }
    if written.nodes > MAX_PERFVIEW_NODES {
        limits.push(format!(
            "{} nodes: PerfView opens at most {}; dotnet-heapview may open more",
            exact(written.nodes),
            exact(MAX_PERFVIEW_NODES)
        ));
    }
    limits
}
