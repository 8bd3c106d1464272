//! Parses /proc/PID/maps: the mappings of a process (proc(5), fs/proc/task_mmu.c `show_map_vma`).

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::limits;
use crate::targets::Perms;

/// A mapping in the kernel's list.
#[derive(Clone, Debug)]
pub(super) struct Vma {
    pub(super) range: AddrRange,
    pub(super) perms: Perms,
    pub(super) shared: bool,
    /// Offset of the mapping in its file, in bytes.
    pub(super) offset: u64,
    /// Inode of the file. 0 if the mapping has no file.
    pub(super) inode: u64,
    /// Path of the file, or the kernel's name: `[heap]`, `[vdso]`.
    pub(super) name: Arc<str>,
}

impl Vma {
    /// Path of its file, as a core's NT_FILE would list it. `None` if it has no file.
    pub(super) fn path(&self) -> Option<&Arc<str>> {
        let named = self.name.starts_with('/') || self.name.starts_with("anon_inode:");
        (named || self.inode != 0).then_some(&self.name)
    }

    /// Whether the memory can't be read from outside: `[vvar]` (the kernel's own pages), `[vsyscall]` (beyond user
    /// address space), memfd_secret(2).
    pub(super) fn is_closed(&self) -> bool {
        self.name.starts_with("[vvar") || ["[vsyscall]", "/secretmem (deleted)"].contains(&&*self.name)
    }
}

/// Parses all mappings, by address. Ignores lines that are not mappings.
pub(super) fn parse(text: &[u8]) -> Vec<Vma> {
    let mut out: Vec<Vma> = Vec::new();
    for line in text.split(|&b| b == b'\n') {
        let last = out.last();
        let end = last.map_or(Addr::NULL, |last| last.range.end);
        let next = vma(line, last.map(|last| &last.name));
        if let Some(vma) = next.filter(|vma| vma.range.start >= end && !vma.range.is_empty()) {
            out.push(vma);
        }
        if out.len() >= limits::MAX_SEGMENTS {
            break;
        }
    }
    out
}

/// Parses one line. `before` is the name of the preceding mapping; mappings of one file share their name.
fn vma(line: &[u8], before: Option<&Arc<str>>) -> Option<Vma> {
    let mut rest = line;
    let mut field = || {
        let from = rest.iter().position(|&b| b != b' ')?;
        let at = rest.get(from..)?;
        let len = at.iter().position(|&b| b == b' ').unwrap_or(at.len());
        let (field, behind) = at.split_at(len);
        rest = behind;
        std::str::from_utf8(field).ok()
    };
    let (start, end) = field()?.split_once('-')?;
    let letters = field()?.as_bytes();
    let has = |at: usize, letter: u8| letters.get(at) == Some(&letter);
    let offset = hex(field()?)?;
    field()?;
    let inode = field()?.parse().ok()?;
    let name = name(rest.strip_prefix(b" ").map_or(rest, |r| r.trim_ascii_start()));
    let name = before.filter(|before| ***before == *name).cloned().unwrap_or_else(|| name.into());
    Some(Vma {
        range: AddrRange::new(Addr::new(hex(start)?), Addr::new(hex(end)?)),
        perms: Perms { read: has(0, b'r'), write: has(1, b'w'), exec: has(2, b'x') },
        shared: has(3, b's'),
        offset,
        inode,
        name,
    })
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Unescapes a name: the kernel writes line ends as `\012` (`seq_path`).
fn name(raw: &[u8]) -> String {
    bytes::text(raw).replace("\\012", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_real_process() {
        let text = b"\
564647c22000-564647c23000 r--p 00001000 fe:00 18504                      /usr/bin/python 3.11 (deleted)\n\
5646489f5000-564648a16000 rw-p 00000000 00:00 0                          [heap]\n\
7f0000000000-7f0000001000 ---p 00000000 00:00 0 \n\
7f1111111000-7f1111113000 rw-s 00000000 00:01 1027                       /memfd:a\\012b (deleted)\n\
7ffd5b5f2000-7ffd5b5f6000 r--p 00000000 00:00 0                          [vvar]\n\
broken\n\
7ffd5b5f0000-7ffd5b5f3000 r--p 00000000 00:00 0                          [over]\n\
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]";
        let vmas = parse(text);
        let names: Vec<&str> = vmas.iter().map(|v| &*v.name).collect();
        let wanted = ["/usr/bin/python 3.11 (deleted)", "[heap]", "", "/memfd:a\nb (deleted)", "[vvar]", "[vsyscall]"];
        assert_eq!(names, wanted);
        let files: Vec<bool> = vmas.iter().map(|v| v.path().is_some()).collect();
        assert_eq!(files, [true, false, false, true, false, false]);
        let closed: Vec<bool> = vmas.iter().map(Vma::is_closed).collect();
        assert_eq!(closed, [false, false, false, false, true, true]);
        let first = &vmas[0];
        assert_eq!((first.offset, first.inode, first.range.len()), (0x1000, 18504, 0x1000));
        assert_eq!((vmas[3].shared, vmas[0].shared, vmas[2].perms), (true, false, Perms::default()));
    }
}
