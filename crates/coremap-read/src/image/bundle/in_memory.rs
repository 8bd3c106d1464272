//! Reads the host's manifest from the program's memory.
//!
//! The manifest is in `runner_t`, a static of the host policy. Single-file programs contain the
//! host policy, so the static is in `.bss` and in every dump. Its vector of files is found by
//! its shape: three words, the first two of which differ by the size of as many files as the
//! preceding header counts.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::bytes::{self, u32_at, u64_at};
use crate::image::bundle::{Bundle, BundledFile, elsewhere, program};
use crate::image::elf::ElfImage;
use crate::image::modules::{Module, ModuleKind};
use crate::image::unfiled::Start;
use crate::layout::{DOTNET_BUNDLE, Layout, LayoutError, StructView, ViewError};
use crate::limits;
use crate::memory::Memory;
use crate::targets::Target;
use crate::targets::reads::Script;

/// The host policy library of single-file programs that need an installed runtime. Others
/// contain it.
const HOST_POLICY: &str = "libhostpolicy.so";

/// Finds the files that the host of a single-file program lists. Searches only if the program's
/// file is also mapped outside its image, or assemblies may be unpacked in memory. `unfiled`: where they may begin.
pub(crate) fn find(target: &dyn Target, memory: &dyn Memory, modules: &[Module], unfiled: &[Start]) -> Option<Bundle> {
    let program = program(target, modules)?;
    // Where all assemblies are compressed, none is mapped from the file.
    if elsewhere(target, program).next().is_none() && unfiled.is_empty() {
        return None;
    }
    let layout = DOTNET_BUNDLE.layout().ok()?;
    let hosts = modules.iter().filter(|m| std::ptr::eq(*m, program) || m.name() == HOST_POLICY);
    let images = hosts.filter_map(|m| if let ModuleKind::Elf(image) = &m.kind { Some(image) } else { None });
    images.take(limits::MAX_HOSTS).find_map(|image| in_image(memory, layout, image, &program.path))
}

fn in_image(memory: &dyn Memory, layout: &Layout, image: &ElfImage, path: &Arc<str>) -> Option<Bundle> {
    image.writable_parts(memory).into_iter().find_map(|part| in_part(memory, layout, part, path).ok().flatten())
}

#[cfg(test)]
pub(super) fn in_bytes(memory: &dyn Memory, part: AddrRange) -> Option<Bundle> {
    in_part(memory, DOTNET_BUNDLE.layout().ok()?, part, &Arc::from("/srv/app")).ok()?
}

/// Finds a manifest whose vector is in `part` of an image's data.
fn in_part(
    memory: &dyn Memory,
    layout: &Layout,
    part: AddrRange,
    path: &Arc<str>,
) -> Result<Option<Bundle>, LayoutError> {
    let Ok(data) = memory.look(part.start, part.len() as usize) else { return Ok(None) };
    let number = |name: &str| layout.field("BundleRunner", name);
    let (number, major) = (number("num_embedded_files")?, number("major_version")?);
    let (begin, end) = (layout.field("std_vector", "begin")?, layout.field("std_vector", "end")?);
    let versions = layout.constant("BundleVersion", "in_place")?..=layout.constant("BundleVersion", "newest")?;
    let compressed = layout.constant("BundleVersion", "compressed")?;
    let sizes = (layout.size("FileEntry")?, layout.size("FileEntry_5")?);
    let at = |i: usize, offset: i64| i.checked_add_signed(isize::try_from(offset).ok()?);
    let fits = |i: usize| {
        let distance = u64_at(&data, at(i, end)?)?.checked_sub(u64_at(&data, at(i, begin)?)?)?;
        if distance == 0 || distance > limits::MAX_BUNDLED_FILES as u64 * sizes.0 {
            return None;
        }
        let version = u64::from(u32_at(&data, at(i, major)?)?);
        let (kind, size) = if version < compressed { ("FileEntry_5", sizes.1) } else { ("FileEntry", sizes.0) };
        let count = u64::from(u32_at(&data, at(i, number)?)?);
        (versions.contains(&version) && count.checked_mul(size) == Some(distance)).then_some((kind, count))
    };
    let fitting = (0..data.len()).step_by(8).filter_map(|i| Some((i, fits(i)?)));
    for (i, (kind, count)) in fitting.take(limits::MAX_BUNDLE_TRIES) {
        let here = part.start.saturating_add(i as u64);
        if let Ok(Some(bundle)) = read(memory, layout, here, kind, count, path) {
            return Ok(Some(bundle));
        }
    }
    Ok(None)
}

