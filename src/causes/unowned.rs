//! Groups that wait for an object without a known owner, and the parties that may own it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::causes::blocked::{LIKELY_WAITERS, MOST, end_text};
use crate::causes::frames::is_nameless;
use crate::causes::native::CONDITION;
use crate::causes::parties::{HELD, JOINED, Party, Scene, groups, names, word};
use crate::causes::wait_graph::NodeId;
use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::runtimes::api::{Activity, WaitFact};
use crate::units::count;

/// Minimum number of threads that wait for one object without an owner, for a finding.
const GROUP: usize = 2;

/// Returns findings on groups of threads that wait for an object without a known owner.
pub(super) fn without_owner(scene: &Scene, reported: &BTreeSet<NodeId>) -> Vec<Finding> {
    // Group by name: futures of one registry are different objects with one name.
    let mut by_object: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
    for (node, party) in (0..).zip(&scene.parties) {
        let is = |wait: &&WaitFact| wait.owners.is_empty() && !wait.idle && !wait.soon && wait.relation != JOINED;
        let Some(wait) = party.wait.as_ref().filter(is) else { continue };
        // A wait for a lock whose owner has ended never ends, so it counts even for the main thread.
        if party.works() && !reported.contains(&node) && (!party.main || wait.owner_ended) {
            by_object.entry(scene.noun(wait)).or_default().push(node);
        }
    }
    let mut all: Vec<Vec<NodeId>> = by_object.into_values().collect();
    let ended = |nodes: &[NodeId]| {
        nodes.iter().filter_map(|node| scene.party(*node)?.wait.as_ref()).any(|wait| wait.owner_ended)
    };
    all.retain(|nodes| nodes.len() >= GROUP || ended(nodes));
    all.sort_by_key(|nodes| Reverse(nodes.len()));
    let of_group = |nodes: &Vec<NodeId>| {
        let first = scene.party(*nodes.first()?)?;
        let wait = first.wait.as_ref()?;
        let of_method = others_of_method(scene, nodes);
        let (owner, severity) = match (wait.owner_ended, wait.relation, wait.places) {
            (true, ..) if wait.owner_inherited => (
                "; the thread that held it is in the parent process and was not copied by fork".to_owned(),
                Severity::Warning,
            ),
            (true, ..) => ("; the thread that held it has ended".to_owned(), Severity::Warning),
            (false, HELD, Some(places)) => {
                let severe = nodes.len() >= LIKELY_WAITERS;
                (lost_places(places), if severe { Severity::Warning } else { Severity::Info })
            }
            (false, HELD, None) => ("; its owner is not known".to_owned(), Severity::Info),
            (false, ..) if is_semaphore(wait) && of_method.is_empty() => (NO_PERMIT.to_owned(), Severity::Info),
            (false, ..) => (String::new(), Severity::Info),
        };
        let id = if wait.owner_ended { "lock-owner-ended" } else { "lock-waiters" };
        let others = if of_method.is_empty() { others(scene, wait) } else { of_method };
        let text = format!("{}{owner}.{others}", groups(scene, nodes).join("; "));
        let lost = wait.relation == HELD && wait.places.is_some() && !wait.owner_ended;
        let confidence = if lost { Confidence::Derived } else { Confidence::Exact };
        let finding = Finding::new(id, severity, text, wait.evidence).known(confidence);
        Some(finding.more("threads --group").fingerprinted(first.place.clone().unwrap_or_default()))
    };
    all.iter().take(MOST).filter_map(of_group).collect()
}

/// Sentence on a semaphore with an unknown number of permits. It may be used as a signal that is still to come.
const NO_PERMIT: &str =
    "; no permit is free, and no owner of one was found: permits were not given back, or are yet to be released";

fn is_semaphore(wait: &WaitFact) -> bool {
    wait.r#type.as_deref().is_some_and(|kind| kind.contains("Semaphore"))
}

/// Returns the sentence on a semaphore without a free place whose owners are not found.
fn lost_places(places: u32) -> String {
    let all =
        if places == 1 { "its only place is taken".to_owned() } else { format!("all its {places} places are taken") };
    format!("; {all}, and no owner of one was found: likely a path that fails or returns without giving it back")
}

/// Returns a sentence on parties from the same method as the waiters: one of them may own the awaited object.
fn others_of_method(scene: &Scene, waiters: &[NodeId]) -> String {
    let callers: BTreeSet<&str> = waiters
        .iter()
        .filter_map(|node| scene.party(*node)?.caller.as_deref())
        .filter(|name| !is_nameless(name))
        .collect();
    let [caller] = callers.iter().copied().collect::<Vec<_>>()[..] else { return String::new() };
    let waiting: BTreeSet<NodeId> = waiters.iter().copied().collect();
    let is = |(node, party): &(NodeId, &Party)| {
        let from_it = party.caller.as_deref() == Some(caller) || party.place.as_deref() == Some(caller);
        from_it && !waiting.contains(node) && (party.activity.is_some() || party.wait.is_some())
    };
    let parties = (0..).zip(&scene.parties).filter(is).map(|(_, party)| party);
    meanwhile(parties, &format!(" of {caller}"), |party| end_text(scene, party))
}

/// Objects without an owner that count a resource. A busy thread may own what the others wait for.
const COUNTED: [&str; 2] = [CONDITION, "sem_t"];

/// Returns a sentence on threads that are busy outside of the process, if the wait is for such an object: one of them
/// may own it.
fn others(scene: &Scene, wait: &WaitFact) -> String {
    if !wait.r#type.as_deref().is_some_and(|kind| COUNTED.contains(&kind)) {
        return String::new();
    }
    let is = |party: &&Party| {
        let outside = party.activity.is_some_and(|activity| activity.is_outside() && activity != Activity::Sleep);
        outside && party.works() && !party.main
    };
    meanwhile(scene.parties.iter().filter(is), "", Party::doing)
}

/// Returns a sentence on the activity of most of some parties, with a space before it. Empty if there are no parties.
/// `of` follows their number.
fn meanwhile<'s>(parties: impl Iterator<Item = &'s Party>, of: &str, doing: impl Fn(&Party) -> String) -> String {
    let mut by_text: BTreeMap<String, Vec<&Party>> = BTreeMap::new();
    for party in parties {
        by_text.entry(doing(party)).or_default().push(party);
    }
    let most = by_text.iter().max_by_key(|(_, parties)| parties.len());
    most.map_or_else(String::new, |(doing, parties)| {
        let each = if parties.len() == 1 { "" } else { "each " };
        let noun = format!("other {}", parties.first().map_or("thread", |party| word(party)));
        format!(" Meanwhile {}{of} ({}): {each}{doing}.", count(parties.len() as u64, &noun), names(parties))
    })
}
