//! A heap made from lists of references, so that tests can use any graph.

use crate::addr::{Addr, AddrRange};
use crate::runtimes::api::space::{Space, of_runs};
use crate::runtimes::api::{
    Generation, Heap, HeapRange, Link, Node, Object, ObjectReader, TypeIndex, TypeInfo, UnwalkedRanges, Walker,
};
use crate::runtimes::graph::work::step;

const START: u64 = 0x10_0000;
const YOUNG: Generation = Generation { number: 0, name: "young", frozen: false };

/// Number of types. The first is free space.
pub(super) const TYPES: u32 = 4;

/// Number of words in the smallest object.
const LEAST: usize = 3;

/// The memory of a heap. An object's first word contains its type and its number of references. The references follow.
pub(super) struct ToyMemory {
    bytes: Vec<u8>,
    /// Address of each object, and the end of the last.
    places: Vec<u64>,
}

impl ToyMemory {
    /// Creates one object per list of references. A reference to an unknown object points outside the heap. `kinds` are
    /// the objects' types.
    pub(super) fn of(lists: &[Vec<u32>], kinds: &[u32]) -> ToyMemory {
        let words = |list: &Vec<u32>| (1 + list.len()).max(LEAST);
        let mut places = vec![START];
        for list in lists {
            places.push(places[places.len() - 1] + 8 * words(list) as u64);
        }
        let mut bytes = Vec::new();
        for (list, kind) in lists.iter().zip(kinds) {
            let mut row = vec![0_u64; words(list)];
            row[0] = (list.len() as u64) << 32 | u64::from(*kind);
            for (place, &to) in row[1..].iter_mut().zip(list) {
                *place = if (to as usize) < lists.len() { places[to as usize] } else { START - 8 };
            }
            bytes.extend(row.into_iter().flat_map(u64::to_le_bytes));
        }
        ToyMemory { bytes, places }
    }

    /// Address of an object. For an unknown object, an address before the heap.
    pub(super) fn address(&self, id: u32) -> Addr {
        let objects = self.places.len() - 1;
        Addr::new(if (id as usize) < objects { self.places[id as usize] } else { START - 8 })
    }

    pub(super) fn id(&self, at: Addr) -> u32 {
        self.places.binary_search(&at.get()).map_or(u32::MAX, |id| id as u32)
    }

    pub(super) fn size(&self, id: u32) -> u64 {
        self.places[id as usize + 1] - self.places[id as usize]
    }
}

/// A heap over such memory.
pub(super) struct ToyHeap<'w> {
    ranges: Vec<HeapRange>,
    space: Space<'w>,
}

impl<'w> ToyHeap<'w> {
    pub(super) fn new(words: &'w ToyMemory) -> ToyHeap<'w> {
        let range = AddrRange::sized(Addr::new(START), words.bytes.len() as u64);
        ToyHeap {
            ranges: vec![HeapRange { heap: 0, generation: YOUNG, range }],
            space: of_runs(&[(START, &words.bytes)]),
        }
    }

    /// Type and references of the object at `addr`.
    fn look(&self, addr: u64) -> Option<(TypeIndex, &[[u8; 8]])> {
        let words = self.space.run(addr)?.words(addr);
        let first = u64::from_le_bytes(*words.first()?);
        let kind = first as u32;
        (kind < TYPES).then(|| (TypeIndex(kind), words.get(1..1 + (first >> 32) as usize).unwrap_or_default()))
    }
}

fn size(references: &[[u8; 8]]) -> u64 {
    8 * (1 + references.len()).max(LEAST) as u64
}

impl Heap for ToyHeap<'_> {
    fn ranges(&self) -> &[HeapRange] {
        &self.ranges
    }
    fn generations(&self) -> &[Generation] {
        &[YOUNG]
    }
    fn space(&self) -> &Space<'_> {
        &self.space
    }
    fn types(&self) -> usize {
        TYPES as usize
    }
    fn type_info(&self, kind: TypeIndex) -> Option<TypeInfo> {
        let address = Addr::new(kind.0.into());
        Some(TypeInfo { address, free: kind.0 == 0, string: false, represents_types: false, elements: None })
    }
    fn type_name(&self, kind: TypeIndex) -> String {
        format!("T{}", kind.0)
    }
    fn field_name(&self, _: TypeIndex, offset: u64) -> Option<String> {
        Some(format!("f{offset}"))
    }
    fn walker(&self) -> Box<dyn Walker + '_> {
        Box::new(ToyReader(self))
    }
    fn reader(&self) -> Box<dyn ObjectReader + '_> {
        Box::new(ToyReader(self))
    }
}

struct ToyReader<'t>(&'t ToyHeap<'t>);

impl Walker for ToyReader<'_> {
    fn walk(&mut self, heap_range: &HeapRange, _: &mut UnwalkedRanges, visit: &mut dyn FnMut(&Object)) {
        let mut addr = heap_range.range.start;
        while let Some((kind, references)) = self.0.look(addr.get()) {
            let size = size(references);
            visit(&Object { addr, kind, size });
            addr = addr.saturating_add(size);
        }
    }
}

impl ObjectReader for ToyReader<'_> {
    fn node(&mut self, addr: u64) -> Option<Node> {
        step(1);
        let (kind, references) = self.0.look(addr)?;
        let size = size(references);
        Some(Node { kind, size, counted_size: size })
    }

    fn each_from(&mut self, addr: u64, from: u32, visit: &mut dyn FnMut(u32, Link, u64) -> bool) {
        let Some((_, references)) = self.0.look(addr) else { return };
        let mut all = (0..).zip(references).skip(from as usize);
        all.all(|(place, word)| {
            step(1);
            visit(place, Link::Field(8 + 8 * u64::from(place)), u64::from_le_bytes(*word))
        });
    }
}
