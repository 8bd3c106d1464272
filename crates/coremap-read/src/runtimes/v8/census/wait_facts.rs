//! Waits of threads and async functions, requests in flight, and the activity of the event loop's thread.

use std::collections::{BTreeMap, HashSet};

use crate::addr::Addr;
use crate::facts::{FrameRow, ThreadRow};
use crate::runtimes::api::{Activity, LastWords, OutOfMemory, PartyId, RequestSet, TaskFact, WaitFact, WaitFacts};
use crate::runtimes::v8::V8;
use crate::runtimes::v8::census::{async_functions, boolean, settlers};
use crate::runtimes::v8::vm::{count, strong};
use crate::words::FrameRowKind;

/// Parts of the names of functions in which idle workers of Node.js and libuv wait.
const IDLE: [&str; 4] = ["PlatformWorkerThread", "WorkerThreadsTaskRunner", "DelayedTaskScheduler", "uv__threadpool"];

/// Parts of names of V8's functions that match regular expressions.
const REGEXP: [&str; 3] = ["RegExp", "Regexp", "Irregexp"];

/// Built-in functions of regular expressions.
const OF_REGEXP: [&str; 7] =
    ["exec", "test", "[Symbol.match]", "[Symbol.matchAll]", "[Symbol.replace]", "[Symbol.search]", "[Symbol.split]"];

/// Maximum number of variables of a context.
const MAX_VARIABLES: u64 = 1024;

/// Name of the function of libuv's workers.
const UV_WORKER: &str = "worker";

/// Parts of names of functions that end the process because the heap is at its limit.
const OUT_OF_MEMORY: [&str; 3] = ["FatalProcessOutOfMemory", "OOMErrorHandler", "ReportOOMFailure"];

/// Spellings of the option that limits the heap.
const LIMIT: [&str; 2] = ["--max-old-space-size=", "--max_old_space_size="];

/// Property of an answer with its connection: a symbol since Node.js 22.
const SOCKET: [&str; 2] = ["socket", "Symbol(kSocket)"];

/// Maximum number of frames between the wait and the thread function of an idle worker.
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
    // In a worker with a task, more frames are between the wait and the worker's function.
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
        let name = |shared: u64| Some(heap.vm.function_name(shared)).filter(|name| !name.is_empty());
        let served = self.served();
        let is_outside = |promise: &u64| settlers::outside(heap, self.census()).contains(promise);
        let calls = served.calls.iter().filter_map(|i| {
            let chain = async_functions::chain(self.pending(), *i);
            let call = chain.first()?;
            let wait = call.promise.map(|promise| WaitFact {
                object: Addr::new(promise),
                r#type: Some("Promise".to_owned()),
                what: is_outside(&promise).then(|| "a timer, a socket or another handle".to_owned()),
                soon: is_outside(&promise),
                outside: is_outside(&promise),
                evidence: "the promise's reaction resumes the async function",
                ..WaitFact::default()
            });
            let caller = chain.get(1).and_then(|outer| name(outer.shared));
            Some(TaskFact {
                address: Addr::new(call.generator),
                place: name(call.shared),
                caller,
                wait,
                ..TaskFact::default()
            })
        });
        let handled = served.handlers.iter().map(|(response, shared)| {
            let place = Some(super::function_text(heap, *shared, None));
            // Nothing records who will call the handler's callback, so there is no wait.
            TaskFact { address: Addr::new(*response), name: Some("request".to_owned()), place, ..TaskFact::default() }
        });
        calls.chain(handled).collect()
    }

    fn requests(&self, _threads: &[ThreadRow]) -> Vec<RequestSet> {
        let served = self.served();
        if served.requests == 0 {
            return Vec::new();
        }
        let calls = served.calls.iter().filter_map(|i| self.pending().get(*i));
        let mut tasks: Vec<Addr> = calls.map(|call| Addr::new(call.generator)).collect();
        tasks.extend(served.handlers.iter().map(|(response, _)| Addr::new(*response)));
        let kind = if served.calls.is_empty() { "HTTP" } else { "HTTP, async functions that await" };
        vec![RequestSet { kind: kind.to_owned(), count: served.requests, tasks, ..RequestSet::default() }]
    }

    fn activity(&self, thread: &ThreadRow) -> Option<Activity> {
        // A thread with JavaScript frames runs if it is not in a system call.
        (has_javascript(thread) && thread.syscall.is_none() && !thread.crashed).then_some(Activity::Runs)
    }

    fn callee(&self, thread: &ThreadRow) -> Option<String> {
        let native = thread.frames.iter().take_while(|frame| frame.kind == FrameRowKind::Native);
        let is_regexp = native.into_iter().any(|frame| REGEXP.iter().any(|part| name(frame).contains(part)));
        let library = || {
            let library = thread.frames.iter().filter(|frame| frame.kind == FrameRowKind::Managed);
            library.take_while(|frame| !frame.own).last().map(|frame| name(frame).to_owned())
        };
        let library = library().filter(|name| !name.is_empty());
        let is_builtin = |name: &String| OF_REGEXP.contains(&name.as_str());
        let is_regexp = is_regexp || library.as_ref().is_some_and(is_builtin);
        match (is_regexp, library) {
            (true, Some(method)) => Some(format!("a regular expression ({method})")),
            (true, None) => Some("a regular expression".to_owned()),
            (false, library) => library,
        }
    }

    fn serves(&self, thread: &ThreadRow) -> Option<&'static str> {
        let runs = self.vm().isolates.iter().any(|isolate| isolate.tid == Some(thread.tid));
        (runs && has_javascript(thread)).then_some("event loop")
    }
}

