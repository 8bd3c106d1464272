//! Copies memory from the process to the file. Zeros become holes, so memory that was never written takes no disk
//! space.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::addr::Addr;
use crate::dump::plan::{Part, Plan};
use crate::host::FileAt;
use crate::process::Process;
use crate::progress::Progress;
use crate::targets::reads::Loss;

/// Bytes that one task copies: one system call, whose data stays in a processor's cache.
const TASK: u64 = 1 << 20;

/// Zeros are skipped in units of this block size, which is usual for file systems.
const BLOCK: usize = 4096;

/// Minimum length of a hole in blocks. A shorter hole costs the file system more than zeros.
const MIN_HOLE: usize = 4;

/// Copies all parts. Returns whether something could not be read, and is zero.
pub(super) fn plain(process: &Process, plan: &Plan, file: &File, progress: &Progress) -> io::Result<bool> {
    let lost = AtomicBool::new(false);
    file.write_all_at(plan.head(), 0)?;
    tasks(plan.parts()).into_par_iter().try_for_each(|task| {
        let mut bytes = Vec::new();
        for part in task {
            bytes.clear();
            bytes.resize(part.len as usize, 0);
            if !fetch(process, part.place, &mut bytes) {
                lost.store(true, Ordering::Relaxed);
            }
            write_data(file, &bytes, part.at)?;
            progress.add(part.len);
        }
        io::Result::Ok(())
    })?;
    Ok(lost.into_inner())
}

/// Writes the last note, after the memory.
pub(super) fn at_end(file: &File, plan: &Plan, tail: &[u8]) -> io::Result<()> {
    file.write_all_at(tail, plan.end())
}

/// Groups parts into tasks of similar size, and splits large ones.
fn tasks(parts: &[Part]) -> Vec<Vec<Part>> {
    let mut out: Vec<Vec<Part>> = Vec::new();
    let mut room = 0;
    for part in parts {
        let mut done = 0;
        while done < part.len {
            if room == 0 {
                out.push(Vec::new());
                room = TASK;
            }
            let len = (part.len - done).min(room);
            if let Some(task) = out.last_mut() {
                task.push(Part { at: part.at + done, len, place: part.place + done });
            }
            done += len;
            room -= len;
        }
    }
    out
}

/// Reads `out` from target offset `place` on, page by page if one read fails. Returns `false` if some of it could not
/// be read, and is zero.
pub(super) fn fetch(process: &Process, place: u64, out: &mut [u8]) -> bool {
    let target = process.target();
    let mut whole = true;
    let mut step = usize::MAX;
    let mut done = 0;
    while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let len = rest.len().min(step);
        let rest = rest.get_mut(..len).unwrap_or_default();
        match target.copy(place + done as u64, rest) {
            Ok(n) if n > 0 => done += n,
            _ if len > BLOCK => {
                step = BLOCK;
                rest.fill(0);
            }
            _ => {
                rest.fill(0);
                done += len;
                whole = false;
            }
        }
    }
    if !whole {
        let addr = process.space().pieces.iter().find_map(|piece| {
            let skip = place.checked_sub(piece.state.place()?)?;
            (skip < piece.range.len()).then(|| piece.range.start.saturating_add(skip))
        });
        process.reads().lose(addr.unwrap_or(Addr::NULL), Loss::Failed);
    }
    whole
}

/// Writes the non-zero blocks of `bytes`.
fn write_data(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    let write = |blocks: std::ops::Range<usize>| {
        let (from, to) = (blocks.start * BLOCK, (blocks.end * BLOCK).min(bytes.len()));
        file.write_all_at(bytes.get(from..to).unwrap_or_default(), at + from as u64)
    };
    let mut data: Option<std::ops::Range<usize>> = None;
    for (number, block) in bytes.chunks(BLOCK).enumerate() {
        if is_zero(block) {
            continue;
        }
        match &mut data {
            Some(run) if number - run.end < MIN_HOLE => run.end = number + 1,
            run => {
                if let Some(done) = run.replace(number..number + 1) {
                    write(done)?;
                }
            }
        }
    }
    data.map_or(Ok(()), write)
}

pub(super) fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    words.iter().all(|words| words == &[0; 64]) && rest.iter().all(|&b| b == 0)
}
