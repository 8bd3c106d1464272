//! Async functions that wait: the generator of each, and the promise that it awaits.
//!
//! A generator lives by the promise that it awaits. The promise has reactions with a function that resumes the
//! generator, which is in the extension of that function's context. Sources: js-generator.tq, promise.tq,
//! builtins-async-gen.cc.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::limits;
use crate::map::Confidence;
use crate::runtimes::v8::census::{Census, is_own};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::vm::{count as number, smi};
use crate::units::count;

/// Offsets in a generator (JSGeneratorObject).
mod generator {
    pub(super) const FUNCTION: u64 = 24;
    pub(super) const CONTEXT: u64 = 32;
    /// Offset of the bytecode to go on at. Negative if it runs or has ended.
    pub(super) const CONTINUATION: u64 = 64;
    pub(super) const REGISTERS: u64 = 72;
}

/// Offsets in a promise where its reactions may be: embedder fields precede them in some versions.
const REACTIONS: [u64; 2] = [24, 32];

/// Offsets in a PromiseReaction: the next one, and the functions for both outcomes.
mod reaction {
    pub(super) const NEXT: u64 = 8;
    pub(super) const HANDLERS: [u64; 2] = [16, 24];
}

/// Offset of the extension in a context.
const EXTENSION: u64 = 32;

/// Maximum number of reactions of a promise that are read.
const MAX_REACTIONS: usize = 64;

/// Minimum number of suspended calls of one function to be reported.
const MANY: u64 = 1000;

/// Maximum number of words of a generator in which objects are searched.
const MAX_REGISTERS: u64 = 1024;

/// A suspended call of an async function.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtimes::v8) struct Pending {
    pub generator: u64,
    /// SharedFunctionInfo of the function.
    pub shared: u64,
    /// The promise that it awaits. `None` if it was not found.
    pub promise: Option<u64>,
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
            out.push(Pending { generator: at, shared, promise: None });
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
            for handler in reaction::HANDLERS.iter().filter_map(|offset| vm.object(reaction, *offset)) {
                let context =
                    vm.is_function(handler).then(|| vm.object(handler, vm.offsets.function_context)).flatten();
                let resumed = context.and_then(|context| vm.object(context, EXTENSION));
                if let Some(found) = resumed.and_then(|at| out.get_mut(*places.get(&at)?)) {
                    found.promise = Some(promise);
                }
            }
            at = vm.object(reaction, reaction::NEXT).filter(|next| vm.is(*next, "PROMISE_REACTION"));
        }
    }
    out
}

/// Returns the objects of `wanted` that a suspended call has in its variables.
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

/// Returns a finding for each function with many suspended calls.
pub(super) fn findings(heap: &Heap<'_>, all: &[Pending]) -> Vec<Finding> {
    let mut by_function: BTreeMap<u64, Vec<&Pending>> = BTreeMap::new();
    all.iter().for_each(|pending| by_function.entry(pending.shared).or_default().push(pending));
    let mut out = Vec::new();
    for (shared, calls) in by_function.into_iter().filter(|(_, calls)| calls.len() as u64 >= MANY) {
        let promises: HashSet<u64> = calls.iter().filter_map(|call| call.promise).collect();
        let awaited = match promises.len() as u64 {
            0 => String::new(),
            1 => ", all for one promise".to_owned(),
            n => format!(", for {} that are pending", count(n, "promise")),
        };
        let text = format!(
            "{} of async function {} are suspended at an await{awaited}.",
            count(calls.len() as u64, "call"),
            super::function_text(heap, shared, None)
        );
        let finding =
            Finding::new("async-chains", Severity::Info, text, "generators of async functions that have not ended");
        let example = calls.first().map_or(Addr::NULL, |call| Addr::new(call.promise.unwrap_or(call.generator)));
        let print = heap.vm.function_name(shared);
        out.push(finding.known(Confidence::Exact).more(format!("gcroot {example}")).fingerprinted(print));
    }
    out
}
