//! Copies a text with names in it.

use std::io::{BufRead, Cursor, Read, Write};

use crate::symbolicate::engine::Engine;
use crate::symbolicate::event::{Event, Frame, Syntax};
use crate::symbolicate::lines::{Lines, TextLine};
use crate::symbolicate::{Format, Kind, Mapping, Namer, Options, Summary, SymbolicateError, detect, plain, scan};

/// Bytes of output that are written at once.
const BUFFER: usize = 64 << 10;

pub(super) fn run(
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    namer: &dyn Namer,
    mappings: &[Mapping],
    options: &Options,
) -> Result<Summary, SymbolicateError> {
    let (head, format, engine) = detect::open(input, namer, mappings, options)?;
    let mut rewriter = Rewriter::new(engine, format);
    let mut text = Lines::new(Cursor::new(head).chain(input));
    let mut out = Vec::with_capacity(2 * BUFFER);
    let (mut count, mut long) = (0, 0);
    while let Some(piece) = text.next().map_err(SymbolicateError::Read)? {
        match piece {
            TextLine::Line(line) => {
                count += 1;
                rewriter.line(line, &mut out);
            }
            TextLine::Long { bytes, first } => {
                count += u64::from(first);
                long += u64::from(first);
                out.extend_from_slice(bytes);
            }
        }
        if out.len() >= BUFFER {
            output.write_all(&out).map_err(SymbolicateError::Write)?;
            out.clear();
        }
    }
    output.write_all(&out).map_err(SymbolicateError::Write)?;
    output.flush().map_err(SymbolicateError::Write)?;
    Ok(Summary { lines: count, long_lines: long, ..rewriter.engine.finish(format) })
}

struct Rewriter<'a> {
    engine: Engine<'a>,
    format: Format,
    syntax: Option<Box<dyn Syntax>>,
    /// Module of the last named frame, for heaptrack's `in ??`.
    module: Option<String>,
}

impl<'a> Rewriter<'a> {
    fn new(engine: Engine<'a>, format: Format) -> Rewriter<'a> {
        Rewriter { engine, format, syntax: detect::syntax(format), module: None }
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let (text, end) = scan::split_end(line);
        match self.syntax.as_mut().map(|s| s.read(text)) {
            None if self.format == Format::Folded => plain::rewrite_folded(&mut self.engine, text, out),
            None => plain::rewrite(&mut self.engine, text, out),
            Some(event) => self.event(event, text, out),
        }
        out.extend_from_slice(end);
    }

    fn event(&mut self, event: Event<'_>, text: &[u8], out: &mut Vec<u8>) {
        match event {
            Event::Start(start) | Event::Top(start) => self.engine.start(&start),
            Event::Mapping(mapping) => self.engine.mapping(&mapping),
            Event::First(start, frame) => {
                self.engine.start(&start);
                return self.frame(&frame, text, out);
            }
            Event::Frame(frame) => return self.frame(&frame, text, out),
            Event::Module(module, place) => {
                self.engine.module(module);
                if let (Some(place), Some(name)) = (place, self.module.take()) {
                    out.extend_from_slice(text.get(..place.start).unwrap_or_default());
                    out.extend_from_slice(name.as_bytes());
                    out.extend_from_slice(text.get(place.end..).unwrap_or_default());
                    return;
                }
            }
            Event::Block(address, size) => {
                let owner = self.engine.block(address, size);
                out.extend_from_slice(text);
                if let Some(owner) = owner {
                    out.extend_from_slice(format!(" <{owner}>").as_bytes());
                }
                return;
            }
            Event::Other | Event::Rest(_) | Event::Command(_) | Event::End | Event::List => {}
        }
        out.extend_from_slice(text);
    }

    fn frame(&mut self, frame: &Frame<'_>, text: &[u8], out: &mut Vec<u8>) {
        self.module = None;
        let named = self.engine.frame(frame);
        // A tool's name for native code is as good as the namer's.
        let Some(named) = named.filter(|n| frame.symbol.is_none() || n.name.kind == Kind::Managed) else {
            out.extend_from_slice(text);
            return;
        };
        out.extend_from_slice(text.get(..frame.place.start).unwrap_or_default());
        out.extend_from_slice(frame.around.0.as_bytes());
        named.write(out, frame.offset);
        out.extend_from_slice(frame.around.1.as_bytes());
        out.extend_from_slice(text.get(frame.place.end..).unwrap_or_default());
        self.module = named.name.module.clone();
    }
}
