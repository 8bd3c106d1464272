//! Writes the stacks of a text as folded stacks.

use std::collections::HashMap;
use std::io::{BufRead, Cursor, Read, Write};

use crate::limits;
use crate::symbolicate::engine::Engine;
use crate::symbolicate::event::{Event, Frame, Start};
use crate::symbolicate::lines::{Lines, TextLine};
use crate::symbolicate::{Cost, Format, Kind, Mapping, Namer, Options, Summary, SymbolicateError, detect, plain, scan};

pub(super) fn run(
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    namer: &dyn Namer,
    mappings: &[Mapping],
    options: &Options,
) -> Result<Summary, SymbolicateError> {
    let (head, format, engine) = detect::open(input, namer, mappings, options)?;
    let mut syntax = detect::syntax(format);
    if syntax.is_none() && format != Format::Folded {
        return Err(SymbolicateError::NoStacks);
    }
    let mut folder = Folder::new(engine, options.cost, format == Format::Perf);
    let mut text = Lines::new(Cursor::new(head).chain(input));
    let (mut count, mut long) = (0, 0);
    while let Some(piece) = text.next().map_err(SymbolicateError::Read)? {
        match piece {
            TextLine::Line(line) => {
                count += 1;
                let line = scan::split_end(line).0;
                match &mut syntax {
                    Some(syntax) => folder.event(syntax.read(line)),
                    None => folder.folded(line),
                }
            }
            TextLine::Long { first, .. } => {
                count += u64::from(first);
                long += u64::from(first);
            }
        }
    }
    folder.flush();
    let stacks = folder.finish();
    if stacks.is_empty() {
        let no_cost = format == Format::Heaptrack;
        return Err(if no_cost { SymbolicateError::NoCost } else { SymbolicateError::NoStacks });
    }
    for (stack, weight) in &stacks {
        output.write_all(stack).map_err(SymbolicateError::Write)?;
        writeln!(output, " {weight}").map_err(SymbolicateError::Write)?;
    }
    output.flush().map_err(SymbolicateError::Write)?;
    let summary = folder.engine.finish(format);
    Ok(Summary { lines: count, long_lines: long, stacks: stacks.len() as u64, dropped: folder.dropped, ..summary })
}

type Table = HashMap<Box<[u32]>, u64>;

struct Folder<'a> {
    engine: Engine<'a>,
    cost: Cost,
    /// Whether stacks may start without a header (perf's `-F ip,sym`).
    headless: bool,
    ids: HashMap<Vec<u8>, u32>,
    kept: usize,
    table: Table,
    /// memleak: the list before this one. gdb: stacks without a thread.
    other: Table,
    held: usize,
    dropped: u64,
    /// The current stack, innermost first.
    stack: Vec<u32>,
    label: Option<u32>,
    weight: u64,
    open: bool,
    loose: bool,
    /// heaptrack: the command, which labels all stacks.
    command: Option<u32>,
    /// heaptrack: the innermost frames, and their weight if no stacks follow.
    top: Vec<u32>,
    top_weight: Option<u64>,
    in_top: bool,
    /// Whether the last frame has no name. A file on the next line may replace it.
    unnamed: bool,
}

