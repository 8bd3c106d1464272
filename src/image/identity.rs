//! The proof that a file under `--symbols` is the build the core maps.

use std::collections::{HashMap, HashSet};

use crate::addr::AddrRange;
use crate::core::mapped::MappedFile;
use crate::core::open::Core;
use crate::diag::Diagnostics;
use crate::image::elf;
use crate::image::modules::{Module, ModuleKind, page_size};
use crate::image::pe;
use crate::image::symbol_dirs::{Found, Place, SymbolDirs};
use crate::memory::Overlay;
use crate::range_map::RangeMap;

/// How a file was proven to be the module's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// GNU build ids are equal.
    BuildId,
    /// All bytes that both have and nobody writes are equal.
    Bytes,
    /// The core has no byte of it: name, size, and place of each section fit.
    Layout,
}

/// A proven file, ready to fill in for a module.
pub struct Proven {
    /// Index of the module.
    pub module: usize,
    /// Its file.
    pub map: MappedFile,
}

/// For each module that lacks bytes, the file under `dirs` that is the same build.
pub fn prove(core: &Core, modules: &[Module], dirs: &SymbolDirs, diag: &Diagnostics) -> Vec<Proven> {
    let mut out = Vec::new();
    let mut by_layout: Vec<&str> = Vec::new();
    let mut refused: Vec<(Unused, &str)> = Vec::new();
    for (i, module) in modules.iter().enumerate() {
        let lacks = |m: &u32| {
            let range = core.notes.files[*m as usize].range;
            core.dumped_in(range) < range.len()
        };
        if !module.mappings.iter().any(lacks) {
            continue;
        }
        let (mut found, mut unused) = (None, Unused::Missing);
        for place in dirs.candidates(module) {
            match proven(core, module, dirs, &place) {
                Ok(proven) => {
                    found = Some(proven);
                    break;
                }
                Err(why) => unused = unused.max(why),
            }
        }
        match found {
            Some((map, proof)) => {
                if proof == Proof::Layout {
                    by_layout.push(module.name());
                }
                out.push(Proven { module: i, map });
            }
            None => refused.push((unused, module.name())),
        }
    }
    tell(
        diag,
        "symbols-unproven",
        &by_layout,
        "taken by name, size and place of sections: the core has no byte of them to compare",
    );
    for (why, code, what) in [
        (Unused::Mismatch, "symbols-mismatch", "not used: not the build that the core maps"),
        (Unused::NoProgram, "symbols-no-program", "not used: neither an ELF nor a PE file"),
        (
            Unused::Astray,
            "symbols-astray",
            "not used: a link that leads out of the folder, or to nothing; name a folder that holds both",
        ),
    ] {
        let names: Vec<&str> = refused.iter().filter(|r| r.0 == why).map(|r| r.1).collect();
        tell(diag, code, &names, what);
    }
    out
}

/// Why what may be at a place is not used; what tells most comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unused {
    /// There is no file.
    Missing,
    /// A link leads out of the folder.
    Astray,
    /// A file that is no program file.
    NoProgram,
    /// A program file of another build, as far as can be told.
    Mismatch,
}

fn proven(core: &Core, module: &Module, dirs: &SymbolDirs, place: &Place) -> Result<(MappedFile, Proof), Unused> {
    let file = match dirs.look(place) {
        Found::File(file) => file,
        Found::Astray => return Err(Unused::Astray),
        Found::Nothing => return Err(Unused::Missing),
    };
    let map = MappedFile::map(&file).map_err(|_| Unused::NoProgram)?;
    if !is_program(&map) {
        return Err(Unused::NoProgram);
    }
    let proof = proof(core, module, &map).ok_or(Unused::Mismatch)?;
    tracing::debug!(module = module.name(), ?proof, file = %dirs.path(place).display(), "the same build");
    Ok((map, proof))
}

/// Whether it begins as program files do. A module without headers in the core is known by
/// its size alone, and any file may have that.
fn is_program(file: &[u8]) -> bool {
    file.starts_with(b"\x7fELF") || pe::parse(&file[..file.len().min(4096)]).is_some()
}

