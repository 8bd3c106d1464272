//! Reads single objects and their references.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::addr::Addr;
use crate::runtimes::api::linear::{LinearHeap as _, slot};
use crate::runtimes::api::{Heap as _, Link, Node, ObjectBatch, ObjectReader, RefBatch, TypeIndex};
use crate::runtimes::hotspot::classes::{Classes, Encoding, KlassShape, OopRun};
use crate::runtimes::hotspot::heap::Heap;
use crate::runtimes::hotspot::heap::types::Form;

/// Entries of a reader's class cache, a power of two.
const CACHE: usize = 1 << CACHE_BITS;
const CACHE_BITS: u32 = 9;

/// Index of the first reference that is in no field. It is above the indexes of all fields.
const FIRST_EXTRA_POSITION: u32 = u32::MAX - 3;

/// The link from an instance to its class, if the class can be unloaded.
const CLASS: Link = Link::NoField("(class)");

/// The link from a class to its resolved constants.
const CONSTANTS: Link = Link::NoField("(constant pool)");

/// Where the objects of a class have references.
pub(super) struct ObjectLayout {
    kind: TypeIndex,
    form: Form,
    /// References of instances, ordered by position.
    runs: Vec<OopRun>,
    extra: ExtraRefs,
    /// The mirror of the class, if its loader may be collected.
    mirror: Option<u64>,
}

/// References of an object besides instance fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExtraRefs {
    Nothing,
    /// Array elements from this offset on.
    Elements(u64),
    /// The static fields of the mirror's class.
    Statics,
    /// Frames of a virtual thread.
    Frames,
}

/// The references of a mirror.
struct Statics {
    /// References of the instance, and static references of its class, in one list ordered by position. So a visit that
    /// continues at a position skips none.
    runs: Vec<OopRun>,
    /// The array of the class's resolved constants.
    constants: Option<u64>,
}

/// Object layouts by class, shared by all readers.
pub(super) struct ObjectLayouts {
    by_class: RwLock<HashMap<u64, Option<Arc<ObjectLayout>>>>,
    statics: RwLock<HashMap<u64, Arc<Statics>>>,
    /// Offset in a `java.lang.Class` of the pointer to its class.
    klass_at: Option<u64>,
}

impl ObjectLayouts {
    pub(super) fn new(classes: &Classes<'_>) -> ObjectLayouts {
        ObjectLayouts { by_class: RwLock::default(), statics: RwLock::default(), klass_at: classes.klass_at() }
    }
}

/// Sorts runs by position and removes overlaps. A visit that continues at a position must find all further references
/// after it, even if the class is damaged. `unit` is the bytes of a reference.
fn in_order(mut runs: Vec<OopRun>, unit: u64) -> Vec<OopRun> {
    runs.sort_by_key(|run| run.offset);
    let mut end = 0;
    let position = |run: &OopRun| u64::from(run.offset) / unit;
    runs.iter_mut().for_each(|run| {
        let (first, last) = (position(run).max(end), position(run) + u64::from(run.count));
        run.offset = u32::try_from(first * unit).unwrap_or(u32::MAX);
        run.count = u32::try_from(last.saturating_sub(first)).unwrap_or(0);
        end = end.max(last);
    });
    runs.retain(|run| run.count != 0);
    runs
}

/// An object with its layout and words.
struct LoadedObject<'r, 'p> {
    layout: &'r Arc<ObjectLayout>,
    size: u64,
    /// From the object's start to the end of the dumped range that contains it.
    words: &'p [[u8; 8]],
}

/// Reads objects. Each thread has its own reader.
pub(super) struct Reader<'h, 'p> {
    heap: &'h Heap<'p>,
    cache: Vec<(u64, Option<Arc<ObjectLayout>>)>,
}

/// Returns the word at an offset from the start of `words`.
#[inline(always)]
fn word(words: &[[u8; 8]], at: u64) -> Option<u64> {
    words.get((at >> 3) as usize).map(|w| u64::from_le_bytes(*w))
}

