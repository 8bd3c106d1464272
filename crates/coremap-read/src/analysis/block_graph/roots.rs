//! Words outside of blocks that point at them, in groups: a container's header, a variable, a word.

use std::collections::BTreeMap;

use crate::addr::{Addr, AddrRange};
use crate::analysis::block_graph::BlockGraph;
use crate::analysis::block_graph::containers::{Container, Prover};
use crate::analysis::block_graph::edges::Lead;
use crate::analysis::block_graph::stacks::UnwoundStacks;
use crate::analysis::block_graph::too_many;
use crate::analysis::reach::{root_parts, small_blocks};
use crate::image::ModuleKind;
use crate::limits;
use crate::map::{Kind, Owner, Region};
use crate::memory::pointers::pointers;
use crate::native::stacks::RED_ZONE;
use crate::progress::Progress;
use crate::runtimes::graph::{GraphError, MemoryBudget};
use crate::session::Session;

/// Location of a root, in the order of precedence. A block that data retains is not retained by a copy on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RootPlace {
    /// Variables of a module, by its index.
    Data(u32),
    /// Thread-local variables of a thread.
    Tls(u32),
    /// A mapping that is not malloc's, by its start address.
    Mapping(Addr),
    /// The stack of a thread.
    Stack(u32),
    /// Registers of a thread.
    Registers(u32),
}

impl RootPlace {
    /// Whether it may only have copies of pointers in other roots.
    pub(super) fn is_passing(self) -> bool {
        matches!(self, RootPlace::Stack(_) | RootPlace::Registers(_))
    }
}

/// A word that points at a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct RootWord {
    pub(super) at: Addr,
    pub(super) to: u32,
    pub(super) lead: Lead,
}

/// Words of one holder, such as a variable.
#[derive(Clone, Debug)]
pub(super) struct RootGroup {
    pub(super) place: RootPlace,
    /// Address of the variable or of the container's header, or of the first word.
    pub(super) at: Addr,
    pub(super) words: Vec<RootWord>,
    pub(super) container: Option<Container>,
}

/// Maximum number of bytes in a stack's mapping that count as thread-local variables (below the thread pointer) and as
/// the thread's control block (above it).
const TLS_BELOW: u64 = 64 << 10;
const TLS_ABOVE: u64 = 2304;

/// Minimum number of words of one mapping that are merged into one group.
const BULK: usize = 64;

/// Maximum number of words outside of blocks that are grouped singly. With more, each location is one group.
const SINGLE: usize = 1 << 20;

