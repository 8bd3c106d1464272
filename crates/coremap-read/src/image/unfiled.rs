//! Assemblies in memory that shows no file: unpacked from a compressed single-file program, or loaded from bytes.
//!
//! The host of a compressed single-file program unpacks the assemblies into shared anonymous memory, as they are in the
//! file. The runtime maps those with precompiled code once more, by section, into anonymous memory. Both begin at the
//! start of a mapping. An image is believed if its headers lead to a CLI header and to metadata with a module name.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange, union};
use crate::image::bundle::Bundle;
use crate::image::metadata::{Metadata, find_root};
use crate::image::modules::{Module, ModuleKind, file_name};
use crate::image::pe;
use crate::limits;
use crate::memory::Memory;
use crate::targets::{MappingName, Target};

/// First bytes of a PE file.
const MAGIC: [u8; 2] = *b"MZ";

/// An address where an image may begin: the mapping in NT_FILE that begins there, and its end.
pub(crate) struct Start {
    at: Addr,
    end: Addr,
    mapping: Option<u32>,
}

/// Returns the addresses where an image may begin, sorted. Reads the first page of each mapping without a file.
pub(crate) fn starts(target: &dyn Target) -> Vec<Start> {
    let space = &target.facts().space;
    let shared = (0..).zip(&space.files).filter(|(_, f)| f.offset == 0 && MappingName::of(&f.path).is_shared_memory());
    let shared = shared.map(|(i, f)| Start { at: f.range.start, end: f.range.end, mapping: Some(i) });
    let unlisted = space.pieces.iter().filter(|p| !space.is_listed(p.range.start));
    let unlisted = unlisted.map(|p| Start { at: p.range.start, end: p.range.end, mapping: None });
    let mut all: Vec<Start> = shared.chain(unlisted).collect();
    target.expect(all.iter().map(|start| AddrRange::sized(start.at, MAGIC.len() as u64)));
    all.retain(|start| target.peek(start.at).is_some_and(|first| first == MAGIC));
    all.sort_by_key(|start| start.at);
    all
}

/// Adds a module for each assembly in memory that shows no file. `starts`: where they may begin. `bundle`: the files of
/// a single-file program.
pub(crate) fn add_modules(starts: &[Start], memory: &dyn Memory, bundle: Option<&Bundle>, modules: &mut Vec<Module>) {
    let known = union(modules.iter().map(|m| m.range).collect());
    let is_known = |at: Addr| known.get(known.partition_point(|r| r.end <= at)).is_some_and(|r| r.contains(at));
    let mut found: Vec<Module> = Vec::new();
    let mut parts = 0;
    for start in starts.iter().filter(|start| !is_known(start.at)) {
        let inside = found.last().is_some_and(|last| last.range.contains(start.at));
        if inside || modules.len() + found.len() >= limits::MAX_MODULES || parts >= limits::MAX_IMAGE_PARTS {
            continue;
        }
        if let Some(module) = assembly(memory, start, bundle) {
            parts += module.sections.len();
            found.push(module);
        }
    }
    modules.append(&mut found);
    modules.sort_by_key(|m| (m.range.start, m.range.end));
}

/// Name that crossgen2 gives to module and assembly of a composite image's manifest (ManifestMetadataTableNode). Older
/// versions write no assembly there.
const MANIFEST: &str = "ManifestMetadata";

fn assembly(memory: &dyn Memory, start: &Start, bundle: Option<&Bundle>) -> Option<Module> {
    let image = pe::read(memory, start.at)?;
    let name = |flat| {
        let (at, len) = find_root(memory, start.at, &image, flat).ok()?;
        let metadata = Metadata::at(memory, at, len).ok()?;
        let name = metadata.module()?.name.into_owned();
        // Code of several assemblies (composite ReadyToRun) has only a manifest, and exports its header.
        if metadata.assembly().is_some() && name != MANIFEST {
            Some(name)
        } else {
            export_name(memory, start.at, &image, flat).or(Some(name))
        }
    };
    // Sections have other offsets in the file than in memory, so only one of the two ways finds the metadata.
    let (flat, name) = name(true).map(|name| (true, name)).or_else(|| Some((false, name(false)?)))?;
    let length = match flat {
        true => image.sections.iter().map(|s| s.file_offset.saturating_add(s.file_size)).max()?,
        false => image.size_of_image,
    };
    let range = AddrRange::sized(start.at, length);
    let range = if start.mapping.is_some() { AddrRange::new(start.at, range.end.min(start.end)) } else { range };
    let listed = bundle.and_then(|bundle| {
        let file = bundle.files.iter().find(|file| file_name(&file.path).eq_ignore_ascii_case(&name))?;
        Some((format!("{}/{}", bundle.program, file.path), &bundle.source))
    });
    let how = if flat { "as it is in the file" } else { "by section" };
    let (path, evidence): (Arc<str>, String) = match listed {
        Some((path, source)) => (path.into(), format!("{source}: unpacked, {how}, by the name in its metadata")),
        None => (name.into(), format!("headers and metadata in memory that shows no file, {how}")),
    };
    Some(Module {
        path,
        sections: image.placed(start.at, flat),
        kind: ModuleKind::Pe { image, flat },
        range,
        mappings: start.mapping.into_iter().collect(),
        evidence: evidence.into(),
    })
}

/// Number of the export directory (PE/COFF, optional header), and offset of the name's RVA in it.
const EXPORT_DIRECTORY: usize = 0;
const EXPORT_NAME: u64 = 12;

/// Maximum length of the name in an export directory, in bytes.
const MAX_EXPORT_NAME: u64 = 256;

/// Name of an image in its export directory.
fn export_name(memory: &dyn Memory, base: Addr, image: &pe::PeImage, flat: bool) -> Option<String> {
    let directory = image.rva_to_addr(base, image.directory(EXPORT_DIRECTORY)?.rva, flat)?;
    let at = image.rva_to_addr(base, memory.u32(directory.checked_add(EXPORT_NAME)?).ok()?, flat)?;
    let bytes = memory.bytes(at, memory.readable(at, MAX_EXPORT_NAME) as usize).ok()?;
    let name = bytes.split(|byte| *byte == 0).next()?;
    let is_name = !name.is_empty() && name.len() < bytes.len() && name.iter().all(|byte| byte.is_ascii_graphic());
    is_name.then(|| String::from_utf8_lossy(name).into_owned())
}
