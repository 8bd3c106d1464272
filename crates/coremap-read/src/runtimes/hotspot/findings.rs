//! Findings of `triage` in the VM's structures: leaked class loaders, metaspace and code cache near their limits, and
//! memory outside the Java heap.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::facts::{Finding, Severity};
use crate::map::{Confidence, Kind};
use crate::runtimes::api::KindBytes;
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::classes::Loader;
use crate::shell::{quoted, whole_name};
use crate::sums::SaturatingSum;
use crate::units::{count, exact, round};

/// Number of loaders with a class of the same name that makes a finding, and number that makes a warning.
const LOADERS: usize = 16;
const MANY_LOADERS: usize = 200;

/// Percentage of a limit from which memory counts as nearly full.
const FULL: u64 = 90;

/// Kinds of memory outside the Java heap, with their names.
const OFF_HEAP: [(Kind, &str); 9] = [
    (Kind::Malloc, "malloc"),
    (Kind::Stack, "stacks"),
    (Kind::Metaspace, "metaspace"),
    (Kind::ClassSpace, "class space"),
    (Kind::CdsArchive, "CDS archive"),
    (Kind::CodeCache, "code cache"),
    (Kind::GCBookkeeping, "GC bookkeeping"),
    (Kind::MappedFile, "mapped files"),
    (Kind::AnonRW, "memory with no known owner"),
];

pub(super) fn findings(hotspot: &HotSpot<'_>, used: &KindBytes) -> Vec<Finding> {
    let mut out = vec![off_heap(hotspot, used)];
    out.extend(loaders(hotspot));
    out.extend(metaspace(hotspot, used));
    out.extend(code_cache(hotspot));
    out
}

/// Compares the Java heap with all other memory.
fn off_heap(hotspot: &HotSpot<'_>, used: &KindBytes) -> Finding {
    let heap = used.of(Kind::GCHeap);
    let mut rest: Vec<(u64, &str)> = OFF_HEAP.iter().map(|&(kind, name)| (used.of(kind), name)).collect();
    let sum = rest.iter().map(|(bytes, _)| *bytes).fold(0, u64::saturating_add);
    rest.sort_by_key(|&(bytes, name)| (std::cmp::Reverse(bytes), name));
    let kinds: Vec<String> =
        rest.iter().take(4).filter(|(b, _)| *b > 0).map(|(bytes, name)| format!("{name} {}", round(*bytes))).collect();
    let max = hotspot.vm().flag("MaxHeapSize").map(|max| format!(" (limit {})", round(max))).unwrap_or_default();
    let text = format!(
        "{} memory: Java heap {}{max}; outside it, without program files, {}: {}.",
        used.measure,
        round(heap),
        round(sum),
        kinds.join(", ")
    );
    Finding::new("off-heap", Severity::Info, text, "kinds of regions").known(Confidence::Derived).more("summary")
}

/// Number of class loaders. A hidden class has ClassLoaderData of its own, but the loader of the class that defined it.
fn loader_count(loaders: &[Loader]) -> u64 {
    loaders.iter().map(|loader| loader.object).collect::<HashSet<_>>().len() as u64
}

