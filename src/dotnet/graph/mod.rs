//! Objects and the references between them.
//!
//! From an object to what it holds: the GCDesc of its type, for objects of
//! collectible types their LoaderAllocator too, and what dependent handles keep
//! with it (docs/dotnet.md, Roots).

mod arcs;
mod dominators;
mod gcdesc;
mod live;
mod retained;
mod roots;
mod search;
mod shapes;
mod slots;
mod space;
mod stack_refs;
mod tree;

pub use gcdesc::{References, Repeat, Series};
pub use live::{Live, Source, Tally, TooMany};
pub use retained::{Retained, TypeSum};
pub use roots::{Root, RootKind, Roots, roots};
pub use search::{Found, Path, Search};
pub use shapes::{FieldKey, Shape, ShapeIndex, Shapes};
pub use stack_refs::{RefFrame, RefPlace, StackRef, StackRefs, Stretch};
pub use tree::Tree;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::addr::Addr;
use crate::dotnet::gc::{Handle, HandleKind};
use crate::dotnet::heap::{Heap, MIN_OBJECT, MethodTableInfo, TypeIndex};
use crate::dotnet::types::TypeSystem;
use space::Space;

/// Entries of a reader's cache of types: a power of two.
const CACHE: usize = 1 << CACHE_BITS;
const CACHE_BITS: u32 = 10;

/// Bits of the filter in front of dependent handles.
const FILTER_BITS: u32 = 16;

/// Where an object is left off: the number of a word of it, or from here on that
/// of what it keeps otherwise. No array has 30 GiB.
const OTHERS: u32 = 0xf000_0000;

/// What is known of the objects of a MethodTable.
#[derive(Debug)]
pub struct Layout {
    /// Number of the type.
    pub kind: TypeIndex,
    /// Its sizes.
    pub info: MethodTableInfo,
    /// Where references stand in it.
    pub references: References,
    /// The System.Reflection.LoaderAllocator that objects of a collectible type keep.
    pub allocator: Option<Addr>,
}

/// The objects of a heap as a graph.
pub struct Graph<'h, 'p> {
    /// The heap.
    pub heap: &'h Heap<'p>,
    types: &'h TypeSystem<'p>,
    space: Space<'p>,
    mask: u64,
    count_at: u64,
    layouts: RwLock<HashMap<u64, Option<Arc<Layout>>>>,
    /// From primary to secondary objects.
    dependents: HashMap<u64, Vec<u64>>,
    filter: Vec<u64>,
}

/// An object of the graph.
pub struct Node<'r, 'p> {
    /// Where.
    pub addr: Addr,
    /// Its type.
    pub layout: &'r Arc<Layout>,
    /// Its size.
    pub size: u64,
    /// From its MethodTable on, to the end of the dumped memory it lies in.
    words: &'p [[u8; 8]],
}

impl Node<'_, '_> {
    /// Its size as the walk counts it: no object has less room than the smallest.
    pub fn counted_size(&self) -> u64 {
        if self.layout.info.counted() { self.size.max(MIN_OBJECT) } else { self.size }
    }
}

/// Reads objects; each thread has its own.
pub struct Reader<'g, 'h, 'p> {
    graph: &'g Graph<'h, 'p>,
    cache: Vec<(u64, Option<Arc<Layout>>)>,
}

/// How an object holds another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// By a field or element at this offset.
    Field(u64),
    /// As its type's LoaderAllocator.
    Allocator,
    /// By a dependent handle.
    Dependent,
}

impl<'h, 'p> Graph<'h, 'p> {
    /// The graph of `heap`, with what dependent ones of `handles` keep.
    pub fn new(types: &'h TypeSystem<'p>, heap: &'h Heap<'p>, handles: &[Handle]) -> Graph<'h, 'p> {
        let mut dependents: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut filter = vec![0_u64; 1 << (FILTER_BITS - 6)];
        for handle in handles.iter().filter(|h| h.kind == HandleKind::Dependent) {
            let Some(secondary) = handle.secondary else { continue };
            dependents.entry(handle.object.get()).or_default().push(secondary.get());
            let bit = hash(handle.object.get()) >> (64 - FILTER_BITS);
            if let Some(word) = filter.get_mut((bit >> 6) as usize) {
                *word |= 1 << (bit & 63);
            }
        }
        Graph {
            heap,
            types,
            space: Space::new(&types.process.core, heap.parts().iter().map(|p| p.range)),
            mask: heap.mask(),
            count_at: heap.count_at(),
            layouts: RwLock::default(),
            dependents,
            filter,
        }
    }

