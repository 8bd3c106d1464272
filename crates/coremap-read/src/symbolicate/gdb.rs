//! Parses gdb's backtraces: `#3  0x00007f8ebd3a71f5 in ?? () from /lib/x.so`.

use crate::symbolicate::event::{Event, Frame, IpPosition, Start, Syntax};
use crate::symbolicate::scan;

#[derive(Default)]
pub(super) struct Gdb {
    /// Whether the line is below a `Thread N (…)` line.
    in_thread: bool,
    /// Whether a signal interrupted the next frame.
    signalled: bool,
}

impl Syntax for Gdb {
    fn read<'t>(&mut self, line: &'t [u8]) -> Event<'t> {
        if line.trim_ascii().is_empty() {
            self.in_thread = false;
            return Event::End;
        }
        if line.starts_with(b"Thread ") && memchr::memmem::find(line, b" (").is_some() {
            self.in_thread = true;
            return Event::Start(Start { weight: 1, ..Start::default() });
        }
        let Some((number, mut frame, signal)) = frame(line) else { return Event::Other };
        if number == 0 || std::mem::take(&mut self.signalled) {
            frame.at = IpPosition::Instruction;
        }
        self.signalled = signal;
        if number == 0 {
            let start = Start { weight: 1, loose: !self.in_thread, ..Start::default() };
            return Event::First(start, frame);
        }
        Event::Frame(frame)
    }
}

/// Parses a frame. Returns its number, the frame, and whether it is the call of a signal
/// handler.
pub(super) fn frame(line: &[u8]) -> Option<(u64, Frame<'_>, bool)> {
    if line.first() != Some(&b'#') {
        return None;
    }
    let (number, end) = scan::decimal(line, 1)?;
    let from = scan::skip_blanks(line, end);
    if from == end {
        return None;
    }
    let (address, from) = match scan::hex0x(line, from) {
        Some((address, end)) if line.get(end..)?.starts_with(b" in ") => (Some(address), end + 4),
        _ => (None, from),
    };
    let rest = line.get(from..)?;
    let signal = rest.starts_with(b"<signal handler called>");
    let len = match memchr::memmem::find(rest, b" (") {
        Some(len) => len,
        None if signal => rest.trim_ascii_end().len(),
        None => return None,
    };
    let symbol = rest.get(..len)?;
    let dso = memchr::memmem::rfind(rest, b") from ").and_then(|at| rest.get(at + 7..)).map(<[u8]>::trim_ascii_end);
    let frame = Frame {
        address,
        at: IpPosition::AfterCall,
        relative: false,
        symbol: (symbol != b"??").then_some(symbol),
        dso,
        place: from..from + len,
        around: ("", ""),
        offset: false,
    };
    Some((number, frame, signal))
}
