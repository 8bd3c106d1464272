//! The finding about collectible assemblies (plug-ins, generated code) that are still loaded.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::addr::Addr;
use crate::analysis::listing::list;
use crate::commands::dotnet::coreclr;
use crate::commands::dotnet::heap::loader_rows;
use crate::limits;
use crate::map::Confidence;
use crate::report::{Finding, Severity};
use crate::runtimes::api::{Heap as _, ObjectNames, TypeIndex};
use crate::runtimes::coreclr::{Collectible, CoreClr, string_text};
use crate::session::Session;
use crate::units::{count, exact, round};

/// Base class of every load context (System.Private.CoreLib), and its fields. The state says whether `Unload` was
/// called or the context was finalized (AssemblyLoadContext.InternalState).
const CONTEXT: &str = "System.Runtime.Loader.AssemblyLoadContext";
const NAME: &str = "_name";
const STATE: &str = "_state";
const UNLOADING: u32 = 1;

/// Number of loader allocators, or of unloading contexts, that makes the finding a warning. Few programs have so many
/// plug-ins. A few unloading contexts merely wait for the next collection.
const MIN_WARNING: usize = 100;
const MANY_UNLOADING: usize = 8;

/// Maximum number of roots shown that keep unloading contexts.
const MAX_KEEPERS: usize = 4;

/// Maximum number of names shown.
const MAX_NAMED: usize = 3;

/// The managed objects of collectible loader allocators. As long as roots reach one, its assemblies stay loaded.
pub(in crate::commands) fn loader_objects(session: &Session<'_>) -> Vec<Addr> {
    let allocators = coreclr(session).flat_map(|runtime| &runtime.heaps().loader);
    allocators.filter_map(|allocator| allocator.collectible.as_ref()?.object).collect()
}

/// The objects of [`loader_objects`] whose load contexts are being unloaded.
pub(in crate::commands) fn unloading_loaders(session: &Session<'_>) -> Vec<Addr> {
    let heaps = coreclr(session).filter_map(|runtime| runtime.object_heap());
    heaps.flat_map(|heap| heap.unloading_allocators()).collect()
}

/// The type of the objects that represent types.
const MIRROR: &str = "System.RuntimeType";

/// Maximum number of objects of collectible types whose holders are looked for.
const MAX_OBJECTS: usize = 1 << 12;

/// Objects of types of collectible assemblies, with the name of their type. They keep the assemblies loaded.
pub(in crate::commands) fn collectible_objects(session: &Session<'_>) -> Vec<(Addr, String)> {
    let mut out = Vec::new();
    for runtime in coreclr(session) {
        let loaders = runtime.heaps().loader.iter().filter_map(|allocator| allocator.collectible.as_ref());
        let modules: HashSet<Addr> = loaders.flat_map(|of| of.modules.iter().copied()).collect();
        let Some(heap) = runtime.object_heap().filter(|_| !modules.is_empty()) else { continue };
        let types = runtime.types();
        let is = |kind: TypeIndex| {
            let info = heap.method_table(kind).filter(|info| !info.free);
            info.is_some_and(|info| types.module_of(info.address).is_ok_and(|module| modules.contains(&module)))
        };
        let (objects, _) = list(session.process, runtime, heap, None, &is);
        let named = objects.into_iter().map(|object| (object.address, object.name.shown().to_string()));
        out.extend(named.take(MAX_OBJECTS));
        // An object that represents such a type keeps it loaded as well.
        let (mirrors, _) = list(session.process, runtime, heap, None, &|kind| heap.type_name(kind) == MIRROR);
        let of_these = mirrors.into_iter().filter(|object| {
            let module = runtime.represented_type(object.address).map(|of| types.module_of(of));
            module.is_some_and(|module| module.is_ok_and(|module| modules.contains(&module)))
        });
        out.extend(of_these.take(MAX_OBJECTS).map(|object| (object.address, object.name.shown().to_string())));
    }
    out
}

/// What keeps collectible assemblies loaded.
pub(in crate::commands) struct Kept<'a> {
    /// Objects of their types.
    pub(in crate::commands) objects: &'a [(Addr, String)],
    /// Who holds each of them.
    pub(in crate::commands) held_by: &'a HashMap<Addr, String>,
    /// Objects of the loader allocators of unloading contexts, and the root that keeps each of them.
    pub(in crate::commands) unloading: &'a [Addr],
    pub(in crate::commands) keepers: &'a HashMap<Addr, String>,
    /// Findings on holders.
    pub(in crate::commands) findings: &'a [Finding],
}

