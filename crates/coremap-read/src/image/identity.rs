//! Proves that a file under `--symbols` is the build the core maps.

use std::collections::{HashMap, HashSet};
use std::fs::File;

use crate::addr::AddrRange;
use crate::core::mapped::MappedFile;
use crate::diag::{Diagnostics, WarningCode};
use crate::image::elf;
use crate::image::elf_identity;
use crate::image::modules::{Module, ModuleKind, page_size};
use crate::image::pe;
use crate::image::pe_identity::{self, Evidence};
use crate::image::symbol_dirs::{Location, Opened, SymbolDirs};
use crate::memory::Overlay;
use crate::range_map::RangeMap;
use crate::targets::{Facts, Target};

/// The proof that a file is the module's, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Proof {
    /// The core has no byte of it. Name and number of pages match.
    Pages,
    /// The core has no byte of it. The name matches, and so do offset and length of each
    /// section or segment.
    Sections,
    /// The core has no byte of it, but another mapping of the same path was proven.
    Elsewhere,
    /// The core has none of its read-only bytes, but the words that the dynamic linker wrote follow from this file.
    Relocated,
    /// All bytes that both have and that nobody writes are equal.
    Bytes,
    /// GNU build ids are equal.
    BuildId,
}

/// Warnings for files that none of their own bytes prove.
const WEAK: &[(Proof, &str)] = &[
    (Proof::Elsewhere, "accepted because another mapping of the same path has this file's bytes"),
    (
        Proof::Sections,
        "accepted by name, and by offset and length of sections or segments; the core has none of its bytes to compare",
    ),
    (Proof::Pages, "accepted by name and number of pages; the core has none of its bytes to compare"),
];

/// A proven file of a module.
pub struct Proven {
    /// Index of the module.
    pub module: usize,
    /// Mapped file.
    pub map: MappedFile,
}

/// Returns the proven file under `dirs` of each module whose bytes are not all in the core.
pub fn prove(target: &dyn Target, modules: &[Module], dirs: &SymbolDirs, diag: &Diagnostics) -> Vec<Proven> {
    let mut found: Vec<(usize, Candidate)> = Vec::new();
    let mut refused: Vec<(Unused, &str)> = Vec::new();
    for (i, module) in modules.iter().enumerate().filter(|(_, m)| is_incomplete(target, m)) {
        match best(target, module, dirs) {
            Ok(candidate) => found.push((i, candidate)),
            Err(unused) => refused.push((unused, module.name())),
        }
    }
    by_other_mappings(target, modules, dirs, &mut found);
    for (proof, what) in WEAK {
        let with = found.iter().filter(|(_, c)| c.proof == *proof);
        let names: Vec<&str> = with.filter_map(|(i, _)| Some(modules.get(*i)?.name())).collect();
        note_files(diag, WarningCode::SymbolsUnproven, &names, what);
    }
    for (why, code, what) in [
        (Unused::Mismatch, WarningCode::SymbolsMismatch, "not used: not the build that the process mapped"),
        (Unused::NoProgram, WarningCode::SymbolsNoProgram, "not used: neither an ELF nor a PE file"),
        (
            Unused::StrayLink,
            WarningCode::SymbolsAstray,
            "not used: the link leads out of the folder or to nothing; name a folder that contains the link and its \
             target",
        ),
    ] {
        let names: Vec<&str> = refused.iter().filter(|r| r.0 == why).map(|r| r.1).collect();
        note_files(diag, code, &names, what);
    }
    found.into_iter().map(|(module, candidate)| Proven { module, map: candidate.map }).collect()
}

struct Candidate {
    map: MappedFile,
    place: Location,
    proof: Proof,
}

/// Whether the core lacks any byte of the module's mappings.
fn is_incomplete(target: &dyn Target, module: &Module) -> bool {
    let mut ranges = module.mappings.iter().map(|m| target.facts().space.files[*m as usize].range);
    ranges.any(|range| target.facts().space.dumped_in(range) < range.len())
}

/// Returns the file with the strongest proof, the first of equal ones.
fn best(target: &dyn Target, module: &Module, dirs: &SymbolDirs) -> Result<Candidate, Unused> {
    let mut out: Result<Candidate, Unused> = Err(Unused::Missing);
    for place in dirs.candidates(module) {
        match (proven(target, module, dirs, &place), &out) {
            (Ok((map, proof)), _) if proof >= Proof::Relocated => return Ok(Candidate { map, place, proof }),
            (Ok((_, proof)), Ok(have)) if proof <= have.proof => {}
            (Ok((map, proof)), _) => out = Ok(Candidate { map, place, proof }),
            (Err(why), Err(unused)) if why > *unused => out = Err(why),
            (Err(_), _) => {}
        }
    }
    out
}

