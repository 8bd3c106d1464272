//! Heaps whose objects are located by their starts. Which bytes of an object are preserved follows from its type and
//! is computed when needed. So the record takes a sixty-fourth of the heap's size.

use std::collections::HashSet;
use std::sync::Mutex;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange};
use crate::memory::Memory;
use crate::runtimes::api::anatomy::{ARRAY_LENGTH_SIZE, ScrubRule, ScrubRules};
use crate::runtimes::api::{Elements, Heap, Object, ObjectReader, StringContent, StringUnits, UnwalkedRanges};
use crate::scrub::starts::ObjectStarts;
use crate::targets::reads::{NameAt, Script};

/// Maximum number of bytes before an object that belong to it ([`ScrubRule::prefix`]).
const PREFIX: u64 = 8;

pub(super) struct HeapObjects<'s> {
    heap: &'s dyn Heap,
    memory: &'s dyn Memory,
    forms: ScrubRules,
    pub(super) starts: ObjectStarts,
    /// Arrays that contain the characters of strings, names or not, if string objects have no characters of their own.
    /// `wide` has those with two bytes a character.
    characters: ObjectStarts,
    wide: ObjectStarts,
    /// Objects with the characters of strings that are names.
    named: HashSet<Addr>,
    /// Texts that are names, in the encodings of memory.
    names: Encoded,
}

/// Byte masks and texts of a run of memory.
#[derive(Debug, Default)]
pub(super) struct RunMasks {
    start: Addr,
    /// Bytes that stay: one byte per word, the lowest bit for the first byte.
    heads: Vec<u8>,
    /// Bytes of objects without elements.
    plain: Vec<u8>,
    /// Start address of the two masks that follow.
    masks_start: Addr,
    /// Bytes that stay in any kind of memory.
    own: Vec<u8>,
    /// Bytes of values.
    values: Vec<u8>,
    /// Characters of strings, each with the width of a character in bytes, by address.
    pub(super) texts: Vec<(AddrRange, u8)>,
}

/// Texts in the encodings that heaps use.
#[derive(Default)]
struct Encoded {
    all: HashSet<Box<[u8]>>,
    longest: usize,
}

impl Encoded {
    fn new(names: &HashSet<String>) -> Encoded {
        let mut all = HashSet::new();
        for name in names {
            all.insert(name.encode_utf16().flat_map(u16::to_le_bytes).collect());
            all.insert(name.as_bytes().into());
            // Latin-1, if every character has a code there.
            all.extend(name.chars().map(|c| u8::try_from(c).ok()).collect::<Option<Box<[u8]>>>());
        }
        let longest = all.iter().map(|name| name.len()).max().unwrap_or(0);
        Encoded { all, longest }
    }

    fn has(&self, bytes: &[u8]) -> bool {
        bytes.len() <= self.longest && self.all.contains(bytes)
    }
}

/// Results of a walk over all objects, besides their starts.
#[derive(Default)]
pub(super) struct HeapWalk {
    /// Strings that are names.
    pub(super) named: Vec<NameAt>,
    /// Objects of which more is preserved than their types determine.
    pub(super) special: Vec<Object>,
}

