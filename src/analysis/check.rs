use crate::introspect::Findings;
use crate::limits;
use crate::map::audit;
use crate::process::Process;
use crate::report::CheckReport;

/// Check the invariants and list what contradicts.
pub fn check(process: &Process, found: &Findings) -> CheckReport {
    let invariants = audit::invariants(&found.map, &process.core);
    for broken in invariants.iter().filter(|i| !i.ok) {
        process.diag.partial("invariant", format!("{}: {}", broken.name, broken.detail));
    }
    let conflicts = audit::conflicts(&found.map);
    if conflicts.len() >= limits::MAX_CONFLICTS {
        process.diag.note("limit", format!("only the first {} conflicts are listed", conflicts.len()));
    }
    CheckReport { invariants, conflicts }
}
