//! Native memory behind managed objects that are themselves blocks of malloc or of a small-block allocator, such as
//! database connections, documents and compressors. Also native blocks that nothing refers to, with the line that
//! allocated them.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::addr::Addr;
use crate::analysis::reach::Reach;
use crate::causes::native_lost::{Lost, finding as lost_finding};
use crate::memory::Memory;
use crate::native::malloc::{Block, BlockId, BlockMarks, Blocks};
use crate::progress::Progress;
use crate::report::Finding;
use crate::runtimes::api::{Heap, ManagedRuntime, TypeIndex, UnwalkedRanges};
use crate::session::Session;

/// Number of bytes of an object that are searched for pointers to native memory.
const FIXED: u64 = 512;

/// Maximum number of blocks that are followed, and maximum number of types reported.
const BLOCKS: usize = 1 << 24;
const TYPES: usize = 4;

/// Maximum number of pairs of types of which one leads to the other.
const LINKS: usize = 1 << 12;

/// Minimum bytes of the blocks that one line allocated.
const LARGE: u64 = 1 << 20;

/// Native memory behind the objects of one type.
pub(super) struct Owner {
    pub(super) r#type: String,
    pub(super) objects: u64,
    pub(super) blocks: u64,
    pub(super) bytes: u64,
    /// The object with the most native memory behind it.
    pub(super) object: Addr,
}

/// Objects of a heap whose words may lead to native memory.
struct Candidate {
    object: Addr,
    kind: TypeIndex,
    /// Blocks into which its words point.
    blocks: Vec<Block>,
}

/// The blocks of one runtime's objects, and the pointers between the blocks behind them. Each is computed on first use.
pub(super) struct Behind<'s, 'p> {
    session: &'s Session<'p>,
    runtime: &'s dyn ManagedRuntime,
    heap: &'s dyn Heap,
    managed: OnceCell<BlockMarks>,
    reach: OnceCell<Reach<'s>>,
}

/// Marks the blocks that contain managed objects.
fn managed_blocks(session: &Session<'_>, heap: &dyn Heap) -> BlockMarks {
    let (_, blocks) = session.blocks();
    let marks = blocks.marks();
    let (mut walker, mut losses) = (heap.walker(), UnwalkedRanges::default());
    for part in heap.ranges() {
        walker.walk(part, &mut losses, &mut |object| {
            if let Some(id) = blocks.id_at(object.addr) {
                marks.mark(id);
            }
        });
    }
    marks
}

/// Returns the types of objects that contain no pointers into native memory: their words are objects or data.
fn is_plain(heap: &dyn Heap, kind: TypeIndex) -> bool {
    const PLAIN: [&str; 18] = [
        "str",
        "bytes",
        "int",
        "float",
        "bool",
        "complex",
        "tuple",
        "list",
        "dict",
        "set",
        "frozenset",
        "bytearray",
        "function",
        "code",
        "cell",
        "method",
        "type",
        "module",
    ];
    let Some(info) = heap.type_info(kind) else { return true };
    let name = heap.type_name(kind);
    info.free || info.string || name.starts_with('(') || PLAIN.contains(&name.as_str())
}

fn candidates(session: &Session<'_>, heap: &dyn Heap, own: &BlockMarks) -> Vec<Candidate> {
    let (_, blocks) = session.blocks();
    let (hull, memory) = (blocks.hull(), &session.process.memory);
    let (mut walker, mut losses) = (heap.walker(), UnwalkedRanges::default());
    let mut plain: HashMap<TypeIndex, bool> = HashMap::new();
    let mut out = Vec::new();
    for part in heap.ranges() {
        walker.walk(part, &mut losses, &mut |object| {
            if *plain.entry(object.kind).or_insert_with(|| is_plain(heap, object.kind)) || out.len() >= BLOCKS {
                return;
            }
            let length = object.size.min(FIXED);
            let Ok(bytes) = memory.look(object.addr, usize::try_from(length).unwrap_or(0)) else { return };
            let words = bytes.as_chunks::<8>().0.iter().map(|word| Addr::new(u64::from_le_bytes(*word)));
            let block = |at: Addr| blocks.at(at).filter(|block| block.used && !own.has(block.id));
            let found: Vec<Block> = words.filter(|at| hull.contains(*at)).filter_map(block).collect();
            if !found.is_empty() {
                out.push(Candidate { object: object.addr, kind: object.kind, blocks: found });
            }
        });
    }
    out
}

