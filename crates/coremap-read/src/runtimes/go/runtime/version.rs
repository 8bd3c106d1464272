//! Version of Go, and the modules that the program was built from.
//!
//! Sources: debug/buildinfo, cmd/link and runtime/extern.go (`runtime.buildVersion`). The build info begins at a
//! multiple of 16, with `\xff Go buildinf:`. Since 1.18 the texts follow it.

use crate::addr::Addr;
use crate::bytes;
use crate::limits;
use crate::memory::Memory;
use crate::targets::reads::Script;

const MAGIC: [u8; 14] = *b"\xff Go buildinf:";

/// Offset of the flags, and the flag that the texts follow (since 1.18). The first begins here.
const FLAGS: u64 = 15;
const INLINE: u8 = 2;
const TEXTS: u64 = 32;

/// Version and module that a program records of its build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::runtimes::go) struct Build {
    /// Version, such as `go1.24.4`.
    pub(in crate::runtimes::go) version: Option<String>,
    /// Source of the version, in words.
    pub(in crate::runtimes::go) from: &'static str,
    /// Path of the program's own module, such as `example.com/shop`. `None` if it is unknown.
    pub(in crate::runtimes::go) module: Option<String>,
}

impl Build {
    /// Minor version of Go 1: 24 for `go1.24.4`. `None` if the version is unknown.
    pub(in crate::runtimes::go) fn minor(&self) -> Option<u32> {
        minor(self.version.as_deref()?)
    }
}

fn minor(version: &str) -> Option<u32> {
    let rest = version.split("go1.").nth(1)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Finds the version among the words of the program's data. `parts`: each with its start address.
pub(super) fn find(memory: &dyn Memory, parts: &[(Addr, Vec<u64>)]) -> Build {
    let in_info = parts.iter().find_map(|(start, words)| in_build_info(memory, *start, words));
    in_info.or_else(|| parts.iter().find_map(|(start, words)| in_variable(memory, *start, words))).unwrap_or_default()
}

fn in_build_info(memory: &dyn Memory, start: Addr, words: &[u64]) -> Option<Build> {
    let first = u64::from_le_bytes(*MAGIC.first_chunk()?);
    let places = words.iter().enumerate().filter(|(_, word)| **word == first);
    places.filter_map(|(i, _)| start.checked_add(8 * i as u64)).find_map(|at| {
        let head = memory.look(at, TEXTS as usize).ok()?;
        let texts = head.starts_with(&MAGIC) && head.get(FLAGS as usize).is_some_and(|flags| flags & INLINE != 0);
        if !at.is_aligned(16) || !texts {
            return None;
        }
        let (version, next) = text_at(memory, at.checked_add(TEXTS)?)?;
        minor(&version)?;
        let module = text_at(memory, next).and_then(|(info, _)| own_module(&info));
        memory.keep(at, TEXTS);
        Some(Build { version: Some(version), from: "build info", module })
    })
}

/// Reads a text that follows its length at `at`. Returns the text and the address after it.
fn text_at(memory: &dyn Memory, at: Addr) -> Option<(String, Addr)> {
    let head = memory.look(at, memory.readable(at, 10) as usize).ok()?;
    let (mut length, mut used) = (0u64, 0u32);
    for byte in &head {
        length |= u64::from(byte & 0x7f).checked_shl(7 * used)?;
        used += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let start = at.checked_add(u64::from(used))?;
    let length = (length <= limits::MAX_GO_BUILD_INFO).then_some(length)?;
    let bytes = memory.look(start, usize::try_from(length).ok()?).ok()?;
    memory.keep_name(at, u64::from(used) + length, Script::Public);
    Some((String::from_utf8_lossy(&bytes).into_owned(), start.checked_add(length)?))
}

/// Returns the path of the program's module, from the line `mod` of its build info, or else from its main package.
fn own_module(info: &str) -> Option<String> {
    let field = |name: &str| {
        let mut lines =
            info.lines().filter_map(|line| line.trim_start_matches(|c: char| !c.is_ascii_graphic()).split_once('\t'));
        // The first line follows a marker of 16 bytes.
        lines
            .find(|(key, _)| key.ends_with(name))
            .map(|(_, rest)| rest.split('\t').next().unwrap_or_default().to_owned())
    };
    field("mod").or_else(|| field("path")).filter(|path| !path.is_empty() && path != "command-line-arguments")
}

/// Finds `runtime.buildVersion` among the words of the data: a pointer to a text, and the text's length.
fn in_variable(memory: &dyn Memory, start: Addr, words: &[u64]) -> Option<Build> {
    words.windows(2).enumerate().find_map(|(i, pair)| {
        let [pointer, length] = pair else { return None };
        if !(5..=64).contains(length) || *pointer < 4096 {
            return None;
        }
        let bytes = memory.look(Addr::new(*pointer), *length as usize).ok()?;
        let is_version = (bytes.starts_with(b"go1.") || bytes.starts_with(b"devel "))
            && bytes.iter().all(|b| (b' '..=b'~').contains(b))
            && minor(&bytes::text(&bytes)).is_some();
        is_version.then(|| {
            memory.keep(start.saturating_add(8 * i as u64), 16);
            memory.keep_name(Addr::new(*pointer), *length, Script::Public);
            Build { version: Some(bytes::text(&bytes)), from: "runtime.buildVersion", module: None }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_versions() {
        let all = ["go1.24.4", "go1.27", "go1.24.4 X:nocoverageredesign", "devel go1.26-abcdef Thu", "go2", "x"];
        assert_eq!(all.map(minor), [Some(24), Some(27), Some(24), Some(26), None, None]);
    }

    #[test]
    fn the_own_module_is_that_of_the_line_mod() {
        let info = "0w\u{1}\u{2}path\texample.com/shop/cmd/server\nmod\texample.com/shop\t(devel)\t\ndep\tgolang.org/x/net\tv0.1.0\n";
        assert_eq!(own_module(info).as_deref(), Some("example.com/shop"));
        assert_eq!(own_module("path\tcommand-line-arguments\n"), None);
    }
}
