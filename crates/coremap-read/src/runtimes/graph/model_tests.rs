//! Tests random graphs of many shapes against the definitions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use proptest::prelude::*;

use crate::addr::Addr;
use crate::runtimes::api::{Link, Root, RootKind, Tally, TypeIndex};
use crate::runtimes::graph::reference::{distances, iterated, naive, reached};
use crate::runtimes::graph::toy_heap::{TYPES, ToyHeap, ToyMemory};
use crate::runtimes::graph::work::work_of;
use crate::runtimes::graph::{Graph, GraphError, MemoryBudget, PathSearch, Retained, ShortestPathTree, TypeSum};
use crate::targets::deadline::Deadline;

const KINDS: [RootKind; 2] = [RootKind::Of(0, "handle"), RootKind::Stack];

/// A test graph: references and types of the objects, and roots as root kind and object.
#[derive(Clone, Debug)]
struct TestGraph {
    lists: Vec<Vec<u32>>,
    kinds: Vec<u32>,
    roots: Vec<(usize, u32)>,
}

impl TestGraph {
    /// Successors of each vertex. Vertex 0 is the virtual root, 1 and 2 are the root kinds, and objects start at 3.
    fn vertices(&self) -> Vec<Vec<u32>> {
        let inside = |to: &u32| (*to as usize) < self.lists.len();
        let of_kind = |kind: usize| -> Vec<u32> {
            let own = self.roots.iter().filter(|root| root.0 == kind).map(|root| root.1);
            own.filter(inside).map(|to| to + 3).collect()
        };
        let mut out = vec![vec![], of_kind(0), of_kind(1)];
        out[0] = (1..3).filter(|&kind| !out[kind as usize].is_empty()).collect();
        out.extend(self.lists.iter().map(|list| list.iter().filter(|to| inside(to)).map(|to| to + 3).collect()));
        out
    }

    fn edges(&self) -> Vec<(u32, u32)> {
        (0..).zip(self.vertices()).flat_map(|(from, list)| list.into_iter().map(move |to| (from, to))).collect()
    }

    fn roots(&self, words: &ToyMemory) -> Vec<Root> {
        let of = |(at, &(kind, id)): (u64, &(usize, u32))| Root::new(KINDS[kind], Addr::new(8 * at), words.address(id));
        (0..).zip(&self.roots).map(of).collect()
    }
}

/// Compares all results for a graph with its dominators by vertex. They are `None` for unreachable vertices.
fn check_graph(made: &TestGraph, dominators: &[Option<u32>], budget: &MemoryBudget) {
    let words = ToyMemory::of(&made.lists, &made.kinds);
    let toy = ToyHeap::new(&words);
    let roots = made.roots(&words);
    let mut size = None;
    let found =
        Retained::find(Graph::new(&toy), &roots, budget, |needs| size = Some((needs.objects, needs.references)));
    let Ok(found) = found else { panic!("no room") };
    let references = made.lists.iter().map(|list| list.len() as u64).sum();
    assert_eq!(size, Some((made.lists.len() as u64, references)));

    let vertices = made.vertices();
    let vertex_of = |number: u32| match found.live.object(number) {
        Some(at) => words.id(at) + 3,
        None => found.live.root_node(number).map_or(0, |source| if source.kind == KINDS[0] { 1 } else { 2 }),
    };
    let of_number: Vec<u32> = (0..found.live.len() as u32).map(vertex_of).collect();
    let mut sorted = of_number.clone();
    sorted.sort_unstable();
    let lives: Vec<u32> = (0..vertices.len() as u32).filter(|&v| dominators[v as usize].is_some()).collect();
    assert_eq!(sorted, lives, "what lives");
    let addrs: Vec<Addr> = (0..made.lists.len() as u32).map(|id| words.address(id)).collect();
    for (vertex, number) in (3..).zip(found.live.numbers_of(&addrs)) {
        assert_eq!(
            of_number[number.unwrap_or(0) as usize],
            if dominators[vertex].is_some() { vertex as u32 } else { 0 }
        );
    }

    // Check dominators and retained bytes: an object's size counts for all of its dominators.
    let size = |vertex: u32| vertex.checked_sub(3).map_or(0, |id| words.size(id));
    let mut kept: Vec<u64> =
        (0..vertices.len() as u32).map(|v| if dominators[v as usize].is_some() { size(v) } else { 0 }).collect();
    for &vertex in lives.iter().filter(|&&v| v != 0) {
        let mut up = vertex;
        while up != 0 {
            up = dominators[up as usize].unwrap_or(0);
            kept[up as usize] += size(vertex);
        }
    }
    let mut reader = found.live.reader();
    for (number, up) in found.dominators() {
        assert!(up < number);
        let vertex = of_number[number as usize];
        assert_eq!(Some(of_number[up as usize]), dominators[vertex as usize], "dominator of {vertex} in {made:?}");
        assert_eq!(found.dominator(number), up);
        assert_eq!((found.bytes(number), found.own(number, &mut *reader)), (kept[vertex as usize], size(vertex)));
    }
    assert_eq!(found.bytes(0), kept[0]);
    assert_eq!((found.total.count, found.total.size), (lives.iter().filter(|&&v| v > 2).count() as u64, kept[0]));
    types(made, &found, &vertices, dominators, &kept);
    shortest(&found, &vertices, &of_number);
}

