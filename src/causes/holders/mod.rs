//! What retains memory: named variables and frames first, then what they own, down to the collection and its elements.

mod absent;
mod bounds;
mod descent;
mod elements;
mod freed;
mod heaviest;
mod naming;
mod roots;
mod sentence;

use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::roots::RuntimeRoots;
use crate::causes::holders::naming::Namer;
use crate::causes::holders::roots::{NamedRoots, RootName};
use crate::report::Finding;
use crate::runtimes::api::ObjectNames;
use crate::runtimes::graph::{GraphError, OwnerTree, Retained};
use crate::session::Session;

pub(crate) use absent::{LARGE, not_there, untouched};

/// Findings on one heap, and names of requested objects.
#[derive(Default)]
pub(crate) struct Holders {
    pub(crate) findings: Vec<Finding>,
    pub(crate) labels: HashMap<Addr, String>,
    /// The program's field or variable that holds each of `objects`.
    pub(crate) owners: HashMap<Addr, String>,
    /// The variable, frame or other root that keeps each of `kept` alive.
    pub(crate) keepers: HashMap<Addr, String>,
    /// Users of the collection, for some findings, each with the finding's index.
    pub(crate) users: Vec<(usize, Users)>,
}

/// Threads that use a holder's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Users {
    /// Threads that refer to the collection or its owner.
    pub(crate) tids: Vec<u32>,
    /// The collection and its owners.
    pub(crate) objects: Vec<Addr>,
    /// Threads that each have one of the values, if the holder is a thread-local variable.
    pub(crate) locals: Vec<u32>,
}

/// Finds what retains most of a heap, names the `wanted` objects, and finds the holders of `objects` and the roots of
/// `kept`.
pub(crate) fn holders<'g>(
    session: &Session<'_>,
    retained: &Retained<'g>,
    names: &mut ObjectNames<'g>,
    rooted: &RuntimeRoots<'_>,
    wanted: &[Addr],
    objects: &[Addr],
    kept: &[Addr],
) -> Result<Holders, GraphError> {
    let roots = NamedRoots::of(rooted, names);
    let mut roles = HashMap::new();
    let outside: Vec<(Addr, u64)> = match rooted.runtime.counts_buffers() {
        true => rooted.runtime.buffers().iter().map(|buffer| (buffer.object, buffer.range.len())).collect(),
        false => Vec::new(),
    };
    let mut role = |kind| *roles.entry(kind).or_insert_with(|| rooted.runtime.type_role(kind));
    let tree = OwnerTree::find(
        &retained.live,
        &roots.tiers(),
        Some(roots::THREADS),
        &roots.containers,
        &outside,
        &mut role,
        &retained.budget,
    )?;
    let mut namer = Namer::new(&tree, &roots, names, rooted.runtime);
    for (object, bytes) in outside {
        if let Some(node) = tree.node(object) {
            let (buffers, sum) = namer.outside.entry(node).or_default();
            *buffers += 1;
            *sum = sum.saturating_add(bytes);
        }
    }
    let live = retained.total.size.saturating_add(namer.outside_sum());
    let owners = objects.iter().filter_map(|at| Some((*at, namer.holders(namer.tree.node(*at)?)?))).collect();
    let keepers = kept.iter().filter_map(|at| Some((*at, keeper(&mut namer, *at)?))).collect();
    let labels = wanted.iter().filter_map(|at| Some((*at, namer.label(*at)?))).collect();
    let mut found = descent::find(&mut namer, live);
    if retained.budget.is_late_at(0) {
        return Err(GraphError::OutOfTime);
    }
    freed::compare(retained, &namer, &mut found);
    let absent = absent::absent(session, &namer, &found);
    let not_there = not_there(session);
    let (mut findings, mut users) = (Vec::new(), Vec::new());
    for (holder, absent) in found.iter().zip(absent) {
        if let Some(finding) = sentence::finding(&mut namer, holder, live, rooted, (absent, not_there)) {
            users.push((findings.len(), sentence::users(&mut namer, holder, rooted)));
            findings.push(finding);
        }
    }
    if retained.budget.is_late_at(0) {
        return Err(GraphError::OutOfTime);
    }
    Ok(Holders { findings, labels, owners, keepers, users })
}

/// The root of an object in words: its variable, without what is between it and the object.
fn keeper(namer: &mut Namer<'_, '_, '_, '_>, object: Addr) -> Option<String> {
    let node = namer.tree.node(object)?;
    let name = match namer.root(node)? {
        RootName::Static(name) => name.to_string(),
        _ => namer.holder(node).unwrap_or_else(|| sentence::root_text(namer, node)),
    };
    Some(name)
}
