//! How the process ended: its signal, and what it left of its last words.
//!
//! A core that somebody requested is no crash: `si_code` says whether a process or the kernel sent the signal.

use crate::addr::{Addr, AddrRange};
use crate::analysis::crash::{self, Signal};
use crate::analysis::damaged_blocks;
use crate::analysis::naming::{Code, Names};
use crate::bytes::printable;
use crate::facts::{LastWordsRow, OperandRow};
use crate::limits;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::native::last_words::{self as native, CxxException, StackText, StackTextKind};
use crate::phase::Phase;
use crate::process::Process;
use crate::session::Session;
use crate::targets::{Perms, Thread};
use crate::words::{FaultCause, LastWordsKind};

/// Signals that the processor's faults cause.
const FAULTS: [&str; 5] = ["SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP"];

/// `si_code` of signals that processes send: kill, sigqueue, tgkill.
const SENT: [i32; 3] = [0, -1, -6];

/// `si_code` of a fault whose address the processor does not report (SI_KERNEL).
const FROM_KERNEL: i32 = 128;

/// Maximum distance of a fault from a null pointer: larger fields are rare, and the kernel maps nothing there
/// (vm.mmap_min_addr).
const NULL_PAGE: u64 = 64 << 10;

/// Maximum distance of a fault from the stack pointer in a stack overflow.
const NEAR_STACK: u64 = 64 << 10;

/// Returns how the process ended. `None` if the core does not show that it did.
pub(crate) fn last_words(session: &Session<'_>) -> Option<LastWordsRow> {
    let process = session.process;
    let crash = crash::crash(process);
    let signal = crash.signal?;
    let _phase = process.enter(Phase::Frames);
    let name = crash::name(signal.number);
    let thread = crash.tid.and_then(|tid| session.thread(tid));
    let base = LastWordsRow {
        tid: crash.tid,
        signal: Some(name.clone()),
        how: format!("{name}{}", code_text(signal)),
        confidence: Confidence::Exact,
        ..LastWordsRow::default()
    };
    if let Some(sender) = sender(signal).filter(|sender| Some(*sender) != process.pid()) {
        let how = format!("{}: sent by process {sender}", base.how);
        return Some(LastWordsRow { kind: LastWordsKind::Requested, sender: Some(sender), how, ..base });
    }
    let is_fault = FAULTS.contains(&&*name) && signal.info.is_none_or(|info| info.code > 0);
    let found = if is_fault { thread.map(|thread| fault(session, thread, signal, &base)) } else { None };
    found.or_else(|| message(session, thread, &name, &base)).or(Some(base))
}

/// The process that sent the signal. `None` if the kernel did, or if it is not recorded.
fn sender(signal: Signal) -> Option<u32> {
    let info = signal.info.filter(|info| SENT.contains(&info.code))?;
    // `si_pid` is in the place of `si_addr`, in its lower half.
    Some(info.addr.get() as u32)
}

fn code_text(signal: Signal) -> String {
    signal.info.map_or_else(String::new, |info| format!(", si_code {}", info.code))
}

/// What a process left that called abort.
fn message(session: &Session<'_>, thread: Option<&Thread>, signal: &str, base: &LastWordsRow) -> Option<LastWordsRow> {
    let process = session.process;
    if let Some(message) = native::abort_message(process) {
        let kind = kind_of(&message.text);
        let blocks = if kind == LastWordsKind::Malloc { damaged_blocks::find(session, thread) } else { Vec::new() };
        return Some(LastWordsRow {
            kind,
            text: Some(printable(&message.text).into_owned()),
            address: Some(message.address),
            blocks,
            how: format!("{}; {}", base.how, message.how),
            confidence: message.confidence,
            ..base.clone()
        });
    }
    let thread = thread?;
    if let Some(found) = native::cxx_exception(process, thread) {
        return Some(exception(session, thread, found, base));
    }
    if let Some(found) = stack_text(session, thread) {
        return Some(from_stack(found, thread, base));
    }
    (signal == "SIGABRT").then(|| LastWordsRow { kind: LastWordsKind::Abort, ..base.clone() })
}

/// The kind of a message of glibc's abort.
fn kind_of(text: &str) -> LastWordsKind {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    // malloc's own asserts have the form of an assert (sysmalloc).
    if has(&["Assertion `"]) && !text.contains("malloc.c") {
        LastWordsKind::Assert
    } else if text.starts_with("*** ") {
        LastWordsKind::Fortify
    } else if has(&["malloc", "free", "calloc", "realloc", "corrupt", "chunk", "tcache", "invalid size", "prev_size"]) {
        LastWordsKind::Malloc
    } else {
        LastWordsKind::Abort
    }
}

