//! HTTP agents whose requests wait for a socket.

use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::map::Confidence;
use crate::runtimes::v8::census::Census;
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::vm::{count as number, strong};
use crate::units::count;

/// Minimum number of waiting requests for a finding, and for a warning.
const SOME: u64 = 2;
const MANY: u64 = 10;

/// Returns a finding for each agent with requests that wait.
pub(super) fn findings(heap: &Heap<'_>, census: &Census) -> Vec<Finding> {
    let mut all: Vec<(u64, u64)> =
        census.agents.iter().map(|agent| (lengths(heap, *agent, "requests"), *agent)).collect();
    all.retain(|(waiting, _)| *waiting >= SOME);
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.truncate(MOST);
    all.into_iter().map(|(waiting, agent)| finding(heap, agent, waiting)).collect()
}

/// Maximum number of findings.
const MOST: usize = 2;

fn finding(heap: &Heap<'_>, agent: u64, waiting: u64) -> Finding {
    let open = lengths(heap, agent, "sockets");
    let limit = heap.vm.own(agent, "maxSockets").and_then(|word| heap.vm.number(word));
    let limit = limit.map_or_else(String::new, |limit| format!(" (maxSockets {limit} for each host)"));
    let text = format!(
        "{} wait for a socket of one HTTP Agent: its {}{limit} are in use.",
        count(waiting, "outgoing request"),
        count(open, "socket"),
    );
    let severity = if waiting >= MANY { Severity::Warning } else { Severity::Info };
    let finding = Finding::new("requests", severity, text, "requests and sockets of the Agent object");
    let agent = Addr::new(agent);
    finding
        .known(Confidence::Exact)
        .held(agent, " is this Agent.")
        .more(format!("gcroot {agent}"))
        .fingerprinted("Agent")
}

/// Returns the sum of the lengths of the arrays in a property's object. The object has one array for each host.
fn lengths(heap: &Heap<'_>, agent: u64, name: &str) -> u64 {
    let vm = &*heap.vm;
    let mut sum = 0_u64;
    if let Some(table) = vm.own(agent, name).and_then(strong) {
        vm.each_property(table, &mut |_, value| {
            let array = value.and_then(strong).filter(|array| vm.is(*array, "JS_ARRAY"));
            sum = sum.saturating_add(array.and_then(|array| vm.field(array, 24)).and_then(number).unwrap_or(0));
        });
    }
    sum
}
