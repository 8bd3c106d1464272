//! What a thread waits for: by functions of the standard library on its stack, by its system call, and by the lock
//! involved.

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::cpython::frames::{Codes, PyFrame, is_of_the_library};
use crate::runtimes::cpython::objects::Objects;
use crate::runtimes::cpython::runtime::Runtime;
use crate::runtimes::cpython::shape::STACK_REF_TAGS;
use crate::targets::Thread;

/// Functions of the standard library that threads wait in: end of the file's path, name without a class, description,
/// and whether the thread waits for its first argument to notify it. Files, processes and clocks notify nobody.
const FUNCTIONS: [(&str, &str, &str, bool); 26] = [
    ("/threading.py", "wait_for", "waits for a condition", true),
    ("/threading.py", "wait", "waits to be notified", true),
    ("/threading.py", "acquire", "waits for a semaphore", true),
    ("/threading.py", "join", "waits for a thread to end", true),
    ("/threading.py", "_wait_for_tstate_lock", "waits for a thread to end", true),
    ("/threading.py", "_shutdown", "waits for threads at program end", false),
    ("/queue.py", "get", "waits for a queue item", true),
    ("/queue.py", "put", "waits for space in a queue", true),
    ("/queue.py", "join", "waits for a queue's tasks to finish", true),
    ("/selectors.py", "select", "waits for files to be ready", false),
    ("/asyncio/base_events.py", "_run_once", "runs an event loop", false),
    ("/concurrent/futures/thread.py", "_worker", "waits for work", false),
    ("/concurrent/futures/_base.py", "result", "waits for a future", true),
    ("/concurrent/futures/_base.py", "wait", "waits for futures", false),
    ("/concurrent/futures/process.py", "run", "waits for worker processes", false),
    ("/multiprocessing/connection.py", "wait", "waits for connections", false),
    ("/multiprocessing/connection.py", "recv", "reads from a connection", false),
    ("/multiprocessing/popen_fork.py", "wait", "waits for a process to end", false),
    ("/subprocess.py", "wait", "waits for a process to end", false),
    ("/subprocess.py", "communicate", "waits for a process's output", false),
    ("/socketserver.py", "serve_forever", "waits for connections", false),
    ("/socket.py", "accept", "waits for a connection", false),
    ("/socket.py", "readinto", "reads from a socket", false),
    ("/ssl.py", "read", "reads from a socket", false),
    ("/sched.py", "run", "waits for the next event of a schedule", false),
    ("/logging/handlers.py", "_monitor", "waits for log records", false),
];

/// Numbers of select and pselect6, whose first argument is the number of files.
const SELECTS: [u64; 2] = [23, 270];

/// System calls that threads wait in, with their number on x86_64 (arch/x86/entry/syscalls/syscall_64.tbl).
const CALLS: [(u64, &str); 26] = [
    (0, "reads"),
    (1, "writes"),
    (7, "waits for files to be ready"),
    (19, "reads"),
    (20, "writes"),
    (23, "waits for files to be ready"),
    (35, "sleeps"),
    (42, "connects"),
    (43, "waits for a connection"),
    (44, "writes to a socket"),
    (45, "reads from a socket"),
    (46, "writes to a socket"),
    (47, "reads from a socket"),
    (61, "waits for a process to end"),
    (72, "waits for a file's lock"),
    (73, "waits for a file's lock"),
    (FUTEX, "waits for a lock"),
    (230, "sleeps"),
    (232, "waits for files to be ready"),
    (247, "waits for a process to end"),
    (270, "waits for files to be ready"),
    (271, "waits for files to be ready"),
    (281, "waits for files to be ready"),
    (288, "waits for a connection"),
    (34, "waits for a signal"),
    (128, "waits for a signal"),
];

/// `futex(2)`.
const FUTEX: u64 = 202;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitReason {
    /// Description. `None` if unknown.
    pub(super) text: Option<&'static str>,
    /// The object that is to notify it. `None` if its function has none.
    pub(super) object: Option<Addr>,
}

