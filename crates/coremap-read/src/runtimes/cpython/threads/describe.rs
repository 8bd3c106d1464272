//! Columns of a thread besides its stack: name, state, wait, exception, role.

use super::list::PyThread;
use super::wait_facts::HOLDS_GIL;
use super::waits;
use crate::addr::Addr;
use crate::bytes::printable;
use crate::facts::{FrameRow, ThreadRow, ThrownRow, WaitRow};
use crate::map::Confidence;
use crate::runtimes::api::ManagedThread;
use crate::runtimes::cpython::CPython;
use crate::runtimes::cpython::objects::Objects;
use crate::words::WaitKind;

/// Maximum number of characters of an exception's text.
const MESSAGE: usize = 400;

/// Roles of threads, by a function on their stack: end of the file's path, name, role.
const ROLES: [(&str, &str, &str); 8] = [
    ("/asyncio/base_events.py", "run_forever", "event loop"),
    ("/concurrent/futures/thread.py", "_worker", "thread pool worker"),
    ("/concurrent/futures/process.py", "run", "process pool manager"),
    ("/multiprocessing/pool.py", "_handle_workers", "process pool manager"),
    ("/multiprocessing/queues.py", "_feed", "multiprocessing queue feeder"),
    ("/socketserver.py", "serve_forever", "server"),
    ("/logging/handlers.py", "_monitor", "log listener"),
    ("/threading.py", "_shutdown", "main"),
];

mod how {
    pub(super) const SELF: &str = "the object whose method the thread waits in";
    pub(super) const FUTEX: &str = "the thread waits in a system call on the lock's semaphore";
}

