//! Stacks: what answers need of them beside pointers are the heads of signal frames and the fields by which a thread's control block
//! tells its stack.

use crate::addr::AddrRange;
use crate::native::signal_frames;
use crate::session::Session;
use crate::targets::Arch;
use crate::targets::byte_set::ByteSet;

/// Words of a control block, from where it begins to tell of its stack (`stackblock`, `stackblock_size`, `guardsize`,
/// `reported_guardsize` in glibc, five in musl).
const RECORD: u64 = 5 * 8;

/// Where the guards of stacks and of pointers stand, in bytes from the thread pointer (`tcbhead_t` of glibc on x86_64: `stack_guard`,
/// `pointer_guard`). On aarch64 both are variables of ld.so, which nobody reads.
const GUARDS: (u64, u64) = (0x28, 0x38);

/// Bytes that stay, and those that never do.
pub(super) fn all(session: &Session<'_>) -> (ByteSet, Vec<AddrRange>) {
    let (mut out, mut guards) = (ByteSet::default(), Vec::new());
    let (process, stacks) = (session.process, session.stacks());
    let arch = process.arch();
    for pointer in process.threads().iter().filter_map(|thread| thread.thread_pointer) {
        if let Some(layout) = &stacks.layout {
            out.add(pointer.wrapping_offset(layout.offset), RECORD);
        }
        if arch == Arch::X86_64 {
            guards.push(AddrRange::new(pointer.saturating_add(GUARDS.0), pointer.saturating_add(GUARDS.1)));
        }
    }
    guards.sort_unstable();
    for stack in &stacks.list {
        let Some(mut sp) = stack.sp else { continue };
        // One interrupted by the next, as often as signals are blocked one by one.
        for _ in 0..crate::limits::MAX_NESTED_SIGNALS {
            let Some(frame) = signal_frames::find(&process.memory, arch, sp, stack.stack) else { break };
            for &(from, len) in signal_frames::shape(arch) {
                out.add(frame.at.saturating_add(from), len);
            }
            sp = frame.at.saturating_add(8);
        }
    }
    (out, guards)
}