fn types(made: &TestGraph, found: &Retained<'_>, vertices: &[Vec<u32>], dominators: &[Option<u32>], kept: &[u64]) {
    let kind = |vertex: u32| vertex.checked_sub(3).map(|id| made.kinds[id as usize]);
    let mut expected: BTreeMap<u32, TypeSum> = BTreeMap::new();
    for vertex in (3..vertices.len() as u32).filter(|&v| dominators[v as usize].is_some()) {
        let own = made.kinds[vertex as usize - 3];
        let none = TypeSum { kind: TypeIndex(own), own: Tally::default(), retained: 0 };
        let sum = expected.entry(own).or_insert(none);
        sum.own.add(1, 8 * (1 + made.lists[vertex as usize - 3].len() as u64).max(3));
        let mut up = dominators[vertex as usize].unwrap_or(0);
        while up != 0 && kind(up) != Some(own) {
            up = dominators[up as usize].unwrap_or(0);
        }
        if up == 0 {
            sum.retained += kept[vertex as usize];
        }
    }
    assert_eq!(found.types(0), expected.into_values().collect::<Vec<_>>());
}

fn shortest(found: &Retained<'_>, vertices: &[Vec<u32>], of_number: &[u32]) {
    let far = distances(vertices, 0);
    let mut seen = vec![0];
    let tree = ShortestPathTree::build(&found.live, |number, parent, link| {
        seen.push(number);
        let (vertex, from) = (of_number[number as usize], of_number[parent as usize]);
        assert_eq!(far[vertex as usize], far[from as usize].map(|far| far + 1));
        match link {
            Some(Link::Field(offset)) => {
                let place = (offset / 8 - 1) as usize;
                // `vertices` leaves out references to nowhere, so the index is that of the reference or lower.
                assert_eq!(vertices[from as usize].iter().take(place + 1).find(|&&to| to == vertex), Some(&vertex));
            }
            _ => assert!(from < 3),
        }
    });
    assert_eq!(seen, (0..found.live.len() as u32).collect::<Vec<_>>());
    for number in 1..found.live.len() as u32 {
        let path = tree.path(number);
        assert_eq!(
            (path.len() as u32, path.last()),
            (far[of_number[number as usize] as usize].unwrap_or(0), Some(&number))
        );
    }
}

