//! Reads `DotNetRuntimeDebugHeader`.
//!
//! It has `DNDH`, u16 major, u16 minor, u32 flags, u32 0, and pointers to two arrays. One has entries of {type name,
//! field name, u32 offset, u32 0}, the other of {name, address}. An entry without a name ends each array.
//!
//! Source: src/coreclr/nativeaot/Runtime/DebugHeader.cpp

use std::collections::HashMap;

use super::entries::{self, Entries};
use crate::addr::{Addr, AddrRange};
use crate::bytes::{u32_at, u64_at};
use crate::layout::Layout;
use crate::limits;
use crate::memory::Memory;

/// First word of the header.
pub(super) const COOKIE: &[u8; 4] = b"DNDH";

/// Bytes of the header, of a type entry, and of a global entry.
const SIZE: usize = 32;
const TYPE_ENTRY: u64 = 24;
const GLOBAL_ENTRY: u64 = 16;

/// Flags: pointers have eight bytes; numbers are big-endian.
const WIDE: u32 = 1;
const BIG_ENDIAN: u32 = 2;

/// Minimum number of type entries of a usable header.
const MIN_TYPE_ENTRIES: usize = 20;

/// Field name for a type's size, in the header and in layouts.
const SIZE_OF: &str = "SIZEOF";
const LAYOUT_SIZE: &str = "!";

/// Type name of entries that are numbers, not offsets.
const NUMBERS: &str = "Globals";

/// Names that differ from those in other versions, or in CoreCLR's tables for the same structure: type and field here,
/// type and field there.
const RENAMED: [(&str, &str, &str, &str); 2] = [
    ("GcDacVars", "major_version_number", "GcDacVars", "major"),
    ("GcDacVars", "minor_version_number", "GcDacVars", "minor"),
];

/// Name of RuntimeThreadLocals in 8.0.
const OLD_THREAD: &str = "ThreadBuffer";
const THREAD: &str = "RuntimeThreadLocals";

/// A header with a valid form.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) major: u16,
    pub(super) minor: u16,
    /// Addresses of type name and field name, and the offset.
    types: Vec<(Addr, Addr, u32)>,
    /// Addresses of the name and of the global.
    globals: Vec<(Addr, Addr)>,
}

/// Reasons why there is no usable header at an address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeaderError {
    /// There is no header.
    #[error("there is no header")]
    None,
    /// A header that is not filled in yet.
    #[error("its DotNetRuntimeDebugHeader is empty: the runtime had not started yet")]
    Empty,
    /// A header with invalid contents.
    #[error("its DotNetRuntimeDebugHeader is invalid: {0}")]
    Wrong(&'static str),
    /// A header of an unknown version, without names.
    #[error(
        "its DotNetRuntimeDebugHeader has version {0}, which coremap does not support, and the names of its entries \
         are not in the core"
    )]
    Unnamed(u16),
}

/// The header's entries by name.
#[derive(Debug)]
pub(super) struct NamedEntries {
    pub(super) layout: Layout,
    pub(super) globals: HashMap<String, Addr>,
    /// How the names were found, for display.
    pub(super) how: &'static str,
}

impl Header {
    /// Reads the header at `at`, in a module with the address range `image`.
    pub(super) fn read(memory: &dyn Memory, image: AddrRange, at: Addr) -> Result<Header, HeaderError> {
        let head = memory.bytes(at, SIZE).map_err(|_| HeaderError::None)?;
        let word = |offset| u32_at(&head, offset).unwrap_or(0);
        let flags = word(8);
        if !head.starts_with(COOKIE) || flags & (WIDE | BIG_ENDIAN) != WIDE || word(12) != 0 || word(4) & 0xffff == 0 {
            return Err(HeaderError::None);
        }
        let (major, minor) = (word(4) as u16, (word(4) >> 16) as u16);
        let pointer = |offset| Addr::new(u64_at(&head, offset).unwrap_or(0));
        let (types, globals) = (pointer(16), pointer(24));
        if types.is_null() && globals.is_null() {
            return Err(HeaderError::Empty);
        }
        let inside = |at: Addr| image.contains(at) && at.is_aligned(8);
        if !inside(types) || !inside(globals) {
            return Err(HeaderError::Wrong("its arrays are outside of its module"));
        }
        let name = |at: Addr| image.contains(at);
        let mut header = Header { major, minor, types: Vec::new(), globals: Vec::new() };
        for entry in rows(memory, types, TYPE_ENTRY) {
            let at = |offset| Addr::new(u64_at(&entry, offset).unwrap_or(0));
            let (offset, rest) = (u32_at(&entry, 16).unwrap_or(0), u32_at(&entry, 20).unwrap_or(1));
            if !name(at(0)) || !name(at(8)) || i64::from(offset) > limits::MAX_FIELD_OFFSET || rest != 0 {
                return Err(HeaderError::Wrong("a type entry is invalid"));
            }
            header.types.push((at(0), at(8), offset));
        }
        for entry in rows(memory, globals, GLOBAL_ENTRY) {
            let at = |offset| Addr::new(u64_at(&entry, offset).unwrap_or(0));
            if !name(at(0)) {
                return Err(HeaderError::Wrong("a global entry is invalid"));
            }
            header.globals.push((at(0), at(8)));
        }
        if header.types.len() < MIN_TYPE_ENTRIES || header.globals.is_empty() {
            return Err(HeaderError::Wrong("it has too few entries"));
        }
        Ok(header)
    }

