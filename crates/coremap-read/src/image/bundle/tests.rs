//! Manifests made by hand, in memory and in a file, whole and damaged.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::image::bundle::{Bundle, BundledFile, in_file, in_memory};
use crate::image::elf::{ElfImage, ImageSegment};
use crate::image::metadata::testblob::FileBytes;
use crate::targets::{FileMapping, Perms};

const ASSEMBLY: u8 = 1;

fn file(offset: u64, size: u64, kind: u8, path: &str) -> BundledFile {
    BundledFile { offset, size, compressed: 0, kind, path: path.into() }
}

fn files() -> Vec<BundledFile> {
    vec![
        file(0x10_1d00, 0x2400, ASSEMBLY, "System.Private.CoreLib.dll"),
        file(0x10_4100, 0x8000, ASSEMBLY, "de/app.resources.dll"),
        file(0x10_c100, 0x100, 3, "app.deps.json"),
    ]
}

fn bundle(files: Vec<BundledFile>) -> Bundle {
    Bundle { program: Arc::from("/srv/app"), files, id: "abcdefghijkl".into(), source: String::new() }
}

/// Offsets of the vector, its entries and their texts in the data made by hand.
const VECTOR: usize = 0x200;
const ENTRIES: usize = 0x400;
const TEXTS: usize = 0x800;

/// A host's data of format `major`, whose header counts `count` files.
fn data(major: u32, count: u32, files: &[BundledFile]) -> Vec<u8> {
    let mut out = vec![0; 0x1000];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(VECTOR - 168, &count.to_le_bytes());
    put(VECTOR - 164, &major.to_le_bytes());
    put(VECTOR - 152, &(TEXTS as u64).to_le_bytes());
    put(VECTOR - 144, &12_u64.to_le_bytes());
    put(TEXTS, b"abcdefghijkl");
    let (size, type_at, path_at) = if major < 6 { (64, 16, 24) } else { (72, 24, 32) };
    let end = (ENTRIES + size * files.len()) as u64;
    for (i, word) in [ENTRIES as u64, end, end + 0x40].into_iter().enumerate() {
        put(VECTOR + 8 * i, &word.to_le_bytes());
    }
    let mut text = TEXTS + 0x20;
    for (i, f) in files.iter().enumerate() {
        let at = ENTRIES + size * i;
        put(at, &f.offset.to_le_bytes());
        put(at + 8, &f.size.to_le_bytes());
        put(at + type_at, &[f.kind]);
        put(at + path_at, &(text as u64).to_le_bytes());
        put(at + path_at + 8, &(f.path.len() as u64).to_le_bytes());
        put(text, f.path.as_bytes());
        text += f.path.len();
    }
    out
}

fn found(data: &[u8]) -> Option<Bundle> {
    in_memory::in_bytes(&FileBytes(data), AddrRange::sized(Addr::NULL, data.len() as u64))
}

#[test]
fn the_hosts_list_is_found_by_its_shape() {
    for major in [2, 6] {
        let got = found(&data(major, 3, &files())).unwrap();
        assert_eq!((got.files, got.id.as_str()), (files(), "abcdefghijkl"), "version {major}");
        assert!(got.source.contains("0x200"), "{}", got.source);
    }
}

#[test]
fn what_only_looks_like_one_is_none() {
    // Counts other than the header's; formats that are not used in place, or of no release.
    for (major, count) in [(6, 2), (6, 4), (6, 0), (1, 3), (0, 3), (1000, 3)] {
        assert!(found(&data(major, count, &files())).is_none(), "{major}, {count}");
    }
    let damaged = |at: usize, bytes: &[u8]| {
        let mut data = data(6, 3, &files());
        data[at..at + bytes.len()].copy_from_slice(bytes);
        found(&data)
    };
    assert!(damaged(0, &[1]).is_some());
    // An offset of 0 and a negative one, a negative size, an unknown type, an unmapped path, a path of 2^63 bytes.
    for (at, bytes) in [
        (ENTRIES, [0; 8]),
        (ENTRIES, [0xff; 8]),
        (ENTRIES + 8, [0xff; 8]),
        (ENTRIES + 24, [6; 8]),
        (ENTRIES + 32, [0xee; 8]),
        (ENTRIES + 40, [0x80; 8]),
        (ENTRIES + 40, [0; 8]),
        // The capacity ends before the files do.
        (VECTOR + 16, [1; 8].map(|_| 0)),
    ] {
        assert!(damaged(at, &bytes).is_none(), "{at:#x} {bytes:x?}");
    }
    // A path with a terminal escape sequence.
    assert!(damaged(TEXTS + 0x20, b"\x1b[2J").is_none());
}

