//! Files under `--symbols` and the proof that one is the build the core maps.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::addr::AddrRange;
use crate::core::mapped::MappedFile;
use crate::core::open::Core;
use crate::diag::Diagnostics;
use crate::image::elf;
use crate::image::modules::{Module, ModuleKind, page_size};
use crate::image::pe;
use crate::limits;
use crate::memory::Overlay;
use crate::range_map::RangeMap;

/// Files given by the user, by name and by build id.
#[derive(Default)]
pub struct SymbolDirs {
    roots: Vec<PathBuf>,
    by_name: HashMap<String, Vec<PathBuf>>,
}

impl SymbolDirs {
    /// List the given directories (not what lies deeper, but for `.build-id`).
    ///
    /// # Errors
    /// Where one of them can't be listed.
    pub fn open(roots: &[PathBuf]) -> io::Result<SymbolDirs> {
        let mut dirs = SymbolDirs { roots: roots.to_vec(), by_name: HashMap::new() };
        for root in roots {
            for entry in std::fs::read_dir(root)
                .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", root.display())))?
                .take(limits::MAX_SYMBOL_FILES)
            {
                let path = entry?.path();
                if let Some(name) = path.file_name().and_then(|n| n.to_str()) {
                    dirs.by_name.entry(name.to_owned()).or_default().push(path);
                }
            }
        }
        Ok(dirs)
    }

    /// Whether none was given.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Files that may be the module's: by build id, under its own path below a
    /// root, by name in a root.
    fn candidates(&self, module: &Module) -> Vec<PathBuf> {
        let mut out = self.by_build_id(module, "");
        out.extend(self.places(&module.path, module.name()));
        out.retain(|p| p.is_file());
        out.dedup();
        out
    }

    /// Files under its own path below a root, or of that name in a root.
    pub fn files(&self, path: &str, name: &str) -> Vec<PathBuf> {
        let mut out = self.places(path, name);
        out.retain(|p| p.is_file());
        out
    }

    /// Where such files would be.
    fn places(&self, path: &str, name: &str) -> Vec<PathBuf> {
        let mut out = Vec::new();
        let relative = relative(path);
        if relative.as_os_str().len() > 1 {
            out.extend(self.roots.iter().map(|root| root.join(&relative)));
        }
        out.extend(self.by_name.get(name).into_iter().flatten().cloned());
        out
    }

    /// Files that may hold the symbols stripped from the module: by build id, as
    /// gdb's manual lays them out; beside it or in a root as `NAME.debug`, or
    /// `NAME.dbg` as .NET ships them; its own path below a root's usr/lib/debug.
    fn debug_candidates(&self, module: &Module) -> Vec<PathBuf> {
        let mut out = self.by_build_id(module, ".debug");
        let relative = relative(&module.path);
        for ending in ["debug", "dbg"] {
            let name = format!("{}.{ending}", module.name());
            if relative.as_os_str().len() > 1 {
                let beside = relative.with_file_name(&name);
                out.extend(self.roots.iter().map(|root| root.join(&beside)));
                out.extend(self.roots.iter().map(|root| root.join("usr/lib/debug").join(&beside)));
            }
            out.extend(self.by_name.get(&name).into_iter().flatten().cloned());
        }
        out.retain(|p| p.is_file());
        out.dedup();
        out
    }

    fn by_build_id(&self, module: &Module, ending: &str) -> Vec<PathBuf> {
        let mut out = Vec::new();
        if let Some(id) = module.build_id() {
            let (head, tail) = id.split_at(id.len().min(2));
            for root in &self.roots {
                for dir in [root.join(".build-id"), root.join("usr/lib/debug/.build-id")] {
                    out.push(dir.join(head).join(format!("{tail}{ending}")));
                }
            }
        }
        out
    }
}

/// The core's path is untrusted: only its plain parts, never `..`.
fn relative(path: &str) -> PathBuf {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    Path::new(path).components().filter(|c| matches!(c, std::path::Component::Normal(_))).collect()
}

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
    let mut refused: Vec<&str> = Vec::new();
    for (i, module) in modules.iter().enumerate() {
        let lacks = |m: &u32| {
            let range = core.notes.files[*m as usize].range;
            core.dumped_in(range) < range.len()
        };
        if !module.mappings.iter().any(lacks) {
            continue;
        }
        let mut candidates = dirs.candidates(module).into_iter().peekable();
        let any = candidates.peek().is_some();
        let found = candidates.find_map(|path| proven(core, module, &path));
        match found {
            Some((map, proof)) => {
                if proof == Proof::Layout {
                    by_layout.push(module.name());
                }
                out.push(Proven { module: i, map });
            }
            None if any => refused.push(module.name()),
            None => {}
        }
    }
    tell(
        diag,
        "symbols-unproven",
        &by_layout,
        "taken by name, size and place of sections: the core has no byte of them to compare",
    );
    tell(diag, "symbols-mismatch", &refused, "not used: not the build that the core maps");
    out
}

fn proven(core: &Core, module: &Module, path: &Path) -> Option<(MappedFile, Proof)> {
    let map = File::open(path).and_then(|f| MappedFile::map(&f)).ok()?;
    let proof = proof(core, module, &map)?;
    tracing::debug!(module = module.name(), ?proof, file = %path.display(), "the same build");
    Some((map, proof))
}

/// The file under `dirs` that is the same build as the module, whether or not
/// the core has all of its bytes.
pub fn file_of(core: &Core, module: &Module, dirs: &SymbolDirs) -> Option<MappedFile> {
    let found = dirs.candidates(module).into_iter().find_map(|path| proven(core, module, &path));
    found.filter(|(_, proof)| *proof != Proof::Layout).map(|(map, _)| map)
}

/// The file under `dirs` that holds the symbols cut off from the module's own:
/// one with the same build id. A link's checksum (.gnu_debuglink) is no proof,
/// as only the file knows it.
pub fn debug_file_of(module: &Module, dirs: &SymbolDirs) -> Option<MappedFile> {
    let ModuleKind::Elf(image) = &module.kind else { return None };
    let wanted = image.build_id.as_ref()?;
    dirs.debug_candidates(module).into_iter().find_map(|path| {
        let map = File::open(&path).and_then(|f| MappedFile::map(&f)).ok()?;
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
