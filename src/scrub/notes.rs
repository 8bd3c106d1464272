//! Overwrites ELF notes. `core/scrubbed_notes.rs` reads them, and decides which of their bytes stay.

use crate::addr::Addr;
use crate::core::notes::nt;
use crate::core::scrubbed_notes::ScrubRules;
use crate::core::{own_notes, scrubbed_notes};
use crate::limits;
use crate::memory::Memory;
use crate::scrub::{By, Counts, Kept, Level, Plan, Rule};
use crate::targets::{Arch, Producer, at};

/// Returns the notes in `bytes` without values, and with one more note that says so. Counts their bytes.
pub fn notes(bytes: &[u8], arch: Arch, plan: &Plan<'_>, counts: &mut Counts) -> Vec<u8> {
    let spared = |owner: &[u8], kind| !plan.has(rule(owner, kind));
    let rules = ScrubRules { is_address: &|value| plan.is_address(value), is_program: &|name| is_program(plan, name) };
    let mut out = scrubbed_notes::scrubbed(bytes, arch, &rules, spared);
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

/// Whether the program name in NT_PRPSINFO is really one. The kernel writes the first thread's name. gdb writes the
/// program's first argument (`linux_fill_prpsinfo`), in which daemons may describe what they work on (`setproctitle`).
fn is_program(plan: &Plan<'_>, name: &[u8]) -> bool {
    if matches!(plan.process.producer(), Producer::Kernel | Producer::Createdump | Producer::Coremap) {
        return true;
    }
    let own = plan.process.auxv(at::EXECFN);
    let own = own.and_then(|at| plan.process.memory.text(Addr::new(at), limits::MAX_NAME).ok());
    let files = plan.process.modules.iter().map(|module| &*module.path).chain(own.as_deref());
    // A name that is too long is cut.
    files.map(|path| path.rsplit('/').next().unwrap_or(path)).any(|file| file.as_bytes().starts_with(name))
}

/// Returns the rule for notes with this owner and type.
fn rule(owner: &[u8], kind: u32) -> Rule {
    match (owner, kind) {
        (b"CORE", nt::PRSTATUS) => Rule::Registers,
        (b"CORE", nt::PRPSINFO) => Rule::Arguments,
        (b"CORE", nt::SIGINFO) => Rule::SignalInfo,
        (b"CORE", nt::FPREGSET) | (b"LINUX", scrubbed_notes::X86_XSTATE) => Rule::FloatRegisters,
        _ => Rule::UnknownNotes,
    }
}
