//! Records of types: name, namespace, enclosing type.
//!
//! A handle has the kind of a record and its offset. In the map of types the kind is in the highest bits, in records in
//! the lowest. It has 8 bits up to 9.0 and 7 in 10.0. The width is chosen under which more entries of the map are type
//! definitions. If the context determines the kind, a handle is the offset alone.

use std::collections::HashMap;

use super::format::{entries, unsigned};
use super::sections::{Sections, relative};
use crate::addr::Addr;
use crate::bytes::u32_at;
use crate::layout::Layout;
use crate::limits;
use crate::runtimes::nativeaot::runtime::Runtime;

/// Possible widths of a record's kind, in bits.
const KIND_BITS: [u32; 2] = [8, 7];

/// Maximum nesting of namespaces and of types.
const MAX_NESTING: usize = 16;

/// Number of digits of a commit hash.
const COMMIT: usize = 40;

pub(in crate::runtimes::nativeaot) struct Metadata {
    bytes: Vec<u8>,
    /// Offset of the type's record, by address of the MethodTable.
    types: HashMap<u64, u32>,
    kinds: Kinds,
    /// Width of a kind in bits.
    bits: u32,
}

/// Numbers of record kinds (HandleType of NativeFormatReaderCommonGen.cs).
#[derive(Clone, Copy)]
pub(in crate::runtimes::nativeaot) struct Kinds {
    pub(in crate::runtimes::nativeaot) definition: u32,
    pub(in crate::runtimes::nativeaot) namespace: u32,
    /// Kinds of records that refer to types: to a type of another module, to a generic type, to a generic type with its
    /// arguments.
    pub(in crate::runtimes::nativeaot) reference: u32,
    pub(in crate::runtimes::nativeaot) namespace_reference: u32,
    pub(in crate::runtimes::nativeaot) specification: u32,
    pub(in crate::runtimes::nativeaot) instantiation: u32,
}

impl Kinds {
    /// Reads the numbers from the layout.
    pub(in crate::runtimes::nativeaot) fn of(layout: &Layout) -> Option<Kinds> {
        let kind = |name| u32::try_from(layout.constant("Metadata", name).ok()?).ok();
        Some(Kinds {
            definition: kind("TypeDefinition")?,
            namespace: kind("NamespaceDefinition")?,
            reference: kind("TypeReference")?,
            namespace_reference: kind("NamespaceReference")?,
            specification: kind("TypeSpecification")?,
            instantiation: kind("TypeInstantiation")?,
        })
    }
}

impl Metadata {
    /// Reads the metadata. `None` if it is not in the core.
    pub(in crate::runtimes::nativeaot) fn read(runtime: &Runtime<'_>, sections: &Sections) -> Option<Metadata> {
        let (_, bytes) = sections.bytes(runtime, "EmbeddedMetadata")?;
        let signature = runtime.layout.constant("Metadata", "Signature").ok()?;
        if u32_at(&bytes, 0).map(u64::from) != Some(signature) {
            return None;
        }
        let (_, map) = sections.bytes(runtime, "TypeMap")?;
        let (fixups_at, fixups) = sections.bytes(runtime, "CommonFixupsTable")?;
        let external = |index: u32| relative(fixups_at, &fixups, (index as usize).checked_mul(4)?);
        Some(Metadata::new(bytes, Kinds::of(&runtime.layout)?, &map, external))
    }

    /// Makes the metadata from its bytes and the map of types. `external` resolves an index to an address.
    pub(in crate::runtimes::nativeaot) fn new(
        bytes: Vec<u8>,
        kinds: Kinds,
        map: &[u8],
        external: impl Fn(u32) -> Option<Addr>,
    ) -> Metadata {
        let rows = entries(map).into_iter().filter_map(|entry| {
            let (index, next) = unsigned(map, entry)?;
            Some((external(index)?, unsigned(map, next)?.0))
        });
        let rows: Vec<(Addr, u32)> = rows.collect();
        let of_types = |bits: u32| rows.iter().filter(move |(_, handle)| handle >> (32 - bits) == kinds.definition);
        let bits = KIND_BITS.into_iter().rev().max_by_key(|&bits| of_types(bits).count()).unwrap_or(KIND_BITS[0]);
        let types = of_types(bits).map(|(at, handle)| (at.get(), handle & ((1 << (32 - bits)) - 1))).collect();
        Metadata { bytes, types, kinds, bits }
    }

    /// Names of the type with the MethodTable at `at`, outermost type first. The first name includes the namespace.
    pub(in crate::runtimes::nativeaot) fn chain(&self, at: Addr) -> Option<Vec<String>> {
        self.chain_of(*self.types.get(&at.get())?)
    }

