//! Parses the notes of a core: threads, process, signal, auxiliary vector and file mappings.
//!
//! The note header is elf(5) `Elf64_Nhdr`, with both parts padded to 4 bytes. The contents follow linux/elfcore.h
//! (`elf_prpsinfo`), `siginfo_t`, and fs/binfmt_elf.c `fill_files_note` for NT_FILE.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::core::elf;
use crate::core::own_notes::{self, OwnNotes};
use crate::core::prstatus;
use crate::diag::{Diagnostics, WarningCode};
use crate::limits;
use crate::targets::threads::UNNUMBERED;
use crate::targets::{Arch, FileMapping, ProcessInfo, Reads, RecordedCall, SignalInfo, Thread};

/// Note types used here, of owner "CORE" or "LINUX" (elf.h).
pub mod nt {
    pub const PRSTATUS: u32 = 1;
    pub const FPREGSET: u32 = 2;
    pub const PRPSINFO: u32 = 3;
    pub(crate) const AUXV: u32 = 6;
    pub(crate) const X86_XSTATE: u32 = 0x202;
    pub(crate) const ARM_TLS: u32 = 0x401;
    pub(crate) const ARM_PAC_MASK: u32 = 0x406;
    pub(crate) const ARM_SYSTEM_CALL: u32 = 0x404;
    pub(crate) const FILE: u32 = 0x4649_4c45;
    pub const SIGINFO: u32 = 0x5349_4749;
}

/// Offsets in `struct elf_prpsinfo` of 64-bit Linux, in bytes.
pub(super) mod prpsinfo {
    pub(in crate::core) const UID: usize = 16;
    pub(in crate::core) const GID: usize = 20;
    pub(in crate::core) const PID: usize = 24;
    pub(in crate::core) const PPID: usize = 28;
    pub(in crate::core) const NAME: usize = 40;
    pub(in crate::core) const NAME_LEN: usize = 16;
    pub(in crate::core) const ARGS: usize = 56;
    pub(in crate::core) const ARGS_LEN: usize = 80;
}

/// Offsets in `siginfo_t`, in bytes.
mod siginfo {
    pub(super) const SIGNO: usize = 0;
    pub(super) const CODE: usize = 8;
    pub(super) const ADDR: usize = 16;
}

/// The contents of all known notes, and the owners and types that show the producer.
#[derive(Default)]
pub struct Notes {
    /// Threads in note order. The kernel writes the crashing one first.
    pub threads: Vec<Thread>,
    /// Whether threads may be missing, because notes are cut off or one could not be read.
    pub threads_lost: bool,
    /// Whether the first NT_PRSTATUS could not be read. The first entry of `threads` is then another thread.
    pub first_thread_lost: bool,
    /// NT_PRPSINFO.
    pub process: Option<ProcessInfo>,
    /// The first NT_SIGINFO.
    pub signal: Option<SignalInfo>,
    /// The thread whose NT_PRSTATUS precedes that note.
    pub signal_tid: Option<u32>,
    /// Index of that thread in `threads`.
    signal_thread: Option<usize>,
    /// Whether the first NT_SIGINFO could not be read. Later ones belong to other threads.
    pub signal_lost: bool,
    /// NT_AUXV: (type, value), without the final AT_NULL.
    pub auxv: Vec<(u64, u64)>,
    /// NT_FILE, sorted by address as found.
    pub files: Vec<FileMapping>,
    /// Unit of the offsets in NT_FILE: 4096 from the kernel and createdump, 1 from gdb.
    pub file_page_size: Option<u64>,
    /// The notes that coremap writes into its own cores.
    pub own: OwnNotes,
    /// Source of the core, if an owner shows that it is not from a Linux process.
    pub(super) foreign: Option<&'static str>,
    /// Owner and type of the first notes in order, and of all gdb notes. Used to detect the producer.
    pub order: Vec<(String, u32)>,
}

/// Maximum length of `order`, apart from gdb's notes: enough to see two threads.
const MAX_ORDER: usize = 64;

