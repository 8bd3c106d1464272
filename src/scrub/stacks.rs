//! Stacks. Besides pointers, answers need the headers of signal frames, and the fields of a thread's control block
//! that describe its stack.

use std::collections::HashMap;

use crate::addr::{Addr, AddrRange};
use crate::memory::{Memory, OVERWRITTEN};
use crate::native::signal_frames;
use crate::process::Process;
use crate::session::Session;
use crate::targets::byte_set::ByteSet;
use crate::targets::{Arch, at};

/// Bytes of a control block that describe the stack (`stackblock`, `stackblock_size`, `guardsize`,
/// `reported_guardsize` in glibc, five words in musl).
const RECORD: u64 = 5 * 8;

/// Offsets from the thread pointer to the first guard and past the second (`tcbhead_t` of glibc on x86_64:
/// `stack_guard`, `pointer_guard`). On aarch64 both are variables of ld.so, which nobody reads.
const GUARDS: (u64, u64) = (0x28, 0x38);

/// Size of AT_RANDOM, from which the guards are made.
const RANDOM: u64 = 16;

/// Replacements of the stack guard and the pointer guard, wherever they occur. C libraries' allocators use such a
/// number to check their structures (`malloc_context.secret` of musl is the second word of AT_RANDOM), so all copies
/// must be equal.
pub(super) const REPLACEMENTS: [u64; 2] = [OVERWRITTEN ^ 1 << 32, OVERWRITTEN ^ 2 << 32];

/// Returns the guard values of each thread and of AT_RANDOM, each with its replacement. glibc's
/// `_dl_setup_stack_chk_guard` takes the first word of AT_RANDOM without its lowest byte, and
/// `_dl_setup_pointer_guard` the second.
pub(super) fn guard_values(process: &Process, guards: &[AddrRange]) -> HashMap<u64, u64> {
    let random = process.auxv(at::RANDOM).map(Addr::new);
    let pairs = random.into_iter().chain(guards.iter().map(|guard| guard.start));
    let mut out = HashMap::new();
    for (at, replacement) in pairs.flat_map(|at| [at, at.saturating_add(8)].into_iter().zip(REPLACEMENTS)) {
        let word = process.memory.peek_u64(at).unwrap_or(0);
        // A small value is no guard, and many numbers equal it.
        for word in [word, word & !0xff].into_iter().filter(|&word| word > u64::from(u32::MAX)) {
            out.entry(word).or_insert(replacement);
        }
    }
    out
}

/// Returns the bytes that stay, and the guards, which never do.
pub(super) fn all(session: &Session<'_>) -> (ByteSet, Vec<AddrRange>) {
    let (mut out, mut guards) = (ByteSet::default(), Vec::new());
    let (process, stacks) = (session.process, session.stacks());
    let arch = process.arch();
    for (tid, pointer) in process.threads().iter().filter_map(|thread| Some((thread.tid, thread.thread_pointer?))) {
        if let Some(layout) = &stacks.layout {
            out.add(pointer.wrapping_offset(layout.offset), RECORD);
        }
        if arch == Arch::X86_64 {
            keep_own_id(process, pointer, tid, &mut out);
            guards.push(AddrRange::new(pointer.saturating_add(GUARDS.0), pointer.saturating_add(GUARDS.1)));
        }
    }
    if let Some(random) = process.auxv(at::RANDOM) {
        guards.push(AddrRange::sized(Addr::new(random), RANDOM));
    }
    guards.sort_unstable();
    for stack in &stacks.list {
        let Some(mut sp) = stack.sp else { continue };
        // A signal may interrupt a handler. This may happen once for each signal that the handler does not block.
        for _ in 0..crate::limits::MAX_NESTED_SIGNALS {
            let Some(frame) = signal_frames::find(&process.memory, arch, sp, stack.stack) else { break };
            for &(from, len) in signal_frames::shape(arch) {
                out.add(frame.at.saturating_add(from), len);
            }
            if arch == Arch::X86_64 {
                // Return address of the handler (`rt_sigframe.pretcode`). No call precedes it.
                out.add(frame.at.saturating_sub(8), 8);
            }
            sp = frame.at.saturating_add(8);
        }
    }
    (out, guards)
}

/// Size of the part of a thread's control block that is searched for its thread id, which libthread_db and gdb need
/// (`struct pthread`, `tid`: 0x2d0 in glibc 2.31 to 2.41).
const CONTROL_BLOCK: u64 = 0x400;

fn keep_own_id(process: &Process, pointer: Addr, tid: u32, out: &mut ByteSet) {
    for at in (0..CONTROL_BLOCK).step_by(4).map(|offset| pointer.saturating_add(offset)) {
        if process.memory.look(at, 4).is_ok_and(|bytes| bytes == tid.to_le_bytes()) {
            out.add(at, 4);
        }
    }
}