/// Requests in flight, and the calls and closures that serve them.
pub(in crate::runtimes::v8) struct Served {
    /// Number of requests.
    requests: u64,
    /// Indices of the innermost suspended calls that refer to a request.
    calls: Vec<usize>,
    /// Further requests, by the closures that refer to them: response and SharedFunctionInfo.
    handlers: Vec<(u64, u64)>,
}

impl V8<'_> {
    pub(in crate::runtimes::v8) fn read_served(&self) -> Served {
        let heap = self.objects();
        let vm = &*heap.vm;
        let requests = self.responses_in_flight();
        let mut open = requests.clone();
        let mut calls = Vec::new();
        for i in (0..self.pending().len()).filter(|_| !requests.is_empty()) {
            if self.pending().get(i).is_none_or(|call| call.is_outer) {
                continue;
            }
            let chain = async_functions::chain(self.pending(), i);
            let used: Vec<u64> =
                chain.into_iter().flat_map(|call| async_functions::uses(heap, call, &requests)).collect();
            if !used.is_empty() {
                calls.push(i);
                used.iter().for_each(|response| _ = open.remove(response));
            }
        }
        let mut handlers: BTreeMap<u64, u64> = BTreeMap::new();
        for &context in self.survey_contexts(&open) {
            let Some(shared) = vm.object(context, 16).and_then(|scope| heap.functions_by_scope().get(&scope)) else {
                continue;
            };
            let variables = vm.field(context, 8).and_then(count).unwrap_or(0).min(MAX_VARIABLES);
            let words = vm.words(context.wrapping_add(16), variables);
            let used = words.into_iter().filter_map(strong).filter(|at| open.contains(at));
            let is_own = super::is_own(heap, *shared);
            used.filter(|_| is_own).for_each(|response| _ = handlers.entry(response).or_insert(*shared));
        }
        Served { requests: requests.len() as u64, calls, handlers: handlers.into_iter().collect() }
    }

    /// Returns the contexts that may refer to one of `open`.
    fn survey_contexts(&self, open: &HashSet<u64>) -> &[u64] {
        if open.is_empty() { &[] } else { &self.objects().survey().contexts }
    }

    /// Returns the responses of HTTP servers that are not finished and whose connection is open.
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
