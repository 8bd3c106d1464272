use super::locate::cli_header;
use super::sig::{ElementType, FieldSig, MethodSig, ModifierRef, SigError, Type};
use super::testblob::{Blob, FileBytes, RVA, loaded, pe_file, row, row4};
use super::*;
use crate::memory::Memory;

const SORTED: u64 = u64::MAX;

/// The TypeDef `Inner` of [`sample`].
const INNER: Token = Token(0x0200_0003);

/// `Ns.Outer<T, U>` with a field and a method. `Inner` in it has two methods.
fn sample() -> Blob {
    let mut b = Blob::new();
    let s = |b: &mut Blob, text: &str| b.strings.text(text);
    let (none, outer, inner, ns) = (s(&mut b, "<Module>"), s(&mut b, "Outer`2"), s(&mut b, "Inner"), s(&mut b, "Ns"));
    let (run, go, stop, x) = (s(&mut b, "Run"), s(&mut b, "Go"), s(&mut b, "Stop"), s(&mut b, "x"));
    let (t, u, file, lib) = (s(&mut b, "T"), s(&mut b, "U"), s(&mut b, "lib.dll"), s(&mut b, "lib"));
    let (system, object, value) = (s(&mut b, "System"), s(&mut b, "Object"), s(&mut b, "value"));
    let (fwd, corlib) = (s(&mut b, "Fwd"), s(&mut b, "corlib"));
    let field_sig = b.blobs.blob(&[0x06, 0x08]);
    let method_sig = b.blobs.blob(&[0x20, 1, 0x01, 0x0e]);
    let constant = b.blobs.blob(&[5, 0, 0, 0]);
    let spec = b.blobs.blob(&[0x1d, 0x08]);
    let instance = b.blobs.blob(&[0x0a, 1, 0x0e]);
    b.guids = (0..16).collect();
    b.user_strings = vec![0, 5, b'h', 0, b'i', 0, 0];
    b.tables = vec![
        (Table::Module, vec![row(&[0, file, 1, 0, 0])]),
        (Table::TypeRef, vec![row(&[1 << 2 | 2, object, system]), row(&[1 << 2 | 3, fwd, 0])]),
        (
            Table::TypeDef,
            vec![
                row4(0, &[none, 0, 0, 1, 1]),
                row4(1, &[outer, ns, 1 << 2 | 1, 1, 1]),
                row4(2, &[inner, 0, 1 << 2 | 1, 2, 2]),
            ],
        ),
        (Table::Field, vec![row(&[6, x, field_sig])]),
        (
            Table::MethodDef,
            vec![
                row4(0x2050, &[0, 6, run, method_sig, 1]),
                row4(0x2060, &[0, 6, go, method_sig, 2]),
                row4(0, &[0, 6, stop, method_sig, 2]),
            ],
        ),
        (Table::Param, vec![row(&[0, 1, value])]),
        (Table::MemberRef, vec![row(&[1 << 3 | 1, run, method_sig])]),
        (Table::Constant, vec![row(&[8, 1 << 2, constant])]),
        (Table::ClassLayout, vec![[row(&[4]), 24u32.to_le_bytes().to_vec(), row(&[2])].concat()]),
        (Table::FieldLayout, vec![row4(16, &[1])]),
        (Table::ModuleRef, vec![row(&[lib])]),
        (Table::TypeSpec, vec![row(&[spec])]),
        (Table::FieldRva, vec![row4(0x3000, &[1])]),
        (Table::Assembly, vec![[row4(0x8004, &[1, 2, 3, 4]), row4(0, &[0, lib, 0])].concat()]),
        (Table::AssemblyRef, vec![[row(&[8, 0, 0, 0]), row4(0, &[0, corlib, 0, 0])].concat()]),
        (Table::ExportedType, vec![[row4(0, &[]), row4(0, &[fwd, ns, 1 << 2 | 1])].concat()]),
        (Table::NestedClass, vec![row(&[3, 2])]),
        (Table::GenericParam, vec![row(&[0, 0, 2 << 1, t]), row(&[1, 0, 2 << 1, u])]),
        (Table::MethodSpec, vec![row(&[1 << 1, instance])]),
    ];
    b
}

