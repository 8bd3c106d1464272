//! Memory that a debugger always needs: the stacks in use, and the vdso. gdb reads memory missing from a core as zeros,
//! and would show wrong frames and variables. (The list of libraries is read wherever modules are looked for.)

use crate::addr::{Addr, AddrRange};
use crate::process::Process;
use crate::targets::at;

/// Bytes of each stack above its stack pointer. A debugger shows variables of the frames, and few stacks are deeper.
const STACK: u64 = 256 << 10;

/// Bytes below the stack pointer that a leaf function uses (x86-64 psABI, the red zone).
const RED_ZONE: u64 = 128;

const VDSO: u64 = 2 * 4096;

/// Adds the memory that a debugger needs to the record of reads.
pub fn for_debugger(process: &Process) {
    let note = |range: AddrRange| process.reads().note(range.start, range.len());
    for thread in process.threads() {
        let sp = thread.registers.sp();
        let Some(mapping) = process.mapping_at(sp) else { continue };
        let from = AddrRange::new(sp.saturating_sub(RED_ZONE), sp.saturating_add(STACK));
        from.intersect(&mapping.range).into_iter().for_each(note);
    }
    if let Some(vdso) = process.auxv(at::SYSINFO_EHDR) {
        note(AddrRange::sized(Addr::new(vdso), VDSO));
    }
}
