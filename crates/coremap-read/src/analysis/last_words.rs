//! How the process ended: its signal, and what it left of its last words.
//!
//! A core that was taken on request is no crash. `si_code` says whether a process or the kernel sent the signal.

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
use crate::targets::{Arch, Perms, Thread};
use crate::words::{FaultCause, LastWordsKind};

/// Signals for faults of an instruction.
const FAULTS: [&str; 5] = ["SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP"];

/// Values of `si_code` for signals that processes send: kill, sigqueue, tgkill.
const SENT: [i32; 3] = [0, -1, -6];

/// `si_code` of a fault whose address the processor does not report (SI_KERNEL).
const FROM_KERNEL: i32 = 128;

/// Values of `si_code` for a failed tag check on aarch64: SEGV_MTEAERR, reported late and without an address, and
/// SEGV_MTESERR.
const TAG_CHECKS: [i32; 2] = [8, 9];

/// Maximum distance in bytes of a fault from a null pointer. Larger fields are rare, and the kernel maps nothing there
/// (vm.mmap_min_addr).
const NULL_PAGE: u64 = 64 << 10;

/// Maximum distance in bytes of a fault from the stack pointer in a stack overflow.
const NEAR_STACK: u64 = 64 << 10;

/// Returns how the process ended. `None` if the core does not show that it did.
pub fn last_words(session: &Session<'_>) -> Option<LastWordsRow> {
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

/// Returns the process that sent the signal. `None` if the kernel did, or if it is not recorded.
fn sender(signal: Signal) -> Option<u32> {
    let info = signal.info.filter(|info| SENT.contains(&info.code))?;
    // `si_pid` is the lower half of the field that is `si_addr` for faults. createdump writes zeros: no process has 0.
    Some(info.addr.get() as u32).filter(|pid| *pid != 0)
}

fn code_text(signal: Signal) -> String {
    signal.info.map_or_else(String::new, |info| format!(", si_code {}", info.code))
}

/// Returns what a process that called abort left.
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
    (signal == "SIGABRT").then(|| {
        let frames = frames(session, thread);
        let has = |part: &str| frames.iter().any(|(name, _)| name.as_deref().is_some_and(|name| name.contains(part)));
        let (kind, by) = match () {
            () if has("handle_alloc_error") || has("rust_oom") => (LastWordsKind::OutOfMemory, "handle_alloc_error"),
            () if has("rust_panic") || has("panic_fmt") => (LastWordsKind::Panic, "the panic's functions"),
            () => return LastWordsRow { kind: LastWordsKind::Abort, ..base.clone() },
        };
        LastWordsRow { kind, how: format!("{}; {by} on the stack", base.how), ..base.clone() }
    })
}

/// Returns the kind of a message of glibc's abort.
fn kind_of(text: &str) -> LastWordsKind {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    // malloc's own assertions look like failed asserts of the program (sysmalloc).
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
    // std::terminate writes type and text to stderr. But a process may also abort while it handles an exception.
    let terminated = terminated(session, thread);
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

/// Whether the default handler of std::terminate called abort: its name is on the stack, or abort's caller is in the
/// C++ library.
fn terminated(session: &Session<'_>, thread: &Thread) -> bool {
    let frames = frames(session, thread);
    let is_libc = |module: &str| module.starts_with("libc.") || module.starts_with("libc-") || module.is_empty();
    let caller = frames.iter().map(|(_, module)| module).find(|module| !is_libc(module));
    let by_library = caller.is_some_and(|m| ["libstdc++", "libc++"].iter().any(|start| m.starts_with(start)));
    by_library || frames.iter().any(|(name, _)| name.as_deref().is_some_and(|name| name.contains("terminate_handler")))
}

/// Maximum number of frames of the thread that are named.
const NAMED_FRAMES: usize = 24;

/// Returns the functions, and their modules, of the innermost frames on the thread's stack.
fn frames(session: &Session<'_>, thread: &Thread) -> Vec<(Option<String>, String)> {
    let process = session.process;
    let names = Names::new(session);
    let walker = session.walker(session.known_stacks()).at_most(NAMED_FRAMES);
    let walk = session.walk(&walker, thread);
    let named = walk.frames.iter().map(|frame| {
        let code = frame.code();
        let module = process.modules.iter().find(|module| module.range.contains(code));
        let name = match names.code(code) {
            Code::Native(symbol) => Some(symbol.name.to_string()),
            Code::Managed(..) | Code::Stub(_) | Code::Other(_) | Code::None => None,
        };
        (name, module.map(|module| module.name().to_owned()).unwrap_or_default())
    });
    named.collect()
}

/// Returns the message on the thread's stack that explains the end best. The thread's own messages take precedence over
/// messages of others, and causes over consequences.
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
        // The panic only reports a panic of another thread.
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
        thread_name: found.thread.as_deref().map(|name| printable(name).into_owned()),
        how: format!("{}; a message that remains on the thread's stack", base.how),
        confidence: if found.tid == Some(thread.tid) { Confidence::Exact } else { Confidence::Derived },
        ..base.clone()
    }
}

