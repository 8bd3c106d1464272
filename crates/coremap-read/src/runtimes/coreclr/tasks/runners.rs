//! The threads that run tasks of state machines and delegates, which no record names.
//!
//! A method that runs has its box on the stack of its thread. So has a thread that waits for it synchronously, but that
//! stack has the event of the wait as well.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::process::Process;
use crate::runtimes::coreclr::ManagedThread;
use crate::runtimes::coreclr::tasks::links::{End, Node};

/// The thread that runs each of `nodes`, by index. Without those on no stack or on several.
pub(super) fn find(
    process: &Process,
    threads: &[ManagedThread],
    nodes: &[Node],
    wanted: &HashMap<Addr, u32>,
) -> HashMap<u32, u32> {
    let mut found: HashMap<u32, Option<u32>> = HashMap::new();
    if wanted.is_empty() {
        return HashMap::new();
    }
    let by_tid: HashMap<u32, &ManagedThread> = threads.iter().filter_map(|t| Some((t.os_id?, t))).collect();
    let mut left = limits::MAX_STACK_SCAN;
    for thread in process.threads() {
        let Some(stack) = by_tid.get(&thread.tid).and_then(|managed| managed.stack) else { continue };
        let sp = thread.registers.sp();
        if !stack.contains(sp) {
            continue;
        }
        let memory: &dyn Memory = &process.memory;
        let len = memory.readable(sp, stack.end.since(sp).min(left));
        left = left.saturating_sub(len);
        let bytes = memory.look(sp, len as usize).unwrap_or_default();
        let words = || bytes.as_chunks::<8>().0.iter().map(|word| Addr::new(u64::from_le_bytes(*word)));
        let mut here: Vec<u32> = words().filter_map(|word| wanted.get(&word).copied()).collect();
        here.sort_unstable();
        here.dedup();
        for i in here {
            let Some(node) = nodes.get(i as usize) else { continue };
            let waits = node.ends.iter().any(|end| match end {
                End::Thread(event) => words().any(|word| word == *event),
                End::Nobody | End::Cycle | End::Callback(_) | End::Other(_) => false,
            });
            if !waits {
                found.entry(i).and_modify(|tid| *tid = None).or_insert(Some(thread.tid));
            }
        }
    }
    found.into_iter().filter_map(|(i, tid)| Some((i, tid?))).collect()
}
