//! Samples of recordings, or of cores as they are opened.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use coremap::commands::envelope;
use coremap::commands::record::{Moment, Recording};
use coremap::commands::record::{moment, subject};
use coremap::commands::trend::{is_recording, read_recording};
use coremap::diag::{Warning, WarningCode};
use coremap::report::{CoreRow, Part, RuntimeRow};
use coremap::session::Session;

use crate::cli::Failure;
use crate::cli::args::Common;
use crate::cli::ask::open;
use crate::cli::progress::{progress, watched};

/// A recording, or a core as a recording with one sample.
pub(crate) struct Row {
    pub(crate) recording: Recording,
    pub(crate) is_recording: bool,
    /// The core for the answer's envelope.
    pub(crate) core: CoreRow,
    pub(crate) warnings: Vec<Warning>,
}

/// Reads the recording at `path`. `None` if the file is something else.
///
/// # Errors
/// Fails if the file begins like a recording but is not valid.
pub(crate) fn recording(path: &Path) -> Result<Option<Row>, Failure> {
    if path.as_os_str() == "-" || !path.is_file() {
        return Ok(None);
    }
    // Opening it as a core reports why it cannot be read.
    let Ok(file) = File::open(path) else { return Ok(None) };
    let mut start = Vec::new();
    if (&file).take(64).read_to_end(&mut start).is_err() || !is_recording(&start) {
        return Ok(None);
    }
    let failed = |why: String| Failure::Beside(format!("{}: {why}", path.display()));
    let size = file.metadata().map_or(0, |meta| meta.len());
    let read = read_recording(io::Cursor::new(start).chain(file)).map_err(|e| failed(e.to_string()))?;
    let mut warnings = Vec::new();
    if let Some(lacks) = &read.lacks {
        warnings.push(Warning::partial(WarningCode::RecordingCut, format!("{}: {lacks}", path.display())));
    }
    let of = &read.recording.subject;
    let runtime = |(name, version): &(String, Option<String>)| RuntimeRow {
        name: name.clone(),
        version: version.clone(),
        module: String::new(),
        base: Default::default(),
        gc: None,
        layout_source: String::new(),
    };
    let core = CoreRow {
        path: path.display().to_string(),
        size,
        packed: None,
        producer: of.producer,
        arch: of.arch,
        pid: of.pid,
        truncated: false,
        truncation: None,
        threads: read.recording.moments.last().map_or(0, |m| usize::try_from(m.threads).unwrap_or(usize::MAX)),
        runtimes: of.runtimes.iter().map(runtime).collect(),
        unread: Vec::new(),
        stopped_ms: None,
    };
    Ok(Some(Row { recording: read.recording, is_recording: true, core, warnings }))
}

/// Reads the recording at `path`. If `path` names a core or a process, returns a recording with one sample.
///
/// # Errors
/// Fails if it is none of these.
pub(crate) fn row(path: &Path, common: &Common) -> Result<Row, Failure> {
    if let Some(row) = recording(path)? {
        return Ok(row);
    }
    let progress = progress();
    let process = open(path, common, &progress)?;
    let session = Session::new(&process);
    let parts = [Part::Types, Part::Malloc, Part::Written];
    let moment = watched(&process, &progress, || moment(&session, &parts, &progress));
    let report = envelope("trend", &session, ());
    let moment = Moment { look: 1, time: time_of(path), ..moment };
    let recording = Recording {
        subject: subject(&session),
        coremap: env!("CARGO_PKG_VERSION").to_owned(),
        every: None,
        parts: parts.to_vec(),
        moments: vec![moment],
    };
    Ok(Row { recording, is_recording: false, core: report.core, warnings: report.warnings })
}

/// Sample to use if a recording is given without a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    First,
    Last,
}

/// Reads one sample of a recording: `FILE@3`, `FILE@first`, `FILE@last`, or FILE alone. `None` if the file is not a
/// recording.
///
/// # Errors
/// Fails if the recording has no such sample.
pub(crate) fn look(path: &Path, which: Which) -> Result<Option<Row>, Failure> {
    let text = path.to_string_lossy();
    // A file name may contain `@`.
    let named = text.rsplit_once('@').filter(|_| path.symlink_metadata().is_err());
    let row = recording(named.map_or(path, |(file, _)| Path::new(file)))?;
    let Some(mut row) = row else {
        return match named.filter(|(file, _)| Path::new(file).is_file()) {
            Some((file, _)) => Err(Failure::Usage(format!("{file} is not a recording, so it has no looks"))),
            None => Ok(None),
        };
    };
    let moments = &mut row.recording.moments;
    let at = match (named.map(|(_, look)| look), which) {
        (Some("first"), _) | (None, Which::First) => Some(0),
        (Some("last"), _) | (None, Which::Last) => moments.len().checked_sub(1),
        (Some(number), _) => number.parse().ok().and_then(|n: u64| moments.iter().position(|m| m.look == n)),
    };
    let Some(at) = at.filter(|at| *at < moments.len()) else {
        let looks = match (moments.first(), moments.last()) {
            (Some(first), Some(last)) => format!("the recording has looks {} to {}", first.look, last.look),
            _ => "the recording has none".to_owned(),
        };
        return Err(Failure::Usage(format!("no such look: {text}; {looks}, and you can also use @first and @last")));
    };
    let lacking = lacking(moments, at);
    moments.truncate(at + 1);
    moments.drain(..at);
    row.warnings.extend(lacking);
    row.core.threads = moments.first().map_or(0, |m| usize::try_from(m.threads).unwrap_or(usize::MAX));
    Ok(Some(row))
}

/// Warns about parts that the sample lacks, and names a nearby sample that has them. Slow parts are not in every
/// sample.
fn lacking(moments: &[Moment], at: usize) -> Vec<Warning> {
    let has = |part: Part, m: &Moment| match part {
        Part::Types => m.types.is_some(),
        Part::Malloc => m.malloc.is_some(),
        // Each row shows that it is missing.
        Part::Written => true,
    };
    let Some(look) = moments.get(at) else { return Vec::new() };
    let lacks = [Part::Types, Part::Malloc].into_iter().filter(|&part| !has(part, look)).filter_map(|part| {
        let nearest = moments.iter().enumerate().filter(|(_, m)| has(part, m)).min_by_key(|(i, _)| i.abs_diff(at))?.1;
        let message =
            format!("look {} has no {part}, which takes long to sample; look {} has it", look.look, nearest.look);
        Some(Warning::note(WarningCode::LookLacks, message))
    });
    lacks.collect()
}

/// Time of a core's last modification; for a process, the current time.
pub(crate) fn time_of(path: &Path) -> Option<SystemTime> {
    match path.metadata() {
        Ok(meta) if meta.is_file() => meta.modified().ok(),
        Ok(_) => Some(SystemTime::now()),
        Err(_) => None,
    }
}