fn exception(session: &Session<'_>, thread: &Thread, found: CxxException, base: &LastWordsRow) -> LastWordsRow {
    // std::terminate writes type and text to stderr. A process may also abort while it handles an exception.
    let terminated = function_names(session, thread).iter().any(|name| name.contains("terminate"));
    let text = |text: &str| printable(text).into_owned();
    let ran = if terminated { "; std::terminate is on the stack" } else { "" };
    let is_out_of_memory = found.name.as_deref().is_some_and(|name| name.starts_with("std::bad_alloc"));
    LastWordsRow {
        kind: if is_out_of_memory && terminated { LastWordsKind::OutOfMemory } else { LastWordsKind::Exception },
        private: !terminated,
        text: found.what.as_deref().map(text),
        r#type: found.name.as_deref().map(text),
        bases: found.bases.iter().map(|base| text(base)).collect(),
        address: Some(found.object),
        how: format!("{}; caughtExceptions of the thread's __cxa_eh_globals{ran}", base.how),
        confidence: if terminated { found.confidence.max(Confidence::Derived) } else { Confidence::Derived },
        ..base.clone()
    }
}

/// Maximum number of frames of the thread that are named.
const NAMED_FRAMES: usize = 24;

/// Names of the innermost functions on the thread's stack.
fn function_names(session: &Session<'_>, thread: &Thread) -> Vec<String> {
    let names = Names::new(session);
    let walker = session.walker(session.known_stacks()).at_most(NAMED_FRAMES);
    let walk = session.walk(&walker, thread);
    let named = walk.frames.iter().filter_map(|frame| match names.code(frame.code()) {
        Code::Native(symbol) => Some(symbol.name.to_string()),
        Code::Managed(..) | Code::Stub(_) | Code::Other(_) | Code::None => None,
    });
    named.collect()
}

/// The message on the thread's stack that explains the end best: its own before those of others, and a cause before
/// what follows from it.
fn stack_text(session: &Session<'_>, thread: &Thread) -> Option<StackText> {
    let stacks = session.known_stacks().used_by(thread.tid).map(|stack| stack.stack);
    let mut ranges: Vec<AddrRange> = stacks.collect();
    if ranges.is_empty() {
        let sp = thread.registers.sp();
        ranges.push(AddrRange::sized(sp.saturating_sub(NEAR_STACK), 2 * NEAR_STACK));
    }
    let texts = ranges.into_iter().flat_map(|range| native::stack_texts(session.process, range));
    texts.min_by_key(|text| {
        let other = text.tid.is_some_and(|tid| tid != thread.tid);
        // A panic that only reports another thread's.
        let follows =
            ["Any { .. }", "PoisonError", "RecvError", "SendError"].iter().any(|mark| text.text.contains(mark));
        (other, follows, text.address)
    })
}

fn from_stack(found: StackText, thread: &Thread, base: &LastWordsRow) -> LastWordsRow {
    let kind = match found.kind {
        StackTextKind::Panic => LastWordsKind::Panic,
        StackTextKind::StackOverflow => LastWordsKind::StackOverflow,
        StackTextKind::AllocationFailed => LastWordsKind::OutOfMemory,
        StackTextKind::Assert => LastWordsKind::Assert,
    };
    LastWordsRow {
        kind,
        text: Some(printable(&found.text).into_owned()),
        address: Some(found.address),
        position: found.position.as_deref().map(|position| printable(position).into_owned()),
        how: format!("{}; a message that remains on the thread's stack", base.how),
        confidence: if found.tid == Some(thread.tid) { Confidence::Exact } else { Confidence::Derived },
        ..base.clone()
    }
}

fn fault(session: &Session<'_>, thread: &Thread, signal: Signal, base: &LastWordsRow) -> LastWordsRow {
    let process = session.process;
    let (ip, sp) = (thread.registers.ip(), thread.registers.sp());
    let info = signal.info;
    // The address is recorded unless the processor could not.
    let address = info.filter(|info| info.code != FROM_KERNEL).map(|info| info.addr);
    let operand = native::operand(&process.memory, process.arch(), ip, &thread.registers);
    let row = LastWordsRow {
        kind: LastWordsKind::Fault,
        address,
        operand: operand.map(|operand| OperandRow {
            register: operand.register.to_owned(),
            value: Addr::new(operand.value),
            displacement: operand.displacement,
            text: word_text(operand.value),
        }),
        ..base.clone()
    };
    if !["SIGSEGV", "SIGBUS"].contains(&base.signal.as_deref().unwrap_or_default()) {
        return row;
    }
    let is_mapped = |at: Addr| process.space().mappings.iter().any(|m| m.range.contains(at));
    let perms = |at: Addr| process.space().mappings.iter().find(|m| m.range.contains(at)).map(|m| m.perms);
    let near_stack =
        address.is_some_and(|at| at <= sp.saturating_add(NEAR_STACK) && sp <= at.saturating_add(NEAR_STACK));
    let usable = |at: Addr| perms(at).is_some_and(|p: Perms| p.read && p.write);
    if near_stack && !address.is_some_and(usable) {
        let how = format!("{}; the address is near the stack pointer {sp}, outside of the stack", base.how);
        return LastWordsRow { kind: LastWordsKind::StackOverflow, cause: Some(FaultCause::StackGuard), how, ..row };
    }
    let blocks = damaged_blocks::freed(session, thread, operand.map(|operand| operand.value));
    let cause = match address {
        Some(at) if at == ip || !is_code(process, ip) => FaultCause::NotCode,
        Some(at) if at.get() < NULL_PAGE => FaultCause::Null,
        _ if operand.is_some_and(|operand| !is_canonical(operand.address.get())) => FaultCause::NotCanonical,
        None => match odd_register(thread, operand.map(|operand| operand.value)) {
            Some(_) => FaultCause::NotCanonical,
            None => FaultCause::Refused,
        },
        Some(_) if !blocks.is_empty() => FaultCause::FreedBlock,
        Some(at) if !is_mapped(at) => FaultCause::Unmapped,
        Some(at) if perms(at).is_some_and(|perms| perms.read && !perms.write) => FaultCause::ReadOnly,
        Some(_) => FaultCause::Refused,
    };
    let operand = row.operand.clone().or_else(|| {
        let (register, value) = odd_register(thread, None).filter(|_| cause == FaultCause::NotCanonical)?;
        let (register, text) = (register.to_owned(), word_text(value));
        Some(OperandRow { register, value: Addr::new(value), displacement: 0, text })
    });
    let confidence = match cause {
        FaultCause::NotCanonical if row.operand.is_none() => Confidence::Derived,
        _ => Confidence::Exact,
    };
    LastWordsRow { cause: Some(cause), blocks, operand, confidence, ..row }
}

