//! musl's malloc, mallocng: groups of slots, each with a meta that it points back to.
//!
//! `malloc_context` in libc's data begins with a secret number of the process, and leads to areas of a page that begin with it too. Areas
//! hold metas; that of a group in use has the group's address, and the group begins with the meta's: that proves it,
//! whatever its memory is from. Masks in the meta tell which slots are in use; headers in the slots where the block in it begins
//! and how many bytes were asked for. Source: musl 1.2.1 and later, src/malloc/mallocng/.
//!
//! | file | does |
//! |---|---|
//! | `shape` | the table's numbers, and how sizes follow from a meta's bits |
//! | `find` | context, areas, metas |
//! | `group` | groups, and which lie in slots of others |
//! | `slots` | slots one by one, with their headers |

mod find;
mod group;
mod shape;
mod slots;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange, union};
use crate::memory::window::Window;
use crate::native::malloc::Split;
use crate::phase::Phase;
use crate::process::Process;

pub(crate) use group::Group;
pub use group::Source;
pub use slots::{Slot, SlotState};

pub(super) use find::find;

/// Groups that a thread walks at once, with those in their slots.
const TASK: usize = 256;

/// mallocng in one process.
#[derive(Debug, Default)]
pub struct Mallocng {
    /// Its `malloc_context`.
    pub context: AddrRange,
    /// Index into [`Process::modules`] of what holds it.
    pub module: Option<usize>,
    /// Areas of metas, by address.
    pub areas: Vec<Addr>,
    /// Groups, by address; those in a slot of another one behind that one.
    pub groups: Vec<Group>,
    /// Metas in use whose group is not in the core or does not lead back.
    pub unproven: u64,
    /// Groups in slots of a group that is not known.
    pub orphans: u64,
    /// Why the list of areas is not whole.
    pub broken: Option<String>,
    /// Whether there were more groups than are looked at.
    pub capped: bool,
    /// Slots of each size class, as mallocng counts them itself.
    counted: Vec<u64>,
    shape: Option<shape::Shape>,
}

impl Mallocng {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Bytes of an area of metas.
    pub fn area(&self) -> u64 {
        self.shape.as_ref().map_or(0, |s| s.area)
    }

    /// Memory of the groups, without what lies in another one.
    pub fn outermost(&self) -> impl Iterator<Item = &Group> {
        self.families().into_iter().filter_map(|(first, _)| self.groups.get(first))
    }

    /// Each group with those that lie in its slots: numbers of the first and past the last.
    fn families(&self) -> Vec<(usize, usize)> {
        let mut out: Vec<(usize, usize)> = Vec::new();
        let mut end = Addr::NULL;
        for (i, group) in self.groups.iter().enumerate() {
            match out.last_mut() {
                Some(last) if group.range.start < end => last.1 = i + 1,
                _ => {
                    out.push((i, i + 1));
                    end = group.range.end;
                }
            }
        }
        out
    }

    /// All memory that it has: groups and areas.
    pub fn committed(&self) -> u64 {
        let groups = self.outermost().map(|g| g.range);
        let areas = self.areas.iter().map(|a| AddrRange::sized(*a, self.area()));
        union(groups.chain(areas).collect()).iter().map(AddrRange::len).fold(0, u64::saturating_add)
    }

    /// Visit the slots, by address within each group that lies in no other; several at a time. Each of these has its own
    /// `A`; the answer is by address.
    pub fn walk<A: Send>(
        &self,
        process: &Process,
        make: impl Fn() -> A + Sync,
        visit: impl Fn(&mut A, &Slot) + Sync,
    ) -> Vec<A> {
        let _phase = process.enter(Phase::Blocks);
        let walked = self.families().into_par_iter().map(|family| {
            let mut sum = make();
            self.each_of(process, family, |slot| visit(&mut sum, slot));
            sum
        });
        walked.collect()
    }

    /// The same with an `A` for many groups that lie in no other.
    pub fn walk_many<A: Send>(
        &self,
        process: &Process,
        make: impl Fn() -> A + Sync,
        visit: impl Fn(&mut A, &Slot) + Sync,
    ) -> Vec<A> {
        let _phase = process.enter(Phase::Blocks);
        let all = self.families();
        let walked = all.par_chunks(TASK).map(|families| {
            let mut sum = make();
            for &family in families {
                self.each_of(process, family, |slot| visit(&mut sum, slot));
            }
            sum
        });
        walked.collect()
    }

    fn each_of(&self, process: &Process, (first, past): (usize, usize), visit: impl FnMut(&Slot)) {
        let family = self.groups.get(first..past).unwrap_or_default();
        let Some(outer) = family.first() else { return };
        let windows = Window::all(process.target(), outer.range);
        let mut slots: Vec<Slot> = Vec::new();
        for (i, group) in family.iter().enumerate() {
            group.each(first + i, &windows, |slot| slots.push(slot));
        }
        if family.len() > 1 {
            slots.sort_unstable_by_key(|s| s.range.start);
        }
        slots.iter().for_each(visit);
    }

    /// Used, free and overhead, from the metas alone.
    pub fn split(&self) -> Split {
        let mut out = Split::default();
        for group in &self.groups {
            let (used, free) = group.counts();
            out.used = out.used.saturating_add(used.saturating_mul(group.stride));
            out.free = out.free.saturating_add(free.saturating_mul(group.stride));
        }
        out.overhead = self.committed().saturating_sub(out.used.saturating_add(out.free));
        out
    }

    /// Whether there are as many slots of each class as mallocng counts. Donated groups are in no count of its.
    pub fn is_whole(&self) -> bool {
        let mut counts = vec![0_u64; self.counted.len()];
        for group in self.groups.iter().filter(|g| g.from != Source::Donated) {
            if let Some(count) = counts.get_mut(usize::from(group.class)) {
                *count += u64::from(group.slots);
            }
        }
        counts == self.counted
    }
}
