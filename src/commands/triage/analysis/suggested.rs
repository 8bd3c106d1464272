//! Checks suggested commands: `refs` is suggested only if it would find a pointer.

use std::cmp::Reverse;
use std::collections::HashSet;

use crate::addr::Addr;
use crate::commands::refs::pointed_at;
use crate::commands::triage::analysis::budget::Budget;
use crate::progress::Progress;
use crate::report::Finding;
use crate::session::Session;

/// Bytes of memory searched for pointers per second. At most half of the rate measured (docs/performance.md).
const SEARCHED: u64 = 1 << 30;

/// Maximum number of addresses checked in the single pass. Findings with the most bytes come first.
const MAX_CHECKED: usize = 16;

/// Replaces `refs ADDRESS` by `whatis ADDRESS` if nothing points there, or if there is no time to check.
pub(super) fn check(session: &Session<'_>, findings: &mut [Finding], budget: &mut Budget, progress: &Progress) {
    let mut asked: Vec<(u64, Addr)> =
        findings.iter().filter_map(|f| Some((f.bytes.unwrap_or(0), refs_of(f)?))).collect();
    if asked.is_empty() {
        return;
    }
    asked.sort_by_key(|(bytes, addr)| (Reverse(*bytes), *addr));
    let addrs: Vec<Addr> = asked.iter().map(|(_, addr)| *addr).take(MAX_CHECKED).collect();
    let in_core = session.process.space().dumped_total();
    let found = if budget.allows("pointers to examples", in_core, SEARCHED) {
        pointed_at(session, &addrs, progress)
    } else {
        HashSet::new()
    };
    for finding in findings {
        if let Some(addr) = refs_of(finding).filter(|addr| !found.contains(addr)) {
            finding.command = Some(format!("whatis {addr}"));
        }
    }
}

/// Returns the address for which a finding suggests `refs`.
fn refs_of(finding: &Finding) -> Option<Addr> {
    let digits = finding.command.as_deref()?.strip_prefix("refs 0x")?;
    u64::from_str_radix(digits, 16).ok().map(Addr::new)
}
