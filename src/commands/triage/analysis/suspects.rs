//! Objects that retain much memory. The search goes down the dominator tree while one child retains nearly all that
//! its parent does, and stops where the memory spreads out (MAT's accumulation point).

use std::collections::BTreeMap;

use crate::addr::{Addr, AddrRange};
use crate::analysis::roots::{RuntimeRoots, path_row};
use crate::causes::holders::{LARGE as ARRAY, not_there, untouched};
use crate::commands::triage::analysis::budget::Budget;
use crate::map::Confidence;
use crate::report::{Finding, RootPathRow, Severity};
use crate::runtimes::api::{ObjectNames, Root, TypeIndex};
use crate::runtimes::graph::{Graph, Path, PathSearch, Retained};
use crate::session::Session;
use crate::sums::SaturatingSum;
use crate::units::{exact, round};

/// Minimum size of an object to be considered: in percent of all live objects, and in bytes.
const MIN_SHARE: u64 = 5;
const LEAST: u64 = 1 << 20;

/// Minimum share of all live objects that makes a finding a warning, in percent.
const MUCH: u64 = 10;

/// Minimum share of an object's retained bytes, in percent, of its large children for the search to continue below it.
const WAY: u64 = 50;

/// Maximum number of arrays that are checked for pages that were never written.
const ARRAYS: usize = 1 << 20;

/// Maximum number of suspects reported.
const MAX_SUSPECTS: usize = 5;

/// Maximum number of steps of a path that are named. A longer path is cut in the middle.
const STEPS: usize = 3;

/// An accumulation point, and the path to it from where it branched off.
#[derive(Debug, PartialEq, Eq)]
struct Suspect {
    /// Numbers of the objects on the path. The last is the accumulation point.
    way: Vec<u32>,
}

/// Maximum number of paths to an object that are checked for a static variable.
const WAYS: usize = 8;

/// Number of bytes of live objects that a search for such paths covers per second.
const SEARCHED: u64 = 200 << 20;

/// Text before the name of a static variable in the description of a field: `[93] (static App.Cache.All)`.
const STATIC: &str = "(static ";

/// Prefixes of the description of a field that is itself a static variable: `static App.CACHE`, `global app.CACHE`.
const OF_CLASS: [&str; 2] = ["static ", "global "];

/// Reports what retains most of the live objects.
pub(super) fn suspects(
    session: &Session<'_>,
    retained: &Retained<'_>,
    names: &mut ObjectNames<'_>,
    runtime_roots: &RuntimeRoots<'_>,
    budget: &mut Budget,
) -> Vec<Finding> {
    let total = retained.total.size;
    let least = (total / 100).saturating_mul(MIN_SHARE).max(LEAST);
    let large = (1..retained.live.len() as u32).filter(|&n| retained.bytes(n) >= least);
    let large = large.filter(|&n| retained.live.object(n).is_some());
    let large = large.map(|n| (n, retained.dominator(n), retained.bytes(n)));
    let mut found = gathered(large.collect(), |n| retained.kind(n));
    found.sort_by_key(|s| (std::cmp::Reverse(s.way.first().map_or(0, |&n| retained.bytes(n))), s.way.first().copied()));
    found.truncate(MAX_SUSPECTS);
    let mut out = Vec::new();
    let mut objects = Vec::new();
    let absent = absent(session, retained, names, &found);
    let not_there = not_there(session);
    // If some roots were not read, an unreached object may be alive.
    let whole = if runtime_roots.not_read.is_empty() { "live objects" } else { "reached objects" };
    for (suspect, absent) in found.iter().zip(absent) {
        let Some(mut finding) = sentence(suspect, retained, names, (total, whole), (absent, not_there)) else {
            continue;
        };
        if !runtime_roots.not_read.is_empty() {
            finding.evidence.push_str(&format!("; not read: {}", runtime_roots.not_read.join(", ")));
        }
        out.push(finding);
        objects.push(suspect.way.first().and_then(|&n| retained.live.object(n)));
    }
    if out.is_empty() {
        return out;
    }
    let cost = (total.saturating_mul(out.len() as u64), SEARCHED);
    let roots = budget.run(session, "roots of the largest retainers", cost, |_| {
        objects.into_iter().map(|object| root(object?, retained, names, runtime_roots)).collect::<Vec<_>>()
    });
    for (finding, root) in out.iter_mut().zip(roots.into_iter().flatten()) {
        finding.evidence.extend(root.map(|root| format!(". Root: {root}")));
    }
    out
}

