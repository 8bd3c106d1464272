//! Static variables that reference objects, by name.
//!
//! Each type with such statics has a cell (section 201) that refers to an object with them. Their owners are in symbols
//! (`__GCSTATICS…`) and, for part of the generic types, in section 334; fields have names in the debug file. The thread
//! statics of all types that are no shared generic code are in one object of each thread, in which each type has an
//! offset; others have an index in the thread's array. Types that were made at run time refer to both themselves.
//!
//! Sources: tools/aot/ILCompiler.Compiler (GCStaticsNode, ThreadStaticsNode, TypeThreadStaticIndexNode,
//! GenericStaticBaseInfoNode); System.Private.CoreLib: Internal/Runtime/ThreadStatics.cs.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::Addr;
use crate::bytes::printable;
use crate::limits;
use crate::phase::Phase;
use crate::runtimes::api::{NamedStatics, StaticRoot};
use crate::runtimes::clr_gc::{is_library, with_kind};
use crate::runtimes::nativeaot::generics;
use crate::runtimes::nativeaot::heap::Heap;
use crate::runtimes::nativeaot::metadata::relative;
use crate::runtimes::nativeaot::static_names::{StaticNames, TypeStatics};
use crate::runtimes::nativeaot::threads::RefOrigin;

/// Offset of an array's first element.
const ELEMENTS: u64 = 16;

/// Static variables of a runtime.
#[derive(Debug, Default)]
pub(super) struct Statics {
    /// Names by the address of the variable.
    pub(super) names: HashMap<Addr, Arc<str>>,
    /// Addresses of variables that belong to no thread.
    shared: Vec<Addr>,
    /// Objects that contain them.
    containers: Vec<Addr>,
}

impl Statics {
    pub(super) fn read(heap: &Heap<'_>) -> Statics {
        let runtime = heap.runtime();
        let _phase = runtime.process.enter(Phase::Types);
        let mut out = Statics::default();
        let names = StaticNames::read(heap.names());
        out.compiled(heap, &names);
        out.made_at_run_time(heap);
        out.of_threads(heap, &names);
        out.shared.sort_unstable();
        out
    }

    /// Adds the variables of one object. `own`: names for their type.
    fn add(&mut self, heap: &Heap<'_>, base: Addr, word: &str, own: &TypeStatics) {
        for (offset, _) in heap.references_of(base) {
            let name = match own.field(offset) {
                Some((field, 0)) => format!("{word} {}.{field}", own.owner),
                Some((field, more)) => format!("{word} {}.{field}+{more:#x}", own.owner),
                None => format!("{word} {}+{offset:#x}", own.owner),
            };
            let at = base.saturating_add(offset);
            self.names.insert(at, printable(&name).as_ref().into());
            if word == SHARED {
                self.shared.push(at);
            }
        }
        self.containers.push(base);
    }

    /// Statics of types that the compiler made, row by row.
    fn compiled(&mut self, heap: &Heap<'_>, names: &StaticNames) {
        let (bases, spine) = compiled_bases(heap);
        for CompiledBase { row, cell, base } in bases {
            let unnamed = || TypeStatics::of(format!("(row {row} of the program's statics)"));
            let own = names.of_cell(cell).cloned().unwrap_or_else(unnamed);
            self.add(heap, base, SHARED, &own);
        }
        self.containers.extend(spine.into_iter().flat_map(|(outer, inner)| [outer, inner]));
    }

    fn made_at_run_time(&mut self, heap: &Heap<'_>) {
        for (address, found) in dynamic_types(heap) {
            let Some(slot) = found.slot else { continue };
            let Some(base) = heap.runtime().memory().ptr(slot).ok().filter(|base| is_base(heap, *base)) else {
                continue;
            };
            let own = TypeStatics::of(heap.names().of(address));
            self.add(heap, base, SHARED, &own);
        }
    }

    fn of_threads(&mut self, heap: &Heap<'_>, names: &StaticNames) {
        let runtime = heap.runtime();
        let mut by_index: HashMap<i64, String> = names.indices().clone();
        for (address, found) in dynamic_types(heap) {
            if let Some(index) = found.thread_index {
                by_index.entry(index).or_insert_with(|| heap.names().of(address));
            }
        }
        let element = |array: Addr, i: u64| runtime.memory().ptr(array.saturating_add(ELEMENTS + 8 * i)).ok();
        let count = |array: Addr| u64::from(runtime.memory().u32(array.saturating_add(8)).unwrap_or(0));
        // The first array is of the program's own TypeManager.
        let mut left = limits::MAX_AOT_THREAD_NODES as u64;
        for found in heap.threads().all.iter().flat_map(|thread| &thread.refs) {
            match found.origin {
                RefOrigin::InlinedStatics => self.inlined(heap, found.object, names),
                RefOrigin::Statics => {
                    let Some(array) = element(found.object, 0).filter(|_| count(found.object) > 0) else { continue };
                    for k in (0..count(array)).take(left as usize) {
                        left = left.saturating_sub(1);
                        let base = element(array, k).filter(|base| is_base(heap, *base));
                        let owner = i64::try_from(k).ok().and_then(|k| by_index.get(&k));
                        if let Some((base, owner)) = base.zip(owner) {
                            let own = TypeStatics::of(owner.clone());
                            self.add(heap, base, OF_THREAD, &own);
                        }
                    }
                }
                RefOrigin::Exception | RefOrigin::Frame => {}
            }
        }
    }

