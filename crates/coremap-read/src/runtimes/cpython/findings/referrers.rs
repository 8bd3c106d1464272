//! Names of objects by who references them. References are followed backwards to a module global or class attribute.

use std::collections::HashMap;

use rayon::prelude::*;

use super::global_names::GlobalNames;
use crate::addr::Addr;
use crate::runtimes::api::{BlockHeap as _, Heap as _, Link, UnwalkedRanges};
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::object::function_name;
use crate::runtimes::cpython::objects::{TypeForm, is_identifier};

/// Maximum number of referrers followed per object.
const MAX_REFERRERS: usize = 3;

/// Maximum number of referrers collected per object in each part of the heap. More than are followed, because some have
/// no name for the reference.
const MAX_PER_RANGE: usize = 16;

/// Number of passes over all objects, which is the maximum number of steps backwards.
const PASSES: usize = 4;

/// A referrer, and its name for the reference.
#[derive(Clone, Debug)]
struct Referrer {
    at: Addr,
    link: String,
}

/// Names of objects in the program.
pub(super) struct NamedObjects<'a> {
    globals: &'a GlobalNames,
    paths: HashMap<Addr, String>,
}

impl<'a> NamedObjects<'a> {
    /// Finds names for `targets`, by the globals and attributes that contain them, or by their referrers.
    pub(super) fn of(heap: &Heap<'_>, globals: &'a GlobalNames, targets: &[Addr]) -> NamedObjects<'a> {
        NamedObjects { globals, paths: paths(heap, globals, targets) }
    }

    pub(super) fn name(&self, object: Addr) -> Option<&str> {
        self.globals.name(object).or_else(|| self.paths.get(&object).map(String::as_str))
    }
}

/// The path to each of `targets` as text, such as `app.CACHE`.
fn paths(heap: &Heap<'_>, globals: &GlobalNames, targets: &[Addr]) -> HashMap<Addr, String> {
    let mut known: HashMap<Addr, Vec<Referrer>> = HashMap::new();
    let mut wanted: Vec<Addr> = targets.iter().copied().filter(|at| globals.name(*at).is_none()).collect();
    for _ in 0..PASSES {
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            break;
        }
        let found = find_referrers(heap, &wanted);
        wanted.clear();
        for (object, referrers) in found {
            for referrer in &referrers {
                let is_end = globals.name(referrer.at).is_some() || globals.owner_of_dict(referrer.at).is_some();
                if !is_end && !known.contains_key(&referrer.at) {
                    wanted.push(referrer.at);
                }
            }
            known.insert(object, referrers);
        }
    }
    targets.iter().filter_map(|&target| Some((target, path_text(heap, globals, &known, target)?))).collect()
}

/// The shortest path from a name to `target`. If there is none, the path from a direct referrer, given by its type.
fn path_text(
    heap: &Heap<'_>,
    globals: &GlobalNames,
    known: &HashMap<Addr, Vec<Referrer>>,
    target: Addr,
) -> Option<String> {
    let mut paths_so_far: Vec<(Addr, Vec<String>)> = vec![(target, Vec::new())];
    let mut far: Option<(bool, String)> = None;
    for _ in 0..=PASSES {
        let mut next = Vec::new();
        for (at, links) in paths_so_far {
            if let Some(name) = globals.name(at).map(str::to_owned).or_else(|| function_name(heap, at)) {
                return Some(join_links(&name, &links));
            }
            if let Some(name) = globals.owner_of_dict(at) {
                return Some(join_links(name, &links));
            }
            // An instance's dict says less than the instance.
            if !links.is_empty()
                && far.as_ref().is_none_or(|(is_dict, _)| *is_dict)
                && let Some(kind) = heap.type_of(at)
            {
                let is_dict = kind.name == "dict";
                if far.is_none() || !is_dict {
                    far = Some((is_dict, join_links(&format!("<{}>", kind.name), &links)));
                }
            }
            for referrer in known.get(&at).into_iter().flatten() {
                let mut links = links.clone();
                links.push(referrer.link.clone());
                next.push((referrer.at, links));
            }
        }
        paths_so_far = next;
    }
    far.map(|(_, text)| text)
}

