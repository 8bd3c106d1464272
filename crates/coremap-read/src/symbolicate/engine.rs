//! The addresses of a text: each is resolved once, named once, and counted every time.

use std::collections::HashMap;
use std::rc::Rc;

use crate::addr::Addr;
use crate::bytes::printable;
use crate::limits;
use crate::symbolicate::event::{Frame, IpPosition, Start, TextMapping};
use crate::symbolicate::mappings::FileMappings;
use crate::symbolicate::{BlockRow, Format, FrameRow, Inlined, Kind, Mapping, Namer, Options, Summary};

/// A name that is safe in a line of folded stacks.
pub(super) struct Name {
    pub(super) text: String,
    pub(super) offset: Option<u64>,
    pub(super) kind: Kind,
    pub(super) module: Option<String>,
    pub(super) inlined: Vec<Inlined>,
    line: Option<u32>,
    note: Option<&'static str>,
}

/// The name of a frame.
pub(super) struct Named {
    pub(super) name: Rc<Name>,
    /// Bytes from the function's start to the printed address. `None` if unknown.
    pub(super) offset: Option<u64>,
}

impl Named {
    /// Writes the name, with the offset if `offset` is true.
    pub(super) fn write(&self, out: &mut Vec<u8>, offset: bool) {
        for inlined in &self.name.inlined {
            let line = inlined.line.map(|line| format!(":{line}")).unwrap_or_default();
            out.extend_from_slice(format!("{}{line} <- ", inlined.symbol).as_bytes());
        }
        out.extend_from_slice(self.name.text.as_bytes());
        if let Some(n) = self.offset.filter(|_| offset) {
            out.extend_from_slice(format!("+0x{n:x}").as_bytes());
        }
    }
}

struct AddressRow {
    printed: u64,
    dso: Option<Rc<[u8]>>,
    resolved: Option<Addr>,
    note: Option<&'static str>,
    generation: u64,
    count: u64,
    symbol: Option<String>,
    module: Option<String>,
    name: Option<Rc<Name>>,
}

/// Resolves, names and counts addresses.
pub(super) struct Engine<'a> {
    namer: &'a dyn Namer,
    mappings: FileMappings,
    pid: Option<u64>,
    /// Whether the current frames are of another process.
    foreign: bool,
    names: HashMap<Addr, Option<Rc<Name>>>,
    dsos: HashMap<Rc<[u8]>, u32>,
    index: HashMap<(u64, u32), usize>,
    rows: Vec<AddressRow>,
    blocks: HashMap<Addr, usize>,
    block_rows: Vec<BlockRow>,
    last: Option<usize>,
    kept: usize,
    addresses: u64,
    named: u64,
    unlisted: u64,
}

/// The lowest address that Linux maps by default (vm.mmap_min_addr).
const LOWEST: Addr = Addr::new(0x1000);

