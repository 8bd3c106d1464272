//! The C++ exception that a thread handles, through `__cxa_eh_globals` in its TLS.
//!
//! Itanium C++ ABI: Exception Handling, section 2.2.1. `caughtExceptions` points at a `__cxa_exception`. This ends with
//! the `_Unwind_Exception`, whose first word is the exception class. The thrown object follows. The list also contains
//! an unhandled exception, because the runtime catches it before it calls std::terminate.

use crate::addr::Addr;
use crate::bytes;
use crate::limits;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::native::symbols::type_name;
use crate::process::Process;
use crate::targets::reads::Script;
use crate::targets::{Arch, Thread};

/// `GNUCC++\0`. A dependent exception (std::rethrow_exception) has 1 in the last byte.
const GNU: u64 = 0x474e_5543_432b_2b00;
/// `CLNGC++\0`, of LLVM's libc++abi.
const CLANG: u64 = 0x434c_4e47_432b_2b00;

/// Offset of the `_Unwind_Exception` in `__cxa_exception`. LLVM's struct has two more words at its start.
const HEADERS: [(u64, u64); 2] = [(GNU, 80), (CLANG, 96)];

/// Offset of the thrown object from the `_Unwind_Exception`.
const OBJECT: u64 = 32;

/// Distance in bytes from `exceptionType` to the thrown object, in both libraries.
const TYPE: u64 = 112;

/// Offset of the name in `std::type_info`, and offset of the base class in `__si_class_type_info`.
const NAME: u64 = 8;
const BASE: u64 = 16;

/// Maximum number of base classes followed.
const MAX_BASES: usize = 8;

/// Number of words of an object that are tried as its text.
const TEXT_WORDS: u64 = 12;

/// An exception.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CxxException {
    /// The thrown object.
    pub object: Addr,
    /// Its type, as C++ writes it. `None` if the type's name is not in the core.
    pub name: Option<String>,
    /// Its base classes, nearest first. The list ends at a class with several bases.
    pub bases: Vec<String>,
    /// The text that what() returns, or the thrown text or number.
    pub what: Option<String>,
    /// Confidence in `what`.
    pub confidence: Confidence,
}

/// Returns the exception that `thread` handles.
pub fn cxx_exception(process: &Process, thread: &Thread) -> Option<CxxException> {
    let memory = &process.memory;
    let pointer = thread.thread_pointer?;
    // Static TLS is below the thread pointer on x86_64, and above it on aarch64.
    let half = limits::MAX_TLS_SEARCH;
    let start = match process.arch() {
        Arch::X86_64 => pointer.align_down(8).saturating_sub(half),
        Arch::Aarch64 => pointer.align_down(8),
    };
    let parts = memory.readable_parts(crate::addr::AddrRange::sized(start, half), half);
    let found = parts.into_iter().find_map(|part| {
        let tls = memory.look(part.start, usize::try_from(part.len()).ok()?).ok()?;
        let words = (0..tls.len()).step_by(8).filter_map(|at| bytes::u64_at(&tls, at)).map(Addr::new);
        words.filter(|word| !word.is_null() && word.is_aligned(8)).find_map(|word| object_of(memory, word))
    });
    Some(describe(memory, found?))
}

/// Returns the thrown object of a `__cxa_exception`.
fn object_of(memory: &dyn Memory, exception: Addr) -> Option<Addr> {
    HEADERS.iter().find_map(|&(class, header)| {
        let unwind = exception.checked_add(header)?;
        match memory.peek_u64(unwind).ok()? {
            found if found == class => unwind.checked_add(OBJECT),
            // The first word of a dependent exception, after LLVM's two, is the thrown object.
            found if found == class | 1 => {
                let primary = if class == CLANG { exception.checked_add(16)? } else { exception };
                memory.peek_u64(primary).ok().map(Addr::new).filter(|at| !at.is_null())
            }
            _ => None,
        }
    })
}

/// Distances in bytes from the two words before a virtual table to the table: the offset to the whole object, and its
/// `std::type_info`.
const TOP: u64 = 16;
const KIND: u64 = 8;

/// Maximum distance in bytes from the start of an object to a base class in it.
const MAX_TOP: u64 = 64 << 10;

/// Returns the `std::type_info` of the class with the virtual table at `table`. `None` if there is no such class.
///
/// A `std::type_info` is itself an object, of `__class_type_info` or a similar class. These classes have a single base,
/// so their own `std::type_info` is an object of `__si_class_type_info`. That class is the only one whose
/// `std::type_info` is an object of the class itself.
fn class_info(memory: &dyn Memory, table: Addr) -> Option<Addr> {
    let word = |at: Addr| memory.peek_u64(at).ok();
    let kind_of = |table: Addr| word(table.checked_sub(KIND)?).map(Addr::new).filter(|kind| !kind.is_null());
    let meta = |kind: Addr| kind_of(Addr::new(word(kind)?));
    let top = word(table.checked_sub(TOP)?)?.wrapping_neg();
    let kind = kind_of(table).filter(|kind| top <= MAX_TOP && kind.is_aligned(8))?;
    let single = meta(meta(kind)?)?;
    (meta(single)? == single).then_some(kind)
}

/// Returns the class with the virtual table at `table`, as C++ writes it. `None` if there is no such class, or its name
/// is not in the core.
///
/// Declares the bytes that it reads as structures, and the name as a name, so that scrubbed cores keep them.
pub fn class_name(memory: &dyn Memory, table: Addr) -> Option<String> {
    let kind = class_info(memory, table)?;
    let raw = raw_name(memory, kind)?;
    memory.keep(table.checked_sub(TOP)?, TOP);
    memory.keep(kind, BASE);
    let (at, len) = name_bytes(memory, kind)?;
    memory.keep_name(at, len.saturating_add(1), Script::Utf8);
    Some(type_name(&raw))
}

