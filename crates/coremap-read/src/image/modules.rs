//! Finds the program files that are loaded, and where. Joins NT_FILE with the headers in
//! memory. The dynamic linker's list supplies what NT_FILE lacks.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use goblin::elf::header::ELFMAG;
use goblin::elf::header::header64::SIZEOF_EHDR;

use crate::addr::{Addr, AddrRange};
use crate::diag::{Diagnostics, WarningCode};
use crate::image::elf::{self, ElfImage};
use crate::image::pe::{self, PeImage};
use crate::image::section::Section;
use crate::limits;
use crate::memory::Memory;
use crate::targets::{Facts, Target};
use crate::targets::{FileMapping, at};
use crate::targets::{MappingName, Perms};

/// The kind of a module.
#[derive(Clone, Debug)]
pub enum ModuleKind {
    /// ELF program or library, with its headers.
    Elf(ElfImage),
    /// PE file, with its headers.
    Pe {
        /// Headers.
        image: PeImage,
        /// Whether it is mapped as it is in the file, not by section.
        flat: bool,
    },
    /// Named like a program file, but its headers are not in the core.
    NoHeaders,
    /// An assembly in a single-file program, from the host's list. Its headers are not in the
    /// core.
    Bundled,
}

/// A program file in memory.
#[derive(Clone, Debug)]
pub struct Module {
    /// Path in NT_FILE or the dynamic linker's list. Empty if neither has one.
    pub path: Arc<str>,
    /// Kind of the module.
    pub kind: ModuleKind,
    /// Addresses from the first to the last of its mappings and segments.
    pub range: AddrRange,
    /// Indices of its mappings in NT_FILE.
    pub mappings: Vec<u32>,
    /// Sections by name and address, the most informative first.
    pub sections: Vec<Section>,
    /// How it was found, as evidence.
    pub evidence: Arc<str>,
}

/// Returns the last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Module {
    /// Returns the last part of the path, without " (deleted)".
    pub fn name(&self) -> &str {
        let path = self.path.strip_suffix(" (deleted)").unwrap_or(&self.path);
        file_name(path)
    }

    /// Returns the GNU build id in hexadecimal.
    pub fn build_id(&self) -> Option<String> {
        match &self.kind {
            ModuleKind::Elf(image) => image.build_id.as_ref().map(|id| id.iter().map(|b| format!("{b:02x}")).collect()),
            _ => None,
        }
    }

    /// Returns the section that contains `addr`, the smallest if there are several.
    pub fn section_at(&self, addr: Addr) -> Option<&Section> {
        self.sections.iter().filter(|s| s.range.contains(addr)).min_by_key(|s| s.range.len())
    }
}

/// Returns the page size of the process in bytes.
pub fn page_size(facts: &Facts) -> u64 {
    facts.page_size()
}

/// Finds all modules, sorted by address.
pub fn find(target: &dyn Target, memory: &dyn Memory, diag: &Diagnostics) -> Vec<Module> {
    let page = page_size(target.facts());
    let mut reader = HeaderReader { memory, page, parts: 0 };
    let mut modules = from_file_notes(target, &mut reader);
    add_unlisted(target, &mut reader, &mut modules);
    if reader.parts >= limits::MAX_IMAGE_PARTS {
        diag.partial(
            WarningCode::Limit,
            format!("images have more than {} segments and sections; the others are ignored", limits::MAX_IMAGE_PARTS),
        );
    }
    modules.sort_by_key(|m| (m.range.start, m.range.end));
    if modules.len() > limits::MAX_MODULES {
        diag.partial(WarningCode::Limit, format!("more than {} modules; the others are ignored", limits::MAX_MODULES));
        modules.truncate(limits::MAX_MODULES);
    }
    modules
}

