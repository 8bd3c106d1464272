//! Waits of threads and async functions, requests in flight, and what the event loop's thread does.

use std::collections::HashSet;

use crate::addr::Addr;
use crate::facts::{FrameRow, ThreadRow};
use crate::runtimes::api::{Activity, LastWords, OutOfMemory, PartyId, RequestSet, TaskFact, WaitFact, WaitFacts};
use crate::runtimes::v8::V8;
use crate::runtimes::v8::census::{async_functions, boolean};
use crate::runtimes::v8::vm::strong;
use crate::words::FrameRowKind;

/// Parts of names of functions that workers of Node.js and libuv wait in when there is nothing to do.
const IDLE: [&str; 4] = ["PlatformWorkerThread", "WorkerThreadsTaskRunner", "DelayedTaskScheduler", "uv__threadpool"];

/// Name of the function of libuv's workers.
const UV_WORKER: &str = "worker";

/// Parts of names of functions that end the process because the heap is at its limit.
const OUT_OF_MEMORY: [&str; 3] = ["FatalProcessOutOfMemory", "OOMErrorHandler", "ReportOOMFailure"];

/// The option that limits the heap, as Node.js takes it.
const LIMIT: [&str; 2] = ["--max-old-space-size=", "--max_old_space_size="];

/// Property of an answer with its connection: a symbol since Node.js 22.
const SOCKET: [&str; 2] = ["socket", "Symbol(kSocket)"];

/// Maximum number of frames from a wait to the function of an idle worker.
const NEAR: usize = 6;

fn name(frame: &FrameRow) -> &str {
    frame.method.as_deref().unwrap_or_default()
}

fn has_javascript(thread: &ThreadRow) -> bool {
    thread.frames.iter().any(|frame| frame.kind == FrameRowKind::Managed)
}

/// Whether a thread is a worker without work.
fn is_idle_worker(thread: &ThreadRow) -> bool {
    let is_worker = |frame: &FrameRow| IDLE.iter().any(|part| name(frame).contains(part)) || name(frame) == UV_WORKER;
    // A worker that has a task is further from its own function.
    let mut near = thread.frames.iter().take(NEAR).skip_while(|frame| !name(frame).contains("uv_cond_wait"));
    !has_javascript(thread) && near.nth(1).is_some_and(is_worker)
}

impl WaitFacts for V8<'_> {
    fn waits(&self, threads: &[ThreadRow]) -> Vec<(PartyId, WaitFact)> {
        let idle = threads.iter().filter(|thread| is_idle_worker(thread)).filter_map(|thread| {
            let row = thread.waits_for.as_ref()?;
            let fact = WaitFact {
                object: row.object,
                idle: true,
                evidence: "the thread is a worker of Node.js's pools, and has no task",
                ..WaitFact::default()
            };
            Some((PartyId::Thread(thread.tid), fact))
        });
        idle.collect()
    }

    fn tasks(&self) -> Vec<TaskFact> {
        let heap = self.objects();
        let requests = self.responses_in_flight();
        // Calls that serve nothing are counted by their function instead.
        let serves = |call: &&super::Pending| !async_functions::uses(heap, call, &requests).is_empty();
        let task = |call: &super::Pending| {
            let wait = call.promise.map(|promise| WaitFact {
                object: Addr::new(promise),
                r#type: Some("Promise".to_owned()),
                evidence: "the promise's reaction resumes the async function",
                ..WaitFact::default()
            });
            let place = Some(heap.vm.function_name(call.shared)).filter(|name| !name.is_empty());
            TaskFact {
                address: Addr::new(call.generator),
                name: None,
                place,
                caller: None,
                activity: None,
                wait,
                detail: None,
            }
        };
        self.pending().iter().filter(serves).map(task).collect()
    }

    fn requests(&self, _threads: &[ThreadRow]) -> Vec<RequestSet> {
        let requests = self.responses_in_flight();
        if requests.is_empty() {
            return Vec::new();
        }
        let heap = self.objects();
        let serves = |call: &&super::Pending| !async_functions::uses(heap, call, &requests).is_empty();
        let tasks = self.pending().iter().filter(serves).map(|call| Addr::new(call.generator)).collect();
        let kind = "HTTP, async functions that await".to_owned();
        vec![RequestSet { kind, count: requests.len() as u64, tasks, ..RequestSet::default() }]
    }

    fn activity(&self, thread: &ThreadRow) -> Option<Activity> {
        // Without a system call, a thread with JavaScript frames runs.
        (has_javascript(thread) && thread.syscall.is_none() && !thread.crashed).then_some(Activity::Runs)
    }

    fn serves(&self, thread: &ThreadRow) -> Option<&'static str> {
        let runs = self.vm().isolates.iter().any(|isolate| isolate.tid == Some(thread.tid));
        (runs && has_javascript(thread)).then_some("event loop")
    }
}

impl V8<'_> {
    /// Answers of HTTP servers that are not finished, and whose connection is open.
    fn responses_in_flight(&self) -> HashSet<u64> {
        let heap = self.objects();
        let vm = &*heap.vm;
        let in_flight = |at: &&u64| {
            let open = vm.own(**at, "finished").and_then(|word| boolean(vm, word)) == Some(false);
            let socket = SOCKET.iter().find_map(|name| vm.own(**at, name)).and_then(strong);
            open && socket.is_some_and(|socket| vm.type_of(socket).is_some_and(|number| number >= vm.first_object))
        };
        self.census().responses.iter().filter(in_flight).copied().collect()
    }
}

impl LastWords for V8<'_> {
    fn out_of_memory(&self, thread: &ThreadRow) -> Option<OutOfMemory> {
        let ends = |frame: &FrameRow| OUT_OF_MEMORY.iter().any(|part| name(frame).contains(part));
        thread.frames.iter().any(ends).then(|| {
            let args = self.vm().process.strings().map(|strings| strings.args.as_slice()).unwrap_or_default();
            let number = |arg: &String| LIMIT.iter().find_map(|option| arg.strip_prefix(option)?.parse::<u32>().ok());
            let limit = args.iter().find_map(number);
            let limit = limit.map_or_else(String::new, |limit| format!(", {}{limit} (MiB)", LIMIT[0]));
            OutOfMemory {
                what: format!("the JavaScript heap is at its heap limit{limit}"),
                evidence: "the thread is in V8's function that ends the process (FatalProcessOutOfMemory)",
            }
        })
    }
}
