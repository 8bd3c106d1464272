//! Metadata made by hand for tests. Rows are written as bytes, not through the schema
//! under test.

use super::Table;
use crate::addr::Addr;
use crate::memory::{Fault, FaultKind, Memory};

/// A heap of texts or blobs.
#[derive(Clone)]
pub(in crate::image) struct Heap(pub(in crate::image) Vec<u8>);

impl Heap {
    pub(in crate::image) fn new() -> Heap {
        Heap(vec![0])
    }

    /// Adds a text to #Strings.
    pub(in crate::image) fn text(&mut self, text: &str) -> u16 {
        let at = self.0.len() as u16;
        self.0.extend(text.as_bytes());
        self.0.push(0);
        at
    }

    /// Adds a blob of under 128 bytes.
    pub(in crate::image) fn blob(&mut self, blob: &[u8]) -> u16 {
        assert!(blob.len() < 0x80);
        let at = self.0.len() as u16;
        self.0.push(blob.len() as u8);
        self.0.extend(blob);
        at
    }
}

/// The components of a metadata root.
#[derive(Clone)]
pub(in crate::image) struct Blob {
    pub(in crate::image) tables_name: &'static str,
    pub(in crate::image) heap_sizes: u8,
    pub(in crate::image) sorted: u64,
    /// Tables in ascending order, each with its rows.
    pub(in crate::image) tables: Vec<(Table, Vec<Vec<u8>>)>,
    pub(in crate::image) strings: Heap,
    pub(in crate::image) blobs: Heap,
    pub(in crate::image) guids: Vec<u8>,
    pub(in crate::image) user_strings: Vec<u8>,
    /// Additional streams.
    pub(in crate::image) more: Vec<(&'static str, Vec<u8>)>,
}

impl Blob {
    pub(in crate::image) fn new() -> Blob {
        Blob {
            tables_name: "#~",
            heap_sizes: 0,
            sorted: u64::MAX,
            tables: Vec::new(),
            strings: Heap::new(),
            blobs: Heap::new(),
            guids: Vec::new(),
            user_strings: vec![0],
            more: Vec::new(),
        }
    }

    /// Returns the bytes of the table stream.
    pub(in crate::image) fn table_stream(&self) -> Vec<u8> {
        let valid = self.tables.iter().fold(0u64, |m, (t, _)| m | 1 << (*t as u8));
        let mut out = vec![0, 0, 0, 0, 2, 0, self.heap_sizes, 1];
        out.extend(valid.to_le_bytes());
        out.extend(self.sorted.to_le_bytes());
        for (_, rows) in &self.tables {
            out.extend((rows.len() as u32).to_le_bytes());
        }
        if self.heap_sizes & 0x40 != 0 {
            out.extend([0xaa; 4]);
        }
        out.extend(self.tables.iter().flat_map(|(_, rows)| rows.iter().flatten()));
        out
    }

    pub(in crate::image) fn bytes(&self) -> Vec<u8> {
        self.with_tables(self.table_stream())
    }

    /// Returns the whole root, with this table stream.
    pub(in crate::image) fn with_tables(&self, tables: Vec<u8>) -> Vec<u8> {
        let mut streams = vec![
            (self.tables_name, tables),
            ("#Strings", self.strings.0.clone()),
            ("#US", self.user_strings.clone()),
            ("#GUID", self.guids.clone()),
            ("#Blob", self.blobs.0.clone()),
        ];
        streams.extend(self.more.clone());
        let mut out = b"BSJB\x01\0\x01\0\0\0\0\0\x0c\0\0\0v4.0.30319\0\0\0\0".to_vec();
        out.extend((streams.len() as u16).to_le_bytes());
        let headers: usize = streams.iter().map(|(name, _)| 8 + (name.len() + 1).next_multiple_of(4)).sum();
        let mut at = out.len() + headers;
        for (name, data) in &streams {
            out.extend((at as u32).to_le_bytes());
            out.extend((data.len() as u32).to_le_bytes());
            let mut name = name.as_bytes().to_vec();
            name.resize((name.len() + 1).next_multiple_of(4), 0);
            out.extend(name);
            at += data.len().next_multiple_of(4);
        }
        for (_, data) in &streams {
            out.extend(data);
            out.resize(out.len().next_multiple_of(4), 0);
        }
        out
    }
}

/// A row of 2-byte columns.
pub(in crate::image) fn row(columns: &[u16]) -> Vec<u8> {
    columns.iter().flat_map(|c| c.to_le_bytes()).collect()
}

/// A row of one 4-byte column, followed by 2-byte ones.
pub(in crate::image) fn row4(first: u32, columns: &[u16]) -> Vec<u8> {
    first.to_le_bytes().into_iter().chain(row(columns)).collect()
}

/// Offset of the section of [`pe_file`] in the file, and in memory.
pub(in crate::image) const FILE_OFFSET: usize = 0x400;
pub(in crate::image) const RVA: usize = 0x2000;

/// A PE32+ file of one section, with data directories (number, offset in the section,
/// size).
pub(in crate::image) fn pe_file(section: &[u8], directories: &[(usize, u32, u32)]) -> Vec<u8> {
    let mut out = vec![0u8; FILE_OFFSET];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"MZ");
    put(0x3c, &[0x80]);
    put(0x80, b"PE\0\0");
    put(0x84, &0x8664u16.to_le_bytes());
    put(0x86, &[1]); // sections
    put(0x94, &240u16.to_le_bytes());
    put(0x98, &0x20bu16.to_le_bytes());
    put(0x98 + 56, &0x8000u32.to_le_bytes()); // SizeOfImage
    put(0x98 + 60, &(FILE_OFFSET as u32).to_le_bytes()); // SizeOfHeaders
    put(0x98 + 108, &[16]);
    for (number, offset, size) in directories {
        put(0x98 + 112 + number * 8, &(RVA as u32 + offset).to_le_bytes());
        put(0x98 + 116 + number * 8, &size.to_le_bytes());
    }
    let table = 0x98 + 240;
    put(table, b".text");
    for (at, value) in [(8, section.len()), (12, RVA), (16, section.len()), (20, FILE_OFFSET)] {
        put(table + at, &(value as u32).to_le_bytes());
    }
    out.extend(section);
    out
}

/// Returns the same file as it is mapped by section.
pub(in crate::image) fn loaded(file: &[u8]) -> Vec<u8> {
    let mut out = file[..FILE_OFFSET].to_vec();
    out.resize(RVA, 0);
    out.extend(&file[FILE_OFFSET..]);
    out
}

/// A file's bytes, read as if mapped at address 0.
pub(in crate::image) struct FileBytes<'f>(pub(in crate::image) &'f [u8]);

impl<'f> FileBytes<'f> {
    fn get(&self, addr: Addr, len: usize) -> Result<&'f [u8], Fault> {
        let end = Addr::new(self.0.len() as u64);
        let cut = Fault { addr: end.max(addr), kind: FaultKind::Truncated };
        let from = usize::try_from(addr.get()).map_err(|_| cut)?;
        crate::bytes::get(self.0, from, len).ok_or(cut)
    }
}

impl Memory for FileBytes<'_> {
    fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
        buf.copy_from_slice(self.get(addr, buf.len())?);
        Ok(())
    }

    fn borrow(&self, addr: Addr, len: usize) -> Option<&[u8]> {
        self.get(addr, len).ok()
    }

    fn readable(&self, addr: Addr, max: u64) -> u64 {
        (self.0.len() as u64).saturating_sub(addr.get()).min(max)
    }
}