/// Checks the shortest path from each root to one object.
fn searched(made: &TestGraph, target: u32, budget: &MemoryBudget) {
    let words = ToyMemory::of(&made.lists, &made.kinds);
    let toy = ToyHeap::new(&words);
    let roots = made.roots(&words);
    let found = PathSearch::new(Graph::new(&toy), words.address(target), budget).run(&roots, usize::MAX);
    let Ok(found) = found else { panic!("no room") };
    let vertices = made.vertices();
    let mut expected = Vec::new();
    for (at, &(_, id)) in made.roots.iter().enumerate() {
        let first = made.roots.iter().take(at).all(|other| other.1 != id);
        let far =
            if (id as usize) < made.lists.len() { distances(&vertices, id + 3)[target as usize + 3] } else { None };
        if let Some(far) = far.filter(|_| first) {
            expected.push((8 * at as u64, far as usize + 1));
        }
    }
    let ways: Vec<(u64, usize)> = found.paths.iter().map(|p| (p.root.address.get(), p.steps.len())).collect();
    assert_eq!(ways, expected, "{made:?}");
    // Other roots of the same objects have the same paths.
    let search = PathSearch::new(Graph::new(&toy), words.address(target), budget);
    let Ok(all) = search.run_for_each_root(&roots, usize::MAX) else { panic!("no room") };
    let far = |id: u32| distances(&vertices, id + 3)[target as usize + 3];
    let inside = made.roots.iter().enumerate().filter(|(_, root)| (root.1 as usize) < made.lists.len());
    let each: Vec<(u64, usize)> =
        inside.filter_map(|(at, root)| Some((8 * at as u64, far(root.1)? as usize + 1))).collect();
    let ways: Vec<(u64, usize)> = all.paths.iter().map(|p| (p.root.address.get(), p.steps.len())).collect();
    assert_eq!(ways, each, "{made:?}");
    for path in &found.paths {
        for pair in path.steps.windows(2) {
            let [(from, Some(Link::Field(offset))), (to, _)] = pair else { panic!("no field: {pair:?}") };
            let held = made.lists[words.id(*from) as usize][(offset / 8 - 1) as usize];
            assert_eq!(words.address(held), *to);
        }
    }
}

/// References of one shape, between `len` objects.
fn shape(shape: u8, len: u32) -> Vec<(u32, u32)> {
    let all = 0..len;
    match shape {
        // Singly and doubly linked lists.
        0 => all.skip(1).map(|i| (i - 1, i)).collect(),
        1 => all.skip(1).flat_map(|i| [(i - 1, i), (i, i - 1)]).collect(),
        // Trees without and with parent references.
        2 => all.skip(1).map(|i| ((i - 1) / 2, i)).collect(),
        3 => all.skip(1).flat_map(|i| [((i - 1) / 2, i), (i, (i - 1) / 2)]).collect(),
        // A hub with spokes; the same with an object that all spokes reference; with references back to the hub.
        4 => all.skip(1).map(|i| (0, i)).collect(),
        5 => all.skip(1).flat_map(|i| [(0, i), (i, len - 1)]).collect(),
        6 => all.skip(1).flat_map(|i| [(0, i), (i, 0)]).collect(),
        // Rings; rings with self-references and duplicate references.
        7 => all.map(|i| (i, (i + 1) % len)).collect(),
        8 => all.flat_map(|i| [(i, i), (i, (i + 1) % len), (i, (i + 1) % len)]).collect(),
        // A ladder, with two paths at each step.
        _ => all.clone().flat_map(|i| [(i, i + 1), (i, i + 2)]).filter(|pair| pair.1 < len).collect(),
    }
}

/// Strategy for several shapes side by side, with references between them, and objects in random order.
fn graphs(parts: usize, most: u32) -> impl Strategy<Value = TestGraph> {
    let shapes = prop::collection::vec((0_u8..10, 1..most), 1..parts);
    let between = prop::collection::vec((any::<u32>(), any::<u32>()), 0..parts * 3);
    let roots = prop::collection::vec((0_usize..2, any::<u32>()), 0..6);
    (shapes, between, roots, any::<u32>()).prop_map(|(shapes, between, mut roots, seed)| {
        let (mut len, mut pairs) = (0, Vec::new());
        for (of, count) in shapes {
            pairs.extend(shape(of, count).into_iter().map(|(from, to)| (len + from, len + to)));
            len += count;
        }
        // About one in nine of these points outside the heap.
        pairs.extend(between.into_iter().map(|(from, to)| (from % len, to % (len + len / 8 + 1))));
        roots.iter_mut().for_each(|root| root.1 %= len + 1);
        let mut order: Vec<u32> = (0..len).collect();
        order.sort_by_key(|&i| (i ^ seed).wrapping_mul(0x9e37_79b9).rotate_left(9));
        let named = |i: u32| order.get(i as usize).copied().unwrap_or(u32::MAX);
        let mut lists = vec![Vec::new(); len as usize];
        pairs.iter().for_each(|&(from, to)| lists[named(from) as usize].push(named(to)));
        roots.iter_mut().for_each(|root| root.1 = named(root.1));
        let kinds = (0..len).map(|i| 1 + (i ^ seed >> 7) % (TYPES - 1)).collect();
        TestGraph { lists, kinds, roots }
    })
}

