//! Parties that others wait for: blocked holders, and the activities of other threads.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::causes::parties::{HELD, JOINED, LENT, Party, Scene, groups, names, threads_of, word};
use crate::causes::requests::{busy_pool, requests, tasks_of};
use crate::causes::running::{cpu, running};
use crate::causes::unowned::without_owner;
use crate::causes::wait_graph::{NodeId, WaitGraph};
use crate::causes::{alike, finalizers};
use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::runtimes::api::{Activity, PartyId, WaitFact, WaitNeeds};
use crate::units::count;

/// Maximum number of findings of one kind.
pub(super) const MOST: usize = 4;

/// Minimum number of waiters behind a blocked party for a warning.
pub(super) const WAITERS: usize = 2;

/// Minimum number of waiters for a warning if the holder is only likely.
pub(super) const LIKELY_WAITERS: usize = 3;

pub(super) fn findings(scene: &Scene, graph: &WaitGraph) -> Vec<Finding> {
    let finalizer = finalizers::stuck(scene, graph);
    // Collect the parties that have a finding already, such as tasks of requests and the finalizer.
    let (mut out, mut reported) = (Vec::new(), BTreeSet::new());
    for set in &scene.requests {
        let finding = requests(scene, graph, set);
        if finding.as_ref().is_some_and(|finding| finding.severity > Severity::Info) {
            reported.extend(tasks_of(scene, set));
        }
        out.extend(finding);
    }
    let (alike, same) = alike::findings(scene);
    out.extend(alike);
    reported.extend(same);
    reported.extend(finalizer.as_ref().map(|(node, _)| *node));
    out.extend(finalizer.map(|(_, finding)| finding));
    let served: BTreeSet<u32> = scene.requests.iter().flat_map(|set| set.threads.iter().copied()).collect();
    let pools = scene.executors.iter().filter(|pool| !pool.busy.iter().any(|tid| served.contains(tid)));
    out.extend(pools.filter_map(|pool| busy_pool(scene, graph, pool)).take(MOST));
    out.extend(holders(scene, graph, &reported));
    out.extend(without_owner(scene, &reported));
    out.extend(running(scene));
    out
}

/// Returns findings on waits that end at one party, grouped by that party.
fn holders(scene: &Scene, graph: &WaitGraph, reported: &BTreeSet<NodeId>) -> Vec<Finding> {
    let mut by_root: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    for (node, party) in (0..).zip(&scene.parties) {
        let counts = !graph.targets(node).is_empty() && !graph.is_stuck(node) && !is_only_joined(party);
        if counts && graph.root(node) != node {
            by_root.entry(graph.root(node)).or_default().push(node);
        }
    }
    let is_task = |node: &NodeId| scene.party(*node).is_some_and(|party| !matches!(party.id, PartyId::Thread(_)));
    by_root.retain(|root, waiters| {
        let all = waiters.iter().all(|node| reported.contains(node));
        !(all && (!is_task(root) || reported.contains(root)))
    });
    let mut roots: Vec<(NodeId, Vec<NodeId>)> = by_root.into_iter().collect();
    roots.sort_by_key(|(root, waiters)| (Reverse(waiters.len()), *root));
    roots.iter().take(MOST).filter_map(|(root, waiters)| holder(scene, graph, *root, waiters)).collect()
}

/// Whether a thread only waits for another one to end, which explains nothing.
fn is_only_joined(party: &Party) -> bool {
    party.wait.as_ref().is_some_and(|wait| wait.relation == JOINED) || party.main && !is_lock(party)
}

fn is_lock(party: &Party) -> bool {
    party.wait.as_ref().is_some_and(|wait| wait.relation == HELD)
}

/// Returns a party's name as the first word of a sentence. A name that the program gave stays unchanged.
fn at_the_beginning(name: &str) -> String {
    match name.strip_prefix("thread ").filter(|id| id.bytes().all(|b| b.is_ascii_digit())) {
        Some(id) => format!("Thread {id}"),
        None => name.to_owned(),
    }
}

/// Returns the activity of a party at the end of a chain, or what it waits for.
pub(super) fn end_text(scene: &Scene, party: &Party) -> String {
    let nobody = if waits_for_nobody(party) { " (nothing found that would end the wait)" } else { "" };
    format!("{}{nobody}", wait_text(scene, party))
}

/// Like [`end_text`], without a remark on a wait that nothing is known to end.
fn wait_text(scene: &Scene, party: &Party) -> String {
    match (&party.wait, &party.place) {
        (Some(wait), Some(_)) if party.activity.is_none() => {
            format!("waits for {} in {}", scene.noun(wait), party.stack())
        }
        (Some(wait), None) if party.activity.is_none() => format!("waits for {}", scene.noun(wait)),
        _ => party.doing(),
    }
}

/// Whether a party waits, and nothing was found that would end its wait.
fn waits_for_nobody(party: &Party) -> bool {
    party.activity.is_none() && party.wait.as_ref().is_some_and(|wait| !wait.outside && !wait.soon)
}