/// Parses the note segments, given by file offset and size.
pub fn read(file: &[u8], segments: &[(u64, u64)], arch: Arch, reads: &Reads, diag: &Diagnostics) -> Notes {
    let mut notes = Notes::default();
    let mut seen: Vec<std::ops::Range<usize>> = Vec::new();
    for &(offset, size) in segments {
        let start = offset.min(file.len() as u64) as usize;
        let end = offset.saturating_add(size).min(file.len() as u64) as usize;
        if ((end - start) as u64) < size {
            diag.partial(
                WarningCode::NotesCut,
                format!("the notes are cut off: {} of {size} bytes are in the file", end - start),
            );
            notes.threads_lost = true;
        }
        // Headers that name the same bytes again would multiply their contents.
        if seen.iter().any(|r| r.start < end && start < r.end) {
            diag.partial(WarningCode::NotesOverlap, "two note segments overlap; the first is used");
            continue;
        }
        if seen.len() >= limits::MAX_NOTE_SEGMENTS {
            diag.partial(
                WarningCode::Limit,
                format!("more than {} note segments; the others are ignored", limits::MAX_NOTE_SEGMENTS),
            );
            break;
        }
        seen.push(start..end);
        read_segment(&file[start..end], arch, &mut notes, reads, diag);
    }
    number(&mut notes, diag);
    if notes.threads.is_empty() {
        diag.partial(WarningCode::NoThreads, "the core has no thread registers (NT_PRSTATUS)");
    }
    notes
}

/// Numbers threads without an ID of their own by position. Some producers write 0 or the process ID for all.
fn number(notes: &mut Notes, diag: &Diagnostics) {
    let mut times: HashMap<u32, usize> = HashMap::new();
    for thread in &notes.threads {
        *times.entry(thread.tid).or_default() += 1;
    }
    let mut count = 0;
    for (position, thread) in (0..UNNUMBERED).zip(&mut notes.threads) {
        let is_own = thread.tid != 0 && thread.tid < UNNUMBERED && times.get(&thread.tid) == Some(&1);
        if !is_own {
            thread.tid = UNNUMBERED | position;
            count += 1;
        }
    }
    notes.signal_tid = notes.signal_thread.and_then(|at| notes.threads.get(at)).map(|t| t.tid);
    if count > 0 {
        diag.note(
            WarningCode::ThreadsUnnumbered,
            format!(
                "the core has no ids of their own for {count} of {} threads; they are numbered by position (#1, #2 …)",
                notes.threads.len()
            ),
        );
    }
}

