//! Classes of GLib's objects (GObject), by their type nodes.
//!
//! An object begins with the address of its class structure. The class structure begins with the address of a TypeNode
//! (gobject/gtype.c, GLib 2.28 to 2.80). `supers` of a TypeNode begins with the node's own address. Its parents'
//! addresses follow, and at the end a fundamental type, which is a number. The quark of the name is four words before
//! `supers`. Quarks are indices into a table of texts (glib/gquark.c).

use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::block_graph::BlockGraph;
use crate::bytes::u64_at;
use crate::image::ModuleKind;
use crate::memory::{Memory, ProcessMemory};
use crate::runtimes::graph::{GraphError, MemoryBudget};
use crate::session::Session;
use crate::targets::reads::Script;

/// Part of the name of GObject's module. A program that contains GLib itself is not recognised.
const GOBJECT: &str = "libgobject-2.0";
const GLIB: &str = "libglib-2.0";

/// The fundamental type of objects.
const G_TYPE_OBJECT: u64 = 80;

/// Size of a TypeNode's block in bytes, and possible offsets of `supers`.
const NODE: std::ops::RangeInclusive<u64> = 64..=1024;
const SUPERS: std::ops::RangeInclusive<u64> = 48..=128;

/// Distance in bytes from the name's quark to `supers`.
const QUARK: u64 = 32;

/// Maximum number of parents of a type.
const DEPTH: u64 = 32;

/// Minimum size in bytes of a class structure (GObjectClass).
const CLASS: u64 = 136;

/// Number of words of the table of quarks that are checked, and its minimum size in bytes. The first quarks are GLib's
/// own types.
const CHECKED: usize = 40;
const QUARKS: u64 = 2048 * 8;

/// Maximum length of a name.
const NAME: usize = 256;

/// Maximum number of types.
const TYPES: usize = 1 << 14;

/// Class structures by address, each with the name of its type. `None` if the name is not in the core.
pub(super) type Classes = HashMap<u64, Option<String>>;

/// Finds the classes of objects. Empty if GObject is not mapped.
///
/// # Errors
/// [`GraphError::OutOfTime`]
pub(super) fn classes(
    session: &Session<'_>,
    graph: &BlockGraph<'_>,
    budget: &MemoryBudget,
) -> Result<Classes, GraphError> {
    let modules = &session.process.modules;
    if !modules.iter().any(|module| module.name().starts_with(GOBJECT)) {
        return Ok(Classes::new());
    }
    let memory = &session.process.memory;
    let mut nodes: HashMap<u64, u64> = HashMap::new();
    let mut firsts: Vec<(u64, u64)> = Vec::new();
    for block in 0..graph.len() as u32 {
        budget.in_time_at(block as usize)?;
        let (start, usable) = (graph.start(block), graph.usable(block));
        if NODE.contains(&usable)
            && nodes.len() < TYPES
            && let Some(quark) = quark(memory, start, usable)
        {
            nodes.insert(start.get(), quark);
        }
        if usable >= CLASS
            && firsts.len() < TYPES
            && let Ok(word) = memory.peek_u64(start)
            && graph.starting(Addr::new(word)).is_some()
        {
            firsts.push((start.get(), word));
        }
    }
    let quarks =
        modules.iter().filter(|module| module.name().starts_with(GLIB)).find_map(|module| match &module.kind {
            ModuleKind::Elf(image) => {
                let mut words = image.writable_words(memory).flat_map(|(_, words)| words);
                words.find(|word| is_table(session, graph, Addr::new(*word)))
            }
            _ => None,
        });
    let name = |quark: u64| text(memory, quarks.and_then(|table| Addr::new(table).checked_add(quark.checked_mul(8)?))?);
    Ok(firsts.into_iter().filter_map(|(class, of)| Some((class, name(*nodes.get(&of)?)))).collect())
}

/// Returns the quark of a type's name, if the block is a TypeNode of an object's type.
fn quark(memory: &ProcessMemory, start: Addr, usable: u64) -> Option<u64> {
    let word = |offset: u64| start.checked_add(offset).and_then(|at| memory.peek_u64(at).ok());
    let supers = SUPERS.step_by(8).take_while(|offset| *offset < usable).find(|at| word(*at) == Some(start.get()))?;
    let places = (1..DEPTH).map_while(|depth| supers.checked_add(8 * depth));
    let mut rest = places.map_while(|offset| Some((offset, word(offset)?)));
    let (end, _) = rest.find(|(_, word)| *word < 4096).filter(|(_, end)| *end == G_TYPE_OBJECT)?;
    let quark = word(supers - QUARK).map(|quark| quark & 0xffff_ffff).filter(|quark| *quark > 0)?;
    [supers - QUARK, end].iter().for_each(|offset| memory.keep(start.saturating_add(*offset), 8));
    Some(quark)
}

/// Whether `at` is the table of quarks: the first word is null, and the others are addresses in modules or blocks. The
/// texts themselves may be in missing files.
fn is_table(session: &Session<'_>, graph: &BlockGraph<'_>, at: Addr) -> bool {
    let large = graph.starting(at).is_some_and(|block| graph.usable(block) >= QUARKS);
    let bytes = if large { session.process.memory.look(at, 8 * CHECKED).ok() } else { None };
    let leads = |word: u64| {
        let at = Addr::new(word);
        graph.at(at).is_some() || session.process.modules.iter().any(|module| module.range.contains(at))
    };
    bytes.is_some_and(|bytes| {
        u64_at(&bytes, 0) == Some(0) && (1..CHECKED).all(|i| u64_at(&bytes, 8 * i).is_some_and(leads))
    })
}

fn text(memory: &ProcessMemory, at: Addr) -> Option<String> {
    text_at(memory, Addr::new(memory.peek_u64(at).ok()?))
}

/// Returns the name at an address: letters, digits and similar characters, ended by a null byte.
fn text_at(memory: &ProcessMemory, at: Addr) -> Option<String> {
    if at.is_null() {
        return None;
    }
    let len = usize::try_from(memory.readable(at, NAME as u64)).unwrap_or(0);
    let bytes = memory.look(at, len).ok()?;
    let end = memchr::memchr(0, &bytes).filter(|end| *end > 0)?;
    let text = std::str::from_utf8(bytes.get(..end)?).ok()?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    memory.keep_name(at, text.len() as u64 + 1, Script::Utf8);
    Some(text.to_owned())
}
