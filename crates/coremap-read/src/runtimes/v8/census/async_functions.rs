//! Suspended calls of async functions: the generator of each, and the promise that it awaits.
//!
//! The promise that a generator awaits keeps the generator alive: a reaction of the promise has a function that resumes
//! the generator. The context of that function has the generator as its extension. Sources: js-generator.tq,
//! promise.tq, builtins-async-gen.cc.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::limits;
use crate::map::Confidence;
use crate::runtimes::api::RetainedSizes;
use crate::runtimes::v8::census::{Census, is_own, settlers};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::vm::{Vm, count as number, smi};
use crate::units::{count, exact};

/// Offsets in a generator (JSGeneratorObject).
pub(super) mod generator {
    pub(super) const FUNCTION: u64 = 24;
    pub(super) const CONTEXT: u64 = 32;
    /// Offset of the bytecode at which the call continues. Negative if the call runs or has ended.
    pub(super) const CONTINUATION: u64 = 64;
    pub(super) const REGISTERS: u64 = 72;
    /// The promise of the call, in an object of an async function.
    pub(in crate::runtimes::v8::census) const PROMISE: u64 = 80;
}

/// Possible offsets of the reactions in a promise. Embedder fields precede them in some versions.
pub(super) const REACTIONS: [u64; 2] = [24, 32];

/// Size of a PromiseReaction in bytes. Its fields are in different orders in different versions: the next reaction, a
/// function for each outcome, the promise that these settle, and since 12 the embedder's data.
const REACTION: u64 = 48;

/// Offset of the extension in a context.
const EXTENSION: u64 = 32;

/// Maximum number of reactions of a promise that are read.
const MAX_REACTIONS: usize = 64;

/// Maximum length of a chain of calls.
const MAX_CALLS: usize = 64;

/// Minimum number of suspended calls of one function for a finding.
const MANY: u64 = 100;

/// Maximum number of words of a generator that are searched for objects.
const MAX_REGISTERS: u64 = 1024;

/// A suspended call of an async function.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtimes::v8) struct Pending {
    pub generator: u64,
    /// SharedFunctionInfo of the function.
    pub shared: u64,
    /// The promise that it awaits. `None` if it was not found.
    pub promise: Option<u64>,
    /// Index of the call that awaits this one. `None` if no call does.
    pub outer: Option<usize>,
    /// Whether this call awaits another one in the list.
    pub is_outer: bool,
}

/// Returns the suspended calls of the program's async functions.
pub(in crate::runtimes::v8) fn pending(heap: &Heap<'_>, census: &Census) -> Vec<Pending> {
    let vm = &*heap.vm;
    let mut out = Vec::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut own: HashMap<u64, bool> = HashMap::new();
    for &at in &census.async_functions {
        let suspended = vm.field(at, generator::CONTINUATION).and_then(smi).is_some_and(|offset| offset >= 0);
        let shared = vm.object(at, generator::FUNCTION).and_then(|function| vm.shared(function));
        let Some(shared) = shared.filter(|_| suspended) else { continue };
        if *own.entry(shared).or_insert_with(|| is_own(heap, shared)) && out.len() < limits::MAX_V8_PENDING {
            places.insert(at, out.len());
            out.push(Pending { generator: at, shared, promise: None, outer: None, is_outer: false });
        }
    }
    if out.is_empty() {
        return out;
    }
    for &promise in &census.promises {
        let first = REACTIONS
            .iter()
            .find_map(|offset| vm.object(promise, *offset).filter(|reaction| vm.is(*reaction, "PROMISE_REACTION")));
        let mut at = first;
        for _ in 0..MAX_REACTIONS {
            let Some(reaction) = at else { break };
            let (next, handlers) = parts(vm, reaction);
            for handler in handlers {
                let context = vm.object(handler, vm.offsets.function_context);
                let resumed = context.and_then(|context| vm.object(context, EXTENSION));
                if let Some(found) = resumed.and_then(|at| out.get_mut(*places.get(&at)?)) {
                    found.promise = Some(promise);
                }
            }
            at = next;
        }
    }
    // A call that awaits another call awaits that call's promise.
    let of_call = |(i, call): (usize, &Pending)| Some((vm.object(call.generator, generator::PROMISE)?, i));
    let calls: HashMap<u64, usize> = out.iter().enumerate().filter_map(of_call).collect();
    for i in 0..out.len() {
        let Some(inner) = out.get(i).and_then(|call| calls.get(&call.promise?).copied()).filter(|inner| *inner != i)
        else {
            continue;
        };
        if let Some(call) = out.get_mut(inner) {
            call.outer = Some(i);
        }
        if let Some(call) = out.get_mut(i) {
            call.is_outer = true;
        }
    }
    out
}

/// Returns the reaction after this one, and the functions of this one.
pub(super) fn parts(vm: &Vm<'_>, reaction: u64) -> (Option<u64>, Vec<u64>) {
    let fields: Vec<u64> = (8..REACTION).step_by(8).filter_map(|offset| vm.object(reaction, offset)).collect();
    let next = fields.iter().copied().find(|field| vm.is(*field, "PROMISE_REACTION"));
    (next, fields.into_iter().filter(|field| vm.is_function(*field)).collect())
}

/// Returns a call and the calls that await it, innermost first.
pub(super) fn chain(all: &[Pending], inner: usize) -> Vec<&Pending> {
    let mut out: Vec<&Pending> = Vec::new();
    let mut at = Some(inner);
    while let Some(call) = at.and_then(|i| all.get(i)).filter(|_| out.len() < MAX_CALLS) {
        out.push(call);
        at = call.outer;
    }
    out
}

