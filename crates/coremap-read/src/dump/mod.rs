//! Writes a core of a running process: notes, and the selected memory.
//!
//! | file | contents |
//! |---|---|
//! | `plan` | which bytes are written, and their offsets in the file |
//! | `copy` | writes a file, with holes for zeros |
//! | `pack` | writes a compressed stream |
//! | `debugger` | what a debugger always needs |
//!
//! The result is a core like the kernel's, with notes of our own ([`core::own_notes`](crate::core), docs/live.md). The
//! room works on any target. It does not stop the process, and resumes it only after the copy.

mod copy;
mod debugger;
mod pack;
mod plan;

use std::fs::File;
use std::io::{self, Write};

pub use debugger::for_debugger;
pub use plan::{Keep, Plan};

use crate::addr::PAGE;
use crate::core::own_notes;
use crate::phase::Phase;
use crate::process::Process;
use crate::progress::Progress;
use crate::targets::dump_notes::DumpStop;
use crate::words::Compression;

/// Figures of a written core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dumped {
    /// Bytes of memory written.
    pub kept: u64,
    /// Bytes of memory that a full core of the process would contain.
    pub of: u64,
    /// Number of memory segments.
    pub segments: usize,
    /// Size of the core in bytes, uncompressed.
    pub size: u64,
}

/// Writes the core to `file`, which must be empty, with holes for zeros. The process is resumed once its memory is
/// copied.
///
/// # Errors
/// Errors of `file`; `NotFound` if the process ended before its memory was copied.
pub fn write(process: &Process, plan: &Plan, file: &File, progress: &Progress) -> io::Result<Dumped> {
    let phase = process.enter(Phase::Dump);
    progress.start(plan.bytes());
    let lost = copy::plain(process, plan, file, progress)?;
    check(process, lost)?;
    drop(phase);
    let tail = tail(process, lost);
    copy::at_end(file, plan, &tail)?;
    Ok(plan.dumped(tail.len()))
}

/// Writes the core as a compressed stream, in chunks that can be decompressed separately. The process is stopped during
/// compression, unless `scratch`, an empty file, takes the copy first.
///
/// # Errors
/// As [`write()`].
pub fn write_packed(
    process: &Process,
    plan: &Plan,
    form: Compression,
    scratch: Option<&File>,
    out: &mut (dyn Write + Send),
    progress: &Progress,
) -> io::Result<Dumped> {
    if let Some(scratch) = scratch {
        let dumped = write(process, plan, scratch, progress)?;
        pack::file(scratch, dumped.size, form, out)?;
        out.flush()?;
        return Ok(dumped);
    }
    let phase = process.enter(Phase::Dump);
    progress.start(plan.bytes());
    let lost = pack::memory(process, plan, form, out, progress)?;
    check(process, lost)?;
    drop(phase);
    let tail = tail(process, lost);
    pack::part(&tail, form, out)?;
    out.flush()?;
    Ok(plan.dumped(tail.len()))
}

/// Fails if the process has ended. Its memory was then read as zeros, which is no core.
fn check(process: &Process, lost: bool) -> io::Result<()> {
    let has_ended = || {
        let sp = process.threads().first()?.registers.sp();
        let piece = process.space().pieces.at(sp)?;
        let page = sp.align_down(PAGE);
        let place = piece.state.place()?.checked_add(page.checked_since(piece.range.start)?)?;
        Some(process.target().copy(place, &mut [0; PAGE as usize]).is_err())
    };
    match lost && has_ended().unwrap_or(false) {
        true => Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the process ended before coremap had read all of its \
            memory",
        )),
        false => Ok(()),
    }
}

/// Resumes the process. Returns the note that describes the stop, which is at the end of the file.
fn tail(process: &Process, lost: bool) -> Vec<u8> {
    let stop = process.target().finish();
    let mut out = Vec::new();
    let how = stop.map(|stop| DumpStop { lasted: stop.lasted, timed_out: stop.timed_out, lost: lost || stop.lost });
    own_notes::add_stop(&mut out, &how.unwrap_or(DumpStop { lost, ..DumpStop::default() }));
    out
}