fn from_file_notes(target: &dyn Target, reader: &mut HeaderReader<'_>) -> Vec<Module> {
    let files = &target.facts().space.files;
    let mut by_path: BTreeMap<&Arc<str>, Vec<u32>> = BTreeMap::new();
    for (i, f) in files.iter().enumerate() {
        if MappingName::of(&f.path) == MappingName::File {
            by_path.entry(&f.path).or_default().push(i as u32);
        }
    }
    let mut out = Vec::new();
    for (path, mut list) in by_path {
        list.sort_by_key(|&i| files[i as usize].range.start);
        let mut open: Option<Module> = None;
        let mut has_code = false;
        for (n, &i) in list.iter().enumerate() {
            let f = &files[i as usize];
            let next = list.get(n + 1).and_then(|&i| files.get(i as usize));
            let is_code = perms(target, f).is_some_and(|p| p.exec);
            if let Some(module) = &mut open
                && (continues(module, f.range.start, f.offset)
                    || repeats_headers(target, module, f, reader)
                    || (has_code && repeats_offset(target, module, f, next, reader)))
            {
                has_code |= is_code;
                module.range.end = module.range.end.max(f.range.end);
                module.mappings.push(i);
                take_headers_again(module, f, reader);
                continue;
            }
            out.extend(open.take().and_then(|m| finish(m, target)));
            has_code = is_code;
            let headers = if f.offset == 0 { reader.headers(f.range.start) } else { None };
            if let Some(ModuleKind::Elf(image)) = &headers
                && is_flat(target, image, f)
            {
                // A program reads an ELF file as data here: MappedFile is right.
                continue;
            }
            let range = match &headers {
                Some(ModuleKind::Elf(image)) => image.range,
                Some(ModuleKind::Pe { image, flat: false }) => AddrRange::sized(f.range.start, image.size_of_image),
                _ => f.range,
            };
            let headers = headers.map(|h| match h {
                ModuleKind::Pe { image, .. } => ModuleKind::Pe { flat: holds_file(&image, f), image },
                other => other,
            });
            let range = if matches!(headers, Some(ModuleKind::Pe { flat: true, .. })) { f.range } else { range };
            open = Some(Module {
                path: path.clone(),
                range: AddrRange::new(range.start.min(f.range.start), range.end.max(f.range.end)),
                mappings: vec![i],
                sections: Vec::new(),
                evidence: if headers.is_some() { "NT_FILE, and its headers in memory" } else { "NT_FILE, by its name" }
                    .into(),
                kind: headers.unwrap_or(ModuleKind::NoHeaders),
            });
        }
        out.extend(open.and_then(|m| finish(m, target)));
    }
    out
}

/// Reads the headers from a section that is mapped from offset 0, which shows them a second
/// time. Used if the headers' own page was not dumped.
fn take_headers_again(module: &mut Module, mapping: &FileMapping, reader: &mut HeaderReader<'_>) {
    if !matches!(module.kind, ModuleKind::NoHeaders) || mapping.offset != 0 {
        return;
    }
    if let Some(kind @ ModuleKind::Pe { .. }) = reader.headers(mapping.range.start) {
        if let ModuleKind::Pe { image, .. } = &kind {
            let whole = AddrRange::sized(module.range.start, image.size_of_image);
            module.range.end = module.range.end.max(whole.end);
        }
        module.kind = kind;
        module.evidence = "NT_FILE, and its headers in a mapped section".into();
    }
}

/// Whether a mapping from offset 0 is a data segment of the preceding module, and has the headers that this module
/// lacks. They become the module's.
fn repeats_headers(target: &dyn Target, module: &mut Module, f: &FileMapping, reader: &mut HeaderReader<'_>) -> bool {
    let files = &target.facts().space.files;
    let base = module.mappings.first().and_then(|&m| files.get(m as usize)).filter(|first| first.offset == 0);
    let (Some(base), true) = (base, f.offset == 0 && matches!(module.kind, ModuleKind::NoHeaders)) else {
        return false;
    };
    let Some(image) = reader.elf_copy(base.range.start, f.range.start) else { return false };
    module.range.end = module.range.end.max(image.range.end);
    module.kind = ModuleKind::Elf(image);
    module.evidence = "NT_FILE, and its headers in a data segment that repeats them".into();
    true
}

/// Whether a mapping from offset 0 is a data segment of the preceding module. Used if that module has code and no
/// headers. In each copy of a file, code comes first and data last.
fn repeats_offset(
    target: &dyn Target,
    module: &Module,
    f: &FileMapping,
    next: Option<&FileMapping>,
    reader: &mut HeaderReader<'_>,
) -> bool {
    let files = &target.facts().space.files;
    let begins_file = module.mappings.first().and_then(|&m| files.get(m as usize)).is_some_and(|m| m.offset == 0);
    let is_near = f.range.end.since(module.range.start) <= limits::MAX_IMAGE_SPAN;
    if f.offset != 0 || !matches!(module.kind, ModuleKind::NoHeaders) || !begins_file || !is_near {
        return false;
    }
    let is_data = |f: &FileMapping| perms(target, f).is_some_and(|p| p.write && !p.exec);
    let is_relro = || {
        let before_data = next.is_some_and(|next| next.range.start == f.range.end && is_data(next));
        before_data && perms(target, f).is_some_and(|p| !p.exec)
    };
    (is_data(f) || is_relro()) && !is_pe_name(module.name()) && reader.headers(f.range.start).is_none()
}

/// Access to the memory of a file mapping.
fn perms(target: &dyn Target, f: &FileMapping) -> Option<Perms> {
    target.facts().space.mapping_at(f.range.start).map(|m| m.perms)
}

