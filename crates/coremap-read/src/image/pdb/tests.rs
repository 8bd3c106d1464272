use std::io::Write;

use symbolic_ppdb::{PortablePdb, PortablePdbCache, PortablePdbCacheConverter};

use super::reference::Checksum;
use super::*;
use crate::addr::Addr;
use crate::image::metadata::testblob::{Blob, FILE_OFFSET, FileBytes, RVA, loaded, pe_file, row};
use crate::image::pe;
use crate::image::symbol_dirs::SymbolDirs;

const ID: [u8; 20] = [7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];

/// Two methods: the first in two documents with hidden points, the second without points.
fn sample() -> Vec<u8> {
    let mut b = Blob::new();
    let (src, a, other) = (b.blobs.blob(b"src"), b.blobs.blob(b"a.cs"), b.blobs.blob(b"b.cs"));
    let name_a = b.blobs.blob(&[b'/', 0, src as u8, a as u8]);
    let name_b = b.blobs.blob(&[0, other as u8]);
    #[rustfmt::skip]
    let points = b.blobs.blob(&[
        0,                      // locals
        0, 0, 0,                // at 0: hidden
        4, 0, 9, 10, 5,         // at 4: line 10, column 5
        2, 1, 0x02, 0x04, 0x08, // at 6: 2 lines down, 4 columns on
        3, 0, 0,                // at 9: hidden
        0, 2,                   // document 2
        1, 0, 3, 0x73, 0x79,    // at 10: 7 lines up, 4 columns back
    ]);
    b.guids = vec![9; 16];
    b.sorted = 0;
    b.tables = vec![
        (Table::Document, vec![row(&[name_a, 1, 0, 1]), row(&[name_b, 1, 0, 1])]),
        (Table::MethodDebugInformation, vec![row(&[1, points]), row(&[0, 0])]),
    ];
    let mut pdb = ID.to_vec();
    pdb.extend([0; 4]);
    pdb.extend((1u64 << Table::MethodDef as u8).to_le_bytes());
    pdb.extend(2u32.to_le_bytes());
    b.more = vec![("#Pdb", pdb)];
    b.bytes()
}

fn place(pdb: &Pdb, il: u32) -> Option<(String, u32, u32)> {
    pdb.line(1, il).map(|l| (l.file, l.line, l.column))
}

#[test]
fn lines_skip_what_is_hidden() {
    let pdb = Pdb::open(sample()).unwrap();
    assert_eq!(pdb.tables.pdb_id(), Some(ID));
    let a = |line, column| Some(("/src/a.cs".to_owned(), line, column));
    assert_eq!([0, 3].map(|il| place(&pdb, il)), [None, None]);
    assert_eq!([4, 5].map(|il| place(&pdb, il)), [a(10, 5), a(10, 5)]);
    assert_eq!([6, 9].map(|il| place(&pdb, il)), [a(12, 9), a(12, 9)]);
    let b = Some(("b.cs".to_owned(), 5, 5));
    assert_eq!([10, 1000, EPILOG].map(|il| place(&pdb, il)), [b.clone(), b.clone(), b]);
    assert_eq!([NO_MAPPING, PROLOG].map(|il| place(&pdb, il)), [None, None]);
    assert_eq!([0, 2, 3, u32::MAX].map(|rid| pdb.line(rid, 10)), [None, None, None, None]);
}

#[test]
fn symbolic_tells_the_same_lines() {
    let bytes = sample();
    let mut converter = PortablePdbCacheConverter::new();
    converter.process_portable_pdb(&PortablePdb::parse(&bytes).unwrap()).unwrap();
    let mut cache = Vec::new();
    converter.serialize(&mut cache).unwrap();
    let cache = PortablePdbCache::parse(&cache).unwrap();
    let pdb = Pdb::open(bytes.clone()).unwrap();
    for il in 0..20 {
        let theirs = cache.lookup(1, il).map(|l| (l.file_name.to_owned(), l.line));
        assert_eq!(place(&pdb, il).map(|(file, line, _)| (file, line)), theirs);
    }
}

#[test]
fn damaged_files_are_survived() {
    let bytes = sample();
    let ask = |bytes: &[u8]| {
        if let Ok(pdb) = Pdb::open(bytes.to_vec()) {
            (0..4).for_each(|rid| drop((pdb.line(rid, 5), pdb.line(rid, EPILOG))));
        }
    };
    for at in 0..bytes.len() {
        ask(&bytes[..at]);
        for value in [0, 1, 0x7f, 0x80, 0xc0, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            ask(&changed);
        }
    }
    assert!(matches!(Pdb::open(Blob::new().bytes()), Err(PdbError::NotPortable)));
}

