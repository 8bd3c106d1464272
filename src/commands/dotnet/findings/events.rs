//! The finding about open sessions of EventPipe, whose buffers are memory of the process until somebody reads them.

use crate::commands::dotnet::clr_gcs;
use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::runtimes::api::EventSession;
use crate::session::Session;
use crate::units::{count, round};

/// Bytes of buffers that make the finding a warning if nobody reads them.
const LARGE: u64 = 8 << 20;

/// Maximum number of threads named.
const MAX_NAMED: usize = 5;

/// Reports sessions with buffers that nobody has read.
pub(in crate::commands) fn events(session: &Session<'_>) -> Option<Finding> {
    let sessions: Vec<&EventSession> = clr_gcs(session).flat_map(|(_, runtime, _)| runtime.event_sessions()).collect();
    let sum = |of: fn(&EventSession) -> u64| sessions.iter().map(|s| of(s)).fold(0, u64::saturating_add);
    let bytes = sum(|s| s.buffers.iter().map(|(_, range)| range.len()).fold(0, u64::saturating_add));
    if sessions.is_empty() || bytes == 0 {
        return None;
    }
    let waiting = sum(|s| s.waiting);
    let mut threads: Vec<u32> = sessions.iter().flat_map(|s| s.threads.iter().copied()).collect();
    threads.sort_unstable();
    threads.dedup();
    let named: Vec<String> = threads.iter().take(MAX_NAMED).map(u32::to_string).collect();
    let text = format!(
        "Diagnostics events: {} in {} of {} of EventPipe (limit {}), written by {}{}.{}",
        round(bytes),
        count(sum(|s| s.buffers.len() as u64), "buffer"),
        count(sessions.len() as u64, "open session"),
        round(sum(|s| s.limit)),
        count(sum(|s| s.writers), "thread"),
        match (named.is_empty(), threads.len() > MAX_NAMED) {
            (true, _) => String::new(),
            (false, false) => format!(" ({})", named.join(", ")),
            (false, true) => format!(" ({} and others)", named.join(", ")),
        },
        match waiting {
            0 => String::new(),
            n => format!(
                " {} {} full and unread: whatever opened the session (dotnet-trace, dotnet-monitor, a profiler, \
                 DOTNET_EnableEventPipe) does not read it, or not fast enough. The memory is freed when the session is \
                 read or closed.",
                count(n, "buffer"),
                if n == 1 { "is" } else { "are" }
            ),
        }
    );
    let severity = if waiting > 0 && bytes >= LARGE { Severity::Warning } else { Severity::Info };
    let evidence = "the sessions' buffer managers, and their lists of buffers";
    let finding = Finding::new("event-buffers", severity, text, evidence).about(bytes).known(Confidence::Exact);
    Some(finding.more("regions --kind EventPipeBuffer").within("runtime"))
}