/// Maximum number of steps per object, reference and root. Each of some ten passes takes a few, and finding a parent
/// takes as many as the number of digits of the graph's size.
const STEPS_EACH: u64 = 200;

/// Asserts that all results for a graph take a number of steps in proportion to its size.
fn check_work(made: &TestGraph) {
    let words = ToyMemory::of(&made.lists, &made.kinds);
    let toy = ToyHeap::new(&words);
    let roots = made.roots(&words);
    let addrs: Vec<Addr> = (0..made.lists.len() as u32).map(|id| words.address(id)).collect();
    let ((), steps) = work_of(|| {
        let Ok(found) = Retained::find(Graph::new(&toy), &roots, &MemoryBudget::unbounded(), |_| {}) else {
            panic!("no room")
        };
        found.live.numbers_of(&addrs);
        (0..found.live.len() as u32).for_each(|number| assert!(found.dominator(number) <= number));
        found.types(0);
    });
    let references: usize = made.lists.iter().map(Vec::len).sum();
    let size = (made.lists.len() + references + made.roots.len()) as u64;
    assert!(steps <= STEPS_EACH * (size + 10), "{steps} steps for {size} objects, references and roots");
}

/// Strategy for the memory budget: none, some, unlimited.
fn rooms() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(600), Just(u64::MAX)]
}

