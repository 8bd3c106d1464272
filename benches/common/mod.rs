//! Cores for the benches, made from the small real ones in testdata.
#![allow(dead_code, reason = "each bench uses its part")]

pub(crate) mod heap;
pub(crate) mod machine;
pub(crate) mod shapes;
pub(crate) mod threads;

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use coremap::addr::{Addr, AddrRange};
use coremap::core::open::Core;
use coremap::diag::Diagnostics;
use coremap::memory::scan::is_zero;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::targets::{PieceState, Target};

pub(crate) type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// All addresses.
pub(crate) const ALL: AddrRange = AddrRange { start: Addr::new(0), end: Addr::new(u64::MAX) };

/// Where extra memory goes: no process on Linux has anything there.
pub(crate) const FREE: u64 = 0x2000_0000_0000;

/// Bytes of one added mapping.
const MAPPING: u64 = 64 << 20;

pub(crate) const PAGE: u64 = 4096;

/// An unlinked file: nothing is left behind, whatever happens.
pub(crate) struct Scratch(File);

impl Scratch {
    /// Overwrite bytes of it.
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
    open(&sample_path(name))
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

/// Pages that real processes had in their memory.
pub(crate) fn real_bytes(zeros: bool) -> Fallible<Vec<u8>> {
    let mut out = Vec::new();
    for name in ["dotnet31-kernel/core.zst", "dotnet31-createdump/core.zst", "native-glibc-kernel/core.gz"] {
        let sample = sample(name)?;
        let target: &dyn Target = &sample;
        for run in target.dumped_runs(ALL) {
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

/// A PT_LOAD to add.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    /// PF_R, PF_W and PF_X.
    pub(crate) flags: u32,
    /// Whether its bytes are in the file.
    pub(crate) dumped: bool,
}

impl Load {
    /// Readable and writable, with bytes.
    pub(crate) fn data(addr: u64, len: u64) -> Load {
        Load { addr, len, flags: 6, dumped: true }
    }

    /// Its bytes in the file.
    pub(crate) fn in_file(&self) -> u64 {
        if self.dumped { self.len } else { 0 }
    }
}

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;

fn program_header(kind: u32, flags: u32, words: [u64; 6]) -> Vec<u8> {
    let mut out = Vec::with_capacity(56);
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Fallible<u16> {
    Ok(u16::from_le_bytes(bytes.get(at..at + 2).ok_or("short")?.try_into()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Fallible<u64> {
    Ok(u64::from_le_bytes(bytes.get(at..at + 8).ok_or("short")?.try_into()?))
}

/// The sample core `name` with `extra` more bytes of anonymous memory.
pub(crate) fn grown(name: &str, extra: u64, of: Fill) -> Fallible<Scratch> {
    grown_by(name, extra, MAPPING, of)
}

/// The same, in mappings of so many bytes.
pub(crate) fn grown_by(name: &str, extra: u64, mapping: u64, of: Fill) -> Fallible<Scratch> {
    let core = sample(name)?;
    let mut loads = Vec::new();
    let mut added = 0;
    while added < extra {
        let len = mapping.min(extra - added);
        // A gap after each, so that they stay mappings of their own.
        loads.push(Load::data(FREE + added + added / mapping * PAGE, len));
        added += len;
    }
    extended(tempfile::tempfile()?, &core, &loads, &[], |file| match of {
        Fill::Hole => Ok(file.set_len(file.metadata()?.len() + extra)?),
        _ => fill(file, extra, of == Fill::Real),
    })
}

/// The notes of a core, as they lie in its file: offset and bytes.
pub(crate) fn notes(core: &Core) -> Fallible<(u64, &[u8])> {
    for header in headers(core)?.chunks_exact(56) {
        if header.starts_with(&PT_NOTE.to_le_bytes()) {
            let (offset, len) = (u64_at(header, 8)? as usize, u64_at(header, 32)? as usize);
            return Ok((offset as u64, core.bytes().get(offset..offset + len).ok_or("notes")?));
        }
    }
    Err("no notes".into())
}

const PHOFF: usize = 32;
const SHOFF: usize = 40;
const PHNUM: usize = 56;
/// Of `e_phnum` where the number of segments stands in `sh_info` of the first section (elf(5)).
const PN_XNUM: u16 = 0xffff;

fn headers(core: &Core) -> Fallible<&[u8]> {
    let bytes = core.bytes();
    let (at, count) = (u64_at(bytes, PHOFF)? as usize, usize::from(u16_at(bytes, PHNUM)?));
    Ok(bytes.get(at..at + 56 * count).ok_or("program headers")?)
}

/// Write a core with more mappings and notes to an empty file; `write` appends
/// the bytes of the mappings, one after the other.
pub(crate) fn extended(
    mut file: File,
    core: &Core,
    loads: &[Load],
    more_notes: &[u8],
    write: impl FnOnce(&mut File) -> Fallible,
) -> Fallible<Scratch> {
    let bytes = core.bytes();
    let mut table = headers(core)?.to_vec();
    let mut end = (bytes.len() as u64).next_multiple_of(PAGE);
    file.write_all(bytes)?;
    file.set_len(end)?;
    for load in loads {
        table.extend(program_header(PT_LOAD, load.flags, [end, load.addr, 0, load.in_file(), load.len, PAGE]));
        end += load.in_file();
    }
    write(&mut file)?;
    file.set_len(end)?;
    if !more_notes.is_empty() {
        let mut all = notes(core)?.1.to_vec();
        all.extend_from_slice(more_notes);
        let header = program_header(PT_NOTE, 0, [end, 0, 0, all.len() as u64, 0, 4]);
        for old in table.chunks_exact_mut(56).filter(|h| h.starts_with(&PT_NOTE.to_le_bytes())) {
            old.copy_from_slice(&header);
        }
        file.write_all_at(&all, end)?;
        end = (end + all.len() as u64).next_multiple_of(PAGE);
    }
    // The longer table goes to the end.
    file.write_all_at(&table, end)?;
    file.write_all_at(&end.to_le_bytes(), PHOFF as u64)?;
    let count = table.len() / 56;
    let short = u16::try_from(count).ok().filter(|&n| n < PN_XNUM);
    file.write_all_at(&short.unwrap_or(PN_XNUM).to_le_bytes(), PHNUM as u64)?;
    if short.is_none() {
        let mut section = [0u8; 64];
        section[44..48].copy_from_slice(&u32::try_from(count)?.to_le_bytes());
        end += table.len() as u64;
        file.write_all_at(&section, end)?;
        file.write_all_at(&end.to_le_bytes(), SHOFF as u64)?;
        // e_shentsize, e_shnum, e_shstrndx
        file.write_all_at(&[64, 0, 1, 0, 0, 0], PHNUM as u64 + 2)?;
    }
    Ok(Scratch(file))
}

/// Where in a core's file the byte at an address lies.
pub(crate) fn offset_of(core: &Core, addr: Addr) -> Fallible<u64> {
    let piece = core.facts.space.pieces.at(addr).ok_or("not mapped")?;
    match piece.state {
        PieceState::Dumped(offset) => Ok(offset + addr.since(piece.range.start)),
        _ => Err("not dumped".into()),
    }
}

/// The process of a core.
pub(crate) fn process(path: &Path) -> Fallible<Process> {
    Ok(Process::open(path, &Options::default(), &Progress::silent())?)
}

/// Path of a sample core.
pub(crate) fn sample_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cores").join(name)
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
