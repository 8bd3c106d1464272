//! Objects of Node.js's own classes, and suspended functions: the basis of findings and waits.
//!
//! Their fields are named properties, so no offsets of Node.js are needed. docs/node.md lists the classes.

mod agents;
mod async_functions;
mod emitters;
pub(super) mod findings;
mod settlers;
mod timers;
mod wait_facts;

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use rayon::prelude::*;

pub(super) use async_functions::{Pending, pending};
pub(super) use wait_facts::Served;

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::{Heap as _, HeapRange, Link, ObjectReader, TypeIndex, TypeRole, UnwalkedRanges, Walker};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::heap::types::Category;
use crate::runtimes::v8::holders::is_library;
use crate::runtimes::v8::vm::{Vm, strong};

/// Kinds of oddballs (oddball.h).
const FALSE: u64 = 0;
const TRUE: u64 = 1;

/// Maximum number of objects whose references [`kept`] reads.
const MAX_SAMPLE: usize = 4096;

/// Offset in a closure's context of the first variable, without an extension.
const FIRST_VARIABLE: u64 = 32;

/// Objects of each class, in the order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// See [`settlers::outside`].
    settled_outside: OnceLock<HashSet<u64>>,
    /// Timers of Node.js (`Timeout`).
    pub timers: Vec<u64>,
    /// Emitters and event targets: objects with a property for their listeners.
    pub emitters: Vec<u64>,
    /// Answers of HTTP servers (`ServerResponse`).
    pub responses: Vec<u64>,
    /// Pools of sockets of HTTP clients (`Agent`).
    pub agents: Vec<u64>,
    /// Async functions that have started.
    pub async_functions: Vec<u64>,
    pub promises: Vec<u64>,
}

/// State of a walk over a part of the heap.
struct Reading<'h> {
    walker: Box<dyn Walker + 'h>,
    kinds: HashMap<TypeIndex, Option<Counted>>,
    /// Maps by address. `true` if objects of the map have a property `_events`.
    maps: HashMap<u64, bool>,
    out: Census,
}

/// Kind of an object in the census.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Timer,
    Response,
    Agent,
    AsyncFunction,
    Promise,
    /// Objects of other classes, which may be emitters.
    Other,
}

impl Census {
    pub(super) fn read(heap: &Heap<'_>) -> Census {
        let fresh =
            || Reading { walker: heap.walker(), kinds: HashMap::new(), maps: HashMap::new(), out: Census::default() };
        let walk = |reading, part: &HeapRange| walk(heap, reading, part);
        // A rayon worker that waits for others may run a task that itself waits for this walk.
        let parts: Vec<Census> = if rayon::current_thread_index().is_some() {
            vec![heap.ranges().iter().fold(fresh(), walk).out]
        } else {
            heap.ranges().par_iter().fold(fresh, walk).map(|reading| reading.out).collect()
        };
        let mut out = Census::default();
        for part in parts {
            out.timers.extend(part.timers);
            out.emitters.extend(part.emitters);
            out.responses.extend(part.responses);
            out.agents.extend(part.agents);
            out.async_functions.extend(part.async_functions);
            out.promises.extend(part.promises);
        }
        for list in [
            &mut out.timers,
            &mut out.emitters,
            &mut out.responses,
            &mut out.agents,
            &mut out.async_functions,
            &mut out.promises,
        ] {
            list.sort_unstable();
            list.truncate(limits::MAX_V8_LISTED);
        }
        out
    }
}