/// What a thread waits for, according to its frames, innermost first.
pub(super) fn by_frames<'f>(
    runtime: &Runtime<'_>,
    codes: &Codes<'_>,
    frames: impl Iterator<Item = &'f PyFrame>,
) -> WaitReason {
    let mut out = WaitReason::default();
    for frame in frames.take(limits::MAX_DOING_FRAMES) {
        let Some(code) = codes.code(frame.code).filter(|code| is_of_the_library(code.file())) else { break };
        let name = code.name().rsplit('.').next().unwrap_or_default();
        let known = FUNCTIONS.iter().find(|(file, of, ..)| *of == name && code.file().ends_with(file));
        if let Some((_, _, words, of_first)) = known {
            let object = of_first.then(|| first_argument(runtime, frame)).flatten();
            out = WaitReason { text: Some(words), object };
        }
    }
    out
}

/// The first argument, which is `self` in a method. `None` if the variable was deleted or is in a cell.
pub(in crate::runtimes::cpython) fn first_argument(runtime: &Runtime<'_>, frame: &PyFrame) -> Option<Addr> {
    let variables = frame.variables(runtime)?;
    let word = runtime.memory.peek_u64(variables).ok()?;
    Some(Addr::new(word & !STACK_REF_TAGS)).filter(|at| !at.is_null())
}

/// What a thread does, according to its system call.
pub(super) fn by_call(thread: &Thread) -> Option<&'static str> {
    let call = register(thread, "orig_rax")?;
    // time.sleep of Python up to 3.10: select without a file.
    if SELECTS.contains(&call) && register(thread, "rdi") == Some(0) {
        return Some("sleeps");
    }
    CALLS.iter().find(|(number, _)| *number == call).map(|(_, words)| *words)
}

/// Whether a thread may wait for another thread. One in any other system call than `futex` waits for something else.
pub(super) fn may_wait_for_threads(thread: &Thread) -> bool {
    register(thread, "orig_rax").is_none_or(|call| call == FUTEX)
}

/// The address that a thread waits at in `futex`.
pub(super) fn futex(thread: &Thread) -> Option<Addr> {
    let waits = register(thread, "orig_rax") == Some(FUTEX);
    register(thread, "rdi").filter(|_| waits).map(Addr::new)
}

/// Whether a thread is in no system call.
pub(super) fn is_in_user_code(thread: &Thread) -> bool {
    register(thread, "orig_rax").is_some_and(|call| call == u64::MAX)
}

fn register(thread: &Thread, name: &str) -> Option<u64> {
    thread.registers.iter().find(|(of, _)| *of == name).map(|(_, value)| value)
}

/// A lock of the module `_thread`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockObject {
    /// Address of the lockobject or rlockobject.
    pub(super) address: Addr,
    /// Ident of the owner. `None` if the lock does not record it.
    pub(super) owner: Option<u64>,
}

/// The lock whose semaphore is at `futex`. Candidates are the frame's variables and operands; the lock's pointer to the
/// semaphore is the proof.
pub(super) fn lock(runtime: &Runtime<'_>, objects: &Objects<'_>, frame: &PyFrame, futex: Addr) -> Option<LockObject> {
    let variables = frame.variables(runtime)?;
    let code = runtime.view("PyCodeObject", frame.code);
    let count = |field| code.u32(field).ok().map(u64::from);
    let words = count("co_nlocalsplus").or_else(|| count("co_nlocals"))?.checked_add(count("co_stacksize")?)?;
    let bound = runtime.layout.positive("PyCFunctionObject", "m_self").ok()?;
    let place = runtime.layout.positive("lockobject", "lock_lock").ok()?;
    for i in 0..words.min(limits::MAX_PY_SLOTS) {
        let word = runtime.memory.peek_u64(variables.checked_add(8 * i)?).ok()?;
        let object = Addr::new(word & !STACK_REF_TAGS);
        // In a `with` statement the lock is only referenced by its bound methods.
        for object in [Some(object), objects.ptr_at(object, bound)].into_iter().flatten() {
            let is = objects.ptr_at(object, place) == Some(futex);
            if is && objects.type_of(object).is_some_and(|kind| objects.is_type(kind)) {
                return Some(LockObject { address: object, owner: owner(runtime, objects, object) });
            }
        }
    }
    None
}

/// The owner of an RLock. Other locks do not record it.
fn owner(runtime: &Runtime<'_>, objects: &Objects<'_>, lock: Addr) -> Option<u64> {
    let kind = objects.type_of(lock)?;
    let size = objects.word_at(kind, objects.shape.types.basicsize)?;
    let view = runtime.view("rlockobject", lock);
    let of_this = runtime.layout.size("rlockobject").ok()? == size && runtime.layout.size("lockobject").ok()? != size;
    view.u64("rlock_owner").ok().filter(|owner| of_this && *owner != 0)
}
