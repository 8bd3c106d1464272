//! Parses `perf script`, as printed by perf 6.1 and 6.12, with any `-F` that includes the
//! address.
//!
//! tools/perf/util/evsel_fprintf.c `sample__fprintf_callchain`: tab, address in 16
//! columns, symbol, and file in brackets, or `(inlined)` instead of the file. A sample
//! without a call chain has its only frame at the end of the header.

use crate::limits;
use crate::symbolicate::event::{Event, Frame, IpPosition, Start, Syntax, TextMapping};
use crate::symbolicate::scan;

/// Text that perf prints if it has no symbol or no file.
pub(super) const UNKNOWN: &[u8] = b"[unknown]";

/// Lowest kernel address.
pub(super) const KERNEL: u64 = 1 << 63;

#[derive(Default)]
pub(super) struct Perf {
    /// Whether a user frame of this sample was seen. That is where the thread was, so all
    /// further ones are return addresses.
    callers: bool,
}

impl Syntax for Perf {
    fn read<'t>(&mut self, line: &'t [u8]) -> Event<'t> {
        if line.trim_ascii().is_empty() {
            self.callers = false;
            return Event::End;
        }
        if let Some((frame, inlined)) = frame(line) {
            return Event::Frame(self.place(frame, inlined));
        }
        if line.starts_with(b"#") {
            return Event::Other;
        }
        if let Some(at) = memchr::memmem::find(line, b"PERF_RECORD_") {
            return mapping(line.get(at..).unwrap_or_default()).map_or(Event::Other, Event::Mapping);
        }
        let Some(start) = header(line) else { return Event::Other };
        self.callers = false;
        match frame_of_header(line) {
            Some(frame) => Event::First(start, self.place(frame, false)),
            None => Event::Start(start),
        }
    }
}

impl Perf {
    fn place<'t>(&mut self, mut frame: Frame<'t>, inlined: bool) -> Frame<'t> {
        if !self.callers {
            frame.at = IpPosition::Instruction;
        }
        // The frame around inlined code has the same address.
        if !inlined && frame.address.is_some_and(|a| a < KERNEL) {
            self.callers = true;
        }
        if inlined {
            frame.address = None;
        }
        frame
    }
}

/// Parses a frame on a line of its own. Returns whether it is inlined code.
pub(super) fn frame(line: &[u8]) -> Option<(Frame<'_>, bool)> {
    let at = scan::skip_blanks(line, 0);
    if at == 0 {
        return None;
    }
    let (address, end) = scan::hex(line, at)?;
    let rest = line.get(end..)?;
    if !rest.is_empty() && (rest.first() != Some(&b' ') || is_header(rest)) {
        return None;
    }
    let open = scan::opening(line.trim_ascii_end()).filter(|&o| o > end);
    let (frame, file) = tail(line, address, end, open)?;
    Some((frame, file == Some(b"inlined")))
}

/// Whether a line that starts like an address is a header. perf right-aligns the command
/// of samples without a call chain, and a command may look like a number. A thread id and
/// later a colon follow it.
fn is_header(rest: &[u8]) -> bool {
    let rest = rest.trim_ascii_start();
    rest.first().is_some_and(u8::is_ascii_digit) && memchr::memmem::find(rest, b": ").is_some()
}

/// Parses the text after an address: symbol, and the file in the bracket at `open`.
fn tail(line: &[u8], address: u64, end: usize, open: Option<usize>) -> Option<(Frame<'_>, Option<&[u8]>)> {
    let stop = line.trim_ascii_end().len().max(end);
    let file = open.and_then(|o| line.get(o + 1..stop.checked_sub(1)?));
    let from = scan::skip_blanks(line, end).min(stop);
    let symbol = line.get(from..open.unwrap_or(stop))?.trim_ascii_end();
    let to = from + symbol.len();
    let known = !symbol.is_empty() && symbol != UNKNOWN;
    let around = match (symbol.is_empty(), open.is_some()) {
        (false, _) => ("", ""),
        (true, true) => ("", " "),
        (true, false) => (" ", ""),
    };
    let dso = file.map(scan::without_offset);
    let frame = Frame {
        address: Some(address),
        at: IpPosition::AfterCall,
        relative: true,
        symbol: known.then(|| scan::without_offset(symbol)),
        dso,
        place: from..to,
        around,
        offset: true,
    };
    Some((frame, file))
}

