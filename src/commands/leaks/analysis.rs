//! Finds used malloc blocks that no pointer reaches, and groups equal ones.

use std::cmp::Reverse;

use crate::addr::Addr;
use crate::analysis::block_graph::{HolderLimits, with_block_owners};
use crate::analysis::blocks::{BlockReader, BySize, Tally, clusters, warn_lists};
use crate::analysis::reach::{Reach, unread};
use crate::commands::leaks::report::{LeakedRow, LeaksReport};
use crate::diag::{Warning, WarningCode};
use crate::limits;
use crate::native::malloc::{BlockMarks, Blocks, Chunk, Malloc, MappedChunk, Slot, SlotState, State};
use crate::process::Process;
use crate::progress::Progress;
use crate::report::ChunkSum;
use crate::session::Session;
use crate::units::human;

/// Options of `leaks`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeaksOptions {
    /// Also list every unreachable block.
    pub blocks: bool,
    /// Also find groups of lost blocks: trees, lists and cycles.
    pub groups: bool,
    /// Maximum number of clusters, or of blocks.
    pub limit: Option<usize>,
}

/// Limits of the list of groups. Groups below 1 KiB are not listed.
const GROUPS: HolderLimits = HolderLimits { most: 20, bytes: 1 << 10, share: 0 };

/// Unreachable and reachable blocks of one part of the heap.
#[derive(Default)]
struct BlockTally {
    leaked: Tally,
    direct: ChunkSum,
    reachable: ChunkSum,
    blocks: Vec<LeakedRow>,
}

/// The heap's blocks, with the results of the search for pointers.
struct Reachability<'a> {
    malloc: &'a Malloc,
    blocks: &'a Blocks,
    /// Blocks reachable from outside the heap.
    reached: BlockMarks,
    /// Blocks that unreachable blocks point at.
    pointed: BlockMarks,
    reader: BlockReader<'a>,
    /// Maximum number of unreachable blocks listed per part of the heap.
    list: usize,
}

impl Reachability<'_> {
    fn add(&self, share: &mut BlockTally, chunk: &Chunk) {
        self.count(share, self.malloc.block(chunk.address), chunk.size, |leaked| leaked.add(chunk, &self.reader));
    }

    fn add_mapped(&self, share: &mut BlockTally, chunk: &MappedChunk) {
        let block = self.malloc.block(chunk.chunk);
        self.count(share, block, chunk.size, |leaked| leaked.add_mapped(chunk, false, &self.reader));
    }

    fn add_slot(&self, share: &mut BlockTally, slot: &Slot) {
        self.count(share, slot.block.start, slot.range.len(), |leaked| leaked.add_slot(slot, &self.reader));
    }

    fn count(&self, share: &mut BlockTally, block: Addr, size: u64, tally: impl FnOnce(&mut Tally)) {
        match self.blocks.id_at(block) {
            Some(id) if !self.reached.has(id) => {
                tally(&mut share.leaked);
                let direct = !self.pointed.has(id);
                if direct {
                    share.direct.add(size);
                }
                if share.blocks.len() < self.list {
                    share.blocks.push(LeakedRow { address: block, size, direct });
                }
            }
            _ => share.reachable.add(size),
        }
    }
}

