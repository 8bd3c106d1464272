//! Managed objects: what stays of them are their heads, and where strings have their characters.

use std::collections::{HashMap, HashSet};

use crate::addr::{Addr, AddrRange, union};
use crate::managed::{Heap, Losses, Object, StringUnits, TypeInfo};
use crate::scrub::plan::Use;
use crate::scrub::{java, python};
use crate::session::Session;
use crate::targets::byte_set::ByteSet;
use crate::targets::reads::{NameAt, Script};

/// Bytes of the word before an object of .NET that tells of its lock (`ObjHeader::m_SyncBlockValue`).
const SYNC_BLOCK_VALUE: u64 = 4;

/// Bytes of the length that stands at the end of an array's head.
const LENGTH: u64 = 4;

/// Heads of objects are no longer than this where they have no length: two words.
const LONGEST_HEAD: u64 = 16;

/// What is known of objects.
#[derive(Default)]
pub(super) struct Objects {
    /// Bytes that stay.
    pub(super) heads: ByteSet,
    /// The same wherever they lie, whatever the memory there is for.
    pub(super) own: ByteSet,
    /// Bytes of values: they never stay, whatever they look like and whoever read them, unless they are in `own`.
    pub(super) values: ByteSet,
    /// Objects that tell a value by their address, and those that may stand for them.
    pub(super) alike: HashMap<u64, u64>,
    /// Objects without elements, whose fields may stay where they were read as those of threads, locks and tasks.
    pub(super) plain: ByteSet,
    /// Characters of strings, and how many bytes one has; by address.
    pub(super) texts: Vec<(AddrRange, u8)>,
    /// Names: texts that stay.
    pub(super) named: Vec<NameAt>,
    /// Parts of heaps that are known object by object: a word that leads there and is no field with a reference is an address
    /// only where it leads to one of `starts`. By address.
    pub(super) known: Vec<AddrRange>,
    /// The first bytes of the objects in these.
    pub(super) starts: ByteSet,
    /// Heaps that can't be walked well enough for any of it, in words.
    pub(super) given_up: Vec<String>,
}

impl Objects {
    /// Whether a word that leads into a heap is no address of its objects. Within the heap these are all told by fields.
    pub(super) fn is_number(&self, used: Use, value: u64) -> bool {
        let at = Addr::new(value);
        let part = self.known.partition_point(|part| part.end <= at);
        let is_within = self.known.get(part).is_some_and(|part| part.contains(at));
        is_within && (used == Use::Objects || !at.is_aligned(8) || self.starts.word(at) & 1 == 0)
    }
}

impl Objects {
    /// Whether a word leads beside all parts of heaps that are known object by object, where there are any.
    pub(super) fn is_outside(&self, value: u64) -> bool {
        let at = Addr::new(value);
        let part = self.known.partition_point(|part| part.end <= at);
        !self.known.is_empty() && !self.known.get(part).is_some_and(|part| part.contains(at))
    }
}

/// All objects of all runtimes. `names`: texts that answers print as names of threads, and which stay.
pub(super) fn all(session: &Session<'_>, names: &HashSet<String>) -> Objects {
    let mut out = Objects::default();
    let of_dotnet = session.coreclr().len();
    let java = of_dotnet..of_dotnet + session.hotspot().len();
    for python in session.cpython() {
        python::all(python, names, &mut out);
    }
    let python = java.end..java.end + session.cpython().len();
    for (number, runtime) in session.runtimes().into_iter().enumerate() {
        if python.contains(&number) {
            continue;
        }
        let Some(heap) = runtime.heap() else { continue };
        if number < of_dotnet || !session.nativeaot().is_empty() && number >= java.end {
            of_heap(heap, names, &mut out);
        } else if !java.contains(&number) {
            out.given_up.push(format!("{}: values of objects and their sizes are overwritten", runtime.label()));
        }
    }
    session.hotspot().iter().for_each(|hotspot| java::all(hotspot, names, &mut out));
    out.known = union(std::mem::take(&mut out.known));
    out.texts.sort_unstable();
    out.texts.dedup();
    out
}

fn of_heap(heap: &dyn Heap, names: &HashSet<String>, out: &mut Objects) {
    let head = head(heap);
    let mut walker = heap.walker();
    let mut reader = heap.reader();
    for part in heap.parts() {
        walker.walk(part, &mut Losses::default(), &mut |object: &Object| {
            let Some(info) = heap.type_info(object.kind) else { return };
            let len = info.elements.map_or(head, |elements| elements.start).min(object.size);
            // Before free space stands what a compaction left there: the end of a text, as seen in 3.1.
            if !info.free {
                out.heads.add(object.addr.saturating_sub(SYNC_BLOCK_VALUE), SYNC_BLOCK_VALUE);
            }
            out.heads.add(object.addr, len);
            if info.string {
                text(heap, object, info, &mut *reader, names, out);
            } else if info.elements.is_none() {
                out.plain.add(object.addr, object.size);
            }
        });
    }
}

/// Bytes of a head without a length, told by the shortest that has one.
fn head(heap: &dyn Heap) -> u64 {
    let types = (0..heap.types()).filter_map(|i| heap.type_info(crate::managed::TypeIndex(i as u32)));
    let shortest = types.filter_map(|info| info.elements).map(|elements| elements.start).min();
    shortest.unwrap_or(8 + LENGTH).saturating_sub(LENGTH).min(LONGEST_HEAD)
}

/// The characters of a string: overwritten as a text, or kept where they are one of `names`.
pub(super) fn text(
    heap: &dyn Heap,
    string: &Object,
    info: TypeInfo,
    reader: &mut dyn crate::managed::ObjectReader,
    names: &HashSet<String>,
    out: &mut Objects,
) {
    let Some(content) = heap.string_content(string) else { return };
    let len = content.bytes.len() as u64;
    // Where it has no characters of its own, the first object that it holds has them.
    let start = match info.elements {
        Some(elements) => string.addr.checked_add(elements.start),
        None => {
            let mut array = None;
            reader.each(string.addr.since(Addr::NULL), |_, value| {
                array = Some(value);
                false
            });
            let of = |array: u64| {
                let node = reader.node(array)?;
                Addr::new(array).checked_add(heap.type_info(node.kind)?.elements?.start)
            };
            array.and_then(of)
        }
    };
    let Some(start) = start else { return };
    let range = AddrRange::sized(start, len);
    let (width, text) = match content.units {
        StringUnits::Utf16 => {
            let units = content.bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
            (2, char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect::<String>())
        }
        StringUnits::Latin1 => (1, content.bytes.iter().map(|&b| char::from(b)).collect()),
        StringUnits::Utf8 => (1, String::from_utf8_lossy(content.bytes).into_owned()),
    };
    if names.contains(&text) {
        out.heads.add(range.start, len);
        let script = if matches!(content.units, StringUnits::Utf8) { Script::Utf8 } else { Script::Units(width) };
        out.named.push(NameAt { at: range.start, len, script });
    } else {
        out.texts.push((range, width));
    }
}
