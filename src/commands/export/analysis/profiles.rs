//! Exports weighted stacks: thread activity, the retained managed heap, malloc blocks, or owners of native memory.

use std::collections::HashMap;

use crate::bytes::printable;
use crate::commands::export::analysis::retained::retained;
use crate::commands::export::analysis::{ExportOptions, OutputFiles};
use crate::commands::export::report::{ExportReport, FigureRow};
use crate::commands::{MallocOptions, ThreadOptions, holders, malloc, stacks, threads};
use crate::export::ExportError;
use crate::export::profiles::firefox::{self, Track};
use crate::export::profiles::{Frame, Measure, Profile, folded, pprof, speedscope};
use crate::progress::Progress;
use crate::report::{ChunkSum, ClusterContent, ExportFormat, ExportSubject, FrameRow};
use crate::session::Session;
use crate::units::count;

const THREADS: Measure = Measure { name: "threads", bytes: false };
const RESERVED: Measure = Measure { name: "reserved", bytes: true };
const TOUCHED: Measure = Measure { name: "touched", bytes: true };
const BYTES: Measure = Measure { name: "bytes", bytes: true };
const BLOCKS: Measure = Measure { name: "blocks", bytes: false };

pub(super) fn write(
    session: &Session<'_>,
    options: ExportOptions,
    files: &mut dyn OutputFiles,
    progress: &Progress,
) -> Result<ExportReport, ExportError> {
    let mut limits = Vec::new();
    let tool = concat!("coremap ", env!("CARGO_PKG_VERSION"));
    let facts = session.process.facts();
    let name = facts.process.as_ref().map_or_else(|| "(unknown)".to_owned(), |info| info.name.clone());
    let process = firefox::Process { name, pid: session.process.pid(), tool: tool.to_owned() };
    let mut tracks = Vec::new();
    let profile = match options.subject {
        ExportSubject::Threads => of_threads(session, progress, &mut limits, &mut tracks),
        ExportSubject::Retained => retained(session)?,
        ExportSubject::Malloc => of_malloc(session, progress)?,
        ExportSubject::Holders => of_holders(session, progress, &mut limits)?,
    };
    if matches!(options.format, ExportFormat::Folded | ExportFormat::Firefox) && profile.measures.len() > 1 {
        let left: Vec<_> = profile.measures.iter().skip(1).map(|measure| measure.name).collect();
        limits.push(format!(
            "the format stores one weight per stack: {} is omitted (speedscope and pprof store it)",
            left.join(" and ")
        ));
    }
    let row = files.create(None, &mut |out| {
        Ok(match options.format {
            ExportFormat::Speedscope => speedscope::write(&profile, tool, out)?,
            ExportFormat::Pprof => pprof::write(&profile, &process.name, tool, out)?,
            ExportFormat::Firefox if options.subject == ExportSubject::Threads => {
                firefox::write_threads(&process, &profile, &tracks, out)?
            }
            ExportFormat::Firefox => firefox::write_memory(&process, &profile, out)?,
            _ => folded::write(&profile, out)?,
        })
    })?;
    let totals = profile.measures.iter().enumerate();
    let totals = totals.map(|(number, measure)| FigureRow { figure: measure.name, value: profile.total(number) });
    let stacks = FigureRow { figure: "stacks", value: profile.stacks.len() as u64 };
    Ok(ExportReport { files: vec![row], figures: totals.chain([stacks]).collect(), limits, ..ExportReport::default() })
}

/// A frame of a thread's stack, with its full name.
fn frame(row: &FrameRow) -> Frame {
    Frame {
        name: format!("{}{}", row.name(), FrameRow::mark(row.doubt())),
        file: row.file.as_ref().map(ToString::to_string),
        line: row.line,
        module: row.module.as_ref().map(ToString::to_string),
    }
}