fn read_segment(mut rest: &[u8], arch: Arch, notes: &mut Notes, reads: &Reads, diag: &Diagnostics) {
    // Whether the notes belong to the last thread of the list. Not if their thread's registers could not be read.
    let mut current = false;
    while rest.len() >= 12 {
        if reads.fails() {
            diag.partial(
                WarningCode::NotesCut,
                "a note could not be read; it and all later notes are missing (threads, files, signal)",
            );
            notes.threads_lost = true;
            return;
        }
        let Some((owner, kind, desc, next)) = split_note(rest) else {
            diag.partial(
                WarningCode::NotesCut,
                "a note extends past the end of the notes; it and all later notes are missing",
            );
            notes.threads_lost = true;
            return;
        };
        rest = next;
        if notes.order.len() < MAX_ORDER || owner == b"GDB" {
            notes.order.push((String::from_utf8_lossy(owner).into_owned(), kind));
        }
        // QEMU copies the guest kernel's VMCOREINFO.
        if notes.foreign.is_none() || owner == b"QEMU" {
            notes.foreign = elf::system_by_owner(owner).or(notes.foreign);
        }
        let Some(loses) = loses(owner, kind) else { continue };
        let lost = reads.fails();
        if lost {
            diag.partial(WarningCode::NoteUnread, format!("a note of type {kind:#x} could not be read: {loses}"));
        }
        if (owner, kind) == (b"CORE", nt::PRSTATUS) {
            let before = notes.threads.len();
            let thread = if lost { None } else { prstatus::parse(desc, arch) };
            match thread {
                Some(_) if before >= limits::MAX_THREADS => {
                    diag.partial(
                        WarningCode::Limit,
                        format!("more than {} threads; the others are ignored", limits::MAX_THREADS),
                    );
                }
                Some(thread) => notes.threads.push(thread),
                None if lost => {}
                None => diag.partial(
                    WarningCode::NoteShort,
                    format!("NT_PRSTATUS has {} bytes, too few: a thread is missing", desc.len()),
                ),
            }
            current = notes.threads.len() > before;
            notes.threads_lost |= !current;
            notes.first_thread_lost |= !current && before == 0;
            continue;
        }
        if lost {
            notes.signal_lost |= kind == nt::SIGINFO;
            continue;
        }
        match (owner, kind) {
            (b"CORE", nt::PRPSINFO) => match parse_prpsinfo(desc) {
                Some(info) => notes.process = Some(info),
                None => diag.partial(
                    WarningCode::NoteShort,
                    format!(
                        "NT_PRPSINFO has {} bytes, too few: process ID and name are \
                                                            missing",
                        desc.len()
                    ),
                ),
            },
            (own_notes::OWNER_BYTES, kind) => notes.own.take(kind, desc),
            (b"CORE", nt::AUXV) => notes.auxv = parse_auxv(desc),
            (b"CORE", nt::FILE) => parse_files(desc, notes, diag),
            (b"CORE", nt::SIGINFO) if notes.signal.is_none() && !notes.signal_lost => {
                notes.signal = parse_siginfo(desc);
                notes.signal_thread = notes.threads.len().checked_sub(1).filter(|_| current);
            }
            (b"LINUX", nt::ARM_TLS) => {
                let tp = bytes::u64_at(desc, 0).filter(|&v| v != 0).map(Addr::new);
                if let Some(thread) = notes.threads.last_mut().filter(|_| current) {
                    thread.thread_pointer = thread.thread_pointer.or(tp);
                }
            }
            (b"LINUX", nt::ARM_PAC_MASK) => {
                // `struct user_pac_mask` (asm/ptrace.h): the masks of data and of code addresses. No kernel gives a process
                // less than 36 bits of addresses.
                if let Some(mask) = bytes::u64_at(desc, 8).filter(|mask| arch == Arch::Aarch64 && *mask << 28 == 0)
                    && let Some(thread) = notes.threads.last_mut().filter(|_| current)
                {
                    thread.registers.set_signature(mask);
                }
            }
            (b"LINUX", nt::ARM_SYSTEM_CALL) => {
                if let Some(thread) = notes.threads.last_mut().filter(|_| current) {
                    // An i32; -1 outside of a system call.
                    let number = bytes::i32_at(desc, 0).map(|number| u64::try_from(number).ok());
                    thread.call = number.map(|number| RecordedCall { number, arguments: None });
                }
            }
            _ => {}
        }
    }
}

/// Data missing from the answer without this note. `None` if the note is not used.
fn loses(owner: &[u8], kind: u32) -> Option<&'static str> {
    Some(match (owner, kind) {
        (b"CORE", nt::PRSTATUS) => "a thread is missing",
        (b"CORE", nt::PRPSINFO) => "process ID and name are missing",
        (b"CORE", nt::AUXV) => {
            "the auxiliary vector is missing, so the program and the main stack are found by weaker \
                                evidence"
        }
        (b"CORE", nt::FILE) => {
            "the file list is missing, so modules are missing and mapped files count as anonymous memory"
        }
        (b"CORE", nt::SIGINFO) => "the signal is missing",
        (b"LINUX", nt::ARM_SYSTEM_CALL) => "a thread's system call is missing",
        (b"LINUX", nt::ARM_TLS) => "a thread pointer is missing, so its stack has its mapping's bounds",
        (b"LINUX", nt::ARM_PAC_MASK) => {
            "signatures of a thread's return addresses have unknown bits, so frames may be missing"
        }
        (own_notes::OWNER_BYTES, kind) => return OwnNotes::loses(kind),
        _ => return None,
    })
}

/// A note of a segment, with its position.
pub(super) struct Placed<'b> {
    pub(super) owner: &'b [u8],
    pub(super) kind: u32,
    /// Range of its descriptor in the segment.
    pub(super) desc: std::ops::Range<usize>,
}

