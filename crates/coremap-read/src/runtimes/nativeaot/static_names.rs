//! Owners and fields of static variables, from symbols, from section 334 and from the debug file.
//!
//! In the debug file, a class declares its static members in three groups: members without references, members with
//! references, and thread statics. Its variables have the addresses of the first two groups, but in the order of the
//! source. So a variable often refers to the wrong member. Addresses are therefore matched with members group by group.

use std::collections::{BTreeMap, HashMap};

use crate::addr::{Addr, AddrRange};
use crate::image::ModuleKind;
use crate::native::symbols::DebugClass;
use crate::runtimes::nativeaot::mangled::Mangled;
use crate::runtimes::nativeaot::metadata::{format, relative};
use crate::runtimes::nativeaot::methods;
use crate::runtimes::nativeaot::naming::Names;

/// Prefixes of symbols: cells of static bases, indices of thread statics, MethodTables.
const CELL: &str = "__GCSTATICS";
const INDEX: &str = "__TypeThreadStaticIndex";
const VTABLE: &str = "_ZTV";

/// End of the names of symbols for values that the compiler computed.
const COMPUTED: &str = "__PreInitData";

/// Kinds of entries of section 334: the cell of a static base, and the cell with the index of thread statics.
const OF_CELL: u32 = 67;
const OF_INDEX: u32 = 73;

/// Number of pointers from a cell to the variables.
const THROUGH_CELL: u32 = 2;

/// Static variables of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TypeStatics {
    /// Name of the type.
    pub(super) owner: String,
    /// Names of fields by offset in the object with the variables.
    fields: BTreeMap<u64, String>,
    /// Names of its thread statics, whose places are not known.
    of_threads: Vec<String>,
}

impl TypeStatics {
    /// A type whose fields have no names.
    pub(super) fn of(owner: String) -> TypeStatics {
        TypeStatics { owner, ..TypeStatics::default() }
    }

    /// The field at an offset, and the distance from its start.
    pub(super) fn field(&self, offset: u64) -> Option<(&str, u64)> {
        let (start, name) = self.fields.range(..=offset).next_back()?;
        Some((name, offset - start))
    }

    /// The only thread static of the type, if no other fits into its `bytes`.
    pub(super) fn thread_field(&self, bytes: Option<u64>) -> Option<&str> {
        match self.of_threads.as_slice() {
            [one] if bytes == Some(8) => Some(one),
            _ => None,
        }
    }
}

/// Names of static variables, without their values.
#[derive(Default)]
pub(super) struct StaticNames {
    cells: HashMap<Addr, TypeStatics>,
    /// Types by the index of their thread statics.
    indices: HashMap<i64, String>,
    /// Types by offset in the object with the thread statics of all other types.
    inlined: BTreeMap<u64, TypeStatics>,
}

impl StaticNames {
    pub(super) fn read(names: &Names<'_>) -> StaticNames {
        let mut out = StaticNames::default();
        let runtime = names.runtime();
        let index = |cell: Addr| runtime.view("TypeThreadStaticIndex", cell).u64("Index").ok().map(|n| n as i64);
        // A name in the metadata is better than one of a symbol.
        for (kind, cell, owner) in generic_owners(names) {
            match kind {
                OF_CELL => drop(out.cells.insert(cell, TypeStatics::of(owner))),
                OF_INDEX => out.add_index(index(cell), TypeStatics::of(owner)),
                _ => {}
            }
        }
        let symbols = |prefix| names.symbols().data_with_prefix(runtime.module, prefix);
        let (cells, indices) = (symbols(CELL), symbols(INDEX));
        if cells.is_empty() && indices.is_empty() {
            return out;
        }
        let mangled = mangled(names, symbols(VTABLE));
        let readable = |symbol: &str| mangled.name(symbol).unwrap_or_else(|| symbol.to_owned());
        let mut fields = Fields::read(names, cells.iter().map(|(at, _)| *at).collect());
        for (cell, symbol) in cells {
            if symbol.ends_with(COMPUTED) {
                continue;
            }
            let known = out.cells.entry(cell).or_default();
            if known.owner.is_empty() {
                known.owner = readable(&symbol);
            }
            known.fields = fields.by_cell.remove(&cell).unwrap_or_default();
        }
        for (at, symbol) in indices {
            let of_threads = fields.of_threads.remove(&symbol).unwrap_or_default();
            out.add_index(index(at), TypeStatics { owner: readable(&symbol), of_threads, ..TypeStatics::default() });
        }
        out
    }