/// Reports many class loaders that each have a class of the same name.
fn loaders(hotspot: &HotSpot<'_>) -> Option<Finding> {
    let classes = hotspot.classes();
    let all = classes.loaders();
    // A hidden class has its own loader, and there may be thousands of lambdas.
    let real: Vec<_> = all.iter().filter(|l| !l.of_one_class && !l.object.is_null()).collect();
    if real.len() < LOADERS {
        return None;
    }
    let mut holders: HashMap<String, usize> = HashMap::new();
    for loader in &real {
        let named = |&at| classes.klass(at).filter(|klass| !klass.is_array()).map(|klass| klass.name.clone());
        let names: HashSet<String> = loader.classes.iter().filter_map(named).collect();
        names.into_iter().for_each(|name| *holders.entry(name).or_default() += 1);
    }
    let (name, max) = holders.iter().max_by_key(|(name, n)| (**n, std::cmp::Reverse(*name)))?;
    if *max < LOADERS {
        return None;
    }
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let kind = real.iter().filter_map(|l| classes.class_of(l.object)).map(|klass| klass.name.clone());
    kind.for_each(|name| *kinds.entry(name).or_default() += 1);
    let kind = kinds.iter().max_by_key(|(_, n)| **n).map(|(kind, n)| format!(", {} of them {kind}", exact(*n as u64)));
    let text = format!(
        "{} class loaders each have their own class {name} ({} in total{}). Unused loaders may be retained, as after \
         redeployments or repeated script compilation.",
        exact(*max as u64),
        count(loader_count(all), "class loader"),
        kind.unwrap_or_default()
    );
    let severity = if *max >= MANY_LOADERS { Severity::Warning } else { Severity::Info };
    let finding = Finding::new("class-loaders", severity, text, "ClassLoaderDataGraph: classes by name and loader");
    let more = kinds.iter().max_by_key(|(_, n)| **n).map(|(kind, _)| {
        // Names of nested classes contain `$`.
        format!("gcroot --type {}", quoted(&whole_name(kind)))
    });
    Some(finding.known(Confidence::Exact).more(more.unwrap_or_else(|| "heapstat".to_owned())))
}

/// Reports the memory of class metadata, and whether it is near its limit.
fn metaspace(hotspot: &HotSpot<'_>, used: &KindBytes) -> Option<Finding> {
    let (space, rest) = (used.of(Kind::ClassSpace), used.of(Kind::Metaspace));
    let bytes = space.saturating_add(rest);
    let vm = hotspot.vm();
    // If the flag is not set, its value is huge.
    let max = vm.flag("MaxMetaspaceSize").filter(|&max| max < 1 << 48);
    let class_max = vm.flag("CompressedClassSpaceSize").filter(|&max| max != 0);
    let near = |bytes: u64, max: Option<u64>| max.filter(|&max| bytes.saturating_mul(100) >= max.saturating_mul(FULL));
    let limit = near(bytes, max).map(|max| format!("MaxMetaspaceSize ({})", round(max)));
    let limit =
        limit.or_else(|| near(space, class_max).map(|max| format!("CompressedClassSpaceSize ({})", round(max))));
    if bytes == 0 {
        return None;
    }
    let classes = hotspot.classes();
    let loaded: u64 = classes.loaders().iter().map(|loader| loader.classes.len() as u64).saturating_sum();
    let text = format!(
        "Class metadata: metaspace {}, class space {}, for {} of {}{}.",
        round(rest),
        round(space),
        count(loaded, "class"),
        count(loader_count(classes.loaders()), "class loader"),
        limit.as_ref().map_or_else(String::new, |limit| format!("; the limit {limit} is nearly reached"))
    );
    let severity = if limit.is_some() { Severity::Warning } else { Severity::Info };
    let finding = Finding::new("metaspace", severity, text, "mappings that contain class structures");
    let larger = if space > rest { Kind::ClassSpace } else { Kind::Metaspace };
    Some(finding.about(bytes).known(Confidence::Derived).more(format!("regions --kind {larger}")).within("runtime"))
}

/// Reports heaps of the code cache that are nearly full. When one is full, nothing more is compiled.
fn code_cache(hotspot: &HotSpot<'_>) -> Vec<Finding> {
    let code = hotspot.all_code();
    let mut out = Vec::new();
    for heap in code.heaps() {
        let (used, _) = code.sizes(heap);
        if used.saturating_mul(100) < heap.reserved.len().saturating_mul(FULL) {
            continue;
        }
        let text = format!(
            "The code cache is nearly full: {} of {} for {}. Newly hot methods stay interpreted; raise the limit with \
             -XX:ReservedCodeCacheSize.",
            round(used),
            round(heap.reserved.len()),
            heap.name
        );
        let finding = Finding::new("code-cache", Severity::Warning, text, "used blocks of the code heap");
        out.push(finding.about(used).known(Confidence::Exact).more("regions --kind CodeCache").within("runtime"));
    }
    out
}