/// Bytes that a suspect retains but that need no action.
#[derive(Clone, Copy, Debug, Default)]
struct Absent {
    /// Pages of large arrays that were never written. They take up no memory.
    untouched: u64,
    /// Bytes that only soft references retain. A collection frees them before an allocation fails.
    soft: u64,
}

/// Returns the bytes of each suspect that need no action.
fn absent(
    session: &Session<'_>,
    retained: &Retained<'_>,
    names: &ObjectNames<'_>,
    suspects: &[Suspect],
) -> Vec<Absent> {
    let mut out = vec![Absent::default(); suspects.len()];
    let heads: BTreeMap<u32, usize> =
        suspects.iter().enumerate().filter_map(|(i, s)| Some((*s.way.first()?, i))).collect();
    if heads.is_empty() {
        return out;
    }
    // Index of the suspect that dominates each object. Dominators come before the objects that they dominate.
    let none = suspects.len();
    let mut of: Vec<u8> = vec![u8::MAX; retained.live.len()];
    // One bit for each object: whether a soft reference dominates it.
    let mut is_soft: Vec<u64> = vec![0; retained.live.len() / 64 + 1];
    let soft_kinds: Vec<bool> =
        (0..names.heap.types() as u32).map(|kind| names.heap.is_soft_reference(TypeIndex(kind))).collect();
    let mut reader = retained.live.reader();
    let mut large = Vec::new();
    for (number, up) in retained.dominators() {
        let above = of.get(up as usize).map_or(none, |i| usize::from(*i));
        let suspect = heads.get(&number).copied().unwrap_or(above);
        if let Some(slot) = of.get_mut(number as usize) {
            *slot = u8::try_from(suspect).unwrap_or(u8::MAX);
        }
        let below_soft = has(&is_soft, up);
        let kind = retained.kind(number).map_or(0, |kind| kind.0 as usize);
        let soft = soft_kinds.get(kind).copied().unwrap_or(false);
        if (below_soft || soft)
            && let Some(word) = is_soft.get_mut(number as usize / 64)
        {
            *word |= 1 << (number % 64);
        }
        if suspect < none
            && let Some(sum) = out.get_mut(suspect)
        {
            if below_soft && heads.contains_key(&number) {
                sum.soft = retained.bytes(number);
            } else if soft && !below_soft {
                let own = retained.own(number, &mut *reader);
                sum.soft = sum.soft.saturating_add(retained.bytes(number).saturating_sub(own));
            }
        }
        if suspect >= none || retained.bytes(number) < ARRAY || large.len() >= ARRAYS {
            continue;
        }
        let own = retained.own(number, &mut *reader);
        if let Some(object) = retained.live.object(number).filter(|_| own >= ARRAY) {
            large.push((AddrRange::sized(object, own), suspect));
        }
    }
    for (sum, untouched) in out.iter_mut().zip(untouched(session, large, suspects.len())) {
        sum.untouched = untouched;
    }
    out
}

fn has(bits: &[u64], number: u32) -> bool {
    bits.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
}