fn name_of_module_ref(blob: &Blob) -> String {
    let m = parse(blob);
    m.string(m.cell(Table::ModuleRef, 1, 0).unwrap()).unwrap().into_owned()
}

fn parse(blob: &Blob) -> Metadata<'static> {
    Metadata::parse(blob.bytes()).unwrap()
}

#[test]
fn every_accessor_reads_its_row() {
    let m = parse(&sample());
    assert_eq!(m.module().unwrap().name, "lib.dll");
    assert_eq!(m.module().unwrap().mvid[15], 15);
    let assembly = m.assembly().unwrap();
    assert_eq!((assembly.name.as_ref(), assembly.version), ("lib", [1, 2, 3, 4]));
    let outer = m.type_def(2).unwrap();
    assert_eq!((outer.name.as_ref(), outer.namespace.as_ref(), outer.flags), ("Outer`2", "Ns", 1));
    assert_eq!((outer.extends, outer.fields, outer.methods), (Token(0x0100_0001), 1..2, 1..2));
    assert_eq!(m.type_def(3).unwrap().methods, 2..4);
    assert_eq!(m.type_def(1).unwrap().extends, Token(0x0200_0000));
    assert_eq!(m.type_ref(1).unwrap().scope, Token(0x2300_0001));
    assert_eq!(m.field(1).unwrap().name, "x");
    let run = m.method_def(1).unwrap();
    assert_eq!((run.rva, run.name.as_ref()), (0x2050, "Run"));
    assert_eq!(m.member_ref(1).unwrap().parent, Token(0x0100_0001));
    assert_eq!(m.exported_type(1).unwrap().implementation, Token(0x2300_0001));
    let constant = m.constant(Token(0x0400_0001)).unwrap();
    assert_eq!((constant.element_type, constant.value), (8, &[5, 0, 0, 0][..]));
    assert_eq!(m.field_rva(1), Some(0x3000));
    assert_eq!(m.row_count(Table::MethodDef), 3);
    assert!(!m.tables.cut);
}

#[test]
fn relations_and_names() {
    // Once by binary search, once row by row.
    for sorted in [SORTED, 0] {
        let m = parse(&Blob { sorted, ..sample() });
        assert_eq!((m.enclosing(3), m.enclosing(2)), (Some(2), None));
        assert_eq!([1, 2, 3, 4, 0].map(|r| m.type_of_method(r)), [Some(2), Some(3), Some(3), None, None]);
        assert_eq!(m.full_name(INNER).unwrap(), "Ns.Outer`2+Inner");
        assert_eq!(m.full_name(Token(0x0100_0002)).unwrap(), "System.Object+Fwd");
        assert_eq!(m.full_name(Token(0x2700_0001)).unwrap(), "Ns.Fwd");
        assert_eq!([1, 2].map(|rid| m.generic_param(rid).unwrap().number), [0, 1]);
        assert_eq!(m.constant(Token(0x0400_0001)).unwrap().element_type, 8);
    }
}

