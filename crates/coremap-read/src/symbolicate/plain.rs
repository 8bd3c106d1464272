//! Finds addresses anywhere in a line: in any text, and in folded stacks.

use std::ops::Range;

use crate::symbolicate::engine::Engine;
use crate::symbolicate::event::{Frame, IpPosition};
use crate::symbolicate::scan;

/// Returns a frame with an address only.
pub(super) fn frame(address: u64, place: Range<usize>) -> Frame<'static> {
    Frame {
        address: Some(address),
        at: IpPosition::Instruction,
        relative: false,
        symbol: None,
        dso: None,
        place,
        around: ("", ""),
        offset: false,
    }
}

/// Copies a line of any text, with ` <Name+0x12>` after each address.
pub(super) fn rewrite(engine: &mut Engine<'_>, line: &[u8], out: &mut Vec<u8>) {
    let mut copied = 0;
    let mut at = 0;
    while let Some(&byte) = line.get(at) {
        if !scan::is_word(byte) {
            at += 1;
            continue;
        }
        let word = line.get(at..).unwrap_or_default();
        let end = at + word.iter().take_while(|&&b| scan::is_word(b)).count();
        if let Some(address) = address(line, at..end)
            && !line.get(end..).is_some_and(|rest| rest.starts_with(b" <"))
            && let Some(named) = engine.frame(&frame(address, at..end))
        {
            out.extend_from_slice(line.get(copied..end).unwrap_or_default());
            out.extend_from_slice(b" <");
            named.write(out, true);
            out.push(b'>');
            copied = end;
        }
        at = end;
    }
    out.extend_from_slice(line.get(copied..).unwrap_or_default());
}

/// Parses a word as an address: `0x` and 8 to 16 digits, or 12 or 16 bare digits not
/// joined by a dash (as in a UUID or in /proc/PID/maps).
fn address(line: &[u8], word: Range<usize>) -> Option<u64> {
    let len = word.end - word.start;
    if let Some((value, end)) = scan::hex0x(line, word.start) {
        return (end == word.end && (10..=18).contains(&len)).then_some(value);
    }
    if len != 12 && len != 16 {
        return None;
    }
    let before = word.start.checked_sub(1).and_then(|i| line.get(i));
    if before == Some(&b'-') || line.get(word.end) == Some(&b'-') {
        return None;
    }
    scan::hex(line, word.start).filter(|&(_, end)| end == word.end).map(|(value, _)| value)
}

/// Parses a line of folded stacks. Returns the end of its frames, and its weight.
pub(super) fn folded(line: &[u8]) -> Option<(usize, u64)> {
    let space = memchr::memrchr(b' ', line)?;
    let (weight, end) = scan::decimal(line, space + 1)?;
    (end == line.len() && memchr::memchr(b';', line.get(..space)?).is_some()).then_some((space, weight))
}

/// Iterates the frames of a folded stack. A frame without a name has its address:
/// `0x7fa50b825b9f`, `0x7fa50b825b9f (rtld.c)`.
pub(super) fn folded_frames(stack: &[u8]) -> impl Iterator<Item = (Range<usize>, Option<(u64, usize)>)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = stack.get(from..).filter(|_| from <= stack.len())?;
        let end = from + memchr::memchr(b';', rest).unwrap_or(rest.len());
        let address = scan::hex0x(stack, from).filter(|&(_, e)| e == end || stack.get(e) == Some(&b' '));
        let range = from..end;
        from = end + 1;
        Some((range, address))
    })
}

/// Copies a line of folded stacks with its addresses named.
pub(super) fn rewrite_folded(engine: &mut Engine<'_>, line: &[u8], out: &mut Vec<u8>) {
    let Some((end, _)) = folded(line) else {
        out.extend_from_slice(line);
        return;
    };
    let mut copied = 0;
    for (range, address) in folded_frames(line.get(..end).unwrap_or_default()) {
        let Some((address, stop)) = address else { continue };
        if let Some(named) = engine.frame(&frame(address, range.start..stop)) {
            out.extend_from_slice(line.get(copied..range.start).unwrap_or_default());
            named.write(out, false);
            copied = stop;
        }
    }
    out.extend_from_slice(line.get(copied..).unwrap_or_default());
}