impl<'s, 'p> Behind<'s, 'p> {
    /// Creates the search. `None` if the runtime has no heap.
    pub(super) fn new(session: &'s Session<'p>, runtime: &'s dyn ManagedRuntime) -> Option<Behind<'s, 'p>> {
        let heap = runtime.heap()?;
        Some(Behind { session, runtime, heap, managed: OnceCell::new(), reach: OnceCell::new() })
    }

    fn blocks(&self) -> &'s Blocks {
        &self.session.blocks().1
    }

    /// Returns the blocks that contain objects.
    fn managed(&self) -> &BlockMarks {
        self.managed.get_or_init(|| managed_blocks(self.session, self.heap))
    }

    fn reach(&self) -> &Reach<'s> {
        let new = || Reach::new(self.session.process, self.blocks()).without_tracers(self.session);
        self.reach.get_or_init(new)
    }

    /// Returns the types whose objects lead to most native memory. A block belongs to the nearest object.
    pub(super) fn owners(&self) -> Vec<Owner> {
        let (heap, blocks, managed, reach) = (self.heap, self.blocks(), self.managed(), self.reach());
        let all = candidates(self.session, heap, managed);
        let seen = blocks.marks();
        let mut open: VecDeque<(Block, usize)> = VecDeque::new();
        let mut sums: Vec<(u64, u64)> = vec![(0, 0); all.len()];
        for (number, candidate) in all.iter().enumerate() {
            open.extend(candidate.blocks.iter().map(|block| (*block, number)));
        }
        // Blocks on the first level belong to the objects that point into them.
        open.retain(|(block, _)| seen.mark(block.id));
        let starts: HashMap<BlockId, TypeIndex> =
            open.iter().filter_map(|(block, number)| Some((block.id, all.get(*number)?.kind))).collect();
        // Objects of one type that lead to objects of another type.
        let mut inside: HashMap<(TypeIndex, TypeIndex), HashSet<usize>> = HashMap::new();
        let mut followed = 0_usize;
        while let Some((block, number)) = open.pop_front().filter(|_| followed < BLOCKS) {
            followed += 1;
            if let Some(sum) = sums.get_mut(number) {
                *sum = (sum.0 + 1, sum.1.saturating_add(block.size));
            }
            let Some(part) = reach.part_of(&block) else { continue };
            reach.words(part, &block, blocks.hull(), |value| {
                let Some(to) = blocks.at(value).filter(|to| to.used) else { return };
                if !managed.has(to.id) && seen.mark(to.id) {
                    open.push_back((to, number));
                } else if let (Some(of), Some(kind)) = (all.get(number).map(|c| c.kind), starts.get(&to.id))
                    && *kind != of
                    && inside.len() < LINKS
                {
                    inside.entry((of, *kind)).or_default().insert(number);
                }
            });
        }
        let mut by_kind: BTreeMap<TypeIndex, (Owner, u64)> = BTreeMap::new();
        for (candidate, (count, bytes)) in all.iter().zip(sums).filter(|(_, (count, _))| *count > 0) {
            let (row, most) = by_kind.entry(candidate.kind).or_insert_with(|| {
                let r#type = heap.type_name(candidate.kind);
                (Owner { r#type, objects: 0, blocks: 0, bytes: 0, object: candidate.object }, 0)
            });
            row.objects += 1;
            row.blocks = row.blocks.saturating_add(count);
            row.bytes = row.bytes.saturating_add(bytes);
            if bytes > *most {
                (row.object, *most) = (candidate.object, bytes);
            }
        }
        merge(&mut by_kind, &inside);
        let mut rows: Vec<Owner> = by_kind.into_values().map(|(row, _)| row).collect();
        rows.sort_by_key(|row| (Reverse(row.bytes), row.object));
        rows.truncate(TYPES);
        rows
    }

    /// Reports blocks that a tracer recorded and that no pointer reaches, by the line that allocated them.
    pub(super) fn lost(&self, progress: &Progress) -> Vec<Finding> {
        let Some(traces) = self.runtime.allocation_traces() else { return Vec::new() };
        let (blocks, managed) = (self.blocks(), self.managed());
        let reached = blocks.marks();
        self.reach().mark_from_roots(self.session, &reached, progress);
        let unknown: Mutex<HashMap<u64, Block>> = Mutex::default();
        blocks.each_unmarked(&reached, |_, block| {
            if !managed.has(block.id) {
                unknown.lock().unwrap_or_else(PoisonError::into_inner).insert(block.range.start.get(), block);
            }
        });
        let unknown = unknown.into_inner().unwrap_or_else(PoisonError::into_inner);
        let kept = self.runtime.numbers(&unknown.keys().copied().collect::<HashSet<u64>>());
        let mut lines: BTreeMap<(Arc<str>, u32), Lost> = BTreeMap::new();
        for trace in &traces.list {
            let Some(block) = unknown.get(&trace.block.get()) else { continue };
            let lost = lines.entry((trace.file.clone(), trace.line)).or_insert_with(|| Lost {
                tracer: traces.tracer,
                file: trace.file.to_string(),
                line: trace.line,
                ..Lost::default()
            });
            lost.add(block.range.start, trace.size);
            lost.numbers += u64::from(kept.contains_key(&trace.block.get()));
        }
        let mut lines: Vec<Lost> = lines.into_values().filter(|lost| lost.bytes >= LARGE).collect();
        lines.sort_by_key(|lost| Reverse(lost.bytes));
        lines.iter().take(TYPES).map(lost_finding).collect()
    }
}

/// Moves native memory of inner objects to the objects around them, as from statements to their connection. Objects of
/// a type are inner ones of a rarer type if most of them lead there, and most objects of the rarer type lead back.
fn merge(by_kind: &mut BTreeMap<TypeIndex, (Owner, u64)>, inside: &HashMap<(TypeIndex, TypeIndex), HashSet<usize>>) {
    let mut order: Vec<_> = inside.iter().map(|((outer, inner), from)| (*outer, *inner, from.len() as u64)).collect();
    order.sort_unstable();
    for (outer, inner, from) in order {
        let objects = |kind: &TypeIndex| by_kind.get(kind).map_or(0, |(row, _)| row.objects);
        let back = inside.get(&(inner, outer)).map_or(0, |from| from.len() as u64);
        let most = |part: u64, kind: &TypeIndex| objects(kind) > 0 && part.saturating_mul(2) >= objects(kind);
        let is_inside = most(from, &outer) && most(back, &inner) && objects(&outer) < objects(&inner);
        let Some((part, _)) = (if is_inside { by_kind.remove(&inner) } else { None }) else { continue };
        if let Some((whole, _)) = by_kind.get_mut(&outer) {
            whole.blocks = whole.blocks.saturating_add(part.blocks);
            whole.bytes = whole.bytes.saturating_add(part.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn statements_belong_to_their_connections_and_not_the_other_way_round() {
        let row = |objects, bytes| {
            let row = Owner { r#type: "t".into(), objects, blocks: 1, bytes, object: Addr::new(objects) };
            (row, bytes)
        };
        let [single, connection, statement, other] = [0, 1, 2, 3].map(TypeIndex);
        let rows = [(single, row(1, 2)), (connection, row(40, 30)), (statement, row(160, 50)), (other, row(900, 7))];
        let mut all = BTreeMap::from(rows);
        let from = |n: usize| (0..n).collect::<HashSet<usize>>();
        // All connections lead to a statement, all statements to their connection, and two connections to another
        // object.
        let inside = HashMap::from([
            ((connection, statement), from(40)),
            ((statement, connection), from(160)),
            ((connection, other), from(2)),
            // One object that leads to all connections does not own them.
            ((single, connection), from(1)),
        ]);
        merge(&mut all, &inside);
        assert_eq!(all.len(), 3);
        assert_eq!((all.get(&connection).unwrap().0.bytes, all.get(&other).unwrap().0.bytes), (80, 7));
    }
}
