//! Who claims memory, and the map that follows: each introspector looks at the
//! process and says what it knows; none knows of another.

use crate::addr::Addr;
use crate::diag::Diagnostics;
use crate::dotnet::{self, Detection, Heaps, Runtime};
use crate::map::{AddressMap, Base, Claim, Claims, Confidence, Kind, Owner, Region};
use crate::memory;
use crate::native::malloc::Malloc;
use crate::native::stacks::Stacks;
use crate::phase::Phase;
use crate::process::Process;
use crate::{image, native};

/// All that was found out about a process.
pub struct Findings {
    /// The resolved map.
    pub map: AddressMap,
    /// Stacks of threads.
    pub stacks: Stacks,
    /// glibc's malloc.
    pub malloc: Malloc,
    /// .NET runtimes and their heaps.
    pub runtimes: Vec<(Runtime, Heaps)>,
}

impl Findings {
    /// The stack pointer of the thread whose stack `region` is, where it lies in it.
    pub fn sp_in(&self, region: &Region) -> Option<Addr> {
        let Owner::Thread(tid) = region.owner else { return None };
        let mut used = self.stacks.used_by(tid).filter(|_| region.kind == Kind::Stack).filter_map(|s| s.sp);
        used.find(|sp| region.range.contains(*sp))
    }

    /// Whether `addr`, in `region`, lies below a stack pointer: nobody uses it any more.
    pub fn is_left_over(&self, region: &Region, addr: Addr) -> bool {
        self.sp_in(region).is_some_and(|sp| addr < sp)
    }
}

/// Only which runtimes there are, for questions that need no map: it is the
/// plain one of mappings here.
pub fn identify(process: &Process) -> Findings {
    let runtimes = dotnet::detect(process).into_iter().filter_map(|detection| match detection {
        Detection::NotMine => None,
        Detection::Unusable(why) => {
            process.diag.partial("dotnet-unusable", why);
            None
        }
        Detection::Found(runtime) => Some((*runtime, Heaps::default())),
    });
    Findings {
        runtimes: runtimes.collect(),
        map: AddressMap::resolve(process.facts(), Claims::default()),
        stacks: Stacks::default(),
        malloc: Malloc::default(),
    }
}

/// Run all introspectors and resolve what they claim.
pub fn introspect(process: &Process) -> Findings {
    let base = Base::of(process.facts());
    let mut claims = Claims::default();
    let modules = process.enter(Phase::Modules);
    image::claims::claim(process, &base, &mut claims);
    drop(modules);
    claim_diag_page(process, &mut claims);
    claim_aliases(process, &mut claims);
    let mut stacks = native::stacks::find(process, &base);
    native::stacks::claim(process, &stacks, false, &mut claims);
    let mut malloc = native::malloc::find(process, &base).unwrap_or_else(|e| {
        process.diag.partial("malloc", e.to_string());
        Malloc::default()
    });
    native::malloc::claim(&malloc.heaps, &base, &mut claims);
    let runtimes = dotnet(process, &base, &mut claims);
    // Late, as it looks at what nobody else knows.
    malloc.find_mapped(process, &base, &claims);
    native::malloc::claim_mapped(&malloc.mapped, &mut claims);
    // And last what is no more than a guess.
    native::stacks::guess(process, &base, &claims, &malloc, &mut stacks);
    native::stacks::claim(process, &stacks, true, &mut claims);
    note_missing_stacks(&stacks, &process.diag);
    if claims.is_full() {
        process.diag.partial("limit", "more claims on the memory than are taken; labels are incomplete");
    }
    let map = AddressMap::resolve(process.facts(), claims);
    Findings { map, stacks, malloc, runtimes }
}

/// Every .NET runtime that can be read, with what it claims.
fn dotnet(process: &Process, base: &Base, claims: &mut Claims) -> Vec<(Runtime, Heaps)> {
    let mut out = Vec::new();
    for detection in dotnet::detect(process) {
        match detection {
            Detection::NotMine => {}
            Detection::Unusable(why) => process.diag.partial("dotnet-unusable", why),
            Detection::Found(runtime) => {
                let heaps = dotnet::claim(process, base, &runtime, claims);
                out.push((*runtime, heaps));
            }
        }
    }
    out
}

/// createdump's own page: in the base, as it is a PT_LOAD, but no process's memory.
fn claim_diag_page(process: &Process, claims: &mut Claims) {
    if let Some(page) = process.facts().diag_page {
        claims.add(Claim {
            range: page.range,
            kind: Kind::AnonRO,
            confidence: Confidence::Exact,
            owner: Owner::None,
            detail: "createdump's diagnostic page, not the process's memory".into(),
            evidence: format!("signature DIAGINFOHEADER, version {}", page.version).into(),
        });
    }
}

/// Second views of shared pages.
fn claim_aliases(process: &Process, claims: &mut Claims) {
    let _phase = process.enter(Phase::Aliases);
    for alias in memory::alias::find(process.target()) {
        claims.add(Claim {
            range: alias.range,
            kind: Kind::DoubleMapped,
            confidence: if alias.compared { Confidence::Derived } else { Confidence::Heuristic },
            owner: Owner::None,
            detail: format!("second view of {}, {}", alias.first, alias.path).into(),
            evidence: alias.evidence().into(),
        });
    }
}

fn note_missing_stacks(stacks: &Stacks, diag: &Diagnostics) {
    if let Some(first) = stacks.without.first() {
        let (count, tid, why) = (stacks.without.len(), first.tid, &first.why);
        let threads = if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") };
        diag.partial("stack-missing", format!("{threads} without a stack (first: thread {tid}: {why})"));
    }
}