/// A program's file that ends with a manifest of format `major`.
fn program(major: u32, files: &[BundledFile]) -> Vec<u8> {
    let mut out = vec![0_u8; 0x2000];
    out[0x1008..0x1028].copy_from_slice(&in_file::SIGNATURE);
    out[0x1000..0x1008].copy_from_slice(&0x2000_u64.to_le_bytes());
    let text = |out: &mut Vec<u8>, text: &str| {
        if text.len() > 0x7f {
            out.push(0x80 | (text.len() & 0x7f) as u8);
            out.push((text.len() >> 7) as u8);
        } else {
            out.push(text.len() as u8);
        }
        out.extend(text.as_bytes());
    };
    out.extend([major, 0, files.len() as u32].map(u32::to_le_bytes).concat());
    text(&mut out, "abcdefghijkl");
    if major >= 2 {
        out.extend([0; 40]);
    }
    for f in files {
        out.extend([f.offset, f.size].map(u64::to_le_bytes).concat());
        if major >= 6 {
            out.extend(f.compressed.to_le_bytes());
        }
        out.push(f.kind);
        text(&mut out, &f.path);
    }
    out
}

fn image() -> ElfImage {
    let range = AddrRange::sized(Addr::new(0x40_0000), 0x1000);
    let perms = Perms { read: true, write: true, exec: false };
    ElfImage {
        bias: 0,
        range,
        segments: vec![ImageSegment { range, file_offset: 0x1000, file_end: range.end, perms }],
        sections: Vec::new(),
        build_id: None,
        dynamic: None,
        has_interpreter: true,
        thread_local: 0,
    }
}

fn read(file: &[u8]) -> Option<Bundle> {
    in_file::read(file, &image(), &Arc::from("/srv/app"))
}

#[test]
fn the_manifest_at_the_end_of_a_file_is_read() {
    let long = vec![file(0x10_1d00, 0x2400, ASSEMBLY, &"x".repeat(300))];
    for major in [1, 2, 6] {
        for files in [files(), long.clone()] {
            let got = read(&program(major, &files)).unwrap();
            assert_eq!((got.files, got.id.as_str()), (files, "abcdefghijkl"), "version {major}");
        }
    }
    let whole = program(6, &files());
    for end in 0x1000..whole.len() {
        assert!(read(&whole[..end]).is_none(), "cut at {end:#x}");
    }
    // A host without bundled files.
    let mut host = program(6, &files());
    host[0x1000..0x1008].fill(0);
    assert!(read(&host).is_none());
    host[0x1000..0x1008].fill(0xff);
    assert!(read(&host).is_none());
}

#[test]
fn a_mapping_shows_the_file_whose_pages_it_has() {
    let small = [0x10_c400, 0x10_c800].map(|at| file(at, 0x80, ASSEMBLY, &format!("at{at:x}.dll")));
    let bundle = bundle([files(), small.to_vec()].concat());
    let shown = |offset: u64, len: u64| {
        let mapping =
            FileMapping { range: AddrRange::sized(Addr::new(0x7f00_0000), len), offset, path: Arc::from("/srv/app") };
        bundle.shown_by(&mapping, ASSEMBLY, 0x1000).map(|f| f.path.as_str())
    };
    // It starts within a page, and shares its last page with the next file.
    assert_eq!(shown(0x10_1000, 0x4000), Some("System.Private.CoreLib.dll"));
    assert_eq!(shown(0x10_4000, 0x9000), Some("de/app.resources.dll"));
    // Only a part of one file.
    assert_eq!(shown(0x10_2000, 0x1000), Some("System.Private.CoreLib.dll"));
    assert_eq!(shown(0x10_6000, 0x2000), Some("de/app.resources.dll"));
    // A page of two files; pages contained in no single file; two files with the same page; no assembly; after all
    // files.
    for (offset, len) in
        [(0x10_4000, 0x1000), (0x10_1000, 0x5000), (0x10_c000, 0x1000), (0, 0x1000), (0x20_0000, 0x1000)]
    {
        assert_eq!(shown(offset, len), None, "{offset:#x}");
    }
}