/// Iterates over the notes of a segment.
#[derive(Default)]
pub(super) struct Cursor {
    /// Offset of the next note.
    pub(super) at: usize,
}

impl Cursor {
    /// The next note of `segment`. `None` at the end, or if the note reaches past the end.
    pub(super) fn next<'b>(&mut self, segment: &'b [u8]) -> Option<Placed<'b>> {
        let rest = segment.get(self.at..)?;
        let (owner, kind, desc, next) = split_note(rest)?;
        let before = segment.len() - next.len();
        // Its padding may be missing, so count from the header.
        let start = self.at + 12 + (bytes::u32_at(rest, 0)? as usize).checked_next_multiple_of(4)?;
        self.at = before;
        Some(Placed { owner, kind, desc: start..start + desc.len() })
    }
}

/// Owner (without its NUL), type, descriptor, rest.
type Note<'a> = (&'a [u8], u32, &'a [u8], &'a [u8]);

fn split_note(b: &[u8]) -> Option<Note<'_>> {
    let name_len = bytes::u32_at(b, 0)? as usize;
    let desc_len = bytes::u32_at(b, 4)? as usize;
    let kind = bytes::u32_at(b, 8)?;
    let owner = bytes::until_nul(bytes::get(b, 12, name_len)?);
    let desc_at = 12 + name_len.checked_next_multiple_of(4)?;
    let desc = bytes::get(b, desc_at, desc_len)?;
    let owner = if owner.is_empty() { owner_by_contents(kind, desc).unwrap_or(owner) } else { owner };
    // The last note's padding may be missing.
    let next = (desc_at + desc_len.checked_next_multiple_of(4)?).min(b.len());
    Some((owner, kind, desc, &b[next..]))
}

/// Returns the owner of a note that names none, by the note's type and size. Delve's `dump` writes such notes.
fn owner_by_contents(kind: u32, desc: &[u8]) -> Option<&'static [u8]> {
    /// Sizes of `elf_prstatus`, of `elf_prpsinfo` and of `siginfo_t` in bytes, on x86_64 and aarch64.
    const PRSTATUS: [usize; 2] = [336, 392];
    const PRPSINFO: usize = 136;
    const SIGINFO: usize = 128;
    /// Size of NT_FPREGSET in bytes.
    const FPREGSET: [usize; 2] = [512, 528];
    /// Least size of an XSAVE area: the legacy region and the header.
    const MIN_XSTATE: usize = 576;
    let is_auxv = || desc.len() >= 16 && desc.len().is_multiple_of(16) && desc.ends_with(&[0; 8]);
    match kind {
        nt::PRSTATUS if PRSTATUS.contains(&desc.len()) => Some(b"CORE"),
        nt::PRPSINFO if desc.len() == PRPSINFO => Some(b"CORE"),
        nt::SIGINFO if desc.len() == SIGINFO => Some(b"CORE"),
        nt::FPREGSET if FPREGSET.contains(&desc.len()) => Some(b"CORE"),
        nt::AUXV if is_auxv() => Some(b"CORE"),
        nt::FILE => Some(b"CORE"),
        nt::ARM_TLS if [8, 16].contains(&desc.len()) => Some(b"LINUX"),
        nt::X86_XSTATE if desc.len() >= MIN_XSTATE => Some(b"LINUX"),
        _ => None,
    }
}

fn parse_prpsinfo(desc: &[u8]) -> Option<ProcessInfo> {
    Some(ProcessInfo {
        pid: bytes::u32_at(desc, prpsinfo::PID)?,
        ppid: bytes::u32_at(desc, prpsinfo::PPID)?,
        uid: bytes::u32_at(desc, prpsinfo::UID)?,
        gid: bytes::u32_at(desc, prpsinfo::GID)?,
        name: bytes::text(bytes::get(desc, prpsinfo::NAME, prpsinfo::NAME_LEN)?),
        args: bytes::text(bytes::get(desc, prpsinfo::ARGS, prpsinfo::ARGS_LEN)?).trim_end().to_owned(),
    })
}

fn parse_siginfo(desc: &[u8]) -> Option<SignalInfo> {
    Some(SignalInfo {
        signo: bytes::i32_at(desc, siginfo::SIGNO)?,
        code: bytes::i32_at(desc, siginfo::CODE)?,
        addr: Addr::new(bytes::u64_at(desc, siginfo::ADDR)?),
    })
}

