//! Single-file programs of .NET: one ELF file, followed by the application's files. The host
//! maps the assemblies among them from there, so NT_FILE lists them under the program's path.
//!
//! The host's manifest lists the files and their offsets. It is in the program's own memory
//! (`in_memory`) and at the end of its file (`in_file`). Structure: dotnet/runtime,
//! src/native/corehost/bundle, and docs/design/features/single-file of dotnet/designs.

mod in_file;
mod in_memory;
mod modules;
mod proof;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;

pub(crate) use in_memory::find;
pub use modules::add_modules;
pub use proof::prove;

use std::collections::HashSet;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::image::modules::{Module, ModuleKind};
use crate::limits;
use crate::targets::{FileMapping, Target, at};

/// A file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BundledFile {
    /// Offset in the program's file, in bytes.
    pub offset: u64,
    /// Uncompressed size in bytes.
    pub size: u64,
    /// Size in the program's file in bytes if the file is compressed, else 0.
    pub compressed: u64,
    /// Type of the file: `file_type_t`.
    pub kind: u8,
    /// Path relative to the program's folder.
    pub path: String,
}

impl BundledFile {
    /// End offset in the program's file.
    fn end(&self) -> u64 {
        self.offset.saturating_add(if self.compressed > 0 { self.compressed } else { self.size })
    }

    /// Offsets of the pages of the program's file that contain it.
    fn pages(&self, page: u64) -> (u64, u64) {
        let end = self.end();
        (self.offset - self.offset % page, end.checked_next_multiple_of(page).unwrap_or(end))
    }
}

/// A bundle: the files that a host lists behind its program.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// Path of the program's file.
    pub program: Arc<str>,
    /// Bundled files, by offset.
    pub files: Vec<BundledFile>,
    /// The host's id for the contents: a hash of them from .NET 6 on, random before.
    pub id: String,
    /// Where the manifest was read, as evidence.
    pub source: String,
}

impl Bundle {
    /// Whether one of the bundle's assemblies is at `base`. `modules` are the process's modules,
    /// sorted by address.
    pub fn has(&self, modules: &[Module], base: Addr) -> bool {
        let from = modules.partition_point(|m| m.range.start < base);
        let mut at = modules.iter().skip(from).take_while(|m| m.range.start == base);
        at.any(|m| m.path.strip_prefix(&*self.program).is_some_and(|inside| inside.starts_with('/')))
    }

    /// Returns the assembly that a mapping of the program's file shows. That is the assembly with exactly the mapping's
    /// pages, or else the only assembly that contains all of them.
    fn shown_by(&self, mapping: &FileMapping, assembly: u8, page: u64) -> Option<&BundledFile> {
        let wanted = (mapping.offset, mapping.offset.checked_add(mapping.range.len())?);
        let end = self.files.partition_point(|f| f.offset < wanted.1);
        // Files follow each other, so the search backwards ends soon.
        let near = self.files.get(..end)?.iter().rev().take(limits::MAX_FILES_NEAR);
        let near = near.take_while(|f| f.pages(page).1 > wanted.0);
        let of_code = near.filter(|f| f.kind == assembly && f.compressed == 0);
        let has = |f: &&BundledFile| (f.pages(page).0 <= wanted.0) && wanted.1 <= f.pages(page).1;
        let having: Vec<&BundledFile> = of_code.filter(has).collect();
        let mut whole = having.iter().filter(|f| f.pages(page) == wanted);
        match (whole.next(), whole.next(), having.as_slice()) {
            (Some(only), None, _) | (None, None, [only]) => Some(only),
            _ => None,
        }
    }
}

/// Returns the program itself, found by AT_PHDR.
pub(super) fn program<'m>(target: &dyn Target, modules: &'m [Module]) -> Option<&'m Module> {
    let headers = Addr::new(target.facts().auxv(at::PHDR)?);
    modules.iter().find(|m| matches!(m.kind, ModuleKind::Elf(_)) && m.range.contains(headers))
}

/// Returns mappings of a module's file that are not part of the loaded image, with their
/// indices.
pub(super) fn elsewhere<'t>(target: &'t dyn Target, module: &Module) -> impl Iterator<Item = (u32, &'t FileMapping)> {
    let own: HashSet<u32> = module.mappings.iter().copied().collect();
    let (path, image): (Arc<str>, AddrRange) = (module.path.clone(), module.range);
    let files = (0..).zip(&target.facts().space.files);
    files.filter(move |(i, f)| f.path == path && !own.contains(i) && !image.contains(f.range.start))
}
