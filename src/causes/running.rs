//! Running threads, and how threads use objects of other findings.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::causes::parties::{Party, Scene, names, of_task};
use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::runtimes::api::{Activity, PartyId, TaskFact};
use crate::units::count;

/// Maximum number of findings.
const MOST: usize = 4;

/// Reports threads that run code of the program, by its innermost method. One core does not show whether they loop or
/// work.
pub(super) fn running(scene: &Scene) -> Vec<Finding> {
    let mut by_place: BTreeMap<&str, Vec<&Party>> = BTreeMap::new();
    for party in scene.parties.iter().filter(|party| party.activity == Some(Activity::Runs)) {
        if let Some(place) = party.place.as_deref() {
            by_place.entry(place).or_default().push(party);
        }
    }
    let mut all: Vec<(&str, Vec<&Party>)> = by_place.into_iter().collect();
    all.sort_by_key(|(_, parties)| Reverse(parties.len()));
    let of_place = |(place, parties): &(&str, Vec<&Party>)| {
        let first = parties.first()?;
        let verb = if parties.len() == 1 { "runs" } else { "run" };
        let ring = parties.iter().find_map(|party| match party.id {
            PartyId::Thread(tid) => scene.rings.get(&tid),
            PartyId::Task(_) | PartyId::Pool(_) => None,
        });
        let serves = first.serves.filter(|_| parties.len() == 1);
        let at = first.source.as_ref().filter(|_| serves.is_some());
        let text = format!(
            "{} ({}) {verb} in {}{}{}.{}{}",
            count(parties.len() as u64, "thread"),
            names(parties),
            callee(parties),
            first.stack(),
            at.map_or_else(String::new, |at| format!(" ({at})")) + &cpu(parties),
            serves.map_or_else(String::new, |what| format!(" The {what} does not turn until it returns.")),
            ring.map_or_else(String::new, |ring| format!(" {ring}."))
        );
        let id = if serves.is_some() { "event-loop" } else { "running" };
        let finding = Finding::new(id, Severity::Info, text, "innermost frames; no wait");
        Some(finding.known(Confidence::Derived).more("threads --group").fingerprinted(*place))
    };
    let mut out: Vec<Finding> = all.iter().take(MOST).filter_map(of_place).collect();
    out.extend(scene.parties.iter().filter_map(blocked_loop));
    out
}

/// Reports a thread in a synchronous call while the loop that it serves waits.
fn blocked_loop(party: &Party) -> Option<Finding> {
    let what = party.serves.filter(|_| party.activity != Some(Activity::Runs))?;
    let place = party.place.as_ref()?;
    let call = party.callee.as_ref().map_or_else(String::new, |callee| format!("{callee}, called by "));
    let at = party.source.as_ref().map_or_else(String::new, |at| format!(" ({at})"));
    let doing = party.activity.map_or("waits", Activity::words);
    let text = format!(
        "Thread {} {doing} in a synchronous call: {call}{}{at}. The {what} does not turn until it returns.",
        party.full_name(),
        party.stack()
    );
    let finding = Finding::new("event-loop", Severity::Info, text, "innermost frames, and the system call");
    Some(finding.known(Confidence::Derived).more("threads --group").fingerprinted(place))
}

/// Returns the function that all of these threads call. Empty if there is no single one.
fn callee(parties: &[&Party]) -> String {
    let first = parties.first().and_then(|party| party.callee.as_ref());
    let all = first.filter(|_| parties.iter().all(|party| party.callee.as_ref() == first));
    all.map_or_else(String::new, |callee| format!("{callee}, called by "))
}

/// Returns the processor time of threads, if the core has it.
pub(super) fn cpu(parties: &[&Party]) -> String {
    let sum = parties.iter().try_fold(0_u64, |sum, party| Some(sum.saturating_add(party.cpu_ms?)));
    let sum = sum.filter(|sum| *sum > 0);
    sum.map_or_else(String::new, |ms| format!(", after {:.1} s of processor time", ms as f64 / 1000.0))
}