fn parse_auxv(desc: &[u8]) -> Vec<(u64, u64)> {
    desc.chunks_exact(16)
        .map_while(|pair| Some((bytes::u64_at(pair, 0)?, bytes::u64_at(pair, 8)?)))
        .take_while(|&(key, _)| key != 0)
        .collect()
}

fn parse_files(desc: &[u8], notes: &mut Notes, diag: &Diagnostics) {
    let (Some(promised), Some(page)) = (bytes::u64_at(desc, 0), bytes::u64_at(desc, 8)) else {
        diag.partial(
            WarningCode::NoteShort,
            format!("NT_FILE has {} bytes, too few: the file list is missing", desc.len()),
        );
        return;
    };
    let room = desc.len().saturating_sub(16) / 24;
    let left = limits::MAX_FILE_MAPPINGS.saturating_sub(notes.files.len());
    let count = usize::try_from(promised).unwrap_or(usize::MAX).min(room).min(left);
    if (count as u64) < promised {
        diag.partial(
            WarningCode::FilesCount,
            format!("NT_FILE promises {promised} files but has {count}; the others are missing"),
        );
    }
    notes.file_page_size = Some(page);
    let mut names = &desc[16 + 24 * count..];
    let mut known: HashMap<&[u8], Arc<str>> = HashMap::new();
    for i in 0..count {
        let at = 16 + 24 * i;
        let (Some(start), Some(end), Some(offset)) =
            (bytes::u64_at(desc, at), bytes::u64_at(desc, at + 8), bytes::u64_at(desc, at + 16))
        else {
            break;
        };
        let name = bytes::until_nul(names);
        names = names.get(name.len() + 1..).unwrap_or_default();
        let path = known
            .entry(name)
            .or_insert_with(|| String::from_utf8_lossy(&name[..name.len().min(limits::MAX_NAME)]).into())
            .clone();
        let range = AddrRange::new(Addr::new(start), Addr::new(end));
        if range.is_empty() {
            diag.partial(WarningCode::FilesRange, format!("NT_FILE entry {i} ends before it starts; it is ignored"));
            continue;
        }
        let offset = offset.saturating_mul(page.max(1));
        notes.files.push(FileMapping { range, offset, path });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &str, kind: u32, desc: &[u8]) -> Vec<u8> {
        let mut b = Vec::new();
        b.extend((owner.len() as u32 + 1).to_le_bytes());
        b.extend((desc.len() as u32).to_le_bytes());
        b.extend(kind.to_le_bytes());
        b.extend(owner.bytes());
        b.resize(12 + (owner.len() + 1).next_multiple_of(4), 0);
        b.extend(desc);
        b.resize(b.len().next_multiple_of(4), 0);
        b
    }

    #[test]
    fn a_lying_count_of_files_is_cut_to_what_is_there() {
        let mut desc = Vec::new();
        for v in [u64::MAX, 4096, 0x1000, 0x3000, 2] {
            desc.extend(v.to_le_bytes());
        }
        desc.extend(b"/x/y\0");
        let file = note("CORE", nt::FILE, &desc);
        let diag = Diagnostics::default();
        let notes = read(&file, &[(0, file.len() as u64)], Arch::X86_64, &Reads::default(), &diag);
        assert_eq!(notes.files.len(), 1);
        assert_eq!(notes.files[0].offset, 8192);
        assert_eq!(&*notes.files[0].path, "/x/y");
        assert!(diag.is_partial());
    }

    #[test]
    fn notes_cut_at_every_byte_do_not_panic() {
        let mut file = note("CORE", nt::PRPSINFO, &[0; 136]);
        file.extend(note("CORE", nt::PRSTATUS, &[0; 336]));
        file.extend(note("GDB", 0xff00_0000, b"x"));
        for n in 0..file.len() {
            let notes = read(&file[..n], &[(0, u64::MAX)], Arch::X86_64, &Reads::default(), &Diagnostics::default());
            assert!(notes.threads.len() <= 1);
        }
    }
}