impl Kept<'_> {
    /// The roots that keep unloading contexts loaded, each with their number, in a sentence. Empty if none is known.
    fn keepers(&self) -> String {
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        let roots = self.unloading.iter().filter_map(|allocator| self.keepers.get(allocator));
        roots.for_each(|root| *all.entry(root).or_default() += 1);
        let known: u64 = all.values().copied().fold(0, u64::saturating_add);
        let mut all: Vec<(&str, u64)> = all.into_iter().collect();
        all.sort_by_key(|(_, number)| Reverse(*number));
        let Some((last, first)) = all.get(..all.len().min(MAX_KEEPERS)).and_then(|named| named.split_last()) else {
            return String::new();
        };
        let one = |(root, number): &(&str, u64)| match number {
            1 => (*root).to_owned(),
            more => format!("{root} ({})", exact(*more)),
        };
        let rest = all.len().saturating_sub(MAX_KEEPERS);
        let rest = if rest == 0 { String::new() } else { format!(" and {}", count(rest as u64, "other root")) };
        let named = match first {
            [] => one(last),
            first => {
                let and = if rest.is_empty() { " and " } else { ", " };
                format!("{}{and}{}", first.iter().map(one).collect::<Vec<_>>().join(", "), one(last))
            }
        };
        let whom = match known {
            1 if self.unloading.len() == 1 => "It is".to_owned(),
            1 => "One of them is".to_owned(),
            _ if known == self.unloading.len() as u64 => "They are".to_owned(),
            _ => format!("{} of them are", exact(known)),
        };
        format!(" {whom} kept loaded by {named}{rest}.")
    }

    /// The holder of most of the objects, in a sentence, with the finding on it.
    fn sentence(&self) -> Option<(String, Option<&Finding>)> {
        let mut holders: BTreeMap<&str, u64> = BTreeMap::new();
        let mut types: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (at, kind) in self.objects {
            if let Some(holder) = self.held_by.get(at) {
                *holders.entry(holder).or_default() += 1;
                *types.entry((holder, kind)).or_default() += 1;
            }
        }
        let (holder, number) = holders.into_iter().max_by_key(|(_, number)| *number)?;
        // The variable, without what is between it and the object.
        let variable = holder.split(" (").next().unwrap_or(holder);
        let of_holder = types.iter().filter(|((of, _), _)| *of == holder);
        let ((_, kind), most) = of_holder.max_by_key(|(_, number)| **number)?;
        let text = format!(
            " {variable} keeps {} of theirs ({} {kind}), so they stay loaded.",
            count(number, "object"),
            exact(*most)
        );
        let finding = self.findings.iter().find(|finding| finding.id == "retained" && finding.text.contains(variable));
        Some((text, finding))
    }
}

/// Reports the assemblies of collectible loader allocators, and the size of their loader heaps. `reached`: the loader
/// objects that roots are known to reach. `gcroot` finds no path to others.
pub(super) fn collectible(session: &Session<'_>, reached: &HashSet<Addr>, kept: &Kept<'_>) -> Option<Finding> {
    let mut allocators: Vec<(Addr, &Collectible)> = Vec::new();
    let mut names: BTreeMap<String, (u64, Option<Addr>)> = BTreeMap::new();
    let mut assemblies = 0u64;
    let mut unloading: Vec<String> = Vec::new();
    let rooted = |of: &Collectible| of.object.filter(|object| reached.contains(object));
    for runtime in coreclr(session) {
        let here: Vec<(Addr, &Collectible)> =
            runtime.heaps().loader.iter().filter_map(|a| Some((a.address, a.collectible.as_ref()?))).collect();
        if here.is_empty() {
            continue;
        }
        for (_, of) in &here {
            for &module in &of.modules {
                let module = runtime.types().module(module);
                let name = Some(module.assembly_name()).filter(|name| !name.is_empty());
                let entry = names.entry(name.map_or_else(|| module.name().into_owned(), str::to_owned)).or_default();
                entry.0 += 1;
                entry.1 = entry.1.or(rooted(of));
                assemblies += 1;
            }
        }
        unloading.extend(unloading_contexts(session, runtime));
        allocators.extend(here);
    }
    if allocators.is_empty() {
        return None;
    }
    let rows = loader_rows(session);
    let of_these = rows.iter().filter(|row| allocators.iter().any(|(at, _)| *at == row.allocator_address));
    let bytes = of_these.map(|row| row.size).fold(0, u64::saturating_add);
    let (named, example) = list_names(names);
    let example = example.or_else(|| allocators.iter().find_map(|(_, of)| rooted(of)));
    let keepers = kept.keepers();
    let unknown = match keepers.is_empty() {
        true => ": something still references it, or no collection has run since",
        false => "",
    };
    let waiting = match unloading.as_slice() {
        [] => String::new(),
        [one] => format!(" Load context {one} is unloading{unknown}.{keepers}"),
        all => format!(
            " {} load contexts are unloading ({}{}){}.{keepers}",
            exact(all.len() as u64),
            all.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", "),
            if all.len() > MAX_NAMED { " and others" } else { "" },
            unknown.replace(" it,", " them,")
        ),
    };
    let much = allocators.len() >= MIN_WARNING || unloading.len() >= MANY_UNLOADING;
    let (keeps, holder) = kept.sentence().filter(|_| !unloading.is_empty()).unwrap_or_default();
    // The sentence on objects repeats the roots.
    let keeps = if keepers.is_empty() { keeps } else { String::new() };
    // The memory and the contexts have one cause.
    let holder = holder.filter(|_| unloading.len() >= MANY_UNLOADING);
    let text = format!(
        "{} in {} with {} of loader heaps{named}.{waiting}{keeps}{}",
        count(assemblies, "collectible assembly"),
        count(allocators.len() as u64, "loader allocator"),
        round(bytes),
        holder.map_or_else(String::new, |finding| format!(" {}", finding.text)),
    );
    let severity = if much { Severity::Warning } else { Severity::Info };
    let evidence = "loader allocators of the loaded assemblies and states of load contexts; holders of their objects";
    let more = example.map_or_else(|| "heap --loader".to_owned(), |object| format!("gcroot {object}"));
    let held = holder.and_then(|finding| finding.bytes).filter(|held| *held > bytes);
    let finding = Finding::new("collectible-assemblies", severity, text, evidence).about(held.unwrap_or(bytes));
    let within = if held.is_some() { "managed-heap" } else { "runtime" };
    Some(finding.known(Confidence::Exact).more(more).within(within))
}