/// Appends the links, which are stored from the object upwards, to a name: `app.CACHE["a"].rows`.
fn join_links(name: &str, links: &[String]) -> String {
    links.iter().rev().fold(name.to_owned(), |mut text, link| {
        text.push_str(link);
        text
    })
}

/// Finds the first referrers of each of `wanted`, which must be sorted.
fn find_referrers(heap: &Heap<'_>, wanted: &[Addr]) -> HashMap<Addr, Vec<Referrer>> {
    let shares: Vec<Vec<(Addr, Addr, Link)>> = heap
        .ranges()
        .par_iter()
        .map(|heap_range| {
            let mut found = Vec::new();
            let mut counts = vec![0_usize; wanted.len()];
            let mut last = None;
            heap.walker().walk(heap_range, &mut UnwalkedRanges::default(), &mut |object| {
                // Neighbouring objects usually share a type.
                if last.as_ref().is_none_or(|(number, _)| *number != object.kind) {
                    last = Some((object.kind, heap.type_of_kind(object.kind)));
                }
                let Some((_, Some(kind))) = &last else { return };
                heap.each_target(object.addr, kind, |link, to| {
                    // An object that everything references quickly has enough referrers.
                    let count = wanted.binary_search(&to).ok().and_then(|i| counts.get_mut(i));
                    if let Some(count) = count.filter(|count| **count < MAX_PER_RANGE) {
                        *count += 1;
                        found.push((to, object.addr, link));
                    }
                    true
                });
            });
            found
        })
        .collect();
    let mut out: HashMap<Addr, Vec<Referrer>> = HashMap::new();
    for (object, at, link) in shares.into_iter().flatten() {
        let referrers = out.entry(object).or_default();
        if referrers.len() < MAX_REFERRERS
            && let Some(link) = link_text(heap, at, link)
        {
            referrers.push(Referrer { at, link });
        }
    }
    out
}

/// Text for a reference in Python's notation. `None` for references that are temporary: from frames and iterators.
fn link_text(heap: &Heap<'_>, referrer: Addr, link: Link) -> Option<String> {
    let kind = heap.type_of(referrer)?;
    let offset = match link {
        Link::NoField("(type)") => return None,
        Link::NoField("__dict__") => return Some(String::new()),
        Link::NoField(how) => return Some(format!(" {how}")),
        Link::Field(offset) => offset,
    };
    let first = kind.items();
    Some(match kind.form {
        TypeForm::Frame | TypeForm::Generator => return None,
        TypeForm::Dict if offset >= first => {
            let name = heap.link_name(referrer, offset)?;
            // A key that is an identifier is written as an attribute, because the dict may be an instance's or a
            // module's.
            match name.strip_prefix("[\"").and_then(|name| name.strip_suffix("\"]")) {
                Some(word) if is_identifier(word) => format!(".{word}"),
                _ => name,
            }
        }
        TypeForm::List | TypeForm::Deque | TypeForm::Plain
            if offset >= first && kind.itemsize == 8 || kind.form == TypeForm::List =>
        {
            format!("[{}]", offset.saturating_sub(first) / 8)
        }
        TypeForm::Set if offset >= first => "{…}".to_owned(),
        _ => {
            let name = heap.numbered_type_of(referrer).and_then(|(number, _)| heap.field_name(number, offset));
            match name.as_deref() {
                Some("__dict__" | "md_dict") => String::new(),
                Some(name) => format!(".{name}"),
                None => format!("+{offset:#x}"),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_written_from_the_name_down() {
        assert_eq!(join_links("app.CACHE", &["[\"a b\"]".to_owned(), ".rows".to_owned()]), "app.CACHE.rows[\"a b\"]");
    }
}
