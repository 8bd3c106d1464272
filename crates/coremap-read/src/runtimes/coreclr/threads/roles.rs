use crate::facts::{FrameRow, ThreadRow};
use crate::image::modules::is_pe_name;
use crate::map::Confidence;
use crate::process::Process;
use crate::runtimes::coreclr::Runtime;
use crate::runtimes::coreclr::threads::ThreadEntry;
use crate::words::FrameRowKind;

/// Thread::ThreadState bit of thread pool workers.
const POOL_WORKER: &str = "TPWorkerThread";

/// Thread::ThreadState bits: name in the layouts, and text.
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

/// Prefixes of managed methods that show a thread's role.
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

/// Substrings of native functions that show a thread's role. The runtime's symbols are seldom available.
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

/// Prefixes of modules that show a thread's role.
const MODULES: [(&str, &str); 3] = [
    ("liblttng-ust", "tracing"),
    ("libcoreclrtraceptprovider.so", "tracing"),
    ("libSystem.Native.so", "signal handler"),
];

pub(in crate::runtimes::coreclr) fn state(runtime: &Runtime, bits: u32) -> String {
    let words: Vec<&str> = STATES.iter().filter(|(name, _)| has_state(runtime, bits, name)).map(|s| s.1).collect();
    if words.is_empty() { "running".into() } else { words.join(", ") }
}

/// Whether a thread's state has the bit with this name.
fn has_state(runtime: &Runtime, bits: u32, name: &str) -> bool {
    runtime.layout.constant("ThreadState", name).is_ok_and(|bit| u64::from(bits) & bit != 0)
}

/// Role of a thread, and the confidence.
pub(in crate::runtimes::coreclr) fn role(
    process: &Process,
    runtime: &Runtime,
    entry: Option<&ThreadEntry>,
    row: &ThreadRow,
    frames: &[FrameRow],
) -> Option<(&'static str, Confidence)> {
    if entry.is_some_and(|entry| entry.finalizer) {
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
    // A frame without a name could show another role.
    let sure = if frames.iter().any(is_nameless) { Confidence::Heuristic } else { Confidence::Derived };
    if entry.and_then(|entry| entry.thread.state).is_some_and(|bits| has_state(runtime, bits, POOL_WORKER)) {
        return Some(("threadpool worker", sure));
    }
    // If the main thread is unknown, this may be it.
    main?;
    if managed().next().is_some() || row.managed_id.is_some() && row.managed_name.is_some() {
        return Some(("user", sure));
    }
    by_native(row, frames).map(|role| (role, Confidence::Heuristic))
}

/// Parts of a managed method's name that replace unknown names.
const UNNAMED: &[&str] = &["!0x", "(method 0x", "(type 0x", "(no name)", "!!"];

/// Whether a frame's method has no name. A managed method then has a placeholder in its name. A native frame has no
/// known module either, or is in a managed image whose method tables can't be read.
fn is_nameless(frame: &FrameRow) -> bool {
    match frame.kind {
        FrameRowKind::Managed => frame.method.as_deref().is_none_or(|m| UNNAMED.iter().any(|mark| m.contains(mark))),
        FrameRowKind::Native => frame.method.is_none() && frame.module.as_deref().is_none_or(is_pe_name),
        FrameRowKind::Frame => false,
    }
}

/// Role of a thread without managed code, by its native functions and modules.
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
        // The debugger's thread waits for its pipe to be opened at the other end.
        let opens = frames.first().and_then(|f| f.method.as_deref()).is_some_and(|m| m.contains("open"));
        let catches = frames.iter().any(|f| f.frame == Some("DebuggerU2MCatchHandlerFrame"));
        Some(match (row.managed_id.is_some(), catches) {
            // Set up to run managed code, but runs none.
            (true, true) => "tiering",
            // The GC's threads have a Thread, but no Frame for managed code.
            (true, false) => "background gc",
            (false, _) if opens => "debugger",
            (false, _) => "runtime",
        })
    };
    by_function.or_else(by_module).or_else(of_runtime)
}