impl<'s> HeapObjects<'s> {
    /// Walks a heap. `names` are texts to preserve.
    pub(super) fn new(
        heap: &'s dyn Heap,
        memory: &'s dyn Memory,
        forms: ScrubRules,
        names: &HashSet<String>,
    ) -> (HeapObjects<'s>, HeapWalk) {
        let mut parts: Vec<AddrRange> = heap.ranges().iter().map(|part| part.range).collect();
        parts.sort_unstable();
        parts.dedup_by(|next, kept| next.start < kept.end);
        let has_own =
            heap.string_type().and_then(|kind| heap.type_info(kind)).is_none_or(|info| info.elements.is_some());
        let others: &[AddrRange] = if has_own { &[] } else { &parts };
        let names = Encoded::new(names);
        let mut out = HeapObjects {
            heap,
            memory,
            forms,
            starts: ObjectStarts::new(&parts),
            characters: ObjectStarts::new(others),
            wide: ObjectStarts::new(others),
            named: HashSet::new(),
            names,
        };
        let all = Mutex::new((HeapWalk::default(), HashSet::new()));
        heap.ranges().par_iter().for_each(|part| {
            let (mut found, mut named) = (HeapWalk::default(), HashSet::new());
            let (mut walker, mut reader) = (heap.walker(), heap.reader());
            walker.walk(part, &mut UnwalkedRanges::default(), &mut |object: &Object| {
                let Some(form) = out.forms.get(&object.kind) else { return };
                out.starts.mark(object.addr);
                if form.is_special {
                    found.special.push(*object);
                }
                if form.is_string {
                    out.string(object, &mut *reader, &mut found.named, &mut named);
                }
            });
            if let Ok(mut all) = all.lock() {
                all.0.named.append(&mut found.named);
                all.0.special.append(&mut found.special);
                all.1.extend(named);
            }
        });
        let (found, named) = all.into_inner().unwrap_or_default();
        out.named = named;
        [&mut out.starts, &mut out.characters, &mut out.wide].into_iter().for_each(ObjectStarts::finish);
        (out, found)
    }

    /// Records a string that is a name. If string objects have no characters of their own, also marks the array that
    /// has them.
    fn string(
        &self,
        object: &Object,
        reader: &mut dyn ObjectReader,
        names: &mut Vec<NameAt>,
        named: &mut HashSet<Addr>,
    ) {
        let Some(content) = self.heap.string_content(object) else { return };
        let own = self.heap.type_info(object.kind).and_then(|info| info.elements);
        let Some((holder, at)) = own.map_or_else(|| self.array(object, reader), |own| start(object.addr, own)) else {
            return;
        };
        if self.names.has(content.bytes) {
            named.insert(holder);
            let (script, len) = (script(content), content.bytes.len() as u64);
            names.push(NameAt { at, len, script });
        }
        if own.is_none() {
            self.characters.mark(holder);
            if width(content.units) > 1 {
                self.wide.mark(holder);
            }
        }
    }

    /// Returns the array with a string's characters, which is the first object that the string refers to, and the
    /// address of its first element.
    fn array(&self, string: &Object, reader: &mut dyn ObjectReader) -> Option<(Addr, Addr)> {
        let mut array = None;
        reader.each(string.addr.since(Addr::NULL), |_, value| {
            array = Some(value);
            false
        });
        let kind = reader.node(array?)?.kind;
        start(Addr::new(array?), self.heap.type_info(kind)?.elements?)
    }

    /// Adds the bytes and texts in a run of memory to `out`.
    pub(super) fn add_masks(&self, range: AddrRange, out: &mut RunMasks) {
        let mut reader = self.heap.reader();
        // A prefix of an object that starts just after the range may be in it.
        self.starts.each(AddrRange::new(range.start, range.end.saturating_add(PREFIX)), |at| {
            let Some(node) = reader.node(at.since(Addr::NULL)) else { return };
            let Some(form) = self.forms.get(&node.kind) else { return };
            let of = |from: u64, len: u64| {
                AddrRange::sized(at.saturating_add(from), len.min(node.size.saturating_sub(from)))
            };
            out.add_head(AddrRange::new(at.saturating_sub(form.prefix), at));
            out.add_head(of(0, form.head));
            form.fields.iter().for_each(|&(from, len)| out.add_head(of(from, len)));
            form.references.into_iter().for_each(|from| out.add_head(of(from, u64::MAX)));
            if form.is_plain {
                out.add_plain(of(0, u64::MAX));
            }
            if form.is_string || self.characters.has(at) {
                self.text(&Object { addr: at, kind: node.kind, size: node.size }, form, out);
            }
        });
    }

