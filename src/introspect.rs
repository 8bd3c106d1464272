//! Who claims memory, and the map that follows: each introspector looks at the
//! process and says what it knows; none knows of another.

use crate::diag::Diagnostics;
use crate::map::{AddressMap, Base, Claims};
use crate::native::malloc::MallocHeap;
use crate::native::stacks::Stacks;
use crate::process::Process;
use crate::{image, native};

/// All that was found out about a process.
pub struct Findings {
    /// The resolved map.
    pub map: AddressMap,
    /// Stacks of threads.
    pub stacks: Stacks,
    /// Heaps of malloc.
    pub malloc: Vec<MallocHeap>,
}

/// Run all introspectors and resolve what they claim.
pub fn introspect(process: &Process) -> Findings {
    let base = Base::of(&process.core);
    let mut claims = Claims::default();
    image::claims::claim(process, &mut claims);
    let stacks = native::stacks::find(process, &base);
    native::stacks::claim(process, &stacks, &mut claims);
    note_missing_stacks(&stacks, &process.diag);
    let malloc = native::malloc::find(process, &base).unwrap_or_else(|e| {
        process.diag.partial("malloc", e.to_string());
        Vec::new()
    });
    native::malloc::claim(&malloc, &base, &mut claims);
    let map = AddressMap::resolve(&process.core, claims);
    Findings { map, stacks, malloc }
}

fn note_missing_stacks(stacks: &Stacks, diag: &Diagnostics) {
    if !stacks.without.is_empty() {
        diag.partial(
            "stack-missing",
            format!(
                "{} threads without a stack: SP in no writable mapping (first: thread {})",
                stacks.without.len(),
                stacks.without[0]
            ),
        );
    }
}