/// Parses the frame at the end of a header: `… cycles:  7f12 main+0x4 (/bin/x)`.
fn frame_of_header(line: &[u8]) -> Option<Frame<'_>> {
    let open = scan::opening(line.trim_ascii_end())?;
    // The period follows a colon too, so take the last one that fits.
    for at in memchr::memmem::rfind_iter(line.get(..open)?, b": ") {
        let from = scan::skip_blanks(line, at + 1);
        let Some((address, end)) = scan::hex(line, from) else { continue };
        if line.get(end) == Some(&b' ') {
            return tail(line, address, end, Some(open)).map(|(frame, _)| frame);
        }
    }
    None
}

/// Parses the header of a sample: `comm  pid/tid [cpu]  time: event: …`.
fn header(line: &[u8]) -> Option<Start<'_>> {
    let mut comm_end = 0;
    let mut pid = None;
    for (from, word) in words(line).take(limits::MAX_HEADER_WORDS) {
        if is_time(word) {
            break;
        }
        if from > 0
            && let Some(process) = task(word)
        {
            comm_end = from;
            pid = process;
        }
    }
    let comm = line.get(..comm_end).unwrap_or_default().trim_ascii();
    let comm = if comm.is_empty() { words(line).next().map_or(line, |(_, w)| w) } else { comm };
    Some(Start { label: Some(comm), weight: 1, pid, ..Start::default() })
}

/// Parses `123` or `123/456`, a thread. Returns its process, if it is printed.
fn task(word: &[u8]) -> Option<Option<u64>> {
    let (first, end) = scan::decimal(word, 0)?;
    match word.get(end) {
        None => Some(None),
        Some(b'/') => (scan::decimal(word, end + 1)?.1 == word.len()).then_some(Some(first)),
        _ => None,
    }
}

/// Whether a word is a time, such as `3719.174612:`.
fn is_time(word: &[u8]) -> bool {
    let Some(number) = word.strip_suffix(b":") else { return false };
    number.contains(&b'.') && number.iter().all(|b| b.is_ascii_digit() || *b == b'.')
}

/// Iterates the words of a line, each with its offset.
fn words(line: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = scan::skip_blanks(line, at);
        let rest = line.get(from..).filter(|r| !r.is_empty())?;
        let len = memchr::memchr2(b' ', b'\t', rest).unwrap_or(rest.len());
        at = from + len;
        Some((from, rest.get(..len)?))
    })
}

/// Parses `PERF_RECORD_MMAP2 pid/tid: [0xSTART(0xLEN) @ OFFSET dev ino gen]: r-xp PATH`.
fn mapping(record: &[u8]) -> Option<TextMapping<'_>> {
    let rest = record.strip_prefix(b"PERF_RECORD_MMAP")?;
    let rest = rest.strip_prefix(b"2").unwrap_or(rest).strip_prefix(b" ")?;
    // The kernel's own mappings have process -1, which does not parse.
    let (pid, _) = scan::decimal(rest, 0)?;
    let open = memchr::memchr(b'[', rest)?;
    let (start, at) = scan::hex0x(rest, open + 1)?;
    let (len, at) = scan::hex0x(rest, (rest.get(at) == Some(&b'(')).then_some(at + 1)?)?;
    let at = rest.get(at..)?.starts_with(b") @ ").then_some(at + 4)?;
    let (offset, at) = scan::hex0x(rest, at).or_else(|| scan::hex(rest, at))?;
    let close = at + memchr::memmem::find(rest.get(at..)?, b"]: ")?;
    let rest = rest.get(close + 3..)?;
    let space = memchr::memchr(b' ', rest)?;
    let path = rest.get(space + 1..)?;
    let executable = rest.get(..space)?.contains(&b'x');
    (start < KERNEL && !path.is_empty()).then_some(TextMapping { pid: Some(pid), start, len, offset, executable, path })
}
