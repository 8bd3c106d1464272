//! Requests in flight and busy pools: the activity of the parties that serve them, and the queue behind them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::causes::blocked::{LIKELY_WAITERS, WAITERS, end_text, is_blocked};
use crate::causes::parties::{Party, Scene, names, word};
use crate::causes::wait_graph::{NodeId, WaitGraph};
use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::runtimes::api::{Executor, PartyId, RequestSet};
use crate::sums::SaturatingSum;
use crate::units::{count, exact};

/// Activity of most parties of a group, with their number, and how many are blocked.
struct Doing {
    text: String,
    /// Whether all of them are blocked.
    all_blocked: bool,
    /// Number of blocked parties.
    blocked: usize,
    place: Option<String>,
}

/// Returns the nodes of threads, by thread ID.
fn nodes_of(scene: &Scene, threads: &[u32]) -> Vec<NodeId> {
    threads.iter().filter_map(|tid| scene.node(PartyId::Thread(*tid))).collect()
}

/// Returns the tasks that serve requests.
pub(super) fn tasks_of(scene: &Scene, set: &RequestSet) -> Vec<NodeId> {
    set.tasks.iter().filter_map(|task| scene.node(PartyId::Task(*task))).collect()
}

fn what_they_do(scene: &Scene, graph: &WaitGraph, nodes: &[NodeId]) -> Option<Doing> {
    let mut by_text: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
    for &node in nodes {
        let end = scene.party(graph.root(node)).or_else(|| scene.party(node))?;
        let party = scene.party(node)?;
        let text = match (graph.root(node) == node, &party.wait) {
            (true, _) | (_, None) => end_text(scene, party),
            (false, Some(wait)) => {
                format!("waits for {} in {}; {} {}", scene.noun(wait), party.stack(), end.name, end_text(scene, end))
            }
        };
        by_text.entry(text).or_default().push(node);
    }
    let mut all: Vec<(String, Vec<NodeId>)> = by_text.into_iter().collect();
    all.sort_by_key(|(_, nodes)| Reverse(nodes.len()));
    let blocked = |(_, nodes): &(String, Vec<NodeId>)| {
        nodes.iter().all(|node| scene.party(graph.root(*node)).is_some_and(is_blocked) || graph.is_stuck(*node))
    };
    let all_blocked = all.iter().all(blocked);
    let stuck = all.iter().filter(|group| blocked(group)).map(|(_, nodes)| nodes.len()).sum::<usize>();
    let place = all.first().and_then(|(_, nodes)| scene.party(*nodes.first()?)?.place.clone());
    let text = |(text, nodes): &(String, Vec<NodeId>)| {
        let parties: Vec<&Party> = nodes.iter().filter_map(|node| scene.party(*node)).collect();
        let each = if nodes.len() == 1 { "" } else { "each " };
        let kind = parties.first().map_or("thread", |party| word(party));
        // Tasks have no names of their own.
        let named = match parties.as_slice() {
            [first, more @ ..] if kind == "task" && !more.is_empty() => {
                format!("{} and {} more", first.name, exact(more.len() as u64))
            }
            all => names(all),
        };
        format!("{} ({named}): {each}{text}", count(nodes.len() as u64, kind))
    };
    let text = all.iter().take(DOINGS).map(text).collect::<Vec<_>>().join("; ");
    (!nodes.is_empty()).then_some(Doing { text, all_blocked, blocked: stuck, place })
}

/// Maximum number of activities described for one pool or server.
const DOINGS: usize = 3;

/// Returns the number of tasks in a pool's queue, and the most frequent kinds of them.
pub(super) fn queue_text(pool: &Executor) -> (u64, String) {
    let queued: u64 = pool.queued.iter().map(|(_, count)| *count).saturating_sum();
    let kinds: Vec<String> =
        pool.queued.iter().take(2).map(|(kind, count)| format!("{} {kind}", exact(*count))).collect();
    (queued, kinds.join(", "))
}

/// Reports a pool whose workers are all busy while tasks wait.
pub(super) fn busy_pool(scene: &Scene, graph: &WaitGraph, pool: &Executor) -> Option<Finding> {
    let (queued, kinds) = queue_text(pool);
    let full = !pool.workers.is_empty() && pool.busy.len() >= pool.workers.len() && queued > 0;
    let starved = scene.node(PartyId::Pool(pool.object)).is_some_and(|node| graph.is_stuck(node));
    if !full || starved {
        return None;
    }
    let Doing { text: doing, all_blocked: blocked, place, .. } =
        what_they_do(scene, graph, &nodes_of(scene, &pool.busy))?;
    let text = format!(
        "All {} of {} are busy, {} ({kinds}): {doing}.",
        count(pool.workers.len() as u64, pool.worker()),
        scene.pool_name(pool),
        count(queued, "queued task"),
    );
    let severity = if blocked { Severity::Warning } else { Severity::Info };
    let finding = Finding::new("blocked-holder", severity, text, "the executor's workers and queue");
    Some(finding.known(Confidence::Exact).more("threads --group").fingerprinted(place.unwrap_or_default()))
}

