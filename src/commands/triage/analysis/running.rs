//! What threads do: deadlocks, and many that stand in the same place.

use crate::analysis::crash;
use crate::commands::threads::{self, ThreadOptions};
use crate::commands::triage::analysis::budget::Budget;
use crate::commands::triage::analysis::{Found, counted};
use crate::report::{Finding, FrameRow, Severity};
use crate::session::Session;

/// Bytes a stack stands for in the guess of time, and bytes a second: some thousands of threads a second.
const STACK: u64 = 1;
const FOLLOWED: u64 = 2000;

/// From how many threads in one place on that is told.
const MANY: usize = 16;

/// Groups that are told, and frames of each.
const GROUPS: usize = 2;
const FRAMES: usize = 3;

/// What threads do.
pub(super) fn threads(session: &Session<'_>, budget: &mut Budget, found: &mut Found) {
    found.findings.extend(crashed(session));
    let count = session.process.threads().len() as u64;
    if !budget.allows("stacks of threads", count.saturating_mul(STACK), FOLLOWED) {
        return;
    }
    let report = threads::threads(session, ThreadOptions { group: true, ..ThreadOptions::default() });
    found.findings.extend(report.findings);
    let groups = report.groups.unwrap_or_default();
    for group in groups.iter().filter(|g| g.count >= MANY).take(GROUPS) {
        let text = format!(
            "{} are in the same place: {}.",
            counted(group.count as u64, "thread", "threads"),
            place(&group.frames)
        );
        let finding = Finding::new("same-stack", Severity::Info, text, "equal stacks");
        found.findings.push(finding.more("threads --group"));
    }
}

/// The innermost frames that have a name.
fn place(frames: &[FrameRow]) -> String {
    let named: Vec<String> = frames.iter().filter(|f| f.method.is_some()).take(FRAMES).map(FrameRow::shown).collect();
    if named.is_empty() { "no frame has a name".to_owned() } else { named.join(" ← ") }
}

fn crashed(session: &Session<'_>) -> Option<Finding> {
    let crash = crash::crash(session.process);
    let signal = crash.signal?;
    let thread = crash.tid.map_or_else(String::new, |tid| format!(" in thread {tid}"));
    let text = format!("The process was ended by {}{thread}.", crash::name(signal.number));
    let more = crash.tid.map_or_else(|| "info".to_owned(), |tid| format!("threads --tid {tid}"));
    Some(Finding::new("crash", Severity::Warning, text, "the signal in the core's notes").more(more))
}
