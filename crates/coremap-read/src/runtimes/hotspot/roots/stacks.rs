//! Words on the stacks of Java threads that point to objects, taken as references.

use std::collections::HashMap;

use crate::addr::{Addr, AddrRange, WORD};
use crate::limits;
use crate::memory::Memory;
use crate::registers::{self, Regs};
use crate::runtimes::api::{Heap as _, Root, RootKind, Roots, locate};
use crate::runtimes::hotspot::heap::Heap;
use crate::runtimes::hotspot::threads::JavaThread;

/// Why stacks are scanned word by word.
const WHY: &str = "coremap does not read the VM's reference maps of Java frames";

/// Upper bound on DWARF numbers of general registers: 17 on x86_64, 32 on aarch64.
const REGISTERS: u16 = 32;

/// A root whose object is not resolved yet.
struct Candidate {
    value: Addr,
    root: Root,
}

pub(super) fn read(heap: &Heap<'_>, threads: &[JavaThread], roots: &mut Roots) {
    let vm = &heap.classes().vm;
    let mut candidates = Vec::new();
    let mut unread = 0;
    let by_tid: HashMap<u32, _> = vm.process.threads().iter().map(|thread| (thread.tid, thread)).collect();
    for thread in threads {
        // A thread without a number is just being created.
        let Some(tid) = thread.tid else { continue };
        let Some((stack, system)) = thread.stack.zip(by_tid.get(&tid)) else {
            unread += 1;
            continue;
        };
        let regs = Regs::of_thread(vm.process.arch(), &system.registers);
        let sp = regs.sp();
        // The thread may be on another stack, such as a signal handler's.
        let from = if stack.contains(sp) { sp.align_down(8) } else { stack.start };
        let range = AddrRange::new(from, stack.end);
        // The stack pointer of a thread that overflowed its stack is in the guard. The rest of the stack is readable.
        if vm.memory.readable(sp, WORD) < WORD || range.len() > limits::MAX_STACK_SCAN {
            unread += 1;
        } else {
            roots.stacks.threads += 1;
        }
        let known = (0..REGISTERS).filter_map(|n| Some((registers::name(regs.arch(), n)?, Addr::new(regs.get(n)?))));
        for (name, value) in known {
            let root =
                Root { thread: Some(tid), register: Some(name), ..Root::new(RootKind::StackWord, sp, Addr::NULL) };
            candidates.push(Candidate { value, root });
        }
        words(heap, tid, range, &mut candidates);
    }
    roots.lacks_stacks(unread);
    if roots.stacks.threads > 0 {
        roots.stacks.conservative.push((WHY, roots.stacks.threads));
    }
    candidates.retain(|c| heap.space().run(c.value.get()).is_some());
    candidates.sort_unstable_by_key(|c| (c.value, c.root.address));
    let mut out = Vec::new();
    locate(
        heap,
        &mut candidates,
        |c| c.value,
        |c, _, object| {
            // Frames reference objects by their start. A pointer into an object is chance, or the code of a loop over
            // an array that references the array too.
            if object.addr == c.value {
                out.push(Root { object: object.addr, ..c.root });
            }
        },
    );
    out.sort_by_key(|r| (r.thread, r.address, r.register));
    roots.all.extend(out);
}

/// Adds the words of a stack that point into the heap. With compressed references, halves of words count too.
fn words(heap: &Heap<'_>, tid: u32, range: AddrRange, out: &mut Vec<Candidate>) {
    let classes = heap.classes();
    let (memory, space, encoding) = (classes.vm.memory, heap.space(), &classes.encoding);
    if range.len() > limits::MAX_STACK_SCAN {
        return;
    }
    let mut add = |address: Addr, value: u64| {
        if space.run(value).is_some() {
            let root = Root { thread: Some(tid), ..Root::new(RootKind::StackWord, address, Addr::NULL) };
            out.push(Candidate { value: Addr::new(value), root });
        }
    };
    for part in memory.readable_parts(range, limits::MAX_STACK_SCAN) {
        let Ok(bytes) = memory.look(part.start, part.len() as usize) else { continue };
        for (i, bytes) in bytes.as_chunks::<8>().0.iter().enumerate() {
            let word = u64::from_le_bytes(*bytes);
            let address = part.start.saturating_add(8 * i as u64);
            add(address, encoding.wide_raw(word));
            if encoding.narrow {
                add(address, encoding.narrow_raw(word as u32));
                add(address.saturating_add(4), encoding.narrow_raw((word >> 32) as u32));
            }
        }
    }
}