fn fault(session: &Session<'_>, thread: &Thread, signal: Signal, base: &LastWordsRow) -> LastWordsRow {
    let process = session.process;
    let (ip, sp) = (thread.registers.ip(), thread.registers.sp());
    let info = signal.info;
    // With this code, the processor did not report the address.
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
    let is_tag_check = |code: i32| process.arch() == Arch::Aarch64 && TAG_CHECKS.contains(&code);
    if base.signal.as_deref() == Some("SIGSEGV") && info.is_some_and(|info| is_tag_check(info.code)) {
        // A late report has no address, and the instruction pointer is already past the access.
        let address = address.filter(|at| !at.is_null());
        let operand = row.operand.clone().filter(|_| address.is_some());
        return LastWordsRow { cause: Some(FaultCause::Tag), address, operand, ..row };
    }
    // Remove the pointer's tag from the address.
    let address = address.map(|at| Addr::new(process.arch().address_in(at.get())));
    let is_mapped = |at: Addr| process.space().mappings.iter().any(|m| m.range.contains(at));
    let perms = |at: Addr| process.space().mappings.iter().find(|m| m.range.contains(at)).map(|m| m.perms);
    let near_stack =
        address.is_some_and(|at| at <= sp.saturating_add(NEAR_STACK) && sp <= at.saturating_add(NEAR_STACK));
    let usable = |at: Addr| perms(at).is_some_and(|p: Perms| p.read && p.write);
    if near_stack && !address.is_some_and(usable) {
        let how = format!("{}; the address is near the stack pointer {sp}, outside of the stack", base.how);
        return LastWordsRow { kind: LastWordsKind::StackOverflow, cause: Some(FaultCause::StackGuard), how, ..row };
    }
    // Without the code, the register closest to the address is likely the base.
    let near = address.and_then(|at| near_register(thread, process.arch(), at));
    let base_value = operand.map(|operand| operand.value).or(near.map(|(_, value)| value));
    let is_null = address.is_some_and(|at| at == ip || at.get() < NULL_PAGE);
    let blocks = if is_null { Vec::new() } else { damaged_blocks::freed(session, thread, base_value) };
    let cause = match address {
        Some(at) if at == ip || !is_code(process, ip) => FaultCause::NotCode,
        Some(at) if at.get() < NULL_PAGE => FaultCause::Null,
        _ if operand.is_some_and(|operand| !is_canonical(process.arch(), operand.address.get())) => {
            FaultCause::NotCanonical
        }
        None => match odd_register(thread, process.arch(), operand.map(|operand| operand.value)) {
            Some(_) => FaultCause::NotCanonical,
            None => FaultCause::Refused,
        },
        Some(_) if !blocks.is_empty() => FaultCause::FreedBlock,
        Some(at) if !is_mapped(at) => FaultCause::Unmapped,
        Some(at) if perms(at).is_some_and(|perms| perms.read && !perms.write) => FaultCause::ReadOnly,
        Some(_) => FaultCause::Refused,
    };
    let odd = || odd_register(thread, process.arch(), None).filter(|_| cause == FaultCause::NotCanonical);
    let guessed = odd().or(near).filter(|_| cause != FaultCause::Null).map(|(register, value)| OperandRow {
        register: register.to_owned(),
        value: Addr::new(value),
        displacement: address.map_or(0, |at| at.offset_from(Addr::new(value))),
        text: word_text(value),
    });
    // A conclusion from a guessed register is no proof.
    let is_guess = row.operand.is_none() && guessed.is_some();
    let operand = row.operand.clone().or(guessed);
    let confidence = if is_guess { Confidence::Derived } else { Confidence::Exact };
    let blocks = if cause == FaultCause::FreedBlock || cause == FaultCause::NotCanonical { blocks } else { Vec::new() };
    LastWordsRow { cause: Some(cause), blocks, operand, confidence, ..row }
}