    /// Names the entries by their strings or, if these are not in the core, by the list for this version.
    pub(super) fn named(&self, memory: &dyn Memory) -> Result<NamedEntries, HeaderError> {
        if let Some(named) = self.by_strings(memory) {
            return Ok(named);
        }
        let list = entries::of(self.major).ok_or(HeaderError::Unnamed(self.major))?;
        self.by_position(list).ok_or(HeaderError::Wrong("its entries don't match its version"))
    }

    fn by_strings(&self, memory: &dyn Memory) -> Option<NamedEntries> {
        let mut known: HashMap<Addr, String> = HashMap::new();
        let mut text = |at: Addr| -> Option<String> {
            if let Some(name) = known.get(&at) {
                return Some(name.clone());
            }
            let name = memory.text(at, limits::MAX_HEADER_NAME).ok()?;
            let letter = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            if name.is_empty() || !name.bytes().all(letter) {
                return None;
            }
            known.insert(at, name.clone());
            Some(name)
        };
        let mut fields = Vec::new();
        for &(kind, field, offset) in &self.types {
            fields.push((text(kind)?, text(field)?, offset));
        }
        let mut globals = HashMap::new();
        for &(name, at) in &self.globals {
            globals.insert(text(name)?, at);
        }
        let fields = fields.iter().map(|(kind, field, offset)| (&**kind, &**field, *offset));
        self.make(fields, globals, "the names in the header")
    }

    /// Names the entries from the list. Equal names must have equal addresses here, and different names different ones.
    fn by_position(&self, list: &Entries) -> Option<NamedEntries> {
        if list.fields().count() != self.types.len() || list.globals.len() != self.globals.len() {
            return None;
        }
        let mut names: HashMap<Addr, &str> = HashMap::new();
        let mut places: HashMap<&str, Addr> = HashMap::new();
        let mut agrees =
            |at: Addr, name| *names.entry(at).or_insert(name) == name && *places.entry(name).or_insert(at) == at;
        let types = list.fields().zip(&self.types);
        if !types.clone().all(|((kind, field), entry)| agrees(entry.0, kind) && agrees(entry.1, field)) {
            return None;
        }
        let globals = list.globals.iter().zip(&self.globals);
        if !globals.clone().all(|(name, entry)| agrees(entry.0, name)) {
            return None;
        }
        let globals = globals.map(|(name, &(_, at))| (name.clone(), at)).collect();
        let fields = types.map(|((kind, field), entry)| (kind, field, entry.2));
        self.make(fields, globals, "the order of the entries")
    }

    fn make<'n>(
        &self,
        fields: impl Iterator<Item = (&'n str, &'n str, u32)>,
        globals: HashMap<String, Addr>,
        how: &'static str,
    ) -> Option<NamedEntries> {
        let id = format!("DotNetRuntimeDebugHeader {}.{}", self.major, self.minor);
        let mut layout = Layout::new(&id, "the runtime's own header");
        for (kind, field, offset) in fields {
            let kind = if kind == OLD_THREAD { THREAD } else { kind };
            let field = if field == SIZE_OF { LAYOUT_SIZE } else { field };
            if kind == NUMBERS {
                layout.put_constant(NUMBERS, field, u64::from(offset));
                continue;
            }
            let renamed = RENAMED.iter().find(|(k, f, ..)| (*k, *f) == (kind, field));
            let (kind, field) = renamed.map_or((kind, field), |&(_, _, kind, field)| (kind, field));
            layout.put(kind, field, i64::from(offset)).ok()?;
        }
        Some(NamedEntries { layout, globals, how })
    }
}