    /// Adds a type by its index. A negative one is an offset in the object of the thread.
    fn add_index(&mut self, index: Option<i64>, own: TypeStatics) {
        match index {
            Some(index) if index < 0 => drop(self.inlined.entry(index.unsigned_abs()).or_insert(own)),
            Some(index) if index > 0 => drop(self.indices.entry(index).or_insert(own.owner)),
            _ => {}
        }
    }

    /// Returns the names for the type whose statics a cell refers to.
    pub(super) fn of_cell(&self, cell: Addr) -> Option<&TypeStatics> {
        self.cells.get(&cell).filter(|own| !own.owner.is_empty())
    }

    /// Types by the index of their thread statics.
    pub(super) fn indices(&self) -> &HashMap<i64, String> {
        &self.indices
    }

    /// The type of a thread static, by its offset in the object of the thread: start and end of the type's part.
    pub(super) fn inlined(&self, offset: u64) -> Option<(u64, Option<u64>, &TypeStatics)> {
        let (start, own) = self.inlined.range(..=offset).next_back()?;
        let end = self.inlined.range(offset.checked_add(1)?..).next().map(|(end, _)| *end);
        Some((*start, end, own))
    }
}

/// Entries of section 334: kind, cell, name of the type.
fn generic_owners(names: &Names<'_>) -> Vec<(u32, Addr, String)> {
    let runtime = names.runtime();
    let sections = names.sections();
    let bytes = |name| sections.and_then(|all| all.bytes(runtime, name));
    let (Some((_, table)), Some((types_at, types)), Some((cells_at, cells))) =
        (bytes("StaticOwners"), bytes("StaticOwnerTypes"), bytes("StaticCells"))
    else {
        return Vec::new();
    };
    let word = |at, bytes: &[u8], index: u32| relative(at, bytes, (index as usize).checked_mul(4)?);
    let mut out = Vec::new();
    // Overlapping entries may share bytes, so all pairs together are bounded by the section.
    let mut left = table.len();
    for entry in format::entries(&table) {
        let Some((index, mut next)) = format::unsigned(&table, entry) else { continue };
        let Some(owner) = word(types_at, &types, index).and_then(|at| names.known(at)) else { continue };
        while let Some((kind, behind)) = format::unsigned(&table, next).filter(|(kind, _)| *kind != 0) {
            let Some((cell, behind)) = format::unsigned(&table, behind).filter(|_| left > 0) else { break };
            (next, left) = (behind, left - 1);
            out.extend(word(cells_at, &cells, cell).map(|cell| (kind, cell, owner.clone())));
        }
    }
    out
}

/// Names of types by their form in symbols.
fn mangled(names: &Names<'_>, tables: Vec<(Addr, String)>) -> Mangled {
    let mut out = Mangled::default();
    let Some(metadata) = names.metadata() else { return out };
    metadata.each_name(&mut |chain| out.add(chain));
    methods::owners(names).into_iter().filter_map(|token| metadata.of_token(token)).for_each(|chain| out.add(chain));
    for (at, symbol) in tables {
        if let Some(chain) = metadata.chain(at) {
            out.learn(symbol.trim_start_matches(|c: char| c.is_ascii_digit()), &chain);
        }
    }
    out
}