/// Describes the root of an object: a static variable, if there is one.
fn root(
    object: Addr,
    retained: &Retained<'_>,
    names: &mut ObjectNames<'_>,
    runtime_roots: &RuntimeRoots<'_>,
) -> Option<String> {
    let mut paths = paths_from(object, retained, names, runtime_roots, runtime_roots.roots)?;
    // The paths found may all lead through lists of threads. The threads' own roots may be beyond the limit.
    if paths.iter().all(|(lists, _)| *lists) {
        let threads = runtime_roots.roots.iter().filter(|root| root.thread.is_some());
        let mut of_threads: Vec<Root> = threads.copied().collect();
        of_threads.sort_by_key(|root| root.object != object);
        paths.extend(paths_from(object, retained, names, runtime_roots, &of_threads)?);
    }
    paths.sort_by_key(|(lists, path)| (*lists, static_of(path).is_none(), path.thread.is_some(), path.chain.len()));
    let (_, path) = paths.first()?;
    if let Some(name) = static_of(path) {
        return Some(name);
    }
    let method = path.frame.as_ref().and_then(|frame| frame.method.as_deref());
    // `precise` is only set for roots on stacks.
    if let (Some(tid), None) = (path.thread, path.precise) {
        return Some(format!("{} of thread {tid}", path.root_kind));
    }
    Some(match (path.thread, method) {
        (Some(tid), Some(method)) => format!("stack of thread {tid}, {method}"),
        (Some(tid), None) => format!("stack of thread {tid}"),
        (None, _) => match &path.root_name {
            Some(name) => name.clone(),
            None => format!("{} at {}", path.root_kind, path.root_address),
        },
    })
}

/// Paths to an object from `roots`, with whether each leads through a list of threads.
fn paths_from(
    object: Addr,
    retained: &Retained<'_>,
    names: &mut ObjectNames<'_>,
    runtime_roots: &RuntimeRoots<'_>,
    roots: &[Root],
) -> Option<Vec<(bool, RootPathRow)>> {
    let found = PathSearch::new(Graph::new(names.heap), object, &retained.budget).run(roots, WAYS).ok()?;
    let row = |path: &Path| (lists_threads(names, path), path_row(names, runtime_roots.runtime, path));
    Some(found.paths.iter().map(row).collect())
}

/// Whether a path leads through a list of threads.
fn lists_threads(names: &mut ObjectNames<'_>, path: &Path) -> bool {
    path.steps.iter().any(|(object, _)| names.node(*object).is_some_and(|node| names.heap.lists_threads(node.kind)))
}

/// Returns the static variable on a path.
fn static_of(path: &RootPathRow) -> Option<String> {
    // Take the variable nearest to the object, because sys.modules leads to all others.
    path.chain.iter().rev().find_map(|step| {
        let field = step.field.as_deref()?;
        // The variable is an element in an array of statics, or a field of the object that represents its class.
        let in_array = field.split_once(STATIC).and_then(|(_, name)| name.strip_suffix(')'));
        let whole = OF_CLASS.iter().any(|word| field.starts_with(word));
        in_array.map(|name| format!("static {name}")).or_else(|| whole.then(|| field.to_owned()))
    })
}

/// Finds the accumulation points among `large` objects, given as number of the object, number of its dominator, and
/// retained bytes. Large children of one type are reported together, under their parent.
fn gathered<K: PartialEq>(large: Vec<(u32, u32, u64)>, kind: impl Fn(u32) -> K) -> Vec<Suspect> {
    let known: BTreeMap<u32, u64> = large.iter().map(|&(n, _, bytes)| (n, bytes)).collect();
    let mut parts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut ways: Vec<Vec<u32>> = Vec::new();
    for &(n, up, _) in &large {
        if known.contains_key(&up) { parts.entry(up).or_default().push(n) } else { ways.push(vec![n]) }
    }
    let mut out = Vec::new();
    while let Some(mut way) = ways.pop() {
        let Some(&last) = way.last() else { continue };
        let bytes = known.get(&last).copied().unwrap_or(0);
        let below = parts.get(&last).map(Vec::as_slice).unwrap_or_default();
        let sum: u64 = below.iter().filter_map(|n| known.get(n)).copied().saturating_sum();
        let alike = below.len() > 1 && below.windows(2).all(|pair| matches!(pair, [a, b] if kind(*a) == kind(*b)));
        if alike || sum.saturating_mul(100) < bytes.saturating_mul(WAY) {
            out.push(Suspect { way });
        } else if let [one] = below {
            // Dominators form no cycle, so this ends.
            way.push(*one);
            ways.push(way);
        } else {
            ways.extend(below.iter().map(|&n| vec![n]));
        }
    }
    out
}