#[test]
fn pointer_tables_of_uncompressed_streams() {
    let mut b = Blob { tables_name: "#-", sorted: 0, ..sample() };
    // List positions 1, 2, 3 are methods 3, 1, 2.
    let at = b.tables.iter().position(|(t, _)| *t == Table::MethodDef).unwrap();
    b.tables.insert(at, (Table::MethodPtr, vec![row(&[3]), row(&[1]), row(&[2])]));
    let m = parse(&b);
    assert_eq!([1, 2, 3].map(|r| m.type_of_method(r)), [Some(3), Some(3), Some(2)]);
    assert_eq!(m.method_rids(m.type_def(3).unwrap().methods).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn wide_heaps_extra_data_and_minimal_deltas() {
    let m = parse(&Blob { heap_sizes: 0x40, ..sample() });
    assert_eq!(m.full_name(INNER).unwrap(), "Ns.Outer`2+Inner");
    let mut b = sample();
    let name = 1u32.to_le_bytes().to_vec();
    b.heap_sizes = 1;
    b.tables = vec![(Table::ModuleRef, vec![name.clone()])];
    assert_eq!(name_of_module_ref(&b), "<Module>");
    b.heap_sizes = 0;
    b.more = vec![("#JTD", Vec::new())];
    assert_eq!(name_of_module_ref(&b), "<Module>");
    // 65,535 rows have indexes of 2 bytes, 65,536 of 4.
    for (rows, width) in [(0xffff, 2), (0x1_0000, 4)] {
        let nested = [2u32, 1].iter().flat_map(|v| v.to_le_bytes().into_iter().take(width)).collect();
        // Extends has a tag of 2 bits, so it is 4 bytes wide from 16,384 rows on.
        let tables =
            vec![(Table::TypeDef, vec![row4(2, &[1, 0, 0, 0, 0, 0]); rows]), (Table::NestedClass, vec![nested])];
        assert_eq!(parse(&Blob { tables, ..sample() }).cell(Table::NestedClass, 1, 1), Some(1));
    }
}

/// Makes every query. Only checks that nothing panics or hangs.
fn ask_all(bytes: &[u8]) {
    let Ok(m) = Metadata::parse(bytes) else { return };
    m.module();
    m.assembly();
    for rid in 0..8 {
        let token = |t| Token::new(t, rid);
        m.full_name(token(Table::TypeDef));
        m.full_name(token(Table::TypeRef));
        m.full_name(token(Table::ExportedType));
        if let Some(t) = m.type_def(rid) {
            m.field_rids(t.fields).take(100).for_each(drop);
            m.method_rids(t.methods).take(100).for_each(drop);
        }
        m.field(rid).map(|f| FieldSig::parse(f.signature));
        m.method_def(rid).map(|f| MethodSig::parse(f.signature));
        let _ = (m.member_ref(rid), m.constant(token(Table::Field)), m.field_rva(rid));
        let _ = (m.type_of_method(rid), m.generic_param(rid));
        let _ = (m.string(u32::MAX - rid), m.blob(u32::MAX - rid), m.guid(u32::MAX - rid));
    }
}

#[test]
fn every_prefix_and_every_changed_byte_is_survived() {
    let bytes = sample().bytes();
    for len in 0..bytes.len() {
        ask_all(&bytes[..len]);
    }
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            ask_all(&changed);
        }
    }
}

#[test]
fn counts_are_believed_as_far_as_there_are_bytes() {
    let b = sample();
    let mut tables = b.table_stream();
    // The third row count is that of TypeDef.
    tables[24 + 8..24 + 12].copy_from_slice(&[0xff; 4]);
    let m = Metadata::parse(b.with_tables(tables)).unwrap();
    assert!(m.tables.cut);
    assert!(m.row_count(Table::TypeDef) < 100);
    assert_eq!(m.row_count(Table::MethodDef), 0);
}

#[test]
fn what_is_no_metadata_says_why() {
    let bytes = sample().bytes();
    assert_eq!(Metadata::parse(&b"MZ\0\0"[..]).unwrap_err(), MetadataError::NoRoot(0x5a4d));
    assert_eq!(Metadata::parse(&bytes[..20]).unwrap_err(), MetadataError::Cut("root"));
    assert_eq!(Metadata::parse(&bytes[..40]).unwrap_err(), MetadataError::Cut("stream headers"));
    let b = Blob { tables_name: "#Other", ..sample() };
    assert_eq!(Metadata::parse(b.bytes()).unwrap_err(), MetadataError::NoTables);
    let b = sample();
    let mut tables = b.table_stream();
    tables[8 + 5] |= 0x20; // table 0x2d
    assert_eq!(Metadata::parse(b.with_tables(tables)).unwrap_err(), MetadataError::UnknownTable(0x2d));
}

