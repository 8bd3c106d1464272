//! Parties that can never make progress: deadlocks and starved pools.

use std::collections::BTreeMap;

use crate::causes::parties::{JOINED, Party, Scene, groups, names, word};
use crate::causes::requests::queue_text;
use crate::causes::wait_graph::{NodeId, WaitGraph};
use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::runtimes::api::Executor;
use crate::units::count;

/// Maximum number of members of a cycle that are described.
const MEMBERS: usize = 8;

/// Maximum number of cycles reported.
const CYCLES: usize = 16;

/// Returns one finding per cycle, with the parties that wait behind it.
pub(super) fn findings(scene: &Scene, graph: &WaitGraph) -> Vec<Finding> {
    let mut behind: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for node in 0..scene.parties.len() as NodeId {
        if graph.is_stuck(node)
            && graph.cycle(node).is_none()
            && let Some(cycle) = graph.cycle(graph.root(node))
        {
            behind.entry(cycle).or_default().push(node);
        }
    }
    let none = Vec::new();
    let of_cycle = |(number, cycle): (u32, &Vec<NodeId>)| {
        let behind = behind.get(&number).unwrap_or(&none);
        match cycle.iter().find_map(|node| scene.pool(*node)) {
            Some(pool) => starved(scene, graph, cycle, pool, behind),
            None => deadlock(scene, graph, cycle, behind),
        }
    };
    (0..).zip(&graph.cycles).take(CYCLES).map(of_cycle).collect()
}

/// Returns the noun for these parties.
fn noun(scene: &Scene, nodes: &[NodeId]) -> &'static str {
    let is_task = |node: &NodeId| scene.party(*node).is_some_and(|party| word(party) != "thread");
    let first = nodes.first().and_then(|node| scene.party(*node)).map_or("thread", word);
    if nodes.iter().all(is_task) { first } else { "thread" }
}

/// Returns a sentence on the parties that wait behind a cycle.
fn behind_text(scene: &Scene, behind: &[NodeId]) -> String {
    if behind.is_empty() {
        return String::new();
    }
    let whom = count(behind.len() as u64, &format!("more {}", noun(scene, behind)));
    let verb = if behind.len() == 1 { "waits" } else { "wait" };
    format!(" {whom} {verb} behind: {}.", groups(scene, behind).join("; "))
}

/// Describes a member of a cycle: its name, where it waits, for what, and who owns that.
fn member(scene: &Scene, graph: &WaitGraph, node: NodeId) -> Option<String> {
    let party = scene.party(node)?;
    let wait = party.wait.as_ref()?;
    let place = party.place.as_deref().map_or_else(String::new, |place| format!(" in {place}"));
    let inside = |to: &&NodeId| graph.cycle(**to).is_some() && graph.cycle(**to) == graph.cycle(node);
    let owner = graph.targets(node).iter().find(inside).and_then(|to| scene.party(*to));
    let owner = owner.map_or("another thread", |owner| owner.name.as_str());
    let noun = scene.noun(wait);
    let who = party.full_name();
    Some(match wait.relation {
        JOINED => format!("{who}{place} waits for {owner} to end"),
        relation => {
            let likely = if graph.is_exact(node) { "" } else { "likely " };
            format!("{who}{place} waits for {noun}, {likely}{relation} by {owner}")
        }
    })
}

fn evidence(scene: &Scene, cycle: &[NodeId]) -> String {
    let mut all: Vec<&str> =
        cycle.iter().filter_map(|node| Some(scene.party(*node)?.wait.as_ref()?.evidence)).collect();
    all.sort_unstable();
    all.dedup();
    all.join("; ")
}

fn deadlock(scene: &Scene, graph: &WaitGraph, cycle: &[NodeId], behind: &[NodeId]) -> Finding {
    let exact = cycle.iter().all(|node| graph.is_exact(*node));
    let members: Vec<String> =
        in_order(graph, cycle).into_iter().take(MEMBERS).filter_map(|node| member(scene, graph, node)).collect();
    let more = match cycle.len().saturating_sub(MEMBERS) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let what = if is_initialisation(scene, cycle) { " of class initialisation" } else { "" };
    let (title, severity, confidence) = match exact {
        true => ("Deadlock", Severity::Critical, Confidence::Exact),
        false => ("Likely deadlock", Severity::Warning, Confidence::Derived),
    };
    let who = match cycle.len() {
        1 => format!("a {} waits for itself", noun(scene, cycle)),
        n => format!("{} wait for each other", count(n as u64, noun(scene, cycle))),
    };
    let text = format!("{title}{what}: {who}: {}{more}.{}", members.join("; "), behind_text(scene, behind));
    let missing =
        if exact { "" } else { "; not proven: some owners were inferred from frames or from states of async methods" };
    let tids = tids(scene, cycle);
    let finding = Finding::new("deadlock", severity, text, format!("{}{missing}", evidence(scene, cycle)));
    finding.known(confidence).more(format!("threads{tids}")).fingerprinted(print(scene, cycle))
}

/// Returns the plural for tasks of a type: `FutureTask tasks`, but not `task tasks`.
fn tasks(kind: String) -> String {
    match kind.strip_suffix("tasks") {
        Some(_) => kind,
        None if kind == "task" => "tasks".to_owned(),
        None => format!("{kind} tasks"),
    }
}

/// Whether all waits in a cycle are for class initialisation.
fn is_initialisation(scene: &Scene, cycle: &[NodeId]) -> bool {
    cycle.iter().all(|node| {
        let wait = scene.party(*node).and_then(|party| party.wait.as_ref());
        wait.is_some_and(|wait| wait.relation == INITIALISED)
    })
}

