//! The end of the process: the signal and its address, the unhandled exception, and where.

use std::collections::BTreeMap;

use crate::addr::Addr;
use crate::causes::native_words;
use crate::causes::parties::{own_frames, threads_of, title};
use crate::map::Confidence;
use crate::report::LastWordsRow;
use crate::report::{ExceptionDetail, Finding, FrameRow, Severity, ThreadRow};
use crate::runtimes::api::{FailedAllocation, KeptFailure, OutOfMemory, OwnEnd};
use crate::targets::threads::tid_text;
use crate::units::{count as units, exact, round};
use crate::words::LastWordsKind;

/// `si_code` of a signal that another process sent with `kill`.
const SI_USER: i32 = 0;

/// `si_code` of a signal that a thread sent with `tgkill`, as `raise` and `abort` do.
const SI_TKILL: i32 = -6;

/// Numbers of signals: abort, and faults of an instruction.
const ABORT: i32 = 6;
const FAULTS: [i32; 4] = [4, 7, 8, 11];

/// Addresses below this one are a null pointer plus the offset of a field. The kernel maps nothing below 64 KiB
/// (vm.mmap_min_addr).
pub(super) const NULL_PAGE: u64 = 64 << 10;

/// Maximum number of callers named, and maximum number of inner exceptions.
const CALLERS: usize = 3;
const INNER: usize = 4;

/// Functions with which a process ends itself.
const ABORTS: [&str; 4] = ["abort", "raise", "pthread_kill", "gsignal"];

/// The signal that ended the process, and its thread.
pub(crate) struct Ending<'t> {
    /// Number and name of the signal.
    pub(crate) signal: (i32, String),
    /// `si_code`, if the core has it.
    pub(crate) code: Option<i32>,
    /// `si_addr`, if the core has it.
    pub(crate) address: Option<Addr>,
    /// Whether the kernel wrote the core, which it only does at the end of a process.
    pub(crate) by_kernel: bool,
    /// Whether the thread waits for the writer of the core. The process then started it as it ended.
    pub(crate) dumps_itself: bool,
    pub(crate) thread: Option<&'t ThreadRow>,
    /// Data that a native process left on its end, without text that must not be shown.
    pub(crate) words: Option<&'t LastWordsRow>,
}

