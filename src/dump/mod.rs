//! A core of a process that runs: notes, and as much of its memory as is asked for.
//!
//! | file | holds |
//! |---|---|
//! | `plan` | which bytes are kept, and where in the file they stand |
//! | `copy` | from the process to the file, with holes where there are zeros |
//! | `pack` | the same as a compressed stream |
//! | `debugger` | what a debugger asks for first, whatever was asked for |
//!
//! What it writes is a core as the kernel would write it, with notes of our own ([`core::own_notes`](crate::core), docs/live.md).
//! Nothing here stops a process or lets it go but the end of the copy: that is the target's affair, and any target can be written.

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
use crate::targets::dump_notes::Standstill;
use crate::words::Compression;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dumped {
    /// Bytes of memory kept.
    pub kept: u64,
    /// Bytes of memory that the process has, as a core would hold them.
    pub of: u64,
    /// Segments of memory.
    pub segments: usize,
    /// Length of the core in bytes, before it is packed.
    pub size: u64,
}

/// Write the core to `file`, which is empty, with holes for zeros; the process goes on once its memory is copied.
///
/// # Errors
/// Those of writing.
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

/// The same as a stream, compressed in parts that are each whole for themselves. The process stands still as long as that takes,
/// unless it is only packed what `scratch`, an empty file, was written to before.
///
/// # Errors
/// Those of writing.
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

/// What is copied of a process that ended meanwhile is zeros: that is no core.
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

/// Let the process go on; the note that says how it stood, which is the last part of the file.
fn tail(process: &Process, lost: bool) -> Vec<u8> {
    let stood = process.target().finish();
    let mut out = Vec::new();
    let how =
        stood.map(|stood| Standstill { lasted: stood.lasted, timed_out: stood.timed_out, lost: lost || stood.lost });
    own_notes::add_stood(&mut out, &how.unwrap_or(Standstill { lost, ..Standstill::default() }));
    out
}