proptest! {
    #[test]
    fn as_the_words_mean(made in graphs(4, 10), bound in rooms()) {
        let edges = made.edges();
        let len = made.lists.len() + 3;
        let lives = reached(len, &edges, u32::MAX);
        let inside: Vec<(u32, u32)> = edges.iter().copied().filter(|edge| lives[edge.0 as usize]).collect();
        let all = naive(len, &inside);
        let dominators: Vec<_> = (0..len).map(|v| lives[v].then(|| all[v])).collect();
        assert_eq!(dominators, iterated(&made.vertices()), "the two that are simple");
        check_graph(&made, &dominators, &MemoryBudget::new(bound));
        (0..made.lists.len() as u32).step_by(3).for_each(|target| searched(&made, target, &MemoryBudget::new(bound)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn larger_ones(made in graphs(8, 700), bound in rooms()) {
        check_graph(&made, &iterated(&made.vertices()), &MemoryBudget::new(bound));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn work_is_linear(made in graphs(6, 20_000)) {
        check_work(&made);
    }
}

/// A chain that a handle retains, words on a stack that point into it, and an object that only such a word reaches.
/// Words retain only objects that nothing else retains.
#[test]
fn words_on_stacks_are_roots_of_what_no_other_root_reaches() {
    let made = TestGraph { lists: vec![vec![1], vec![2], vec![3], vec![], vec![]], kinds: vec![1; 5], roots: vec![] };
    let memory = ToyMemory::of(&made.lists, &made.kinds);
    let heap = ToyHeap::new(&memory);
    let root = |kind, id| Root::new(kind, Addr::new(8), memory.address(id));
    let handle = RootKind::Of(0, "handle");
    let roots =
        [root(RootKind::StackWord, 2), root(handle, 0), root(RootKind::StackWord, 4), root(RootKind::StackWord, 3)];
    let budget = MemoryBudget::unbounded();
    let found = Retained::find(Graph::new(&heap), &roots, &budget, |_| {});
    let Ok(found) = found else { panic!("no graph") };
    let addresses: Vec<Addr> = (0..5).map(|id| memory.address(id)).collect();
    let numbers: Vec<u32> = found.live.numbers_of(&addresses).into_iter().map(Option::unwrap_or_default).collect();
    let node = |kind| found.live.root_nodes.iter().find(|node| node.kind == kind).map_or(0, |node| node.number);
    let up: Vec<u32> = numbers.iter().map(|&number| found.dominator(number)).collect();
    assert_eq!(up, [node(handle), numbers[0], numbers[1], numbers[2], node(RootKind::StackWord)]);
    let retained = |kind| found.bytes(node(kind));
    let sizes: Vec<u64> = (0..5).map(|id| memory.size(id)).collect();
    assert_eq!((retained(handle), retained(RootKind::StackWord)), (sizes[..4].iter().sum(), sizes[4]));
    let tree = ShortestPathTree::build(&found.live, |_, _, _| {});
    assert_eq!(tree.path(numbers[3]), [vec![node(handle)], numbers[..4].to_vec()].concat());
}

/// A dict whose values refer to its keys: half of the hub's children have several referrers, and no child is the first
/// of its parent.
#[test]
fn work_on_hubs_is_linear() {
    for entries in [1_000, 150_000] {
        // The dict, then a key, a value and a list for each entry.
        let entry = |i: u32| [3 * i + 1, 3 * i + 2, 3 * i + 3];
        let mut lists = vec![(0..entries).flat_map(|i| entry(i).into_iter().take(2)).collect::<Vec<u32>>()];
        for [key, _, list] in (0..entries).map(entry) {
            lists.extend([vec![], vec![list], vec![key]]);
        }
        let kinds = (0..lists.len() as u32).map(|i| 1 + i % (TYPES - 1)).collect();
        check_work(&TestGraph { lists, kinds, roots: vec![(0, 0)] });
    }
}

#[test]
fn a_search_ends_when_its_time_is_up() {
    let lists = vec![vec![1, 2], vec![2], vec![]];
    let words = ToyMemory::of(&lists, &[1, 1, 1]);
    let toy = ToyHeap::new(&words);
    let roots = [Root::new(KINDS[0], Addr::new(0), words.address(0))];
    let deadline = Arc::new(Deadline::default());
    let budget = MemoryBudget::until(u64::MAX, Arc::clone(&deadline));
    let find = || Retained::find(Graph::new(&toy), &roots, &budget, |_| {});
    let path = || PathSearch::new(Graph::new(&toy), words.address(2), &budget).run(&roots, 1);
    let limit = deadline.limit(Instant::now());
    assert_eq!(find().err(), Some(GraphError::OutOfTime));
    assert_eq!(path().err(), Some(GraphError::OutOfTime));
    assert!(!limit.finish());
    assert!(find().is_ok_and(|found| found.total.count == 3));
    assert!(path().is_ok_and(|found| found.paths.len() == 1));
}

/// Objects with more references than are stored per object at once, and more objects than one thread processes.
#[test]
fn hubs_of_a_hundred_thousand() {
    const SPOKES: u32 = 100_000;
    let last = SPOKES + 1;
    // A hub. Each spoke references the hub, a shared object, and the spoke after the next.
    let mut lists = vec![(1..=SPOKES).chain([0, last]).collect::<Vec<u32>>()];
    lists.extend((1..=SPOKES).map(|i| vec![0, last, if i < SPOKES - 1 { i + 2 } else { i }]));
    lists.push(vec![]);
    let kinds = (0..lists.len() as u32).map(|i| 1 + i % (TYPES - 1)).collect();
    let mut made = TestGraph { lists, kinds, roots: vec![(0, 0), (1, 0)] };
    let hub = |vertex: u32| if vertex < 4 { 0 } else { 3 };
    let dominators: Vec<_> = (0..made.lists.len() as u32 + 3).map(|v| Some(hub(v))).collect();
    check_graph(&made, &dominators, &MemoryBudget::unbounded());
    searched(&made, last, &MemoryBudget::new(1 << 20));
    // A second path to a spoke: what that spoke references is not dominated by the hub any more.
    made.roots.push((1, 50_000));
    let simple = iterated(&made.vertices());
    assert_ne!(simple, dominators);
    check_graph(&made, &simple, &MemoryBudget::new(1 << 20));
}
