//! Commands that a smaller core can be made for. They are run to record which pages they read.

use std::collections::HashMap;

use regex::Regex;

use crate::addr::Addr;
use crate::commands::{self, HandleOptions, HeapStatOptions, MallocOptions, RetainedOptions, ThreadOptions};
use crate::progress::Progress;
use crate::session::Session;
use crate::words::words;

words! {
    /// Commands that a smaller core can be made for.
    #[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
    pub enum Purpose {
        /// Process, system and modules
        Info = "info",
        /// summary without --zero-fill
        Summary = "summary",
        /// The memory map: regions and maddress
        Regions = "regions",
        /// stacks without --zero-fill and without the Activity column (for that column, add threads)
        Stacks = "stacks",
        /// Segments of the managed heap
        Heap = "heap",
        /// Checks of the memory map
        Check = "check",
        /// Names of code addresses: ip2method, symbolicate and perfmap
        Ip2method = "ip2method",
        /// Frames of all threads
        Threads = "threads",
        /// threads --virtual; includes the whole heap of a Java VM
        VirtualThreads = "virtual-threads",
        /// Async methods and tasks
        Async = "async",
        /// The object at each --address
        Object = "object",
        /// heapstat, objects, object, gcroot, retained and holders; includes the whole managed heap
        Objects = "objects",
        /// malloc; includes all chunk headers and the allocator's own data
        Malloc = "malloc",
        /// GC handles
        Handles = "handles",
        /// Objects with finalizers
        Finalizers = "finalizers",
        /// Contended locks
        Syncblocks = "syncblocks",
        /// Exception objects
        Exceptions = "exceptions",
        /// All of the above. (`coremap dump --for all` omits managed heaps over 256 MiB; --for all,objects keeps
        /// them.)
        All = "all",
    }
}

impl Purpose {
    /// Purposes for which a full core needs the program's files to answer as the process does, for their unwind tables
    /// and headers.
    pub const STRUCTURES: [Purpose; 5] =
        [Purpose::Info, Purpose::Summary, Purpose::Stacks, Purpose::Heap, Purpose::Threads];

    /// All purposes except `all`.
    pub fn each() -> impl Iterator<Item = Purpose> {
        Purpose::ALL.iter().copied().filter(|&purpose| purpose != Purpose::All)
    }

    /// Whether it retains the whole managed heap.
    pub fn keeps_objects(self) -> bool {
        matches!(self, Purpose::Objects | Purpose::VirtualThreads | Purpose::Async | Purpose::Exceptions)
    }

    /// Whether it retains nearly all malloc blocks.
    pub fn keeps_blocks(self) -> bool {
        self == Purpose::Malloc
    }

    /// Runs the commands themselves, so that exactly the pages they read are retained.
    pub fn read(self, session: &Session<'_>, ips: &[Addr], progress: &Progress) {
        match self {
            Purpose::Info => drop(commands::info(session, false)),
            Purpose::Summary => drop(commands::summary(session, false, progress)),
            Purpose::Regions => {
                drop(commands::regions(session, &commands::RegionOptions::default(), &Progress::silent()))
            }
            Purpose::Stacks => drop(commands::stacks(session, &HashMap::new(), false, progress)),
            Purpose::Heap => drop(commands::heap(session, true)),
            Purpose::Ip2method => {
                drop(commands::ip2method(session, ips));
                if ips.is_empty() {
                    drop(commands::perfmap(session));
                }
            }
            Purpose::Threads => {
                drop(commands::threads(session, ThreadOptions::default()));
                commands::dotnet::read_stack_roots(session);
            }
            Purpose::VirtualThreads => {
                let options = ThreadOptions { virtual_threads: true, ..ThreadOptions::default() };
                drop(commands::threads(session, options));
            }
            Purpose::Async => drop(commands::async_chains(session, true, progress)),
            Purpose::Object => {
                for &at in ips {
                    drop(commands::object(session, at));
                }
            }
            Purpose::Objects => {
                let options = HeapStatOptions { strings: true, ..HeapStatOptions::default() };
                drop(commands::heapstat(session, &options, progress));
                drop(commands::retained(session, &RetainedOptions::default()));
                // The paths to all types contain all names.
                if let Ok(all) = Regex::new("") {
                    drop(commands::gcroot_types(session, &all, usize::MAX));
                }
                drop(commands::holders(session, None, progress));
            }
            Purpose::Check => drop(commands::check(session)),
            Purpose::Malloc => {
                for chunks in [false, true] {
                    drop(commands::malloc(
                        session,
                        &MallocOptions { chunks, limit: None, ..MallocOptions::default() },
                        progress,
                    ));
                }
            }
            Purpose::Handles => drop(commands::handles(session, &HandleOptions::default())),
            Purpose::Finalizers => drop(commands::finalizers(session)),
            Purpose::Syncblocks => drop(commands::syncblocks(session)),
            Purpose::Exceptions => drop(commands::exceptions(session)),
            Purpose::All => Purpose::each().for_each(|purpose| purpose.read(session, ips, progress)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Subject, named};

    #[test]
    fn purposes_are_commands_of_cores() {
        for purpose in Purpose::each() {
            // `virtual-threads` is an option of a command, not a command.
            let name = if purpose == Purpose::VirtualThreads { "threads" } else { purpose.name() };
            let command = named(name);
            assert!(command.is_some_and(|c| matches!(c.subject, Subject::Process | Subject::Runtime)), "{name}");
        }
    }
}
