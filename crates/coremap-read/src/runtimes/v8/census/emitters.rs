//! Events with many listeners.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::map::Confidence;
use crate::runtimes::api::{Heap as _, RetainedSizes};
use crate::runtimes::v8::census::{Census, function_text, is_own, kept, maker, stores_below, unbound};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::vm::{count as number, strong};
use crate::units::{count, exact, round};

/// Minimum number of listeners of one event for a finding. Node.js itself warns at 11.
const MANY: u64 = 100;

/// Maximum number of findings, and of listeners of an event that are read.
const MOST: usize = 4;
const MAX_LISTENERS: u64 = 1 << 20;

/// Maximum number of words of a table of events.
const MAX_EVENTS: u64 = 1 << 16;

/// Property of an EventTarget with its listeners.
const TARGET_EVENTS: &str = "Symbol(kEvents)";

/// Layout of a Map's table (ordered-hash-table.h): number of elements, of deleted ones and of buckets, then the heads
/// of the buckets, then entries of three words.
mod table {
    /// Offset of the table in a Map.
    pub(super) const OF_MAP: u64 = 24;
    /// Offset of its first word.
    pub(super) const FIRST: u64 = 16;
    /// Index of the number of buckets, and index of their heads.
    pub(super) const BUCKETS: usize = 2;
    pub(super) const HEADS: usize = 3;
}

/// Maximum number of steps from an object of the program to memory that it owns.
const DEPTH: usize = 4;

/// An event with its listeners.
struct Event {
    emitter: u64,
    name: String,
    listeners: Vec<u64>,
}

/// Returns a finding for each event with many listeners.
pub(super) fn findings(heap: &Heap<'_>, census: &Census, retained: Option<&dyn RetainedSizes>) -> Vec<Finding> {
    let mut events: Vec<Event> = census
        .emitters
        .iter()
        .flat_map(|emitter| events(heap, *emitter).into_iter().chain(target_events(heap, *emitter)))
        .collect();
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
    vm.each_property(table, &mut add);
    let of = |(key, list, length): (u64, u64, u64)| {
        let elements = vm.object(list, vm.offsets.elements)?;
        let words = vm.words(elements.checked_add(16)?, length);
        let functions = own_functions(heap, words.into_iter().filter_map(strong));
        event(heap, emitter, key, functions)
    };
    found.into_iter().filter_map(of).collect()
}

/// Returns the events of an EventTarget with many listeners. Its table is a Map from the event to a list of listeners.
fn target_events(heap: &Heap<'_>, target: u64) -> Vec<Event> {
    let vm = &*heap.vm;
    let map = vm.own(target, TARGET_EVENTS).and_then(strong).filter(|map| vm.is(*map, "JS_MAP"));
    let Some(table) = map.and_then(|map| vm.object(map, table::OF_MAP)) else { return Vec::new() };
    let words =
        vm.words(table.wrapping_add(table::FIRST), vm.field(table, 8).and_then(number).unwrap_or(0).min(MAX_EVENTS));
    let buckets = words.get(table::BUCKETS).and_then(|word| number(*word)).and_then(|n| usize::try_from(n).ok());
    let entries = buckets.and_then(|n| words.get(table::HEADS.checked_add(n)?..)).unwrap_or_default();
    let of = |entry: &[u64; 3]| {
        let [key, value, _] = *entry;
        let (key, list) = (strong(key)?, strong(value)?);
        vm.own(list, "size").and_then(number).filter(|n| *n >= MANY)?;
        let mut functions = Vec::new();
        let mut at = vm.own(list, "next").and_then(strong);
        while let Some(listener) = at.filter(|_| (functions.len() as u64) < MAX_LISTENERS) {
            let Some(callback) = vm.own(listener, "callback") else { break };
            functions.extend(strong(callback));
            at = vm.own(listener, "next").and_then(strong);
        }
        event(heap, target, key, own_functions(heap, functions.into_iter()))
    };
    entries.as_chunks::<3>().0.iter().filter_map(of).collect()
}

/// Returns those functions that are the program's own, bound ones included.
fn own_functions(heap: &Heap<'_>, all: impl Iterator<Item = u64>) -> Vec<u64> {
    let is_own_function = |at: &u64| {
        let shared = unbound(&heap.vm, *at).and_then(|function| heap.vm.shared(function));
        shared.is_some_and(|shared| is_own(heap, shared))
    };
    all.filter(is_own_function).collect()
}

fn event(heap: &Heap<'_>, emitter: u64, key: u64, listeners: Vec<u64>) -> Option<Event> {
    (listeners.len() as u64 >= MANY).then_some(Event { emitter, name: heap.vm.key_text(key)?, listeners })
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
    let shared = heap.vm.shared(unbound(&heap.vm, first)?)?;
    let kept = kept(heap, &event.listeners, &[]);
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