impl<'a> Folder<'a> {
    fn new(engine: Engine<'a>, cost: Cost, headless: bool) -> Folder<'a> {
        Folder {
            engine,
            cost,
            headless,
            ids: HashMap::new(),
            kept: 0,
            table: Table::new(),
            other: Table::new(),
            held: 0,
            dropped: 0,
            stack: Vec::new(),
            label: None,
            weight: 0,
            open: false,
            loose: false,
            command: None,
            top: Vec::new(),
            top_weight: None,
            in_top: false,
            unnamed: false,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Other | Event::Block(..) => {}
            Event::Start(start) => self.start(&start),
            Event::First(start, frame) => {
                // gdb's frame 0 continues the stack of the preceding thread header.
                if start.loose || !self.open || !self.stack.is_empty() || start.label.is_some() {
                    self.start(&start);
                }
                self.frame(&frame);
            }
            Event::Frame(frame) => self.frame(&frame),
            Event::Module(module, _) => {
                self.engine.module(module);
                self.name_last(module);
            }
            Event::Top(start) => {
                self.flush();
                self.top.clear();
                self.in_top = start.cost == Some(self.cost);
                self.top_weight = self.in_top.then_some(start.weight);
            }
            Event::Rest(weight) => {
                self.flush();
                if !self.top.is_empty() {
                    self.stack.clone_from(&self.top);
                    let id = self.id(b"[other places]");
                    self.stack.extend(id);
                    (self.weight, self.open, self.label) = (weight, true, self.command);
                    self.flush();
                }
            }
            Event::Command(path) => self.command = self.id(scan::file_name(path)),
            Event::End => {
                self.flush();
                self.top.clear();
            }
            Event::List => {
                self.flush();
                if !self.table.is_empty() {
                    self.other = std::mem::take(&mut self.table);
                    self.held = self.other.keys().map(|k| k.len()).sum::<usize>();
                }
            }
            Event::Mapping(mapping) => self.engine.mapping(&mapping),
        }
    }

    fn start(&mut self, start: &Start<'_>) {
        if self.in_top {
            // The stacks below share these frames.
            self.in_top = false;
            self.top_weight = None;
        }
        self.flush();
        self.engine.start(start);
        if self.engine.foreign() || start.cost.is_some_and(|c| c != self.cost) {
            return;
        }
        self.stack.clone_from(&self.top);
        self.label = match start.label {
            Some(label) => {
                let label: Vec<u8> = label.iter().map(|&b| if b == b' ' { b'_' } else { b }).collect();
                self.id(&label)
            }
            None => self.command,
        };
        (self.weight, self.open, self.loose) = (start.weight, true, start.loose);
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        let named = self.engine.frame(frame);
        let named = named.filter(|n| frame.symbol.is_none() || n.name.kind == Kind::Managed);
        let file = frame.dso.map(scan::file_name);
        self.unnamed = named.is_none() && frame.symbol.is_none() && file.is_none();
        if !self.open && self.headless && !self.engine.foreign() {
            (self.weight, self.open) = (1, true);
        }
        if !self.open && !self.in_top {
            return;
        }
        if let Some(named) = &named {
            let inlined: Vec<u32> = named.name.inlined.iter().filter_map(|i| self.id(i.symbol.as_bytes())).collect();
            let stack = if self.in_top { &mut self.top } else { &mut self.stack };
            let room = limits::MAX_TEXT_DEPTH.saturating_sub(stack.len());
            stack.extend(inlined.into_iter().take(room));
        }
        let id = match (named, frame.symbol, file) {
            (Some(named), ..) => self.id(named.name.text.as_bytes()),
            (None, Some(symbol), _) => self.id(symbol),
            (None, None, Some(file)) => self.id(&bracketed(file)),
            (None, None, None) => self.id(b"[unknown]"),
        };
        let stack = if self.in_top { &mut self.top } else { &mut self.stack };
        if stack.len() < limits::MAX_TEXT_DEPTH {
            stack.extend(id);
        }
    }

    fn name_last(&mut self, module: &[u8]) {
        if !std::mem::take(&mut self.unnamed) || module == b"??" || !(self.open || self.in_top) {
            return;
        }
        let id = self.id(&bracketed(scan::file_name(module)));
        let stack = if self.in_top { &mut self.top } else { &mut self.stack };
        if let (Some(last), Some(id)) = (stack.last_mut(), id) {
            *last = id;
        }
    }

    /// Adds a line that is already folded. Names may make stacks equal.
    fn folded(&mut self, line: &[u8]) {
        let Some((end, weight)) = plain::folded(line) else { return };
        let text = line.get(..end).unwrap_or_default();
        for (range, address) in plain::folded_frames(text) {
            let frame = text.get(range.clone()).unwrap_or_default();
            if frame.is_empty() {
                continue;
            }
            let named = address.and_then(|(a, stop)| {
                let named = self.engine.frame(&plain::frame(a, range.start..stop))?;
                let mut name = named.name.text.clone().into_bytes();
                name.extend_from_slice(text.get(stop..range.end).unwrap_or_default());
                Some((name, named.name))
            });
            let id = self.id(named.as_ref().map_or(frame, |(name, _)| name));
            self.stack.extend(id);
            // The outermost frame is first in this line.
            for inlined in named.iter().flat_map(|(_, name)| name.inlined.iter().rev()) {
                let id = self.id(inlined.symbol.as_bytes());
                self.stack.extend(id);
            }
        }
        self.stack.reverse();
        (self.weight, self.open) = (weight, true);
        self.flush();
    }

    /// Returns the number of a frame's name, which is made safe for a folded line.
    fn id(&mut self, name: &[u8]) -> Option<u32> {
        let safe = |b: u8| !matches!(b, b';' | 0..0x20 | 0x7f);
        let clean: Vec<u8>;
        let name = if name.iter().all(|&b| safe(b)) {
            name
        } else {
            clean = name.iter().map(|&b| if safe(b) { b } else { b':' }).collect();
            &clean
        };
        if let Some(&id) = self.ids.get(name) {
            return Some(id);
        }
        if self.kept.saturating_add(name.len()) > limits::MAX_TEXT_NAMES {
            return None;
        }
        self.kept += name.len() + size_of::<(Vec<u8>, u32)>();
        let id = u32::try_from(self.ids.len()).ok()?;
        self.ids.insert(name.to_vec(), id);
        Some(id)
    }

    /// Completes the current stack.
    fn flush(&mut self) {
        if self.in_top
            && let Some(weight) = self.top_weight.take()
        {
            // No stacks follow, because of heaptrack's options.
            self.in_top = false;
            self.stack = std::mem::take(&mut self.top);
            (self.weight, self.open, self.label) = (weight, true, self.command);
        }
        if !std::mem::take(&mut self.open) {
            self.stack.clear();
            return;
        }
        let mut key = std::mem::take(&mut self.stack);
        if key.is_empty() {
            return;
        }
        key.extend(self.label.take());
        key.reverse();
        let table = if self.loose { &mut self.other } else { &mut self.table };
        self.loose = false;
        if let Some(sum) = table.get_mut(key.as_slice()) {
            *sum = sum.saturating_add(self.weight);
        } else if self.held.saturating_add(key.len()) <= limits::MAX_FOLDED_FRAMES {
            self.held += key.len();
            table.insert(key.into_boxed_slice(), self.weight);
        } else {
            self.dropped = self.dropped.saturating_add(self.weight);
        }
    }

    fn finish(&mut self) -> Vec<(Vec<u8>, u64)> {
        let table = std::mem::take(if self.table.is_empty() { &mut self.other } else { &mut self.table });
        let mut names: Vec<&[u8]> = vec![b""; self.ids.len()];
        for (name, &id) in &self.ids {
            if let Some(slot) = names.get_mut(id as usize) {
                *slot = name;
            }
        }
        let text = |stack: &[u32]| -> Vec<u8> {
            let parts: Vec<&[u8]> = stack.iter().filter_map(|&id| names.get(id as usize).copied()).collect();
            parts.join(&b';')
        };
        let mut out: Vec<(Vec<u8>, u64)> = table.iter().map(|(stack, &weight)| (text(stack), weight)).collect();
        out.sort_unstable();
        out
    }
}

/// Returns `[libcoreclr.so]`. A name in brackets stays as it is.
fn bracketed(file: &[u8]) -> Vec<u8> {
    if file.starts_with(b"[") {
        return file.to_vec();
    }
    [b"[", file, b"]"].concat()
}