/// Finds the unreachable blocks.
pub fn leaks(session: &Session<'_>, options: &LeaksOptions, progress: &Progress) -> LeaksReport {
    session.process.target().expect_scan();
    let malloc = session.malloc();
    let read = warn_unread(session.process, malloc);
    if malloc.is_empty() {
        return LeaksReport::default();
    }
    let (lists, blocks) = session.blocks();
    let reach = Reach::new(session.process, blocks).without_tracers(session);
    let reached = blocks.marks();
    let scanned = reach.mark_from_roots(session, &reached, progress);
    let pointed = blocks.marks();
    blocks.each_unmarked(&reached, |part, block| {
        reach.each(part, &block, |to| {
            if to != block.id {
                pointed.mark(to);
            }
        });
    });
    let most = options.limit.unwrap_or(limits::MAX_LISTED_CHUNKS).min(limits::MAX_LISTED_CHUNKS);
    let list = if options.blocks { most } else { 0 };
    let reachability = Reachability { malloc, blocks, reached, pointed, reader: BlockReader::new(session, 0), list };
    let walked = malloc.walk(
        session.process,
        lists,
        |_| BlockTally::default(),
        |share, c| {
            if c.state == State::Used {
                reachability.add(share, c);
            }
        },
    );
    warn_lists(session.process, lists);
    let lost: u64 = walked.iter().map(|(_, _, _, w)| w.lost_bytes).fold(0, u64::saturating_add);
    if lost > 0 {
        session
            .process
            .diag
            .partial(WarningCode::MallocWalk, format!("{} of malloc heaps could not be walked", human(lost)));
    }
    let mut mapped = BlockTally::default();
    for c in malloc.mapped.iter().filter(|c| lists.state_of(c.chunk).is_none()) {
        reachability.add_mapped(&mut mapped, c);
    }
    let fresh = || (BlockTally::default(), BlockTally::default());
    let visit = |(inside, mapped): &mut (BlockTally, BlockTally), slot: &Slot| {
        if slot.state == SlotState::Used {
            reachability.add_slot(if slot.mapped { mapped } else { inside }, slot);
        }
    };
    let mut slots = malloc.musl.walk_many(session.process, fresh, visit);
    let complete = warn_missing(session) & read;
    let mut report = LeaksReport { scanned, complete, ..LeaksReport::default() };
    let mut sizes = BySize::default();
    let mut rows = Vec::new();
    for share in walked.into_iter().map(|(_, _, share, _)| share).inspect(|s| sizes.merge(&s.leaked.sizes)) {
        add(&mut report, &share);
        rows.extend(share.blocks);
    }
    for (inside, own) in &mut slots {
        sizes.merge(&inside.leaked.sizes);
        mapped.leaked.sizes.merge(&own.leaked.sizes);
        for share in [inside, own] {
            add(&mut report, share);
            rows.append(&mut share.blocks);
        }
    }
    report.clusters = clusters(session, &reachability.reader, &sizes, &mapped.leaked.sizes, None);
    for heap in malloc.others(session.process) {
        let mut sizes = BySize::default();
        for (mut inside, _) in heap.walk_many(fresh, visit) {
            sizes.merge(&inside.leaked.sizes);
            add(&mut report, &inside);
            rows.append(&mut inside.blocks);
        }
        report.clusters.extend(clusters(session, &reachability.reader, &sizes, &BySize::default(), Some(heap.name)));
    }
    report.clusters.sort_by_key(|c| (Reverse(c.bytes), Reverse(c.size), c.example));
    add(&mut report, &mapped);
    rows.extend(mapped.blocks);
    rows.truncate(list);
    report.used = report.leaked;
    report.used.merge(report.reachable);
    report.clusters_total = report.clusters.len() as u64;
    report.clusters.truncate(options.limit.unwrap_or(usize::MAX));
    report.blocks = options.blocks.then_some(rows);
    if options.groups && report.leaked.count > 0 {
        add_groups(session, &mut report);
    }
    report
}

/// Adds classes and containers of the clusters, and groups of lost blocks.
fn add_groups(session: &Session<'_>, report: &mut LeaksReport) {
    let groups = with_block_owners(session, |owners| {
        owners.describe(&mut report.clusters, true);
        let mut rows = owners.holders(GROUPS).rows();
        rows.retain(|row| row.lost);
        rows
    });
    report.groups = groups.unwrap_or_default();
}

fn add(report: &mut LeaksReport, share: &BlockTally) {
    report.leaked.merge(share.leaked.states.get(State::Used as usize).copied().unwrap_or_default());
    report.direct.merge(share.direct);
    report.reachable.merge(share.reachable);
}

/// Whether all memory that may contain pointers is in the core. Adds a warning about missing memory.
fn warn_missing(session: &Session<'_>) -> bool {
    let missing = unread(session);
    if missing > 0 {
        let facts = session.process.facts();
        let message = format!(
            "{} of writable memory is not in the core and may contain pointers to blocks listed as unreachable",
            human(missing)
        );
        // The kernel omits what coredump_filter and MADV_DONTDUMP exclude, so that is not a partial result.
        let is_partial = facts.is_shrunk || facts.truncation.is_some();
        session.process.diag.add(Warning { code: WarningCode::LeaksIncomplete, message, is_partial });
    }
    missing == 0
}

/// Whether the process allocates from the C library's malloc. Only its blocks are searched; adds a note about any other
/// allocator.
fn warn_unread(process: &Process, malloc: &Malloc) -> bool {
    let other = malloc.allocators(process).into_iter().next().filter(|a| !a.walked);
    let nothing = malloc.is_empty();
    let text = match (other, nothing) {
        (Some(other), true) => {
            format!("no blocks were checked: this process uses {}, whose blocks are not read", other.name)
        }
        (Some(other), false) => format!(
            "only blocks of the C library's malloc were checked: most blocks come from {}, whose blocks are not read",
            other.name
        ),
        (None, true) => "no blocks were checked: this process has no heap of the C library's malloc".to_owned(),
        (None, false) => return true,
    };
    process.diag.note(WarningCode::LeaksUnread, text);
    false
}
