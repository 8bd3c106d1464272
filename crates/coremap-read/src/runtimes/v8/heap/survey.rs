//! The first walk over all pages: sizes and areas that no structure records, and the objects from which other analyses
//! start.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::addr::AddrRange;
use crate::limits;
use crate::memory::window::Window;
use crate::runtimes::api::linear::LinearWalker;
use crate::runtimes::api::{HeapRange, Object, TypeIndex, UnwalkedRanges, Walker as _};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::heap::sizes::{self, SizeRule};
use crate::runtimes::v8::heap::types::Category;
use crate::runtimes::v8::text::form;
use crate::runtimes::v8::vm::{MapInfo, Vm, strong};

/// Maximum share of the heap, per thousand, in areas that no known allocator reserved. With more, the heap is damaged,
/// and the areas are reported as lost.
const MAX_GAPS: u64 = 50;

/// Number of pages that [`in_step`] walks.
const SAMPLE: usize = 256;

/// Kinds of objects that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    EphemeronTable,
    ArrayBuffer,
    ExternalString,
    Code,
    Shared,
    Context,
}

/// Results of the first walk. All lists are sorted by address.
#[derive(Default)]
pub(in crate::runtimes::v8) struct Survey {
    /// Areas without objects, except those of known allocators.
    pub gaps: Vec<AddrRange>,
    /// Sizes of objects without a formula.
    pub sizes: Vec<(u64, u64)>,
    pub ephemeron_tables: Vec<u64>,
    pub array_buffers: Vec<u64>,
    pub external_strings: Vec<u64>,
    /// Objects with instructions.
    pub code: Vec<u64>,
    /// SharedFunctionInfos.
    pub shared: Vec<u64>,
    /// Contexts of functions and blocks.
    pub contexts: Vec<u64>,
}

/// Results of one thread.
#[derive(Default)]
struct Share {
    known: Vec<Option<Option<Listed>>>,
    found: Survey,
}

impl Survey {
    pub(super) fn read(heap: &Heap<'_>) -> Survey {
        let fresh = || (LinearWalker::new(heap), Share::default());
        let walk = |state, part: &HeapRange| walk(heap, state, part);
        // A rayon worker that waits for others may run a task that itself waits for this walk.
        let shares: Vec<Survey> = if rayon::current_thread_index().is_some() {
            vec![heap.parts.iter().fold(fresh(), walk).1.found]
        } else {
            heap.parts.par_iter().fold(fresh, walk).map(|(_, share)| share.found).collect()
        };
        let mut out = Survey::default();
        for share in shares {
            out.gaps.extend(share.gaps);
            out.sizes.extend(share.sizes);
            out.ephemeron_tables.extend(share.ephemeron_tables);
            out.array_buffers.extend(share.array_buffers);
            out.external_strings.extend(share.external_strings);
            out.code.extend(share.code);
            out.shared.extend(share.shared);
            out.contexts.extend(share.contexts);
        }
        let bytes = |ranges: &[AddrRange]| ranges.iter().map(AddrRange::len).fold(0, u64::saturating_add);
        let whole = heap.parts.iter().map(|part| part.range.len()).fold(0, u64::saturating_add);
        if bytes(&out.gaps).saturating_mul(1000) > whole.saturating_mul(MAX_GAPS) {
            out.gaps.clear();
        }
        for list in [
            &mut out.ephemeron_tables,
            &mut out.array_buffers,
            &mut out.external_strings,
            &mut out.code,
            &mut out.shared,
            &mut out.contexts,
        ] {
            list.sort_unstable();
            list.truncate(limits::MAX_V8_LISTED);
        }
        out
    }
}

/// A walker with its results so far.
type Walking<'h, 'p> = (LinearWalker<'h, Heap<'p>>, Share);

fn walk<'h, 'p>(heap: &'h Heap<'p>, state: Walking<'h, 'p>, part: &HeapRange) -> Walking<'h, 'p> {
    let (mut walker, mut share) = state;
    let mut unwalked = UnwalkedRanges::default();
    walker.walk(part, &mut unwalked, &mut |object| share.note(heap, object));
    for lost in &unwalked.listed {
        share.lost(heap, lost.range);
    }
    (walker, share)
}