/// Adds the objects in a part of the heap.
fn walk<'h>(heap: &'h Heap<'_>, mut reading: Reading<'h>, part: &HeapRange) -> Reading<'h> {
    let Reading { walker, kinds, maps, out } = &mut reading;
    walker.walk(part, &mut UnwalkedRanges::default(), &mut |object| {
        let at = object.addr.get();
        match *kinds.entry(object.kind).or_insert_with(|| counted(heap, object.kind)) {
            None => return,
            Some(Counted::Timer) => out.timers.push(at),
            Some(Counted::Response) => out.responses.push(at),
            Some(Counted::Agent) => out.agents.push(at),
            Some(Counted::AsyncFunction) => out.async_functions.push(at),
            Some(Counted::Promise) => out.promises.push(at),
            Some(Counted::Other) => {}
        }
        let Some(map) = heap.vm.word(at).and_then(strong) else { return };
        if *maps.entry(map).or_insert_with(|| has_events(&heap.vm, map)) {
            out.emitters.push(at);
        }
    });
    reading
}

fn counted(heap: &Heap<'_>, kind: TypeIndex) -> Option<Counted> {
    let row = heap.known.get(kind).filter(|row| row.category == Category::Object)?;
    let is = |name: &str| heap.vm.types.is(row.number, name);
    if is("JS_ASYNC_FUNCTION_OBJECT") {
        return Some(Counted::AsyncFunction);
    }
    if is("JS_PROMISE") {
        return Some(Counted::Promise);
    }
    let script = row.function.and_then(|shared| heap.vm.script_name(heap.vm.script(shared)?));
    let library = script.as_deref().is_some_and(is_library);
    Some(match &*row.name {
        "Timeout" if library => Counted::Timer,
        "ServerResponse" if library => Counted::Response,
        "Agent" if library => Counted::Agent,
        _ => Counted::Other,
    })
}

fn has_events(vm: &Vm<'_>, map: u64) -> bool {
    let Some(info) = vm.map(map) else { return false };
    let is_name = |key: u64| vm.text_length(key) == Some(7) && vm.key_text(key).is_some_and(|key| key == "_events");
    let is_symbol = |key: u64| vm.is(key, "SYMBOL") && vm.key_text(key).is_some_and(|key| key == "Symbol(kEvents)");
    let is_events = |key: u64| if vm.is_string(key) { is_name(key) } else { is_symbol(key) };
    vm.descriptors(map, &info).iter().any(|descriptor| is_events(descriptor.key))
}

/// Names of properties that limit a collection in the same object.
const LIMITS: [&str; 12] = [
    "max",
    "maxSize",
    "maxEntries",
    "maxItems",
    "maxLength",
    "maxKeys",
    "limit",
    "capacity",
    "cap",
    "maxsize",
    "bound",
    "most",
];

/// Returns the number that limits the collections of an object, with the name of its property.
pub(super) fn limit_of(vm: &Vm<'_>, owner: u64) -> Option<(&'static str, u64)> {
    LIMITS.iter().find_map(|name| Some((*name, vm.own(owner, name).and_then(|word| vm.number(word))?)))
}

/// Returns the boolean that a word is. `None` if it is neither `true` nor `false`.
fn boolean(vm: &Vm<'_>, word: u64) -> Option<bool> {
    let at = strong(word)?;
    if !vm.is(at, "ODDBALL") {
        return None;
    }
    match vm.field(at, vm.offsets.oddball_kind)? >> 32 {
        FALSE => Some(false),
        TRUE => Some(true),
        _ => None,
    }
}

/// Returns a function's place in words: `look (locker_watch.js:12), made in start`.
fn function_text(heap: &Heap<'_>, shared: u64, maker: Option<u64>) -> String {
    let name = heap.vm.function_name(shared);
    let name = if name.is_empty() { "an anonymous function".to_owned() } else { name };
    let place = heap.origin(shared).map(|(script, place)| {
        let line = place.map_or_else(String::new, |place| format!(":{}", place.line));
        format!(" ({}{line})", crate::image::file_name(&script))
    });
    let maker = maker.map(|maker| heap.vm.function_name(maker)).filter(|maker| !maker.is_empty() && *maker != name);
    let maker = maker.map_or_else(String::new, |maker| format!(", made in {maker}"));
    format!("{name}{}{maker}", place.unwrap_or_default())
}

