//! What native threads wait for: the object of the futex call that a thread is in, and its owner.
//!
//! A futex call names the word that it waits for, and the value that the word had. Which object the word is in follows
//! from the names of the library's functions on the stack, or else from the fields around it. Owners are exact where a
//! field names them.
//!
//! | file | contents |
//! |---|---|
//! | `futex` | futex calls |
//! | `by_name` | objects by the functions that wait for them |
//! | `glibc`, `musl` | objects by their fields |
//! | `rust` | parking_lot's locks, through its thread data |
//! | `taken` | locks that a function took before its present call, by its code |

mod by_name;
mod futex;
mod glibc;
mod musl;
mod rust;
mod taken;

use std::collections::{BTreeMap, HashMap};

use crate::addr::Addr;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::native::stack_records::Libc;
use crate::native::syscalls;
use crate::process::Process;
use crate::targets::{Arch, Thread};
use crate::words::{OwnerState, WaitKind};

pub use taken::{CodeFrame, held_by_code, kept};

/// A thread that must act before a wait can end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Thread ID, as a field or the evidence gives it.
    pub tid: u32,
    /// Whether the process has such a thread.
    pub state: OwnerState,
    /// The evidence for it.
    pub how: String,
    /// Exact if a field names the owner.
    pub confidence: Confidence,
}

/// The wait of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeWait {
    /// The thread that waits.
    pub tid: u32,
    /// Kind of object.
    pub kind: WaitKind,
    /// Address of the object. The futex word's if the object's is not known.
    pub address: Addr,
    /// Address of the futex word.
    pub futex: Addr,
    /// The object in the words of its library: `pthread_mutex_t`, `std::sync::Mutex`.
    pub object: Option<&'static str>,
    /// Its owners, as far as they are known.
    pub owners: Vec<Owner>,
    /// Number of readers, if it is a read-write lock whose word counts them.
    pub readers: Option<u32>,
    /// Whether an object of this kind records its owner.
    pub records_owner: bool,
    /// The evidence for the kind.
    pub how: &'static str,
    /// Confidence in the kind.
    pub confidence: Confidence,
}

impl NativeWait {
    fn new(kind: WaitKind, address: Addr, object: Option<&'static str>, how: &'static str) -> NativeWait {
        NativeWait {
            tid: 0,
            kind,
            address,
            futex: address,
            object,
            owners: Vec::new(),
            readers: None,
            records_owner: false,
            how,
            confidence: Confidence::Derived,
        }
    }
}

/// The process, as far as it is needed to identify objects.
struct Scene<'a> {
    memory: &'a dyn Memory,
    /// The C library. `None` if it is not known.
    libc: Option<Libc>,
    /// Thread pointers by thread ID.
    threads: BTreeMap<u32, Option<Addr>>,
    /// Thread IDs by thread pointer.
    by_pointer: HashMap<Addr, u32>,
    /// Thread IDs by the threads' own IDs. In a PID namespace, these differ. Empty if they are the same.
    own_ids: BTreeMap<u32, u32>,
    /// Process ID, as the threads know it.
    pid: Option<u32>,
    /// Whether threads may be missing from the list.
    is_partial: bool,
    /// Number of threads that wait at each futex word.
    waiting: HashMap<Addr, u32>,
}

impl Scene<'_> {
    fn word(&self, at: Addr, offset: i64) -> Option<u32> {
        self.memory.peek_u32(at.checked_offset(offset)?).ok()
    }

    fn waiting_at(&self, at: Option<Addr>) -> u32 {
        at.and_then(|at| self.waiting.get(&at)).copied().unwrap_or(0)
    }

    /// The owner that a field names. `None` if the field has no thread ID.
    fn owner(&self, number: u32, how: &str) -> Option<Owner> {
        let is_tid = (1..1 << 22).contains(&number);
        let tid = self.own_ids.get(&number).copied().unwrap_or(number);
        let state = match self.pid {
            _ if self.threads.contains_key(&tid) => OwnerState::Alive,
            _ if self.is_partial => OwnerState::Unknown,
            // IDs grow. A thread that is older than the process is a thread of its parent.
            Some(pid) if number < pid => OwnerState::Inherited,
            Some(_) => OwnerState::Ended,
            None => OwnerState::Unknown,
        };
        is_tid.then(|| Owner { tid, state, how: how.to_owned(), confidence: Confidence::Exact })
    }

    /// The thread whose control block begins at `pointer`.
    fn thread_at(&self, pointer: Addr) -> Option<u32> {
        self.by_pointer.get(&pointer).copied()
    }
}

