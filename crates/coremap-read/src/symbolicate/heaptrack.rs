//! Parses `heaptrack_print`, versions 1.4 and 1.5
//! (src/analyze/print/heaptrack_print.cpp).
//!
//! ```text
//! 2.64M peak memory consumed over 290 calls from
//! inner_alloc                              the innermost frame
//!   at /src/myleak.c:15
//!   in /bin/libmyleak.so
//! 348.16K consumed over 20 calls from:
//!     0x7fa48c032bf2                       the others
//!       in ??
//!   and 1.19M from 9 other places
//! ```

use crate::symbolicate::Cost;
use crate::symbolicate::event::{Event, Frame, IpPosition, Start, Syntax};
use crate::symbolicate::scan;

#[derive(Default)]
pub(super) struct Heaptrack {
    in_stack: bool,
}

impl Syntax for Heaptrack {
    fn read<'t>(&mut self, line: &'t [u8]) -> Event<'t> {
        let from = scan::skip_blanks(line, 0);
        let body = line.get(from..).unwrap_or_default().trim_ascii_end();
        if body.is_empty() {
            self.in_stack = false;
            return Event::End;
        }
        if body.starts_with(b"at ") && self.in_stack {
            return Event::Other;
        }
        if let Some(module) = body.strip_prefix(b"in ") {
            let place = (module == b"??").then_some(from + 3..from + 5);
            return Event::Module(module, place);
        }
        if let Some(command) = body.strip_prefix(b"Debuggee command was: ") {
            return Event::Command(command.split(|b| *b == b' ').next().unwrap_or_default());
        }
        if let Some(event) = cost_line(body) {
            self.in_stack = true;
            return event;
        }
        let frame = |address, symbol, end| Frame {
            address,
            at: IpPosition::Instruction,
            relative: false,
            symbol,
            dso: None,
            place: from..end,
            around: ("", ""),
            offset: false,
        };
        match scan::hex0x(line, from) {
            Some((address, end)) if matches!(line.get(end), None | Some(b' ')) => {
                Event::Frame(frame(Some(address), None, end))
            }
            _ if self.in_stack => Event::Frame(frame(None, Some(body), from)),
            _ => Event::Other,
        }
    }
}

/// Parses a line with the weight of the stack that follows.
pub(super) fn cost_line(body: &[u8]) -> Option<Event<'_>> {
    if let Some(rest) = body.strip_prefix(b"and ") {
        let (weight, end) = size(rest)?;
        let rest = rest.get(end..)?.strip_prefix(b" from ")?;
        return rest.ends_with(b" other places").then_some(Event::Rest(weight));
    }
    let (weight, end) = size(body)?;
    let rest = body.get(end..)?.strip_prefix(b" ")?;
    let (rest, sub) = match rest.strip_suffix(b" from:") {
        Some(rest) => (rest, true),
        None => (rest.strip_suffix(b" from")?, false),
    };
    let starts: [(&[u8], Cost); 6] = [
        (b"peak memory consumed over ", Cost::Peak),
        (b"consumed over ", Cost::Peak),
        (b"leaked over ", Cost::Leaked),
        (b"calls to allocation functions with ", Cost::Calls),
        (b"calls with ", Cost::Calls),
        (b"temporary allocations of ", Cost::Temporary),
    ];
    let cost = starts.iter().find(|(start, _)| rest.starts_with(start))?.1;
    let start = Start { weight, cost: Some(cost), ..Start::default() };
    Some(if sub { Event::Start(start) } else { Event::Top(start) })
}

/// Parses `120B`, `2.64M` or a plain count; heaptrack divides by 1,000. A negative size
/// (more freed than allocated since attaching) counts as 0.
fn size(text: &[u8]) -> Option<(u64, usize)> {
    let len = text.iter().take(32).take_while(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-')).count();
    let number: f64 = std::str::from_utf8(text.get(..len)?).ok()?.parse().ok()?;
    let (unit, len) = match text.get(len) {
        Some(b'B') => (1.0, len + 1),
        Some(b'K') => (1e3, len + 1),
        Some(b'M') => (1e6, len + 1),
        Some(b'G') => (1e9, len + 1),
        Some(b'T') => (1e12, len + 1),
        _ => (1.0, len),
    };
    Some(((number * unit).max(0.0).round() as u64, len))
}
