//! A finalizer that is stuck: where, who can end its wait, and what waits behind it.

use crate::causes::blocked::{end_text, is_blocked};
use crate::causes::parties::{HELD, Scene};
use crate::causes::wait_graph::{NodeId, WaitGraph};
use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::runtimes::api::FINALIZER_QUEUE;
use crate::units::{count, exact, round};

const ID: &str = "finalizer-queue";

/// Maximum number of types named.
const TYPES: usize = 2;

/// Returns the thread that runs finalizers, and the finding on it, if it is stuck while objects are due.
pub(super) fn stuck(scene: &Scene, graph: &WaitGraph) -> Option<(NodeId, Finding)> {
    let due = scene.due.as_ref()?;
    let (node, party) = (0..).zip(&scene.parties).find(|(_, party)| party.finalizer && party.works())?;
    if !is_blocked(party) && !graph.is_stuck(node) {
        return None;
    }
    let root = graph.root(node);
    let end = scene.party(root).filter(|_| root != node);
    let doing = match (&party.wait, end) {
        (Some(wait), Some(end)) => {
            let relation = if wait.relation == HELD { "held by" } else { "which depends on" };
            format!(
                "it waits for {} in {}, {relation} {}, which {}",
                scene.noun(wait),
                party.stack(),
                end.name,
                end_text(scene, end)
            )
        }
        _ => format!("it {}", end_text(scene, party)),
    };
    let types: Vec<String> =
        due.types.iter().take(TYPES).map(|(kind, number)| format!("{} {kind}", exact(*number))).collect();
    let text = format!(
        "The finalizer thread is stuck: {doing}. {} behind it for their finalizers ({}).",
        if due.count == 1 { "1 object waits".to_owned() } else { format!("{} wait", count(due.count, "object")) },
        types.join(", ")
    );
    let finding = Finding::new(ID, Severity::Warning, text, "the finalizer thread's wait; the finalization queue");
    Some((
        node,
        finding.known(Confidence::Derived).more("finalizers").fingerprinted(party.place.clone().unwrap_or_default()),
    ))
}

/// Joins the finding on the queue with the finding on the stuck thread, which says more than the number of objects.
pub(super) fn join(findings: &mut Vec<Finding>) {
    let is = |finding: &Finding| finding.id == ID && finding.severity > Severity::Info;
    let Some(at) = findings.iter().position(is) else { return };
    let queue = format!("({})", FINALIZER_QUEUE.name());
    let kept = |finding: &Finding| finding.id == "retained" && finding.evidence.contains(&queue);
    let bytes = findings.iter().find(|finding| kept(finding)).and_then(|finding| finding.bytes);
    if let (Some(finding), Some(bytes)) = (findings.get_mut(at), bytes) {
        finding.text.push_str(&format!(" They keep {}.", round(bytes)));
        finding.bytes = Some(bytes);
        finding.within = Some("managed-heap");
    }
    findings.retain(|finding| is(finding) || !(finding.id == ID || kept(finding)));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::addr::Addr;
    use crate::causes::parties::{DueObjects, Party};
    use crate::runtimes::api::{Activity, PartyId, WaitFact, WaitOwner};

    fn party(tid: u32, name: &str, place: &str) -> Party {
        Party { place: Some(place.into()), ..Party::new(PartyId::Thread(tid), name.into()) }
    }

    #[test]
    fn a_stuck_finalizer_is_told_with_who_holds_it_and_what_its_queue_keeps() {
        let wait = WaitFact {
            object: Addr::new(0x10),
            r#type: Some("Ports".into()),
            owners: vec![WaitOwner { party: PartyId::Thread(2), confidence: Confidence::Exact }],
            relation: HELD,
            ..WaitFact::default()
        };
        let finalizer = Party { finalizer: true, wait: Some(wait), ..party(1, "finalizer", "Port.Finalize") };
        let holder = Party { activity: Some(Activity::Sleep), ..party(2, "rebuild", "Ports.rebuild") };
        let mut scene = Scene::of(vec![finalizer, holder], Vec::new(), Vec::new());
        assert!(stuck(&scene, &scene.graph()).is_none(), "nothing is due");
        scene.due = Some(DueObjects { count: 5000, types: vec![("Reading".into(), 5000)] });
        let (node, finding) = stuck(&scene, &scene.graph()).unwrap();
        assert_eq!((node, finding.severity), (0, Severity::Warning));
        let mut all = vec![
            Finding::new("retained", Severity::Info, "", format!("a root ({})", FINALIZER_QUEUE.name())).about(5 << 20),
            Finding::new(ID, Severity::Info, "5,000 objects", ""),
            finding,
        ];
        join(&mut all);
        assert_eq!(all.len(), 1);
        assert_eq!(
            all[0].text,
            "The finalizer thread is stuck: it waits for the Ports at 0x10 in Port.Finalize, held by rebuild, which \
             sleeps in Ports.rebuild. 5,000 objects wait behind it for their finalizers (5,000 Reading). They keep 5 MiB."
        );
    }
}
