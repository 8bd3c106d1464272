//! Messages that remain on the stack of the thread that wrote them to stderr.
//!
//! Rust's panic hook formats its message into a buffer on the stack before it writes it (library/std/src/panicking.rs,
//! `default_hook`). musl's assert formats with vfprintf.

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::process::Process;

/// Writer of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackTextKind {
    /// A panic of Rust.
    Panic,
    /// Rust's handler of SIGSEGV found a stack overflow.
    StackOverflow,
    /// Rust's handler of failed allocations.
    AllocationFailed,
    /// A failed assert of musl.
    Assert,
}

/// A message on a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackText {
    /// Address of the message.
    pub address: Addr,
    /// Writer of the message.
    pub kind: StackTextKind,
    /// The message, without the line that names the thread.
    pub text: String,
    /// For a panic or a stack overflow: name of the thread.
    pub thread: Option<String>,
    /// ID of the thread (from Rust 1.91 on).
    pub tid: Option<u32>,
    /// For a panic: file, line and column.
    pub position: Option<String>,
}

/// Maximum length of a message in bytes. Rust's buffer has 512.
const LONGEST: usize = 1024;

/// Finds the messages in `stack`, lowest address first.
pub fn stack_texts(process: &Process, stack: AddrRange) -> Vec<StackText> {
    let memory = &process.memory;
    let lowest = stack.end.saturating_sub(limits::MAX_STACK_SEARCH).max(stack.start);
    let searched = AddrRange::new(lowest, stack.end);
    let mut out: Vec<StackText> = Vec::new();
    for part in memory.readable_parts(searched, limits::MAX_STACK_SEARCH) {
        let Some(len) = usize::try_from(part.len()).ok() else { continue };
        let Ok(bytes) = memory.look(part.start, len) else { continue };
        for (mark, parse) in MARKS {
            for at in memchr::memmem::find_iter(&bytes, mark).take(limits::MAX_STACK_TEXTS) {
                let found = parse(&bytes, at).filter(|(_, text)| !out.iter().any(|known| known.text == text.text));
                if let Some((offset, text)) = found {
                    out.push(StackText { address: part.start.saturating_add(offset as u64), ..text });
                }
            }
        }
    }
    out.sort_by_key(|text| text.address);
    out
}

/// Parses the message around a mark. Gets the bytes and the mark's offset. Returns the message's offset, and the
/// message.
type Parse = fn(&[u8], usize) -> Option<(usize, StackText)>;

const MARKS: [(&[u8], Parse); 4] = [
    (b" panicked at ", panic),
    (b"' has overflowed its stack", overflow),
    (b"memory allocation of ", allocation),
    (b"Assertion failed: ", assert),
];

/// `thread 'NAME' (ID) panicked at FILE:LINE:COLUMN:` and the message in the next line. Before Rust 1.73:
/// `thread 'NAME' panicked at 'MESSAGE', FILE:LINE:COLUMN`.
fn panic(bytes: &[u8], at: usize) -> Option<(usize, StackText)> {
    let (start, thread, tid) = thread_before(bytes, at)?;
    let rest = text_from(bytes, at.checked_add(b" panicked at ".len())?)?;
    let (position, message) = match rest.strip_prefix('\'') {
        Some(old) => {
            let (message, place) = old.rsplit_once("', ")?;
            (place.lines().next()?, message)
        }
        None => {
            let (place, message) = rest.split_once('\n')?;
            (place.strip_suffix(':')?, message)
        }
    };
    // A position ends in `:LINE:COLUMN`.
    let mut numbers = position.rsplitn(3, ':');
    let is_number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u32>().is_ok());
    if !is_number(numbers.next()) || !is_number(numbers.next()) {
        return None;
    }
    let message = message.split("\nnote: run with").next()?.trim_end_matches('\n');
    let (thread, position) = (Some(thread), Some(position.to_owned()));
    let of_kind = (StackTextKind::Panic, message.to_owned());
    Some((start, StackText { address: Addr::NULL, kind: of_kind.0, text: of_kind.1, thread, tid, position }))
}

/// `thread 'NAME' has overflowed its stack`
fn overflow(bytes: &[u8], at: usize) -> Option<(usize, StackText)> {
    let (start, thread, tid) = thread_before(bytes, at.checked_add(1)?)?;
    let text = format!("thread '{thread}' has overflowed its stack");
    let (thread, kind) = (Some(thread), StackTextKind::StackOverflow);
    Some((start, StackText { address: Addr::NULL, kind, text, thread, tid, position: None }))
}