/// Whether an address is in executable memory.
fn is_code(process: &Process, at: Addr) -> bool {
    let mapped = process.space().mappings.iter().any(|m| m.range.contains(at) && m.perms.exec);
    // Some writers of cores leave out code.
    mapped || process.modules.iter().any(|m| m.range.contains(at))
}

/// Whether the upper bits of a pointer are equal, as the processor requires. Addresses have 48 or 57 bits on x86_64. On
/// aarch64 they have at most 52, below the tag.
fn is_canonical(arch: Arch, pointer: u64) -> bool {
    match arch {
        Arch::X86_64 => [pointer >> 47, pointer >> 56].contains(&0) || (pointer as i64) >> 56 == -1,
        Arch::Aarch64 => arch.address_in(pointer) >> 52 == 0,
    }
}

/// Maximum distance in bytes of a field from the start of its structure.
const MAX_FIELD: u64 = 4096;

/// Returns the register whose value is closest below an address, and the value.
fn near_register(thread: &Thread, arch: Arch, at: Addr) -> Option<(&'static str, u64)> {
    let is_general = |name: &str| name.starts_with(['r', 'x']) && !["rip", "rsp"].contains(&name);
    let general = thread.registers.iter().filter(|(name, _)| is_general(name));
    let below =
        general.filter_map(|(name, value)| Some((at.checked_since(Addr::new(arch.address_in(value)))?, name, value)));
    let near = below.filter(|(distance, _, value)| *distance < MAX_FIELD && *value >= NULL_PAGE);
    near.min().map(|(_, name, value)| (name, value))
}

/// Returns a register whose value is no address, and the value. `value`: the value that the instruction used, if known.
fn odd_register(thread: &Thread, arch: Arch, value: Option<u64>) -> Option<(&'static str, u64)> {
    let mut all = thread.registers.iter().filter(|(name, _)| !["orig_rax", "eflags", "pstate"].contains(name));
    all.find(|(_, found)| {
        !is_canonical(arch, *found) && value.is_none_or(|value| value == *found) && word_text(*found).is_some()
    })
}

/// Returns a word's bytes as text: at least four printable characters, then only NULs. `None` if they are not text.
pub(crate) fn word_text(word: u64) -> Option<String> {
    let bytes = word.to_le_bytes();
    let text = bytes.iter().take_while(|b| b.is_ascii_graphic() || **b == b' ').count();
    let rest = bytes.get(text..)?;
    let is_text = text >= 4 && rest.iter().all(|b| *b == 0);
    is_text.then(|| String::from_utf8_lossy(bytes.get(..text).unwrap_or_default()).into_owned())
}

/// Returns the first bytes of memory as text: at least four printable characters, at most eight. `None` if they are not
/// text.
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
        let canonical = |pointer| is_canonical(Arch::X86_64, pointer);
        assert!(!canonical(word(b"g ZZgg !")) && canonical(0x7fff_ffff_f000) && canonical(u64::MAX - 4095));
        let canonical = |pointer| is_canonical(Arch::Aarch64, pointer);
        assert!(!canonical(word(b"g ZZgg !")) && canonical(0x0900_ffff_a7f2_f040));
    }
}