/// Lists the most frequent assembly names in words. Also returns the object that keeps an assembly of the first name
/// loaded.
fn list_names(names: BTreeMap<String, (u64, Option<Addr>)>) -> (String, Option<Addr>) {
    let mut names: Vec<(String, (u64, Option<Addr>))> = names.into_iter().collect();
    names.sort_by_key(|(_, (count, _))| Reverse(*count));
    let example = names.first().and_then(|(_, (_, object))| *object);
    let one = |(name, (count, _)): &(String, (u64, Option<Addr>))| match count {
        1 => name.clone(),
        n => format!("{name} × {}", exact(*n)),
    };
    let named: Vec<String> = names.iter().take(MAX_NAMED).map(one).collect();
    let more = names.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {}", count(more as u64, "other name")) } else { String::new() };
    let named = if named.is_empty() { String::new() } else { format!(": {}{more}", named.join(", ")) };
    (named, example)
}

/// Names of the unloading load contexts on the heap.
fn unloading_contexts(session: &Session<'_>, runtime: &CoreClr<'_>) -> Vec<String> {
    let Some(heap) = runtime.object_heap() else { return Vec::new() };
    let types = runtime.types();
    let is_context = |kind: TypeIndex| {
        let info = heap.method_table(kind).filter(|info| !info.free);
        info.is_some_and(|info| types.bases(info.address).into_iter().any(|at| types.display_name(at) == CONTEXT))
    };
    let (objects, _) = list(session.process, runtime, heap, None, &is_context);
    let mut names = ObjectNames::new(heap);
    let mut places: HashMap<Addr, HashMap<String, u64>> = HashMap::new();
    let mut out = Vec::new();
    for object in objects {
        let Some(info) = names.info(object.address) else { continue };
        let fields = places.entry(info.address).or_insert_with(|| {
            types.object_fields(info.address).iter().map(|f| (types.field_name(f), f.offset)).collect()
        });
        let at = |field: &str| Some(object.address.saturating_add(*fields.get(field)?));
        if at(STATE).and_then(|at| types.memory.u32(at).ok()) != Some(UNLOADING) {
            continue;
        }
        let name = at(NAME).and_then(|at| types.memory.ptr(at).ok()).filter(|text| !text.is_null());
        let name = name.and_then(|text| string_text(types, text, limits::MAX_SHOWN_STRING));
        out.push(name.map_or_else(|| object.address.to_string(), |name| format!("\"{name}\"")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_names_come_first() {
        let at = |n| Some(Addr::new(n));
        let names = [("a", (1, at(1))), ("plugin.dll", (20, at(2))), ("b", (1, None)), ("c", (1, None))];
        let (named, example) = list_names(names.into_iter().map(|(name, of)| (name.to_owned(), of)).collect());
        assert_eq!(named, ": plugin.dll × 20, a, b and 1 other name");
        assert_eq!(example, at(2));
        assert_eq!(list_names(BTreeMap::new()), (String::new(), None));
    }
}