/// Adds to a finding on a thread-local variable's values which threads have them, and whether these are idle.
pub(super) fn add_threads(scene: &Scene, finding: &mut Finding, tids: &[u32]) {
    let parties: Vec<&Party> = tids.iter().filter_map(|tid| scene.party(scene.node(PartyId::Thread(*tid))?)).collect();
    let idle = parties.iter().filter(|party| !party.works()).count();
    if parties.is_empty() {
        return;
    }
    let idle = match idle {
        0 => String::new(),
        n if n == parties.len() => ", which are idle".to_owned(),
        1 => ", one of which is idle".to_owned(),
        n => format!(", {n} of which are idle"),
    };
    let threads = count(parties.len() as u64, "thread");
    finding.text.push_str(&format!(" They belong to {threads} ({}){idle}.", names(&parties)));
}

/// Adds to a finding on a collection which of its users are stuck, such as a consumer. `tasks`: the tasks that use it,
/// with what they wait for.
pub(super) fn add_users(scene: &Scene, finding: &mut Finding, users: &[u32], tasks: Vec<TaskFact>) {
    let mut texts: Vec<(String, String, usize)> = Vec::new();
    for task in tasks {
        let party = of_task(task);
        let Some(wait) = &party.wait else { continue };
        let what = format!("{} in {}", scene.noun(wait), party.stack());
        match texts.iter_mut().find(|(name, known, _)| *name == party.name && *known == what) {
            Some((_, _, count)) => *count += 1,
            None => texts.push((party.name.clone(), what, 1)),
        }
    }
    for (name, what, calls) in texts {
        finding.text.push_str(&match calls {
            1 => format!(" {name} uses it and waits for {what}."),
            _ => format!(" {calls} calls of {name} use it and wait for {what}."),
        });
    }
    let party = |tid: &u32| scene.party(scene.node(PartyId::Thread(*tid))?);
    let stuck = |party: &&Party| !party.main && party.activity.is_some_and(Activity::is_outside) && party.works();
    let stuck: Vec<&Party> = users.iter().filter_map(party).filter(stuck).collect();
    if let [first, ..] = stuck.as_slice() {
        let verb = if stuck.len() == 1 { "uses" } else { "use" };
        finding.text.push_str(&format!(" {} {verb} it and {}.", names(&stuck), first.doing()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;
    use crate::runtimes::api::WaitFact;

    #[test]
    fn equal_users_are_counted() {
        let wait = WaitFact { what: Some("a timer of 600 s".to_owned()), ..WaitFact::default() };
        let task = |address, name: &str| TaskFact {
            address: Addr::new(address),
            name: Some(name.to_owned()),
            place: Some("Board.Refresh".to_owned()),
            wait: Some(wait.clone()),
            ..TaskFact::default()
        };
        let scene = Scene::of(Vec::new(), Vec::new(), Vec::new());
        let mut finding = Finding::new("retained", Severity::Info, "A list.", "");
        add_users(&scene, &mut finding, &[], vec![task(1, "R"), task(2, "T"), task(3, "R")]);
        let text = "A list. 2 calls of R use it and wait for a timer of 600 s in Board.Refresh. T uses it and waits for a \
                    timer of 600 s in Board.Refresh.";
        assert_eq!(finding.text, text);
    }

    #[test]
    fn threads_of_values_are_named_with_what_they_do() {
        let party = |tid: u32, place: Option<&str>| Party {
            place: place.map(str::to_owned),
            ..Party::new(PartyId::Thread(tid), format!("t-{tid}"))
        };
        let parties = vec![party(1, None), party(2, Some("Form.fill"))];
        let scene = Scene::of(parties, Vec::new(), Vec::new());
        let mut finding = Finding::new("retained", Severity::Info, "30 Form.", "");
        add_threads(&scene, &mut finding, &[1, 2]);
        assert_eq!(finding.text, "30 Form. They belong to 2 threads (t-1, t-2), one of which is idle.");
    }
}
