//! Native memory that managed objects own: direct and mapped buffers, and what retains them.

use std::collections::BTreeMap;

use crate::analysis::roots::{RuntimeRoots, Unreached};
use crate::commands::triage::analysis::{biggest, counted};
use crate::map::Confidence;
use crate::report::{BufferMemory, Finding, Severity};
use crate::runtimes::api::{ManagedRuntime, ObjectNames, OwnedBuffer};
use crate::runtimes::graph::Retained;
use crate::session::Session;
use crate::units::round;

/// Minimum size of buffers that makes them a warning, in bytes.
const LARGE: u64 = 256 << 20;

/// Maximum number of dominators visited to find the owner of a buffer.
const STEPS: usize = 16;

/// Packages of a runtime's own library. Objects of these are skipped, to find the code that uses them.
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

/// Adds to the finding what retains the buffers of `runtime`.
pub(super) fn tell_keepers(
    finding: &mut Finding,
    runtime: &dyn ManagedRuntime,
    retained: &Retained<'_>,
    names: &mut ObjectNames<'_>,
    rooted: &RuntimeRoots<'_>,
) {
    let mut keepers: BTreeMap<String, u64> = BTreeMap::new();
    let mut dead = 0_u64;
    for buffer in runtime.buffers() {
        match retained.live.number_of(buffer.object) {
            None | Some(0) => dead = dead.saturating_add(buffer.range.len()),
            Some(number) => {
                let keeper = keeper(number, retained, names);
                *keepers.entry(keeper).or_default() += buffer.range.len();
            }
        }
    }
    if !keepers.is_empty() {
        finding.text.push_str(&format!(" Retained by {}.", biggest(keepers.into_iter().collect(), NAMES)));
    }
    if dead > 0 {
        let dead = round(dead);
        finding.text.push_str(&match rooted.unreached() {
            Unreached::Collectible => format!(" {dead} belong to unreachable objects: a collection would free them."),
            Unreached::Kept(why) => format!(" {dead} belong to unreachable objects, but {why}."),
            Unreached::Unknown => format!(
                " {dead} belong to objects that are not reached from the roots that were read (not read: {}).",
                rooted.not_read.join(", ")
            ),
        });
    }
}

/// Describes what retains an object: its nearest dominator outside the runtime's own library.
fn keeper(number: u32, retained: &Retained<'_>, names: &mut ObjectNames<'_>) -> String {
    let mut last = None;
    let mut at = number;
    for _ in 0..STEPS {
        at = retained.dominator(at);
        if let Some(source) = retained.live.root_node(at) {
            let name = format!("roots ({})", source.kind.name());
            return last.unwrap_or(name);
        }
        let Some(kind) = retained.kind(at) else { break };
        let name = names.of_kind(kind).shown();
        if !LIBRARY.iter().any(|package| name.starts_with(package)) {
            return name;
        }
        last = last.or(Some(name));
    }
    last.unwrap_or_else(|| "several roots".to_owned())
}
