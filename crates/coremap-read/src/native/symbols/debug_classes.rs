//! Classes from DWARF of debug files: their fields, the static members that they declare, and the addresses of
//! variables that are declared as such members.
//!
//! DWARF 5, sections 5.7 and 2.6: a static member is a declaration, and its variable has DW_AT_specification.

use std::collections::HashMap;

use gimli::{AttributeValue, Dwarf, EndianSlice, LittleEndian, Operation, Unit, UnitSectionOffset};

use crate::image::elf;
use crate::image::identity;
use crate::image::modules::Module;
use crate::limits;
use crate::process::Process;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Location of a variable: an address in the file, that many times the pointer there, and an offset from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticPlace {
    /// Address in the file.
    pub address: u64,
    /// Number of pointers to follow.
    pub pointers: u32,
    /// Offset that is added last.
    pub offset: u64,
}

/// A class with fields or static members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugClass {
    /// Name of the class in the debug file.
    pub name: String,
    /// Name of its base class.
    pub base: Option<String>,
    /// Its own fields by offset.
    pub fields: Vec<(u64, String)>,
    /// Names of the members that are only declared, in their order.
    pub members: Vec<String>,
    /// Places of the variables, in their order.
    pub places: Vec<StaticPlace>,
}

/// Returns the classes in the debug files of a module.
pub fn debug_classes(process: &Process, module: &Module) -> Vec<DebugClass> {
    let own = identity::files_of(process.target(), module, &process.symbols);
    for file in identity::debug_files_of(module, &process.symbols).chain(own) {
        let Some(sections) = elf::section_table(&file) else { continue };
        let section = |id: gimli::SectionId| -> Result<Slice<'_>, gimli::Error> {
            let bytes = sections.iter().find(|section| section.name == id.name()).and_then(|s| s.bytes(&file));
            Ok(EndianSlice::new(bytes.unwrap_or_default(), LittleEndian))
        };
        let size = section(gimli::SectionId::DebugInfo).map_or(0, |info| info.len());
        if !(1..=limits::MAX_DEBUG_INFO).contains(&size) {
            continue;
        }
        let Ok(dwarf) = Dwarf::load(section) else { continue };
        return classes(&dwarf);
    }
    Vec::new()
}

/// Reads all units.
fn classes(dwarf: &Dwarf<Slice<'_>>) -> Vec<DebugClass> {
    let mut out: Vec<DebugClass> = Vec::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        // A unit that is damaged gives what comes before the damage.
        let _ = of_unit(dwarf, &unit, &mut out);
    }
    out.retain(|class| !class.fields.is_empty() || class.base.is_some() || !class.members.is_empty());
    out
}

fn of_unit(dwarf: &Dwarf<Slice<'_>>, unit: &Unit<Slice<'_>>, out: &mut Vec<DebugClass>) -> gimli::Result<()> {
    // The class of each declared member, by the member's offset.
    let mut members: HashMap<UnitSectionOffset, usize> = HashMap::new();
    // Names of classes by the offset of their entry, including classes that are only declared. Then the base class of
    // each class.
    let mut names: HashMap<UnitSectionOffset, String> = HashMap::new();
    let mut bases: Vec<(usize, UnitSectionOffset)> = Vec::new();
    // The class that is being read: its depth, and its index.
    let mut around: Option<(isize, usize)> = None;
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        if around.is_some_and(|(depth, _)| entry.depth() <= depth) {
            around = None;
        }
        let name = || {
            let text = dwarf.attr_string(unit, entry.attr_value(gimli::DW_AT_name)?).ok()?;
            Some(text.to_string_lossy().into_owned())
        };
        match entry.tag() {
            gimli::DW_TAG_class_type | gimli::DW_TAG_structure_type => {
                let Some(name) = name() else { continue };
                names.insert(entry.offset().to_unit_section_offset(&unit.header), name.clone());
                if !entry.has_attr(gimli::DW_AT_declaration) {
                    around = Some((entry.depth(), out.len()));
                    out.push(DebugClass { name, ..DebugClass::default() });
                }
            }
            gimli::DW_TAG_inheritance => {
                let of = match entry.attr_value(gimli::DW_AT_type) {
                    Some(AttributeValue::UnitRef(at)) => Some(at.to_unit_section_offset(&unit.header)),
                    _ => None,
                };
                bases.extend(around.map(|(_, class)| class).zip(of));
            }
            gimli::DW_TAG_member if entry.has_attr(gimli::DW_AT_declaration) => {
                let Some((class, name)) = around.map(|(_, class)| class).zip(name()) else { continue };
                members.insert(entry.offset().to_unit_section_offset(&unit.header), class);
                out.get_mut(class).into_iter().for_each(|class| class.members.push(name.clone()));
            }
            gimli::DW_TAG_member => {
                let at = entry.attr_value(gimli::DW_AT_data_member_location).and_then(|at| at.udata_value());
                let (Some((_, class)), Some(at), Some(name)) = (around, at, name()) else { continue };
                out.get_mut(class).into_iter().for_each(|class| class.fields.push((at, name.clone())));
            }
            gimli::DW_TAG_variable => {
                let of = match entry.attr_value(gimli::DW_AT_specification) {
                    Some(AttributeValue::UnitRef(at)) => members.get(&at.to_unit_section_offset(&unit.header)),
                    _ => None,
                };
                let Some(AttributeValue::Exprloc(location)) = entry.attr_value(gimli::DW_AT_location) else { continue };
                let place = place(location.operations(unit.encoding()));
                if let Some((class, place)) = of.and_then(|of| out.get_mut(*of)).zip(place) {
                    class.places.push(place);
                }
            }
            _ => {}
        }
    }
    for (class, base) in bases {
        if let Some((class, name)) = out.get_mut(class).zip(names.get(&base)) {
            class.base = Some(name.clone());
        }
    }
    Ok(())
}

/// A place of the only form that variables of fixed address have: address, pointers, offset.
fn place(mut operations: gimli::OperationIter<Slice<'_>>) -> Option<StaticPlace> {
    let mut found: Option<StaticPlace> = None;
    while let Ok(Some(operation)) = operations.next() {
        match (operation, &mut found) {
            (Operation::Address { address }, None) => found = Some(StaticPlace { address, pointers: 0, offset: 0 }),
            (Operation::Deref { .. }, Some(place)) if place.offset == 0 => {
                place.pointers = place.pointers.checked_add(1)?
            }
            (Operation::PlusConstant { value }, Some(place)) => place.offset = place.offset.checked_add(value)?,
            _ => return None,
        }
    }
    found
}
