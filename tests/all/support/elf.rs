//! A small reader of core headers for tests only, so that sums are checked
//! against figures that the program did not compute.

use std::collections::BTreeMap;

fn u16_at(b: &[u8], at: usize) -> u64 {
    u16::from_le_bytes(b[at..at + 2].try_into().unwrap()).into()
}

fn u32_at(b: &[u8], at: usize) -> u64 {
    u32::from_le_bytes(b[at..at + 4].try_into().unwrap()).into()
}

pub fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().unwrap())
}

#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub vaddr: u64,
    pub memsz: u64,
    pub filesz: u64,
    pub offset: u64,
    pub flags: u64,
}

pub struct Headers {
    pub loads: Vec<Segment>,
    /// Mappings of NT_FILE.
    pub files: Vec<(u64, u64)>,
    /// Their file offsets in bytes, and their paths.
    pub names: Vec<(u64, String)>,
    /// Offset and size of the first PT_NOTE.
    pub notes: (usize, usize),
    /// Bytes of ELF and program headers.
    pub len: usize,
    /// Thread ids in note order.
    pub tids: Vec<u64>,
}

/// Reads the headers of a core that is known to be complete.
pub fn read(b: &[u8]) -> Headers {
    assert_eq!(&b[..4], b"\x7fELF");
    let (at, count) = (u64_at(b, 32) as usize, u16_at(b, 56) as usize);
    let mut out = Headers {
        loads: Vec::new(),
        files: Vec::new(),
        names: Vec::new(),
        notes: (0, 0),
        len: at + 56 * count,
        tids: Vec::new(),
    };
    for i in 0..count {
        let h = &b[at + 56 * i..at + 56 * (i + 1)];
        let (offset, filesz) = (u64_at(h, 8), u64_at(h, 32));
        match u32_at(h, 0) {
            1 => out.loads.push(Segment {
                vaddr: u64_at(h, 16),
                memsz: u64_at(h, 40),
                filesz,
                offset,
                flags: u32_at(h, 4),
            }),
            4 if out.notes == (0, 0) => out.notes = (offset as usize, filesz as usize),
            _ => {}
        }
    }
    let mut rest = &b[out.notes.0..out.notes.0 + out.notes.1];
    while rest.len() >= 12 {
        let (name, desc) = (u32_at(rest, 0) as usize, u32_at(rest, 4) as usize);
        let start = 12 + name.next_multiple_of(4);
        let body = &rest[start..start + desc];
        match u32_at(rest, 8) {
            0x4649_4c45 => {
                let (count, page) = (u64_at(body, 0) as usize, u64_at(body, 8));
                let entries = (0..count).map(|i| 16 + 24 * i);
                out.files = entries.clone().map(|e| (u64_at(body, e), u64_at(body, e + 8))).collect();
                let paths = body[16 + 24 * count..].split(|&b| b == 0).map(|p| String::from_utf8_lossy(p).into_owned());
                out.names = entries.map(|e| u64_at(body, e + 16) * page).zip(paths).collect();
            }
            1 if &rest[12..16] == b"CORE" => out.tids.push(u32_at(body, 32)),
            _ => {}
        }
        rest = rest.get(start + desc.next_multiple_of(4)..).unwrap_or_default();
    }
    out
}

/// Bytes in the union of half-open ranges.
pub fn union(ranges: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    // +1 where a range begins, -1 where it ends. Bytes with a positive count
    // are covered.
    let mut edges: BTreeMap<u64, i64> = BTreeMap::new();
    for (start, end) in ranges.into_iter().filter(|(s, e)| s < e) {
        *edges.entry(start).or_default() += 1;
        *edges.entry(end).or_default() -= 1;
    }
    let (mut sum, mut depth, mut from) = (0, 0, 0);
    for (at, step) in edges {
        if depth > 0 {
            sum += at - from;
        }
        depth += step;
        from = at;
    }
    sum
}

impl Headers {
    /// Bytes of the union of PT_LOAD and NT_FILE.
    pub fn base(&self) -> u64 {
        let loads = self.loads.iter().map(|l| (l.vaddr, l.vaddr.saturating_add(l.memsz)));
        union(loads.chain(self.files.iter().copied()))
    }

    /// Bytes of memory contained in a file of `len` bytes.
    pub fn in_core(&self, len: u64) -> u64 {
        union(self.loads.iter().map(|l| {
            let have = l.filesz.min(l.memsz).min(len.saturating_sub(l.offset));
            (l.vaddr, l.vaddr.saturating_add(have))
        }))
    }
}
