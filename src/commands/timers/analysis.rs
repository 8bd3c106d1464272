use std::cmp::Reverse;
use std::collections::HashMap;

use crate::commands::timers::report::{TimerGroupRow, TimersReport};
use crate::phase::Phase;
use crate::report::TimerRow;
use crate::session::Session;

/// Lists the active timers of all runtimes.
pub fn timers(session: &Session<'_>) -> TimersReport {
    let mut report = TimersReport::default();
    let _phase = session.process.enter(Phase::Tasks);
    for runtime in session.runtimes() {
        match runtime.timers() {
            Some(timers) => report.timers.extend(timers),
            None => report.unread.push(runtime.label()),
        }
    }
    report.groups = groups(&report.timers);
    report
}

fn groups(timers: &[TimerRow]) -> Vec<TimerGroupRow> {
    type Key<'t> = (Option<u64>, Option<u64>, [Option<&'t str>; 4]);
    let mut known: HashMap<Key<'_>, usize> = HashMap::new();
    let mut out: Vec<TimerGroupRow> = Vec::new();
    for timer in timers {
        let words = [&timer.callback, &timer.state_type, &timer.awaited_by, &timer.held_by].map(|word| word.as_deref());
        let at = *known.entry((timer.due_ms, timer.period_ms, words)).or_insert_with(|| {
            out.push(TimerGroupRow {
                count: 0,
                due_ms: timer.due_ms,
                period_ms: timer.period_ms,
                callback: timer.callback.clone(),
                state_type: timer.state_type.clone(),
                awaited_by: timer.awaited_by.clone(),
                held_by: timer.held_by.clone(),
                example: timer.address,
            });
            out.len() - 1
        });
        if let Some(group) = out.get_mut(at) {
            group.count = group.count.saturating_add(1);
        }
    }
    out.sort_by_key(|group| (Reverse(group.count), group.due_ms, group.example));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;

    #[test]
    fn timers_are_merged_unless_somebody_else_waits_for_them() {
        let timer = |address, due, waits: Option<&str>| TimerRow {
            address: Addr::new(address),
            due_ms: Some(due),
            awaited_by: waits.map(str::to_owned),
            ..TimerRow::default()
        };
        let timers = [timer(1, 5, None), timer(2, 5, Some("A.b")), timer(3, 5, Some("A.b")), timer(4, 6, Some("A.b"))];
        let groups: Vec<_> = groups(&timers).into_iter().map(|g| (g.count, g.due_ms, g.example.get())).collect();
        assert_eq!(groups, [(2, Some(5), 2), (1, Some(5), 1), (1, Some(6), 4)]);
    }
}