    /// Thread statics in the object that all types share: each type has an offset.
    fn inlined(&mut self, heap: &Heap<'_>, base: Addr, names: &StaticNames) {
        for (offset, _) in heap.references_of(base) {
            let Some((start, end, own)) = names.inlined(offset) else { continue };
            let place = base.saturating_add(offset);
            let field = own.thread_field(end.map(|end| end - start));
            let name = match field {
                Some(field) => format!("{OF_THREAD} {}.{field}", own.owner),
                None => format!("{OF_THREAD} {}+{:#x}", own.owner, offset - start),
            };
            self.names.insert(place, printable(&name).as_ref().into());
        }
        self.containers.push(base);
    }

    /// The variables as roots, without those of threads.
    pub(super) fn named(&self, heap: &Heap<'_>) -> NamedStatics {
        let mut out = NamedStatics { containers: self.containers.clone(), ..NamedStatics::default() };
        for &at in &self.shared {
            let Some(name) = self.names.get(&at) else { continue };
            let object = heap.runtime().memory().ptr(at).ok().filter(|object| !object.is_null());
            let library = is_library(name.trim_start_matches(SHARED).trim_start());
            out.roots.extend(object.map(|object| StaticRoot { name: with_kind(name), object, library }));
        }
        out
    }
}

/// The object with the statics of one type that the compiler made.
pub(super) struct CompiledBase {
    row: usize,
    /// The cell that refers to it.
    pub(super) cell: Addr,
    pub(super) base: Addr,
}

/// The objects of section 201, and the two arrays that keep them alive.
pub(super) fn compiled_bases(heap: &Heap<'_>) -> (Vec<CompiledBase>, Option<(Addr, Addr)>) {
    let runtime = heap.runtime();
    let Some((at, rows)) = heap.names().sections().and_then(|all| all.bytes(runtime, "GcStatics")) else {
        return (Vec::new(), None);
    };
    let count = rows.len() / 4;
    // An array keeps all of them alive, in the order of the rows. It counts where the cells are not in the core.
    let spine = spine(heap, count as u64);
    let of_row = |row: usize| {
        let cell = relative(at, &rows, row.checked_mul(4)?)?;
        let in_cell = runtime.memory().ptr(cell).ok().filter(|base| is_base(heap, *base));
        if let Some(base) = in_cell {
            return Some(CompiledBase { row, cell, base });
        }
        let place = spine.as_ref()?.1.saturating_add(ELEMENTS + 8 * row as u64);
        let base = runtime.memory().ptr(place).ok().filter(|base| is_base(heap, *base))?;
        Some(CompiledBase { row, cell, base })
    };
    ((0..count).filter_map(of_row).collect(), spine)
}

/// Words before the name of a variable.
const SHARED: &str = "static";
const OF_THREAD: &str = "thread static";

/// Whether the object at `at` contains statics: its type has no class.
fn is_base(heap: &Heap<'_>, at: Addr) -> bool {
    !at.is_null() && heap.is_static_base(at)
}

/// The array of all static bases, of which there are `count`, and the array with one element that a handle refers to.
fn spine(heap: &Heap<'_>, count: u64) -> Option<(Addr, Addr)> {
    let memory = heap.runtime().memory();
    let length = |at: Addr| memory.u32(at.saturating_add(8)).map(u64::from).ok();
    let inner = |outer: Addr| {
        let inner = memory.ptr(outer.saturating_add(ELEMENTS)).ok()?;
        (length(inner)? == count && is_base(heap, memory.ptr(inner.saturating_add(ELEMENTS)).ok()?)).then_some(inner)
    };
    let strong = heap.strong().iter().filter(|outer| length(**outer) == Some(1));
    strong.take(limits::MAX_BOOKKEEPING_TRIES).find_map(|&outer| Some((outer, inner(outer)?)))
}

/// Types that were made at run time and have objects, with their statics.
fn dynamic_types(heap: &Heap<'_>) -> Vec<(Addr, generics::OwnStatics)> {
    // The walk of the heap meets all types.
    heap.census();
    let runtime = heap.runtime();
    heap.type_addresses()
        .into_iter()
        .filter_map(|(at, flags)| Some((at, generics::own_statics(runtime, at, flags)?)))
        .collect()
}
