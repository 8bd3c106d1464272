//! What is read to tell which bytes of a scrubbed core stay.

use std::collections::BTreeMap;

use crate::commands::{self, Purpose, ThreadOptions};
use crate::core::producer::DIAG_PAGE_SIZE;
use crate::managed::ManagedRuntime as _;
use crate::memory::Memory;
use crate::progress::Progress;
use crate::scrub::{Fill, Level, Plan};
use crate::session::Session;

/// Commands whose answers a scrubbed core gives as the whole one does, those first that the others' reads are in.
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
    Purpose::Objects,
];

/// Run the commands that a scrubbed core must answer, so that what they read as structure is what stays.
///
/// The process must have been opened with [`Options::record_bytes`](crate::process::Options::record_bytes): without it nothing is known to be structure,
/// and all goes.
pub fn scrub_plan<'p>(session: &Session<'p>, fill: Fill, level: Level, progress: &Progress) -> Plan<'p> {
    ANSWERED.iter().for_each(|purpose| purpose.read(session, &[], progress));
    session.blocks();
    if let Some(page) = session.process.facts().diag_page {
        session.process.memory.keep(page.range.start, DIAG_PAGE_SIZE);
    }
    session.block_labels();
    // Names of symbols, whoever asks for one.
    session.symbols().read_all();
    // Flags of the VM.
    session.hotspot().iter().for_each(|vm| drop(vm.findings(&BTreeMap::new())));
    let threads = commands::threads(session, ThreadOptions::default());
    let names = threads.threads.into_iter().flat_map(|thread| [thread.name, thread.managed_name]).flatten().collect();
    Plan::new(session, &names, fill, level)
}