/// Finds the groups. `None` if there are too many words, or the time is up.
pub(super) fn find(
    session: &Session<'_>,
    graph: &BlockGraph<'_>,
    prover: &Prover<'_>,
    stacks: &UnwoundStacks<'_, '_>,
    budget: &MemoryBudget,
) -> Option<Vec<RootGroup>> {
    let parts = root_parts(session);
    let small = small_blocks(session);
    let mut ranges: Vec<AddrRange> = parts.iter().map(|(range, _)| *range).chain(small.iter().copied()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut words: Vec<RootWord> = Vec::new();
    let mut is_full = false;
    let visit = |state: &mut Vec<RootWord>, at: Addr, value: Addr| state.extend(word(graph, at, value));
    let join = |mut state: Vec<RootWord>| {
        is_full |= words.len().saturating_add(state.len()) > limits::MAX_GRAPH_ROOTS;
        if !is_full {
            words.append(&mut state);
        }
    };
    let target = session.process.target();
    pointers(target, &ranges, graph.blocks.hull(), &Progress::silent(), visit, join);
    if is_full {
        too_many(session, limits::MAX_GRAPH_ROOTS, "pointers to malloc blocks");
        return None;
    }
    words.sort_unstable_by_key(|word| word.at);
    let places = places(session, &parts, &small, stacks);
    let mut out = Vec::new();
    let place_of = |at: Addr| {
        let i = places.partition_point(|(range, _)| range.end <= at);
        places.get(i).filter(|(range, _)| range.start <= at).map(|(_, place)| *place)
    };
    let mut by_place: Vec<(RootPlace, Vec<RootWord>)> = Vec::new();
    for word in words {
        let Some(place) = place_of(word.at) else { continue };
        match by_place.last_mut() {
            Some((last, list)) if *last == place => list.push(word),
            _ => by_place.push((place, vec![word])),
        }
    }
    let single = by_place.iter().map(|(_, words)| words.len()).sum::<usize>() <= SINGLE;
    for (place, words) in by_place {
        let bulk = matches!(place, RootPlace::Mapping(_)) && words.len() >= BULK || !single;
        if let Some(at) = words.first().map(|word| word.at).filter(|_| bulk) {
            out.push(RootGroup { place, at, words, container: None });
        } else {
            group(session, prover, place, &words, &mut out, budget).ok()?;
        }
    }
    for thread in session.process.threads() {
        let values = thread.registers.iter().map(|(_, value)| Addr::new(session.process.arch().address_in(value)));
        let words: Vec<RootWord> = values.filter_map(|value| word(graph, Addr::NULL, value)).collect();
        if !words.is_empty() {
            out.push(RootGroup { place: RootPlace::Registers(thread.tid), at: Addr::NULL, words, container: None });
        }
    }
    Some(out)
}

/// Returns the word at `at` with the value `value`. `None` if it does not point at a block.
fn word(graph: &BlockGraph<'_>, at: Addr, value: Addr) -> Option<RootWord> {
    let to = graph.at(value)?;
    let inside = value.checked_since(graph.start(to)).and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX);
    // The last word of a chunk is also the first word of the next chunk. If the next chunk is free, malloc's lists
    // point there.
    let is_last = inside > 0 && u64::from(inside).saturating_add(8) >= graph.usable(to);
    let lead = if is_last { Lead::Weak } else { graph.edges.lead(to, inside, &graph.lens) };
    Some(RootWord { at, to, lead })
}

/// Returns the location of each range, by address.
fn places(
    session: &Session<'_>,
    parts: &[(AddrRange, &Region)],
    small: &[AddrRange],
    stacks: &UnwoundStacks<'_, '_>,
) -> Vec<(AddrRange, RootPlace)> {
    let static_tls = static_tls(session);
    let threads = session.process.threads().iter().rev();
    let pointers: BTreeMap<Addr, u32> =
        threads.filter_map(|thread| Some((thread.thread_pointer?, thread.tid))).collect();
    let of = |&(range, region): &(AddrRange, &Region)| -> Vec<(AddrRange, RootPlace)> {
        match (region.kind, region.owner) {
            (Kind::Image, Owner::Module(module)) => vec![(range, RootPlace::Data(module))],
            (Kind::Tls, _) => {
                let tid = pointers.range(range.start..range.end).next().map(|(_, tid)| *tid);
                let tid = tid.or(session.process.main_tid());
                vec![(range, RootPlace::Tls(tid.unwrap_or(0)))]
            }
            (Kind::Stack, Owner::Thread(tid)) => {
                let own = session.thread(tid).and_then(|thread| thread.thread_pointer);
                let tls = own.filter(|pointer| range.contains(*pointer)).map(|pointer| {
                    let sp = session.sp_in(region).map_or(range.start, |sp| sp.saturating_sub(RED_ZONE));
                    // The frames of the thread's first functions are directly below its thread-local variables.
                    let outermost = stacks.of(tid).and_then(|stack| stack.frames.last().map(|(sp, _)| *sp));
                    let outermost = outermost.filter(|sp| range.contains(*sp) && *sp < pointer);
                    let from = outermost.unwrap_or(pointer).max(pointer.saturating_sub(static_tls));
                    AddrRange::new(from.max(sp), pointer.saturating_add(TLS_ABOVE)).intersect(&range)
                });
                match tls.flatten() {
                    Some(tls) => vec![
                        (AddrRange::new(range.start, tls.start), RootPlace::Stack(tid)),
                        (tls, RootPlace::Tls(tid)),
                        (AddrRange::new(tls.end, range.end), RootPlace::Stack(tid)),
                    ],
                    None => vec![(range, RootPlace::Stack(tid))],
                }
            }
            (_, _) => vec![(range, RootPlace::Mapping(region.range.start))],
        }
    };
    let small = small.iter().map(|range| (*range, RootPlace::Mapping(range.start)));
    let mut out: Vec<(AddrRange, RootPlace)> = parts.iter().flat_map(of).chain(small).collect();
    out.retain(|(range, _)| !range.is_empty());
    out.sort_unstable_by_key(|(range, _)| range.start);
    out
}