/// Returns the function whose call made a closure: the function that the closure's context belongs to.
fn maker(heap: &Heap<'_>, closure: u64) -> Option<u64> {
    let context = heap.vm.object(unbound(&heap.vm, closure)?, heap.vm.offsets.function_context)?;
    heap.functions_by_scope().get(&heap.vm.object(context, 16)?).copied()
}

/// Whether a function is the program's own.
fn is_own(heap: &Heap<'_>, shared: u64) -> bool {
    let script = heap.vm.script(shared).and_then(|script| heap.vm.script_name(script));
    script.is_some_and(|script| !is_library(&script))
}

/// Offsets in a bound function: the function, and its `this`.
const BOUND: (u64, u64) = (24, 32);

/// Returns the function that a bound function calls. Any other function is returned as it is.
fn unbound(vm: &Vm<'_>, function: u64) -> Option<u64> {
    let mut at = function;
    for _ in 0..MAX_BOUND {
        if vm.is_function(at) {
            return Some(at);
        }
        at = vm.object(at, BOUND.0).filter(|_| vm.is(at, "JS_BOUND_FUNCTION"))?;
    }
    None
}

/// Maximum depth of bound functions.
const MAX_BOUND: usize = 8;

/// Counts objects of the program's classes: those that functions refer to through their variables or their bound
/// `this`, and `more`. By class, most frequent first.
fn kept(heap: &Heap<'_>, functions: &[u64], more: &[u64]) -> Vec<(String, u64, Vec<Addr>)> {
    let mut reader = heap.reader();
    let mut sums: HashMap<TypeIndex, Vec<Addr>> = HashMap::new();
    let mut add = |reader: &mut dyn ObjectReader, to: u64| {
        if let Some(node) = reader.node(to).filter(|node| heap.role(node.kind) == TypeRole::Program) {
            sums.entry(node.kind).or_default().push(Addr::new(to));
        }
    };
    more.iter().for_each(|to| add(&mut *reader, *to));
    for function in functions {
        if let Some(this) = heap.vm.object(*function, BOUND.1).filter(|_| heap.vm.is(*function, "JS_BOUND_FUNCTION")) {
            add(&mut *reader, this);
        }
        let closure = unbound(&heap.vm, *function);
        let Some(context) = closure.and_then(|at| heap.vm.object(at, heap.vm.offsets.function_context)) else {
            continue;
        };
        let mut found = Vec::new();
        reader.each(context, |link, to| {
            if matches!(link, Link::Field(offset) if offset >= FIRST_VARIABLE) {
                found.push(to);
            }
            found.len() < MAX_SAMPLE
        });
        found.into_iter().for_each(|to| add(&mut *reader, to));
    }
    let mut out: Vec<(String, u64, Vec<Addr>)> = sums
        .into_iter()
        .map(|(kind, mut objects)| {
            objects.sort_unstable();
            objects.dedup();
            (heap.type_name(kind), objects.len() as u64, objects)
        })
        .collect();
    out.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    out
}

/// Returns the size in bytes of the distinct stores outside of the heap that `objects` reach in at most `depth` steps.
fn stores_below(heap: &Heap<'_>, objects: &[Addr], depth: usize) -> u64 {
    let mut reader = heap.reader();
    let mut seen = std::collections::HashSet::new();
    let mut stores: HashMap<u64, u64> = HashMap::new();
    let mut level: Vec<u64> = objects.iter().map(|at| at.get()).collect();
    for _ in 0..depth {
        let mut next = Vec::new();
        for at in level {
            if !seen.insert(at) || seen.len() > limits::MAX_V8_LISTED {
                continue;
            }
            if heap.survey().array_buffers.binary_search(&at).is_ok()
                && let Some((store, len)) = super::buffers::store(heap, at).filter(|(store, _)| *store != 0)
            {
                stores.insert(store, len);
            }
            // A function would lead to everything in its module.
            reader.each(at, |_, to| {
                if !heap.vm.is_function(to) {
                    next.push(to);
                }
                true
            });
        }
        level = next;
    }
    stores.values().fold(0, |sum, len| sum.saturating_add(*len))
}
