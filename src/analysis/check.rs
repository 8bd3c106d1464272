use crate::introspect::Findings;
use crate::limits;
use crate::map::audit;
use crate::process::Process;
use crate::report::CheckReport;
use crate::units::exact;

/// Check the invariants and list what contradicts.
pub fn check(process: &Process, found: &Findings) -> CheckReport {
    let invariants = audit::invariants(&found.map, process.facts());
    for broken in invariants.iter().filter(|i| !i.ok) {
        process.diag.partial("invariant", format!("{}: {}", broken.name, broken.detail));
    }
    let (conflicts, left_out) = audit::conflicts(&found.map);
    if left_out > 0 {
        let most = limits::MAX_OPEN_CLAIMS;
        process.diag.partial(
            "limit",
            format!(
                "more than {most} claims lie over one address: {} of them are not compared, conflicts may be missing",
                exact(left_out as u64)
            ),
        );
    }
    if conflicts.len() >= limits::MAX_CONFLICTS {
        process.diag.note("limit", format!("only the first {} conflicts are listed", conflicts.len()));
    }
    if !conflicts.is_empty() {
        let n = conflicts.len();
        let claims = if n == 1 { "1 place has".to_owned() } else { format!("{n} places have") };
        process.diag.partial("contradiction", format!("{claims} two sure claims that contradict each other"));
    }
    CheckReport { invariants, conflicts }
}
