//! Functions of a Go program, by address (pclntab).
//!
//! Source: runtime/symtab.go, `findfunc`, `funcInfo`, `funcline1`, `inlineUnwinder`. The rows of the function table are
//! sorted by address. Each row leads to a `_func`. After the `_func` are offsets of tables that map code addresses to
//! values.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::pcvalue::value_at;
use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::runtime::{Found, Runtime};
use crate::runtimes::go::shape::{FuncShape, InlineShape};
use crate::targets::reads::Script;

/// Offsets in `_func` that all versions share.
const NAME: u64 = 4;
const PCSP: u64 = 16;
const PCFILE: u64 = 20;
const PCLN: u64 = 24;

/// Indices into the two lists after a `_func`: PCDATA has the inlined call at each address, FUNCDATA has the tree of
/// these calls.
const PCDATA_INL_TREE_INDEX: usize = 2;
const FUNCDATA_INL_TREE: usize = 3;

/// Offset that means the function has no such table.
const NONE: u32 = u32::MAX;

/// Bit of `_func.flag`: the outermost function of a stack.
const TOP_FRAME: u8 = 1;

/// A function.
#[derive(Clone, Debug)]
pub(in crate::runtimes::go) struct Func {
    pub(in crate::runtimes::go) name: Arc<str>,
    pub(in crate::runtimes::go) range: AddrRange,
    pub(in crate::runtimes::go) id: u8,
    flag: u8,
    pcsp: u32,
    pcfile: u32,
    pcln: u32,
    cu: u32,
    inline_index: u32,
    inline_tree: u32,
}

impl Func {
    /// Whether the function is the outermost one of its stacks.
    pub(in crate::runtimes::go) fn is_top(&self) -> bool {
        self.flag & TOP_FRAME != 0
    }
}

/// A position in the source, in a function that may be inlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtimes::go) struct Line {
    pub(in crate::runtimes::go) function: Arc<str>,
    pub(in crate::runtimes::go) id: u8,
    pub(in crate::runtimes::go) file: Option<Arc<str>>,
    pub(in crate::runtimes::go) line: Option<u32>,
}

/// The functions of a program.
pub(in crate::runtimes::go) struct Functions<'p> {
    memory: &'p dyn Memory,
    found: Found,
    gofunc: Addr,
    shape: FuncShape,
    inline: InlineShape,
    /// Offsets of the entries in the text, sorted, each with the offset of its `_func`.
    rows: Vec<(u32, u32)>,
    pctab: Vec<u8>,
    known: Mutex<HashMap<usize, Option<Arc<Func>>>>,
    texts: Mutex<HashMap<Addr, Option<Arc<str>>>>,
}

impl<'p> Functions<'p> {
    /// Reads the tables. `None` if they are not in memory: they may be in a file that is missing.
    pub(in crate::runtimes::go) fn read(runtime: &Runtime<'p>) -> Option<Functions<'p>> {
        let (memory, found) = (runtime.memory(), runtime.found);
        let count = found.rows.min(limits::MAX_GO_FUNCTIONS);
        let table = Record::read(memory, found.pclntable, count.checked_mul(8)?)?;
        let rows: Vec<(u32, u32)> = table.bytes().as_chunks::<8>().0.iter().map(|row| split(*row)).collect();
        // Binary search needs sorted rows. A damaged table may have others.
        if !rows.is_sorted_by_key(|row| row.0) {
            return None;
        }
        let size = found.pclntable.checked_since(found.pctab)?.min(limits::MAX_GO_PCTAB);
        let pctab = Record::read(memory, found.pctab, size)?.bytes().to_vec();
        let (shape, inline) = (runtime.shape().func, runtime.shape().inline);
        let gofunc = runtime.proof.sections.gofunc;
        let (known, texts) = Default::default();
        Some(Functions { memory, found, gofunc, shape, inline, rows, pctab, known, texts })
    }

    /// Number of functions.
    pub(in crate::runtimes::go) fn len(&self) -> usize {
        self.rows.len().saturating_sub(1)
    }

    /// The function that contains an address.
    pub(in crate::runtimes::go) fn at(&self, pc: Addr) -> Option<Arc<Func>> {
        if !self.found.text.contains(pc) {
            return None;
        }
        let offset = u32::try_from(pc.since(self.found.text.start)).ok()?;
        let index = self.rows.partition_point(|row| row.0 <= offset).checked_sub(1)?;
        (index < self.len()).then(|| self.get(index))?
    }

    /// The function with this index.
    pub(in crate::runtimes::go) fn get(&self, index: usize) -> Option<Arc<Func>> {
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = known.get(&index) {
                return found.clone();
            }
        }
        let found = self.read_func(index).map(Arc::new);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(index, found.clone());
        found
    }