/// Fields of the debug file.
#[derive(Default)]
struct Fields {
    by_cell: HashMap<Addr, BTreeMap<u64, String>>,
    /// Names of thread statics by the mangled name of their type.
    of_threads: HashMap<String, Vec<String>>,
}

impl Fields {
    fn read(names: &Names<'_>, cells: std::collections::HashSet<Addr>) -> Fields {
        let runtime = names.runtime();
        let mut out = Fields::default();
        let Some(module) = runtime.process.modules.get(runtime.module) else { return out };
        let ModuleKind::Elf(image) = &module.kind else { return out };
        // For a thread static in shared code, the variable's address is that of a row of this section.
        let rows = names.sections().and_then(|all| all.section_range(runtime, "ThreadStatics"));
        let placed = |address: u64| Addr::new(image.bias.wrapping_add(address));
        for class in names.classes().values() {
            out.add(class, placed, &cells, rows);
        }
        out
    }

    fn add(
        &mut self,
        class: &DebugClass,
        placed: impl Fn(u64) -> Addr,
        cells: &std::collections::HashSet<Addr>,
        rows: Option<AddrRange>,
    ) {
        let (mut plain, mut through) = (0, Vec::new());
        for place in &class.places {
            let at = placed(place.address);
            if rows.is_some_and(|rows| rows.contains(at)) {
                continue;
            }
            match place.pointers {
                0 => plain += 1,
                THROUGH_CELL if cells.contains(&at) => through.push((at, place.offset)),
                _ => {}
            }
        }
        let mut members = class.members.iter().skip(plain).cloned();
        for (cell, offset) in through {
            let Some(name) = members.next() else { return };
            self.by_cell.entry(cell).or_default().insert(offset, name);
        }
        self.of_threads.insert(class.name.clone(), members.collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::symbols::StaticPlace;

    #[test]
    fn members_are_matched_group_by_group() {
        // In the source: Items, Hits, Index, and a thread static. The members are listed without references first.
        let place = |address, pointers, offset| StaticPlace { address, pointers, offset };
        let class = DebugClass {
            name: "harbor_Ledger_Cache".into(),
            members: ["Hits", "Items", "Index", "Scratch"].map(str::to_owned).to_vec(),
            base: None,
            fields: Vec::new(),
            places: vec![place(0x100, 2, 8), place(0x900, 0, 0), place(0x100, 2, 16), place(0x500, 0, 0)],
        };
        let mut fields = Fields::default();
        let rows = Some(AddrRange::sized(Addr::new(0x500), 0x10));
        fields.add(&class, Addr::new, &[Addr::new(0x100)].into(), rows);
        let own = TypeStatics {
            owner: "Ledger.Cache".into(),
            fields: fields.by_cell.remove(&Addr::new(0x100)).unwrap_or_default(),
            of_threads: fields.of_threads.remove("harbor_Ledger_Cache").unwrap_or_default(),
        };
        assert_eq!(own.field(8), Some(("Items", 0)));
        assert_eq!(own.field(24), Some(("Index", 8)));
        assert_eq!(own.field(0), None);
        assert_eq!((own.thread_field(Some(8)), own.thread_field(Some(16))), (Some("Scratch"), None));
    }

    #[test]
    fn a_negative_index_is_an_offset() {
        let mut names = StaticNames::default();
        let own = |name: &str| TypeStatics { owner: name.into(), ..TypeStatics::default() };
        names.add_index(Some(-8), own("A"));
        names.add_index(Some(-32), own("B"));
        names.add_index(Some(3), own("C"));
        names.add_index(None, own("D"));
        assert_eq!(names.inlined(16).map(|(start, end, own)| (start, end, &*own.owner)), Some((8, Some(32), "A")));
        assert_eq!(names.inlined(40).map(|(start, end, own)| (start, end, &*own.owner)), Some((32, None, "B")));
        assert_eq!(names.inlined(0), None);
        assert_eq!(names.indices().get(&3).map(String::as_str), Some("C"));
    }
}
