//! Writes the notes of a core, as [`notes`](crate::core::notes) reads them, in the kernel's order (fs/binfmt_elf.c
//! `write_note_info`).

use crate::core::notes::{nt, prpsinfo};
use crate::core::{own_notes, prstatus};
use crate::targets::dump_notes::{DumpNotes, RegisterSet, ThreadNotes};
use crate::targets::{Facts, FileMapping, ProcessInfo, Thread};

/// Length of `struct elf_prpsinfo` (64-bit Linux) in bytes.
const PRPSINFO: usize = 136;

/// Unit of offsets in NT_FILE, as the kernel writes it.
const FILE_PAGE: u64 = 4096;

/// Appends a note (elf(5) `Elf64_Nhdr`).
pub(crate) fn add(out: &mut Vec<u8>, owner: &str, kind: u32, desc: &[u8]) {
    // A note can't have more than 4 GiB.
    let Ok(len) = u32::try_from(desc.len()) else { return };
    out.extend((owner.len() as u32 + 1).to_le_bytes());
    out.extend(len.to_le_bytes());
    out.extend(kind.to_le_bytes());
    out.extend(owner.bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend(desc);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Appends all notes that a kernel's core of the process would have, without those for a signal.
pub(crate) fn of_process(out: &mut Vec<u8>, facts: &Facts, notes: &DumpNotes) {
    let unknown = ProcessInfo::default();
    let process = facts.process.as_ref().unwrap_or(&unknown);
    let none = ThreadNotes::default();
    let more = |thread: &Thread| notes.threads.get(&thread.tid).unwrap_or(&none);
    let registers = |out: &mut Vec<u8>, thread: &Thread| {
        add(out, "CORE", nt::PRSTATUS, &prstatus::bytes_of(thread, more(thread), process, notes));
    };
    let others = |out: &mut Vec<u8>, thread: &Thread| {
        for RegisterSet { kind, bytes } in &more(thread).sets {
            let owner = if *kind == nt::FPREGSET { "CORE" } else { "LINUX" };
            add(out, owner, *kind, bytes);
        }
    };
    let (first, rest) = facts.threads.split_first().map_or((None, [].as_slice()), |(first, rest)| (Some(first), rest));
    if let Some(first) = first {
        registers(out, first);
    }
    add(out, "CORE", nt::PRPSINFO, &psinfo(process, notes));
    add(out, "CORE", nt::AUXV, &auxv(&facts.auxv));
    add(out, "CORE", nt::FILE, &files(&facts.space.files));
    if let Some(first) = first {
        others(out, first);
    }
    for thread in rest {
        registers(out, thread);
        others(out, thread);
    }
    own_notes::of_process(out, facts, notes);
}

fn psinfo(process: &ProcessInfo, notes: &DumpNotes) -> Vec<u8> {
    let mut out = vec![0; PRPSINFO];
    let mut put = |at: usize, bytes: &[u8]| out.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
    // pr_state, pr_sname, pr_zomb, pr_nice: stopped.
    put(0, &[3, b'T', 0, notes.nice.to_le_bytes()[0]]);
    put(8, &notes.flags.to_le_bytes());
    for (at, value) in [
        (prpsinfo::UID, process.uid),
        (prpsinfo::GID, process.gid),
        (prpsinfo::PID, process.pid),
        (prpsinfo::PPID, process.ppid),
        (prpsinfo::PPID + 4, notes.group),
        (prpsinfo::PPID + 8, notes.session),
    ] {
        put(at, &value.to_le_bytes());
    }
    // Both end with a NUL.
    put(prpsinfo::NAME, cut(&process.name, prpsinfo::NAME_LEN - 1));
    put(prpsinfo::ARGS, cut(&process.args, prpsinfo::ARGS_LEN - 1));
    out
}

fn cut(text: &str, most: usize) -> &[u8] {
    let bytes = text.as_bytes();
    bytes.get(..most).unwrap_or(bytes)
}

fn auxv(entries: &[(u64, u64)]) -> Vec<u8> {
    let end = [(0, 0)];
    entries.iter().chain(&end).flat_map(|(key, value)| [key.to_le_bytes(), value.to_le_bytes()]).flatten().collect()
}

fn files(files: &[FileMapping]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut word = |value: u64| out.extend(value.to_le_bytes());
    word(files.len() as u64);
    word(FILE_PAGE);
    for file in files {
        word(file.range.start.get());
        word(file.range.end.get());
        word(file.offset / FILE_PAGE);
    }
    for file in files {
        // The kernel's paths have no NUL. One with a NUL would shift those after it.
        out.extend(file.path.split('\0').next().unwrap_or_default().as_bytes());
        out.push(0);
    }
    out
}