impl<'a> Engine<'a> {
    /// Creates an engine that has read nothing yet.
    pub(super) fn new(namer: &'a dyn Namer, mappings: &[Mapping], options: &Options) -> Engine<'a> {
        Engine {
            namer,
            mappings: FileMappings::new(mappings),
            pid: options.pid.map(u64::from),
            foreign: false,
            names: HashMap::new(),
            dsos: HashMap::new(),
            index: HashMap::new(),
            rows: Vec::new(),
            blocks: HashMap::new(),
            block_rows: Vec::new(),
            last: None,
            kept: 0,
            addresses: 0,
            named: 0,
            unlisted: 0,
        }
    }

    /// Learns from the head of a text whether its numbers are offsets or addresses.
    pub(super) fn learn<'t>(&mut self, frames: impl Iterator<Item = (u64, &'t [u8])>) {
        self.mappings.learn(frames);
    }

    pub(super) fn start(&mut self, start: &Start<'_>) {
        self.foreign = self.is_foreign(start.pid);
    }

    /// Whether the current stack is of another process than the requested one.
    pub(super) fn foreign(&self) -> bool {
        self.foreign
    }

    fn is_foreign(&self, pid: Option<u64>) -> bool {
        matches!((self.pid, pid), (Some(ours), Some(theirs)) if ours != theirs)
    }

    /// Adds a mapping that the text lists.
    pub(super) fn mapping(&mut self, mapping: &TextMapping<'_>) {
        if !self.is_foreign(mapping.pid) {
            self.mappings.add(mapping);
        }
    }

    /// Records a block that was not freed. Returns its owner, if known. memleak lists a block again each time.
    pub(super) fn block(&mut self, address: u64, size: Option<u64>) -> Option<&str> {
        let address = Addr::new(address);
        let next = self.block_rows.len();
        let at = match self.blocks.get(&address) {
            Some(&at) => at,
            None if next >= limits::MAX_TEXT_ADDRESSES => return None,
            None => {
                let owner = self.namer.owner(address).map(|owner| safe(&owner));
                self.block_rows.push(BlockRow { address, size, owner });
                self.blocks.insert(address, next);
                next
            }
        };
        self.block_rows.get(at)?.owner.as_deref()
    }

    /// Counts a frame, and names it.
    pub(super) fn frame(&mut self, frame: &Frame<'_>) -> Option<Named> {
        self.last = None;
        let printed = frame.address.filter(|_| !self.foreign)?;
        self.addresses += 1;
        let row = self.row(printed, frame);
        let resolved = match row.and_then(|i| self.rows.get(i)) {
            Some(row) => row.resolved,
            None => self.resolve(printed, frame).0,
        };
        let back = u64::from(frame.at == IpPosition::AfterCall);
        let ip = resolved.filter(|a| *a >= LOWEST)?.saturating_sub(back);
        let name = self.name(ip)?;
        self.named += 1;
        if let Some(row) = row.and_then(|i| self.rows.get_mut(i))
            && row.name.is_none()
        {
            row.name = Some(name.clone());
        }
        let offset = name.offset.map(|o| o.saturating_add(back));
        Some(Named { name, offset })
    }

    /// Sets the file of the last frame, if the file is on a line of its own.
    pub(super) fn module(&mut self, module: &[u8]) {
        let Some(row) = self.last.and_then(|i| self.rows.get_mut(i)).filter(|r| r.module.is_none()) else { return };
        if module != b"??" && self.kept.saturating_add(module.len()) < limits::MAX_TEXT_NAMES {
            self.kept += module.len();
            row.module = Some(lossy(module));
        }
    }

    fn resolve(&self, printed: u64, frame: &Frame<'_>) -> (Option<Addr>, Option<&'static str>) {
        if frame.relative { self.mappings.resolve(printed, frame.dso) } else { (Some(Addr::new(printed)), None) }
    }

    /// Returns the row of an address. Resolves it again if the text has listed mappings since.
    fn row(&mut self, printed: u64, frame: &Frame<'_>) -> Option<usize> {
        let generation = self.mappings.generation();
        let dso = self.dso(frame.dso)?;
        let found = self.index.get(&(printed, dso)).copied();
        if let Some(i) = found {
            let stale = self.rows.get(i).is_some_and(|r| frame.relative && r.generation != generation);
            let anew = stale.then(|| self.resolve(printed, frame));
            let row = self.rows.get_mut(i)?;
            if let Some((resolved, note)) = anew {
                (row.resolved, row.note, row.generation) = (resolved, note, generation);
            }
            row.count += 1;
            self.last = found;
            return found;
        }
        let symbol = frame.symbol.filter(|s| s.len() <= limits::MAX_NAME);
        let size = symbol.map_or(0, <[u8]>::len);
        if self.rows.len() >= limits::MAX_TEXT_ADDRESSES || self.kept.saturating_add(size) > limits::MAX_TEXT_NAMES {
            self.unlisted += 1;
            return None;
        }
        self.kept += size;
        let (resolved, note) = self.resolve(printed, frame);
        let dso_bytes = frame.dso.and_then(|d| self.dsos.get_key_value(d)).map(|(k, _)| k.clone());
        let i = self.rows.len();
        self.rows.push(AddressRow {
            printed,
            dso: dso_bytes,
            resolved,
            note,
            generation,
            count: 1,
            symbol: symbol.map(lossy),
            module: None,
            name: None,
        });
        self.index.insert((printed, dso), i);
        self.last = Some(i);
        Some(i)
    }

    /// Returns the number of a file. 0 for none.
    fn dso(&mut self, dso: Option<&[u8]>) -> Option<u32> {
        let Some(dso) = dso else { return Some(0) };
        if let Some(&i) = self.dsos.get(dso) {
            return Some(i);
        }
        if self.dsos.len() >= limits::MAX_TEXT_FILES || dso.len() > limits::MAX_NAME {
            self.unlisted += 1;
            return None;
        }
        let i = self.dsos.len() as u32 + 1;
        self.dsos.insert(dso.into(), i);
        Some(i)
    }

    fn name(&mut self, ip: Addr) -> Option<Rc<Name>> {
        if let Some(name) = self.names.get(&ip) {
            return name.clone();
        }
        let name = self.namer.name(ip).map(|r| {
            let inlined = r.inlined.into_iter().map(|i| Inlined { symbol: safe(&i.symbol), ..i }).collect();
            let (text, module) = (safe(&r.symbol), r.module.map(|m| safe(&m)));
            Rc::new(Name { text, offset: r.offset, kind: r.kind, module, inlined, line: r.line, note: r.note })
        });
        if self.names.len() >= limits::MAX_TEXT_ADDRESSES {
            self.names.clear();
        }
        self.names.insert(ip, name.clone());
        name
    }

    /// Returns the results. The caller fills in lines and stacks.
    pub(super) fn finish(self, format: Format) -> Summary {
        let frames = self.rows.into_iter().map(AddressRow::finish).collect();
        Summary {
            format,
            frames,
            blocks: self.block_rows,
            lines: 0,
            long_lines: 0,
            addresses: self.addresses,
            named: self.named,
            unlisted: self.unlisted,
            stacks: 0,
            dropped: 0,
        }
    }
}

impl AddressRow {
    fn finish(self) -> FrameRow {
        let dso = self.dso.map(|d| lossy(&d));
        let module = self.module.or_else(|| dso.clone()).filter(|m| m != "[unknown]" && m != "unknown");
        // Names in a perf map belong to jitted code.
        let jitted = dso.as_ref().is_some_and(|d| d.starts_with("/tmp/perf-"));
        let native = match self.symbol.is_some() {
            true if jitted => Kind::Managed,
            true => Kind::Native,
            false => Kind::Unknown,
        };
        let name = self.name.as_deref();
        let (line, note) = (name.and_then(|n| n.line), self.note.or(name.and_then(|n| n.note)));
        let inlined = name.map(|n| n.inlined.clone()).unwrap_or_default();
        let (symbol, kind, module) = match name {
            Some(n) => (Some(n.text.clone()), n.kind, n.module.clone().or(module)),
            None => (self.symbol, native, module),
        };
        FrameRow {
            printed: self.printed,
            dso,
            resolved: self.resolved,
            symbol,
            kind,
            module,
            count: self.count,
            line,
            inlined,
            note,
        }
    }
}

fn lossy(text: &[u8]) -> String {
    printable(&String::from_utf8_lossy(text)).into_owned()
}

/// Escapes a name, so that it breaks neither a line nor a folded stack.
fn safe(name: &str) -> String {
    printable(name).replace(';', ":")
}