#[test]
fn circles_of_types_end() {
    let mut b = sample();
    for (table, rows) in &mut b.tables {
        match table {
            Table::NestedClass => *rows = vec![row(&[2, 3]), row(&[3, 2])],
            Table::TypeDef => rows.iter_mut().for_each(|r| r[0] = 2),
            Table::TypeRef => rows[0] = row(&[1 << 2 | 3, 1, 0]),
            _ => {}
        }
    }
    let m = parse(&b);
    assert!(m.full_name(Token(0x0200_0002)).unwrap().starts_with("?+"));
    assert!(m.full_name(Token(0x0100_0001)).unwrap().starts_with("?+"));
}

#[test]
fn indexes_that_lead_nowhere_are_none() {
    let mut b = sample();
    b.tables = vec![(Table::TypeRef, vec![row(&[0, 0xffff, 0])]), (Table::MemberRef, vec![row(&[7, 1, 0])])];
    b.tables.sort_by_key(|(t, _)| *t);
    let m = parse(&b);
    assert_eq!((m.type_ref(1), m.member_ref(1)), (None, None));
    assert_eq!(m.type_def(1), None);
}

/// A type alone, as a field's signature has it behind its first byte.
fn alone(blob: &[u8]) -> Result<Type, SigError> {
    FieldSig::parse(&[&[0x06], blob].concat()).map(|field| field.ty)
}

#[test]
fn signatures() {
    let sig = MethodSig::parse(&[0x30, 1, 2, 0x01, 0x10, 0x1e, 0, 0x15, 0x12, 0x09, 1, 0x13, 0]).unwrap();
    assert_eq!((sig.generic_count, sig.ret), (1, Type::Primitive(ElementType::Void)));
    assert_eq!(sig.params[0], Type::ByRef(Box::new(Type::MVar(0))));
    let definition = Box::new(Type::Class(Token(0x0100_0002)));
    assert_eq!(sig.params[1], Type::GenericInst { definition, arguments: vec![Type::Var(0)] });

    // int[0...9, -1...]: sizes 10; lower bounds 0, -1.
    let array = alone(&[0x14, 0x08, 2, 1, 10, 2, 0, 0x7f]).unwrap();
    let element = Box::new(Type::Primitive(ElementType::I4));
    assert_eq!(array, Type::Array { element, rank: 2, sizes: vec![10], lower_bounds: vec![0, -1] });

    let internal = [&[0x21][..], &0x7f00_1234_5678u64.to_le_bytes()].concat();
    assert_eq!(alone(&internal), Ok(Type::Internal(0x7f00_1234_5678)));
    let modified = [&[0x06, 0x22, 1][..], &16u64.to_le_bytes(), &[0x0f, 0x01]].concat();
    let inner = Box::new(Type::Ptr(Box::new(Type::Primitive(ElementType::Void))));
    let ty = Type::Modified { required: true, modifier: ModifierRef::Internal(16), inner };
    assert_eq!(FieldSig::parse(&modified), Ok(FieldSig { ty }));

    let pinned = alone(&[0x45, 0x10, 0x05]).unwrap();
    assert_eq!(pinned, Type::Pinned(Box::new(Type::ByRef(Box::new(Type::Primitive(ElementType::U1))))));
    let vararg = MethodSig::parse(&[0x05, 2, 0x01, 0x08, 0x41, 0x0e]).unwrap();
    assert_eq!((vararg.params.len(), vararg.sentinel), (2, Some(1)));
}

#[test]
fn signed_numbers_by_the_standard() {
    // Examples in ECMA-335 II.23.2.
    let cases: [(&[u8], i32); 8] = [
        (&[0x06], 3),
        (&[0x7b], -3),
        (&[0x80, 0x80], 64),
        (&[0x01], -64),
        (&[0xc0, 0x00, 0x40, 0x00], 8192),
        (&[0x80, 0x01], -8192),
        (&[0xdf, 0xff, 0xff, 0xfe], 268_435_455),
        (&[0xc0, 0x00, 0x00, 0x01], -268_435_456),
    ];
    for (bytes, value) in cases {
        assert_eq!(sig::Reader::new(bytes).signed(), Ok(value));
    }
}