/// Returns the finding on the end of the process. `None` if the core was taken of a process that could continue.
pub(crate) fn crash(ending: &Ending<'_>, exception: impl Fn(Addr) -> Option<ExceptionDetail>) -> Option<Finding> {
    let number = ending.signal.0;
    let aborted = ending.thread.is_some_and(|thread| ABORTS.iter().any(|name| calls(thread, name)));
    let thrown = ending.thread.and_then(|thread| thread.exception.as_ref());
    let itself = match ending.code {
        Some(SI_USER) => number == ABORT && ending.dumps_itself,
        Some(SI_TKILL) => number == ABORT,
        Some(_) => FAULTS.contains(&number) || ending.by_kernel,
        None => FAULTS.contains(&number) || number == ABORT && (aborted || thrown.is_some()),
    };
    let requested = ending.words.is_some_and(|words| words.kind == LastWordsKind::Requested) && !ending.dumps_itself;
    if !itself || requested {
        return None;
    }
    let thread = ending.thread.map_or_else(|| "an unknown thread".to_owned(), name);
    let place = ending.thread.map(place).unwrap_or_default();
    let signal = &ending.signal.1;
    let text = match (thrown, number == ABORT) {
        (Some(thrown), true) => {
            let detail = exception(thrown.address);
            let message = thrown.message.as_deref().or(detail.as_ref().and_then(|detail| detail.message.as_deref()));
            let inner = inner(detail.as_ref(), &exception);
            let at = detail.as_ref().and_then(|detail| detail.frames.first()?.method.as_deref());
            let at = at.map_or_else(String::new, |method| format!("; thrown in {method}"));
            let thrown = said(&thrown.r#type, message);
            format!("Unhandled {thrown}{inner} in thread {thread}{place}{at}. The process aborted ({signal}).")
        }
        (None, true) => format!("The process aborted ({signal}) in thread {thread}{place}."),
        (_, false) => match ending.address.filter(|_| FAULTS.contains(&number)) {
            Some(at) if at.get() < NULL_PAGE => {
                format!("{signal} at {at}, a null pointer plus an offset: thread {thread}{place}.")
            }
            Some(at) => format!("{signal} at {at}: thread {thread}{place}."),
            None => format!("{signal} in thread {thread}{place}."),
        },
    };
    let words = ending.words.filter(|_| thrown.is_none());
    let recursion = ending.thread.and_then(recursion);
    let left = words.and_then(|words| native_words::finding(words, signal, &format!("{thread}{place}")));
    let how =
        words.filter(|_| left.is_some()).map_or("signal and si_code in the core's notes; stack", |words| &words.how);
    let confidence = words.filter(|_| left.is_some()).map_or(Confidence::Exact, |words| words.confidence);
    let (id, mut text) = left.unwrap_or(("crash", text));
    if let Some(recursion) = recursion.filter(|_| id == "stack-overflow") {
        text.push_str(&recursion);
    }
    let finding = Finding::new(id, Severity::Critical, text, how);
    let command = ending.thread.map_or_else(|| "info".to_owned(), |thread| threads_of(thread.tid));
    let print = ending.thread.and_then(|thread| own_frames(&thread.frames).next()).map(title).unwrap_or_default();
    Some(finding.known(confidence).more(command).fingerprinted(format!("{signal} {print}")))
}

/// Returns the finding on the end of the process from a runtime's own record. `signal`: the signal that ended the
/// process.
pub(crate) fn own_end(end: &OwnEnd, thread: Option<&ThreadRow>, signal: Option<&str>) -> Finding {
    let named = thread.map(name).or_else(|| end.tid.map(tid_text));
    let named = named.map_or_else(|| "an unknown thread".to_owned(), |name| format!("thread {name}"));
    let by_frames = thread.map(place).filter(|place| !place.is_empty());
    let by_stack = || {
        let (first, callers) = end.stack.split_first()?;
        let callers: Vec<&str> = callers.iter().take(CALLERS - 1).map(String::as_str).collect();
        let callers = if callers.is_empty() { String::new() } else { format!(", called by {}", callers.join(" ← ")) };
        Some(format!(" in {first}{callers}"))
    };
    let place = by_frames.or_else(by_stack).unwrap_or_default();
    let thrown = end.exception.as_ref().map(|(kind, message)| said(kind, message.as_deref()));
    let what = match (end.call, &thrown) {
        (Some(call), Some(thrown)) => format!("{} with {thrown}", said(call, end.message.as_deref())),
        (Some(call), None) => said(call, end.message.as_deref()),
        (None, Some(thrown)) => format!("Unhandled {thrown}"),
        (None, None) => "Unhandled exception".to_owned(),
    };
    let how = signal.map_or_else(String::new, |signal| format!(" The process aborted ({signal})."));
    let text = format!("{what} in {named}{place}.{how}");
    let command = thread.map_or_else(|| "info".to_owned(), |thread| threads_of(thread.tid));
    let first = thread.and_then(|thread| own_frames(&thread.frames).next()).map(title);
    let print = first.or_else(|| end.stack.first().cloned()).unwrap_or_default();
    let kind = end.exception.as_ref().map_or("", |(kind, _)| kind);
    let finding = Finding::new("crash", Severity::Critical, text, end.evidence).known(Confidence::Exact);
    finding.more(command).fingerprinted(format!("{kind} {print}"))
}

/// Returns the finding on a thread's failed allocation.
pub(crate) fn out_of_memory(thread: &ThreadRow, fact: &OutOfMemory) -> Finding {
    let text = format!("Out of memory: {}. Thread {}{} failed to allocate.", fact.what, name(thread), place(thread));
    let finding = Finding::new("out-of-memory", Severity::Critical, text, fact.evidence);
    let print = own_frames(&thread.frames).next().map(title).unwrap_or_default();
    finding.known(Confidence::Exact).more(threads_of(thread.tid)).fingerprinted(print)
}

/// An exception of a failed allocation that was caught.
pub(crate) struct Caught<'a> {
    pub(crate) failure: &'a KeptFailure,
    /// Number of such exceptions.
    pub(crate) count: u64,
    /// The field or variable that retains it. `None` if nothing does.
    pub(crate) holder: Option<&'a str>,
    /// The last allocation that failed, and the limit of the heap in bytes.
    pub(crate) asked: Option<FailedAllocation>,
    pub(crate) limit: Option<u64>,
}