/// Reads headers within a budget, since one header page may be mapped at a million addresses.
struct HeaderReader<'a> {
    memory: &'a dyn Memory,
    page: u64,
    parts: usize,
}

impl HeaderReader<'_> {
    fn elf(&mut self, base: Addr) -> Option<ElfImage> {
        if self.parts >= limits::MAX_IMAGE_PARTS {
            return None;
        }
        let image = elf::read(self.memory, base, self.page)?;
        self.parts += image.segments.len() + image.sections.len();
        Some(image)
    }

    /// Reads the headers of the image at `base` from another page that has them.
    fn elf_copy(&mut self, base: Addr, copy: Addr) -> Option<ElfImage> {
        if self.parts >= limits::MAX_IMAGE_PARTS {
            return None;
        }
        let image = elf::read_copy(self.memory, base, copy, self.page)?;
        self.parts += image.segments.len() + image.sections.len();
        Some(image)
    }

    fn headers(&mut self, base: Addr) -> Option<ModuleKind> {
        if let Some(image) = self.elf(base) {
            return Some(ModuleKind::Elf(image));
        }
        let image = pe::read(self.memory, base).filter(|_| self.parts < limits::MAX_IMAGE_PARTS)?;
        self.parts += image.sections.len();
        Some(ModuleKind::Pe { image, flat: false })
    }
}

/// Whether a mapping of the same file belongs to the preceding module.
fn continues(module: &Module, start: Addr, offset: u64) -> bool {
    match &module.kind {
        // The offset is no evidence: a first section whose file offset is not a multiple of the
        // page size is mapped from offset 0 too.
        ModuleKind::Elf(_) | ModuleKind::Pe { flat: false, .. } => module.range.contains(start),
        // A flat file may be mapped in adjacent parts.
        ModuleKind::Bundled => false,
        ModuleKind::Pe { flat: true, .. } => offset != 0 && start == module.range.end,
        // Without headers: .NET maps a PE's headers alone, and the sections from the next 64
        // KiB on. The first of them is often mapped from offset 0 again.
        ModuleKind::NoHeaders => {
            let headers_only = module.mappings.len() == 1 && module.range.len() <= PE_SECTION_ALIGNMENT;
            let at_next = start.since(module.range.end) < PE_SECTION_ALIGNMENT
                && start.since(module.range.start).is_multiple_of(PE_SECTION_ALIGNMENT);
            offset != 0 || (headers_only && at_next && is_pe_name(module.name()))
        }
    }
}

/// SectionAlignment of images that .NET's compilers produce for Linux.
const PE_SECTION_ALIGNMENT: u64 = 64 << 10;

/// Whether a file with this name is a PE file, that is, an image with managed code.
pub fn is_pe_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.ends_with(".dll") || lower.ends_with(".exe")
}

/// Whether a mapping of an ELF file shows the file and not the loaded image. Such a mapping
/// extends over a later segment. There it has other bytes of the file than the headers require,
/// or code without execute permission.
fn is_flat(target: &dyn Target, image: &ElfImage, mapping: &FileMapping) -> bool {
    let base = mapping.range.start;
    let perms = perms(target, mapping);
    image
        .segments
        .iter()
        .filter(|s| s.range.start != base && mapping.range.contains(s.range.start))
        .any(|s| s.file_offset != s.range.start.since(base) || (s.perms.exec && perms.is_some_and(|p| !p.exec)))
}

/// Whether the first mapping of a PE file covers the whole file.
fn holds_file(image: &PeImage, mapping: &FileMapping) -> bool {
    let end = image.sections.iter().map(|s| s.file_offset.saturating_add(s.file_size)).max();
    end.is_some_and(|end| end <= mapping.range.len())
}

/// Completes a group of mappings as a module. `None` if it is plain data.
fn finish(mut module: Module, target: &dyn Target) -> Option<Module> {
    let files = &target.facts().space.files;
    match &mut module.kind {
        ModuleKind::Elf(image) => {
            module.sections = std::mem::take(&mut image.sections);
        }
        ModuleKind::Pe { image, flat } => {
            let base = files[module.mappings[0] as usize].range.start;
            module.sections = image.placed(base, *flat);
        }
        ModuleKind::Bundled => {}
        ModuleKind::NoHeaders => {
            let parts = || module.mappings.iter().filter_map(|&i| files.get(i as usize));
            if parts().any(|f| contains_entry(target, f.range)) {
                module.evidence = "NT_FILE; AT_ENTRY or AT_PHDR is in it".into();
            } else if !named_like_a_program(module.name()) && !is_mapped_like_a_program(target, parts()) {
                return None;
            }
        }
    }
    Some(module)
}

