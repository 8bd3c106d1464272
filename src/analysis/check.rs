use crate::introspect::Findings;
use crate::map::audit;
use crate::process::Process;
use crate::report::CheckReport;

/// Check the invariants and list what contradicts.
pub fn check(process: &Process, found: &Findings) -> CheckReport {
    let invariants = audit::invariants(&found.map, &process.core);
    for broken in invariants.iter().filter(|i| !i.ok) {
        process.diag.partial("invariant", format!("{}: {}", broken.name, broken.detail));
    }
    CheckReport { invariants, conflicts: audit::conflicts(&found.map) }
}
