//! Types of Rust's trait objects. `Box<dyn Trait>` is two words: the block's address, and the address of a table in the
//! module. The table begins with `{function that drops it or 0, size, alignment, methods …}`
//! (library/core/src/ptr/metadata.rs). The type's name comes from the names of these functions, so this needs symbols.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::block_graph::BlockGraph;
use crate::analysis::block_graph::edges::{Edges, Lead};
use crate::memory::Memory;
use crate::runtimes::graph::{GraphError, MemoryBudget};
use crate::session::Session;

/// Maximum number of different tables that are read.
const TABLES: usize = 1 << 14;

/// Maximum alignment and size of a type in bytes.
const ALIGN: u64 = 64;
const SIZE: u64 = 1 << 24;

/// Number of methods whose names are read.
const METHODS: u64 = 8;

/// Maximum number of bytes that malloc adds to a request.
const SLACK: u64 = 24;

/// Size in bytes of the counters before an object in an Rc or Arc.
const COUNTERS: u64 = 16;

/// Maximum share of blocks, in percent, whose size differs from the table's. Such pairs of words are chance.
const CHANCE: u64 = 5;

/// Size and type name from a table.
struct DynTable {
    name: String,
    size: u64,
}

/// Blocks whose type is known, by the name of the type.
pub(super) type Typed = Vec<(String, Vec<u32>)>;

/// Finds the types of blocks that trait objects in other blocks point at.
///
/// # Errors
/// [`GraphError::OutOfTime`]
pub(super) fn types(
    session: &Session<'_>,
    graph: &BlockGraph<'_>,
    in_module: &dyn Fn(Addr) -> bool,
    budget: &MemoryBudget,
) -> Result<Typed, GraphError> {
    let memory = &session.process.memory;
    let mut known: HashMap<u64, Option<DynTable>> = HashMap::new();
    let mut found: HashMap<u64, (Vec<u32>, u64)> = HashMap::new();
    for block in 0..graph.len() as u32 {
        budget.in_time_at(block as usize)?;
        let (start, usable) = (graph.start(block), graph.usable(block));
        for (word, to, _) in graph.edges.of(block).filter(|(_, _, lead)| *lead == Lead::Start) {
            let offset = u64::from(word).saturating_add(1).saturating_mul(8);
            let at =
                start.checked_add(offset).filter(|_| word < Edges::LAST_WORD && offset.saturating_add(8) <= usable);
            let Some(value) = at.and_then(|at| memory.peek_u64(at).ok()) else { continue };
            let room = known.len() < TABLES || known.contains_key(&value);
            if !room || !Addr::new(value).is_aligned(8) || !in_module(Addr::new(value)) {
                continue;
            }
            let Some(table) = known.entry(value).or_insert_with(|| table(session, Addr::new(value))) else { continue };
            let fits = |size: u64| graph.usable(to).checked_sub(size).is_some_and(|waste| waste < SLACK);
            let of_table = found.entry(value).or_default();
            match fits(table.size) || fits(table.size.saturating_add(COUNTERS)) {
                true => of_table.0.push(to),
                false => of_table.1 = of_table.1.saturating_add(1),
            }
        }
    }
    let proven = found.into_iter().filter(|(_, (blocks, others))| {
        others.saturating_mul(100) <= (blocks.len() as u64).saturating_mul(CHANCE) && !blocks.is_empty()
    });
    let mut out: Typed =
        proven.filter_map(|(table, (blocks, _))| Some((known.remove(&table)??.name, blocks))).collect();
    out.sort();
    Ok(out)
}

/// Reads the table at an address. `None` if there is none, or if no function's name shows the type.
fn table(session: &Session<'_>, at: Addr) -> Option<DynTable> {
    let memory = &session.process.memory;
    let word = |i: u64| memory.peek_u64(at.checked_add(8 * i)?).ok();
    let (drop, size, align) = (word(0)?, word(1)?, word(2)?);
    let fits = align.is_power_of_two() && align <= ALIGN && size.is_multiple_of(align) && (1..SIZE).contains(&size);
    if !fits {
        return None;
    }
    let function = |at: u64| session.symbols().resolve(Addr::new(at)).filter(|symbol| symbol.offset == 0);
    let dropped = match drop {
        0 => None,
        drop => Some(function(drop)?.name.strip_prefix("core::ptr::drop_in_place<")?.strip_suffix('>')?.to_owned()),
    };
    // The linker may merge functions with equal code. The names of methods show the type too.
    let methods = (0..METHODS).map_while(|i| function(word(3 + i)?));
    let implemented = methods.filter_map(|symbol| implementing(&symbol.name).map(str::to_owned)).next();
    Some(DynTable { name: implemented.or(dropped)?, size })
}

/// Returns the type in the name of a method: `<app::Email as app::Job>::run`.
fn implementing(name: &str) -> Option<&str> {
    let rest = name.strip_prefix('<')?;
    let end = rest.find(" as ")?;
    let of = rest.get(..end)?;
    // The type may have parameters that contain ` as `.
    (of.matches('<').count() == of.matches('>').count()).then_some(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_names_the_type_that_implements_the_trait() {
        assert_eq!(implementing("<app::Email as app::Job>::run"), Some("app::Email"));
        assert_eq!(implementing("<app::Wrap<u8> as app::Job>::run"), Some("app::Wrap<u8>"));
        assert_eq!(implementing("<app::Wrap<<T as A>::B> as app::Job>::run"), None);
        assert_eq!(implementing("app::main"), None);
    }
}
