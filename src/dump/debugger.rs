//! What a debugger asks for first, whatever was asked for: the stacks in use, and the vdso. Of what is not in a core gdb reads
//! zeros, and shows frames and variables that are none. (The list of libraries is read wherever modules are looked for.)

use crate::addr::{Addr, AddrRange};
use crate::process::Process;
use crate::targets::at;

/// Bytes of each stack from its stack pointer on: a debugger shows variables of the frames, and few stacks are deeper.
const STACK: u64 = 256 << 10;

/// Bytes below the stack pointer that belong to a function that calls none (x86-64 psABI, the red zone).
const RED_ZONE: u64 = 128;

/// Bytes of the vdso.
const VDSO: u64 = 2 * 4096;

/// Put what a debugger asks for first into the record of what was read.
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
