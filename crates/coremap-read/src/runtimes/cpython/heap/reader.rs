//! Single objects and their references.

use super::Heap;
use super::census::Census;
use super::deque::Cursor;
use super::types::TypeCache;
use super::visit::RawReference;
use crate::addr::Addr;
use crate::runtimes::api::{Link, Node, ObjectReader, RefBatch};

/// Reads objects. Each thread has its own.
pub(super) struct Reader<'h, 'p> {
    heap: &'h Heap<'p>,
    cache: TypeCache,
    cursor: Cursor,
}

/// The link from an object to memory that it owns.
const OWNED: Link = Link::NoField("(memory)");

impl<'h, 'p> Reader<'h, 'p> {
    pub(super) fn new(heap: &'h Heap<'p>) -> Reader<'h, 'p> {
        Reader { heap, cache: TypeCache::new(), cursor: heap.cursor() }
    }

    /// Visits the references of the object at `addr` that lead to the start of an object or of owned memory.
    fn visit(&mut self, addr: u64, from: u32, visit: &mut impl FnMut(u32, Link, u64) -> bool) {
        let heap = self.heap;
        let at = Addr::new(addr);
        if heap.census.object_at(at).is_none() {
            return;
        }
        let Some(address) = heap.source.word(addr.wrapping_add(heap.objects.shape.ob_type)) else { return };
        let Some((_, kind)) = self.cache.lookup(&heap.types, address) else { return };
        let visitor = heap.visitor(&self.cursor);
        visitor.each(addr, kind, from, &mut |place, reference| match reference {
            RawReference::Object(link, to) => heap.census.object_at(Addr::new(to)).is_none() || visit(place, link, to),
            RawReference::Memory(memory) => match heap.census.owned_start(Addr::new(memory.at)) {
                Some(start) => visit(place, OWNED, start.get()),
                None => true,
            },
        });
    }
}

impl ObjectReader for Reader<'_, '_> {
    fn node(&mut self, addr: u64) -> Option<Node> {
        let heap = self.heap;
        let (block, size) = heap.census.entry_at(Addr::new(addr))?;
        let kind = match Census::pseudo_type(block) {
            Some(kind) => kind,
            None => {
                let address = heap.source.word(addr.wrapping_add(heap.objects.shape.ob_type))?;
                self.cache.lookup(&heap.types, address)?.0
            }
        };
        Some(Node { kind, size, counted_size: size })
    }

    fn each_from(&mut self, addr: u64, from: u32, visit: &mut dyn FnMut(u32, Link, u64) -> bool) {
        self.visit(addr, from, &mut |place, link, value| visit(place, link, value));
    }

    fn targets(&mut self, addr: u64, from: u32, limit: usize, out: &mut Vec<(u32, u64)>) -> Option<u32> {
        let mut batch = RefBatch::new(out, limit);
        self.visit(addr, from, &mut |place, _, value| batch.push(place, value));
        batch.next
    }
}