impl Heap<'_> {
    fn layout(&self, address: u64) -> Option<Arc<ObjectLayout>> {
        {
            let known = self.layouts.by_class.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = known.get(&address) {
                return found.clone();
            }
        }
        let made = self.make_layout(address).map(Arc::new);
        // Failures are not cached: there may be any number of addresses without a class.
        if made.is_some() {
            self.layouts.by_class.write().unwrap_or_else(PoisonError::into_inner).insert(address, made.clone());
        }
        made
    }

    fn make_layout(&self, address: u64) -> Option<ObjectLayout> {
        let (kind, klass) = self.types.lookup(address)?;
        let form = Form::of(klass.shape)?;
        let mut runs = klass.references.clone();
        // So far a Reference has no referent: the collector treats it by its kind.
        if klass.reference.is_some_and(|kind| kind.keeps())
            && let Some(field) = self.classes.field(&klass, "referent")
        {
            runs.push(OopRun { offset: field.offset as u32, count: 1 });
        }
        let runs = in_order(runs, self.classes.encoding.unit());
        let extra = match klass.shape {
            KlassShape::ObjectArray { header, .. } => ExtraRefs::Elements(header),
            KlassShape::Mirror { .. } => ExtraRefs::Statics,
            KlassShape::StackChunk { .. } => ExtraRefs::Frames,
            _ => ExtraRefs::Nothing,
        };
        let mirror = self.classes.collectible_mirror(&klass).map(Addr::get);
        Some(ObjectLayout { kind, form, runs, extra, mirror })
    }

    /// Returns the references of a class's mirror. `own` are the references of every mirror.
    fn statics_of(&self, klass: u64, own: &[OopRun]) -> Arc<Statics> {
        if let Some(known) = self.layouts.statics.read().unwrap_or_else(PoisonError::into_inner).get(&klass) {
            return known.clone();
        }
        let at = Addr::new(klass);
        let is_class = self.classes.klass(at).is_some_and(|k| !k.is_array());
        let (mut runs, mut constants) = (own.to_vec(), None);
        if is_class {
            let fields = self.classes.declared_fields(at);
            let statics = fields.iter().filter(|f| f.is_static && f.is_reference());
            runs.extend(statics.map(|f| OopRun { offset: f.offset as u32, count: 1 }));
            runs = in_order(runs, self.classes.encoding.unit());
            constants = self.classes.resolved_references(at).map(Addr::get);
        }
        let made = Arc::new(Statics { runs, constants });
        self.layouts.statics.write().unwrap_or_else(PoisonError::into_inner).insert(klass, made.clone());
        made
    }
}

impl<'h, 'p> Reader<'h, 'p> {
    pub(super) fn new(heap: &'h Heap<'p>) -> Reader<'h, 'p> {
        Reader { heap, cache: vec![(0, None); CACHE] }
    }

    #[inline(always)]
    fn load(&mut self, addr: u64) -> Option<LoadedObject<'_, 'h>> {
        let words = self.heap.space().run(addr).filter(|_| addr & 7 == 0)?.words(addr);
        let encoding = &self.heap.classes.encoding;
        let klass = encoding.klass_in(|at| word(words, at))?;
        let entry = self.cache.get_mut(slot(klass, CACHE_BITS))?;
        if entry.0 != klass || entry.1.is_none() {
            *entry = (klass, self.heap.layout(klass));
        }
        let layout = entry.1.as_ref()?;
        let size = self.heap.stride(layout.form.size(encoding, |at| word(words, at))?);
        Some(LoadedObject { layout, size, words })
    }

    #[inline(always)]
    fn visit_from(&mut self, addr: u64, from: u32, visit: &mut impl FnMut(u32, Link, u64) -> bool) {
        let heap = self.heap;
        if let Some(object) = self.load(addr) {
            object.visit(heap, from, visit);
        }
    }
}

impl LoadedObject<'_, '_> {
    #[inline(always)]
    fn node(&self) -> Node {
        Node { kind: self.layout.kind, size: self.size, counted_size: self.size }
    }