/// The relation between a class and the thread that initialises it.
pub(crate) const INITIALISED: &str = "being initialised";

/// Orders the members of a cycle, each before the one that it waits for.
fn in_order(graph: &WaitGraph, cycle: &[NodeId]) -> Vec<NodeId> {
    let mut out: Vec<NodeId> = Vec::new();
    let mut at = cycle.first().copied();
    while let Some(node) = at.filter(|node| !out.contains(node)).filter(|_| out.len() <= MEMBERS) {
        out.push(node);
        let inside = |to: &&NodeId| cycle.binary_search(to).is_ok();
        at = graph.targets(node).iter().find(inside).copied();
    }
    out
}

fn tids(scene: &Scene, cycle: &[NodeId]) -> String {
    // The command shows one thread of the cycle.
    let tid = cycle.iter().find_map(|node| match scene.party(*node)?.id {
        crate::runtimes::api::PartyId::Thread(tid) => Some(tid),
        _ => None,
    });
    tid.map_or_else(String::new, |tid| if cycle.len() == 1 { format!(" --tid {tid}") } else { String::new() })
}

/// Returns an identity of the cycle without addresses: the places of its members.
fn print(scene: &Scene, cycle: &[NodeId]) -> String {
    let mut places: Vec<&str> = cycle.iter().filter_map(|node| scene.party(*node)?.place.as_deref()).collect();
    places.sort_unstable();
    places.dedup();
    places.join("+")
}

fn starved(scene: &Scene, graph: &WaitGraph, cycle: &[NodeId], pool: &Executor, behind: &[NodeId]) -> Finding {
    let members: Vec<&Party> = cycle.iter().filter_map(|node| scene.party(*node)).collect();
    let exact = cycle.iter().all(|node| graph.is_exact(*node));
    let (queued, kinds) = queue_text(pool);
    let waits = members.iter().find_map(|party| party.wait.as_ref());
    let place = members.iter().find_map(|party| party.place.as_deref()).unwrap_or("unnamed code");
    let title = if exact { "Starved pool" } else { "Likely starved pool" };
    let text = format!(
        "{title}: all {} of {} ({}) wait in {place} for {} queued in the same pool, behind {} ({kinds}): no worker is left to \
         run them.{}",
        count(members.len() as u64, "worker"),
        scene.pool_name(pool),
        names(&members),
        waits.and_then(|wait| wait.r#type.clone()).map_or_else(|| "tasks".to_owned(), tasks),
        count(queued, "queued task"),
        behind_text(scene, behind)
    );
    let confidence = if exact { Confidence::Exact } else { Confidence::Derived };
    let finding = Finding::new("starved-pool", Severity::Warning, text, evidence(scene, cycle));
    finding.known(confidence).more("threads --group").fingerprinted(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;
    use crate::runtimes::api::{PartyId, WaitFact, WaitOwner};

    fn party(tid: u32, name: &str, owners: &[(PartyId, Confidence)]) -> Party {
        let owners: Vec<WaitOwner> =
            owners.iter().map(|&(party, confidence)| WaitOwner { party, confidence }).collect();
        let wait = WaitFact {
            object: Addr::new(0x100 * u64::from(tid)),
            r#type: Some("Lock".into()),
            owners,
            relation: crate::causes::parties::HELD,
            evidence: "its owner",
            ..WaitFact::default()
        };
        Party { place: Some("Desk.swap".into()), wait: Some(wait), ..Party::new(PartyId::Thread(tid), name.into()) }
    }

    #[test]
    fn a_deadlock_names_its_members_and_those_behind_and_is_likely_without_exact_edges() {
        let of = |confidence| {
            let to = |tid| [(PartyId::Thread(tid), confidence)];
            let parties = vec![party(1, "a", &to(2)), party(2, "b", &to(1)), party(3, "c", &to(1))];
            let scene = Scene::of(parties, Vec::new(), Vec::new());
            let mut all = findings(&scene, &scene.graph());
            assert_eq!(all.len(), 1);
            all.remove(0)
        };
        let exact = of(Confidence::Exact);
        assert!(exact.text.contains("wait for each other: a (1) in Desk.swap waits for the Lock at"));
        assert!(exact.text.contains("held by b") && exact.text.contains("1 more thread waits behind"), "{exact:?}");
        let likely = of(Confidence::Derived);
        assert!(likely.text.starts_with("Likely deadlock") && likely.evidence.contains("not proven"), "{likely:?}");
    }

    #[test]
    fn a_pool_whose_workers_wait_for_its_queue_is_starved() {
        let pool = Addr::new(0x5000);
        let to = [(PartyId::Pool(pool), Confidence::Exact)];
        let executor = Executor {
            object: pool,
            kind: "Pool".into(),
            workers: vec![1, 2],
            busy: vec![1, 2],
            queued: vec![("Task".into(), 12)],
        };
        let parties = vec![party(1, "w-1", &to), party(2, "w-2", &to)];
        let scene = Scene::of(parties.clone(), vec![executor.clone()], Vec::new());
        let all = findings(&scene, &scene.graph());
        assert_eq!((all.len(), all[0].id), (1, "starved-pool"));
        assert!(all[0].text.contains("all 2 workers") && all[0].text.contains("12 Task"), "{}", all[0].text);
        // A third worker is free.
        let mut parties = parties;
        parties.push(Party { wait: None, ..party(3, "w-3", &[]) });
        let scene = Scene::of(parties, vec![Executor { workers: vec![1, 2, 3], ..executor }], Vec::new());
        assert!(findings(&scene, &scene.graph()).is_empty());
    }
}