/// Accepts files by the proof of another mapping. .NET maps one file flat and by section,
/// so the bytes in the core of one mapping prove the file for both.
fn by_other_mappings(target: &dyn Target, modules: &[Module], dirs: &SymbolDirs, found: &mut [(usize, Candidate)]) {
    let path = |i: usize| modules.get(i).map_or("", |m| &*m.path);
    let weak = |c: &Candidate| c.proof < Proof::Elsewhere;
    let mut wanted: HashSet<&str> = found.iter().filter(|(_, c)| weak(c)).map(|(i, _)| path(*i)).collect();
    let mut by_path: HashMap<&str, Location> = HashMap::new();
    for (i, candidate) in found.iter().filter(|(_, c)| c.proof >= Proof::Relocated) {
        if wanted.remove(path(*i)) {
            by_path.insert(path(*i), candidate.place.clone());
        }
    }
    // Modules that lack nothing need no file, but may prove one.
    for module in modules.iter().filter(|m| !is_incomplete(target, m)) {
        if wanted.contains(&*module.path)
            && let Ok(candidate) = best(target, module, dirs)
            && candidate.proof >= Proof::Relocated
        {
            wanted.remove(&*module.path);
            by_path.insert(&module.path, candidate.place);
        }
    }
    for (i, candidate) in found.iter_mut().filter(|(_, c)| weak(c)) {
        let Some(module) = modules.get(*i) else { continue };
        if let Some(place) = by_path.get(&*module.path)
            && let Ok((map, _)) = proven(target, module, dirs, place)
        {
            *candidate = Candidate { map, place: place.clone(), proof: Proof::Elsewhere };
        }
    }
}

/// The reason why a candidate is not used, the most informative last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unused {
    /// No file exists.
    Missing,
    /// A link leads out of the folder.
    StrayLink,
    /// The file is no program file.
    NoProgram,
    /// A program file of another build, as far as can be determined.
    Mismatch,
}

fn proven(
    target: &dyn Target,
    module: &Module,
    dirs: &SymbolDirs,
    place: &Location,
) -> Result<(MappedFile, Proof), Unused> {
    let file = match dirs.look(place) {
        Opened::File(file) => file,
        Opened::StrayLink => return Err(Unused::StrayLink),
        Opened::Nothing => return Err(Unused::Missing),
    };
    let (map, proof) = proven_file(target, module, dirs, &file)?;
    tracing::debug!(module = module.name(), ?proof, file = %dirs.path(place).display(), "the same build");
    Ok((map, proof))
}

fn proven_file(
    target: &dyn Target,
    module: &Module,
    dirs: &SymbolDirs,
    file: &File,
) -> Result<(MappedFile, Proof), Unused> {
    let map = MappedFile::map(file, dirs.losses()).map_err(|_| Unused::NoProgram)?;
    if !is_program(&map) {
        return Err(Unused::NoProgram);
    }
    let proof = proof(target, module, &map).ok_or(Unused::Mismatch)?;
    Ok((map, proof))
}

/// Whether the file begins like a program file. A module whose headers are not in the core
/// is recognised by its size alone, and any file may have that size.
fn is_program(file: &[u8]) -> bool {
    elf::is_elf(file) || pe::of_file(file).is_some()
}

/// Returns the files that are the same build as the module, whether or not the core has all
/// of its bytes: those under `dirs`, and the mapped file itself if the target can open it.
/// One may be stripped and another not.
pub fn files_of<'a>(
    target: &'a dyn Target,
    module: &'a Module,
    dirs: &'a SymbolDirs,
) -> impl Iterator<Item = MappedFile> + 'a {
    let given = dirs.candidates(module).into_iter().map(|place| proven(target, module, dirs, &place));
    let mapped = module.mappings.first().and_then(|&m| target.facts().space.files.get(m as usize));
    let mapped = mapped.into_iter().filter_map(|mapping| target.mapped_file(mapping.range));
    let all = given.chain(mapped.map(|file| proven_file(target, module, dirs, &file)));
    let all: Vec<(MappedFile, Proof)> = all.flatten().collect();
    // Files with a weaker proof have a warning, and their bytes are in memory already.
    let is_proven = all.iter().any(|(_, proof)| *proof >= Proof::Relocated);
    let least = if is_proven { Proof::Relocated } else { Proof::Sections };
    all.into_iter().filter(move |(_, proof)| *proof >= least).map(|(map, _)| map)
}

/// Returns the files under `dirs` with the symbols stripped from the module's own file: those
/// with the same build id. A .gnu_debuglink checksum is no proof, because only the module's
/// file contains it.
pub fn debug_files_of<'a>(module: &'a Module, dirs: &'a SymbolDirs) -> impl Iterator<Item = MappedFile> + 'a {
    let wanted = match &module.kind {
        ModuleKind::Elf(image) => image.build_id.as_ref(),
        _ => None,
    };
    let places = wanted.map(|_| dirs.debug_candidates(module)).unwrap_or_default();
    places.into_iter().filter_map(move |place| {
        let Opened::File(file) = dirs.look(&place) else { return None };
        let map = MappedFile::map(&file, dirs.losses()).ok()?;
        (elf::file_build_id(&map).as_ref() == wanted).then_some(map)
    })
}

/// Returns the load bias of a proven ELF file. `None` for other files.
pub(crate) fn load_bias(target: &dyn Target, module: &Module, file: &[u8]) -> Option<u64> {
    match &module.kind {
        ModuleKind::Elf(image) => Some(image.bias),
        ModuleKind::NoHeaders => elf_identity::placed(target, module, file).map(|image| image.bias),
        ModuleKind::Pe { .. } | ModuleKind::Bundled => None,
    }
}