#[test]
fn hostile_signatures_are_errors() {
    for byte in [0x0f, 0x10, 0x1d, 0x45, 0x1b] {
        assert!(alone(&[byte; 10_000]).is_err());
    }
    assert_eq!(alone(&[0x1d; 10_000]), Err(SigError::TooDeep));
    let generic = [0x15, 0x12, 0x05, 1].repeat(10_000);
    assert_eq!(alone(&generic), Err(SigError::TooDeep));
    let function = [0x1b, 0, 0].repeat(10_000);
    assert_eq!(alone(&function), Err(SigError::TooDeep));
    // False counts cost nothing.
    assert_eq!(MethodSig::parse(&[0x00, 0xdf, 0xff, 0xff, 0xff, 0x01, 0x08]), Err(SigError::Cut));
    let wide = [&[0x00, 0xdf, 0xff, 0xff, 0xff][..], &[0x08; 100_000]].concat();
    assert_eq!(MethodSig::parse(&wide), Err(SigError::TooMany));
    assert_eq!(alone(&[0x77]), Err(SigError::BadElement(0x77)));
    assert_eq!(alone(&[0x12, 0x03]), Err(SigError::BadNumber));
    assert_eq!(FieldSig::parse(&[0x07, 0x08]), Err(SigError::WrongKind(7)));
    assert_eq!(MethodSig::parse(&[]), Err(SigError::Cut));
}

/// The metadata of the PE file of which these are all bytes.
fn in_file(file: &[u8]) -> Result<Metadata<'static>, MetadataError> {
    let memory = FileBytes(file);
    let image = crate::image::pe::parse(file).ok_or(MetadataError::NoCliHeader)?;
    let (addr, len) = find_root(&memory, crate::addr::Addr::NULL, &image, true)?;
    let size = usize::try_from(len).ok().filter(|_| len <= limits::MAX_METADATA).ok_or(MetadataError::TooLarge(len))?;
    Metadata::parse(memory.bytes(addr, size)?)
}

/// A module whose section is a CLI header followed by `root`.
fn module(root: &[u8]) -> Vec<u8> {
    let mut header = [0u8; 72];
    for (at, value) in [(0, 72), (8, RVA as u32 + 72), (12, root.len() as u32), (16, 1), (64, 0x2abc), (68, 8)] {
        header[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    pe_file(&[&header[..], root].concat(), &[(crate::image::pe::CLI_DIRECTORY, 0, 72)])
}

#[test]
fn found_in_a_module_flat_and_by_section() {
    let file = module(&sample().bytes());
    assert_eq!(in_file(&file).unwrap().module().unwrap().name, "lib.dll");
    for (bytes, flat) in [(&file, true), (&loaded(&file), false)] {
        let (memory, base) = (FileBytes(bytes), crate::addr::Addr::NULL);
        let image = crate::image::pe::read(&memory, base).unwrap();
        let header = cli_header(&memory, base, &image, flat).unwrap();
        assert_eq!((header.flags, header.native_header.rva, header.native_header.size), (1, 0x2abc, 8));
        let (addr, len) = find_root(&memory, base, &image, flat).unwrap();
        assert_eq!(Metadata::at(&memory, addr, len).unwrap().full_name(INNER).unwrap(), "Ns.Outer`2+Inner");
        assert_eq!(image.rva_to_offset(0x10, flat), Some(0x10));
        assert_eq!(image.rva_to_offset(0x9000, flat), None);
    }
}

#[test]
fn damaged_modules_say_why() {
    let file = module(&sample().bytes());
    for len in 0..file.len() {
        assert!(in_file(&file[..len]).is_err());
    }
    assert_eq!(in_file(&pe_file(&[0; 72], &[])).unwrap_err(), MetadataError::NoCliHeader);
    let mut large = file.clone();
    let size = super::testblob::FILE_OFFSET + 12;
    large[size..size + 4].copy_from_slice(&[0xff; 4]);
    assert_eq!(in_file(&large).unwrap_err(), MetadataError::TooLarge(0xffff_ffff));
}
