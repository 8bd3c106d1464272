use crate::analysis::resident::by_kind;
use crate::commands::check::report::CheckReport;
use crate::diag::WarningCode;
use crate::limits;
use crate::map::audit::{self, Invariant};
use crate::resident::divide::GroupFigures;
use crate::session::Session;
use crate::targets::Residence;
use crate::targets::residence::Figure;
use crate::units::exact;

/// Checks the invariants and lists conflicting claims.
pub fn check(session: &Session<'_>) -> CheckReport {
    let mut invariants = audit::invariants(session.map(), session.process.facts());
    invariants.extend(session.process.residence().map(|residence| resident(session, residence)));
    for broken in invariants.iter().filter(|i| !i.ok) {
        session.process.diag.partial(WarningCode::Invariant, format!("{}: {}", broken.name, broken.detail));
    }
    let (conflicts, left_out) = audit::conflicts(session.map());
    if left_out > 0 {
        let most = limits::MAX_OPEN_CLAIMS;
        session.process.diag.partial(
            WarningCode::Limit,
            format!(
                "more than {most} claims cover one address: {} of them are not compared, so conflicts may be missing",
                exact(left_out as u64)
            ),
        );
    }
    if conflicts.len() >= limits::MAX_CONFLICTS {
        session
            .process
            .diag
            .note(WarningCode::Limit, format!("only the first {} conflicts are listed", conflicts.len()));
    }
    if !conflicts.is_empty() {
        let n = conflicts.len();
        let claims = if n == 1 { "1 range has".to_owned() } else { format!("{n} ranges have") };
        session
            .process
            .diag
            .partial(WarningCode::Contradiction, format!("{claims} two exact claims that contradict each other"));
    }
    CheckReport { invariants, conflicts }
}

/// Checks that all resident bytes belong to a kind, or to a mapping that the core does not list.
fn resident(session: &Session<'_>, residence: &Residence) -> Invariant {
    let divided = by_kind(session, residence, None);
    let rss = |share: &GroupFigures| share.figures.get(Figure::Rss);
    let (kinds, rest, all) = (rss(&divided.total()), rss(&divided.rest), residence.total().get(Figure::Rss));
    Invariant {
        name: "resident",
        ok: kinds.saturating_add(rest) == all,
        detail: format!(
            "RSS in bytes: kinds {}, mappings not in the core {}, smaps {}",
            exact(kinds),
            exact(rest),
            exact(all)
        ),
    }
}
