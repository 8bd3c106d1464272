//! The retained managed heap as stacks. A stack begins with the kind of root and continues with the types along the
//! dominator tree. Its weight is the objects' own bytes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::Addr;
use crate::analysis::roots::with_retained;
use crate::export::ExportError;
use crate::export::profiles::{Frame, Measure, Profile};
use crate::export::variables::variables;
use crate::limits;
use crate::runtimes::api::{Heap, ObjectNames, Root, TypeIndex};
use crate::runtimes::graph::Retained;
use crate::session::Session;

const BYTES: Measure = Measure { name: "bytes", bytes: true };
const OBJECTS: Measure = Measure { name: "objects", bytes: false };

/// A step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// The virtual root.
    VirtualRoot,
    /// Roots of one kind, by their node number.
    Source(u32),
    /// Roots of several kinds.
    SeveralKinds,
    /// Objects of a type. Consecutive dominators of one type, such as nodes of a list, are one step.
    Type(TypeIndex),
    /// A static variable, by the node number of its object.
    Variable(u32),
    /// Paths that are too small or too deep to be listed.
    Other,
}

/// Names of static variables by the node number of their object. Only objects that nothing retains but the array of
/// statics.
type Variables = HashMap<u32, Arc<str>>;

fn variables_of(retained: &Retained<'_>, heap: &dyn Heap, roots: &[Root]) -> Variables {
    let live = &retained.live;
    let all = variables(heap, roots.iter());
    let addrs: Vec<Addr> = all.iter().flat_map(|variable| [variable.object, variable.array]).collect();
    let numbers = live.numbers_of(&addrs);
    let kept = all.into_iter().zip(numbers.as_chunks().0).filter_map(|(variable, &[object, array])| {
        let number = object?;
        (array == Some(retained.dominator(number))).then_some((number, variable.name))
    });
    // If several variables refer to one object, the first counts.
    let mut out = Variables::new();
    for (number, name) in kept {
        out.entry(number).or_insert(name);
    }
    out
}

/// A node of the tree of paths.
struct Node {
    step: Step,
    parent: u32,
    depth: u32,
    /// Bytes and number of the objects at this node.
    own: (u64, u64),
    /// Bytes of this node and of all nodes below it.
    all: u64,
}

/// Builds the profile of the live objects of all heaps.
pub(super) fn retained(session: &Session<'_>) -> Result<Profile, ExportError> {
    let mut profile = Profile::new("retained", &[BYTES, OBJECTS]);
    let mut any = false;
    with_retained(session, |retained, names, rooted| {
        any = true;
        let runtime = rooted.runtime.row().name;
        let variables = variables_of(retained, names.heap, rooted.roots);
        Paths::of(retained, &variables).add_stacks(retained, names, &variables, &runtime, &mut profile);
    });
    if !any {
        return Err(ExportError::Unfit("nothing was written: no managed heap can be read from this core".into()));
    }
    Ok(profile)
}

struct Paths {
    nodes: Vec<Node>,
    below: HashMap<(u32, Step), u32>,
}

impl Paths {
    /// Assigns each live object to the node of its path. A dominator has a lower number than the objects it dominates.
    fn of(retained: &Retained<'_>, variables: &Variables) -> Paths {
        let len = retained.live.len();
        let mut own: Vec<u64> = (0..len as u32).map(|number| retained.bytes(number)).collect();
        for number in 1..len as u32 {
            if let Some(up) = own.get_mut(retained.dominator(number) as usize) {
                *up = up.saturating_sub(retained.bytes(number));
            }
        }
        let top = Node { step: Step::VirtualRoot, parent: 0, depth: 0, own: (0, 0), all: 0 };
        let mut paths = Paths { nodes: vec![top], below: HashMap::new() };
        let mut of: Vec<u32> = vec![0; len];
        for number in 1..len as u32 {
            let up = of.get(retained.dominator(number) as usize).copied().unwrap_or(0);
            let step = retained.kind(number).map_or(Step::Source(number), Step::Type);
            let up = if up == 0 && matches!(step, Step::Type(_)) { paths.step(0, Step::SeveralKinds) } else { up };
            let is_variable = variables.contains_key(&number);
            let up = if is_variable { paths.step(up, Step::Variable(number)) } else { up };
            let at = paths.step(up, step);
            if let Some(place) = of.get_mut(number as usize) {
                *place = at;
            }
            if let (Some(node), Step::Type(_)) = (paths.nodes.get_mut(at as usize), step) {
                let bytes = own.get(number as usize).copied().unwrap_or(0);
                node.own = (node.own.0.saturating_add(bytes), node.own.1 + 1);
            }
        }
        paths.sum();
        paths
    }

