//! Timers that are active, by callback and period.

use std::collections::BTreeMap;

use crate::addr::Addr;
use crate::facts::{Finding, Severity};
use crate::limits;
use crate::map::Confidence;
use crate::runtimes::api::{Heap as _, RetainedSizes};
use crate::runtimes::v8::census::{Census, boolean, function_text, is_own, kept, maker, stores_below, unbound};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::vm::{smi, strong};
use crate::units::{count, exact, round};

/// Minimum number of timers with one callback for a finding.
const MANY: usize = 1000;

/// Maximum number of steps from an object of the program to memory that it owns.
const DEPTH: usize = 4;

/// Whether a timer is active, which means not destroyed.
pub(super) fn is_active(heap: &Heap<'_>, timer: u64) -> bool {
    heap.vm.own(timer, "_destroyed").and_then(|word| boolean(&heap.vm, word)) == Some(false)
}

/// Returns the arguments that a timer's callback will get.
pub(super) fn arguments(heap: &Heap<'_>, timer: u64) -> Vec<u64> {
    let array = heap.vm.own(timer, "_timerArgs").and_then(strong).filter(|array| heap.vm.is(*array, "JS_ARRAY"));
    let elements = array.and_then(|array| heap.vm.object(array, heap.vm.offsets.elements));
    let words = elements.map(|at| heap.vm.words(at.wrapping_add(16), MAX_ARGUMENTS)).unwrap_or_default();
    words.into_iter().filter_map(strong).collect()
}

/// Maximum number of arguments of a callback that are read.
const MAX_ARGUMENTS: u64 = 8;

/// Returns a finding for each callback with many active timers.
pub(super) fn findings(heap: &Heap<'_>, census: &Census, retained: Option<&dyn RetainedSizes>) -> Vec<Finding> {
    // Timers grouped by callback, period in milliseconds, and whether they repeat.
    let mut groups: BTreeMap<(u64, i64, bool), Vec<(u64, u64)>> = BTreeMap::new();
    for &timer in &census.timers {
        let word = |name: &str| heap.vm.own(timer, name);
        if !is_active(heap, timer) {
            continue;
        }
        let Some(callback) = word("_onTimeout").and_then(strong) else { continue };
        let shared = unbound(&heap.vm, callback).and_then(|function| heap.vm.shared(function));
        let Some(shared) = shared.filter(|shared| is_own(heap, *shared)) else { continue };
        let period = word("_idleTimeout").and_then(smi).unwrap_or(-1);
        let repeats = word("_repeat").and_then(smi).is_some();
        groups.entry((shared, period, repeats)).or_default().push((timer, callback));
    }
    let mut out = Vec::new();
    for ((shared, period, repeats), timers) in groups.into_iter().filter(|(_, timers)| timers.len() >= MANY) {
        let closures: Vec<u64> = timers.iter().map(|(_, callback)| *callback).collect();
        let made = closures.first().and_then(|closure| maker(heap, *closure));
        let objects: Vec<Addr> = timers.iter().map(|(timer, _)| Addr::new(*timer)).collect();
        let mut arguments: Vec<u64> = timers.iter().flat_map(|(timer, _)| arguments(heap, *timer)).collect();
        // A store of AsyncLocalStorage is a property of the timer.
        let mut reader = heap.reader();
        for (timer, _) in &timers {
            reader.each(*timer, |_, to| {
                arguments.push(to);
                arguments.len() < limits::MAX_V8_LISTED
            });
        }
        let kept = kept(heap, &closures, &arguments);
        let own: Vec<Addr> = kept.iter().flat_map(|(.., objects)| objects.iter().copied()).collect();
        let bytes = retained.map(|sizes| sizes.sum_of(&objects).max(sizes.sum_of(&own)));
        let outside = stores_below(heap, &own, DEPTH);
        let bytes = bytes.map(|bytes| bytes.saturating_add(outside));
        let keep = kept.first().map_or_else(String::new, |(name, n, _)| {
            let size = bytes.map_or_else(String::new, |bytes| format!(": {}", round(bytes)));
            format!(" They keep {} {name}{size}.", exact(*n))
        });
        let kind = if repeats { "interval" } else { "timer" };
        let text = format!(
            "{} of {} ms ({}) are active, with one callback: {}.{keep}",
            count(timers.len() as u64, kind),
            exact(period.max(0).unsigned_abs()),
            if repeats { "setInterval" } else { "setTimeout" },
            function_text(heap, shared, made),
        );
        let evidence = "Timeout objects that are not destroyed, by callback and period";
        let mut finding = Finding::new("timers", Severity::Info, text, evidence).known(Confidence::Exact);
        finding.bytes = bytes;
        let print = heap.vm.function_name(shared);
        out.push(finding.within("managed-heap").more("objects --type '^Timeout'").fingerprinted(print));
    }
    out
}