/// Reads the files of the vector at `here`. `None` if an entry is not valid.
fn read(
    memory: &dyn Memory,
    layout: &Layout,
    here: Addr,
    kind: &'static str,
    count: u64,
    path: &Arc<str>,
) -> Result<Option<Bundle>, ViewError> {
    let runner = StructView::new(memory, layout, "BundleRunner", here);
    let vector = StructView::new(memory, layout, "std_vector", runner.addr_of("files")?);
    let (begin, end, capacity) = (vector.ptr("begin")?, vector.ptr("end")?, vector.ptr("capacity")?);
    if capacity < end || !begin.is_aligned(8) {
        return Ok(None);
    }
    let (size, last) = (layout.size(kind)?, layout.constant("file_type_t", "last")?);
    let (mut files, mut left) = (Vec::new(), limits::MAX_BUNDLED_TEXT);
    for i in 0..count {
        let entry = StructView::new(memory, layout, kind, begin.saturating_add(i.saturating_mul(size)));
        let compressed = if entry.has("compressedSize") { entry.u64("compressedSize")? } else { 0 };
        let path = text(memory, layout, entry.addr_of("relative_path")?)?;
        let file = path.and_then(|path| {
            left = left.checked_sub(path.len())?;
            Some(BundledFile {
                offset: entry.u64("offset").ok()?,
                size: entry.u64("size").ok()?,
                compressed,
                kind: entry.u8("type").ok()?,
                path,
            })
        });
        let sensible = |f: &BundledFile| is_sensible(f, last);
        let Some(file) = file.filter(sensible) else { return Ok(None) };
        files.push(file);
    }
    files.sort();
    let id = text(memory, layout, runner.addr_of("bundle_id")?)?.unwrap_or_default();
    let version = (runner.u32("major_version")?, runner.u32("minor_version")?);
    if memory.keeps() {
        keep(memory, layout, &runner, (begin, kind, count))?;
    }
    let source = format!("the host's manifest at {here}, version {}.{}", version.0, version.1);
    Ok(Some(Bundle { program: path.clone(), files, id, source }))
}

/// Records the manifest's numbers and names as structures, in whatever memory they are.
fn keep(
    memory: &dyn Memory,
    layout: &Layout,
    runner: &StructView<'_>,
    (begin, kind, count): (Addr, &'static str, u64),
) -> Result<(), ViewError> {
    let (start, files) = (runner.addr_of("num_embedded_files")?, runner.addr_of("files")?);
    let vector = layout.field("std_vector", "capacity")?;
    memory.keep(start, files.since(start).saturating_add(vector.unsigned_abs()).saturating_add(8));
    let size = layout.size(kind)?;
    memory.keep(begin, count.saturating_mul(size));
    let paths = (0..count).map(|i| {
        let entry = StructView::new(memory, layout, kind, begin.saturating_add(i.saturating_mul(size)));
        entry.addr_of("relative_path")
    });
    for at in paths.chain([runner.addr_of("bundle_id")]) {
        let string = StructView::new(memory, layout, "std_string", at?);
        memory.keep(string.addr_of("data")?, 16);
        memory.keep_name(string.ptr("data")?, string.u64("length")?.min(limits::MAX_NAME as u64), Script::Utf8);
    }
    Ok(())
}

/// Whether the host would accept the entry (`file_entry_t::is_valid`).
pub(super) fn is_sensible(file: &BundledFile, last: u64) -> bool {
    let within = |v: u64| i64::try_from(v).is_ok();
    file.offset > 0
        && within(file.offset)
        && within(file.size)
        && within(file.compressed)
        && u64::from(file.kind) < last
        && !file.path.is_empty()
}

/// Reads a std::string of UTF-8. `None` if it is not one.
fn text(memory: &dyn Memory, layout: &Layout, at: Addr) -> Result<Option<String>, ViewError> {
    let string = StructView::new(memory, layout, "std_string", at);
    let (data, length) = (string.ptr("data")?, string.u64("length")?);
    if length > limits::MAX_NAME as u64 {
        return Ok(None);
    }
    let text = memory.bytes(data, length as usize).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(text.filter(|text| !text.contains(bytes::is_harmful)))
}
