//! Reads the manifest at the end of a single-file program's file.
//!
//! The host's data has a marker: {i64 offset of the header, 32 bytes of signature}
//! (src/native/corehost/apphost/bundle_marker.cpp). The header is {u32 major, u32 minor, i32
//! number of files, text id}. From version 2 on, two locations {i64 offset, i64 size} and u64
//! flags follow. Then come the files: {i64 offset, i64 size, i64 compressed size (from version 6
//! on), u8 type, text path}. A text is its length in bytes, in 7-bit groups with the lowest
//! first, then UTF-8.

use std::sync::Arc;

use crate::image::bundle::in_memory::is_sensible;
use crate::image::bundle::{Bundle, BundledFile};
use crate::image::elf::ElfImage;
use crate::layout::DOTNET_BUNDLE;
use crate::limits;

/// SHA-256 of ".net core bundle": the signature in the marker.
pub(super) const SIGNATURE: [u8; 32] = [
    0x8b, 0x12, 0x02, 0xb9, 0x6a, 0x61, 0x20, 0x38, 0x72, 0x7b, 0x93, 0x02, 0x14, 0xd7, 0xa0, 0x32, 0x13, 0xf5, 0xb9,
    0xe6, 0xef, 0xae, 0x33, 0x18, 0xee, 0x3b, 0x2d, 0xce, 0x24, 0xb3, 0x6a, 0xae,
];

/// Bytes of the two locations and the flags, which headers have from version 2 on.
const PLACES: usize = 40;

/// Reads the manifest from a program's file. `None` if the file is no bundle.
pub(super) fn read(file: &[u8], image: &ElfImage, path: &Arc<str>) -> Option<Bundle> {
    let layout = DOTNET_BUNDLE.layout().ok()?;
    let version = |name: &str| layout.constant("BundleVersion", name).ok();
    let last = layout.constant("file_type_t", "last").ok()?;
    let at = usize::try_from(header(file, image)?).ok()?;
    let mut rest = file.get(at..)?;
    let (major, minor) = (u32_of(&mut rest)?, u32_of(&mut rest)?);
    let major = u64::from(major);
    let count = usize::try_from(u32_of(&mut rest)?).ok().filter(|&n| n > 0 && n <= limits::MAX_BUNDLED_FILES)?;
    let id = text_of(&mut rest)?;
    if major >= version("in_place")? {
        rest = rest.get(PLACES..)?;
    }
    let has_compressed = major >= version("compressed")?;
    let (mut files, mut left) = (Vec::new(), limits::MAX_BUNDLED_TEXT);
    for _ in 0..count {
        let (offset, size) = (u64_of(&mut rest)?, u64_of(&mut rest)?);
        let compressed = if has_compressed { u64_of(&mut rest)? } else { 0 };
        let (kind, after) = rest.split_first()?;
        rest = after;
        // The host replaces the bundler's path separators by its own.
        let path = text_of(&mut rest)?.replace('\\', "/");
        left = left.checked_sub(path.len())?;
        let file = BundledFile { offset, size, compressed, kind: *kind, path };
        files.push(Some(file).filter(|f| is_sensible(f, last))?);
    }
    files.sort();
    let source = format!("manifest version {major}.{minor} in the program's file");
    Some(Bundle { program: path.clone(), files, id, source })
}

/// Returns the offset of the header, from the marker in the program's data.
fn header(file: &[u8], image: &ElfImage) -> Option<u64> {
    let finder = memchr::memmem::Finder::new(&SIGNATURE);
    let data = image.segments.iter().filter(|s| !s.perms.exec);
    let parts = data.filter_map(|s| {
        let from = usize::try_from(s.file_offset).ok()?;
        let len = usize::try_from(s.file_end.checked_since(s.range.start)?.min(limits::MAX_IMAGE_DATA)).ok()?;
        file.get(from..from.checked_add(len)?.min(file.len()))
    });
    let mut offsets = parts.filter_map(|part| {
        let at = finder.find(part)?.checked_sub(8)?;
        crate::bytes::u64_at(part, at)
    });
    offsets.find(|&offset| offset > 0)
}

fn u32_of(rest: &mut &[u8]) -> Option<u32> {
    let (head, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_le_bytes(*head))
}

fn u64_of(rest: &mut &[u8]) -> Option<u64> {
    let (head, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*head))
}

fn text_of(rest: &mut &[u8]) -> Option<String> {
    let mut length = 0_usize;
    // The host accepts at most two bytes of length too.
    for shift in [0, 7] {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    String::from_utf8(text.to_vec()).ok().filter(|text| !text.contains(crate::bytes::is_harmful))
}