    /// Visits the references from position `from` on. The layout is borrowed: a reference count would be a word that
    /// all threads write to.
    #[inline(always)]
    fn visit(&self, heap: &Heap<'_>, from: u32, visit: &mut impl FnMut(u32, Link, u64) -> bool) {
        let encoding = &heap.classes.encoding;
        let &LoadedObject { layout, words, size } = self;
        if from <= FIRST_EXTRA_POSITION {
            let refs = ObjectRefs { encoding, words, size };
            let goes_on = match layout.extra {
                ExtraRefs::Nothing => refs.visit(&layout.runs, from, visit),
                ExtraRefs::Elements(start) => {
                    let count = (size.saturating_sub(start) / encoding.unit()) as u32;
                    let length =
                        word(words, encoding.length_at & !7).map_or(0, |w| w >> (8 * (encoding.length_at & 4)));
                    let count = count.min(length as u32);
                    refs.visit(&[OopRun { offset: start as u32, count }], from, visit)
                }
                ExtraRefs::Frames => refs.visit(&layout.runs, from, visit),
                ExtraRefs::Statics => {
                    let klass = heap.layouts.klass_at.and_then(|at| word(words, at)).filter(|&klass| klass != 0);
                    let statics = klass.map(|klass| heap.statics_of(klass, &layout.runs));
                    let runs = statics.as_ref().map_or(&layout.runs, |s| &s.runs);
                    refs.visit(runs, from, visit)
                        && statics
                            .as_ref()
                            .and_then(|s| s.constants)
                            .is_none_or(|c| visit(FIRST_EXTRA_POSITION, CONSTANTS, c))
                }
            };
            if !goes_on {
                return;
            }
        }
        if let Some(mirror) = layout.mirror
            && from <= FIRST_EXTRA_POSITION + 1
        {
            visit(FIRST_EXTRA_POSITION + 1, CLASS, mirror);
        }
    }
}

/// The references of one object by position. A position is an offset in units of a reference.
struct ObjectRefs<'a> {
    encoding: &'a Encoding,
    words: &'a [[u8; 8]],
    size: u64,
}

impl ObjectRefs<'_> {
    /// Visits the references of `runs` from position `from` on. Returns false if `visit` stopped.
    #[inline(always)]
    fn visit(&self, runs: &[OopRun], from: u32, visit: &mut impl FnMut(u32, Link, u64) -> bool) -> bool {
        let unit = self.encoding.unit();
        for run in runs {
            let first = (u64::from(run.offset) / unit) as u32;
            let last = first.saturating_add(run.count).min((self.size / unit) as u32);
            for position in first.max(from)..last {
                let offset = u64::from(position) * unit;
                let Some(word) = word(self.words, offset & !7) else { return true };
                let value = if self.encoding.narrow {
                    self.encoding.narrow_raw((word >> (8 * (offset & 4))) as u32)
                } else {
                    self.encoding.wide_raw(word)
                };
                if value != 0 && !visit(position, Link::Field(offset), value) {
                    return false;
                }
            }
        }
        true
    }
}

impl ObjectReader for Reader<'_, '_> {
    #[inline]
    fn node(&mut self, addr: u64) -> Option<Node> {
        self.load(addr).map(|object| object.node())
    }

    fn each_from(&mut self, addr: u64, from: u32, visit: &mut dyn FnMut(u32, Link, u64) -> bool) {
        self.visit_from(addr, from, &mut |position, link, value| visit(position, link, value));
    }

    fn read_batch(&mut self, addrs: &[u64], limit: usize, out: &mut ObjectBatch) {
        let heap = self.heap;
        out.clear();
        for &addr in addrs {
            let object = self.load(addr);
            out.nodes.push(object.as_ref().map(LoadedObject::node));
            if let Some(object) = object {
                object.visit(heap, 0, &mut |position, link, value| out.push(limit, position, link, value));
            }
            out.ends.push(out.references.len());
            if out.references.len() >= limit {
                break;
            }
        }
    }

    fn targets(&mut self, addr: u64, from: u32, limit: usize, out: &mut Vec<(u32, u64)>) -> Option<u32> {
        let mut batch = RefBatch::new(out, limit);
        self.visit_from(addr, from, &mut |position, _, value| batch.push(position, value));
        batch.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_by_position_and_share_none() {
        let run = |offset, count| OopRun { offset, count };
        assert_eq!(in_order(vec![run(40, 2), run(16, 3)], 8), [run(16, 3), run(40, 2)]);
        assert_eq!(in_order(vec![run(0, 100), run(8, 1), run(792, 2)], 8), [run(0, 100), run(800, 1)]);
        assert_eq!(in_order(vec![run(12, 4), run(12, 2), run(20, 0)], 4), [run(12, 4)]);
        assert!(in_order(vec![run(u32::MAX, u32::MAX)], 8).len() <= 1);
    }
}
