use crate::facts::{FrameRow, ThreadRow};
use crate::image::modules::is_pe_name;
use crate::map::Confidence;
use crate::process::Process;
use crate::runtimes::coreclr::Runtime;
use crate::runtimes::coreclr::threads::KnownThread;
use crate::words::FrameRowKind;

/// Of Thread::ThreadState: it works for the thread pool.
const POOL_WORKER: &str = "TPWorkerThread";

/// Thread::ThreadState, as the layouts name it, and in words.
const STATES: [(&str, &str); 11] = [
    ("Unstarted", "not started"),
    ("Dead", "ended"),
    ("Detached", "detached"),
    ("Background", "background"),
    (POOL_WORKER, "thread pool"),
    ("Interruptible", "waiting"),
    ("Interrupted", "interrupted"),
    ("AbortRequested", "abort requested"),
    ("GCSuspendPending", "suspending for GC"),
    ("DebugSuspendPending", "suspending for a debugger"),
    ("Hijacked", "hijacked"),
];

/// Managed methods that say what a thread is for.
const METHODS: [(&str, &str); 9] = [
    ("System.Threading.TimerQueue.TimerThread(", "timer"),
    ("System.Threading.PortableThreadPool+WorkerThread.", "threadpool worker"),
    ("System.Threading.PortableThreadPool+GateThread.", "threadpool gate"),
    ("System.Threading.PortableThreadPool+WaitThread.", "threadpool wait"),
    ("System.Threading.PortableThreadPool+IOCompletionPoller.", "threadpool io"),
    ("System.Net.Sockets.SocketAsyncEngine.EventLoop(", "socket engine"),
    ("System.Threading.ThreadPoolWorkQueue.Dispatch(", "threadpool worker"),
    ("System.IO.FileSystemWatcher+", "file watcher"),
    ("System.Threading.Tasks.ThreadPoolTaskScheduler+", "long-running task"),
];

/// Functions whose names say it; symbols of the runtime are seldom at hand.
const FUNCTIONS: [(&str, &str); 10] = [
    ("TieredCompilation::", "tiering"),
    ("TieredCompilationBackgroundWorker", "tiering"),
    ("gc_heap::gc_thread", "gc"),
    ("gc_heap::bgc_thread", "background gc"),
    ("FinalizerThread::", "finalizer"),
    ("DebuggerRCThread::", "debugger"),
    ("ds_server", "diagnostics server"),
    ("server_loop", "diagnostics server"),
    ("CPalSynchronizationManager::WorkerThread", "pal synchronization"),
    ("SignalHandlerLoop", "signal handler"),
];

/// Modules whose outermost own frame says it.
const MODULES: [(&str, &str); 3] = [
    ("liblttng-ust", "tracing"),
    ("libcoreclrtraceptprovider.so", "tracing"),
    ("libSystem.Native.so", "signal handler"),
];

/// A thread's state in words.
pub(in crate::runtimes::coreclr) fn state(runtime: &Runtime, bits: u32) -> String {
    let words: Vec<&str> = STATES.iter().filter(|(name, _)| has_state(runtime, bits, name)).map(|s| s.1).collect();
    if words.is_empty() { "running".into() } else { words.join(", ") }
}

/// Whether a thread's state has the bit of that name.
fn has_state(runtime: &Runtime, bits: u32, name: &str) -> bool {
    runtime.layout.constant("ThreadState", name).is_ok_and(|bit| u64::from(bits) & bit != 0)
}

/// What a thread is for, and how sure that is.
pub(in crate::runtimes::coreclr) fn role(
    process: &Process,
    runtime: &Runtime,
    known: Option<&KnownThread>,
    row: &ThreadRow,
    frames: &[FrameRow],
) -> Option<(&'static str, Confidence)> {
    if known.is_some_and(|known| known.finalizer) {
        return Some(("finalizer", Confidence::Exact));
    }
    let main = process.main_tid();
    if main == Some(row.tid) {
        return Some(("main", Confidence::Exact));
    }
    let managed =
        || frames.iter().rev().filter(|f| f.kind == FrameRowKind::Managed).filter_map(|f| f.method.as_deref());
    let by_method =
        managed().find_map(|name| METHODS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, role)| *role));
    if let Some(role) = by_method {
        return Some((role, Confidence::Derived));
    }
    // A frame without a name may be the one that says more.
    let sure = if frames.iter().any(is_nameless) { Confidence::Heuristic } else { Confidence::Derived };
    if known.and_then(|known| known.thread.state).is_some_and(|bits| has_state(runtime, bits, POOL_WORKER)) {
        return Some(("threadpool worker", sure));
    }
    // It may be the main one where that is not known.
    main?;
    if managed().next().is_some() || row.managed_id.is_some() && row.managed_name.is_some() {
        return Some(("user", sure));
    }
    by_native(row, frames).map(|role| (role, Confidence::Heuristic))
}

/// What stands in a managed method's name where part of it is not known.
const UNNAMED: &[&str] = &["!0x", "(method 0x", "(type 0x", "(no name)", "!!"];

/// Whether nothing but numbers is known of a frame's method: of managed code its
/// name, of other code even what module it is of. Code of a managed image without
/// a name is a method whose tables can't be read.
fn is_nameless(frame: &FrameRow) -> bool {
    match frame.kind {
        FrameRowKind::Managed => frame.method.as_deref().is_none_or(|m| UNNAMED.iter().any(|mark| m.contains(mark))),
        FrameRowKind::Native => frame.method.is_none() && frame.module.as_deref().is_none_or(is_pe_name),
        FrameRowKind::Frame => false,
    }
}

/// By functions and modules of a thread that runs no managed code.
fn by_native(row: &ThreadRow, frames: &[FrameRow]) -> Option<&'static str> {
    let native = || frames.iter().rev().filter(|f| f.kind == FrameRowKind::Native);
    let functions = || native().filter_map(|f| f.method.as_deref());
    let by_function =
        functions().find_map(|name| FUNCTIONS.iter().find(|(part, _)| name.contains(part)).map(|(_, role)| *role));
    let by_module = || {
        let modules = || native().filter_map(|f| f.module.as_deref());
        modules().find_map(|name| MODULES.iter().find(|(start, _)| name.starts_with(start)).map(|(_, role)| *role))
    };
    let of_runtime = || {
        let ours = |m: &str| m.starts_with("libcoreclr.so") || m.starts_with("libclrgc");
        if !native().any(|f| f.module.as_deref().is_some_and(ours)) {
            return None;
        }
        // The debugger's thread waits for somebody to open the other end of its pipe.
        let opens = frames.first().and_then(|f| f.method.as_deref()).is_some_and(|m| m.contains("open"));
        let catches = frames.iter().any(|f| f.frame == Some("DebuggerU2MCatchHandlerFrame"));
        Some(match (row.managed_id.is_some(), catches) {
            // Made to run managed code like any other, and runs none.
            (true, true) => "tiering",
            // Threads that the GC has made for it have a Thread and no way to managed code.
            (true, false) => "background gc",
            (false, _) if opens => "debugger",
            (false, _) => "runtime",
        })
    };
    by_function.or_else(by_module).or_else(of_runtime)
}
