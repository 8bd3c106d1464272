use std::collections::HashMap;

use crate::addr::Addr;
use crate::commands::requests::report::{RequestRow, RequestsReport, RouteRow, ServerRow};
use crate::commands::threads::{self, ThreadOptions};
use crate::phase::Phase;
use crate::report::{Name, ThreadRow};
use crate::runtimes::api::{RequestSet, TaskFact, WaitFact, WaitFacts};
use crate::session::Session;

/// Lists the requests of all runtimes. `show_data`: with routes and peers, which are data of the program.
pub fn requests(session: &Session<'_>, show_data: bool) -> RequestsReport {
    let mut report = RequestsReport::default();
    if session.runtimes().is_empty() {
        return report;
    }
    let threads = threads::threads(session, ThreadOptions::default()).threads;
    let _phase = session.process.enter(Phase::Tasks);
    for runtime in session.runtimes() {
        let Some(facts) = runtime.wait_facts() else {
            report.unread.push(runtime.label());
            continue;
        };
        let sets = facts.requests(&threads);
        let tasks: HashMap<Addr, TaskFact> = match sets.iter().any(|set| !set.tasks.is_empty()) {
            true => facts.tasks().into_iter().map(|task| (task.address, task)).collect(),
            false => HashMap::new(),
        };
        let name = Name::from(runtime.row().name);
        for set in sets {
            report.withheld |= !show_data && !set.routes.is_empty();
            add(&mut report, &name, set, (&threads, &tasks), (facts, show_data));
        }
    }
    report
}

fn add(
    report: &mut RequestsReport,
    runtime: &Name,
    set: RequestSet,
    (threads, tasks): (&[ThreadRow], &HashMap<Addr, TaskFact>),
    (facts, show_data): (&dyn WaitFacts, bool),
) {
    let known = |tid: &u32| threads.iter().find(|thread| thread.tid == *tid);
    let of_threads = set.threads.iter().map(|tid| {
        known(tid)
            .map_or_else(|| RequestRow { tid: Some(*tid), ..RequestRow::default() }, |thread| of_thread(thread, facts))
    });
    let of_tasks = set.tasks.iter().map(|task| {
        tasks
            .get(task)
            .map_or_else(|| RequestRow { task: Some(*task), ..RequestRow::default() }, |fact| of_task(fact, show_data))
    });
    let rows: Vec<RequestRow> =
        of_threads.chain(of_tasks).map(|row| RequestRow { kind: set.kind.clone(), ..row }).collect();
    let routes = set.routes.into_iter().filter(|_| show_data).map(|(route, count)| RouteRow { route, count });
    report.servers.push(ServerRow {
        runtime: runtime.clone(),
        kind: set.kind,
        count: set.count,
        found: rows.len() as u64,
        routes: routes.collect(),
    });
    report.requests.extend(rows);
}

fn of_thread(thread: &ThreadRow, facts: &dyn WaitFacts) -> RequestRow {
    let mut own = thread.frames.iter().filter(|frame| frame.own).filter_map(|frame| frame.method.as_ref());
    let wait = thread.waits_for.as_ref();
    let object = |kind: &str| wait.map(|wait| format!("{} ({kind})", wait.r#type.as_deref().unwrap_or("type unknown")));
    RequestRow {
        tid: Some(thread.tid),
        method: own.next().map(ToString::to_string),
        caller: own.next().map(ToString::to_string),
        waits_for: wait.and_then(|wait| object(wait.kind.name())).or_else(|| {
            facts.activity(thread).map(|activity| activity.words().trim_start_matches("is in ").to_owned())
        }),
        object: wait.map(|wait| wait.object),
        ..RequestRow::default()
    }
}

fn of_task(fact: &TaskFact, show_data: bool) -> RequestRow {
    RequestRow {
        task: Some(fact.address),
        method: fact.place.clone(),
        caller: fact.caller.clone(),
        waits_for: fact.wait.as_ref().map(|wait| wait_text(wait, show_data)),
        object: fact.wait.as_ref().map(|wait| wait.object).filter(|object| !object.is_null()),
        ..RequestRow::default()
    }
}

/// What a task waits for, in words. The peer is data of the program.
fn wait_text(wait: &WaitFact, show_data: bool) -> String {
    let what =
        wait.what.clone().or_else(|| wait.r#type.clone()).unwrap_or_else(|| format!("the object at {}", wait.object));
    match wait.peer.as_ref().filter(|_| show_data) {
        Some(peer) => format!("{what}, from {peer}"),
        None => what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_shown_only_with_data() {
        let wait = WaitFact {
            what: Some("the answer to a call".to_owned()),
            peer: Some("db.shop:80".to_owned()),
            ..WaitFact::default()
        };
        assert_eq!(wait_text(&wait, false), "the answer to a call");
        assert_eq!(wait_text(&wait, true), "the answer to a call, from db.shop:80");
        let lock = WaitFact { r#type: Some("SemaphoreSlim".to_owned()), ..WaitFact::default() };
        assert_eq!(wait_text(&lock, false), "SemaphoreSlim");
    }
}
