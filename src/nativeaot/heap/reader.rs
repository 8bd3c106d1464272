//! Single objects, and the references they hold: by the GCDesc in front of the MethodTable, as CoreCLR's, and what
//! dependent handles keep with them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::addr::Addr;
use crate::dotnet::heap::References;
use crate::managed::linear::slot;
use crate::managed::{Batch, Link, Node, ObjectReader, TypeIndex};
use crate::nativeaot::heap::walk::MARKS;
use crate::nativeaot::heap::{COUNT_AT, Heap, MIN_OBJECT, MethodTableInfo, stride};

/// How an object is held that is in no field of another.
const DEPENDENT: Link = Link::Beside("(dependent handle)");

/// Entries of a reader's cache of types: a power of two.
const CACHE: usize = 1 << CACHE_BITS;
const CACHE_BITS: u32 = 10;

/// Where an object is left off: the number of a word of it, or from here on that of what it keeps otherwise. No array
/// has 30 GiB.
const OTHERS: u32 = 0xf000_0000;

/// What is known of the objects of a MethodTable.
#[derive(Debug)]
pub(super) struct Layout {
    kind: TypeIndex,
    info: MethodTableInfo,
    references: References,
}

/// Layouts of the MethodTables met so far.
#[derive(Default)]
pub(super) struct Layouts(RwLock<HashMap<u64, Arc<Layout>>>);

/// An object, and what stands in it.
struct Found<'r, 'p> {
    layout: &'r Arc<Layout>,
    size: u64,
    /// From its MethodTable on, to the end of the dumped memory it lies in.
    words: &'p [[u8; 8]],
}

/// Reads objects; each thread has its own.
pub(super) struct Reader<'g, 'p> {
    heap: &'g Heap<'p>,
    dependents: &'g HashMap<u64, Vec<u64>>,
    cache: Vec<(u64, Option<Arc<Layout>>)>,
}

impl<'p> Heap<'p> {
    pub(super) fn object_reader(&self) -> Reader<'_, 'p> {
        Reader { heap: self, dependents: self.dependents(), cache: vec![(0, None); CACHE] }
    }

    fn layout(&self, address: u64) -> Option<Arc<Layout>> {
        {
            let known = self.layouts.0.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = known.get(&address) {
                return Some(found.clone());
            }
        }
        let (kind, info) = self.tables.lookup(address)?;
        let has = !info.free && info.flags & self.runtime.flag("HasPointers") != 0;
        let references = if has { References::read(self.runtime.memory, Addr::new(address)) } else { None };
        let made = Arc::new(Layout { kind, info, references: references.unwrap_or_default() });
        let mut known = self.layouts.0.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(address, made.clone());
        Some(made)
    }
}

impl<'p> Reader<'_, 'p> {
    #[inline(always)]
    fn find(&mut self, addr: u64) -> Option<Found<'_, 'p>> {
        let words = self.heap.words().run(addr).filter(|_| addr & 7 == 0)?.words(addr);
        let method_table = u64::from_le_bytes(*words.first()?) & !MARKS;
        let entry = self.cache.get_mut(slot(method_table, CACHE_BITS))?;
        if entry.0 != method_table || entry.1.is_none() {
            *entry = (method_table, self.heap.layout(method_table));
        }
        let layout = entry.1.as_ref()?;
        let mut size = u64::from(layout.info.base_size);
        if layout.info.component_size != 0 {
            let count = words.get((COUNT_AT / 8) as usize).map(|w| u64::from_le_bytes(*w) as u32)?;
            // 32 bits, plus the product of 32 and 16 bits.
            size += u64::from(count) * u64::from(layout.info.component_size);
        }
        Some(Found { layout, size, words })
    }

    #[inline(always)]
    fn visit_from(&mut self, addr: u64, from: u32, mut visit: impl FnMut(u32, Link, u64) -> bool) {
        let dependents = self.dependents;
        if from < OTHERS
            && let Some(found) = self.find(addr)
        {
            let field = &mut |offset: u64, value| {
                let place = offset / 8;
                place < u64::from(OTHERS) && visit(place as u32, Link::Field(offset), value)
            };
            if !found.layout.references.visit_from(8 * u64::from(from), found.words, found.size, field) {
                return;
            }
        }
        if dependents.is_empty() {
            return;
        }
        let done = from.saturating_sub(OTHERS);
        let all = dependents.get(&addr).map(Vec::as_slice).unwrap_or_default();
        for (i, &secondary) in (done..).zip(all.get(done as usize..).unwrap_or_default()) {
            if !visit(OTHERS.saturating_add(i), DEPENDENT, secondary) {
                return;
            }
        }
    }
}

impl ObjectReader for Reader<'_, '_> {
    #[inline]
    fn node(&mut self, addr: u64) -> Option<Node> {
        let found = self.find(addr)?;
        let size = stride(found.size.max(MIN_OBJECT));
        Some(Node { kind: found.layout.kind, size, counted_size: size })
    }

    fn each_from(&mut self, addr: u64, from: u32, visit: &mut dyn FnMut(u32, Link, u64) -> bool) {
        self.visit_from(addr, from, visit);
    }

    fn targets(&mut self, addr: u64, from: u32, most: usize, out: &mut Vec<(u32, u64)>) -> Option<u32> {
        let mut batch = Batch::new(out, most);
        self.visit_from(addr, from, |place, _, value| batch.take(place, value));
        batch.next
    }
}
