use crate::commands::check::report::CheckReport;
use crate::limits;
use crate::map::audit;
use crate::session::Session;
use crate::units::exact;

/// Check the invariants and list what contradicts.
pub fn check(session: &Session<'_>) -> CheckReport {
    let invariants = audit::invariants(session.map(), session.process.facts());
    for broken in invariants.iter().filter(|i| !i.ok) {
        session.process.diag.partial("invariant", format!("{}: {}", broken.name, broken.detail));
    }
    let (conflicts, left_out) = audit::conflicts(session.map());
    if left_out > 0 {
        let most = limits::MAX_OPEN_CLAIMS;
        session.process.diag.partial(
            "limit",
            format!(
                "more than {most} claims lie over one address: {} of them are not compared, conflicts may be missing",
                exact(left_out as u64)
            ),
        );
    }
    if conflicts.len() >= limits::MAX_CONFLICTS {
        session.process.diag.note("limit", format!("only the first {} conflicts are listed", conflicts.len()));
    }
    if !conflicts.is_empty() {
        let n = conflicts.len();
        let claims = if n == 1 { "1 place has".to_owned() } else { format!("{n} places have") };
        session.process.diag.partial("contradiction", format!("{claims} two sure claims that contradict each other"));
    }
    CheckReport { invariants, conflicts }
}