/// Offset of the thread ID in the control block on x86_64: `tid` of glibc's `struct pthread` (from 2.12 to 2.42), and
/// of musl's.
const GLIBC_TID: u64 = 0x2d0;
const MUSL_TID: u64 = 48;

/// Thread IDs by the IDs in the control blocks. gdb writes IDs of its own PID namespace, in which those of a container
/// differ. Empty if a control block has no ID, or two have the same.
fn own_ids(process: &Process, libc: Option<Libc>) -> BTreeMap<u32, u32> {
    let offset = match libc {
        Some(Libc::Musl) => MUSL_TID,
        Some(Libc::Glibc) | None => GLIBC_TID,
    };
    let own = |thread: &Thread| {
        let id = process.memory.peek_u32(thread.thread_pointer?.checked_add(offset)?).ok()?;
        (1..1 << 22).contains(&id).then_some((id, thread.tid))
    };
    let threads = process.threads();
    let ids: Option<BTreeMap<u32, u32>> = threads.iter().map(own).collect();
    ids.filter(|ids| ids.len() == threads.len() && process.arch() == Arch::X86_64).unwrap_or_default()
}

/// Returns the waits of all threads that are in a futex call, by thread ID.
///
/// `libc`: the process's C library. `names`: functions on a thread's stack, innermost first, as far as they are known.
pub fn waits(
    process: &Process,
    libc: Option<Libc>,
    names: &mut dyn FnMut(&Thread) -> Vec<String>,
) -> BTreeMap<u32, NativeWait> {
    let calls: Vec<_> = process
        .threads()
        .iter()
        .filter_map(|thread| Some((thread, futex::call(&syscalls::of_thread(process, thread)?)?)))
        .collect();
    let mut waiting: HashMap<Addr, u32> = HashMap::new();
    for (_, call) in &calls {
        let count = waiting.entry(call.at).or_default();
        *count = count.saturating_add(1);
    }
    let threads = process.threads().iter().map(|thread| (thread.tid, thread.thread_pointer)).collect();
    let by_pointer = process.threads().iter().filter_map(|thread| Some((thread.thread_pointer?, thread.tid))).collect();
    let own_ids = own_ids(process, libc);
    let main = process.main_tid();
    let pid = own_ids.iter().find(|(_, tid)| Some(**tid) == main).map(|(own, _)| *own).or(main);
    let is_partial = process.facts().threads_lost;
    let scene = Scene { memory: &process.memory, libc, threads, by_pointer, own_ids, pid, is_partial, waiting };
    let mut out = BTreeMap::new();
    for (thread, call) in calls {
        let wait = by_name::wait(&scene, &call, &names(thread)).or_else(|| match libc {
            Some(Libc::Musl) => musl::wait(&scene, &call),
            Some(Libc::Glibc) => glibc::wait(&scene, &call),
            None => glibc::wait(&scene, &call).or_else(|| musl::wait(&scene, &call)),
        });
        let unknown = || NativeWait {
            confidence: Confidence::Exact,
            ..NativeWait::new(WaitKind::Futex, call.at, None, "the thread is in a futex call")
        };
        let wait = wait.unwrap_or_else(unknown);
        out.insert(thread.tid, NativeWait { tid: thread.tid, futex: call.at, ..wait });
    }
    out
}