/// The file under `dirs` that is the same build as the module, whether or not
/// the core has all of its bytes.
pub fn file_of(core: &Core, module: &Module, dirs: &SymbolDirs) -> Option<MappedFile> {
    let found = dirs.candidates(module).into_iter().find_map(|place| proven(core, module, dirs, &place).ok());
    found.filter(|(_, proof)| *proof != Proof::Layout).map(|(map, _)| map)
}

/// The file under `dirs` that holds the symbols cut off from the module's own:
/// one with the same build id. A link's checksum (.gnu_debuglink) is no proof,
/// as only the file knows it.
pub fn debug_file_of(module: &Module, dirs: &SymbolDirs) -> Option<MappedFile> {
    let ModuleKind::Elf(image) = &module.kind else { return None };
    let wanted = image.build_id.as_ref()?;
    dirs.debug_candidates(module).into_iter().find_map(|place| {
        let Found::File(file) = dirs.look(&place) else { return None };
        let map = MappedFile::map(&file).ok()?;
        (elf::file_build_id(&map).as_ref() == Some(wanted)).then_some(map)
    })
}

/// One line for all files of one fate.
fn tell(diag: &Diagnostics, code: &'static str, names: &[&str], what: &str) {
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    if let Some(first) = names.first() {
        let more = if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
        diag.note(code, format!("--symbols: {first}{more}: {what}"));
    }
}

fn proof(core: &Core, module: &Module, file: &[u8]) -> Option<Proof> {
    match &module.kind {
        ModuleKind::Elf(image) => match (&image.build_id, elf::file_build_id(file)) {
            (Some(a), Some(b)) => (*a == b).then_some(Proof::BuildId),
            _ => same_bytes(core, module, file)?.then_some(Proof::Bytes),
        },
        ModuleKind::Pe { flat: true, .. } => same_bytes(core, module, file)?.then_some(Proof::Bytes),
        ModuleKind::Pe { image, flat: false } => same_headers(core, module, image, file).then_some(Proof::Bytes),
        ModuleKind::NoHeaders => same_layout(core, module, file).then_some(Proof::Layout),
    }
}

/// Whether the headers of a PE file laid out by section are the file's. Its
/// sections can't be compared: those that are dumped were relocated.
fn same_headers(core: &Core, module: &Module, image: &pe::PeImage, file: &[u8]) -> bool {
    let Some(&first) = module.mappings.first() else { return false };
    let base = core.notes.files[first as usize].range.start;
    let runs = core.dumped_runs(AddrRange::sized(base, image.size_of_headers));
    runs.first().filter(|r| r.range.start == base).is_some_and(|r| file.get(..r.bytes.len()) == Some(r.bytes))
}

/// Compare all read-only bytes that both core and file have; `None` where there
/// are none.
fn same_bytes(core: &Core, module: &Module, file: &[u8]) -> Option<bool> {
    let mut compared = 0;
    for &m in &module.mappings {
        let mapping = &core.notes.files[m as usize];
        let runs = core.dumped_runs(mapping.range);
        // What could not be read proves nothing.
        if runs.iter().map(|r| r.range.len()).sum::<u64>() < core.dumped_in(mapping.range) {
            return None;
        }
        for run in runs {
            if !is_read_only(core, module, run.range) {
                continue;
            }
            let from = usize::try_from(mapping.offset.checked_add(run.range.start.since(mapping.range.start))?).ok()?;
            let Some(other) = file.get(from..) else { continue };
            let n = other.len().min(run.bytes.len());
            if run.bytes[..n] != other[..n] {
                return Some(false);
            }
            compared += n;
        }
    }
    (compared > 0).then_some(true)
}

/// Whether each mapping shows a part of the file that belongs there: a flat
/// mapping all of it, a mapping of a section that section.
fn same_layout(core: &Core, module: &Module, file: &[u8]) -> bool {
    let page = page_size(core);
    let files = || module.mappings.iter().map(|&m| &core.notes.files[m as usize]);
    let Some(base) = files().map(|f| f.range.start).min() else { return false };
    let flat_end = files().map(|f| f.offset.saturating_add(f.range.len())).max();
    let flat = files().all(|f| f.range.start.since(base) == f.offset);
    if flat && flat_end == Some((file.len() as u64).next_multiple_of(page)) {
        return true;
    }
    let Some(image) = pe::parse(&file[..file.len().min(4096)]) else { return false };
    let down = |v: u64| v & !(page - 1);
    files().all(|f| {
        let rva = f.range.start.since(base);
        let headers = rva == 0 && f.offset == 0;
        headers
            || image.sections.iter().any(|s| {
                let inside = rva >= down(s.rva)
                    && rva.saturating_add(f.range.len())
                        <= (s.rva + s.virtual_size.max(s.file_size)).next_multiple_of(page);
                inside && rva - down(s.rva) == f.offset.wrapping_sub(down(s.file_offset))
            })
    })
}

