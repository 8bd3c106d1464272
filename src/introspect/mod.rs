//! Runs all introspectors and resolves their claims to the map. Each introspector claims what it recognises in the
//! process. None knows another.

mod images;

use crate::diag::{Diagnostics, WarningCode};
use crate::map::{AddressMap, Claim, Claims, Confidence, Kind, Owner};
use crate::memory;
use crate::native;
use crate::native::malloc::Malloc;
use crate::native::stacks::Stacks;
use crate::phase::Phase;
use crate::process::Process;

pub(crate) struct Introspection {
    pub(crate) map: AddressMap,
    /// Thread stacks, guesses included.
    pub(crate) stacks: Stacks,
    /// The C library's malloc.
    pub(crate) malloc: Malloc,
}

/// Runs all introspectors and resolves their claims. `stacks` are the stacks found by evidence; `runtimes` adds the
/// claims of runtimes.
pub(crate) fn introspect(process: &Process, stacks: &Stacks, runtimes: impl FnOnce(&mut Claims)) -> Introspection {
    let base = process.base();
    let mut claims = Claims::default();
    let modules = process.enter(Phase::Modules);
    images::claim(process, base, &mut claims);
    drop(modules);
    claim_diag_page(process, &mut claims);
    claim_aliases(process, &mut claims);
    let mut stacks = stacks.clone();
    native::stacks::claim(process, &stacks, false, &mut claims);
    let mut malloc = native::malloc::find(process, base).unwrap_or_else(|e| {
        process.diag.partial(WarningCode::Malloc, e.to_string());
        Malloc::default()
    });
    native::malloc::claim(&malloc.heaps, base, &mut claims);
    native::malloc::claim_musl(&malloc.musl, &mut claims);
    runtimes(&mut claims);
    // Needs the claims so far, because it probes unclaimed memory.
    malloc.find_mapped(process, base, &claims);
    native::malloc::claim_mapped(&malloc.mapped, &mut claims);
    // Guesses come last.
    native::stacks::guess(process, base, &claims, &malloc, &mut stacks);
    native::stacks::claim(process, &stacks, true, &mut claims);
    // After the guesses: a stack that a program allocated from another allocator stays a stack.
    malloc.unread = native::foreign::claim(process, base, &mut claims);
    note_missing_stacks(&stacks, &process.diag);
    if claims.is_full() {
        process.diag.partial(WarningCode::Limit, "too many claims on the memory; some labels are missing");
    }
    Introspection { map: AddressMap::resolve(process.facts(), base.clone(), claims), stacks, malloc }
}

/// Claims createdump's own page. It is a PT_LOAD and so in the base, but not memory of the process.
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

/// Claims second views of shared pages.
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
        diag.partial(
            WarningCode::StackMissing,
            format!("the stack of {threads} was not found (first: thread {tid}: {why})"),
        );
    }
}
