//! Classes of blocks by their virtual tables or GLib's types, and text in blocks.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::block_graph::{BlockGraph, dyn_tables, gobject};
use crate::memory::{Memory, ProcessMemory};
use crate::native::last_words::class_name;
use crate::runtimes::graph::{GraphError, MemoryBudget};
use crate::session::Session;

/// Class index of slabs. The rest of a slab beside its parts is no block of the program.
const SLAB: u16 = 1;

/// Maximum number of different first words whose class is searched.
const FIRST_WORDS: usize = 1 << 14;

/// Number of bytes of a block that are searched for text, and minimum number of characters of a text.
const SEARCHED: usize = 256;
const TEXT: usize = 6;

/// Maximum length of a text in characters.
const KEPT: usize = 48;

/// Kind of a block, by its first word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Kind {
    /// Index of its class in [`Kinds`] plus one. 0 if it has none.
    pub(super) class: u16,
    /// Whether the block begins with text.
    pub(super) text: bool,
}

/// Kinds of all blocks.
pub(super) struct Kinds {
    /// Names of classes. `None` for slabs, and for an address in a module that is not proven to be a class's table.
    names: Vec<Option<String>>,
    /// Kind of each block.
    of: Vec<Kind>,
}

impl Kinds {
    /// Reads the first word of each block. `rust`: whether the program is written in Rust.
    ///
    /// # Errors
    /// [`GraphError::OutOfTime`]
    pub(super) fn find(
        session: &Session<'_>,
        graph: &BlockGraph<'_>,
        rust: bool,
        budget: &MemoryBudget,
    ) -> Result<Kinds, GraphError> {
        let memory = &session.process.memory;
        let mut modules: Vec<_> = session.process.modules.iter().map(|module| module.range).collect();
        modules.sort_unstable_by_key(|range| range.start);
        let in_module = |at: Addr| {
            let i = modules.partition_point(|range| range.end <= at);
            modules.get(i).is_some_and(|range| range.start <= at)
        };
        let classes = gobject::classes(session, graph, budget)?;
        let mut known: HashMap<u64, u16> = HashMap::new();
        // The first class is that of slabs, which has no name.
        let mut out = Kinds { names: vec![None], of: Vec::with_capacity(graph.len()) };
        for block in 0..graph.len() as u32 {
            budget.in_time_at(block as usize)?;
            let word = memory.peek_u64(graph.start(block)).ok().filter(|_| graph.usable(block) >= 8).unwrap_or(0);
            let table = Addr::new(word);
            let mut kind = Kind::default();
            if graph.slabs.is_slab(block) {
                out.of.push(Kind { class: SLAB, text: false });
                continue;
            }
            let gobject = classes.get(&word);
            if gobject.is_some() || in_module(table) && table.is_aligned(8) {
                let class = known.get(&word).copied().or_else(|| {
                    let class =
                        u16::try_from(out.names.len().saturating_add(1)).ok().filter(|_| known.len() < FIRST_WORDS)?;
                    out.names.push(gobject.map_or_else(|| class_of(session, table), Clone::clone));
                    known.insert(word, class);
                    Some(class)
                });
                kind.class = class.unwrap_or(0);
            } else if is_text(&word.to_le_bytes()) {
                kind.text = graph.edges.of(block).next().is_none_or(|(at, ..)| at > 0);
            }
            out.of.push(kind);
        }
        if rust {
            out.add_types(dyn_tables::types(session, graph, &in_module, budget)?);
        }
        Ok(out)
    }

    /// Adds blocks of trait objects.
    fn add_types(&mut self, types: dyn_tables::Typed) {
        for (name, blocks) in types {
            let Ok(class) = u16::try_from(self.names.len().saturating_add(1)) else { return };
            self.names.push(Some(name));
            for block in blocks {
                if let Some(kind) = self.of.get_mut(block as usize) {
                    *kind = Kind { class, text: false };
                }
            }
        }
    }

    pub(super) fn of(&self, block: u32) -> Kind {
        self.of.get(block as usize).copied().unwrap_or_default()
    }

    /// Returns the class of a block.
    pub(super) fn name(&self, block: u32) -> Option<&str> {
        let class = self.of(block).class.checked_sub(1)?;
        self.names.get(usize::from(class))?.as_deref()
    }
}

/// Returns the class whose virtual table is at `table`.
fn class_of(session: &Session<'_>, table: Addr) -> Option<String> {
    let by_symbol = || {
        let symbol = session.symbols().resolve_data(table)?;
        symbol.name.strip_prefix("vtable for ").map(str::to_owned)
    };
    class_name(&session.process.memory, table).or_else(by_symbol).map(|name| made(&name).to_owned())
}

/// Returns the class of the object in a block of std::make_shared. Other names are returned unchanged.
fn made(name: &str) -> &str {
    let inner = ["std::_Sp_counted_ptr_inplace<", "std::__1::__shared_ptr_emplace<"];
    let Some(rest) = inner.iter().find_map(|start| name.strip_prefix(start)) else { return name };
    let mut depth = 0_u32;
    let end = rest.find(|c: char| {
        match c {
            '<' | '(' => depth = depth.saturating_add(1),
            '>' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    end.and_then(|end| rest.get(..end)).unwrap_or(name)
}

/// Whether a word is text: at least four printable characters, then only zeros.
fn is_text(word: &[u8; 8]) -> bool {
    let printable = word.iter().take_while(|byte| is_printable(**byte)).count();
    printable >= 4 && word.iter().skip(printable).all(|byte| *byte == 0)
}

fn is_printable(byte: u8) -> bool {
    (b' '..0x7f).contains(&byte) || matches!(byte, b'\n' | b'\r' | b'\t')
}

/// Returns the longest text in a block.
pub(super) fn text(memory: &ProcessMemory, graph: &BlockGraph<'_>, block: u32) -> Option<String> {
    let len = usize::try_from(graph.usable(block)).unwrap_or(SEARCHED).min(SEARCHED);
    let bytes = memory.look(graph.start(block), len).ok()?;
    let mut best: &[u8] = &[];
    for run in bytes.split(|byte| !(b' '..0x7f).contains(byte)) {
        let offset = run.as_ptr() as usize - bytes.as_ptr() as usize;
        // The low bytes of an address may be printable by chance.
        let is_address = run.len() < 8
            && crate::bytes::u64_at(&bytes, offset & !7).is_some_and(|word| memory.readable(Addr::new(word), 1) > 0);
        let mut distinct = [false; 256];
        run.iter().for_each(|byte| distinct[usize::from(*byte)] = true);
        let varied = distinct.iter().filter(|is| **is).count() > 3;
        if run.len() >= TEXT && run.len() > best.len() && varied && !is_address {
            best = run;
        }
    }
    let text = String::from_utf8(best.iter().take(KEPT).copied().collect()).ok()?;
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_text_if_all_of_it_is() {
        assert!(is_text(b"buoy-ses") && is_text(b"abcd\0\0\0\0"));
        // The low bytes of a heap address.
        assert!(!is_text(&[0x41, 0x42, 0x43, 0x44, 0x55, 0x55, 0, 1]) && !is_text(b"ab\0\0\0\0\0\0"));
    }

    #[test]
    fn the_class_of_make_shared_is_its_object() {
        let name = "std::_Sp_counted_ptr_inplace<chat::Pair<int, long>, std::allocator<void>, (x)2>";
        assert_eq!((made(name), made("chat::Room")), ("chat::Pair<int, long>", "chat::Room"));
    }
}
