//! Stacks of user-level threads (fibers) that the C library's `makecontext` prepared.
//!
//! The registers of a waiting fiber are in a `ucontext_t`, which also names the fiber's stack. Such structures in the
//! data of modules are found by their contents. On x86_64, `getcontext` and `swapcontext` make `uc_mcontext.fpregs`
//! point into the same structure. On arm64, they write the header of a floating-point record. The saved stack pointer
//! must be within the stack that the structure names.
//!
//! Contexts on the heap are not searched for: every word of the heap would have to be read.
//!
//! Sources: glibc sysdeps/unix/sysv/linux/x86_64/getcontext.S and ucontext_i.sym (oFPREGS, oFPREGSMEM);
//! sysdeps/unix/sysv/linux/aarch64/getcontext.S. Measured on glibc 2.36.

use std::collections::BTreeMap;

use super::findings::{Findings, Label};
use super::scene::Scene;
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::{Kind, Owner};
use crate::targets::Arch;

/// Detail of the label of a fiber's stack.
pub const FIBER_STACK: &str = "stack of a fiber";

/// Offsets in a `ucontext_t`.
struct ContextLayout {
    /// A word that identifies the structure.
    mark: u64,
    /// Saved stack pointer. The instruction pointer follows.
    sp: u64,
}

/// `uc_mcontext.fpregs`, and the `__fpregs_mem` that it points to.
const FPREGS: u64 = 224;
const FPREGS_MEM: u64 = 424;

/// Magic number and size of `struct fpsimd_context`.
const FPSIMD: u64 = 528 << 32 | 0x4650_8001;

const X86_64: ContextLayout = ContextLayout { mark: FPREGS, sp: 160 };
const AARCH64: ContextLayout = ContextLayout { mark: 464, sp: 432 };

/// `uc_stack`, with its size in the third word.
const STACK: u64 = 16;

fn layout(arch: Arch) -> &'static ContextLayout {
    match arch {
        Arch::X86_64 => &X86_64,
        Arch::Aarch64 => &AARCH64,
    }
}

/// Whether a word at this address can be the mark.
fn is_mark(arch: Arch, at: Addr, word: u64) -> bool {
    match arch {
        Arch::X86_64 => at.checked_add(FPREGS_MEM - FPREGS) == Some(Addr::new(word)),
        Arch::Aarch64 => word == FPSIMD,
    }
}

pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    let layout = layout(scene.arch);
    let mut stacks: BTreeMap<AddrRange, (Addr, Addr)> = BTreeMap::new();
    for part in scene.images.iter().flat_map(|image| &image.writable) {
        scene.each_word(*part, |at, word| {
            if is_mark(scene.arch, at, word)
                && stacks.len() < limits::MAX_FIBERS
                && let Some(context) = at.checked_sub(layout.mark)
                && let Some((stack, sp)) = stack_of(scene, layout, context)
            {
                scene.keep(context, 5);
                scene.keep(context.saturating_add(layout.sp), 2);
                scene.keep(at, 1);
                stacks.insert(stack, (context, sp));
            }
        });
    }
    for (stack, (context, sp)) in stacks {
        let evidence =
            format!("uc_stack of the ucontext_t at {context}, whose saved stack pointer {sp} is in this memory");
        let label = |kind, detail: &str| Label::derived(kind, Owner::None, detail, evidence.as_str());
        found.add(vec![stack], &label(Kind::Stack, FIBER_STACK));
        let guard = scene.barred_below(stack.start).filter(|guard| guard.len() <= stack.len());
        found.add(guard.into_iter().collect(), &label(Kind::StackGuard, "guard of the stack of a fiber"));
    }
}

/// Returns the stack of a context, and the stack pointer saved there. `None` if this is no context of a fiber.
fn stack_of(scene: &Scene<'_>, layout: &ContextLayout, context: Addr) -> Option<(AddrRange, Addr)> {
    let [low, _, size] = scene.words(context.checked_add(STACK)?)?;
    let stack = AddrRange::sized(Addr::new(low), size);
    let whole = scene.unclaimed_at(stack.start).is_some_and(|unclaimed| unclaimed.covers(&stack));
    let [sp, ip] = scene.words(context.checked_add(layout.sp)?)?;
    let sp = Addr::new(sp);
    (whole && stack.contains(sp) && ip != 0).then_some((stack, sp))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Lab, range};
    use super::*;
    use crate::map::Confidence;

    const DATA: u64 = 0x10_0000;
    const STACKS: u64 = 0x7000_0000_0000;

    /// A context at `at` with this stack and stack pointer, as `swapcontext` of glibc saves it.
    fn put(lab: &mut Lab, at: u64, stack: (u64, u64), sp: u64) {
        lab.put(at, &[7, 0, stack.0, 0, stack.1]).put(at + 160, &[sp, 0x40_1136]).put(at + FPREGS, &[at + FPREGS_MEM]);
    }

    #[test]
    fn stacks_are_found_by_contexts_in_data() {
        let mut lab = Lab::default();
        lab.map(DATA, 0x2000).map(STACKS, 0x4_0000);
        put(&mut lab, DATA + 0x20, (STACKS, 0x1_0000), STACKS + 0xe000);
        // Its stack is mapped elsewhere, its stack pointer is elsewhere, or it never had a stack.
        put(&mut lab, DATA + 0x420, (STACKS + 0x3_0000, 0x2_0000), STACKS + 0x3_8000);
        put(&mut lab, DATA + 0x820, (STACKS + 0x1_0000, 0x1_0000), STACKS + 0x2_8000);
        put(&mut lab, DATA + 0xc20, (0, 0), STACKS + 0x1_8000);
        // The mark alone.
        lab.put(DATA + 0x1800, &[DATA + 0x1800 + FPREGS_MEM - FPREGS]);
        let found = lab.recognise(find, ("app", range(DATA, 0x2000)), &[range(STACKS, 0x4_0000)]);
        let [(stack, label)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(*stack, range(STACKS, 0x1_0000));
        assert_eq!(
            (label.kind, label.confidence, label.detail.as_str()),
            (Kind::Stack, Confidence::Derived, FIBER_STACK)
        );
        assert_eq!(
            label.evidence,
            "uc_stack of the ucontext_t at 0x100020, whose saved stack pointer 0x70000000e000 is in this memory"
        );
    }
}