impl Share {
    fn note(&mut self, heap: &Heap<'_>, object: &Object) {
        let number = object.kind.0 as usize;
        if number >= self.known.len() {
            self.known.resize(number.saturating_add(1024), None);
        }
        let Some(known) = self.known.get_mut(number) else { return };
        let at = object.addr.get();
        let found = &mut self.found;
        match *known.get_or_insert_with(|| listed(heap, object.kind)) {
            None => {}
            Some(Listed::EphemeronTable) => found.ephemeron_tables.push(at),
            Some(Listed::ArrayBuffer) => found.array_buffers.push(at),
            Some(Listed::ExternalString) => found.external_strings.push(at),
            Some(Listed::Code) => found.code.push(at),
            Some(Listed::Shared) => found.shared.push(at),
            Some(Listed::Context) => found.contexts.push(at),
        }
    }

    /// Records a range that could not be walked: as the size of an object if its type has no size formula, else as a
    /// gap.
    fn lost(&mut self, heap: &Heap<'_>, range: AddrRange) {
        let at = range.start.get();
        if heap.vm.word(at).is_none() {
            return;
        }
        let entry = heap.vm.word(at).and_then(strong).and_then(|map| heap.known.map(&heap.vm, map));
        match entry {
            Some(entry) if entry.rule == SizeRule::Unknown => self.found.sizes.push((at, range.len())),
            _ => self.found.gaps.push(range),
        }
    }
}

fn listed(heap: &Heap<'_>, kind: TypeIndex) -> Option<Listed> {
    let row = heap.known.get(kind)?;
    let is = |name: &str| heap.vm.types.is(row.number, name);
    match row.category {
        Category::Object if is("JS_ARRAY_BUFFER") => Some(Listed::ArrayBuffer),
        Category::OtherString if row.number & form::MASK == form::EXTERNAL => Some(Listed::ExternalString),
        Category::Array if is("EPHEMERON_HASH_TABLE") => Some(Listed::EphemeronTable),
        Category::Internal if is("INSTRUCTION_STREAM") => Some(Listed::Code),
        Category::Internal if is("CODE") && heap.vm.types.get("INSTRUCTION_STREAM").is_none() => Some(Listed::Code),
        Category::Internal if is("SHARED_FUNCTION_INFO") => Some(Listed::Shared),
        Category::Internal if heap.vm.is_context_type(row.number) => Some(Listed::Context),
        _ => None,
    }
}

/// Walks a sample of pages with nothing but the form. Returns the number of objects, and the number of those that no
/// object follows.
pub(in crate::runtimes::v8) fn in_step(vm: &Vm<'_>) -> (u64, u64) {
    let is_steady = |space: &str| matches!(space, "old_space" | "read_only_space" | "map_space");
    let pages: Vec<_> = vm.pages.iter().filter(|page| is_steady(vm.space_name(page.space))).collect();
    let step = pages.len().div_ceil(SAMPLE).max(1);
    let mut maps: HashMap<u64, Option<(MapInfo, SizeRule)>> = HashMap::new();
    let mut look = |word: u64| {
        let map = strong(word)?;
        *maps.entry(map).or_insert_with(|| vm.map(map).map(|info| (info, sizes::rule(vm, &info))))
    };
    let (mut steps, mut breaks) = (0_u64, 0_u64);
    for page in pages.into_iter().step_by(step) {
        for window in Window::all(vm.process.target(), page.area).into_iter().take(1) {
            let mut at = page.area.start.get();
            while at < window.end {
                let Some((_, rule)) = window.word(at).and_then(&mut look) else { break };
                // An object without a formula is no evidence for or against the form.
                if rule == SizeRule::Unknown {
                    break;
                }
                let Some(size) = rule.size(vm, &window, at) else {
                    breaks += 1;
                    break;
                };
                at = at.saturating_add(size);
                steps += 1;
                // Zeros begin the unused part of an allocator's area.
                let is_end = at == window.end || window.word(at) == Some(0);
                if !is_end && window.word(at).and_then(&mut look).is_none() {
                    breaks += 1;
                }
            }
        }
    }
    (steps, breaks)
}