/// Rows of an array, up to the row whose first word is 0.
fn rows(memory: &dyn Memory, at: Addr, size: u64) -> impl Iterator<Item = Vec<u8>> {
    let row = move |i: u64| memory.bytes(at.checked_add(i.checked_mul(size)?)?, size as usize).ok();
    (0..limits::MAX_HEADER_ENTRIES).map_while(row).take_while(|row| u64_at(row, 0).is_some_and(|word| word != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Fault, FaultKind};

    struct Bytes(u64, Vec<u8>);

    impl Memory for Bytes {
        fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
            let fault = Fault { addr, kind: FaultKind::NotDumped };
            let from = addr.get().checked_sub(self.0).ok_or(fault)? as usize;
            buf.copy_from_slice(self.1.get(from..from.saturating_add(buf.len())).ok_or(fault)?);
            Ok(())
        }

        fn readable(&self, addr: Addr, max: u64) -> u64 {
            let end = self.0 + self.1.len() as u64;
            if addr.get() < self.0 { 0 } else { end.saturating_sub(addr.get()).min(max) }
        }
    }

    const BASE: u64 = 0x10_0000;
    const STRINGS: u64 = 0x8000;

    /// A header of version `major` at `BASE`, followed by its arrays. The strings are at `STRINGS`, and may be left
    /// out. Offsets are the indices of the entries.
    fn image(major: u16, with_strings: bool) -> (Bytes, AddrRange) {
        let Some(list) = entries::of(major) else { panic!("no list") };
        let mut strings: Vec<u8> = Vec::new();
        let mut places: HashMap<String, u64> = HashMap::new();
        let mut string = |name: &str| {
            *places.entry(name.to_owned()).or_insert_with(|| {
                let at = BASE + STRINGS + strings.len() as u64;
                strings.extend(name.bytes().chain([0]));
                at
            })
        };
        let (mut types, mut globals) = (Vec::new(), Vec::new());
        for (i, (kind, field)) in list.fields().enumerate() {
            types.extend([string(kind), string(field), i as u64].iter().flat_map(|w| w.to_le_bytes()));
        }
        types.extend([0; TYPE_ENTRY as usize]);
        for (i, name) in list.globals.iter().enumerate() {
            globals.extend([string(name), 0x1000 + i as u64].iter().flat_map(|w| w.to_le_bytes()));
        }
        globals.extend([0; GLOBAL_ENTRY as usize]);
        let mut all = COOKIE.to_vec();
        all.extend(u32::from(major).to_le_bytes());
        all.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        all.extend((BASE + SIZE as u64).to_le_bytes());
        all.extend((BASE + SIZE as u64 + types.len() as u64).to_le_bytes());
        all.extend(types);
        all.extend(globals);
        if with_strings {
            all.resize(STRINGS as usize, 0);
            all.extend(strings);
        }
        (Bytes(BASE, all), AddrRange::sized(Addr::new(BASE), 0x10_0000))
    }

    fn named(memory: &Bytes, range: AddrRange) -> Result<NamedEntries, HeaderError> {
        Header::read(memory, range, Addr::new(BASE))?.named(memory)
    }

    #[test]
    fn names_are_in_the_core_or_follow_from_the_order() -> Result<(), HeaderError> {
        for (major, with_strings, how) in [(4, true, "the names in the header"), (3, false, "the order of the entries")]
        {
            let (memory, range) = image(major, with_strings);
            let found = named(&memory, range)?;
            assert_eq!(found.how, how);
            assert_eq!(found.layout.field("GcDacVars", "minor"), Ok(2));
            assert_eq!(found.layout.size("GcDacVars"), Ok(0));
            assert!(
                found.layout.field("RuntimeThreadLocals", "m_threadId").is_ok(),
                "also of 8.0, which has ThreadBuffer"
            );
            assert_eq!(found.globals.get("g_gcDacGlobals"), Some(&Addr::new(0x1002)));
        }
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (memory, range) = image(4, false);
        let patched = |at: usize, bytes: &[u8]| {
            let mut copy = memory.1.clone();
            copy[at..at + bytes.len()].copy_from_slice(bytes);
            named(&Bytes(BASE, copy), range)
        };
        // An unknown version without names.
        assert!(matches!(patched(4, &[9, 0]), Err(HeaderError::Unnamed(9))));
        // Two entries of one type whose names have different addresses.
        assert!(matches!(patched(SIZE, &[0x11]), Err(HeaderError::Wrong(_))));
        // One entry too few.
        assert!(matches!(patched(SIZE + 91 * 24, &[0; 8]), Err(HeaderError::Wrong(_))));
        assert!(matches!(patched(16, &[0xff; 8]), Err(HeaderError::Wrong(_))));
        assert!(matches!(patched(16, &[0; 16]), Err(HeaderError::Empty)));
        assert!(matches!(patched(0, b"DNDI"), Err(HeaderError::None)));
        assert!(matches!(patched(8, &[3]), Err(HeaderError::None)));
        assert!(matches!(patched(SIZE + 16, &[0xff; 4]), Err(HeaderError::Wrong(_))));
    }
}
