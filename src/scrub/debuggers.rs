//! What debuggers need and no answer of ours: that the vdso is a file, and which release of glibc the threads are of.

use crate::addr::AddrRange;
use crate::image::ModuleKind;
use crate::map::Kind;
use crate::memory::Memory;
use crate::session::Session;
use crate::targets::byte_set::ByteSet;

/// Libraries that have the release of glibc as a text of its own (`nptl_version`, which has moved from one to the other: in 2.36 it is
/// ld.so's): libthread_db compares it before it tells of threads.
const LIBRARIES: [&str; 3] = ["libc.so", "libpthread", "ld-"];

/// Bytes of constants that are looked through for it.
const MOST: u64 = 8 << 20;

/// Bytes that stay.
pub(super) fn all(session: &Session<'_>) -> ByteSet {
    let mut out = ByteSet::default();
    let process = session.process;
    let vdso = session.map().regions.iter().filter(|region| region.kind == Kind::Vdso);
    vdso.for_each(|region| out.add(region.range.start, region.range.len()));
    for module in process.modules.iter().filter(|module| matches!(module.kind, ModuleKind::Elf(_))) {
        let name = module.path.rsplit('/').next().unwrap_or_default();
        if !LIBRARIES.iter().any(|library| name.starts_with(library)) {
            continue;
        }
        // Headers of sections are not in memory: where its constants are is told by what may be done there.
        let within = |range: &AddrRange| module.range.contains(range.start);
        let constants = session.map().regions.iter().filter(|region| within(&region.range));
        for region in constants.filter(|region| region.perms.is_some_and(|p| p.read && !p.write && !p.exec)) {
            for part in process.memory.readable_parts(region.range, MOST) {
                let Ok(bytes) = process.memory.look(part.start, part.len() as usize) else { continue };
                for found in releases(&bytes) {
                    out.add(part.start.saturating_add(found as u64), RELEASE as u64);
                }
            }
        }
    }
    out
}

/// Bytes of a release: `2.36` and a NUL.
const RELEASE: usize = 5;

/// Where a release of glibc 2 stands for itself, between NULs.
fn releases(bytes: &[u8]) -> Vec<usize> {
    let is_release =
        |text: &[u8]| matches!(text, [0, b'2', b'.', tens, ones, 0] if tens.is_ascii_digit() && ones.is_ascii_digit());
    bytes.windows(RELEASE + 1).enumerate().filter(|(_, text)| is_release(text)).map(|(at, _)| at + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::releases;

    #[test]
    fn a_release_stands_for_itself() {
        assert_eq!(releases(b"\0GLIBC_2.36\0\x002.36\x002.4\0"), [13]);
        assert!(releases(b"2.36\0").is_empty());
    }
}
