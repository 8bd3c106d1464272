//! Explains what retains a malloc block that no managed object owns.

use crate::analysis::reach::unread;
use crate::commands::retained::{RetainedOptions, retained};
use crate::commands::why::report::WhyReport;
use crate::map::Confidence;
use crate::report::{BlockOwnerRow, Kept};
use crate::session::Session;
use crate::units::human;

/// Explains the used block at the address.
pub(super) fn explain(session: &Session<'_>, report: &mut WhyReport) {
    let Some(block) = report.whatis.block.clone() else { return };
    let missing = unread(session);
    if missing > 0 {
        report.not_read.push(format!("{} of writable memory that the core lacks", human(missing)));
    }
    let is_all_read = missing == 0 && !session.process.diag.is_partial();
    let inside = if report.address == block.start { "is" } else { "is inside" };
    let what = format!("{} {inside} a used malloc block of {}", report.address, human(block.size));
    let Some(owner) = &block.owner else {
        report.text = format!("{what}. What keeps it is unknown.");
        report.evidence = "malloc's chunk headers; pointers to the blocks could not be followed".to_owned();
        return;
    };
    (report.kept, report.confidence) = judge(owner, is_all_read);
    report.text = format!("{what}: {}.", owner.line());
    report.evidence = "pointers in registers, stacks, variables and other blocks".to_owned();
    if report.kept == Kept::Unreached {
        report.text.push_str(" It is leaked, unless the program stores its address in another form.");
    }
    if report.kept == Kept::Unknown {
        report.text.push_str(" Not everything could be read, so that is no proof of a leak.");
    }
    let options = RetainedOptions { object: Some(block.start), top: 0, ..RetainedOptions::default() };
    let found = retained(session, &options);
    report.dominators = found.dominators;
    report.retained = found.object.filter(|row| row.name.is_some());
    if let Some(bytes) = report.retained.as_ref().and_then(|row| row.retained) {
        report.text.push_str(&format!(" It retains {}.", human(bytes)));
    }
}

fn judge(owner: &BlockOwnerRow, is_all_read: bool) -> (Kept, Option<Confidence>) {
    match (owner.lost, owner.confidence) {
        (true, confidence) if is_all_read => (Kept::Unreached, Some(confidence)),
        (true, _) => (Kept::Unknown, None),
        (false, Confidence::Heuristic) => (Kept::Perhaps, Some(Confidence::Heuristic)),
        (false, confidence) => (Kept::Reached, Some(confidence)),
    }
}
