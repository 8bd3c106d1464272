//! Native memory that managed objects own: direct and mapped buffers, and what retains them.

use std::collections::{BTreeMap, HashMap};

use crate::addr::Addr;
use crate::analysis::roots::{RuntimeRoots, Unreached};
use crate::commands::triage::analysis::{biggest, counted};
use crate::map::Confidence;
use crate::report::{BufferMemory, Finding, Severity};
use crate::runtimes::api::{ObjectNames, OwnedBuffer, RootKind, TypeIndex};
use crate::runtimes::graph::Retained;
use crate::session::Session;
use crate::units::round;

/// Minimum size of buffers for a warning, in bytes.
const LARGE: u64 = 256 << 20;

/// Maximum number of dominators visited to find the owner of a buffer.
const STEPS: usize = 16;

/// Package prefixes of the runtimes' own libraries. Their objects are skipped, to find the code that uses them.
const LIBRARY: [&str; 5] = ["java.", "javax.", "jdk.", "sun.", "System."];

/// Maximum number of names shown.
const NAMES: usize = 3;

/// Reports all buffers. `None` if there are none.
pub(super) fn sums(session: &Session<'_>) -> Option<Finding> {
    let all: Vec<&OwnedBuffer> = session.runtimes().into_iter().flat_map(|runtime| runtime.buffers()).collect();
    let of = |how: BufferMemory| {
        let mine = all.iter().filter(|b| b.how == how);
        mine.fold((0_u64, 0_u64), |(n, bytes), b| (n + 1, bytes.saturating_add(b.range.len())))
    };
    let (allocated, mapped) = (of(BufferMemory::Allocated), of(BufferMemory::Mapped));
    if allocated.0.saturating_add(mapped.0) == 0 {
        return None;
    }
    let text = format!(
        "Managed objects own native memory: {} ({}){}.",
        counted(allocated.0, "buffer", "buffers"),
        round(allocated.1),
        match mapped {
            (0, _) => String::new(),
            (n, bytes) => format!(" and {} ({})", counted(n, "mapped file", "mapped files"), round(bytes)),
        }
    );
    let severity = if allocated.1 >= LARGE { Severity::Warning } else { Severity::Info };
    let finding =
        Finding::new("native-buffers", severity, text, "objects that free this memory when they are collected");
    Some(finding.about(allocated.1).known(Confidence::Exact).more("holders").within("malloc"))
}

/// The object or root that retains an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Keeper {
    /// An object of a type.
    Type(TypeIndex),
    /// Roots of one kind.
    Roots(RootKind),
    /// Roots of several kinds.
    SeveralRoots,
}

impl Keeper {
    fn name(self, names: &mut ObjectNames<'_>) -> String {
        match self {
            Keeper::Type(kind) => names.of_kind(kind).shown().to_string(),
            Keeper::Roots(kind) => format!("roots ({})", kind.name()),
            Keeper::SeveralRoots => "several roots".to_owned(),
        }
    }
}

/// Returns sentences on what retains the buffers of a runtime. Takes one scan of the live objects, and a limited number
/// of steps for each object that retains buffers.
pub(super) fn keepers(rooted: &RuntimeRoots<'_>, retained: &Retained<'_>, names: &mut ObjectNames<'_>) -> String {
    let buffers = rooted.runtime.buffers();
    let owners: Vec<Addr> = buffers.iter().map(|buffer| buffer.object).collect();
    let mut by_dominator: HashMap<u32, u64> = HashMap::new();
    let mut dead = 0_u64;
    for (buffer, number) in buffers.iter().zip(retained.live.numbers_of(&owners)) {
        let sum = match number {
            None | Some(0) => &mut dead,
            Some(number) => by_dominator.entry(retained.dominator(number)).or_default(),
        };
        *sum = sum.saturating_add(buffer.range.len());
    }
    let mut library: HashMap<TypeIndex, bool> = HashMap::new();
    let mut is_library = |kind: TypeIndex, names: &mut ObjectNames<'_>| {
        *library.entry(kind).or_insert_with(|| {
            let name = names.of_kind(kind).shown().to_string();
            LIBRARY.iter().any(|package| name.starts_with(package))
        })
    };
    let mut sums: BTreeMap<Keeper, u64> = BTreeMap::new();
    for (dominator, bytes) in by_dominator {
        let sum = sums.entry(keeper(dominator, retained, |kind| is_library(kind, names))).or_default();
        *sum = sum.saturating_add(bytes);
    }
    let mut text = String::new();
    if !sums.is_empty() {
        // Types of several modules can have one name.
        let mut named: BTreeMap<String, u64> = BTreeMap::new();
        for (keeper, bytes) in sums {
            let sum = named.entry(keeper.name(names)).or_default();
            *sum = sum.saturating_add(bytes);
        }
        text.push_str(&format!(" Retained by: {}.", biggest(named.into_iter().collect(), NAMES)));
    }
    if dead > 0 {
        let dead = round(dead);
        text.push_str(&match rooted.unreached() {
            Unreached::Collectible => format!(" {dead} belong to unreachable objects: a collection would free them."),
            Unreached::Kept(why) => format!(" {dead} belong to unreachable objects, but {why}."),
            Unreached::Unknown => format!(
                " {dead} belong to objects that are not reached from the roots that were read (not read: {}).",
                rooted.not_read.join(", ")
            ),
        });
    }
    text
}

/// Returns the nearest dominator of an object that is outside of the runtime's own library. `dominator` is the
/// immediate one.
fn keeper(dominator: u32, retained: &Retained<'_>, mut is_library: impl FnMut(TypeIndex) -> bool) -> Keeper {
    let mut last = None;
    let mut at = dominator;
    for _ in 0..STEPS {
        if let Some(source) = retained.live.root_node(at) {
            return last.unwrap_or(Keeper::Roots(source.kind));
        }
        let Some(kind) = retained.kind(at) else { break };
        if !is_library(kind) {
            return Keeper::Type(kind);
        }
        last = last.or(Some(Keeper::Type(kind)));
        at = retained.dominator(at);
    }
    last.unwrap_or(Keeper::SeveralRoots)
}