/// Whether an address is in executable memory.
fn is_code(process: &Process, at: Addr) -> bool {
    let mapped = process.space().mappings.iter().any(|m| m.range.contains(at) && m.perms.exec);
    // Some writers of cores leave out code.
    mapped || process.modules.iter().any(|m| m.range.contains(at))
}

/// Whether the upper bits of an address are equal, as the processor requires (48 or 57 bits).
fn is_canonical(address: u64) -> bool {
    [address >> 47, address >> 56].iter().any(|upper| *upper == 0) || (address as i64) >> 56 == -1
}

/// A register whose value is no address, and its value. `value`: the one that the instruction used, if known.
fn odd_register(thread: &Thread, value: Option<u64>) -> Option<(&'static str, u64)> {
    let mut all = thread.registers.iter().filter(|(name, _)| !["orig_rax", "eflags", "pstate"].contains(name));
    all.find(|(_, found)| {
        !is_canonical(*found) && value.is_none_or(|value| value == *found) && word_text(*found).is_some()
    })
}

/// A word's bytes as text, if they are: at least four printable characters, then only NULs.
pub(crate) fn word_text(word: u64) -> Option<String> {
    let bytes = word.to_le_bytes();
    let text = bytes.iter().take_while(|b| b.is_ascii_graphic() || **b == b' ').count();
    let rest = bytes.get(text..)?;
    let is_text = text >= 4 && rest.iter().all(|b| *b == 0);
    is_text.then(|| String::from_utf8_lossy(bytes.get(..text).unwrap_or_default()).into_owned())
}

/// The first bytes of memory as text: at least four printable characters, at most eight.
pub(crate) fn memory_text(memory: &dyn Memory, at: Addr) -> Option<String> {
    let bytes = memory.look(at, limits::MAX_PUBLIC_TEXT).ok()?;
    let text: Vec<u8> = bytes.into_iter().take_while(|b| b.is_ascii_graphic() || *b == b' ').collect();
    (text.len() >= 4).then(|| String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Texts of glibc 2.36: malloc/malloc.c, assert/assert.c, debug/fortify_fail.c.
    #[test]
    fn messages_of_glibc_have_their_kinds() {
        let cases = [
            ("double free or corruption (!prev)", LastWordsKind::Malloc),
            ("free(): invalid pointer", LastWordsKind::Malloc),
            ("corrupted size vs. prev_size", LastWordsKind::Malloc),
            ("malloc.c:2617: sysmalloc: Assertion `(old_top == initial_top (av)' failed.", LastWordsKind::Malloc),
            ("till: till.c:9: check: Assertion `ordered <= stock' failed.", LastWordsKind::Assert),
            ("*** stack smashing detected ***: terminated", LastWordsKind::Fortify),
            ("The futex facility returned an unexpected error code.", LastWordsKind::Abort),
        ];
        cases.iter().for_each(|(text, kind)| assert_eq!(kind_of(text), *kind, "{text}"));
    }

    #[test]
    fn words_that_are_text() {
        let word = |text: &[u8; 8]| u64::from_le_bytes(*text);
        assert_eq!(word_text(word(b"g ZZgg !")).as_deref(), Some("g ZZgg !"));
        assert_eq!(word_text(word(b"lang\0\0\0\0")).as_deref(), Some("lang"));
        for data in [b"abc\0\0\0\0\0", b"lang\0x\0\0", &[0; 8], &[0xff; 8]] {
            assert_eq!(word_text(word(data)), None);
        }
        assert!(!is_canonical(word(b"g ZZgg !")) && is_canonical(0x7fff_ffff_f000) && is_canonical(u64::MAX - 4095));
    }
}
