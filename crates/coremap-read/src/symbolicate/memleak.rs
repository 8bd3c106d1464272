//! Parses memleak: bcc's Python tool and libbpf's.
//!
//! ```text
//! \taddr = 29ff2e90 size = 65537                           with -a
//! \t65536 bytes in 1 allocations from stack
//! \t\t0x00007ff7023df089\t[unknown] [libcoreclr.so]        bcc
//! \t\t0x00007f2b6a5464dd\t[unknown]                        bcc, no module
//! \t0 [<00007ff7023df089>] malloc+0x10 [/lib/libc.so.6]    libbpf
//! ```

use crate::symbolicate::event::{Event, Frame, IpPosition, Start, Syntax};
use crate::symbolicate::perf::UNKNOWN;
use crate::symbolicate::scan;

/// Symbol that libbpf's memleak prints if it has none.
const NULL_SYM: &[u8] = b"<null sym>";

#[derive(Default)]
pub(super) struct Memleak {
    in_stack: bool,
}

impl Syntax for Memleak {
    fn read<'t>(&mut self, line: &'t [u8]) -> Event<'t> {
        let body = line.trim_ascii();
        if body.is_empty() {
            self.in_stack = false;
            return Event::End;
        }
        if let Some(start) = stack(body) {
            self.in_stack = true;
            return Event::Start(start);
        }
        if memchr::memmem::find(body, b" stacks with outstanding allocations").is_some() {
            self.in_stack = false;
            return Event::List;
        }
        if let Some((address, size)) = block(body) {
            return Event::Block(address, size);
        }
        if let Some(frame) = frame(line) {
            return Event::Frame(frame);
        }
        // bcc before 2021 printed names without addresses.
        if self.in_stack && line.starts_with(b"\t\t") {
            let from = scan::skip_blanks(line, 0);
            return Event::Frame(rest(line, None, from, ("", "")));
        }
        Event::Other
    }
}

/// Parses `N bytes in M allocations from stack`.
pub(super) fn stack(body: &[u8]) -> Option<Start<'static>> {
    let (weight, end) = scan::decimal(body, 0)?;
    let rest = body.get(end..)?;
    let is_stack = rest.starts_with(b" bytes in ") && rest.ends_with(b" allocations from stack");
    is_stack.then(|| Start { weight, ..Start::default() })
}

/// Parses `addr = 29ff2e90 size = 65537`. libbpf's has `0x` before the address.
fn block(body: &[u8]) -> Option<(u64, Option<u64>)> {
    const START: &[u8] = b"addr = ";
    const SIZE: &[u8] = b" size = ";
    let rest = body.strip_prefix(START)?;
    let (address, end) = scan::hex0x(rest, 0).or_else(|| scan::hex(rest, 0))?;
    let size = rest.get(end..)?.strip_prefix(SIZE)?;
    Some((address, scan::decimal(size, 0).map(|(size, _)| size)))
}

/// Parses a frame: bcc's `0x00007ff7023df089\t…`, or libbpf's.
fn frame(line: &[u8]) -> Option<Frame<'_>> {
    let from = scan::skip_blanks(line, 0);
    let Some((address, end)) = scan::hex0x(line, from).filter(|_| from > 0) else { return numbered(line) };
    let next = scan::skip_blanks(line, end);
    let around = if next == end { ("\t", "") } else { ("", "") };
    (next > end || line.len() == end).then(|| rest(line, Some(address), next, around))
}

/// Parses libbpf's frame: `0 [<00007ff7023df089>] …`.
pub(super) fn numbered(line: &[u8]) -> Option<Frame<'_>> {
    let from = scan::skip_blanks(line, 0);
    let (_, end) = scan::decimal(line, from).filter(|_| from > 0)?;
    let open = line.get(end..)?.starts_with(b" [<").then_some(end + 3)?;
    let (address, end) = scan::hex(line, open)?;
    let end = line.get(end..)?.starts_with(b">]").then_some(end + 2)?;
    Some(rest(line, Some(address), scan::skip_blanks(line, end), ("", "")))
}

/// Parses the text after an address, from `from` on: symbol and `[module]`.
fn rest<'t>(line: &'t [u8], address: Option<u64>, from: usize, around: (&'static str, &'static str)) -> Frame<'t> {
    let text = line.get(from..).unwrap_or_default().trim_ascii_end();
    let open = match memchr::memmem::rfind(text, b" [") {
        Some(at) if text.ends_with(b"]") => Some(at + 1),
        // libbpf prints the module alone if there is no symbol. `[unknown]` is bcc's
        // symbol.
        None if text.starts_with(b"[") && text.ends_with(b"]") && text != UNKNOWN => Some(0),
        _ => None,
    };
    let module = open.and_then(|at| text.get(at + 1..text.len().checked_sub(1)?));
    let symbol = text.get(..open.unwrap_or(text.len())).unwrap_or_default().trim_ascii_end();
    let known = !symbol.is_empty() && symbol != UNKNOWN && symbol != NULL_SYM;
    let alone = symbol.is_empty() && open.is_some();
    let after_address = symbol.is_empty() && open.is_none() && around.0.is_empty();
    Frame {
        address,
        at: IpPosition::AfterCall,
        relative: false,
        symbol: known.then(|| scan::without_offset(symbol)),
        dso: module,
        place: from..from + symbol.len(),
        around: if alone {
            ("", " ")
        } else if after_address {
            (" ", "")
        } else {
            around
        },
        offset: true,
    }
}
