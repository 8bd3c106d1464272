//! Memory outside of a managed heap that its objects retain, and memory inside that should be free. This covers native
//! memory behind objects, blocks that nothing reaches, exceptions of failed allocations, and objects that retain nearly
//! empty arenas.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::causes::last_words::{self, Caught};
use crate::causes::native_owner::{self, Owned};
use crate::commands::triage::analysis::budget::Budget;
use crate::commands::triage::analysis::c_objects::{Behind, Owner};
use crate::commands::triage::analysis::tally::{Subject, Tally};
use crate::progress::Progress;
use crate::report::Finding;
use crate::runtimes::api::{KeptFailure, ManagedRuntime, SmallBlockSums, Survivors};
use crate::session::Session;
use crate::units::exact;

/// Number of bytes processed per second by each pass.
const GRAPH: u64 = 200 << 20;

/// Minimum free share of arenas in percent, and minimum bytes, for a pass.
const MUCH: u64 = 20;
const LARGE: u64 = 16 << 20;

/// The results, before the holders of their objects are known.
#[derive(Default)]
pub(super) struct Outside {
    owners: Vec<Owner>,
    lost: Vec<Finding>,
    kept: Vec<KeptFailure>,
    survivors: Vec<Survivors>,
}

impl Outside {
    /// Runs the analyses. `in_core`: bytes of the heap. `in_blocks`: whether its objects are malloc blocks themselves.
    pub(super) fn find(
        session: &Session<'_>,
        tally: &Tally,
        in_core: u64,
        in_blocks: bool,
        budget: &mut Budget,
        progress: &Progress,
    ) -> Outside {
        let runtimes = session.runtimes();
        let mut out = Outside::default();
        let behind: Vec<Behind<'_, '_>> =
            runtimes.iter().filter_map(|runtime| Behind::new(session, *runtime)).collect();
        let malloc = tally.shares.get(&Subject::Malloc).filter(|share| share.used >= LARGE);
        if let Some(malloc) = malloc.filter(|_| in_blocks) {
            let cost = (in_core.saturating_add(malloc.in_core), GRAPH);
            let owners = budget.run(session, "native memory of objects", cost, |_| {
                behind.iter().flat_map(Behind::owners).collect::<Vec<_>>()
            });
            out.owners.extend(owners.into_iter().flatten());
        }
        if runtimes.iter().any(|runtime| runtime.allocation_traces().is_some()) {
            let lost = budget.run(session, "blocks that nothing refers to", (tally.total(), GRAPH), |_| {
                behind.iter().flat_map(|behind| behind.lost(progress)).collect::<Vec<_>>()
            });
            out.lost.extend(lost.into_iter().flatten());
        }
        if budget.allows("exceptions and survivors", in_core, GRAPH) {
            let words = runtimes.iter().filter_map(|runtime| runtime.last_words());
            out.kept.extend(words.flat_map(|words| words.kept_failures()));
            out.survivors = survivors(&runtimes);
        }
        out
    }

    /// Returns the objects whose holders are needed.
    pub(super) fn objects(&self) -> impl Iterator<Item = Addr> + '_ {
        let owners = self.owners.iter().map(|row| row.object);
        let kept = self.kept.iter().map(|failure| failure.object);
        owners.chain(kept).chain(self.survivors.iter().map(|row| row.example))
    }

    /// Returns the findings. `held_by`: the holder of each object.
    pub(super) fn findings(&self, held_by: &HashMap<Addr, String>) -> Vec<Finding> {
        let mut out = self.lost.clone();
        out.extend(self.owners.iter().filter_map(|row| of_owner(row, held_by)));
        let held = |failure: &KeptFailure| held_by.get(&failure.object).map(String::as_str);
        if let Some(failure) = self.kept.iter().find(|failure| held(failure).is_some()) {
            let count = self.kept.len() as u64;
            out.push(last_words::caught(&Caught { failure, count, holder: held(failure), asked: None, limit: None }));
        }
        out
    }

    /// Adds to the finding on small blocks which objects survive in nearly empty arenas, and what holds them.
    pub(super) fn add_survivors(&self, findings: &mut [Finding], held_by: &HashMap<Addr, String>) {
        let Some(finding) = findings.iter_mut().find(|finding| finding.id == "small-blocks") else { return };
        let of = |row: &Survivors| {
            let holder = held_by.get(&row.example).map_or_else(String::new, |holder| format!(" of {holder}"));
            format!("{} {}{holder}", exact(row.count), row.r#type)
        };
        let rows: Vec<String> = self.survivors.iter().map(of).collect();
        if !rows.is_empty() {
            let text = format!(" Objects that survive in them: {}. This is no leak of objects.", rows.join(", "));
            finding.text.push_str(&text);
        }
    }
}

fn of_owner(row: &Owner, held_by: &HashMap<Addr, String>) -> Option<Finding> {
    native_owner::finding(&Owned {
        r#type: &row.r#type,
        field: None,
        objects: row.objects,
        blocks: row.blocks,
        bytes: row.bytes,
        written: row.bytes,
        behind: false,
        holder: held_by.get(&row.object).map(String::as_str),
    })
}

/// Returns objects in nearly empty arenas, if these have much free memory.
fn survivors(runtimes: &[&dyn ManagedRuntime]) -> Vec<Survivors> {
    let is_much = |sums: &SmallBlockSums| {
        let free = sums.free_bytes().saturating_add(sums.free_pool_bytes());
        free >= LARGE && free.saturating_mul(100) >= sums.committed().saturating_mul(MUCH)
    };
    let blocks = runtimes.iter().filter_map(|runtime| runtime.small_blocks());
    blocks.filter(|blocks| blocks.sums().is_some_and(is_much)).flat_map(|blocks| blocks.survivors()).collect()
}