/// A module that names `lab.pdb` and contains `packed` and a checksum.
fn module(packed: &[u8]) -> Vec<u8> {
    let mut section = vec![0u8; 0x100];
    let stamp = [16, 17, 18, 19];
    let mut data = b"RSDS".to_vec();
    data.extend(&ID[..16]);
    data.extend(b"\x01\0\0\0C:\\build\\lab.pdb\0");
    let entries =
        [(2u32, u16::from_le_bytes(*b"MP"), data.len(), 0x60u32), (17, 0, packed.len(), 0x100), (19, 0, 10, 0xa0)];
    for (i, (kind, minor, size, at)) in entries.into_iter().enumerate() {
        let mut entry = [0u8; 28];
        entry[4..8].copy_from_slice(&stamp);
        entry[10..12].copy_from_slice(&minor.to_le_bytes());
        entry[12..16].copy_from_slice(&kind.to_le_bytes());
        entry[16..20].copy_from_slice(&(size as u32).to_le_bytes());
        entry[20..24].copy_from_slice(&(RVA as u32 + at).to_le_bytes());
        section[i * 28..i * 28 + 28].copy_from_slice(&entry);
    }
    section[0x60..0x60 + data.len()].copy_from_slice(&data);
    section[0xa0..0xaa].copy_from_slice(b"SHA256\0\x01\x02\x03");
    section.extend(packed);
    pe_file(&section, &[(pe::DEBUG_DIRECTORY, 0, 84)])
}

fn packed(bytes: &[u8], len: u32) -> Vec<u8> {
    let mut out = b"MPDB".to_vec();
    out.extend(len.to_le_bytes());
    let mut encoder = flate2::write::DeflateEncoder::new(out, flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn reference(bytes: &[u8], flat: bool) -> Option<PdbReference> {
    let memory = FileBytes(bytes);
    PdbReference::read(&memory, Addr::NULL, &pe::read(&memory, Addr::NULL)?, flat)
}

#[test]
fn what_a_module_says_of_its_pdb() {
    let file = module(&packed(&sample(), sample().len() as u32));
    for (bytes, flat) in [(&file, true), (&loaded(&file), false)] {
        let found = reference(bytes, flat).unwrap();
        assert_eq!((found.id, found.name()), (Some(PdbId(ID)), "lab.pdb"));
        assert_eq!(found.checksums, [Checksum { algorithm: "SHA256".into(), bytes: vec![1, 2, 3] }]);
        let inner = found.embedded_pdb(&FileBytes(bytes)).unwrap().unwrap();
        assert_eq!(Pdb::open(inner).unwrap().tables.pdb_id(), Some(ID));
    }
    for len in FILE_OFFSET..file.len() {
        if let Some(cut) = reference(&file[..len], true) {
            assert!(!matches!(cut.embedded_pdb(&FileBytes(&file[..len])), Some(Ok(_))));
        }
    }
}

#[test]
fn embedded_pdbs_that_lie_about_their_size() {
    for (len, large) in [(10u32, false), (100_000, false), (u32::MAX, true)] {
        let file = module(&packed(&[0; 1000], len));
        let found = reference(&file, true).unwrap().embedded_pdb(&FileBytes(&file)).unwrap();
        match found {
            Err(PdbError::TooLarge(_)) => assert!(large),
            Err(PdbError::Inflate) => assert_eq!(len, 100_000),
            // Never more than it states.
            Ok(bytes) => assert_eq!(bytes.len(), 10),
            Err(e) => panic!("{e}"),
        }
    }
}

#[test]
fn a_file_is_taken_by_its_id() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = |dir: &std::path::Path| SymbolDirs::open(&[dir.to_owned()]).unwrap();
    let wanted = reference(&module(&[]), true).unwrap();
    assert!(find_pdb(&dirs(dir.path()), "/app/lab.dll", &wanted).is_none());
    // The right name, but another build.
    let mut other = sample();
    let id = other.windows(20).position(|w| w == ID).unwrap();
    other[id] ^= 1;
    std::fs::write(dir.path().join("lab.pdb"), &other).unwrap();
    assert!(find_pdb(&dirs(dir.path()), "/app/lab.dll", &wanted).is_none());
    std::fs::create_dir(dir.path().join("app")).unwrap();
    std::fs::write(dir.path().join("app/lab.pdb"), sample()).unwrap();
    assert!(find_pdb(&dirs(dir.path()), "/app/lab.dll", &wanted).is_some());
    // Only plain parts of a path are used.
    let inner = dir.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    assert!(find_pdb(&dirs(&inner), "../app/lab.dll", &wanted).is_none());
}
