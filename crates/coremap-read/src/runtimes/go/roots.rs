//! Roots: package variables, stacks of goroutines, and arguments of finalizers.
//!
//! Source: runtime/mgcmark.go. The linker writes a mask of pointers for the variables. Stacks are read word by word, so
//! the target of a dead variable counts too. There may be too many roots, never too few.

use std::collections::{BTreeMap, HashSet};

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::native::{NativeSymbol, NativeSymbols};
use crate::runtimes::api::{NamedStatics, Root, RootKind, Roots, StaticRoot};
use crate::runtimes::go::Go;
use crate::runtimes::go::code::is_program;
use crate::runtimes::go::heap::GoHeap;
use crate::runtimes::go::record::Record;

/// A package variable.
const VARIABLE: RootKind = RootKind::Of(0, "variable");

/// Maximum number of addresses that variables point at, and maximum number of steps from variable to variable.
const MAX_TARGETS: usize = 1 << 20;
const MAX_STATIC_STEPS: usize = 4;

/// Maximum size of a static struct without a symbol, in bytes.
const MAX_STATIC: u64 = 4096;

/// Symbols of the linker for bounds of sections, which are no variables.
const MARKERS: [&str; 8] = [
    "runtime.bss",
    "runtime.ebss",
    "runtime.data",
    "runtime.edata",
    "runtime.noptrbss",
    "runtime.enoptrbss",
    "runtime.noptrdata",
    "runtime.enoptrdata",
];

/// Beginning of the names of the runtime's own packages.
const RUNTIME: &str = "runtime.";

pub(super) fn roots(go: &Go<'_>) -> Roots {
    let mut out = Roots::default();
    let Some(heap) = go.objects() else { return out };
    for (at, object) in variables(go, heap) {
        out.all.push(Root::new(VARIABLE, at, object));
    }
    let runtime = go.runtime();
    let mut seen = HashSet::new();
    for g in &go.list().all {
        seen.clear();
        each_word(runtime.memory(), g.used_stack(), |at, word| {
            if let Some(object) = heap.object_at(word).filter(|object| seen.insert(*object)) {
                out.all.push(Root { interior: true, ..Root::new(RootKind::StackWord, at, object) });
            }
        });
    }
    for thread in runtime.process.threads() {
        for (register, value) in thread.registers.known() {
            if let Some(object) = heap.object_at(Addr::new(value)) {
                let root = Root::new(RootKind::StackWord, thread.registers.sp(), object);
                out.all.push(Root { thread: Some(thread.tid), register: Some(register), interior: true, ..root });
            }
        }
    }
    out.stacks.threads = go.list().all.len() as u64;
    out
}

/// Addresses of the variables that lead to objects, and the objects.
fn variables(go: &Go<'_>, heap: &GoHeap<'_>) -> Vec<(Addr, Addr)> {
    let runtime = go.runtime();
    let (memory, sections) = (runtime.memory(), &runtime.proof.sections);
    let shape = &runtime.shape().module;
    let module = Record::read(memory, runtime.found.at, shape.size);
    let mut out = Vec::new();
    for (section, mask) in [(sections.data, shape.gcdatamask), (sections.bss, shape.gcbssmask)] {
        let bits = module.as_ref().map_or(0, |r| u64::from(r.u32(mask)));
        let bytes = module.as_ref().and_then(|r| Record::look(memory, r.ptr(mask + 8), bits.div_ceil(8)));
        each_word(memory, section, |at, word| {
            let i = at.since(section.start) / 8;
            // Without the program's file there is no mask, and every word counts as a pointer.
            let is_pointer = bytes.as_ref().is_none_or(|bytes| bytes.u8(i / 8) >> (i % 8) & 1 != 0);
            if let Some(object) = heap.object_at(word).filter(|_| is_pointer) {
                out.push((at, object));
            }
        });
    }
    out
}

/// Returns the variables with their names.
pub(super) fn named(go: &Go<'_>) -> NamedStatics {
    let Some(heap) = go.objects() else { return NamedStatics::default() };
    let symbols = NativeSymbols::new(go.runtime().process);
    let module = go.runtime().build.module.as_deref();
    let targets = static_targets(go);
    let root = |(at, object): (Addr, Addr)| {
        let (at, symbol, inside) = owner(&symbols, &targets, at);
        let library = symbol.as_ref().is_some_and(|symbol| !is_program(&symbol.name, module));
        let of_runtime = symbol.as_ref().is_some_and(|symbol| symbol.name.starts_with(RUNTIME));
        let name = match &symbol {
            // The struct that a variable points at is static too.
            Some(symbol) if inside => format!("variable {}", symbol.name),
            Some(symbol) if symbol.offset == 0 => format!("variable {}", symbol.name),
            Some(symbol) => format!("variable {}+{:#x}", symbol.name, symbol.offset),
            None => format!("variable at {at}"),
        };
        // The runtime's bookkeeping reaches everything.
        (!of_runtime).then(|| StaticRoot { name: name.into(), object, library })
    };
    NamedStatics { roots: variables(go, heap).into_iter().filter_map(root).collect(), containers: Vec::new() }
}

/// Returns addresses within the variables that variables point at, each with the address of one that points at it.
fn static_targets(go: &Go<'_>) -> BTreeMap<Addr, Addr> {
    let runtime = go.runtime();
    let sections = [runtime.proof.sections.data, runtime.proof.sections.bss];
    // `moduledata` has the bounds of the sections, where the first variables are.
    let module = AddrRange::sized(runtime.found.at, runtime.shape().module.size);
    let mut out = BTreeMap::new();
    for section in sections {
        each_word(runtime.memory(), section, |at, word| {
            if module.contains(at) {
                return;
            }
            if sections.iter().any(|section| section.contains(word)) && out.len() < MAX_TARGETS {
                out.entry(word).or_insert(at);
            }
        });
    }
    out
}

/// Returns the variable that a word belongs to: its address and symbol. The last value is true if the variable points
/// at the word's struct. The struct of `var x = &T{}` is in memory without a symbol.
fn owner(
    symbols: &NativeSymbols<'_>,
    targets: &BTreeMap<Addr, Addr>,
    word: Addr,
) -> (Addr, Option<NativeSymbol>, bool) {
    let (mut at, mut inside) = (word, false);
    for _ in 0..MAX_STATIC_STEPS {
        let symbol = symbols.resolve_data(at);
        let symbol = symbol.filter(|symbol| !MARKERS.contains(&&*symbol.name));
        let named = symbol.as_ref().filter(|symbol| !symbol.name.contains("..stmp_"));
        let distance = named.map(|symbol| symbol.offset);
        let target = targets.range(..=at).next_back().filter(|(target, _)| {
            let behind = at.since(**target);
            behind < MAX_STATIC && distance.is_none_or(|offset| behind < offset)
        });
        match target {
            Some((_, holder)) if *holder != at => (at, inside) = (*holder, true),
            _ => return (at, symbol, inside),
        }
    }
    (at, symbols.resolve_data(at), inside)
}

fn each_word(memory: &dyn Memory, range: AddrRange, mut visit: impl FnMut(Addr, Addr)) {
    for part in memory.readable_parts(range, limits::MAX_STACK_SCAN) {
        let start = part.start.align_up(8);
        let Some(len) = part.end.checked_since(start) else { continue };
        let Some(words) = Record::look(memory, start, len) else { continue };
        for (i, word) in (0u64..).zip(words.bytes().as_chunks::<8>().0) {
            visit(start.saturating_add(8 * i), Addr::new(u64::from_le_bytes(*word)));
        }
    }
}