/// Whether a party needs something else to make progress.
pub(super) fn is_blocked(party: &Party) -> bool {
    let waits = party.wait.as_ref().is_some_and(|wait| !wait.soon);
    party.activity.is_some_and(Activity::is_outside) || waits && party.activity.is_none()
}

/// Names the other holders, if one of them is enough, as for the places of a semaphore.
fn others_that_hold(scene: &Scene, waits: &WaitFact, party: &Party) -> String {
    if waits.needs != WaitNeeds::Any {
        return String::new();
    }
    let owners = waits.owners.iter().filter(|owner| owner.party != party.id);
    let others: Vec<&Party> = owners.filter_map(|owner| scene.party(scene.node(owner.party)?)).collect();
    let alike = others.iter().all(|other| other.activity == party.activity && other.place == party.place);
    match others.len() {
        0 => String::new(),
        n => format!(
            ", {} ({}){}",
            if n == 1 {
                format!("as does another {}", word(party))
            } else {
                format!("as do {n} other {}s", word(party))
            },
            names(&others),
            match (alike, n) {
                (false, _) => "",
                (true, 1) => ", which does the same",
                (true, _) => ", which do the same",
            }
        ),
    }
}

fn holder(scene: &Scene, graph: &WaitGraph, root: NodeId, waiters: &[NodeId]) -> Option<Finding> {
    let party = scene.party(root)?;
    let direct: Vec<NodeId> = waiters.iter().copied().filter(|node| graph.targets(*node).contains(&root)).collect();
    let waits = direct.iter().find_map(|node| scene.party(*node)?.wait.as_ref())?;
    let owner = waits.owners.iter().find(|owner| owner.party == party.id);
    let confidence = owner.map_or(Confidence::Derived, |owner| owner.confidence);
    let likely = if confidence == Confidence::Exact { "" } else { "likely " };
    let noun = scene.noun(waits);
    let relation = match waits.relation {
        HELD => format!("{likely}holds {noun}"),
        LENT => match &waits.lent {
            Some(thing) => format!("{likely}has a {thing} of {noun}"),
            None => format!("{likely}has borrowed from {noun}"),
        },
        "" => format!("{likely}has to end the wait for {noun}"),
        relation => format!("has {noun} {likely}{relation}"),
    };
    let verb = if waiters.len() == 1 { "waits" } else { "wait" };
    let runs = party.activity == Some(Activity::Runs);
    let time = if runs { cpu(&[party]) } else { String::new() };
    let time = if time.is_empty() { time } else { format!("{time},") };
    let others = others_that_hold(scene, waits, party);
    let groups = groups(scene, waiters);
    let direct = format!("{verb} for {noun}");
    let who = match groups.as_slice() {
        // There is one group, and the sentence names already what it waits for.
        [only] if only.contains(&direct) => only.replacen(&direct, &format!("{verb} for it"), 1),
        groups => {
            let word = waiters.first().and_then(|node| scene.party(*node)).map_or("thread", word);
            format!("{} {verb} for it: {}", count(waiters.len() as u64, word), groups.join("; "))
        }
    };
    let name = party.full_name();
    let nobody = match waits_for_nobody(party) {
        true => format!(" Nothing was found that would end the wait of {name}."),
        false => String::new(),
    };
    let text = format!(
        "{} {}{time} and {relation}{others}; {who}.{nobody}",
        at_the_beginning(&name),
        wait_text(scene, party),
    );
    let least = if confidence == Confidence::Exact { WAITERS } else { LIKELY_WAITERS };
    let severe = is_blocked(party) && waiters.len() >= least;
    let severity = if severe { Severity::Warning } else { Severity::Info };
    let id = if waiters.len() < WAITERS { "lock-waiters" } else { "blocked-holder" };
    let finding = Finding::new(id, severity, text, waits.evidence);
    let command = match party.id {
        PartyId::Thread(tid) => threads_of(tid),
        PartyId::Task(_) | PartyId::Pool(_) => "threads".to_owned(),
    };
    Some(finding.known(confidence).more(command).fingerprinted(party.place.clone().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;
    use crate::runtimes::api::WaitOwner;

    fn party(tid: u32, place: Option<&str>, owner: Option<u32>, activity: Option<Activity>) -> Party {
        let wait = owner.map(|owner| WaitFact {
            object: Addr::new(0x10),
            r#type: Some("Gate".into()),
            owners: vec![WaitOwner { party: PartyId::Thread(owner), confidence: Confidence::Exact }],
            relation: HELD,
            ..WaitFact::default()
        });
        let place = place.map(str::to_owned);
        Party { place, activity, wait, ..Party::new(PartyId::Thread(tid), format!("t-{tid}")) }
    }

    fn of(parties: Vec<Party>) -> Vec<Finding> {
        let scene = Scene::of(parties, Vec::new(), Vec::new());
        findings(&scene, &scene.graph())
    }

    #[test]
    fn a_sentence_begins_with_the_party_that_waits_for_nobody() {
        // 3 waits for 2, which waits for 1, which reads from a socket.
        let all = of(vec![
            party(1, Some("Feed.next"), None, Some(Activity::SocketRead)),
            party(2, Some("Book.load"), Some(1), None),
            party(3, Some("Book.show"), Some(2), None),
        ]);
        assert_eq!((all.len(), all[0].severity, all[0].id), (1, Severity::Warning, "blocked-holder"));
        let text = &all[0].text;
        assert!(text.starts_with("t-1 (1) is in a socket read (recv) in Feed.next and holds the Gate"), "{text}");
        assert!(text.contains("2 threads wait for it"), "{text}");
    }

    #[test]
    fn a_lock_that_fork_left_held_is_a_warning_even_for_the_only_thread() {
        let mut only = party(1, Some("Feed.next"), Some(9), None);
        (only.name, only.main) = ("child".into(), true);
        if let Some(wait) = &mut only.wait {
            (wait.owners, wait.owner_ended, wait.owner_inherited) = (Vec::new(), true, true);
        }
        let all = of(vec![only]);
        assert_eq!((all.len(), all[0].severity, all[0].id), (1, Severity::Warning, "lock-owner-ended"));
        assert!(all[0].text.contains("parent process"), "{}", all[0].text);
    }

    #[test]
    fn who_has_a_thing_that_is_lent_is_likely_and_one_of_several() {
        let mut waits = party(3, Some("Pool.take"), Some(1), None);
        if let Some(wait) = &mut waits.wait {
            let owner = |tid| WaitOwner { party: PartyId::Thread(tid), confidence: Confidence::Derived };
            (wait.owners, wait.needs) = (vec![owner(1), owner(2)], WaitNeeds::Any);
            (wait.relation, wait.lent) = (LENT, Some("Boat".into()));
        }
        let reads = |tid| party(tid, Some("Boat.row"), None, Some(Activity::SocketRead));
        let more = [4, 5].map(|tid| Party { id: PartyId::Thread(tid), name: format!("t-{tid}"), ..waits.clone() });
        let all = of([reads(1), reads(2), waits].into_iter().chain(more).collect());
        assert_eq!((all.len(), all[0].severity), (1, Severity::Warning));
        assert!(
            all[0].text.starts_with(
                "t-1 (1) is in a socket read (recv) in Boat.row and likely has a Boat of the Gate at 0x10, as does another \
                 thread (t-2), which does the same; 3 threads wait for it"
            ),
            "{}",
            all[0].text
        );
    }

    #[test]
    fn places_that_nobody_has_are_likely_lost() {
        let waits = |tid| {
            let mut waits = party(tid, Some("Oven.bake"), Some(9), None);
            if let Some(wait) = &mut waits.wait {
                (wait.owners, wait.places) = (Vec::new(), Some(3));
            }
            waits
        };
        let all = of((1..=3).map(waits).collect());
        assert_eq!((all.len(), all[0].severity), (1, Severity::Warning));
        assert!(all[0].text.contains("all its 3 places are taken, and no owner of one was found"), "{}", all[0].text);
        assert_eq!(of((1..=2).map(waits).collect())[0].severity, Severity::Info);
    }

    #[test]
    fn others_of_the_method_are_named_by_the_caller_that_they_share() {
        let waits = |tid| {
            let mut waits = party(tid, Some("Pool.take"), Some(9), None);
            waits.caller = Some("Desk.book".into());
            if let Some(wait) = &mut waits.wait {
                (wait.owners, wait.relation) = (Vec::new(), "");
            }
            waits
        };
        let busy =
            Party { caller: Some("Desk.book".into()), ..party(7, Some("Line.query"), None, Some(Activity::Sleep)) };
        let other = party(8, Some("Line.query"), None, Some(Activity::Sleep));
        let text = of(vec![waits(1), waits(2), busy, other]).remove(0).text;
        assert!(
            text.ends_with("Meanwhile 1 other thread of Desk.book (t-7): sleeps in Line.query ← Desk.book."),
            "{text}"
        );
    }

    #[test]
    fn who_runs_with_a_lock_says_what_it_calls_and_for_how_long() {
        let mut runs = party(1, Some("Rules.check"), None, Some(Activity::Runs));
        (runs.callee, runs.cpu_ms) = (Some("re.Pattern.match".into()), Some(1500));
        let all = of(vec![runs, party(2, Some("main"), Some(1), None), party(3, Some("main"), Some(1), None)]);
        let text = &all[0].text;
        assert!(
            text.starts_with(
                "t-1 (1) runs in re.Pattern.match, called by Rules.check, after 1.5 s of processor time, and holds the Gate"
            ),
            "{text}"
        );
        assert_eq!(all[0].severity, Severity::Info);
    }

    #[test]
    fn who_runs_with_a_lock_and_idle_workers_raise_no_warning() {
        let all = of(vec![
            party(1, Some("Feed.next"), None, Some(Activity::Runs)),
            party(2, Some("Book.load"), Some(1), None),
            party(3, Some("Book.load"), Some(1), None),
        ]);
        assert!(all.iter().all(|f| f.severity == Severity::Info), "{all:?}");
        let mut idle = party(1, None, Some(9), None);
        if let Some(wait) = &mut idle.wait {
            (wait.relation, wait.owners) = ("", Vec::new());
        }
        assert!(of(vec![idle.clone(), Party { id: PartyId::Thread(2), ..idle }]).is_empty());
    }
}
