//! Detects which tool wrote a text, from its first lines.

use std::io::BufRead;

use crate::symbolicate::event::{Event, Syntax};
use crate::symbolicate::gdb::{self, Gdb};
use crate::symbolicate::heaptrack::{self, Heaptrack};
use crate::symbolicate::memleak::{self, Memleak};
use crate::symbolicate::perf::{self, Perf};
use crate::symbolicate::{Format, Mapping, Namer, Options, SymbolicateError, engine::Engine, lines, plain, scan};

fn lines_of(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split_inclusive(|b| *b == b'\n').map(|l| scan::split_end(l).0)
}

/// Reads a text's head from `input`. Returns the head, the format, and an engine that has
/// learnt from the head whether perf's numbers are offsets.
pub(super) fn open<'a>(
    input: &mut dyn BufRead,
    namer: &'a dyn Namer,
    mappings: &'a [Mapping],
    options: &Options,
) -> Result<(Vec<u8>, Format, Engine<'a>), SymbolicateError> {
    let head = lines::probe(input).map_err(SymbolicateError::Read)?;
    let format = options.format.unwrap_or_else(|| format(&head));
    let mut engine = Engine::new(namer, mappings, options);
    if format == Format::Perf {
        learn(&mut engine, &head);
    }
    Ok((head, format, engine))
}

/// Returns the tool that has most lines of its own, or `Plain` if none has. Lines that may belong to a tool or to other
/// text do not count. The difference matters: names replace parts of a tool's line, but are added to other text.
fn format(head: &[u8]) -> Format {
    let mut votes =
        [(Format::Perf, 0usize), (Format::Heaptrack, 0), (Format::Memleak, 0), (Format::Gdb, 0), (Format::Folded, 0)];
    let mut all = 0;
    for line in lines_of(head).filter(|l| !l.trim_ascii().is_empty()) {
        all += 1;
        if let Some(format) = of_line(line)
            && let Some(vote) = votes.iter_mut().find(|v| v.0 == format)
        {
            vote.1 += 1;
        }
    }
    match votes.iter().rev().max_by_key(|v| v.1) {
        Some(&(Format::Folded, n)) if n <= all / 2 => Format::Plain,
        Some(&(format, n)) if n > 0 => format,
        _ => Format::Plain,
    }
}

fn of_line(line: &[u8]) -> Option<Format> {
    let body = line.trim_ascii();
    if memleak::stack(body).is_some() || memleak::numbered(line).is_some() {
        return Some(Format::Memleak);
    }
    if body == b"in ??" || heaptrack::cost_line(body).is_some() {
        return Some(Format::Heaptrack);
    }
    if let Some((_, frame, _)) = gdb::frame(line) {
        let source = memchr::memmem::find(line, b") at ").is_some();
        return (frame.address.is_some() || source).then_some(Format::Gdb);
    }
    if memchr::memmem::find(line, b": PERF_RECORD_").is_some() {
        return Some(Format::Perf);
    }
    if let Some((frame, _)) = perf::frame(line) {
        let file = frame.dso.is_some_and(|d| matches!(d.first(), Some(b'/' | b'[')));
        // A tab, and an address of 16 columns.
        let aligned = line.first() == Some(&b'\t') && matches!(line.get(17), None | Some(b' ')) && line.len() > 16;
        return (file || aligned).then_some(Format::Perf);
    }
    if matches!(Perf::default().read(line), Event::First(_, f) if f.dso.is_some_and(|d| matches!(d.first(), Some(b'/' | b'['))))
    {
        return Some(Format::Perf);
    }
    plain::folded(line).map(|_| Format::Folded)
}

/// Returns the reader of a format. `None` if the format is no list of stacks.
pub(super) fn syntax(format: Format) -> Option<Box<dyn Syntax>> {
    Some(match format {
        Format::Perf => Box::<Perf>::default(),
        Format::Heaptrack => Box::<Heaptrack>::default(),
        Format::Memleak => Box::<Memleak>::default(),
        Format::Gdb => Box::<Gdb>::default(),
        Format::Folded | Format::Plain => return None,
    })
}

/// Lets the engine learn from the frames in perf's head.
fn learn(engine: &mut Engine<'_>, head: &[u8]) {
    engine.learn(lines_of(head).filter_map(|line| {
        let (frame, inlined) = perf::frame(line)?;
        (!inlined).then_some((frame.address?, frame.dso?))
    }));
}