/// `memory allocation of N bytes failed`
fn allocation(bytes: &[u8], at: usize) -> Option<(usize, StackText)> {
    let text = text_from(bytes, at)?;
    let text = text.lines().next()?;
    let size = text.strip_prefix("memory allocation of ")?.strip_suffix(" bytes failed")?;
    size.parse::<u64>().ok()?;
    Some((at, plain(StackTextKind::AllocationFailed, text)))
}

/// `Assertion failed: EXPRESSION (FILE: FUNCTION: LINE)`
fn assert(bytes: &[u8], at: usize) -> Option<(usize, StackText)> {
    let text = text_from(bytes, at)?;
    let text = text.lines().next()?;
    let (_, position) = text.strip_suffix(')')?.rsplit_once(" (")?;
    position.rsplit_once(": ")?.1.parse::<u32>().ok()?;
    Some((at, plain(StackTextKind::Assert, text)))
}

fn plain(kind: StackTextKind, text: &str) -> StackText {
    StackText { address: Addr::NULL, kind, text: text.to_owned(), thread: None, tid: None, position: None }
}

/// Parses `thread 'NAME'` or `thread 'NAME' (ID)` that ends at `end`.
fn thread_before(bytes: &[u8], end: usize) -> Option<(usize, String, Option<u32>)> {
    let from = end.saturating_sub(limits::MAX_MESSAGE_THREAD);
    let before = bytes.get(from..end)?;
    let at = memchr::memmem::rfind(before, b"thread '")?;
    let text = std::str::from_utf8(before.get(at..)?).ok()?.strip_prefix("thread '")?;
    let (name, tid) = match text.strip_suffix(')').and_then(|text| text.rsplit_once("' (")) {
        Some((name, tid)) => (name, Some(tid.parse().ok()?)),
        None => (text.strip_suffix('\'')?, None),
    };
    Some((from.saturating_add(at), name.to_owned(), tid))
}

/// Returns the UTF-8 text from `at` to the first NUL.
fn text_from(bytes: &[u8], at: usize) -> Option<String> {
    let rest = bytes.get(at..)?;
    let rest = rest.get(..LONGEST).unwrap_or(rest);
    let end = memchr::memchr(0, rest).unwrap_or(rest.len());
    let text = rest.get(..end)?;
    let valid = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(e) => std::str::from_utf8(text.get(..e.valid_up_to())?).ok()?,
    };
    Some(valid.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Messages as rustc 1.95, rustc 1.66 and musl 1.2.3 printed them.
    #[test]
    fn messages_of_panics_and_asserts() {
        let new = b"\x01\x02\nthread 'settler' (4570) panicked at src/panic.rs:1:74:\nindex out of bounds: the len is 3 but the index is 5\nnote: run with `RUST_BACKTRACE=1`\0rest";
        let at = memchr::memmem::find(new, b" panicked at ").unwrap_or(0);
        let Some((start, found)) = panic(new, at) else { panic!("a panic") };
        assert_eq!((start, found.thread.as_deref(), found.tid), (3, Some("settler"), Some(4570)));
        assert_eq!(found.text, "index out of bounds: the len is 3 but the index is 5");
        assert_eq!(found.position.as_deref(), Some("src/panic.rs:1:74"));
        let old = b"thread 'main' panicked at 'it is 'late'', src/main.rs:7:5\n\0";
        let found = panic(old, 13).map(|(_, text)| (text.text, text.position, text.tid));
        assert_eq!(found, Some(("it is 'late'".into(), Some("src/main.rs:7:5".into()), None)));
        // Format strings in a program's data are not messages.
        for data in [&b"thread '{}' panicked at {}:\n{}"[..], b"thread ' panicked at ", b"thread 'a' panicked at b"] {
            let at = memchr::memmem::find(data, b" panicked at ").unwrap_or(0);
            assert_eq!(panic(data, at), None);
        }
        let musl = b"Assertion failed: ordered <= stock (assert.c: check: 2)\n\0";
        assert!(assert(musl, 0).is_some_and(|(_, text)| text.text.ends_with("(assert.c: check: 2)")));
        assert_eq!(assert(b"Assertion failed: %s (%s: %s: %d)\n", 0), None);
        assert!(allocation(b"memory allocation of 70368744177664 bytes failed", 0).is_some());
        assert_eq!(allocation(b"memory allocation of {} bytes failed", 0), None);
    }
}
