//! musl's malloc, mallocng: groups of slots, each described by a meta that it points back to.
//!
//! `malloc_context` in libc's data begins with a random secret of the process. It leads to areas of a page each, which
//! begin with the same secret and contain the metas. The meta of a group in use has the group's address, and the group
//! begins with the meta's address. That proves the group, whatever the origin of its memory. Masks in the meta say
//! which slots are in use. Headers in the slots say where the block begins and how many bytes were requested. Source:
//! musl 1.2.1 and later, src/malloc/mallocng/.
//!
//! | file | contents |
//! |---|---|
//! | `shape` | offsets and constants of the layout table; sizes from a meta's bits |
//! | `find` | context, areas, metas |
//! | `group` | groups, and which are inside slots of others |
//! | `slots` | the slots, with their headers |

mod find;
mod group;
mod shape;
mod slots;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

use crate::addr::{Addr, AddrRange, union};
use crate::memory::window::Window;
use crate::native::malloc::UsageSplit;
use crate::phase::Phase;
use crate::process::Process;

pub(crate) use group::Group;
pub use group::Source;
pub use slots::{Slot, SlotState};

pub(super) use find::find;

/// Number of outermost groups per parallel task. Nested groups belong to the same task.
const TASK: usize = 256;

/// mallocng's heap in one process.
#[derive(Debug, Default)]
pub struct Mallocng {
    /// Its `malloc_context`.
    pub context: AddrRange,
    /// Index into [`Process::modules`] of the module that contains the context.
    pub module: Option<usize>,
    /// Areas of metas, by address.
    pub areas: Vec<Addr>,
    /// Groups by address. A group inside a slot follows the group with that slot.
    pub groups: Vec<Group>,
    /// Number of metas in use whose group is not in the core or does not point back.
    pub unproven: u64,
    /// Number of groups in a slot of an unknown group.
    pub orphans: u64,
    /// Why the list of areas is incomplete. `None` if it is complete.
    pub broken: Option<String>,
    /// Whether groups are missing because there were more than the limit.
    pub capped: bool,
    /// Number of slots of each size class, by mallocng's own count (`usage_by_class`).
    counted: Vec<u64>,
    shape: Option<shape::Shape>,
}

impl Mallocng {
    /// Whether no group was found.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Size in bytes of an area of metas.
    pub fn area(&self) -> u64 {
        self.shape.as_ref().map_or(0, |s| s.area)
    }

    /// Returns the groups that are inside no other group.
    pub fn outermost(&self) -> impl Iterator<Item = &Group> {
        self.families().into_iter().filter_map(|(first, _)| self.groups.get(first))
    }

    /// Returns each outermost group with the groups inside it, as index ranges of `groups`.
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

    /// Returns the bytes of all groups and areas.
    pub fn committed(&self) -> u64 {
        let groups = self.outermost().map(|g| g.range);
        let areas = self.areas.iter().map(|a| AddrRange::sized(*a, self.area()));
        union(groups.chain(areas).collect()).iter().map(AddrRange::len).fold(0, u64::saturating_add)
    }

    /// Visits the slots, in address order within each outermost group. The outermost groups run in parallel, each with
    /// its own `A`. The results are ordered by address.
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

    /// Visits the slots like [`Mallocng::walk`], with one `A` for many outermost groups.
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

    /// Returns used, free and overhead bytes, from the metas alone.
    pub fn split(&self) -> UsageSplit {
        let mut out = UsageSplit::default();
        for group in &self.groups {
            let (used, free) = group.counts();
            out.used = out.used.saturating_add(used.saturating_mul(group.stride));
            out.free = out.free.saturating_add(free.saturating_mul(group.stride));
        }
        out.overhead = self.committed().saturating_sub(out.used.saturating_add(out.free));
        out
    }

    /// Whether the groups have as many slots of each class as mallocng counts. It does not count donated groups.
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
