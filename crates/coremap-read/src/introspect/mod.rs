//! Runs all introspectors and resolves their claims to the map. Each introspector claims what it recognises in the
//! process. None knows another.

mod images;

use crate::addr::AddrRange;
use crate::diag::{Diagnostics, WarningCode};
use crate::map::{AddressMap, Claim, Claims, Confidence, Kind, Owner};
use crate::memory;
use crate::memory::alias::{Alias, AliasProof};
use crate::native;
use crate::native::malloc::Malloc;
use crate::native::stacks::Stacks;
use crate::phase::Phase;
use crate::process::Process;
use crate::targets::SecondView;
use crate::targets::threads::tid_text;

pub(crate) struct Introspection {
    pub(crate) map: AddressMap,
    /// Thread stacks, guesses included.
    pub(crate) stacks: Stacks,
    /// The C library's malloc.
    pub(crate) malloc: Malloc,
    /// Shared memory that may be a second view of other shared memory. By address, disjoint.
    pub(crate) undecided_views: Vec<AddrRange>,
    /// Second views of shared memory. By address.
    pub(crate) second_views: Vec<SecondView>,
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
    let (second_views, undecided_views) = claim_aliases(process, &mut claims);
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
    let map = AddressMap::resolve(process.facts(), base.clone(), claims);
    Introspection { map, stacks, malloc, undecided_views, second_views }
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

/// Claims second views of shared pages. Returns them, and the ranges that may be second views.
fn claim_aliases(process: &Process, claims: &mut Claims) -> (Vec<SecondView>, Vec<AddrRange>) {
    let _phase = process.enter(Phase::Aliases);
    let views = memory::alias::find(process.target());
    let view = |alias: &Alias| SecondView {
        range: alias.range,
        first: alias.first,
        compared: alias.proof >= AliasProof::Bytes,
    };
    let mut seconds: Vec<SecondView> = views.aliases.iter().map(view).collect();
    seconds.sort_unstable_by_key(|view| (view.range, view.first));
    for alias in views.aliases {
        claims.add(Claim {
            range: alias.range,
            kind: Kind::DoubleMapped,
            confidence: match alias.proof {
                AliasProof::Inode => Confidence::Exact,
                AliasProof::Bytes => Confidence::Derived,
                AliasProof::Access => Confidence::Heuristic,
            },
            owner: Owner::None,
            detail: format!("second view of {}, {}", alias.first, alias.path).into(),
            evidence: alias.evidence().into(),
        });
    }
    (seconds, views.undecided)
}

/// Maximum number of threads named in a warning.
const MAX_NAMED: usize = 16;

fn note_missing_stacks(stacks: &Stacks, diag: &Diagnostics) {
    if let Some(first) = stacks.without.first() {
        let (count, tid, why) = (stacks.without.len(), first.tid, &first.why);
        let threads = if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") };
        diag.partial(
            WarningCode::StackMissing,
            format!("the stack of {threads} was not found (first: thread {}: {why})", tid_text(tid)),
        );
    }
    if !stacks.astray.is_empty() {
        let named: Vec<String> = stacks.astray.iter().take(MAX_NAMED).map(|&tid| tid_text(tid)).collect();
        let more = stacks.astray.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        diag.partial(
            WarningCode::RegistersAstray,
            format!(
                "the stack pointer is in no stack for threads {}{more}: the core has wrong registers for them, so their \
                 frames and the used part of their stacks are unknown",
                named.join(", ")
            ),
        );
    }
}
