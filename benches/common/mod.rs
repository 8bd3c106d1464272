//! Cores for the benches, made from the small real ones in testdata.
#![allow(dead_code, reason = "each bench uses its part")]

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use coremap::addr::{Addr, AddrRange};
use coremap::core::Core;
use coremap::diag::Diagnostics;
use coremap::memory::scan::is_zero;
use coremap::progress::Progress;

pub(crate) type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// All addresses.
pub(crate) const ALL: AddrRange = AddrRange { start: Addr(0), end: Addr(u64::MAX) };

/// Where extra memory goes: no process on Linux has anything there.
pub(crate) const FREE: u64 = 0x2000_0000_0000;

/// Bytes of one added mapping.
const MAPPING: u64 = 64 << 20;

pub(crate) const PAGE: u64 = 4096;

/// An unlinked file: nothing is left behind, whatever happens.
pub(crate) struct Scratch(File);

impl Scratch {
    /// Overwrite bytes of it.
    #[allow(dead_code, reason = "each bench uses its part")]
    pub(crate) fn patch(&self, offset: u64, bytes: &[u8]) -> Fallible {
        Ok(self.0.write_all_at(bytes, offset)?)
    }

    /// A path to it that holds in this process and its children.
    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}

/// Open a core without a word on what is missing from it.
pub(crate) fn open(path: &Path) -> Fallible<Core> {
    Ok(Core::open(path, &Diagnostics::default(), &Progress::silent())?)
}

pub(crate) fn sample(name: &str) -> Fallible<Core> {
    open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cores").join(name))
}

/// What the memory added to a core is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// What real processes had in their memory; about three quarters are zero pages.
    Real,
    /// The same without its zero pages.
    Written,
    /// A hole of the file.
    Hole,
}

fn real_bytes(zeros: bool) -> Fallible<Vec<u8>> {
    let mut out = Vec::new();
    for name in ["dotnet31-kernel.core.zst", "dotnet31-createdump.core.zst", "native-glibc-kernel.core.gz"] {
        for run in sample(name)?.dumped_runs(ALL) {
            let pages = run.bytes.chunks_exact(PAGE as usize);
            pages.filter(|p| zeros || !is_zero(p)).for_each(|p| out.extend_from_slice(p));
        }
    }
    Ok(out)
}

/// Write `len` real bytes at the file's end.
fn fill(file: &mut File, len: u64, zeros: bool) -> Fallible {
    file.seek(SeekFrom::End(0))?;
    let bytes = real_bytes(zeros)?;
    let mut left = len as usize;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    while left > 0 {
        let n = left.min(bytes.len());
        out.write_all(&bytes[..n])?;
        left -= n;
    }
    Ok(out.flush()?)
}

/// A PT_LOAD, readable and writable.
fn program_header(offset: u64, addr: u64, len: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(56);
    out.extend_from_slice(&1u32.to_le_bytes());
    out.extend_from_slice(&6u32.to_le_bytes());
    for word in [offset, addr, 0, len, len, PAGE] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out
}

fn u16_at(bytes: &[u8], at: usize) -> Fallible<u16> {
    Ok(u16::from_le_bytes(bytes.get(at..at + 2).ok_or("short")?.try_into()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Fallible<u64> {
    Ok(u64::from_le_bytes(bytes.get(at..at + 8).ok_or("short")?.try_into()?))
}

/// The sample core `name` with `extra` more bytes of anonymous memory.
#[allow(dead_code, reason = "each bench uses its part")]
pub(crate) fn grown(name: &str, extra: u64, of: Fill) -> Fallible<Scratch> {
    let core = sample(name)?;
    let mut loads = Vec::new();
    let mut added = 0;
    while added < extra {
        let len = MAPPING.min(extra - added);
        // A gap after each, so that they stay mappings of their own.
        loads.push((FREE + added + added / MAPPING * PAGE, len));
        added += len;
    }
    extended(&core, &loads, |file| match of {
        Fill::Hole => Ok(file.set_len(file.metadata()?.len() + extra)?),
        _ => fill(file, extra, of == Fill::Real),
    })
}

/// A core with more mappings, given by address and length; `write` appends
/// their bytes to the file, one mapping after the other.
pub(crate) fn extended(
    core: &Core,
    loads: &[(u64, u64)],
    write: impl FnOnce(&mut File) -> Fallible,
) -> Fallible<Scratch> {
    const PHOFF: usize = 32;
    const PHNUM: usize = 56;
    let bytes = core.bytes();
    let (headers, count) = (u64_at(bytes, PHOFF)? as usize, usize::from(u16_at(bytes, PHNUM)?));
    let mut table = bytes.get(headers..headers + 56 * count).ok_or("program headers")?.to_vec();
    let mut end = (bytes.len() as u64).next_multiple_of(PAGE);
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.set_len(end)?;
    for &(addr, len) in loads {
        table.extend(program_header(end, addr, len));
        end += len;
    }
    write(&mut file)?;
    file.set_len(end)?;
    // The longer table goes to the end.
    file.write_all_at(&table, end)?;
    file.write_all_at(&end.to_le_bytes(), PHOFF as u64)?;
    file.write_all_at(&u16::try_from(table.len() / 56)?.to_le_bytes(), PHNUM as u64)?;
    Ok(Scratch(file))
}

/// A core as a plain file, whatever packs it.
pub(crate) fn plain(path: &Path) -> Fallible<Scratch> {
    let core = open(path)?;
    let mut file = tempfile::tempfile()?;
    file.write_all(core.bytes())?;
    Ok(Scratch(file))
}

/// Whether the bench is to measure, and not only to show that it runs.
pub(crate) fn measuring() -> bool {
    !std::env::args().any(|a| a == "--test" || a == "--list")
}