/// Returns the program's functions that run when a promise is settled (`then`). For each, the pending promises and the
/// closures that wait for them.
fn continuations(heap: &Heap<'_>, census: &Census) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let vm = &*heap.vm;
    let mut out: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    let mut own: HashMap<u64, bool> = HashMap::new();
    for &promise in &census.promises {
        let first = REACTIONS
            .iter()
            .find_map(|offset| vm.object(promise, *offset).filter(|reaction| vm.is(*reaction, "PROMISE_REACTION")));
        let Some(reaction) = first else { continue };
        let handler = parts(vm, reaction).1.into_iter().find_map(|handler| {
            let shared = vm.shared(handler)?;
            own.entry(shared).or_insert_with(|| is_own(heap, shared)).then_some((shared, handler))
        });
        if let Some((shared, handler)) = handler {
            out.entry(shared).or_default().push((promise, handler));
        }
    }
    out
}

/// Returns the objects of `wanted` that are in variables of a suspended call.
pub(super) fn uses(heap: &Heap<'_>, pending: &Pending, wanted: &HashSet<u64>) -> Vec<u64> {
    let vm = &*heap.vm;
    let of = |at: Option<u64>, from: u64| {
        let Some(at) = at else { return Vec::new() };
        let words = vm.field(at, 8).and_then(number).unwrap_or(0).min(MAX_REGISTERS);
        vm.words(at.wrapping_add(from), words)
    };
    let registers = of(vm.object(pending.generator, generator::REGISTERS), 16);
    let context = of(vm.object(pending.generator, generator::CONTEXT), 16);
    let words = registers.into_iter().chain(context).filter_map(crate::runtimes::v8::vm::strong);
    words.filter(|at| wanted.contains(at)).collect()
}

/// End of the sentence on what can settle promises.
const SETTLES: &str = " has the functions that resolve them.";

/// Returns a finding for each function with many suspended calls, and for each function that waits for many promises.
pub(super) fn findings(
    heap: &Heap<'_>,
    census: &Census,
    all: &[Pending],
    retained: Option<&dyn RetainedSizes>,
) -> Vec<Finding> {
    let outside = settlers::outside(heap, census);
    // A call that awaits another call of this list is counted with that one.
    let mut by_function: BTreeMap<u64, Vec<&Pending>> = BTreeMap::new();
    all.iter().filter(|call| !call.is_outer).for_each(|call| by_function.entry(call.shared).or_default().push(call));
    let mut out = Vec::new();
    for (shared, calls) in by_function.into_iter().filter(|(_, calls)| calls.len() as u64 >= MANY) {
        let promises: HashSet<u64> = calls.iter().filter_map(|call| call.promise).collect();
        let of_call = |call: &&Pending| Addr::new(call.promise.unwrap_or(call.generator));
        let objects: Vec<Addr> = calls.iter().map(of_call).collect();
        let awaited = match promises.len() as u64 {
            0 => String::new(),
            1 => ", all for one promise".to_owned(),
            n => format!(", for {} that are pending", count(n, "promise")),
        };
        let awaited = format!("{awaited}{}", by_others(outside, &objects));
        let text = format!(
            "{} of async function {} are suspended at an await{awaited}.",
            count(calls.len() as u64, "call"),
            super::function_text(heap, shared, None)
        );
        let evidence = "generators of async functions that have not ended";
        out.push(of_promises(heap, shared, (text, evidence), &objects, outside, retained));
    }
    let many = continuations(heap, census).into_iter().filter(|(_, all)| all.len() as u64 >= MANY);
    for (shared, all) in many {
        let made = all.first().and_then(|(_, handler)| super::maker(heap, *handler));
        let objects: Vec<Addr> = all.iter().map(|(promise, _)| Addr::new(*promise)).collect();
        let text = format!(
            "{} are pending; each goes on in {}{}.",
            count(all.len() as u64, "promise"),
            super::function_text(heap, shared, made),
            by_others(outside, &objects)
        );
        out.push(of_promises(
            heap,
            shared,
            (text, "reactions of promises that are not settled"),
            &objects,
            outside,
            retained,
        ));
    }
    out
}

/// Returns a sentence on how many of some promises timers, sockets or other handles will settle.
fn by_others(outside: &HashSet<u64>, promises: &[Addr]) -> String {
    let number = promises.iter().filter(|promise| outside.contains(&promise.get())).count() as u64;
    match number {
        0 => String::new(),
        n if n == promises.len() as u64 => "; timers, sockets or other handles will settle them".to_owned(),
        n => format!("; timers, sockets or other handles will settle {} of them", exact(n)),
    }
}

/// Returns the finding on pending promises, with what they retain.
fn of_promises(
    heap: &Heap<'_>,
    shared: u64,
    (text, evidence): (String, &'static str),
    objects: &[Addr],
    outside: &HashSet<u64>,
    retained: Option<&dyn RetainedSizes>,
) -> Finding {
    let mut finding = Finding::new("async-chains", Severity::Info, text, evidence).known(Confidence::Exact);
    finding.bytes = retained.map(|sizes| sizes.sum_of(objects));
    // Only the program itself can settle the others.
    let own = objects.iter().find(|promise| !outside.contains(&promise.get()));
    let example = own.or(objects.first()).copied().unwrap_or(Addr::NULL);
    let finding = finding.within("managed-heap").more(format!("gcroot {example}"));
    let finding = if own.is_some() { finding.held(example, SETTLES) } else { finding };
    finding.fingerprinted(heap.vm.function_name(shared))
}