/// Writes one line for all files with the same result.
fn note_files(diag: &Diagnostics, code: WarningCode, names: &[&str], what: &str) {
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    if let Some(first) = names.first() {
        let more = if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
        diag.note(code, format!("--symbols: {first}{more}: {what}"));
    }
}

fn proof(target: &dyn Target, module: &Module, file: &[u8]) -> Option<Proof> {
    match &module.kind {
        ModuleKind::Elf(image) => match (&image.build_id, elf::file_build_id(file)) {
            (Some(a), Some(b)) => (*a == b).then_some(Proof::BuildId),
            _ => same_bytes(target, module, file)?.then_some(Proof::Bytes),
        },
        ModuleKind::Pe { flat: true, .. } => same_bytes(target, module, file)?.then_some(Proof::Bytes),
        // The proof of the program covers the files in it.
        ModuleKind::Bundled => None,
        ModuleKind::NoHeaders if elf::is_elf(file) => Some(match elf_identity::compare(target, module, file)? {
            elf_identity::Evidence::Bytes => Proof::Bytes,
            elf_identity::Evidence::Relocated => Proof::Relocated,
            elf_identity::Evidence::Segments => Proof::Sections,
        }),
        ModuleKind::Pe { flat: false, .. } | ModuleKind::NoHeaders => {
            Some(match pe_identity::compare(target, module, file)? {
                Evidence::Bytes => Proof::Bytes,
                Evidence::Sections => Proof::Sections,
                Evidence::Pages => Proof::Pages,
            })
        }
    }
}

/// Compares all read-only bytes that both core and file have. `None` if there are none.
fn same_bytes(target: &dyn Target, module: &Module, file: &[u8]) -> Option<bool> {
    let mut compared = 0;
    for &m in &module.mappings {
        let mapping = &target.facts().space.files[m as usize];
        for run in elf_identity::readable(target, mapping.range)? {
            if !is_read_only(target.facts(), module, run.range) {
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

/// Whether the module's own headers, and the segment, say that nobody writes here.
fn is_read_only(facts: &Facts, module: &Module, range: AddrRange) -> bool {
    if let Some(piece) = facts.space.pieces.at(range.start)
        && facts.space.mappings[piece.mapping as usize].perms.write
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
        ModuleKind::NoHeaders | ModuleKind::Bundled => true,
    }
}

/// Returns the ranges of memory that proven files can fill in. The first list has read-only
/// parts only, because no file has what a process wrote. The second has writable parts of
/// PE files, which show only what was there before anybody wrote. For the file of module
/// `image_only`, only ranges in its image are returned.
pub(crate) fn overlays(
    target: &dyn Target,
    modules: &[Module],
    proven: &[Proven],
    image_only: Option<usize>,
) -> (RangeMap<Overlay>, RangeMap<Overlay>) {
    let facts = target.facts();
    let mut out = Vec::new();
    let mut originals = Vec::new();
    let taken: HashSet<u32> = modules.iter().flat_map(|m| m.mappings.iter().copied()).collect();
    let mut by_path: HashMap<&str, Vec<u32>> = HashMap::new();
    for (i, f) in (0..).zip(&facts.space.files).filter(|(i, _)| !taken.contains(i)) {
        by_path.entry(&f.path).or_default().push(i);
    }
    for (file, p) in proven.iter().enumerate() {
        let mut module = modules[p.module].clone();
        if matches!(module.kind, ModuleKind::NoHeaders) {
            // Its headers, readable now, show what is writable.
            if let Some(image) = pe::of_file(&p.map) {
                let files: Vec<_> = module.mappings.iter().map(|&m| &facts.space.files[m as usize]).collect();
                let flat = pe_identity::is_flat(&files, p.map.len() as u64, page_size(facts));
                module.kind = ModuleKind::Pe { image, flat };
            } else if let Some(image) = elf_identity::placed(target, &module, &p.map) {
                module.kind = ModuleKind::Elf(image);
            }
        }
        // Other parts of the same file, mapped elsewhere. A single-file program maps the
        // assemblies in its bundle so.
        let outside = |i: &&u32| !module.range.contains(facts.space.files[**i as usize].range.start);
        let elsewhere = by_path.get(&*module.path).into_iter().flatten().filter(outside);
        let elsewhere = elsewhere.filter(|_| image_only != Some(p.module));
        for &m in module.mappings.iter().chain(elsewhere) {
            let mapping = &facts.space.files[m as usize];
            let read_only = is_read_only(facts, &module, mapping.range);
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

/// Resolves duplicates. NT_FILE of a damaged core may list a range twice; the first counts.
fn first_of_each(overlays: &[Overlay]) -> RangeMap<Overlay> {
    RangeMap::resolve(
        overlays,
        |i, o| (o.range, std::cmp::Reverse(i)),
        |range, o| Overlay { range, offset: o.offset + range.start.since(o.range.start), file: o.file },
    )
}
