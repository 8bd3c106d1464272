//! Shortest paths from the roots to all live objects.

use std::hint::black_box;
use std::ops::Range;

use rayon::prelude::*;

use crate::runtimes::api::{Link, ObjectBatch};
use crate::runtimes::graph::LiveGraph;

/// The tree of shortest paths, as found by a breadth-first search from all roots.
pub struct ShortestPathTree<'l> {
    live: &'l LiveGraph<'l>,
}

/// Number of objects read in one batch, and the maximum number of references per batch.
const BATCH_OBJECTS: usize = 64;
const BATCH_REFS: usize = 1024;

/// Number of objects whose references one thread reads at once, and that all threads read while the previous batch is
/// visited.
const TASK_GROUPS: usize = 1 << 12;
const ROUND_GROUPS: usize = 1 << 18;

const NO_OBJECT: u32 = u32::MAX;

/// Parents, each with the range of its children.
type Groups = Vec<(u32, Range<u32>)>;

impl<'l> ShortestPathTree<'l> {
    /// Creates the tree. `visit` is called once per number, with the number's parent and the link from parent to child.
    /// Parents are visited before their children.
    pub fn build(
        live: &'l LiveGraph<'_>,
        mut visit: impl FnMut(u32, u32, Option<Link>) + Send,
    ) -> ShortestPathTree<'l> {
        let order = &live.order;
        // Children of roots have no link.
        let mut at = 1;
        while at < order.len() {
            let Some((from, to)) = order.child_groups(at, 1).pop().filter(|(from, _)| *from < order.base()) else {
                break;
            };
            at = to.end;
            to.for_each(|number| visit(number, from, None));
        }
        let read = |groups: &Groups| -> Vec<Vec<Link>> {
            groups.par_chunks(TASK_GROUPS).map(|task| links(live, task)).collect()
        };
        let next = |at: &mut u32| {
            let groups = order.child_groups(*at, ROUND_GROUPS);
            *at = groups.last().map_or(order.len(), |(_, to)| to.end);
            groups
        };
        let mut groups = next(&mut at);
        let mut held = read(&groups);
        while !groups.is_empty() {
            let following = next(&mut at);
            let mut visit_all = || {
                for (task, links) in groups.chunks(TASK_GROUPS).zip(&held) {
                    let mut links = links.iter();
                    for (from, to) in task {
                        to.clone().for_each(|number| visit(number, *from, links.next().copied()));
                    }
                }
            };
            let ((), links) = rayon::join(&mut visit_all, || read(&following));
            (groups, held) = (following, links);
        }
        ShortestPathTree { live }
    }

    /// The shortest path to an object, starting with the number of its root kind.
    pub fn path(&self, number: u32) -> Vec<u32> {
        let up = |&number: &u32| Some(self.live.order.parent(number)).filter(|&up| up != 0);
        let mut out: Vec<u32> = std::iter::successors(Some(number), up).collect();
        out.reverse();
        out
    }
}

/// The links from each parent in `task` to its children, in the order of the children.
fn links(live: &LiveGraph<'_>, task: &[(u32, Range<u32>)]) -> Vec<Link> {
    let mut reader = live.graph.reader();
    let space = live.graph.space;
    let mut out = Vec::with_capacity(task.len());
    let mut addresses: Vec<u64> = Vec::with_capacity(BATCH_OBJECTS);
    let mut looked = ObjectBatch::with_links();
    let (mut places, mut found) = (Vec::new(), Vec::new());
    let mut done = 0;
    while let Some(some) = task.get(done..(done + BATCH_OBJECTS).min(task.len())).filter(|some| !some.is_empty()) {
        addresses.clear();
        // Objects and their table entries are scattered in memory. Touching all of them first lets the cache misses
        // overlap.
        black_box(
            some.iter().fold(0, |sum, (from, _)| sum ^ live.ids.touch_address(live.order.id(*from).unwrap_or(0))),
        );
        addresses.extend(some.iter().map(|(from, _)| live.object(*from).map_or(0, |at| at.get())));
        black_box(addresses.iter().fold(0, |sum, &addr| sum ^ live.graph.first_word(addr)));
        reader.read_batch(&addresses, BATCH_REFS, &mut looked);
        live.ids.find_all(space, &looked.references, NO_OBJECT, &mut places, &mut found);
        let (mut at, looked_at) = (0, looked.ends.len());
        for (i, ((_, to), &end)) in some.iter().zip(&looked.ends).enumerate() {
            let all = out.len() + to.len();
            let mut rest = live.order.ids(to.clone()).peekable();
            let mut take = |link: Link, id: u32| {
                if rest.next_if(|&(_, next)| id == next).is_some() {
                    out.push(link);
                }
                rest.peek().is_some()
            };
            let links = looked.links.as_ref().and_then(|links| links.get(at..end)).unwrap_or_default();
            let held = links.iter().zip(found.get(at..end).unwrap_or_default());
            held.take_while(|&(&link, &id)| take(link, id)).for_each(drop);
            if let Some(place) = looked.next.filter(|_| i + 1 == looked_at) {
                let addr = addresses.get(i).copied().unwrap_or(0);
                reader.each_from(addr, place, &mut |_, link, value| {
                    let id = live.ids.find(space, value).unwrap_or(NO_OBJECT);
                    take(link, id)
                });
            }
            // Each child was found through a reference of its parent. A missing one means that the process's memory has
            // changed since.
            out.resize(all, Link::Field(0));
            at = end;
        }
        done += looked_at;
    }
    out
}
