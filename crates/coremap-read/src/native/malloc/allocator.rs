//! Which allocators a process has, by its libraries and by the heaps found.

use crate::image::Module;
use crate::map::Owner;
use crate::native::libc;
use crate::native::malloc::Malloc;
use crate::native::stack_records::Libc;
use crate::process::Process;
use crate::units::count;
use crate::words::AllocatorName;

/// An allocator of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// The allocator's name.
    pub name: AllocatorName,
    /// Path of the module that contains it. Empty if unknown.
    pub module: String,
    /// How the allocator was recognised.
    pub evidence: String,
    /// Whether coremap walks its heaps.
    pub walked: bool,
}

/// Prefixes of library names, each with the allocator in that library.
const LIBRARIES: &[(&str, AllocatorName)] = &[
    ("libjemalloc", AllocatorName::Jemalloc),
    ("libtcmalloc", AllocatorName::Tcmalloc),
    ("libmimalloc", AllocatorName::Mimalloc),
    ("libsnmalloc", AllocatorName::Snmalloc),
    ("libscudo", AllocatorName::Scudo),
    ("librpmalloc", AllocatorName::Rpmalloc),
    ("libhoard", AllocatorName::Hoard),
    ("libtbbmalloc", AllocatorName::Tbbmalloc),
    ("libasan", AllocatorName::AddressSanitizer),
];

/// Lists the allocators of the process, the most likely source of blocks first.
pub(super) fn find(process: &Process, malloc: &Malloc) -> Vec<Allocator> {
    let mut out: Vec<Allocator> = Vec::new();
    for module in &process.modules {
        let musl = || libc::which(process, module).filter(|(libc, _)| *libc == Libc::Musl);
        let by_name = named(module).map(|(name, by)| (name, format!("a module named {by}")));
        let found = by_name.or_else(|| musl().map(|(_, how)| (AllocatorName::Musl, how.to_owned())));
        if let Some((name, evidence)) = found.filter(|(name, _)| !out.iter().any(|a| a.name == *name)) {
            out.push(Allocator { name, module: module.path.to_string(), evidence, walked: false });
        }
    }
    if !malloc.musl.is_empty() {
        let (context, groups) = (malloc.musl.context.start, count(malloc.musl.groups.len() as u64, "group"));
        let evidence = format!("mallocng's context at {context}; {groups} and their metas point to each other");
        let module = malloc.musl.module.and_then(|i| process.modules.get(i));
        let module = module.map(|m| m.path.to_string()).unwrap_or_default();
        out.retain(|a| a.name != AllocatorName::Musl);
        out.push(Allocator { name: AllocatorName::Musl, module, evidence, walked: true });
    }
    for heap in malloc.others(process) {
        let module = match heap.owner {
            Owner::Module(i) => process.modules.get(i as usize).map(|m| m.path.to_string()),
            _ => None,
        };
        let row = Allocator {
            name: heap.name,
            module: module.unwrap_or_default(),
            evidence: heap.evidence.clone(),
            walked: true,
        };
        // A process may have several copies of an allocator.
        match out.iter_mut().find(|a| a.name == heap.name && !a.walked) {
            Some(known) => *known = row,
            None => out.insert(0, row),
        }
    }
    let arenas = malloc.arenas.iter().filter(|a| a.bins.is_some()).count();
    let further = malloc.more_modules.len();
    if let Some(module) = malloc.module.and_then(|i| process.modules.get(i)) {
        let linked = !is_libc(module);
        out.push(Allocator {
            name: AllocatorName::Glibc,
            module: module.path.to_string(),
            evidence: format!(
                "main_arena{} found by the shape of its bins; {}",
                if linked { ", linked into the program," } else { "" },
                count(arenas.saturating_sub(further) as u64, "arena")
            ),
            walked: true,
        });
        for module in malloc.more_modules.iter().filter_map(|i| process.modules.get(*i)) {
            out.push(Allocator {
                name: AllocatorName::Glibc,
                module: module.path.to_string(),
                evidence: format!(
                    "a further copy of the C library at {}, with a main_arena of its own, found by the shape of its \
                     bins",
                    module.range.start
                ),
                walked: true,
            });
        }
    } else if !malloc.heaps.is_empty() {
        out.push(Allocator {
            name: AllocatorName::Glibc,
            module: String::new(),
            evidence: "heaps of glibc's form, without a main_arena".into(),
            walked: true,
        });
    }
    out
}

fn is_libc(module: &Module) -> bool {
    module.name().starts_with("libc")
}

fn named(module: &Module) -> Option<(AllocatorName, &'static str)> {
    LIBRARIES.iter().find(|(prefix, _)| module.name().starts_with(prefix)).map(|(prefix, name)| (*name, *prefix))
}
