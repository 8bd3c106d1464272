//! Checks whether a PE file is the one that a module maps, by the module's bytes in the core.
//!
//! .NET's own loader (pal/src/map/map.cpp, MAPMapPEFile) maps the headers alone. Then it maps each
//! section at its RVA, from the page of its first byte on. So a section that begins in the file's
//! first page shows the headers again. If that mapping is writable, gcore dumps it, though it
//! leaves out the headers' own page. The sections are relocated afterwards. Of the dumped bytes,
//! those that no relocation changes and nobody may write equal the file's.

use crate::image::modules::{Module, page_size};
use crate::image::pe::{self, PeImage, PeSection, Relocated};
use crate::targets::FileMapping;
use crate::targets::Target;

/// The evidence for a file, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Evidence {
    /// The number of mapped pages, from the file's first one on, matches.
    Pages,
    /// Each mapping has the location and length of a section of the file.
    Sections,
    /// Like `Sections`, and bytes that both have are equal.
    Bytes,
}

/// Returns the evidence for the file. `None` if anything contradicts it.
pub(super) fn compare(target: &dyn Target, module: &Module, file: &[u8]) -> Option<Evidence> {
    let files: Vec<&FileMapping> =
        module.mappings.iter().filter_map(|&m| target.facts().space.files.get(m as usize)).collect();
    let page = page_size(target.facts());
    if is_flat(&files, file.len() as u64, page) {
        let read_only: Vec<&FileMapping> = files.iter().copied().filter(|f| !is_writable(target, f)).collect();
        return match same(target, &read_only, file, |_, _| true)? {
            0 => Some(Evidence::Pages),
            _ => Some(Evidence::Bytes),
        };
    }
    let image = pe::of_file(file)?;
    let base = files.iter().map(|f| f.range.start).min()?;
    let places: Option<Vec<PePart<'_>>> =
        files.iter().map(|f| place(f, f.range.start.since(base), &image, page)).collect();
    let headers = compare_headers(target, &files, &image, file)?;
    let Some(places) = places else {
        // No known loader makes this layout. The headers decide, if they are present.
        return (headers > 0).then_some(Evidence::Bytes);
    };
    let moved = Relocated::of(&image, file);
    let constant: Vec<_> =
        places.iter().zip(&files).filter_map(|(p, f)| Some((p.section()?, *f))).filter(|(s, _)| !s.writable).collect();
    let mut compared = headers;
    for (section, mapping) in constant {
        compared += same(target, &[mapping], file, |offset, len| {
            let inside =
                offset >= section.file_offset && offset + len <= section.file_offset.saturating_add(section.file_size);
            inside && !moved.touches(offset, len)
        })?;
    }
    Some(if compared > 0 { Evidence::Bytes } else { Evidence::Sections })
}

/// Whether the mappings show the file as it is, from its first page to its last.
pub(super) fn is_flat(files: &[&FileMapping], len: u64, page: u64) -> bool {
    let Some(base) = files.iter().map(|f| f.range.start).min() else { return false };
    let end = files.iter().map(|f| f.offset.saturating_add(f.range.len())).max();
    files.iter().all(|f| f.range.start.since(base) == f.offset) && end == Some(len.next_multiple_of(page))
}

fn is_writable(target: &dyn Target, mapping: &FileMapping) -> bool {
    let piece = target.facts().space.pieces.at(mapping.range.start);
    piece.and_then(|p| target.facts().space.mappings.get(p.mapping as usize)).is_some_and(|s| s.perms.write)
}

/// The part of a file laid out by section that a mapping shows.
enum PePart<'a> {
    Headers,
    Section(&'a PeSection),
}

impl<'a> PePart<'a> {
    fn section(&self) -> Option<&'a PeSection> {
        match self {
            PePart::Headers => None,
            PePart::Section(section) => Some(section),
        }
    }
}

/// Returns what the mapping at `rva` above the image's base shows: the headers, or a part of
/// exactly one section.
fn place<'a>(mapping: &FileMapping, rva: u64, image: &'a PeImage, page: u64) -> Option<PePart<'a>> {
    if rva == 0 && mapping.offset == 0 {
        return Some(PePart::Headers);
    }
    let down = |v: u64| v - v % page;
    let fits = |s: &&PeSection| {
        let end = s.rva.saturating_add(s.virtual_size.max(s.file_size)).next_multiple_of(page);
        rva >= down(s.rva)
            && rva.saturating_add(mapping.range.len()) <= end
            && rva - down(s.rva) == mapping.offset.wrapping_sub(down(s.file_offset))
    };
    image.sections.iter().find(fits).map(PePart::Section)
}

/// Number of header bytes that both have, through whichever mapping shows them. `None` if they
/// differ.
fn compare_headers(target: &dyn Target, files: &[&FileMapping], image: &PeImage, file: &[u8]) -> Option<usize> {
    let first: Vec<&FileMapping> = files.iter().copied().filter(|f| f.offset < image.size_of_headers).collect();
    same(target, &first, file, |offset, len| offset + len <= image.size_of_headers)
}

/// Number of bytes compared at a time. No relocation is longer.
const UNIT: usize = 8;

/// Number of bytes of the mappings that are in the core and equal to the file's. `counts` selects
/// them by their offset and length in the file. `None` if any differs.
fn same(target: &dyn Target, files: &[&FileMapping], file: &[u8], counts: impl Fn(u64, u64) -> bool) -> Option<usize> {
    let mut compared = 0;
    for mapping in files {
        for run in target.dumped_runs(mapping.range) {
            let from = mapping.offset.checked_add(run.range.start.since(mapping.range.start))?;
            let Some(other) = usize::try_from(from).ok().and_then(|from| file.get(from..)) else { continue };
            for (i, (a, b)) in run.bytes.chunks(UNIT).zip(other.chunks(UNIT)).enumerate() {
                let n = a.len().min(b.len());
                if !counts(from.saturating_add((i * UNIT) as u64), n as u64) {
                    continue;
                }
                if a[..n] != b[..n] {
                    return None;
                }
                compared += n;
            }
        }
    }
    Some(compared)
}