/// Whether the module's own headers, or the segment, say that nobody wrote here.
fn is_read_only(core: &Core, module: &Module, range: AddrRange) -> bool {
    if let Some(piece) = core.pieces.at(range.start)
        && core.segments[piece.segment as usize].perms.write
    {
        return false;
    }
    match &module.kind {
        ModuleKind::Elf(image) => {
            let relro = |s: &&crate::image::Section| s.name == ".data.rel.ro" || s.name == ".dynamic";
            !image.segments.iter().any(|s| s.perms.write && s.range.intersect(&range).is_some())
                && !module.sections.iter().filter(relro).any(|s| s.range.intersect(&range).is_some())
        }
        ModuleKind::Pe { image, flat } => {
            let base = module.range.start;
            *flat
                || !image.sections.iter().any(|s| {
                    let section = AddrRange::sized(base.saturating_add(s.rva), s.virtual_size);
                    s.writable && section.intersect(&range).is_some()
                })
        }
        ModuleKind::NoHeaders => true,
    }
}

/// The runs of memory that proven files can fill in: read-only parts only, as
/// what a process wrote is in no file. Then those of writable parts of PE files,
/// which only tells how they were before anybody wrote.
pub fn overlays(core: &Core, modules: &[Module], proven: &[Proven]) -> (RangeMap<Overlay>, RangeMap<Overlay>) {
    let mut out = Vec::new();
    let mut originals = Vec::new();
    let taken: HashSet<u32> = modules.iter().flat_map(|m| m.mappings.iter().copied()).collect();
    let mut by_path: HashMap<&str, Vec<u32>> = HashMap::new();
    for (i, f) in (0..).zip(&core.notes.files).filter(|(i, _)| !taken.contains(i)) {
        by_path.entry(&f.path).or_default().push(i);
    }
    for (file, p) in proven.iter().enumerate() {
        let mut module = modules[p.module].clone();
        if matches!(module.kind, ModuleKind::NoHeaders) {
            // Now that its headers can be read, they say what is writable.
            if let Some(image) = pe::parse(&p.map[..p.map.len().min(4096)]) {
                module.kind = ModuleKind::Pe { image, flat: module.mappings.len() == 1 };
            }
        }
        // Other parts of the same file mapped elsewhere, as a single-file program
        // maps the assemblies in its bundle.
        let outside = |i: &&u32| !module.range.contains(core.notes.files[**i as usize].range.start);
        let elsewhere = by_path.get(&*module.path).into_iter().flatten().filter(outside);
        for &m in module.mappings.iter().chain(elsewhere) {
            let mapping = &core.notes.files[m as usize];
            let read_only = is_read_only(core, &module, mapping.range);
            if !read_only && !matches!(module.kind, ModuleKind::Pe { .. }) {
                continue;
            }
            let have = (p.map.len() as u64).saturating_sub(mapping.offset);
            let range = AddrRange::sized(mapping.range.start, mapping.range.len().min(have));
            if !range.is_empty() {
                let to = if read_only { &mut out } else { &mut originals };
                to.push(Overlay { range, file, offset: mapping.offset });
            }
        }
    }
    (first_of_each(&out), first_of_each(&originals))
}

/// NT_FILE of a damaged core may list a range twice: the first counts.
fn first_of_each(overlays: &[Overlay]) -> RangeMap<Overlay> {
    RangeMap::resolve(
        overlays,
        |i, o| (o.range, std::cmp::Reverse(i)),
        |range, o| Overlay { range, offset: o.offset + range.start.since(o.range.start), file: o.file },
    )
}
