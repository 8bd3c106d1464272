//! Reads single objects and their references.
//!
//! An object keeps alive what the GCDesc of its type lists, its LoaderAllocator if the type is collectible, and the
//! secondary objects of its dependent handles (docs/dotnet.md, Roots).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::addr::Addr;
use crate::runtimes::api::Space;
use crate::runtimes::api::linear::slot;
use crate::runtimes::api::{Handle, Link, Node, ObjectBatch, ObjectReader, RefBatch, TypeIndex};
use crate::runtimes::clr_gc::{ClrHeap, MIN_OBJECT, MethodTableInfo, References, stride};
use crate::words::HandleKind;

/// Links to objects that are in no field of the object that keeps them alive.
const ALLOCATOR: Link = Link::NoField("(loader allocator)");
const DEPENDENT: Link = Link::NoField("(dependent handle)");

const CACHE: usize = 1 << CACHE_BITS;
const CACHE_BITS: u32 = 10;

/// log2 of the bits in the filter that precedes the lookup of dependent handles.
const FILTER_BITS: u32 = 16;

/// Resume positions below this are the numbers of words in the object. From here on they number the LoaderAllocator and
/// the dependent handles. No array has 30 GiB.
const FIRST_EXTRA_POSITION: u32 = 0xf000_0000;

/// A type's sizes and references.
#[derive(Debug)]
struct ObjectLayout {
    kind: TypeIndex,
    info: MethodTableInfo,
    references: References,
    /// The System.Reflection.LoaderAllocator that objects of a collectible type keep alive.
    allocator: Option<Addr>,
}

impl ObjectLayout {
    /// Size in bytes of the object that begins with `words`. `None` if its element count is not in the core.
    #[inline(always)]
    fn size(&self, words: &[[u8; 8]], count_at: u64) -> Option<u64> {
        let mut size = u64::from(self.info.base_size);
        if self.info.component_size != 0 {
            let count = words.get((count_at / 8) as usize).map(|w| u64::from_le_bytes(*w) as u32)?;
            // 32 bits, plus the product of 32 and 16 bits.
            size += u64::from(count) * u64::from(self.info.component_size);
        }
        Some(size)
    }

    #[inline(always)]
    fn node<H: ClrHeap>(&self, size: u64) -> Node {
        if H::SIZES_ARE_ROUNDED {
            let size = stride(size.max(MIN_OBJECT));
            return Node { kind: self.kind, size, counted_size: size };
        }
        let counted_size = if self.info.counted() { size.max(MIN_OBJECT) } else { size };
        Node { kind: self.kind, size, counted_size }
    }
}

/// Object layouts by MethodTable, shared by the readers of one heap.
#[derive(Default)]
pub(crate) struct ObjectLayouts {
    known: RwLock<HashMap<u64, Arc<ObjectLayout>>>,
    /// Number of types whose references can't be read.
    unread: AtomicU64,
}

impl ObjectLayouts {
    /// Number of types seen so far whose references can't be read.
    pub(crate) fn unread(&self) -> u64 {
        self.unread.load(Ordering::Relaxed)
    }

    /// Returns the layout of the MethodTable at `address`, if there is one.
    fn get<H: ClrHeap>(&self, heap: &H, address: u64) -> Option<Arc<ObjectLayout>> {
        {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = known.get(&address) {
                return Some(found.clone());
            }
        }
        // Only hits are stored: any number may be passed here, so misses would be unbounded.
        let (kind, info) = heap.table_at(address)?;
        let (references, allocator) = (heap.references(&info), heap.allocator(&info));
        let is_unread = references.is_none();
        let made = Arc::new(ObjectLayout { kind, info, references: references.unwrap_or_default(), allocator });
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // Two threads may have read the same type.
        if known.insert(address, made.clone()).is_none() && is_unread {
            self.unread.fetch_add(1, Ordering::Relaxed);
        }
        Some(made)
    }
}

/// Objects kept alive by dependent handles, and by other means outside of any field.
#[derive(Debug)]
pub(crate) struct Dependents {
    /// Secondary objects by primary object.
    of: HashMap<u64, Vec<(u64, Link)>>,
    /// One bit per hash of a primary object. Most objects are not primary, so most lookups end here.
    filter: Vec<u64>,
}

impl Dependents {
    /// Collects the dependent handles among `handles`.
    pub(crate) fn new(handles: &[Handle]) -> Dependents {
        let mut out = Dependents { of: HashMap::new(), filter: vec![0; 1 << (FILTER_BITS - 6)] };
        for handle in handles.iter().filter(|h| h.kind == HandleKind::Dependent) {
            let Some(secondary) = handle.secondary else { continue };
            out.add(handle.object, secondary, DEPENDENT);
        }
        out
    }

    /// Adds an object that `primary` keeps alive, and how.
    pub(crate) fn add(&mut self, primary: Addr, secondary: Addr, link: Link) {
        self.of.entry(primary.get()).or_default().push((secondary.get(), link));
        let bit = slot(primary.get(), FILTER_BITS);
        if let Some(word) = self.filter.get_mut(bit >> 6) {
            *word |= 1 << (bit & 63);
        }
    }

    #[inline(always)]
    fn with(&self, addr: u64) -> Option<&[(u64, Link)]> {
        let bit = slot(addr, FILTER_BITS);
        let may = self.filter.get(bit >> 6).is_some_and(|word| word >> (bit & 63) & 1 != 0);
        if may { self.of.get(&addr).map(Vec::as_slice) } else { None }
    }
}

