//! Which field or variable refers to each of many collections.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::report::Name;
use crate::runtimes::api::{Link, ManagedRuntime, ObjectNames, TypeRole};
use crate::runtimes::graph::Retained;

/// Maximum number of dominators between a collection and the field that has it.
const MAX_STEPS: usize = 8;

/// Names holders by the dominator tree.
pub(super) struct Holders<'h, 'g> {
    retained: &'h Retained<'g>,
    runtime: &'h dyn ManagedRuntime,
    names: &'h mut ObjectNames<'g>,
    statics: HashMap<Addr, Name>,
}

impl<'h, 'g> Holders<'h, 'g> {
    pub(super) fn new(
        retained: &'h Retained<'g>,
        runtime: &'h dyn ManagedRuntime,
        names: &'h mut ObjectNames<'g>,
    ) -> Holders<'h, 'g> {
        let statics = names.all_statics();
        Holders { retained, runtime, names, statics }
    }

    /// The holder of each object, in words. All objects are live.
    pub(super) fn of(mut self, objects: &[Addr]) -> Vec<String> {
        let numbers = self.retained.live.numbers_of(objects);
        let mut out: Vec<Option<String>> = vec![None; objects.len()];
        // The object whose dominator is read next, for each collection without a name yet.
        let mut level: Vec<(usize, u32)> =
            numbers.iter().enumerate().filter_map(|(at, number)| Some((at, (*number)?))).collect();
        for _ in 0..MAX_STEPS {
            // Objects of one dominator are found in one pass over its references.
            let mut by_dominator: HashMap<u32, Vec<(usize, u32)>> = HashMap::new();
            for (at, number) in level.drain(..) {
                by_dominator.entry(self.retained.dominator(number)).or_default().push((at, number));
            }
            for (up, below) in by_dominator {
                let Some(holder) = self.retained.live.object(up) else {
                    let kind = self.retained.live.root_node(up).map(|node| node.kind.name());
                    for (at, _) in below {
                        self.set(
                            &mut out,
                            at,
                            kind.map_or("several roots".to_owned(), |kind| format!("root ({kind})")),
                        );
                    }
                    continue;
                };
                let links = self.links(holder, &below);
                let is_own =
                    self.retained.kind(up).is_some_and(|kind| self.runtime.type_role(kind) == TypeRole::Program);
                for (at, number) in below {
                    match links.get(&number).and_then(|link| self.label(holder, *link, is_own)) {
                        Some(label) => self.set(&mut out, at, label),
                        None => level.push((at, up)),
                    }
                }
            }
        }
        out.into_iter().map(|label| label.unwrap_or_else(|| "(no field of the program)".to_owned())).collect()
    }

    fn set(&self, out: &mut [Option<String>], at: usize, label: String) {
        if let Some(slot) = out.get_mut(at) {
            *slot = Some(label);
        }
    }

    /// The links from an object to some that it dominates.
    fn links(&mut self, holder: Addr, below: &[(usize, u32)]) -> HashMap<u32, Link> {
        let targets = below.iter().filter_map(|&(_, number)| Some((self.retained.live.object(number)?.get(), number)));
        let mut wanted: HashMap<u64, u32> = targets.collect();
        let mut out = HashMap::new();
        self.names.reader.each(holder.get(), |link, to| {
            if let Some(number) = wanted.remove(&to) {
                out.insert(number, link);
            }
            !wanted.is_empty()
        });
        out
    }

    /// Returns the name of a link: a static variable, or a field of an object of the program. `None` for other links.
    fn label(&mut self, holder: Addr, link: Link, is_own: bool) -> Option<String> {
        if let Link::Field(offset) = link {
            let slot = self.names.heap.slot_address(holder, offset);
            if let Some(name) = self.statics.get(&slot) {
                return Some(name.to_string());
            }
        }
        let name = self.names.link(holder, link)?;
        if name.starts_with("static ") || name.starts_with("global ") {
            return Some(name.to_string());
        }
        if !is_own || name.starts_with(['[', '(']) {
            return None;
        }
        let (kind, _) = self.names.object(holder)?;
        Some(format!("{kind}.{name}"))
    }
}
