//! Stacks of Go's threads, from Go's scheduler.
//!
//! Each thread (`m`) has its own stack (`g0`) and one for signals (`gsignal`). Goroutines run on stacks of their own.
//! Without a C library, no control block describes these stacks.
//!
//! Sources: Go runtime/runtime2.go (stack, g, m) and cmd/link. The running `g` is in the thread's TLS: on amd64 in the
//! last word below the thread pointer and in r14, on arm64 in x28. Nothing is accepted unless it leads back: a `g` to
//! its `m`, the `m` to its `g0`, and the `g0` to the `m` again.

use crate::addr::{Addr, AddrRange};
use crate::bytes;
use crate::layout::{GO_RUNTIME, Layout, StructView};
use crate::limits;
use crate::memory::Memory;
use crate::native::stacks::space::Space;
use crate::targets::Arch;
use crate::targets::Thread;

pub(super) struct GoThread {
    pub(super) m: Addr,
    /// The scheduler's own stack of the thread.
    pub(super) g0: GoStack,
    /// The stacks of the other `g`s of this `m`: the running goroutine, and gsignal.
    others: Vec<GoStack>,
}

#[derive(Clone, Copy)]
pub(super) struct GoStack {
    pub(super) g: Addr,
    /// `stack.lo` to `stack.hi`.
    pub(super) range: AddrRange,
}

impl GoThread {
    /// Returns the stack that contains `addr`.
    pub(super) fn holding(&self, addr: Addr) -> Option<GoStack> {
        std::iter::once(&self.g0).chain(&self.others).find(|s| s.range.contains(addr)).copied()
    }
}

pub(super) struct Go<'a> {
    memory: &'a dyn Memory,
    space: &'a Space<'a>,
    arch: Arch,
    layout: &'static Layout,
}

impl<'a> Go<'a> {
    /// Makes a reader. `None` if the bundled table of Go's structures is unusable.
    pub(super) fn new(memory: &'a dyn Memory, arch: Arch, space: &'a Space<'a>) -> Option<Go<'a>> {
        Some(Go { memory, space, arch, layout: GO_RUNTIME.layout().ok()? })
    }

    /// Returns the `m` of a thread and its stacks, if it is one of Go's threads.
    pub(super) fn thread(&self, thread: &Thread) -> Option<GoThread> {
        let (m, _) = self.candidates(thread).into_iter().find_map(|g| Some((self.m_of(g)?, self.stack_of(g)?)))?;
        let g0 = self.g("m", m, "g0")?;
        let g0 = GoStack { g: g0, range: self.stack_of(g0)? };
        let words = self.memory.readable(m, limits::MAX_GO_M_WORDS * 8);
        let words = self.memory.look(m, usize::try_from(words).ok()?).ok()?;
        let others = (0..words.len()).step_by(8).filter_map(|i| {
            let g = Addr::new(bytes::u64_at(&words, i)?);
            let ours = g != g0.g && !g.is_null() && self.m_of(g) == Some(m);
            Some(GoStack { g, range: self.stack_of(g).filter(|_| ours)? })
        });
        Some(GoThread { m, g0, others: others.collect() })
    }

    /// Returns the possible `g`s of the thread.
    fn candidates(&self, thread: &Thread) -> Vec<Addr> {
        let register = match self.arch {
            Arch::X86_64 => "r14",
            Arch::Aarch64 => "x28",
        };
        let register = thread.registers.iter().find(|(name, _)| *name == register).map(|(_, value)| Addr::new(value));
        let slots = (0..limits::MAX_GO_TLS_WORDS).filter_map(|i| {
            let pointer = thread.thread_pointer?;
            // TLS is below the thread pointer on x86_64, above it on arm64.
            let slot = match self.arch {
                Arch::X86_64 => pointer.checked_sub(8 * (i + 1))?,
                Arch::Aarch64 => pointer.checked_add(8 * i)?,
            };
            self.memory.ptr(slot).ok()
        });
        slots.chain(register).filter(|g| !g.is_null() && g.is_aligned(8)).collect()
    }

    fn g(&self, kind: &str, at: Addr, field: &str) -> Option<Addr> {
        StructView::new(self.memory, self.layout, kind, at).ptr(field).ok().filter(|p| !p.is_null() && p.is_aligned(8))
    }

    /// Returns the `m` of a `g`, if its g0 leads back to it.
    fn m_of(&self, g: Addr) -> Option<Addr> {
        let m = self.g("g", g, "m")?;
        let g0 = self.g("m", m, "g0")?;
        (self.g("g", g0, "m") == Some(m)).then_some(m)
    }

    /// Returns the stack of a `g`, if that memory can be a stack.
    fn stack_of(&self, g: Addr) -> Option<AddrRange> {
        let view = StructView::new(self.memory, self.layout, "g", g);
        let (lo, hi) = (view.ptr("stack.lo").ok()?, view.ptr("stack.hi").ok()?);
        let range = AddrRange::new(lo, hi);
        let top = hi.checked_sub(8)?;
        let sound = lo.is_aligned(8)
            && range.len() <= limits::MAX_GO_STACK
            && self.space.guard_zone_if_stack(range, top).is_some();
        sound.then_some(range)
    }
}