/// Describes a suspect. `total`: bytes of all live objects, which `whole` names. `not_there`: the evidence that bytes
/// take up no memory.
fn sentence(
    suspect: &Suspect,
    retained: &Retained<'_>,
    names: &mut ObjectNames<'_>,
    (total, whole): (u64, &str),
    (Absent { untouched, soft }, not_there): (Absent, &str),
) -> Option<Finding> {
    let (&first, &last) = suspect.way.first().zip(suspect.way.last())?;
    let (bytes, object) = (retained.bytes(first), retained.live.object(first)?);
    let mut way: Vec<String> = suspect.way.iter().map(|&n| named(names, retained.live.object(n))).collect();
    if way.len() > STEPS {
        way.splice(1..way.len() - (STEPS - 1), ["…".to_owned()]);
    }
    let mut held: Vec<_> =
        retained.types(last).into_iter().filter(|sum| Some(sum.kind) != retained.kind(last)).collect();
    held.sort_by_key(|sum| std::cmp::Reverse(sum.own.size));
    let held: Vec<String> = held
        .iter()
        .take(2)
        .map(|sum| format!("{} × {}", exact(sum.own.count), names.of_kind(sum.kind).shown()))
        .collect();
    let text = format!(
        "{} ({} % of {whole}) retained by {} at {object}{}{}{}{}.",
        round(bytes),
        bytes.saturating_mul(100).checked_div(total).unwrap_or(0),
        way.first()?,
        if way.len() > 1 { format!(" → {}", way.get(1..)?.join(" → ")) } else { String::new() },
        if held.is_empty() { String::new() } else { format!(": {}", held.join(", ")) },
        if untouched < ARRAY { String::new() } else { format!("; {} of it {not_there}", round(untouched)) },
        if soft < ARRAY {
            String::new()
        } else {
            format!(
                "; {} of it only through soft references, which a collection clears when memory is short",
                round(soft)
            )
        },
    );
    let bytes = bytes.saturating_sub(untouched);
    let strong = bytes.saturating_sub(soft);
    let severe = strong >= LEAST && strong.saturating_mul(100) >= total.saturating_sub(untouched).saturating_mul(MUCH);
    let severity = if severe { Severity::Warning } else { Severity::Info };
    let finding = Finding::new("retained", severity, text, "dominator tree");
    Some(finding.about(bytes).known(Confidence::Derived).more(format!("gcroot {object}")).within("managed-heap"))
}

fn named(names: &mut ObjectNames<'_>, object: Option<Addr>) -> String {
    object.and_then(|at| names.object(at)).map_or_else(|| "an object".to_owned(), |(name, _)| name.shown().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(large: &[(u32, u32, u64)]) -> Vec<Vec<u32>> {
        let mut out: Vec<Vec<u32>> = gathered(large.to_vec(), |n| n).into_iter().map(|s| s.way).collect();
        out.sort();
        out
    }

    #[test]
    fn memory_gathers_where_the_way_spreads_out() {
        // Object 1 (statics) retains a cache 2 -> 3 -> 4 with thousands of small objects, and a list 5.
        assert_eq!(ways(&[(1, 0, 100), (2, 1, 60), (3, 2, 60), (4, 3, 59), (5, 1, 30)]), [vec![2, 3, 4], vec![5]]);
        // An object with only small children is an accumulation point.
        assert_eq!(ways(&[(1, 0, 100)]), [vec![1]]);
        // Children of one type are not followed one by one.
        let alike = gathered(vec![(1, 0, 100), (2, 1, 30), (3, 1, 30), (4, 1, 30)], |n| n > 1);
        assert_eq!(alike, [Suspect { way: vec![1] }]);
        // The search does not follow a large child with only a small share of its parent.
        assert_eq!(ways(&[(1, 0, 100), (2, 1, 10)]), [vec![1]]);
    }
}