/// Returns the finding on a failed allocation that the program handled. It is a warning only if the exception is still
/// retained.
pub(crate) fn caught(of: &Caught<'_>) -> Finding {
    let KeptFailure { object, r#type, functions } = of.failure;
    let methods: Vec<&str> = functions.iter().take(CALLERS).map(String::as_str).collect();
    let thrown = if methods.is_empty() { String::new() } else { format!(", thrown in {}", methods.join(" ← ")) };
    let kept = of.holder.map_or_else(|| "was caught".to_owned(), |holder| format!("was caught and is kept: {holder}"));
    let what = match of.count {
        1 => format!("{type}{thrown}, {kept}"),
        count => format!("{} × {type}; one of them{thrown}, {kept}", exact(count)),
    };
    let asked = of.asked.map_or_else(String::new, |asked| {
        let large = if asked.large { ", a large object" } else { "" };
        format!(
            " The last request that the collector could not meet was for {} bytes ({}){large}.",
            exact(asked.bytes),
            round(asked.bytes)
        )
    });
    let limit = of.limit.map_or_else(String::new, |limit| {
        format!(" The limit of the heap is {} bytes ({}).", exact(limit), round(limit))
    });
    let text = format!("Out of memory: {what}.{asked}{limit}");
    let severity = if of.holder.is_some() { Severity::Warning } else { Severity::Info };
    // The collector's record may be of another failure.
    let (evidence, confidence) = match of.asked {
        Some(_) => {
            ("the exception and its stack trace; the collector's record of a failed allocation", Confidence::Derived)
        }
        None => ("the exception and its stack trace", Confidence::Exact),
    };
    let finding = Finding::new("out-of-memory", severity, text, evidence).known(confidence);
    finding.more(format!("object {object}")).fingerprinted(methods.first().copied().unwrap_or_default())
}

/// Minimum number of frames of a function for a recursion, and minimum share of all frames as a divisor.
const DEEP: usize = 64;
const DEEP_SHARE: usize = 16;

/// Returns the function that called itself until the stack was used up.
fn recursion(thread: &ThreadRow) -> Option<String> {
    let mut counts: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
    let named = thread.frames.iter().enumerate().filter_map(|(at, frame)| Some((at, frame.method.as_deref()?)));
    for (at, method) in named {
        let (count, _, last) = counts.entry(method).or_insert((0, at, at));
        *count = count.saturating_add(1);
        *last = at;
    }
    let (_, &(count, first, last)) = counts.iter().max_by_key(|(_, (count, ..))| *count)?;
    if count < DEEP || count.saturating_mul(DEEP_SHARE) < thread.frames.len() {
        return None;
    }
    let (inner, outer) = (thread.frames.get(first)?, thread.frames.get(last)?);
    let each = outer.sp.checked_since(inner.sp)?.checked_div(count.saturating_sub(1) as u64)?;
    let entered = thread.frames.get(last.checked_add(1)?..)?.iter().find(|frame| frame.own);
    let entered = entered.map_or_else(String::new, |frame| format!(", entered from {}", with_line(frame)));
    Some(format!(
        " It is a recursion: {} is {} of {} frames, {} a call{entered}.",
        title(inner),
        exact(count as u64),
        exact(thread.frames.len() as u64),
        units(each, "byte")
    ))
}

fn calls(thread: &ThreadRow, name: &str) -> bool {
    thread.frames.iter().any(|frame| frame.method.as_deref().is_some_and(|method: &str| method.ends_with(name)))
}

fn name(thread: &ThreadRow) -> String {
    match thread.managed_name.as_deref().or(thread.name.as_deref()) {
        Some(name) => format!("{name} ({})", tid_text(thread.tid)),
        None => tid_text(thread.tid),
    }
}

/// Returns a method with its line, if the line is known.
fn with_line(frame: &FrameRow) -> String {
    let file = frame.file.as_deref().map(|file: &str| file.rsplit('/').next().unwrap_or(file).to_owned());
    match (file, frame.line) {
        (Some(file), Some(line)) => format!("{} ({file}:{line})", title(frame)),
        _ => title(frame),
    }
}

/// Returns where a thread is: the program's innermost method, the library's methods that it called, and its callers.
fn place(thread: &ThreadRow) -> String {
    let own: Vec<&FrameRow> = own_frames(&thread.frames).take(CALLERS).collect();
    let Some(first) = own.first() else { return String::new() };
    let library = thread.frames.iter().take_while(|frame| !std::ptr::eq(*frame, *first));
    let called: Vec<String> = library
        .filter(|frame| frame.runtime.is_some() == first.runtime.is_some() && frame.method.is_some())
        .map(title)
        .collect();
    let through = called.last().map_or_else(String::new, |called| format!(", through {called}"));
    let callers: Vec<String> = own.iter().skip(1).map(|frame| with_line(frame)).collect();
    let callers = if callers.is_empty() { String::new() } else { format!(", called by {}", callers.join(" ← ")) };
    format!(" in {}{through}{callers}", with_line(first))
}

fn said(kind: &str, message: Option<&str>) -> String {
    message.map_or_else(|| kind.to_owned(), |message| format!("{kind} \"{message}\""))
}

/// Lists the inner exceptions of an exception, outermost first.
fn inner(outer: Option<&ExceptionDetail>, exception: &impl Fn(Addr) -> Option<ExceptionDetail>) -> String {
    let cause = |detail: &ExceptionDetail| detail.inner.zip(detail.inner_type.clone());
    let mut out = String::new();
    let mut next = outer.and_then(cause);
    for _ in 0..INNER {
        let Some((object, kind)) = next else { break };
        let detail = exception(object);
        let message = detail.as_ref().and_then(|detail| detail.message.as_deref());
        out.push_str(&format!(", caused by {}", said(&kind, message)));
        next = detail.as_ref().and_then(cause);
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::words::FrameRowKind;

    fn frame(method: &str, own: bool) -> FrameRow {
        FrameRow { kind: FrameRowKind::Native, method: Some(method.into()), own, ..FrameRow::default() }
    }

    #[test]
    fn a_kept_failure_names_its_functions_and_its_keeper_and_takes_the_largest_holder() {
        let failure = &failure("MemoryError", &["read", "load", "run", "main"]);
        let of = Caught { failure, count: 1, holder: Some("Job.error"), asked: None, limit: None };
        let mut all = vec![caught(&of), {
            Finding::new("retained", Severity::Warning, "170 MiB: Job.lines retains 9 Line.", "").about(170 << 20)
        }];
        crate::causes::join(&mut all);
        assert_eq!(
            all[0].text,
            "Out of memory: MemoryError, thrown in read ← load ← run, was caught and is kept: Job.error. Largest holder: 170 \
             MiB: Job.lines retains 9 Line."
        );
        assert_eq!((all[0].severity, all[0].bytes), (Severity::Warning, Some(170 << 20)));
    }

    fn failure(kind: &str, functions: &[&str]) -> KeptFailure {
        let functions = functions.iter().map(|name| (*name).to_owned()).collect();
        KeptFailure { object: Addr::new(0x10), r#type: kind.into(), functions }
    }

    fn of(number: i32, code: Option<i32>, frames: &[FrameRow]) -> Option<Finding> {
        let thread = ThreadRow { tid: 7, name: Some("lane".into()), frames: frames.to_vec(), ..ThreadRow::default() };
        let signal = (number, format!("SIG{number}"));
        let ending = Ending {
            signal,
            code,
            address: Some(Addr::new(0x18)),
            by_kernel: true,
            dumps_itself: false,
            thread: Some(&thread),
            words: None,
        };
        crash(&ending, |_| None)
    }

    #[test]
    fn a_runtime_says_itself_how_it_ended() {
        let thread = ThreadRow { tid: 7, name: Some("lane".into()), ..ThreadRow::default() };
        let end = OwnEnd {
            tid: Some(7),
            exception: Some(("Shop.Refused".into(), Some("no stock".into()))),
            stack: ["Shop.Cart.Add(Int32)", "Shop.Main()"].map(str::to_owned).to_vec(),
            evidence: "its text",
            ..OwnEnd::default()
        };
        let text = |end: &OwnEnd, thread, signal| own_end(end, thread, signal).text;
        assert_eq!(
            text(&end, Some(&thread), Some("SIGABRT")),
            "Unhandled Shop.Refused \"no stock\" in thread lane (7) in Shop.Cart.Add(Int32), called by Shop.Main(). The \
             process aborted (SIGABRT)."
        );
        let call = OwnEnd { call: Some("Environment.FailFast"), message: Some("stop".into()), ..OwnEnd::default() };
        assert_eq!(text(&call, None, None), "Environment.FailFast \"stop\" in an unknown thread.");
        assert_eq!(own_end(&call, None, None).severity, Severity::Critical);
    }

    #[test]
    fn a_core_that_was_asked_for_is_no_crash() {
        assert!(of(6, Some(0), &[frame("main", true)]).is_none());
        assert!(of(19, Some(0), &[]).is_none());
        assert!(of(6, None, &[frame("main", true)]).is_none());
        assert!(of(6, None, &[frame("abort", false), frame("main", true)]).is_some());
        assert!(of(6, Some(-6), &[]).is_some());
    }

    #[test]
    fn the_finding_on_a_caught_exception_has_the_bytes_asked_for_and_the_limit() {
        let of = Caught {
            failure: &failure("OutOfMemoryException", &["Job.combine", "Job.run", "main", "start"]),
            count: 1,
            holder: Some("Job.failure"),
            asked: Some(FailedAllocation { bytes: 125_830_168, large: true }),
            limit: Some(200 << 20),
        };
        let found = caught(&of);
        assert_eq!(
            found.text,
            "Out of memory: OutOfMemoryException, thrown in Job.combine ← Job.run ← main, was caught and is kept: \
             Job.failure. The last request that the collector could not meet was for 125,830,168 bytes (120 MiB), a large \
             object. The limit of the heap is 209,715,200 bytes (200 MiB)."
        );
        assert_eq!(found.severity, Severity::Warning);
        assert_eq!(caught(&Caught { holder: None, ..of }).severity, Severity::Info);
    }

    #[test]
    fn a_fault_names_its_address_its_method_and_the_callers() {
        let found = of(11, Some(1), &[frame("copy", false), frame("read_label", true), frame("scan", true)]).unwrap();
        assert_eq!(
            found.text,
            "SIG11 at 0x18, a null pointer plus an offset: thread lane (7) in read_label, through copy, called by scan."
        );
        assert_eq!(found.severity, Severity::Critical);
    }
}
