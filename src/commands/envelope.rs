//! The header of every answer.

use crate::analysis::no_runtime::unread_runtimes;
use crate::report::{CoreRow, Envelope};
use crate::session::Session;

/// Puts a command's answer into the envelope that all answers share.
pub fn envelope<T>(command: &'static str, session: &Session<'_>, body: T) -> Envelope<T> {
    let runtimes = session.runtimes().iter().map(|runtime| runtime.row()).collect();
    let unread = unread_runtimes(session);
    let stop = session.process.conclude();
    let facts = session.process.facts();
    let core = CoreRow {
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
        unread,
        // Rounded to a tenth of a millisecond.
        stopped_ms: stop.map(|stop| (stop.lasted.as_secs_f64() * 10_000.0).round() / 10.0),
    };
    Envelope::new(command, core, session.process.diag.warnings(), body)
}
