//! Claims of V8's memory: pages by space, and the unused rest of the ranges that are reserved for code.

use crate::addr::{Addr, AddrRange, union};
use crate::map::{Claim, Claims, Confidence, Kind, Owner};
use crate::runtimes::v8::vm::Vm;

/// Maximum number of further parts of a code range after the part with pages.
const MAX_PARTS: usize = 4;

pub(super) fn claim(vm: &Vm<'_>, claims: &mut Claims) {
    let owner = Owner::Module(vm.module as u32);
    let several = vm.isolates.len() > 1;
    for page in &vm.pages {
        let space = vm.space_name(page.space);
        let isolate = vm.isolate_of(page.heap).and_then(|i| vm.isolates.get(i));
        let detail = match isolate {
            Some(isolate) if several => format!("V8 {}: {space}", isolate.name),
            _ => format!("V8: {space}"),
        };
        let is_idle = page.is_from() && space == "new_space";
        let (kind, detail) =
            if is_idle { (Kind::GCHeapToBeFreed, format!("{detail}, unused half")) } else { (Kind::GCHeap, detail) };
        let evidence = format!("size, area and space in the page's metadata at {}", page.metadata);
        claims.add(Claim {
            range: page.range,
            kind,
            confidence: Confidence::Exact,
            owner,
            detail: detail.into(),
            evidence: evidence.into(),
        });
    }
    for (isolate, range) in code_reserves(vm) {
        let name = vm.isolates.get(isolate).filter(|_| several).map_or("V8", |isolate| isolate.name.as_str());
        let name = if name == "V8" { name.to_owned() } else { format!("V8 {name}") };
        claims.add(Claim {
            range,
            kind: Kind::GCHeapReserve,
            confidence: Confidence::Derived,
            owner,
            detail: format!("{name}: reserved for code").into(),
            evidence: "the rest of an executable mapping that contains pages of code".into(),
        });
    }
}

/// Returns the parts of code ranges without pages: index of the isolate, and addresses. V8 reserves one range for all
/// code of an isolate, 128 or 512 MiB, and uses little of it.
pub(super) fn code_reserves(vm: &Vm<'_>) -> Vec<(usize, AddrRange)> {
    let base = vm.process.base();
    let mut out = Vec::new();
    let mut ranges: Vec<(usize, AddrRange)> = Vec::new();
    for page in vm.pages.iter().filter(|page| vm.space_name(page.space).starts_with("code")) {
        let Some(isolate) = vm.isolate_of(page.heap) else { continue };
        let Some(entry) = base.entries.at(page.area.start) else { continue };
        let executable = entry.perms.is_some_and(|perms| perms.exec) && entry.file.is_none();
        // Parts of the range may have other access rights.
        if executable && ranges.last() != Some(&(isolate, entry.range)) {
            ranges.push((isolate, entry.range));
        }
    }
    // The program's builtins may be mapped into the range, which splits it in two.
    let after = |at: Addr| base.entries.at(at).filter(|entry| entry.perms.is_some_and(|perms| perms.exec));
    for (isolate, range) in ranges.clone() {
        let mut end = range.end;
        for _ in 0..MAX_PARTS {
            let Some(entry) = after(end) else { break };
            if entry.file.is_none() {
                ranges.push((isolate, entry.range));
            }
            end = entry.range.end;
        }
    }
    ranges.sort_by_key(|(isolate, range)| (range.start, range.end, *isolate));
    ranges.dedup_by_key(|(_, range)| *range);
    let taken: Vec<AddrRange> = union(vm.pages.iter().map(|page| page.range).collect());
    let mut done = Addr::NULL;
    for (isolate, range) in ranges {
        let range = AddrRange::new(range.start.max(done), range.end);
        done = done.max(range.end);
        out.extend(range.without(&taken).into_iter().map(|rest| (isolate, rest)));
    }
    out
}