impl CPython<'_> {
    pub(in crate::runtimes::cpython) fn describe_thread(&self, thread: &ManagedThread, row: &mut ThreadRow) {
        let threads = self.all_threads();
        let Some(known) = threads.at(thread.address) else { return };
        // A sub-interpreter's `threading` has only a dummy for a thread of the main interpreter. Prefer the main one.
        let of_main = threads.of(row.tid).filter(|thread| thread.number == Some(0));
        let of_this = of_main.chain(threads.of(row.tid)).find_map(|thread| thread.object.as_ref());
        row.managed_name = of_this.and_then(|object| object.name.as_deref()).map(|name| printable(name).into_owned());
        let mut words: Vec<String> = Vec::new();
        if of_this.is_some_and(|object| object.daemon) {
            words.push("daemon".to_owned());
        }
        let inside = threads.of(row.tid).filter(|thread| !thread.runs.is_empty()).filter_map(|thread| thread.number);
        words.extend(inside.filter(|number| *number != 0).map(|number| format!("in sub-interpreter {number}")));
        let of_gil = |thread: &PyThread| {
            let gil = thread.gil?;
            (gil.locked && gil.holder == thread.address).then_some(HOLDS_GIL)
        };
        let holds = threads.of(row.tid).find_map(of_gil);
        words.extend(holds.or_else(|| self.activity(known, row.tid)).map(str::to_owned));
        if holds.is_some() {
            words.extend(self.waits(known).text.map(str::to_owned));
        }
        row.state = (!words.is_empty()).then(|| words.join(", "));
        row.exception = threads.of(row.tid).find_map(|thread| self.exception(thread.address));
    }

    /// Activity of a thread that does not hold the GIL.
    fn activity(&self, thread: &PyThread, tid: u32) -> Option<&'static str> {
        let process = self.runtime().process;
        let system = process.threads().iter().find(|thread| thread.tid == tid)?;
        let gil = thread.gil.and_then(|gil| gil.range);
        if waits::futex(system).zip(gil).is_some_and(|(at, gil)| gil.contains(at)) {
            return Some("waits for the GIL");
        }
        self.waits(thread).text.or_else(|| waits::by_call(system))
    }

    fn waits(&self, thread: &PyThread) -> waits::WaitReason {
        waits::by_frames(self.runtime(), &self.all_code().codes, thread.frames())
    }

    pub(in crate::runtimes::cpython) fn wait_of(&self, thread: &ManagedThread) -> Option<WaitRow> {
        let threads = self.all_threads();
        let known = threads.at(thread.address)?;
        let objects = self.runtime().objects();
        let system = self.runtime().process.threads().iter().find(|thread| Some(thread.tid) == known.tid)?;
        let futex = waits::futex(system);
        if futex.zip(known.gil.and_then(|gil| gil.range)).is_some_and(|(at, gil)| gil.contains(at)) {
            return None;
        }
        if !waits::may_wait_for_threads(system) {
            return None;
        }
        if let Some(object) = self.waits(known).object.filter(|object| objects.is_object(*object)) {
            let r#type = self.type_name_of(object);
            return Some(WaitRow {
                kind: WaitKind::Notify,
                object,
                r#type,
                how: how::SELF,
                confidence: Confidence::Derived,
                ..WaitRow::default()
            });
        }
        let frame = known.frames().next()?;
        let lock = waits::lock(self.runtime(), &objects, frame, futex?)?;
        let owner = lock.owner.and_then(|ident| threads.all.iter().find(|thread| thread.ident == Some(ident)));
        Some(WaitRow {
            kind: WaitKind::Lock,
            object: lock.address,
            r#type: self.type_name_of(lock.address),
            owner_tid: owner.and_then(|thread| thread.tid),
            how: how::FUTEX,
            confidence: Confidence::Exact,
            ..WaitRow::default()
        })
    }

    /// The exception that propagates in a thread, or else the one that it handles.
    fn exception(&self, tstate: Addr) -> Option<ThrownRow> {
        let view = self.runtime().view("PyThreadState", tstate);
        let objects = self.runtime().objects();
        let raised = view.ptr("current_exception").or_else(|_| view.ptr("curexc_value"));
        let handled = || self.runtime().view("_PyErr_StackItem", view.ptr("exc_info").ok()?).ptr("exc_value").ok();
        let is = |at: &Addr| self.is_exception(&objects, *at);
        let address = raised.ok().filter(is).or_else(|| handled().filter(is))?;
        let message = self.exception_text(&objects, address);
        Some(ThrownRow { r#type: self.type_name_of(address)?, address, message })
    }

    fn is_exception(&self, objects: &Objects<'_>, at: Addr) -> bool {
        let kind = objects.type_of(at).filter(|kind| objects.is_type(*kind));
        let bits = kind.and_then(|kind| objects.word_at(kind, objects.shape.types.flags));
        bits.is_some_and(|bits| bits & crate::runtimes::cpython::objects::flags::BASE_EXCEPTION != 0)
    }

    /// The strings and integers among the exception's first four arguments, joined.
    fn exception_text(&self, objects: &Objects<'_>, exception: Addr) -> Option<String> {
        let args = self.runtime().view("PyBaseExceptionObject", exception).ptr("args").ok()?;
        let texts = self.runtime().tuple_items(args, 4).filter_map(|item| {
            let text = if objects.is_str(item) { objects.text(item, MESSAGE) } else { None };
            text.or_else(|| objects.integer_text(item).filter(|_| objects.is_int(item)))
        });
        let text = texts.collect::<Vec<_>>().join(", ");
        (!text.is_empty()).then(|| printable(&text).into_owned())
    }

    pub(in crate::runtimes::cpython) fn role_of(
        &self,
        thread: Option<&ManagedThread>,
        row: &ThreadRow,
        frames: &[FrameRow],
    ) -> Option<(&'static str, Confidence)> {
        thread?;
        if self.runtime().process.main_tid() == Some(row.tid) {
            return None;
        }
        let is = |frame: &FrameRow, file: &str, name: &str| {
            let method = frame.method.as_deref().map(|method| method.rsplit('.').next().unwrap_or(method));
            method == Some(name) && frame.file.as_deref().is_some_and(|of| of.ends_with(file))
        };
        let found = ROLES.iter().find(|(file, name, _)| frames.iter().any(|frame| is(frame, file, name)));
        found.map(|(_, _, role)| (*role, Confidence::Derived))
    }
}
