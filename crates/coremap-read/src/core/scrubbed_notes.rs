//! Removes the values of the process's variables from the notes of a core: registers that point nowhere, vector
//! registers, arguments, data of a signal. Unknown notes lose all their contents.

use std::ops::Range;

use crate::core::notes::{Cursor, nt, prpsinfo};
use crate::core::own_notes;
use crate::core::prstatus;
use crate::targets::Arch;

/// The part of a note that stays.
enum Rule {
    /// Everything: sizes, IDs, addresses, names of files.
    All,
    /// General registers that point into mapped memory, and registers that contain no values of the program.
    Registers,
    /// Everything except the program's arguments. If an argument is in the field of the program's name, that is not
    /// kept either.
    Process,
    /// This many bytes at the start.
    Start(usize),
    /// This range of bytes.
    Within(usize, usize),
}

/// Length of `si_signo` to `si_addr`, or to the sender's IDs. Data of the sender follows.
const SIGINFO: usize = 24;

/// `xcr0`, in the bytes that FXSAVE leaves to software, and the first two words of the XSAVE header after them. They
/// say which register sets there are. Without them, gdb can't compute their length (Intel SDM 1, 13.4).
const XSAVE: (usize, usize) = (464, 528);

/// NT_X86_XSTATE, NT_ARM_TLS, NT_ARM_PAC_MASK (linux/elf.h).
pub const X86_XSTATE: u32 = nt::X86_XSTATE;

fn rule(owner: &[u8], kind: u32) -> Rule {
    match (owner, kind) {
        (b"CORE", nt::PRSTATUS) => Rule::Registers,
        (b"CORE", nt::PRPSINFO) => Rule::Process,
        (b"CORE", nt::AUXV | nt::FILE) => Rule::All,
        (b"CORE", nt::SIGINFO) => Rule::Start(SIGINFO),
        (b"LINUX", X86_XSTATE) => Rule::Within(XSAVE.0, XSAVE.1),
        (b"LINUX", nt::ARM_TLS | nt::ARM_PAC_MASK) | (b"GDB" | b"GNU", _) => Rule::All,
        (own_notes::OWNER_BYTES, _) => Rule::All,
        _ => Rule::Start(0),
    }
}

/// Visits all notes: owner, type, and range of the descriptor.
pub fn each(bytes: &[u8], mut visit: impl FnMut(&[u8], u32, Range<usize>)) {
    let mut cursor = Cursor::default();
    while let Some(note) = cursor.next(bytes) {
        visit(note.owner, note.kind, note.desc);
    }
}

/// Ranges of names in the notes: of files, of the process, of threads.
pub fn names(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut cursor = Cursor::default();
    while let Some(note) = cursor.next(bytes) {
        let Some(desc) = bytes.get(note.desc.clone()) else { break };
        let start = note.desc.start;
        match (note.owner, note.kind) {
            (b"CORE", nt::PRPSINFO) => out.push(start + prpsinfo::NAME..start + prpsinfo::ARGS),
            (b"CORE", nt::FILE) => {
                // A count, a page size, and three words per file, followed by the paths.
                let count = desc.first_chunk::<8>().map_or(0, |count| u64::from_le_bytes(*count));
                let table = usize::try_from(count).ok().and_then(|count| count.checked_mul(24)?.checked_add(16));
                let table = table.filter(|table| *table < desc.len()).unwrap_or(desc.len());
                out.push(start + table..note.desc.end);
            }
            (own_notes::OWNER_BYTES, kind) => {
                out.extend(own_notes::names_in(kind, desc).map(|r| start + r.start..start + r.end))
            }
            _ => {}
        }
    }
    let end = bytes.len();
    out.iter().map(|range| range.start.min(end)..range.end.min(end)).collect()
}

/// Decisions that depend on the process of the notes.
pub struct ScrubRules<'a> {
    /// Whether a word is taken for an address.
    pub is_address: &'a dyn Fn(u64) -> bool,
    /// Whether a text is the program's name.
    pub is_program: &'a dyn Fn(&[u8]) -> bool,
}

/// Returns the scrubbed notes in `bytes`. Notes of an owner and type for which `spared` is true stay whole.
pub fn scrubbed(bytes: &[u8], arch: Arch, rules: &ScrubRules<'_>, spared: impl Fn(&[u8], u32) -> bool) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut cursor = Cursor::default();
    while let Some(note) = cursor.next(bytes) {
        let Some(desc) = out.get_mut(note.desc.clone()) else { break };
        match rule(note.owner, note.kind) {
            _ if spared(note.owner, note.kind) => {}
            Rule::All => {}
            Rule::Registers => prstatus::scrub(desc, arch, rules.is_address),
            Rule::Process => {
                let to = prpsinfo::ARGS + prpsinfo::ARGS_LEN;
                desc.get_mut(prpsinfo::ARGS..to).unwrap_or_default().fill(0);
                let field = desc.get_mut(prpsinfo::NAME..prpsinfo::ARGS).unwrap_or_default();
                let len = field.iter().position(|&b| b == 0).unwrap_or(field.len());
                let name = field.get(..len).unwrap_or_default();
                let from = if (rules.is_program)(name) { len } else { 0 };
                // Bytes after its end are from a longer name.
                field.get_mut(from..).unwrap_or_default().fill(0);
            }
            Rule::Start(len) => desc.get_mut(len..).unwrap_or_default().fill(0),
            Rule::Within(from, to) => {
                desc.get_mut(..from).unwrap_or_default().fill(0);
                desc.get_mut(to..).unwrap_or_default().fill(0);
            }
        }
    }
    // What is not a note can't be classified.
    out.get_mut(cursor.at..).unwrap_or_default().fill(0);
    out
}
