//! Notes of a core without what was in the process's variables: registers that lead nowhere, vector registers, arguments, what came
//! with a signal. Notes that are not known lose all that is in them.

use std::ops::Range;

use crate::core::notes::{Cursor, nt, prpsinfo};
use crate::core::own_notes;
use crate::core::prstatus;
use crate::targets::Arch;

/// What of a note stays.
enum Rule {
    /// All of it: sizes, ids, addresses, names of files.
    All,
    /// General registers that lead into mapped memory, and those that are no values.
    Registers,
    /// All but the program's arguments.
    Process,
    /// So many bytes at the start.
    Start(usize),
    /// These bytes.
    Within(usize, usize),
}

/// `si_signo` to `si_addr`, or to the sender's ids: what follows is of the sender.
const SIGINFO: usize = 24;

/// `xcr0` among the bytes that FXSAVE leaves to software, and the first two words of the header behind them: which sets there
/// are, without which gdb can't tell how long they are (Intel SDM 1, 13.4).
const XSAVE: (usize, usize) = (464, 528);

/// NT_X86_XSTATE, NT_ARM_TLS, NT_ARM_PAC_MASK (linux/elf.h).
pub(crate) const X86_XSTATE: u32 = 0x202;
const ARM_PAC_MASK: u32 = 0x406;

fn rule(owner: &[u8], kind: u32) -> Rule {
    match (owner, kind) {
        (b"CORE", nt::PRSTATUS) => Rule::Registers,
        (b"CORE", nt::PRPSINFO) => Rule::Process,
        (b"CORE", nt::AUXV | nt::FILE) => Rule::All,
        (b"CORE", nt::SIGINFO) => Rule::Start(SIGINFO),
        (b"LINUX", X86_XSTATE) => Rule::Within(XSAVE.0, XSAVE.1),
        (b"LINUX", nt::ARM_TLS | ARM_PAC_MASK) | (b"GDB" | b"GNU", _) => Rule::All,
        (own_notes::OWNER_BYTES, _) => Rule::All,
        _ => Rule::Start(0),
    }
}

/// All notes: owner, type, and where the data is.
pub(crate) fn each(bytes: &[u8], mut visit: impl FnMut(&[u8], u32, Range<usize>)) {
    let mut cursor = Cursor::default();
    while let Some(note) = cursor.next(bytes) {
        visit(note.owner, note.kind, note.desc);
    }
}

/// Where notes have names: of files, of the process, of threads.
pub(crate) fn names(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut cursor = Cursor::default();
    while let Some(note) = cursor.next(bytes) {
        let Some(desc) = bytes.get(note.desc.clone()) else { break };
        let start = note.desc.start;
        match (note.owner, note.kind) {
            (b"CORE", nt::PRPSINFO) => out.push(start + prpsinfo::NAME..start + prpsinfo::ARGS),
            (b"CORE", nt::FILE) => {
                // A count, a page size, and three words for each file: behind these are the paths.
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

/// The notes in `bytes` so. `leads_somewhere`: whether a word is an address of mapped memory; `spared`: whether notes of that
/// owner and type stay whole.
pub(crate) fn scrubbed(
    bytes: &[u8],
    arch: Arch,
    leads_somewhere: impl Fn(u64) -> bool,
    spared: impl Fn(&[u8], u32) -> bool,
) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut cursor = Cursor::default();
    while let Some(note) = cursor.next(bytes) {
        let Some(desc) = out.get_mut(note.desc.clone()) else { break };
        match rule(note.owner, note.kind) {
            _ if spared(note.owner, note.kind) => {}
            Rule::All => {}
            Rule::Registers => prstatus::scrub(desc, arch, &leads_somewhere),
            Rule::Process => {
                let to = prpsinfo::ARGS + prpsinfo::ARGS_LEN;
                desc.get_mut(prpsinfo::ARGS..to).unwrap_or_default().fill(0);
            }
            Rule::Start(len) => desc.get_mut(len..).unwrap_or_default().fill(0),
            Rule::Within(from, to) => {
                desc.get_mut(..from).unwrap_or_default().fill(0);
                desc.get_mut(to..).unwrap_or_default().fill(0);
            }
        }
    }
    // What is no note can't be told apart.
    out.get_mut(cursor.at..).unwrap_or_default().fill(0);
    out
}