/// Returns the maximum number of bytes of the modules' thread-local variables below a thread pointer, on x86_64.
fn static_tls(session: &Session<'_>) -> u64 {
    let sizes = session.process.modules.iter().filter_map(|module| match &module.kind {
        ModuleKind::Elf(image) => Some(image.thread_local),
        _ => None,
    });
    let all = sizes.fold(0, u64::saturating_add);
    // Without program headers, the sizes are unknown.
    if all == 0 { TLS_BELOW } else { all.min(TLS_BELOW) }
}

/// Groups words of one location by container header and by variable. All other words are groups of their own.
///
/// # Errors
/// [`GraphError::OutOfTime`]
fn group(
    session: &Session<'_>,
    prover: &Prover<'_>,
    place: RootPlace,
    words: &[RootWord],
    out: &mut Vec<RootGroup>,
    budget: &MemoryBudget,
) -> Result<(), GraphError> {
    let mut rest: BTreeMap<Addr, Vec<RootWord>> = BTreeMap::new();
    let mut left = words;
    while let Some((first, others)) = left.split_first() {
        budget.in_time_at(left.len())?;
        let from_first = left;
        left = others;
        if first.lead == Lead::Weak && !matches!(place, RootPlace::Data(_) | RootPlace::Tls(_)) {
            rest.entry(first.at).or_default().push(*first);
            continue;
        }
        if let Some(container) = prover.near(first.at) {
            let end = container.header.saturating_add(container.len);
            let inside = others.partition_point(|word| word.at < end);
            let (inside, behind) = others.split_at_checked(inside).unwrap_or_default();
            let mut words = vec![*first];
            words.extend(inside);
            out.push(RootGroup { place, at: container.header, words, container: Some(container) });
            left = behind;
            continue;
        }
        let variable = match place {
            RootPlace::Data(_) => session.symbols().resolve_data(first.at).filter(|symbol| symbol.sized),
            _ => None,
        };
        if let Some(variable) = variable {
            rest.entry(variable.start).or_default().push(*first);
            continue;
        }
        let array = array(prover, place, from_first).saturating_sub(1);
        let (array, behind) = left.split_at_checked(array).unwrap_or_default();
        rest.entry(first.at).or_default().extend(std::iter::once(first).chain(array));
        left = behind;
    }
    out.extend(rest.into_iter().map(|(at, words)| RootGroup { place, at, words, container: None }));
    Ok(())
}

/// Minimum number of words of an array without a symbol, and maximum number of null pointers between two of them.
const ARRAY: usize = 8;
const NULLS: u64 = 64;

/// Returns the number of words from the first one on that form an array in a module's data. They point at starts of
/// blocks of one size, and only null pointers are between them. 1 if there is no array.
fn array(prover: &Prover<'_>, place: RootPlace, words: &[RootWord]) -> usize {
    let Some(first) = words.first().filter(|first| first.lead == Lead::Start) else { return 1 };
    if !matches!(place, RootPlace::Data(_)) {
        return 1;
    }
    let size = prover.usable(first.to);
    let follows = |(word, next): &(&RootWord, &RootWord)| {
        let gap = next.at.since(word.at) / 8;
        let is_null = |i: u64| word.at.checked_add(8 * i).is_some_and(|at| prover.is_null(at));
        next.lead == Lead::Start && prover.usable(next.to) == size && gap <= NULLS && (1..gap).all(is_null)
    };
    let pairs = words.iter().zip(words.iter().skip(1));
    let len = pairs.take_while(follows).count().saturating_add(1);
    if len >= ARRAY { len } else { 1 }
}