struct ObjectView<'r, 'p> {
    layout: &'r Arc<ObjectLayout>,
    size: u64,
    /// Its words from the MethodTable on, to the end of the dumped memory that contains it.
    words: &'p [[u8; 8]],
}

/// Reads objects. Each thread needs its own reader.
pub(crate) struct Reader<'g, H> {
    heap: &'g H,
    space: &'g Space<'g>,
    /// Loaded when references are first followed.
    dependents: Option<&'g Dependents>,
    cache: Vec<(u64, Option<Arc<ObjectLayout>>)>,
}

impl<'g, H: ClrHeap> Reader<'g, H> {
    pub(crate) fn new(heap: &'g H) -> Reader<'g, H> {
        Reader { heap, space: heap.space(), dependents: None, cache: vec![(0, None); CACHE] }
    }

    #[inline(always)]
    fn view(&mut self, addr: u64) -> Option<ObjectView<'_, 'g>> {
        let words = self.space.run(addr).filter(|_| addr & 7 == 0)?.words(addr);
        let method_table = u64::from_le_bytes(*words.first()?) & self.heap.mask();
        let count_at = self.heap.count_at();
        let layout = self.layout(method_table)?;
        let size = layout.size(words, count_at)?;
        Some(ObjectView { layout, size, words })
    }

    #[inline(always)]
    fn layout(&mut self, method_table: u64) -> Option<&Arc<ObjectLayout>> {
        let entry = self.cache.get_mut(slot(method_table, CACHE_BITS))?;
        if entry.0 != method_table || entry.1.is_none() {
            *entry = (method_table, self.heap.layouts().get(self.heap, method_table));
        }
        entry.1.as_ref()
    }

    #[inline(always)]
    fn visit_from(&mut self, addr: u64, from: u32, mut visit: impl FnMut(u32, Link, u64) -> bool) {
        let secondaries = self.dependents().with(addr);
        if let Some(object) = self.view(addr) {
            let references = &object.layout.references;
            let field = &mut |offset: u64, value| {
                let position = offset / 8;
                position < u64::from(FIRST_EXTRA_POSITION) && visit(position as u32, Link::Field(offset), value)
            };
            if from < FIRST_EXTRA_POSITION
                && !references.visit_from(8 * u64::from(from), object.words, object.size, field)
            {
                return;
            }
            if let Some(allocator) = object.layout.allocator
                && from <= FIRST_EXTRA_POSITION
                && !visit(FIRST_EXTRA_POSITION, ALLOCATOR, allocator.get())
            {
                return;
            }
        }
        if let Some(all) = secondaries {
            let done = from.saturating_sub(FIRST_EXTRA_POSITION + 1);
            for (i, &(secondary, link)) in (done..).zip(all.get(done as usize..).unwrap_or_default()) {
                if !visit((FIRST_EXTRA_POSITION + 1).saturating_add(i), link, secondary) {
                    return;
                }
            }
        }
    }

    #[inline(always)]
    fn dependents(&mut self) -> &'g Dependents {
        let heap = self.heap;
        self.dependents.get_or_insert_with(|| heap.dependents())
    }
}

impl<H: ClrHeap> ObjectReader for Reader<'_, H> {
    #[inline]
    fn node(&mut self, addr: u64) -> Option<Node> {
        let object = self.view(addr)?;
        Some(object.layout.node::<H>(object.size))
    }

    fn each_from(&mut self, addr: u64, from: u32, visit: &mut dyn FnMut(u32, Link, u64) -> bool) {
        self.visit_from(addr, from, visit);
    }

    fn targets(&mut self, addr: u64, from: u32, limit: usize, out: &mut Vec<(u32, u64)>) -> Option<u32> {
        let mut batch = RefBatch::new(out, limit);
        self.visit_from(addr, from, |position, _, value| batch.push(position, value));
        batch.next
    }

    fn read_batch(&mut self, addrs: &[u64], limit: usize, out: &mut ObjectBatch) {
        out.clear();
        let dependents = self.dependents();
        let (space, mask, count_at) = (self.space, self.heap.mask(), self.heap.count_at());
        // Neighbouring objects usually share a type.
        let (mut near, mut last) = (None, None);
        for &addr in addrs {
            let words =
                space.run_near(addr, &mut near).filter(|_| addr & 7 == 0).map_or(&[][..], |run| run.words(addr));
            let method_table = words.first().map(|word| u64::from_le_bytes(*word) & mask);
            if last != method_table {
                last = method_table.filter(|&at| self.layout(at).is_some());
            }
            let entry = last.and_then(|at| self.cache.get(slot(at, CACHE_BITS)));
            let layout = entry.and_then(|(_, layout)| layout.as_deref());
            let size = layout.and_then(|layout| layout.size(words, count_at));
            let object = layout.zip(size);
            out.nodes.push(object.map(|(layout, size)| layout.node::<H>(size)));
            let fields = |(layout, size): (&ObjectLayout, u64)| {
                layout.references.visit(words, size, &mut |offset, value| {
                    let position = offset / 8;
                    position < u64::from(FIRST_EXTRA_POSITION)
                        && out.push(limit, position as u32, Link::Field(offset), value)
                }) && layout.allocator.is_none_or(|at| out.push(limit, FIRST_EXTRA_POSITION, ALLOCATOR, at.get()))
            };
            if object.is_none_or(fields)
                && let Some(all) = dependents.with(addr)
            {
                let position = |i: u32| (FIRST_EXTRA_POSITION + 1).saturating_add(i);
                (0..).zip(all).all(|(i, &(secondary, link))| out.push(limit, position(i), link, secondary));
            }
            out.ends.push(out.references.len());
            if out.references.len() >= limit {
                break;
            }
        }
    }
}