    /// Returns the child of `up` for `step`, and creates it if needed.
    fn step(&mut self, up: u32, step: Step) -> u32 {
        let Some(node) = self.nodes.get(up as usize) else { return 0 };
        if node.step == step || node.step == Step::Other {
            return up;
        }
        let depth = node.depth + 1;
        let full = depth > limits::MAX_PROFILE_DEPTH || self.nodes.len() >= limits::MAX_PROFILE_PATHS;
        let step = if full { Step::Other } else { step };
        let next = self.nodes.len() as u32;
        *self.below.entry((up, step)).or_insert_with(|| {
            self.nodes.push(Node { step, parent: up, depth, own: (0, 0), all: 0 });
            next
        })
    }

    /// Sums the bytes below each node. Nodes that are too small are merged into "others" below their nearest ancestor
    /// that is not. Parents precede their children in `nodes`.
    fn sum(&mut self) {
        for at in (0..self.nodes.len()).rev() {
            let Some(node) = self.nodes.get_mut(at) else { continue };
            node.all = node.all.saturating_add(node.own.0);
            let (all, parent) = (node.all, node.parent as usize);
            if at > 0
                && let Some(up) = self.nodes.get_mut(parent)
            {
                up.all = up.all.saturating_add(all);
            }
        }
        let least = self.nodes.first().map_or(0, |top| top.all) / limits::PROFILE_MERGE_DIVISOR;
        for at in (1..self.nodes.len()).rev() {
            let Some(node) = self.nodes.get(at) else { continue };
            let (kept, mut up, is_others) = (node.own, node.parent, node.step == Step::Other);
            if node.all >= least || kept == (0, 0) {
                continue;
            }
            let all_of = |at: u32| self.nodes.get(at as usize).map_or(0, |node| node.all);
            if is_others && all_of(up) >= least {
                continue;
            }
            while up != 0 && all_of(up) < least {
                up = self.nodes.get(up as usize).map_or(0, |node| node.parent);
            }
            if let Some(node) = self.nodes.get_mut(at) {
                node.own = (0, 0);
            }
            let others = self.others(up);
            if let Some(into) = self.nodes.get_mut(others as usize) {
                into.own = (into.own.0.saturating_add(kept.0), into.own.1 + kept.1);
            }
        }
    }

    /// Returns the "others" node below `up`, and creates it if needed.
    fn others(&mut self, up: u32) -> u32 {
        let (next, depth) = (self.nodes.len() as u32, self.nodes.get(up as usize).map_or(0, |node| node.depth + 1));
        *self.below.entry((up, Step::Other)).or_insert_with(|| {
            self.nodes.push(Node { step: Step::Other, parent: up, depth, own: (0, 0), all: 0 });
            next
        })
    }

    fn add_stacks(
        &self,
        retained: &Retained<'_>,
        names: &mut ObjectNames<'_>,
        variables: &Variables,
        runtime: &str,
        profile: &mut Profile,
    ) {
        let mut name_of = |step: Step| match step {
            Step::VirtualRoot => format!("{runtime} heap"),
            Step::Source(number) => {
                let kind = retained.live.root_node(number).map_or("?", |source| source.kind.name());
                format!("[{kind}]")
            }
            Step::Type(kind) => names.of_kind(kind).to_string(),
            Step::Variable(number) => variables.get(&number).map_or_else(|| "?".to_owned(), |name| name.to_string()),
            Step::SeveralKinds => "[roots of several kinds]".to_owned(),
            Step::Other => "(others)".to_owned(),
        };
        for node in self.nodes.iter().filter(|node| node.own != (0, 0)) {
            let mut steps = vec![node.step];
            let mut up = node.parent;
            for _ in 0..node.depth {
                let Some(above) = self.nodes.get(up as usize) else { break };
                steps.push(above.step);
                up = above.parent;
            }
            let frames = steps.into_iter().rev().map(|step| Frame::named(name_of(step)));
            profile.add(frames, &[node.own.0, node.own.1]);
        }
    }
}
