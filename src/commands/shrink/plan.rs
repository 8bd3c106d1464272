//! Runs what a scrubbed core must still answer, to determine which bytes stay.

use rayon::prelude::*;

use crate::addr::Addr;
use crate::analysis::block_graph::read_classes;
use crate::commands::{self, Purpose, ThreadOptions};
use crate::core::producer::DIAG_PAGE_SIZE;
use crate::memory::Memory;
use crate::progress::Progress;
use crate::runtimes::api::{Heap, HeapRange, KindBytes, TypeIndex, UnwalkedRanges};
use crate::scrub::{Fill, Level, Plan};
use crate::session::Session;
use crate::sums::SaturatingAdd;

/// Commands that a scrubbed core answers as the whole core does. Commands whose reads include those of others come
/// first.
const ANSWERED: [Purpose; 11] = [
    Purpose::Regions,
    Purpose::Stacks,
    Purpose::Heap,
    Purpose::Handles,
    Purpose::Finalizers,
    Purpose::Syncblocks,
    Purpose::Threads,
    Purpose::VirtualThreads,
    Purpose::Async,
    Purpose::Ip2method,
    Purpose::Exceptions,
];

/// Maximum offset at which fields of an instance are named, in bytes. No class is as large.
const MAX_FIELD_OFFSET: u64 = 64 << 10;

/// Maximum number of objects per type whose references are read.
const ASKED: u64 = 4096;

/// Fields begin at multiples of this number of bytes.
const FIELD: usize = 4;

/// Reads what heaps know about their types: names, all field names, static variables and the layout of references. Also
/// reads the roots. All objects are walked once, because only the walk finds which types exist.
fn read_types(session: &Session<'_>) {
    for (id, runtime) in session.runtimes_by_id() {
        let Some(heap) = runtime.heap() else { continue };
        let seen = read_objects(heap).into_iter().zip(0..).filter(|(seen, _)| seen.count > 0);
        for (seen, kind) in seen.map(|(seen, number)| (seen, TypeIndex(number))) {
            drop((heap.type_name(kind), heap.type_module(kind)));
            let elements = heap.type_info(kind).and_then(|info| info.elements);
            let size = elements.map_or(seen.largest, |elements| elements.start).min(MAX_FIELD_OFFSET);
            let element = elements.map_or(0, |elements| elements.size.min(MAX_FIELD_OFFSET));
            (0..size).step_by(FIELD).for_each(|at| drop(heap.field_name(kind, at)));
            (0..element).step_by(FIELD).for_each(|at| drop(heap.element_field_name(kind, at)));
        }
        drop((session.roots(id), heap.statics()));
    }
}

/// Summary of the objects of one type.
#[derive(Clone, Copy, Default)]
struct Seen {
    count: u64,
    /// Whether the objects represent types.
    of_types: bool,
    /// Size of the largest object in bytes.
    largest: u64,
}

/// Reads the references of the first objects of each type, since the others have the same layout. Objects that
/// represent types are all read, because their types determine what they refer to. The same applies to class loaders,
/// of which there are few.
///
/// The result is indexed by type number.
fn read_objects(heap: &dyn Heap) -> Vec<Seen> {
    let of_part = |mut all: Vec<Seen>, part: &HeapRange| {
        let mut reader = heap.reader();
        heap.walker().walk(part, &mut UnwalkedRanges::default(), &mut |object| {
            let i = object.kind.0 as usize;
            if i >= all.len() {
                all.resize(i + 1, Seen::default());
            }
            let Some(seen) = all.get_mut(i) else { return };
            if seen.count == 0 {
                seen.of_types = heap.type_info(object.kind).is_some_and(|info| info.represents_types);
            }
            seen.largest = seen.largest.max(object.size);
            seen.count += 1;
            if seen.count <= ASKED || seen.of_types {
                reader.each(object.addr.since(Addr::NULL), |_, _| true);
            }
        });
        all
    };
    let shares = heap.ranges().par_iter().fold(Vec::new, of_part);
    shares.reduce(Vec::new, |mut all, some| {
        all.resize(all.len().max(some.len()), Seen::default());
        for (sum, seen) in all.iter_mut().zip(some) {
            sum.largest = sum.largest.max(seen.largest);
            sum.count.add_saturating(seen.count);
        }
        all
    })
}

/// Runs the commands that a scrubbed core must answer. What they read as structures stays.
///
/// The process must have been opened with [`Options::record_bytes`](crate::process::Options::record_bytes). Without it
/// no byte counts as a structure, and everything is overwritten.
pub fn scrub_plan<'s>(session: &'s Session<'_>, fill: Fill, level: Level, progress: &Progress) -> Plan<'s> {
    ANSWERED.iter().for_each(|purpose| purpose.read(session, &[], progress));
    read_types(session);
    session.blocks();
    if let Some(page) = session.process.facts().diag_page {
        session.process.memory.keep(page.range.start, DIAG_PAGE_SIZE);
    }
    session.block_labels();
    read_classes(session);
    // All symbol names, because any of them may be needed later.
    session.symbols().read_all();
    // The runtime's flags, such as those of the Java VM.
    let findings = session.runtimes().into_iter().filter_map(|runtime| runtime.findings());
    findings.filter(|findings| !findings.walks()).for_each(|findings| drop(findings.find(&KindBytes::default(), None)));
    let threads = commands::threads(session, ThreadOptions::default());
    let names = threads.threads.into_iter().flat_map(|thread| [thread.name, thread.managed_name]).flatten().collect();
    Plan::new(session, &names, fill, level)
}