/// Reports requests in flight, where their threads are, and what is queued behind them.
pub(super) fn requests(scene: &Scene, graph: &WaitGraph, set: &RequestSet) -> Option<Finding> {
    if set.count == 0 {
        return None;
    }
    let tasks = tasks_of(scene, set);
    let nodes: Vec<NodeId> = nodes_of(scene, &set.threads).into_iter().chain(tasks.iter().copied()).collect();
    let doing = what_they_do(scene, graph, &nodes)?;
    let pool = scene.executors.iter().find(|pool| pool.busy.iter().any(|tid| set.threads.contains(tid)));
    let behind = pool.map_or_else(String::new, |pool| {
        let (queued, kinds) = queue_text(pool);
        let full = pool.busy.len() >= pool.workers.len();
        match queued {
            0 => String::new(),
            _ if full => format!(
                " All {} are busy and {} behind them ({kinds}): no worker is free.",
                count(pool.workers.len() as u64, pool.worker()),
                count(queued, "queued request")
            ),
            _ => format!(" {} behind them ({kinds}).", count(queued, "queued request")),
        }
    });
    let routes: Vec<String> =
        set.routes.iter().take(ROUTES).map(|(route, n)| format!("{} {route}", exact(*n))).collect();
    let routes = match scene.show_data && !routes.is_empty() {
        true => format!(": {}", routes.join(", ")),
        false => String::new(),
    };
    let text = format!("{} in flight ({}{routes}): {}.{behind}", count(set.count, "request"), set.kind, doing.text);
    let severe = match tasks.as_slice() {
        [] => doing.all_blocked && set.count as usize >= WAITERS,
        // In a busy server, some tasks make progress.
        _ => doing.blocked >= LIKELY_WAITERS && doing.blocked.saturating_mul(2) >= nodes.len(),
    };
    let severity = if severe { Severity::Warning } else { Severity::Info };
    let evidence = match tasks.as_slice() {
        [] => "request objects that are not answered, and their threads",
        _ => "request objects that are not answered, and the async methods that serve them",
    };
    let finding = Finding::new("requests", severity, text, evidence);
    let command = if set.threads.is_empty() { "async" } else { "threads --group" };
    Some(finding.known(Confidence::Derived).more(command).fingerprinted(doing.place.unwrap_or_default()))
}

/// Maximum number of routes named.
const ROUTES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;
    use crate::causes::blocked::findings;
    use crate::causes::parties::{HELD, of_task};
    use crate::runtimes::api::{TaskFact, WaitFact, WaitOwner};

    fn task(address: u64, wait: Option<WaitFact>) -> Party {
        let place = Some("Shop.pay".to_owned());
        of_task(TaskFact {
            address: Addr::new(address),
            name: None,
            place,
            caller: None,
            activity: None,
            wait,
            detail: None,
        })
    }

    fn of_requests(waits: Vec<Option<WaitFact>>) -> Vec<Finding> {
        let parties: Vec<Party> = (1..).zip(waits).map(|(at, wait)| task(at << 4, wait)).collect();
        let tasks: Vec<Addr> = (1..).take(parties.len()).map(|at: u64| Addr::new(at << 4)).collect();
        let routes = vec![("/pay".to_owned(), tasks.len() as u64)];
        let set = RequestSet { kind: "Server".into(), count: tasks.len() as u64, threads: Vec::new(), tasks, routes };
        let scene = Scene::of(parties, Vec::new(), vec![set]);
        findings(&scene, &scene.graph())
    }

    #[test]
    fn requests_that_wait_for_one_of_them_are_one_finding_without_their_routes() {
        // Three wait for a place that the first owns. The first waits for an answer that nobody gives.
        let promise = WaitFact { object: Addr::new(0x1000), r#type: Some("Answer".into()), ..WaitFact::default() };
        let place = WaitFact {
            object: Addr::new(0x2000),
            r#type: Some("Gate".into()),
            owners: vec![WaitOwner { party: PartyId::Task(Addr::new(0x10)), confidence: Confidence::Derived }],
            relation: HELD,
            ..WaitFact::default()
        };
        let all = of_requests(vec![Some(promise), Some(place.clone()), Some(place.clone()), Some(place)]);
        assert_eq!((all.len(), all[0].id, all[0].severity), (1, "requests", Severity::Warning));
        let text = &all[0].text;
        assert!(
            text.starts_with("4 requests in flight (Server): 3 tasks (task 0x20 and 2 more): each waits"),
            "{text}"
        );
        assert!(text.contains("task 0x10 waits for the Answer at 0x1000 in Shop.pay (nothing found"), "{text}");
    }

    #[test]
    fn requests_of_a_busy_server_are_no_warning() {
        let soon = WaitFact { what: Some("a timer of 20 ms".into()), soon: true, ..WaitFact::default() };
        let late = WaitFact { soon: false, ..soon.clone() };
        let severities = |waits| of_requests(waits).iter().map(|f| (f.id, f.severity)).collect::<Vec<_>>();
        assert_eq!(severities(vec![Some(soon.clone()), Some(soon.clone()), None]), [("requests", Severity::Info)]);
        // First two of many are blocked, then three of five.
        let mut waits = vec![Some(soon); 3];
        waits.extend(vec![Some(late.clone()); 2]);
        assert_eq!(severities(waits.clone())[0], ("requests", Severity::Info));
        waits.splice(..1, [Some(late)]);
        assert_eq!(severities(waits), [("requests", Severity::Warning)]);
    }
}