    /// Visits the names of all types in the map.
    pub(in crate::runtimes::nativeaot) fn each_name(&self, visit: &mut dyn FnMut(Vec<String>)) {
        self.types.values().filter_map(|record| self.chain_of(*record)).for_each(visit);
    }

    /// Names of the type that a token refers to: the kind is in its highest bits. Arguments of generic types are left
    /// out.
    pub(in crate::runtimes::nativeaot) fn of_token(&self, token: u32) -> Option<Vec<String>> {
        let (mut kind, mut at) = (token >> (32 - self.bits), token & ((1 << (32 - self.bits)) - 1));
        let mut nested: Vec<String> = Vec::new();
        for _ in 0..MAX_NESTING {
            if kind == self.kinds.definition {
                let mut chain = self.chain_of(at)?;
                chain.extend(nested.into_iter().rev());
                return Some(chain);
            }
            let (first, next) = self.number(at as usize)?;
            if kind == self.kinds.reference {
                let name = self.string(self.number(next)?.0)?;
                let (of, parent) = self.split(first);
                if of != self.kinds.reference && of != self.kinds.definition {
                    let namespace = if of == self.kinds.namespace_reference {
                        self.namespace_of(parent, of)?
                    } else {
                        String::new()
                    };
                    let mut chain = vec![if namespace.is_empty() { name } else { format!("{namespace}.{name}") }];
                    chain.extend(nested.into_iter().rev());
                    return Some(chain);
                }
                nested.push(name);
            } else if kind != self.kinds.specification && kind != self.kinds.instantiation {
                return None;
            }
            (kind, at) = self.split(first);
        }
        None
    }

    /// The method whose record is at `at`: flags, flags of the implementation, name.
    pub(in crate::runtimes::nativeaot) fn method_name(&self, at: u32) -> Option<u32> {
        let (_, next) = self.number(at as usize)?;
        let (_, next) = self.number(next)?;
        Some(self.number(next)?.0)
    }

    /// Kind and offset of a handle in a record.
    fn split(&self, handle: u32) -> (u32, u32) {
        (handle & ((1 << self.bits) - 1), handle >> self.bits)
    }

    fn chain_of(&self, record: u32) -> Option<Vec<String>> {
        let mut record = record;
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

    /// Version of .NET, from the attributes of its core library. AssemblyInformationalVersion has version and commit,
    /// AssemblyFileVersion the same version with a build number. A program has such attributes too, so only attributes
    /// of `release` that agree are used: `9.0.22+commit` and `9.0.2226.52218`.
    pub(in crate::runtimes::nativeaot) fn version(&self, release: &str) -> Option<String> {
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
                // Informational version of a servicing release, seen in 10.0: `10.0.13-servicing.26504.104`.
                return Some(version.split("-servicing").next().unwrap_or(version).to_owned());
            }
        }
        None
    }

    /// Whether the metadata has a file version that matches `version`.
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

    /// Offsets of a type's name, namespace and enclosing type; 0 if there is none.
    fn definition(&self, record: u32) -> Option<(u32, u32, u32)> {
        // Flags, base type, namespace, name, size, packing, enclosing type.
        let mut at = record as usize;
        let mut fields = [0_u32; 7];
        for field in &mut fields {
            (*field, at) = self.number(at)?;
        }
        let [_, _, namespace, name, _, _, enclosing] = fields;
        Some((name, namespace, enclosing))
    }

    /// Full name of a namespace.
    fn namespace(&self, at: u32) -> Option<String> {
        self.namespace_of(at, self.kinds.namespace)
    }

    /// Full name of a namespace whose record, and those of the namespaces around, have this kind.
    fn namespace_of(&self, at: u32, kind: u32) -> Option<String> {
        let mut at = at;
        let mut names: Vec<String> = Vec::new();
        for _ in 0..MAX_NESTING {
            let (parent, next) = self.number(at as usize)?;
            let (name, _) = self.number(next)?;
            if name != 0 {
                names.push(self.string(name)?);
            }
            let (of, around) = self.split(parent);
            if of != kind {
                names.reverse();
                return Some(names.join("."));
            }
            at = around;
        }
        None
    }

    pub(in crate::runtimes::nativeaot) fn string(&self, at: u32) -> Option<String> {
        let (len, start) = self.number(at as usize)?;
        let len = (len as usize).min(limits::MAX_METADATA_NAME);
        let text = std::str::from_utf8(self.bytes.get(start..start.checked_add(len)?)?).ok()?;
        (!text.is_empty()).then(|| text.to_owned())
    }
}
