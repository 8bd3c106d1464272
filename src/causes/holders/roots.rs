//! Roots in tiers, with names.

use std::collections::HashSet;
use std::sync::Arc;

use crate::addr::Addr;
use crate::analysis::roots::RuntimeRoots;
use crate::runtimes::api::{CodeAt, MethodRole, NamedStatics, OTHER_RUNTIME, ObjectNames, Root, RootKind, TypeRole};

/// Tiers of roots, best names first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    /// Static variables of the program.
    Static,
    /// Exact variables of frames that refer to objects of the program's types.
    Frame,
    /// Words on stacks that lead to objects of the program's types.
    Local,
    /// Static variables of libraries.
    Library,
    /// Handles and the runtime's own references.
    Other,
    /// Threads, and what they refer to. The tier is late, because a thread refers to the lock that it waits for.
    Thread,
    /// Words on stacks that may be references.
    Word,
    /// Objects that contain static variables, whose variables have no known names.
    Unnamed,
}

const TIERS: usize = 8;

/// Maximum number of roots, including variables with unknown names.
const MAX_ROOTS: usize = 1 << 22;

/// Index of the tier of threads.
pub(super) const THREADS: usize = Tier::Thread as usize;

/// Name of a root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum RootName {
    /// A static variable.
    Static(Arc<str>),
    /// A frame: thread and method.
    Frame(Option<u32>, Option<String>),
    /// A thread.
    Thread(u32),
    /// A field of another runtime's object, with its owner.
    Other(Arc<str>),
    /// A kind of root, by the runtime's name for it.
    Kind(&'static str),
    /// A static variable whose name is unknown.
    Unnamed,
}

/// All roots of a heap, by tier.
pub(super) struct NamedRoots {
    roots: Vec<(RootName, Addr)>,
    ends: [usize; TIERS],
    /// Objects that contain static variables. They are not followed themselves.
    pub(super) containers: Vec<Addr>,
}

impl NamedRoots {
    pub(super) fn of(rooted: &RuntimeRoots<'_>, names: &mut ObjectNames<'_>) -> NamedRoots {
        let NamedStatics { roots: statics, containers } = rooted.runtime.named_statics();
        // Objects that need no root: containers, and later also objects that have a name already.
        let mut known: HashSet<Addr> = containers.iter().copied().collect();
        let locals = rooted.runtime.thread_local_values();
        let others: Vec<Arc<str>> = rooted.others.all.iter().map(|other| other.text().into()).collect();
        let mut all: Vec<(Tier, RootName, Addr)> = Vec::new();
        for root in statics {
            let tier = if root.library { Tier::Library } else { Tier::Static };
            all.push((tier, RootName::Static(root.name), root.object));
        }
        for root in rooted.roots.iter().filter(|root| !known.contains(&root.object)) {
            let other = rooted.others.index_at(root.address).filter(|_| root.kind == OTHER_RUNTIME);
            let (tier, name) = match other.and_then(|index| others.get(index)) {
                Some(name) => (Tier::Other, RootName::Other(Arc::clone(name))),
                None => classify(rooted, root),
            };
            let mut own =
                || names.node(root.object).is_some_and(|node| rooted.runtime.type_role(node.kind) == TypeRole::Program);
            let tier = match tier {
                Tier::Frame | Tier::Word if locals.contains(&root.object) => Tier::Word,
                Tier::Word if own() => Tier::Local,
                // A variable is a good name only for objects of the program's own types.
                Tier::Frame if !own() => Tier::Other,
                tier => tier,
            };
            all.push((tier, name, root.object));
        }
        // Add variables whose names could not be read, so that no object is lost.
        known.extend(all.iter().filter(|(_, name, _)| matches!(name, RootName::Static(_))).map(|(.., at)| *at));
        let mut reader = names.heap.reader();
        for container in &containers {
            reader.each(container.get(), |_, to| {
                let object = Addr::new(to);
                if known.insert(object) {
                    all.push((Tier::Unnamed, RootName::Unnamed, object));
                }
                all.len() < MAX_ROOTS
            });
        }
        all.sort_by_key(|(tier, ..)| *tier);
        let mut ends = [0; TIERS];
        for (end, tier) in ends.iter_mut().zip([
            Tier::Static,
            Tier::Frame,
            Tier::Local,
            Tier::Library,
            Tier::Other,
            Tier::Thread,
            Tier::Word,
            Tier::Unnamed,
        ]) {
            *end = all.partition_point(|(of, ..)| *of <= tier);
        }
        NamedRoots { roots: all.into_iter().map(|(_, name, at)| (name, at)).collect(), ends, containers }
    }

    /// Returns the objects of the roots, by tier.
    pub(super) fn tiers(&self) -> Vec<Vec<Addr>> {
        let starts = std::iter::once(0).chain(self.ends);
        let part = |(from, to): (usize, usize)| {
            self.roots.get(from..to).unwrap_or_default().iter().map(|(_, at)| *at).collect()
        };
        starts.zip(self.ends).map(part).collect()
    }

    /// Returns the name of a root, by its index over all tiers.
    pub(super) fn name(&self, index: u32) -> Option<&RootName> {
        self.roots.get(index as usize).map(|(name, _)| name)
    }
}

fn classify(rooted: &RuntimeRoots<'_>, root: &Root) -> (Tier, RootName) {
    match root.kind {
        RootKind::StackWord => (Tier::Word, RootName::Frame(root.thread, None)),
        RootKind::Stack => {
            let method = root.frame.and_then(|frame| {
                let code = if frame.exact { frame.ip } else { frame.ip.saturating_sub(1) };
                match rooted.runtime.code().code_at(code)? {
                    CodeAt::Method(method) => Some(method),
                    CodeAt::Stub(_) | CodeAt::Other(_) => None,
                }
            });
            let library = method.as_ref().is_some_and(|method| method.role != MethodRole::Program);
            let tier = if library { Tier::Other } else { Tier::Frame };
            (tier, RootName::Frame(root.thread, method.map(|method| method.name.clone())))
        }
        RootKind::Of(..) | RootKind::Frozen => match root.thread {
            Some(tid) => (Tier::Thread, RootName::Thread(tid)),
            None => (Tier::Other, RootName::Kind(root.kind.name())),
        },
    }
}