    /// Adds the characters of a string, or of the array that contains them.
    fn text(&self, object: &Object, form: &ScrubRule, out: &mut RunMasks) {
        let Some(elements) = self.heap.type_info(object.kind).and_then(|info| info.elements) else { return };
        let Some((_, at)) = start(object.addr, elements) else { return };
        let (len, width) = if form.is_string {
            let Some(content) = self.heap.string_content(object) else { return };
            (content.bytes.len() as u64, width(content.units))
        } else {
            let length_at = object.addr.saturating_add(form.head.saturating_sub(ARRAY_LENGTH_SIZE));
            let length = self.memory.peek_u32(length_at).unwrap_or(0);
            let most = object.size.saturating_sub(elements.start);
            let width = if self.wide.has(object.addr) { 2 } else { 1 };
            (u64::from(length).saturating_mul(elements.size).min(most), width)
        };
        let range = AddrRange::sized(at, len);
        if self.named.contains(&object.addr) {
            out.add_head(range);
        } else {
            out.texts.push((range, width));
        }
    }
}

/// Returns an object, and the address of its first element.
fn start(object: Addr, elements: Elements) -> Option<(Addr, Addr)> {
    Some((object, object.checked_add(elements.start)?))
}

fn width(units: StringUnits) -> u8 {
    match units {
        StringUnits::Utf16 => 2,
        StringUnits::Latin1 => 1,
    }
}

fn script(content: StringContent<'_>) -> Script {
    Script::Units(width(content.units))
}

impl RunMasks {
    /// Creates empty masks for a run of `words` words.
    pub(super) fn new(start: Addr, words: usize) -> RunMasks {
        RunMasks { start, heads: vec![0; words], plain: vec![0; words], ..RunMasks::default() }
    }

    fn add_head(&mut self, range: AddrRange) {
        add(&mut self.heads, self.start, range);
    }

    fn add_plain(&mut self, range: AddrRange) {
        add(&mut self.plain, self.start, range);
    }

    /// Prepares the masks `own` and `values` for `range`, which begins at a word.
    pub(super) fn start_masks(&mut self, range: AddrRange) {
        let words = range.len().div_ceil(8) as usize;
        (self.masks_start, self.own, self.values) = (range.start, vec![0; words], vec![0; words]);
    }

    pub(super) fn add_own(&mut self, range: AddrRange) {
        add(&mut self.own, self.masks_start, range);
    }

    pub(super) fn add_value(&mut self, range: AddrRange) {
        add(&mut self.values, self.masks_start, range);
    }

    /// Adds the masks for the page at `page` to `heads` and `plain`.
    pub(super) fn join_page(&self, page: Addr, heads: &mut [u8], plain: &mut [u8]) {
        for (from, to) in [(&self.heads, heads), (&self.plain, plain)] {
            join(self.start, from, page, to);
        }
    }

    /// Adds the masks for the page at `page` to `own` and `values`.
    pub(super) fn join_values(&self, page: Addr, own: &mut [u8], values: &mut [u8]) {
        for (from, to) in [(&self.own, own), (&self.values, values)] {
            join(self.masks_start, from, page, to);
        }
    }
}

/// Adds a mask that starts at `start` to the mask of the page at `page`, where they overlap.
fn join(start: Addr, from: &[u8], page: Addr, to: &mut [u8]) {
    // A run may begin within a page.
    let ahead = start.checked_since(page).unwrap_or(0) / 8;
    let skip = page.checked_since(start).unwrap_or(0) / 8;
    let from = from.iter().skip(skip as usize);
    to.iter_mut().skip(ahead as usize).zip(from).for_each(|(to, from)| *to |= from);
}

/// Adds the bytes of `range` to a mask whose first word is at `start`.
fn add(words: &mut [u8], start: Addr, range: AddrRange) {
    let (Some(from), Some(to)) = (range.start.max(start).checked_since(start), range.end.checked_since(start)) else {
        return;
    };
    let to = to.min(8 * words.len() as u64);
    let mut at = from;
    while at < to {
        let end = to.min((at / 8 + 1) * 8);
        let bits = ((1u16 << (end - at)) - 1) << (at % 8);
        if let Some(word) = words.get_mut((at / 8) as usize) {
            *word |= bits as u8;
        }
        at = end;
    }
}
