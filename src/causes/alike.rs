//! Very many light threads that wait at the same position, as in a leak of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::causes::parties::{Scene, word};
use crate::causes::ranking;
use crate::causes::wait_graph::NodeId;
use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::units::{count, exact, round};

/// Minimum number of light threads at one position for a finding. Servers have a few hundred workers of a kind.
const LEAST: usize = 1000;

/// Maximum number of findings.
const MOST: usize = 3;

/// Key of a group of light threads: place, position, state, and creator.
type Key<'a> = (&'a str, Option<&'a str>, &'a str, Option<&'a str>);

/// Findings on groups of light threads, largest first, and the members of these groups.
pub(super) fn findings(scene: &Scene) -> (Vec<Finding>, BTreeSet<NodeId>) {
    let mut groups: BTreeMap<Key<'_>, Vec<NodeId>> = BTreeMap::new();
    for (node, party) in (0..).zip(&scene.parties) {
        if let (Some(detail), Some(place)) = (&party.detail, &party.place) {
            let key = (place.as_str(), detail.position.as_deref(), detail.state, detail.created_by.as_deref());
            groups.entry(key).or_default().push(node);
        }
    }
    let mut large: Vec<(Key<'_>, Vec<NodeId>)> = groups.into_iter().filter(|(_, all)| all.len() >= LEAST).collect();
    large.sort_by_key(|(_, all)| Reverse(all.len()));
    let out = large.iter().take(MOST).filter_map(|(key, all)| finding(scene, key, all)).collect();
    (out, large.into_iter().flat_map(|(_, all)| all).collect())
}

fn finding(scene: &Scene, (place, position, state, created_by): &Key<'_>, all: &[NodeId]) -> Option<Finding> {
    let parties = || all.iter().filter_map(|node| scene.party(*node));
    let first = parties().next()?;
    let detail = first.detail.as_ref()?;
    let waits = || parties().filter_map(|party| party.wait.as_ref());
    let objects: BTreeSet<_> = waits().map(|wait| wait.object).collect();
    let kind = waits().find_map(|wait| wait.r#type.as_deref());
    let peer = if detail.gives { ", from which no goroutine receives" } else { "" };
    let what = match (objects.len(), kind) {
        (0, _) | (_, None) => String::new(),
        (1, Some(kind)) => format!(", all on one object ({kind}){peer}"),
        (n, Some(kind)) => format!(", on {} objects ({kind}){peer}", exact(n as u64)),
    };
    let peer_word = what.replace("goroutine", word(first));
    let at = position.map_or_else(String::new, |at| format!(" ({at})"));
    let by = created_by.map_or_else(String::new, |by| format!(", started by {by}"));
    let stacks = parties().filter_map(|party| party.detail.as_ref()).fold(0u64, |sum, d| sum.saturating_add(d.stack));
    let text = format!(
        "{} are in {state} in {place}{at}{by}{peer_word}. Their stacks take {}.",
        count(all.len() as u64, word(first)),
        round(stacks)
    );
    // Threads that wait for work are idle, even in large numbers. Very many threads that wait to send are a problem.
    let total = scene.live.saturating_add(stacks);
    // Many senders on one channel may be a limit on work. On very many channels, they are results that nobody receives.
    let severity = match detail.gives {
        true if objects.len().saturating_mul(10) >= all.len() => Severity::Warning,
        true => ranking::of_holder(stacks, total),
        false => Severity::Info,
    };
    let evidence = "stacks and states of all of them; sizes of their stacks";
    let finding = Finding::new("alike-tasks", severity, text, evidence).known(Confidence::Exact);
    Some(finding.about(stacks).within("stacks").more("threads --virtual").fingerprinted(place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;
    use crate::causes::parties::Party;
    use crate::runtimes::api::{PartyId, TaskDetail, WaitFact};

    fn scene(number: u64, gives: bool) -> Scene {
        let party = |i: u64| {
            let state = if gives { "chan send" } else { "chan receive" };
            let position = Some("main.go:87".to_owned());
            let created_by = Some("main.main".to_owned());
            let detail = TaskDetail { word: "goroutine", state, position, created_by, stack: 20 << 10, gives };
            let wait = WaitFact { object: Addr::new(0x10), r#type: Some("chan int".into()), ..WaitFact::default() };
            Party {
                place: Some("main.publish".into()),
                detail: Some(detail),
                wait: Some(wait),
                ..Party::new(PartyId::Task(Addr::new(0x1000 + i)), format!("goroutine {i}"))
            }
        };
        let mut scene = Scene::of((0..number).map(party).collect(), Vec::new(), Vec::new());
        scene.live = 1 << 20;
        scene
    }

    #[test]
    fn thousands_that_send_to_nobody_are_a_warning() {
        let (found, nodes) = findings(&scene(2000, true));
        assert_eq!((found.len(), found[0].severity, nodes.len()), (1, Severity::Warning, 2000));
        assert_eq!(
            found[0].text,
            "2,000 goroutines are in chan send in main.publish (main.go:87), started by main.main, all on one object (chan \
             int), from which no goroutine receives. Their stacks take 39.06 MiB."
        );
    }

    #[test]
    fn idle_receivers_are_information_and_a_few_are_nothing() {
        assert_eq!(findings(&scene(2000, false)).0[0].severity, Severity::Info);
        assert!(findings(&scene(999, true)).0.is_empty());
    }
}