    /// A reader of objects.
    pub fn reader(&self) -> Reader<'_, 'h, 'p> {
        Reader { graph: self, cache: vec![(0, None); CACHE] }
    }

    /// The word that an object at `addr` would begin with.
    fn first_word(&self, addr: u64) -> u64 {
        let word = self.space.run(addr).and_then(|run| run.words(addr).first());
        word.map_or(0, |w| u64::from_le_bytes(*w))
    }

    fn is_primary(&self, addr: u64) -> bool {
        let bit = hash(addr) >> (64 - FILTER_BITS);
        self.filter.get((bit >> 6) as usize).is_some_and(|word| word >> (bit & 63) & 1 != 0)
    }

    /// What the MethodTable at `address` says of its objects, if it is one.
    fn layout(&self, address: u64) -> Option<Arc<Layout>> {
        {
            let known = self.layouts.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = known.get(&address) {
                return found.clone();
            }
        }
        let made = self.make(address).map(Arc::new);
        // What is no MethodTable may be any number: there is no end to them.
        if made.is_some() {
            let mut known = self.layouts.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(address, made.clone());
        }
        made
    }

    fn make(&self, address: u64) -> Option<Layout> {
        let (kind, info) = self.heap.lookup(address)?;
        let at = Addr::new(address);
        let has = self.types.contains_references(at);
        let references = if has { References::read(self.types.memory, at) } else { None };
        let allocator = self.types.loader_allocator_object(at);
        Some(Layout { kind, info, references: references.unwrap_or_default(), allocator })
    }
}

impl<'g, 'h, 'p> Reader<'g, 'h, 'p> {
    /// The object at `addr`, if one may be there.
    #[inline(always)]
    pub fn node(&mut self, addr: u64) -> Option<Node<'_, 'p>> {
        let words = self.graph.space.run(addr).filter(|_| addr & 7 == 0)?.words(addr);
        self.node_at(addr, words)
    }

    #[inline(always)]
    fn node_at(&mut self, addr: u64, words: &'p [[u8; 8]]) -> Option<Node<'_, 'p>> {
        let method_table = u64::from_le_bytes(*words.first()?) & self.graph.mask;
        let count_at = self.graph.count_at;
        let graph = self.graph;
        let slot = (hash(method_table) >> (64 - CACHE_BITS)) as usize & (CACHE - 1);
        let entry = self.cache.get_mut(slot)?;
        if entry.0 != method_table || entry.1.is_none() {
            *entry = (method_table, graph.layout(method_table));
        }
        let layout = entry.1.as_ref()?;
        let mut size = u64::from(layout.info.base_size);
        if layout.info.component_size != 0 {
            let count = words.get((count_at / 8) as usize).map(|w| u64::from_le_bytes(*w) as u32)?;
            // 32 bits, plus the product of 32 and 16 bits.
            size += u64::from(count) * u64::from(layout.info.component_size);
        }
        Some(Node { addr: Addr::new(addr), layout, size, words })
    }

    /// Visit what the object at `addr` keeps: where, and what. `visit` tells
    /// whether to go on.
    #[inline(always)]
    pub fn each(&mut self, addr: u64, mut visit: impl FnMut(Link, u64) -> bool) {
        self.each_from(addr, 0, |_, link, value| visit(link, value));
    }

    /// How the object at `addr` keeps that at `next`, if it does itself.
    pub fn link(&mut self, addr: u64, next: u64) -> Option<Link> {
        let mut found = None;
        self.each(addr, |link, value| {
            if value == next {
                found = Some(link);
            }
            value != next
        });
        found
    }

    /// The same from the place `from` on, as an earlier visit was told it; 0 is
    /// the first.
    #[inline(always)]
    fn each_from(&mut self, addr: u64, from: u32, mut visit: impl FnMut(u32, Link, u64) -> bool) {
        let primary = self.graph.is_primary(addr);
        let graph = self.graph;
        if let Some(node) = self.node(addr) {
            let references = &node.layout.references;
            let field = &mut |offset: u64, value| {
                let place = offset / 8;
                place < u64::from(OTHERS) && visit(place as u32, Link::Field(offset), value)
            };
            if from < OTHERS && !references.visit_from(8 * u64::from(from), node.words, node.size, field) {
                return;
            }
            if let Some(allocator) = node.layout.allocator
                && from <= OTHERS
                && !visit(OTHERS, Link::Allocator, allocator.get())
            {
                return;
            }
        }
        if primary && let Some(all) = graph.dependents.get(&addr) {
            let done = from.saturating_sub(OTHERS + 1);
            for (i, &secondary) in (done..).zip(all.get(done as usize..).unwrap_or_default()) {
                if !visit((OTHERS + 1).saturating_add(i), Link::Dependent, secondary) {
                    return;
                }
            }
        }
    }
}

fn hash(value: u64) -> u64 {
    value.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
