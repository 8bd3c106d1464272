//! Promises that timers, sockets and other handles will settle, because their callbacks lead to the functions that
//! settle.
//!
//! Only functions, their variables and promises are followed. Collections are not: if a program stores a promise in one
//! to settle it later, only the program can settle it. Variables of modules are not followed either, because all
//! closures of a module share them.

use std::collections::HashSet;

use crate::runtimes::api::{Heap as _, Link, ObjectReader, TypeRole};
use crate::runtimes::v8::census::async_functions::{REACTIONS, generator, parts};
use crate::runtimes::v8::census::timers::{arguments, is_active};
use crate::runtimes::v8::census::{Census, unbound};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::roots::handle_objects;
use crate::runtimes::v8::vm::strong;

/// Maximum number of objects visited.
const MAX_STEPS: usize = 1 << 20;

/// Offset in a context of the outer context.
const PREVIOUS: u64 = 24;

/// Returns the promises that something outside of JavaScript will settle, directly or through other promises. The
/// search runs once.
pub(super) fn outside<'c>(heap: &Heap<'_>, census: &'c Census) -> &'c HashSet<u64> {
    census.settled_outside.get_or_init(|| find(heap, census))
}

fn find(heap: &Heap<'_>, census: &Census) -> HashSet<u64> {
    let vm = &*heap.vm;
    let mut reader = heap.reader();
    let mut open = Vec::new();
    for &timer in census.timers.iter().filter(|timer| is_active(heap, **timer)) {
        open.extend(vm.own(timer, "_onTimeout").and_then(strong));
        open.extend(arguments(heap, timer));
    }
    for &emitter in &census.emitters {
        // Only sockets, requests and servers of Node.js itself.
        let is_library = reader.node(emitter).is_some_and(|node| heap.role(node.kind) != TypeRole::Program);
        let Some(table) = vm.own(emitter, "_events").and_then(strong).filter(|_| is_library) else { continue };
        callbacks(heap, &mut *reader, table, &mut open);
    }
    for object in handle_objects(vm) {
        reader.each(object, |_, to| {
            open.push(to);
            open.len() < MAX_STEPS
        });
    }
    follow(heap, &mut *reader, open)
}

/// Adds the functions in a table of events. They are its values, or elements of arrays that are its values.
fn callbacks(heap: &Heap<'_>, reader: &mut dyn ObjectReader, table: u64, open: &mut Vec<u64>) {
    let vm = &*heap.vm;
    let mut lists = Vec::new();
    reader.each(table, |_, to| {
        match vm.is(to, "JS_ARRAY") || vm.is(to, "NAME_DICTIONARY") {
            true => lists.push(to),
            false => open.push(to),
        }
        open.len() < MAX_STEPS
    });
    for list in lists {
        let elements = vm.object(list, vm.offsets.elements).filter(|_| vm.is(list, "JS_ARRAY")).unwrap_or(list);
        reader.each(elements, |_, to| {
            open.push(to);
            open.len() < MAX_STEPS
        });
    }
}

/// Returns the promises that functions reach.
fn follow(heap: &Heap<'_>, reader: &mut dyn ObjectReader, mut open: Vec<u64>) -> HashSet<u64> {
    let vm = &*heap.vm;
    let (mut out, mut seen) = (HashSet::new(), HashSet::new());
    while let Some(at) = open.pop() {
        if seen.len() >= MAX_STEPS || !seen.insert(at) {
            continue;
        }
        let Some(number) = vm.type_of(at) else { continue };
        if let Some(function) = unbound(vm, at) {
            open.extend(vm.object(function, vm.offsets.function_context));
        } else if vm.is_context_type(number) {
            if is_of_a_module(heap, at) {
                continue;
            }
            reader.each(at, |link, to| {
                if !matches!(link, Link::Field(offset) if offset <= PREVIOUS) {
                    open.push(to);
                }
                open.len() < MAX_STEPS
            });
        } else if vm.types.is(number, "JS_PROMISE") {
            out.insert(at);
            let first = REACTIONS.iter().filter_map(|offset| vm.object(at, *offset));
            open.extend(first.filter(|reaction| vm.is(*reaction, "PROMISE_REACTION")));
        } else if vm.types.is(number, "PROMISE_REACTION") {
            let (next, functions) = parts(vm, at);
            open.extend(next);
            open.extend(functions);
            reader.each(at, |_, to| {
                // The promise that this reaction settles.
                if vm.is(to, "JS_PROMISE") {
                    open.push(to);
                }
                open.len() < MAX_STEPS
            });
        } else if vm.types.is(number, "JS_ASYNC_FUNCTION_OBJECT") {
            open.extend(vm.object(at, generator::PROMISE).filter(|promise| vm.is(*promise, "JS_PROMISE")));
        }
    }
    out
}

/// Whether a context contains the variables of a module, or of the whole program.
fn is_of_a_module(heap: &Heap<'_>, context: u64) -> bool {
    let vm = &*heap.vm;
    let is_global = |number: u16| number == vm.native_context() || number == vm.script_context();
    if vm.type_of(context).is_some_and(is_global) {
        return true;
    }
    let scope = vm.object(context, 16).filter(|scope| vm.is(*scope, "SCOPE_INFO")).and_then(|scope| vm.scope(scope));
    // Contexts of V8's own functions have an empty scope.
    let Some(parts) = scope.filter(|parts| parts.is_function || parts.is_module) else { return false };
    let outer = vm.object(context, PREVIOUS).and_then(|outer| vm.type_of(outer));
    parts.is_module || parts.locals > 0 && parts.outer.is_none() && outer.is_some_and(is_global)
}
