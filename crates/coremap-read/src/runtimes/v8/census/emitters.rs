//! Events with many listeners.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::map::Confidence;
use crate::runtimes::api::{Heap as _, RetainedSizes};
use crate::runtimes::v8::census::{Census, function_text, is_own, kept, maker, stores_below};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::vm::{count as number, strong};
use crate::units::{count, exact, round};

/// Minimum number of listeners of one event to be reported. Node.js warns of 11 itself.
const MANY: u64 = 100;

/// Maximum number of findings, and of listeners of an event that are read.
const MOST: usize = 4;
const MAX_LISTENERS: u64 = 1 << 20;

/// Steps from an object of the program to memory that it owns.
const DEPTH: usize = 4;

/// An event with its listeners.
struct Event {
    emitter: u64,
    name: String,
    listeners: Vec<u64>,
}

/// Returns a finding for each event with many listeners.
pub(super) fn findings(heap: &Heap<'_>, census: &Census, retained: Option<&dyn RetainedSizes>) -> Vec<Finding> {
    let mut events: Vec<Event> = census.emitters.iter().flat_map(|emitter| events(heap, *emitter)).collect();
    events.sort_by_key(|event| (std::cmp::Reverse(event.listeners.len()), event.emitter));
    let variables: HashMap<Addr, String> =
        heap.variables().roots.into_iter().map(|root| (root.object, root.name.to_string())).collect();
    events.iter().take(MOST).filter_map(|event| finding(heap, event, &variables, retained)).collect()
}

/// Returns the events of an emitter with many listeners.
fn events(heap: &Heap<'_>, emitter: u64) -> Vec<Event> {
    let vm = &*heap.vm;
    let Some(table) = vm.own(emitter, "_events").and_then(strong) else { return Vec::new() };
    let mut found = Vec::new();
    let mut add = |key: u64, value: Option<u64>| {
        let list = value.and_then(strong).filter(|list| vm.is(*list, "JS_ARRAY"));
        let length = list.and_then(|list| vm.field(list, 24)).and_then(number).filter(|n| *n >= MANY);
        if let Some((list, length)) = list.zip(length) {
            found.push((key, list, length.min(MAX_LISTENERS)));
        }
    };
    let Some((map, info)) = vm.map_of(table) else { return Vec::new() };
    if info.is_dictionary() {
        if let Some(dictionary) = vm.object(table, vm.offsets.properties) {
            vm.each_entry(dictionary, &mut |key, at| {
                add(key, vm.field(dictionary, at));
                true
            });
        }
    } else {
        vm.descriptors(map, &info).iter().for_each(|property| add(property.key, vm.value(table, property)));
    }
    let of = |(key, list, length): (u64, u64, u64)| {
        let elements = vm.object(list, vm.offsets.elements)?;
        let words = vm.words(elements.checked_add(16)?, length);
        let is_own_function =
            |at: &u64| vm.is_function(*at) && vm.shared(*at).is_some_and(|shared| is_own(heap, shared));
        let listeners: Vec<u64> = words.into_iter().filter_map(strong).filter(is_own_function).collect();
        (listeners.len() as u64 >= MANY).then_some(Event { emitter, name: vm.key_text(key)?, listeners })
    };
    found.into_iter().filter_map(of).collect()
}

fn finding(
    heap: &Heap<'_>,
    event: &Event,
    variables: &HashMap<Addr, String>,
    retained: Option<&dyn RetainedSizes>,
) -> Option<Finding> {
    let class = heap.reader().node(event.emitter).map(|node| heap.type_name(node.kind))?;
    let variable = variables.get(&Addr::new(event.emitter)).map_or_else(String::new, |name| format!(", {name}"));
    let first = *event.listeners.first()?;
    let shared = heap.vm.shared(first)?;
    let kept = kept(heap, &event.listeners);
    let own: Vec<Addr> = kept.iter().flat_map(|(.., objects)| objects.iter().copied()).collect();
    let closures: Vec<Addr> = event.listeners.iter().map(|at| Addr::new(*at)).collect();
    let bytes = retained.map(|sizes| sizes.sum_of(&closures).max(sizes.sum_of(&own)));
    let bytes = bytes.map(|bytes| bytes.saturating_add(stores_below(heap, &own, DEPTH)));
    let keep = kept.first().map_or_else(String::new, |(name, n, _)| {
        let size =
            bytes.map_or_else(String::new, |bytes| format!(": {} with memory outside of the heap", round(bytes)));
        format!(" They keep {} {name}{size}.", exact(*n))
    });
    let text = format!(
        "{} of event `{}` on one {class}{variable}: {}.{keep}",
        count(event.listeners.len() as u64, "listener"),
        event.name,
        function_text(heap, shared, maker(heap, first)),
    );
    let mut finding = Finding::new("listeners", Severity::Info, text, "array of functions in the emitter's _events");
    finding.bytes = bytes;
    let command = format!("object {}", Addr::new(event.emitter));
    let print = format!("{class} {}", event.name);
    Some(finding.known(Confidence::Exact).within("managed-heap").more(command).fingerprinted(print))
}