    fn read_func(&self, index: usize) -> Option<Func> {
        let (entry, offset) = *self.rows.get(index)?;
        let (end, _) = *self.rows.get(index.checked_add(1)?)?;
        let at = self.found.pclntable.checked_add(u64::from(offset))?;
        let shape = &self.shape;
        let head = Record::read(self.memory, at, shape.size)?;
        // Each function's head repeats its entry.
        if head.u32(0) != entry {
            return None;
        }
        let (npcdata, nfuncdata) = (u64::from(head.u32(shape.npcdata)), u64::from(head.u8(shape.nfuncdata)));
        let lists = npcdata.checked_add(nfuncdata).filter(|n| *n <= limits::MAX_GO_FUNCDATA)?;
        let lists = Record::read(self.memory, at.checked_add(shape.size)?, 4 * lists)?;
        let listed = |present: bool, i: u64| if present { lists.u32(4 * i) } else { NONE };
        let index_of = PCDATA_INL_TREE_INDEX as u64;
        let tree = FUNCDATA_INL_TREE as u64;
        let start = self.found.text.start;
        let name = self.found.funcnametab.checked_add(u64::from(head.u32(NAME)))?;
        Some(Func {
            name: self.text(name)?,
            range: AddrRange::new(start.checked_add(u64::from(entry))?, start.checked_add(u64::from(end))?),
            id: head.u8(shape.func_id),
            flag: head.u8(shape.flag),
            pcsp: head.u32(PCSP),
            pcfile: head.u32(PCFILE),
            pcln: head.u32(PCLN),
            cu: head.u32(shape.cu_offset),
            inline_index: listed(npcdata > index_of, index_of),
            inline_tree: listed(nfuncdata > tree, npcdata + tree),
        })
    }

    /// Returns the zero-terminated text at an address.
    fn text(&self, at: Addr) -> Option<Arc<str>> {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = texts.get(&at) {
            return found.clone();
        }
        let have = self.memory.readable(at, limits::MAX_GO_NAME as u64) as usize;
        let found = self.memory.look(at, have).ok().and_then(|bytes| {
            let bytes = crate::bytes::until_nul(&bytes);
            self.memory.keep_name(at, bytes.len() as u64 + 1, Script::Utf8);
            std::str::from_utf8(bytes).ok().map(Arc::from)
        });
        texts.insert(at, found.clone());
        found
    }

    fn value(&self, func: &Func, table: u32, pc: Addr) -> Option<i32> {
        value_at(&self.pctab, table, pc.checked_since(func.range.start)?, self.found.quantum)
    }

    /// Distance in bytes from the stack pointer to the return address, with the instruction pointer at `pc`.
    pub(in crate::runtimes::go) fn frame_size(&self, func: &Func, pc: Addr) -> Option<u64> {
        self.value(func, func.pcsp, pc).and_then(|size| u64::try_from(size).ok())
    }

    /// Returns the functions at `pc`, innermost first: the inlined ones, then the function itself. `pc` is within the
    /// instruction. For a call, that is the byte before the return address.
    pub(in crate::runtimes::go) fn lines(&self, func: &Func, pc: Addr) -> Vec<Line> {
        let mut out = Vec::new();
        let mut at = pc;
        for _ in 0..limits::MAX_GO_INLINED {
            let (file, line) = (self.file(func, at), self.value(func, func.pcln, at));
            let line = line.and_then(|line| u32::try_from(line).ok());
            let own = |file, line| Line { function: func.name.clone(), id: func.id, file, line };
            let Some(index) = self.inline_index(func, at) else {
                out.push(own(file, line));
                return out;
            };
            // If the tree is in a missing file, neither the inlined function nor the line of its call is known.
            let Some((name, id, parent)) = self.inlined(func, index) else {
                out.push(own(None, None));
                return out;
            };
            out.push(Line { function: name, id, file, line });
            let Some(parent) = func.range.start.checked_add(u64::from(parent)) else { break };
            at = parent;
        }
        out
    }

    /// Index of the inlined call at `pc` in the function's tree. `None` if none was inlined there.
    fn inline_index(&self, func: &Func, pc: Addr) -> Option<u64> {
        if func.inline_tree == NONE || func.inline_index == NONE {
            return None;
        }
        u64::try_from(self.value(func, func.inline_index, pc)?).ok()
    }

    /// An inlined call: name and kind of the function, and offset of the call in the outer function.
    fn inlined(&self, func: &Func, index: u64) -> Option<(Arc<str>, u8, u32)> {
        let tree = self.gofunc.checked_add(u64::from(func.inline_tree))?;
        let at = tree.checked_add(index.checked_mul(self.inline.size)?)?;
        let row = Record::read(self.memory, at, self.inline.size)?;
        let name = self.found.funcnametab.checked_add(u64::from(row.u32(self.inline.name)))?;
        Some((self.text(name)?, row.u8(self.inline.func_id), row.u32(self.inline.parent_pc)))
    }

    fn file(&self, func: &Func, pc: Addr) -> Option<Arc<str>> {
        let number = u64::try_from(self.value(func, func.pcfile, pc)?).ok()?;
        let at = self.found.cutab.checked_add(u64::from(func.cu).checked_add(number)?.checked_mul(4)?)?;
        let offset = self.memory.u32(at).ok().filter(|offset| *offset != NONE)?;
        self.text(self.found.filetab.checked_add(u64::from(offset))?)
    }
}

/// The two numbers of a row.
fn split(row: [u8; 8]) -> (u32, u32) {
    let word = u64::from_le_bytes(row);
    (word as u32, (word >> 32) as u32)
}