/// Equal stacks of threads, with the bytes that their stacks reserve and have ever touched.
fn of_threads(
    session: &Session<'_>,
    progress: &Progress,
    limits: &mut Vec<String>,
    tracks: &mut Vec<Track>,
) -> Profile {
    let threads = threads(session, ThreadOptions::default());
    let stacks = stacks(session, &HashMap::new(), true, progress);
    let sizes: HashMap<u32, (Option<u64>, Option<u64>)> =
        stacks.stacks.iter().filter_map(|row| Some((row.tid?, (row.reserved, row.touched)))).collect();
    let mut profile = Profile::new("threads", &[THREADS, RESERVED, TOUCHED]);
    let (mut without_size, mut without_touched) = (0, 0);
    for thread in &threads.threads {
        let (reserved, touched) = sizes.get(&thread.tid).copied().unwrap_or_default();
        without_size += u64::from(reserved.is_none());
        without_touched += u64::from(reserved.is_some() && touched.is_none());
        let none = thread.frames.is_empty().then(|| Frame::named("(no frames)"));
        let frames = none.into_iter().chain(thread.frames.iter().rev().map(frame));
        let stack = profile.add(frames, &[1, reserved.unwrap_or(0), touched.unwrap_or(0)]);
        let name = thread.managed_name.clone().or_else(|| thread.name.clone());
        let name = name.unwrap_or_else(|| format!("thread {}", thread.tid));
        tracks.push(Track { name, tid: thread.tid, stack });
    }
    for (threads, what) in [(without_size, "reserved and touched"), (without_touched, "touched")] {
        if threads > 0 {
            limits.push(format!("{}: bytes {what} are unknown and not counted", count(threads, "thread")));
        }
    }
    profile
}

/// Similar malloc blocks: by content, then by size.
fn of_malloc(session: &Session<'_>, progress: &Progress) -> Result<Profile, ExportError> {
    let report = malloc(
        session,
        &MallocOptions { chunks: false, limit: Some(usize::MAX), ..MallocOptions::default() },
        progress,
    );
    if report.total.used == 0 {
        return Err(ExportError::Unfit("nothing was written: no malloc blocks were found in this core".into()));
    }
    let mut profile = Profile::new("malloc", &[BYTES, BLOCKS]);
    let (mut bytes, mut blocks) = (0_u64, 0_u64);
    for cluster in &report.clusters {
        // The same words as in the table of clusters.
        let what = cluster.category.clone().unwrap_or_else(|| match cluster.kind {
            ClusterContent::Mixed => cluster.kind.name().to_owned(),
            _ if cluster.fill.is_some() => cluster.begins(),
            _ => format!("begins with {}", cluster.begins()),
        });
        let what = printable(&what).into_owned();
        let size = format!("blocks of {} bytes{}", cluster.size, if cluster.mmapped { " (mmapped)" } else { "" });
        profile.add([Frame::named("malloc"), Frame::named(what), Frame::named(size)], &[cluster.bytes, cluster.count]);
        bytes = bytes.saturating_add(cluster.bytes);
        blocks = blocks.saturating_add(cluster.count);
    }
    let rest = [report.total.used_bytes.saturating_sub(bytes), report.total.used.saturating_sub(blocks)];
    if rest != [0, 0] {
        profile.add([Frame::named("malloc"), Frame::named("(others)")], &rest);
    }
    Ok(profile)
}

/// Native memory by the objects that point at it, and the malloc blocks that no object points at.
fn of_holders(session: &Session<'_>, progress: &Progress, limits: &mut Vec<String>) -> Result<Profile, ExportError> {
    let report = holders(session, None, progress);
    if report.holders.is_empty() {
        return Err(ExportError::Unfit("nothing was written: no managed object points at native memory".into()));
    }
    let mut profile = Profile::new("holders", &[BYTES, BLOCKS]);
    for row in &report.holders {
        let name = row.name.as_ref().map_or_else(|| "(type unknown)".to_owned(), ToString::to_string);
        let field = row.field.as_ref().map_or_else(|| "[]".to_owned(), ToString::to_string);
        let mut add = |memory: &str, size: Option<u64>, sum: &ChunkSum| {
            let size = size.map(|size| format!("blocks of {size} bytes"));
            let frames = [name.clone(), field.clone(), memory.to_owned()].into_iter().chain(size);
            profile.add(frames.map(Frame::named), &[sum.bytes, sum.count]);
        };
        row.sizes.iter().for_each(|(size, sum)| add("malloc", Some(*size), sum));
        if row.mmap.count > 0 {
            add("mmap", None, &row.mmap);
        }
    }
    let held = report.total.malloc;
    let used =
        malloc(session, &MallocOptions { chunks: false, limit: Some(0), ..MallocOptions::default() }, progress).total;
    let rest = [used.used_bytes.saturating_sub(held.bytes), used.used.saturating_sub(held.count)];
    if rest != [0, 0] {
        profile.add(["(no managed object points at it)", "malloc"].map(Frame::named), &rest);
    }
    limits.push("a block that two fields point at counts for both: the sum may exceed the memory in use".to_owned());
    Ok(profile)
}
