//! Adds the assemblies of a single-file program as modules.

use std::collections::BTreeMap;

use crate::addr::{Addr, AddrRange};
use crate::image::bundle::{Bundle, BundledFile, elsewhere, program};
use crate::image::modules::{Module, ModuleKind, page_size};
use crate::image::pe;
use crate::layout::DOTNET_BUNDLE;
use crate::limits;
use crate::memory::Memory;
use crate::targets::{FileMapping, Target};

/// Adds a module for each assembly of `bundle` that a mapping of the program's file shows.
///
/// Nearly all are mapped as they are in the file, from the page of their first byte to the page of
/// their last. Parts of one may be mapped in addition: sections, or the remains of an attempt to
/// map it by section (seen: one page of the application's own assembly, 9.0.7 and 10.0.9).
pub fn add_modules(target: &dyn Target, memory: &dyn Memory, bundle: &Bundle, modules: &mut Vec<Module>) {
    let Some(program) = program(target, modules) else { return };
    let Ok(assembly) = DOTNET_BUNDLE.layout().and_then(|l| l.constant("file_type_t", "assembly")) else { return };
    let page = page_size(target.facts());
    let mut shown: Vec<(u32, &FileMapping, &BundledFile)> = elsewhere(target, program)
        .filter_map(|(i, mapping)| Some((i, mapping, bundle.shown_by(mapping, u8::try_from(assembly).ok()?, page)?)))
        .collect();
    // A mapping that contains the file's first page makes a module. Other mappings belong to the
    // nearest module of the same file below them, or to any.
    let base = |mapping: &FileMapping, file: &BundledFile| {
        mapping.range.start.checked_add(file.offset.checked_sub(mapping.offset)?)
    };
    shown.sort_by_key(|(_, mapping, file)| (base(mapping, file).is_none(), mapping.range.start));
    let mut found: Vec<Module> = Vec::new();
    let mut of_file: BTreeMap<&BundledFile, Vec<usize>> = BTreeMap::new();
    let mut parts = 0;
    for (i, mapping, file) in shown {
        if modules.len() + found.len() >= limits::MAX_MODULES {
            break;
        }
        let base = base(mapping, file);
        let own = of_file.entry(file).or_default();
        let below = own.partition_point(|&n| found.get(n).is_some_and(|m| m.range.start < mapping.range.start));
        if base.is_none()
            && let Some(module) = own.get(below.saturating_sub(1)).and_then(|&n| found.get_mut(n))
        {
            module.mappings.push(i);
            continue;
        }
        own.push(found.len());
        let image = base.and_then(|base| pe::read(memory, base)).filter(|_| parts < limits::MAX_IMAGE_PARTS);
        parts += image.as_ref().map_or(0, |image| image.sections.len());
        let flat = file.pages(page) == (mapping.offset, mapping.offset.saturating_add(mapping.range.len()));
        let start = base.unwrap_or(mapping.range.start);
        let (kind, size, sections) = match image {
            Some(image) => {
                let size = if flat { file.size } else { image.size_of_image };
                let sections = image.placed(start, flat);
                (ModuleKind::Pe { image, flat }, size, sections)
            }
            None if flat => (ModuleKind::Bundled, file.size, Vec::new()),
            None => (ModuleKind::Bundled, mapping.range.end.since(start), Vec::new()),
        };
        found.push(Module {
            path: format!("{}/{}", bundle.program, file.path).into(),
            range: range(start, size, mapping),
            mappings: vec![i],
            sections,
            evidence: format!("{}: at offset {:#x} of the program's file", bundle.source, file.offset).into(),
            kind,
        });
    }
    modules.append(&mut found);
    modules.sort_by_key(|m| (m.range.start, m.range.end));
}

/// Returns `size` bytes from `start`, or the mapping if that is empty.
fn range(start: Addr, size: u64, mapping: &FileMapping) -> AddrRange {
    let range = AddrRange::sized(start, size);
    if range.is_empty() { mapping.range } else { range }
}
