//! Handmade numbers, tables and records.

use super::format::{entries, signed, unsigned};
use super::records::{Kinds, Metadata};
use crate::addr::Addr;

const KINDS: Kinds = Kinds {
    definition: 0x3a,
    namespace: 0x2f,
    reference: 0x3d,
    namespace_reference: 0x30,
    specification: 0x3e,
    instantiation: 0x3c,
};

/// Encodes a number in its shortest form.
fn number(value: u32) -> Vec<u8> {
    match value {
        0..0x80 => vec![(value << 1) as u8],
        0x80..0x4000 => ((value << 2 | 1) as u16).to_le_bytes().to_vec(),
        _ => [vec![15], value.to_le_bytes().to_vec()].concat(),
    }
}

#[test]
fn numbers_of_all_lengths() {
    assert_eq!(unsigned(&[0x02], 0), Some((1, 1)));
    assert_eq!(unsigned(&[0x01, 0x02], 0), Some((0x80, 2)));
    assert_eq!(unsigned(&[0x03, 0x00, 0x01], 0), Some((0x2000, 3)));
    assert_eq!(unsigned(&[0x07, 0, 0, 1], 0), Some((1 << 20, 4)));
    assert_eq!(unsigned(&[0x0f, 1, 2, 3, 4], 0), Some((0x0403_0201, 5)));
    assert_eq!(unsigned(&[0x0f, 1, 2, 3], 0), None);
    assert_eq!(unsigned(&[], 7), None);
    assert_eq!(signed(&[0xfe], 0), Some((-1, 1)));
    assert_eq!(signed(&[0xfd, 0xff], 0), Some((-1, 2)));
    assert_eq!(signed(&[0x0f, 0xfe, 0xff, 0xff, 0xff], 0), Some((-2, 5)));
    for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u32::MAX] {
        assert_eq!(unsigned(&number(value), 0), Some((value, number(value).len())));
    }
}

/// A map with one bucket, followed by these entries.
fn map(rows: &[(u32, u32)]) -> Vec<u8> {
    // One-byte offsets. The bucket follows its two offsets.
    let bucket = 2;
    let mut out = vec![0, bucket as u8, (bucket + 2 * rows.len()) as u8];
    let first = 1 + bucket + 2 * rows.len();
    let mut behind: Vec<u8> = Vec::new();
    for (i, &(index, handle)) in rows.iter().enumerate() {
        let at = 1 + bucket + 2 * i + 1;
        out.extend([0xaa, (((first + behind.len() - at) as u32) << 1) as u8]);
        behind.extend([number(index), number(handle)].concat());
    }
    out.extend(behind);
    out
}

#[test]
fn names_with_namespaces_and_the_types_around() {
    // 8-bit kinds, as up to 9.0, and 7-bit kinds.
    for bits in [8, 7] {
        let mut bytes = vec![0; 4];
        let mut put = |rest: Vec<u8>| {
            let at = bytes.len() as u32;
            bytes.extend(rest);
            at
        };
        let text = |s: &str| [number(s.len() as u32), s.as_bytes().to_vec()].concat();
        let (system, io, file, entry) = (put(text("System")), put(text("IO")), put(text("File")), put(text("Entry")));
        // The root namespace has no name, and its parent is a scope.
        let root = put([number(9 << bits | 0x38), number(0)].concat());
        let outer = put([number(root << bits | KINDS.namespace), number(system)].concat());
        let inner = put([number(outer << bits | KINDS.namespace), number(io)].concat());
        let record = |ns: u32, name: u32, around: u32| {
            [1, 0, ns, name, 0, 0, around].into_iter().flat_map(number).collect::<Vec<u8>>()
        };
        let a = put(record(inner, file, 0));
        let b = put(record(inner, entry, a));
        let of = |kind: u32, at| kind << (32 - bits) | at;
        let rows = [(0, of(KINDS.definition, a)), (1, of(KINDS.definition, b)), (2, of(0x11, a))];
        let external = |i: u32| Some(Addr::new(0x1000 + 0x100 * u64::from(i)));
        let metadata = Metadata::new(bytes, KINDS, &map(&rows), external);
        let chain = |at| metadata.chain(Addr::new(at)).map(|chain| chain.join("/"));
        assert_eq!(chain(0x1000).as_deref(), Some("System.IO.File"));
        assert_eq!(chain(0x1100).as_deref(), Some("System.IO.File/Entry"));
        assert_eq!(chain(0x1200), None, "another kind of record");
    }
}

#[test]
fn tables_that_lie_end() {
    assert!(entries(&[]).is_empty());
    assert!(entries(&[0xff; 64]).is_empty());
    // Offsets past the end, and a distance past the end.
    assert!(entries(&[0, 0, 200, 1]).len() <= 3);
    // A type that encloses itself, and a namespace in itself.
    let mut bytes = vec![0; 8];
    bytes.extend([1_u8, 0, 4 << 1, 4 << 1, 0, 0, 8 << 1]);
    let metadata = Metadata::new(bytes, KINDS, &map(&[(0, KINDS.definition << 24 | 8)]), |_| Some(Addr::new(0x1000)));
    assert_eq!(metadata.chain(Addr::new(0x1000)), None);
    assert_eq!(metadata.version("9.0"), None);
}

#[test]
fn the_version_is_what_two_attributes_agree_on() {
    let commit = "faaecba82df8933d7af60972138ce25f9c776cbd";
    let of = |text: &str| Metadata::new(text.as_bytes().to_vec(), KINDS, &[], |_| None).version("9.0");
    assert_eq!(of(&format!("x9.0.2226.52218a;9.0.22+{commit}")).as_deref(), Some("9.0.22"));
    assert_eq!(of(&format!("9.0.1326.50404 9.0.13-servicing.26504.104+{commit}")).as_deref(), Some("9.0.13"));
    // The version of the program itself.
    assert_eq!(of(&format!("9.0.0.0 9.0.1+{commit}")), None);
    assert_eq!(of("9.0.2226.52218 9.0.22+faaecba"), None);
}
