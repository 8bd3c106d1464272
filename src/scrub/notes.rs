//! ELF notes, overwritten; which of their bytes stay is told in `core/scrubbed_notes.rs`, beside how they are read.

use crate::core::{own_notes, scrubbed_notes};
use crate::scrub::{Level, Plan};
use crate::targets::Arch;

/// The notes in `bytes` without values, and one more, which says so.
pub fn notes(bytes: &[u8], arch: Arch, plan: &Plan<'_>) -> Vec<u8> {
    let mut out = scrubbed_notes::scrubbed(bytes, arch, |value| plan.leads_somewhere(value));
    if let Some(names) = &plan.names {
        names.notes(&mut out);
    }
    let level = if plan.names.is_some() { Level::Names } else { Level::Values };
    own_notes::add_scrubbed(&mut out, level.word());
    out
}
