//! The records of types: name, namespace, the type around it.
//!
//! A handle is a number: in metadata its lowest byte is the kind of record and the rest where that is, unless the place
//! tells the kind. Kinds are numbered anew in each release: that of types is the one that most of the map's entries have,
//! and that of namespaces the one that most namespaces of these are in.

use std::collections::HashMap;

use super::format::{entries, unsigned};
use super::sections::{Sections, relative};
use crate::addr::Addr;
use crate::bytes::u32_at;
use crate::limits;
use crate::nativeaot::runtime::Runtime;

/// The kind of a record in the map of types: bits of a handle from there on.
const KIND_SHIFT: u32 = 25;

/// Namespaces and types within each other, at most.
const MAX_NESTING: usize = 32;

/// Digits of a commit.
const COMMIT: usize = 40;

/// The metadata of a program.
pub(in crate::nativeaot) struct Metadata {
    bytes: Vec<u8>,
    /// Where the record of each MethodTable is.
    types: HashMap<u64, u32>,
    /// Kind of namespaces.
    namespace: u32,
}

impl Metadata {
    /// Read it; `None` where it is not in the core.
    pub(in crate::nativeaot) fn read(runtime: &Runtime<'_>, sections: &Sections) -> Option<Metadata> {
        let (_, bytes) = sections.bytes(runtime, "EmbeddedMetadata")?;
        let signature = runtime.layout.constant("Metadata", "Signature").ok()?;
        if u32_at(&bytes, 0).map(u64::from) != Some(signature) {
            return None;
        }
        let (_, map) = sections.bytes(runtime, "TypeMap")?;
        let (fixups_at, fixups) = sections.bytes(runtime, "CommonFixupsTable")?;
        Some(Metadata::new(bytes, &map, |index| relative(fixups_at, &fixups, (index as usize).checked_mul(4)?)))
    }

    /// From its bytes and the map of types; `external`: an address by its number.
    pub(in crate::nativeaot) fn new(bytes: Vec<u8>, map: &[u8], external: impl Fn(u32) -> Option<Addr>) -> Metadata {
        let mut found: Vec<(u64, u32, u32)> = Vec::new();
        let mut kinds: HashMap<u32, usize> = HashMap::new();
        for entry in entries(map) {
            let Some((index, next)) = unsigned(map, entry) else { continue };
            let (Some((handle, _)), Some(at)) = (unsigned(map, next), external(index)) else { continue };
            let kind = handle >> KIND_SHIFT;
            *kinds.entry(kind).or_default() += 1;
            found.push((at.get(), kind, handle & ((1 << KIND_SHIFT) - 1)));
        }
        let definition = most(&kinds);
        let types: HashMap<u64, u32> = found
            .into_iter()
            .filter(|(_, kind, _)| Some(*kind) == definition)
            .map(|(at, _, record)| (at, record))
            .collect();
        let mut out = Metadata { bytes, types, namespace: 0 };
        let mut kinds: HashMap<u32, usize> = HashMap::new();
        for &record in out.types.values() {
            let parent = || {
                let namespace = out.definition(record)?.1;
                Some(out.number(namespace as usize)?.0 & 0xff)
            };
            if let Some(kind) = parent() {
                *kinds.entry(kind).or_default() += 1;
            }
        }
        out.namespace = most(&kinds).unwrap_or(0);
        out
    }

    /// Names from the outermost type on, the first with its namespace, of the type whose MethodTable is at `at`.
    pub(in crate::nativeaot) fn chain(&self, at: Addr) -> Option<Vec<String>> {
        let mut record = *self.types.get(&at.get())?;
        let mut out = Vec::new();
        for _ in 0..MAX_NESTING {
            let (name, namespace, enclosing) = self.definition(record)?;
            let name = self.string(name)?;
            if enclosing == 0 {
                let namespace = self.namespace(namespace)?;
                out.push(if namespace.is_empty() { name } else { format!("{namespace}.{name}") });
                out.reverse();
                return Some(out);
            }
            out.push(name);
            record = enclosing;
        }
        None
    }

    /// The version of .NET, as the attributes of its own library have it: AssemblyInformationalVersion has version and
    /// commit, AssemblyFileVersion the same number and that of a build. A program has attributes of its own, so that of
    /// `release` are taken only those that agree: `9.0.22+commit` and `9.0.2226.52218`.
    pub(in crate::nativeaot) fn version(&self, release: &str) -> Option<String> {
        let pattern = format!("{release}.");
        let finder = memchr::memmem::Finder::new(&pattern);
        for at in finder.find_iter(&self.bytes) {
            let rest = self.bytes.get(at..)?;
            let len = rest.iter().take(limits::MAX_HEADER_NAME).position(|b| *b == b'+').unwrap_or(0);
            let commit = rest.get(len + 1..len + 1 + COMMIT).unwrap_or_default();
            let Some(version) = rest.get(..len).and_then(|text| std::str::from_utf8(text).ok()) else { continue };
            let letter = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'-';
            if len == 0
                || commit.len() < COMMIT
                || !commit.iter().all(u8::is_ascii_hexdigit)
                || !version.bytes().all(letter)
            {
                continue;
            }
            if self.has_file_version(version) {
                // How the build of a servicing release calls itself, as of 10.0: `10.0.13-servicing.26504.104`.
                return Some(version.split("-servicing").next().unwrap_or(version).to_owned());
            }
        }
        None
    }

    /// Whether there is a file's version of that one.
    fn has_file_version(&self, version: &str) -> bool {
        let number = version.split('-').next().unwrap_or_default();
        let mut places = memchr::memmem::find_iter(&self.bytes, number);
        places.any(|at| {
            let rest = self.bytes.get(at + number.len()..).unwrap_or_default();
            matches!(rest, [a, b, b'.', c, ..] if [a, b, c].iter().all(|digit| digit.is_ascii_digit()))
        })
    }

    fn number(&self, at: usize) -> Option<(u32, usize)> {
        unsigned(&self.bytes, at)
    }

    /// A type: where its name, its namespace and the type around it are; 0 for none.
    fn definition(&self, record: u32) -> Option<(u32, u32, u32)> {
        // Flags, base type, namespace, name, size, packing, the type around it.
        let mut at = record as usize;
        let mut fields = [0_u32; 7];
        for field in &mut fields {
            (*field, at) = self.number(at)?;
        }
        let [_, _, namespace, name, _, _, enclosing] = fields;
        Some((name, namespace, enclosing))
    }

    /// A namespace with those around it.
    fn namespace(&self, at: u32) -> Option<String> {
        let mut at = at;
        let mut names: Vec<String> = Vec::new();
        for _ in 0..MAX_NESTING {
            let (parent, next) = self.number(at as usize)?;
            let (name, _) = self.number(next)?;
            if name != 0 {
                names.push(self.string(name)?);
            }
            if parent & 0xff != self.namespace {
                names.reverse();
                return Some(names.join("."));
            }
            at = parent >> 8;
        }
        None
    }

    fn string(&self, at: u32) -> Option<String> {
        let (len, start) = self.number(at as usize)?;
        let len = (len as usize).min(limits::MAX_TYPE_NAME);
        let text = std::str::from_utf8(self.bytes.get(start..start.checked_add(len)?)?).ok()?;
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// What there is most of; the least of equals.
fn most(counts: &HashMap<u32, usize>) -> Option<u32> {
    counts.iter().max_by_key(|(kind, count)| (**count, std::cmp::Reverse(**kind))).map(|(kind, _)| *kind)
}
