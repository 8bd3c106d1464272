//! Guesses the stacks of threads without one: the memory around their stack pointers, at most as much as one stack can
//! have.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange, PAGE};
use crate::limits;
use crate::map::{Base, Claim, Claims, Confidence, Kind};
use crate::native::malloc::{Blocks, FreeLists, Malloc};
use crate::native::stacks::space::Space;
use crate::native::stacks::{StackState, Stacks, ThreadStack, ThreadWithoutStack, UnmatchedSp};
use crate::phase::Phase;
use crate::process::Process;
use crate::range_map::RangeMap;

/// Guesses the remaining stacks. `claims` says what all other memory is.
pub fn guess(process: &Process, base: &Base, claims: &Claims, malloc: &Malloc, stacks: &mut Stacks) {
    let unmatched = std::mem::take(&mut stacks.unmatched);
    if unmatched.is_empty() {
        return;
    }
    let _phase = process.enter(Phase::Stacks);
    let space = Space::of(process.facts(), base);
    let known: Vec<&Claim> = claims.iter().filter(|c| c.confidence > Confidence::Heuristic).collect();
    let taken = RangeMap::resolve(
        &known,
        |i, c| (c.range, (c.kind.specificity(), std::cmp::Reverse(i))),
        |range, c| ClaimedRange { range, claim: c },
    );
    let mut pointers: Vec<Addr> = unmatched.iter().map(|a| a.sp).collect();
    pointers.sort_unstable();
    let mut guesser = Guesser { process, malloc, space, taken, pointers, blocks: None };
    for pointer in unmatched {
        match guesser.around(pointer.sp) {
            Ok((stack, source)) => stacks.push(ThreadStack {
                tid: Some(pointer.tid),
                state: state(process, pointer),
                stack,
                zone: AddrRange::default(),
                guard: None,
                mapped: stack,
                sp: Some(pointer.sp),
                control: None,
                current: pointer.current,
                confidence: Confidence::Heuristic,
                source,
            }),
            Err(why) if !pointer.has_own => {
                stacks.without.push(ThreadWithoutStack { tid: pointer.tid, sp: pointer.sp, why: why.to_string() });
            }
            Err(_) => stacks.astray.push(pointer.tid),
        }
    }
    stacks.order(process.threads().iter().map(|t| t.tid));
}

fn state(process: &Process, pointer: UnmatchedSp) -> StackState {
    match (pointer.has_own, process.main_tid() == Some(pointer.tid)) {
        (true, _) => StackState::Switched,
        (false, true) => StackState::Main,
        (false, false) => StackState::Thread,
    }
}

/// Memory with a claim.
#[derive(Clone, Copy)]
struct ClaimedRange<'a> {
    range: AddrRange,
    claim: &'a Claim,
}

impl crate::range_map::Ranged for ClaimedRange<'_> {
    fn range(&self) -> AddrRange {
        self.range
    }
}

/// Reasons why no stack was found around a stack pointer.
#[derive(Debug, thiserror::Error)]
enum NoStack {
    /// SP points into memory of another kind.
    #[error("SP points into {kind} {detail}")]
    Taken { kind: Kind, detail: Arc<str> },
    /// The memory at SP is not mapped, or not writable.
    #[error("no writable mapping contains SP")]
    Unmapped,
}

struct Guesser<'a> {
    process: &'a Process,
    malloc: &'a Malloc,
    space: Space<'a>,
    taken: RangeMap<ClaimedRange<'a>>,
    /// All stack pointers without a stack, sorted.
    pointers: Vec<Addr>,
    /// Blocks of malloc. They are read when a stack pointer is in one.
    blocks: Option<Blocks>,
}

impl Guesser<'_> {
    /// Returns the stack around `sp` and how it was found, or why there is none.
    fn around(&mut self, sp: Addr) -> Result<(AddrRange, String), NoStack> {
        if let Some(taken) = self.taken.at(sp) {
            let claim = taken.claim;
            let block = if claim.kind == Kind::Malloc { self.block(sp) } else { None };
            let block = block.filter(|b| self.alone_in(*b));
            return match block {
                Some(block) => Ok((block, "malloc block that contains SP; the program uses it as a stack".into())),
                None => Err(NoStack::Taken { kind: claim.kind, detail: claim.detail.clone() }),
            };
        }
        let mapping = self.space.mapping_at(sp).ok_or(NoStack::Unmapped)?;
        let mut free = mapping;
        for taken in self.taken.overlapping(mapping) {
            if taken.range.end <= sp {
                free.start = taken.range.end;
            } else {
                free.end = free.end.min(taken.range.start);
            }
        }
        if self.alone_in(free) && free.len() <= limits::MAX_GUESSED_STACK {
            return Ok((free, "mapping that contains SP; its bounds may include neighbours".into()));
        }
        let page = AddrRange::sized(sp.align_down(PAGE), PAGE);
        let page = page.intersect(&free).ok_or(NoStack::Unmapped)?;
        let why = if self.alone_in(free) {
            "is too large for one stack"
        } else {
            "contains stacks of other threads \
            too"
        };
        Ok((page, format!("page that contains SP: its mapping {mapping} {why}, so the bounds are unknown")))
    }

    fn alone_in(&self, range: AddrRange) -> bool {
        let first = self.pointers.partition_point(|p| *p < range.start);
        let past = self.pointers.partition_point(|p| *p < range.end);
        past - first <= 1
    }

    fn block(&mut self, sp: Addr) -> Option<AddrRange> {
        let (process, malloc) = (self.process, self.malloc);
        let blocks =
            self.blocks.get_or_insert_with(|| Blocks::read(process, malloc, &FreeLists::read(process, malloc, &[])));
        blocks.at(sp).filter(|b| b.used).map(|b| b.range)
    }
}
