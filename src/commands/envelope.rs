//! The header of every answer.

use crate::report::{CoreRow, Envelope, SCHEMA_VERSION};
use crate::session::Session;
use crate::targets::StopReport;

/// Puts a command's answer into the envelope that all answers share.
pub fn envelope<T>(command: &'static str, session: &Session<'_>, body: T) -> Envelope<T> {
    let runtimes = session.runtimes().iter().map(|runtime| runtime.row()).collect();
    let stop = session.process.target().finish();
    if let Some(stop) = &stop {
        warn_stop(stop, session.process);
    }
    session.process.warn_unread();
    let facts = session.process.facts();
    Envelope {
        schema_version: SCHEMA_VERSION,
        coremap: env!("CARGO_PKG_VERSION"),
        command,
        core: CoreRow {
            path: facts.path.clone(),
            size: facts.size,
            packed: facts.compression,
            producer: facts.producer,
            arch: facts.arch,
            pid: session.process.pid(),
            truncated: facts.truncation.is_some(),
            truncation: facts.truncation,
            threads: facts.threads.len(),
            runtimes,
            // Rounded to a tenth of a millisecond.
            stopped_ms: stop.map(|stop| (stop.lasted.as_secs_f64() * 10_000.0).round() / 10.0),
        },
        warnings: session.process.diag.warnings(),
        body,
    }
}

/// Adds warnings about how a running process was read.
fn warn_stop(stop: &StopReport, process: &Process) {
    if stop.lost {
        process.diag.partial(
            WarningCode::Gone,
            "some memory of the process could not be read and is read as zero: the process ended or unmapped it",
        );
    }
    if stop.timed_out {
        process.diag.partial(
            WarningCode::RanOn,
            "the process was resumed before all was read (--stop-at-most): data read after that may be inconsistent",
        );
    }
    if stop.never_stopped {
        process.diag.note(
            WarningCode::NotStopped,
            "read while the process ran (--no-stop): data may be inconsistent, and running threads have no registers",
        );
    }
}