fn describe(memory: &dyn Memory, object: Addr) -> CxxException {
    let kind = object.checked_sub(TYPE).and_then(|at| memory.peek_u64(at).ok()).map(Addr::new);
    let raw = kind.and_then(|kind| raw_name(memory, kind));
    let mut bases = Vec::new();
    let mut at = kind.filter(|_| raw.is_some());
    for _ in 0..MAX_BASES {
        let base = at.and_then(|at| memory.peek_u64(at.checked_add(BASE)?).ok()).map(Addr::new);
        let Some((base, name)) = base.and_then(|base| Some((base, raw_name(memory, base)?))) else { break };
        bases.push(name);
        at = Some(base);
    }
    let (what, confidence) = match &raw {
        Some(raw) => what(memory, object, raw, &bases),
        None => {
            let members = (1..TEXT_WORDS).filter_map(|word| object.checked_add(8 * word));
            let mut texts = members.filter_map(|at| cow_text(memory, at).or_else(|| string(memory, at)));
            (texts.next(), Confidence::Heuristic)
        }
    };
    CxxException {
        object,
        name: raw.as_deref().map(type_name),
        bases: bases.iter().map(|raw| type_name(raw)).collect(),
        what,
        confidence,
    }
}

/// Returns address and length of a type's mangled name, without the final NUL.
fn name_bytes(memory: &dyn Memory, kind: Addr) -> Option<(Addr, u64)> {
    let at = memory.peek_u64(kind.checked_add(NAME)?).ok().map(Addr::new)?;
    let have = memory.readable(at, limits::MAX_SYMBOL_NAME as u64);
    let bytes = memory.look(at, usize::try_from(have).ok()?).ok()?;
    Some((at, memchr::memchr(0, &bytes)? as u64))
}

/// Returns the mangled name of a type. A `*` before it marks a type of a single module.
fn raw_name(memory: &dyn Memory, kind: Addr) -> Option<String> {
    let (at, len) = name_bytes(memory, kind)?;
    let name = String::from_utf8(memory.look(at, usize::try_from(len).ok()?).ok()?).ok()?;
    let name = name.strip_prefix('*').unwrap_or(&name);
    let is_name = name.bytes().all(|b| b.is_ascii_graphic())
        && name.starts_with(|c: char| c.is_ascii_digit() || "NSPKabcdefhijlmnostvwxyz".contains(c));
    is_name.then(|| name.to_owned())
}

/// Returns the text of an object, by its type.
fn what(memory: &dyn Memory, object: Addr, raw: &str, bases: &[String]) -> (Option<String>, Confidence) {
    let pointer = || memory.peek_u64(object).ok().map(Addr::new);
    match raw {
        "PKc" | "Pc" => return (pointer().and_then(|at| c_text(memory, at)), Confidence::Exact),
        "i" => {
            let number = memory.peek_u32(object).ok().map(|number| (number as i32).to_string());
            return (number, Confidence::Exact);
        }
        "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE" => {
            return (string(memory, object), Confidence::Exact);
        }
        _ => {}
    }
    // In libstdc++, both classes contain a reference-counted string.
    let counted = |name: &str| ["St13runtime_error", "St11logic_error"].contains(&name);
    if std::iter::once(raw).chain(bases.iter().map(String::as_str)).any(counted) {
        return (cow_text(memory, object.saturating_add(8)), Confidence::Exact);
    }
    // The text is a member of the class. Whether what() returns it depends on the class's code.
    let is_class = raw.starts_with(|c: char| c.is_ascii_digit() || c == 'N' || c == 'S');
    let members = (1..TEXT_WORDS).filter_map(|word| object.checked_add(8 * word)).filter(|_| is_class);
    let texts = members.filter_map(|at| string(memory, at).or_else(|| cow_text(memory, at)));
    (texts.into_iter().next(), Confidence::Derived)
}

/// Reads the std::string at `at`, which is a pointer to the text and its length.
fn string(memory: &dyn Memory, at: Addr) -> Option<String> {
    let text = memory.peek_u64(at).ok().map(Addr::new)?;
    let len = memory.peek_u64(at.checked_add(8)?).ok().filter(|len| (1..=MAX_TEXT).contains(len))?;
    exact_text(memory, text, len)
}

/// Reads the reference-counted string whose text the word at `at` points at. Before the text: length, capacity, count.
fn cow_text(memory: &dyn Memory, at: Addr) -> Option<String> {
    let text = memory.peek_u64(at).ok().map(Addr::new)?;
    let len = memory.peek_u64(text.checked_sub(24)?).ok().filter(|len| (1..=MAX_TEXT).contains(len))?;
    let capacity = memory.peek_u64(text.checked_sub(16)?).ok()?;
    exact_text(memory, text, len).filter(|_| capacity >= len)
}

/// Maximum length of a text in bytes.
const MAX_TEXT: u64 = 4096;

/// Returns the text of exactly `len` bytes that ends with a NUL.
fn exact_text(memory: &dyn Memory, at: Addr, len: u64) -> Option<String> {
    let bytes = memory.look(at, usize::try_from(len.checked_add(1)?).ok()?).ok()?;
    let (end, text) = bytes.split_last()?;
    let is_text = *end == 0 && !text.contains(&0);
    String::from_utf8(text.to_vec()).ok().filter(|_| is_text)
}

fn c_text(memory: &dyn Memory, at: Addr) -> Option<String> {
    let bytes = memory.look(at, usize::try_from(memory.readable(at, MAX_TEXT)).ok()?).ok()?;
    let end = memchr::memchr(0, &bytes)?;
    String::from_utf8(bytes.get(..end)?.to_vec()).ok().filter(|text| !text.is_empty())
}
