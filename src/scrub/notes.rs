//! ELF notes, overwritten; which of their bytes stay is told in `core/scrubbed_notes.rs`, beside how they are read.

use crate::core::notes::nt;
use crate::core::{own_notes, scrubbed_notes};
use crate::scrub::{By, Counts, Kept, Level, Plan, Rule};
use crate::targets::Arch;

/// The notes in `bytes` without values, and one more, which says so. Their bytes are counted.
pub fn notes(bytes: &[u8], arch: Arch, plan: &Plan<'_>, counts: &mut Counts) -> Vec<u8> {
    let spared = |owner: &[u8], kind| !plan.has(rule(owner, kind));
    let mut out = scrubbed_notes::scrubbed(bytes, arch, |value| plan.leads_somewhere(value), spared);
    let mut overwritten = 0;
    scrubbed_notes::each(bytes, |owner, kind, data| {
        let (old, new) = (bytes.get(data.clone()), out.get(data));
        let gone = old.unwrap_or_default().iter().zip(new.unwrap_or_default()).filter(|(a, b)| a != b).count() as u64;
        counts.count(By::Rule(rule(owner, kind)), gone);
        overwritten += gone;
    });
    if let Some(names) = &plan.names {
        let before = out.clone();
        names.notes(&mut out);
        let renamed = out.iter().zip(before).filter(|(a, b)| **a != *b).count() as u64;
        counts.count(By::Names, renamed);
        overwritten += renamed;
    }
    let level = if plan.names.is_some() { Level::Names } else { Level::Values };
    own_notes::add_scrubbed(&mut out, level.word(), &plan.views);
    counts.count(By::Kept(Kept::Notes), (out.len() as u64).saturating_sub(overwritten));
    out
}

/// By which rule notes of that owner and type are overwritten.
fn rule(owner: &[u8], kind: u32) -> Rule {
    match (owner, kind) {
        (b"CORE", nt::PRSTATUS) => Rule::Registers,
        (b"CORE", nt::PRPSINFO) => Rule::Arguments,
        (b"CORE", nt::SIGINFO) => Rule::SignalInfo,
        (b"CORE", nt::FPREGSET) | (b"LINUX", scrubbed_notes::X86_XSTATE) => Rule::FloatRegisters,
        _ => Rule::UnknownNotes,
    }
}