/// Whether a file is named like a library: `libc.so.6`, `System.Private.CoreLib.dll`,
/// `ld-2.31.so`.
fn named_like_a_program(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    is_pe_name(name) || lower.ends_with(".so") || lower.contains(".so.")
}

/// Whether the mapping contains the program's entry point or its program headers. A program may have any name.
fn contains_entry(target: &dyn Target, range: AddrRange) -> bool {
    [at::ENTRY, at::PHDR].iter().filter_map(|&key| target.facts().auxv(key)).any(|addr| range.contains(Addr::new(addr)))
}

/// Whether some mappings of a file are executable and others are not. Plug-ins have any name. A file that is executable
/// as a whole is no program: profilers map their logs (jitdump) that way, so that perf records the mapping.
fn is_mapped_like_a_program<'a>(target: &dyn Target, parts: impl Iterator<Item = &'a FileMapping>) -> bool {
    let (code, data): (Vec<Perms>, Vec<Perms>) = parts.filter_map(|f| perms(target, f)).partition(|p| p.exec);
    !code.is_empty() && !data.is_empty()
}

/// Adds modules that NT_FILE does not list (qemu writes none; createdump leaves out deleted
/// files). They are found by the dynamic linker's list, the auxiliary vector, and ELF headers
/// at the start of segments.
fn add_unlisted(target: &dyn Target, reader: &mut HeaderReader<'_>, modules: &mut Vec<Module>) {
    let (memory, page) = (reader.memory, reader.page);
    let mut starts: Vec<(Addr, Option<String>, &str)> = Vec::new();
    let vdso = target.facts().auxv(at::SYSINFO_EHDR).map(Addr::new);
    if let Some(base) = target.facts().auxv(at::BASE).filter(|&b| b != 0) {
        starts.push((Addr::new(base), None, "AT_BASE"));
    }
    let program = program(target, memory, page);
    if let Some(program) = &program {
        let name = target.facts().auxv(at::EXECFN).and_then(|p| memory.text(Addr::new(p), limits::MAX_NAME).ok());
        starts.push((program.0, name, "AT_PHDR"));
    }
    let dynamic = program.and_then(|(_, image)| image.dynamic).or_else(|| listed_program(target, modules)?.dynamic);
    if let Some(dynamic) = dynamic {
        for linked in elf::link_map(memory, dynamic).into_iter().filter(|l| !l.name.is_empty()) {
            starts.push((Addr::new(linked.bias), Some(linked.name), "the dynamic linker's list"));
        }
    }
    // Files in NT_FILE were already examined under their names.
    let unlisted = || target.facts().space.pieces.iter().filter(|p| !target.facts().space.is_listed(p.range.start));
    target.expect(unlisted().map(|p| AddrRange::sized(p.range.start, SIZEOF_EHDR as u64)));
    for piece in unlisted() {
        if target.peek(piece.range.start).is_some_and(|magic| magic != *ELFMAG) {
            continue;
        }
        starts.push((piece.range.start, None, "an ELF header at the start of a segment"));
    }
    let mut known: HashSet<Addr> = HashSet::new();
    let mut sorted: Vec<AddrRange> = crate::addr::union(modules.iter().map(|m| m.range).collect());
    for (start, name, how) in starts {
        let i = sorted.partition_point(|r| r.end <= start);
        let covered = sorted.get(i).is_some_and(|r| r.contains(start));
        if covered || Some(start) == vdso || !known.insert(start) || modules.len() > limits::MAX_MODULES {
            continue;
        }
        let Some(mut image) = reader.elf(start) else { continue };
        let name = name.or_else(|| elf::soname(memory, &image)).unwrap_or_default();
        let i = sorted.partition_point(|r| r.start < image.range.start);
        sorted.insert(i, image.range);
        modules.push(Module {
            path: name.into(),
            range: image.range,
            mappings: Vec::new(),
            sections: std::mem::take(&mut image.sections),
            evidence: how.into(),
            kind: ModuleKind::Elf(image),
        });
    }
}

/// Returns the program's image among the modules of NT_FILE. The page at AT_PHDR may be missing from the core.
fn listed_program<'a>(target: &dyn Target, modules: &'a [Module]) -> Option<&'a ElfImage> {
    let headers = Addr::new(target.facts().auxv(at::PHDR)?);
    modules.iter().filter(|m| m.range.contains(headers)).find_map(|m| match &m.kind {
        ModuleKind::Elf(image) => Some(image),
        _ => None,
    })
}

/// Returns the program's base address and image, found by AT_PHDR.
pub fn program(target: &dyn Target, memory: &dyn Memory, page: u64) -> Option<(Addr, ElfImage)> {
    let headers = Addr::new(target.facts().auxv(at::PHDR)?);
    let base = headers.align_down(page);
    elf::read(memory, base, page).map(|image| (base, image))
}
