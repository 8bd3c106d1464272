//! What every answer begins with.

use crate::core::mapped::{self, Loss};
use crate::report::{CoreRow, Envelope, SCHEMA_VERSION};
use crate::session::Session;

/// Put a command's answer into the envelope all answers share.
pub fn envelope<T>(command: &'static str, session: &Session<'_>, body: T) -> Envelope<T> {
    for loss in mapped::losses() {
        let (code, message) = match loss {
            Loss::Shrank => {
                ("shrank", "the core file became shorter while it was read; the missing part was taken as zero")
            }
            Loss::Unreadable => (
                "io-error",
                "parts of the core file could not be read (an I/O error of its disk); they were taken as zero",
            ),
        };
        session.process.diag.partial(code, message);
    }
    session.process.tell_unread();
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
            runtimes: session.runtimes().iter().map(|runtime| runtime.row()).collect(),
        },
        warnings: session.process.diag.warnings(),
        body,
    }
}
