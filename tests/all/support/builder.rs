//! Synthetic cores, valid or with false headers.

use std::io::Write;

use super::notes;

/// PF_X, PF_W, PF_R
pub const X: u32 = 1;
pub const W: u32 = 2;
pub const R: u32 = 4;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PHDR: usize = 56;
const EHDR: usize = 64;

/// A PT_LOAD. Anything not set has the value that an honest producer would
/// write.
#[derive(Clone)]
pub struct Load {
    vaddr: u64,
    flags: u32,
    bytes: Vec<u8>,
    memsz: Option<u64>,
    filesz: Option<u64>,
    offset: Option<u64>,
}

impl Load {
    pub fn at(vaddr: u64) -> Load {
        Load { vaddr, flags: R | W, bytes: Vec::new(), memsz: None, filesz: None, offset: None }
    }

    pub fn flags(self, flags: u32) -> Load {
        Load { flags, ..self }
    }

    /// Sets the bytes in the file. They also set the size in memory, unless
    /// `memsz` does.
    pub fn bytes(self, bytes: impl Into<Vec<u8>>) -> Load {
        Load { bytes: bytes.into(), ..self }
    }

    pub fn memsz(self, memsz: u64) -> Load {
        Load { memsz: Some(memsz), ..self }
    }

    /// Sets `p_filesz`, regardless of the bytes.
    pub fn filesz(self, filesz: u64) -> Load {
        Load { filesz: Some(filesz), ..self }
    }

    /// Sets `p_offset`, regardless of the bytes. It may point into another
    /// segment, for example.
    pub fn offset(self, offset: u64) -> Load {
        Load { offset: Some(offset), ..self }
    }
}

/// How the number of program headers is stored.
#[derive(Clone, Copy, PartialEq)]
pub enum Count {
    /// In `e_phnum`.
    Plain,
    /// As PN_XNUM with the number in section header 0, as the kernel does above
    /// 65,534.
    Extended,
    /// As PN_XNUM with this false number in section header 0.
    ExtendedLying(u32),
}

#[derive(Clone)]
pub struct CoreBuilder {
    machine: u16,
    os_abi: u8,
    loads: Vec<Load>,
    notes: Vec<u8>,
    notes_last: bool,
    note_headers: usize,
    note_size: Option<u64>,
    sections: u16,
    count: Count,
    patches: Vec<(usize, Vec<u8>)>,
}

impl CoreBuilder {
    pub fn x86_64() -> CoreBuilder {
        CoreBuilder {
            machine: 62,
            os_abi: 0,
            loads: Vec::new(),
            notes: Vec::new(),
            notes_last: false,
            note_headers: 1,
            note_size: None,
            sections: 0,
            count: Count::Plain,
            patches: Vec::new(),
        }
    }

    #[allow(dead_code, reason = "no test makes such a core at present")]
    pub fn aarch64() -> CoreBuilder {
        CoreBuilder { machine: 183, ..CoreBuilder::x86_64() }
    }

    pub fn load(mut self, load: Load) -> CoreBuilder {
        self.loads.push(load);
        self
    }

    pub fn loads(mut self, loads: impl IntoIterator<Item = Load>) -> CoreBuilder {
        self.loads.extend(loads);
        self
    }

    /// Adds a note made by [`notes`], or any bytes that claim to be one.
    pub fn note(mut self, note: impl AsRef<[u8]>) -> CoreBuilder {
        self.notes.extend(note.as_ref());
        self
    }

    /// Puts the notes after the segments, as gdb does.
    pub fn notes_last(self) -> CoreBuilder {
        CoreBuilder { notes_last: true, ..self }
    }

    /// Writes this number of PT_NOTE headers for the same notes.
    pub fn note_headers(self, note_headers: usize) -> CoreBuilder {
        CoreBuilder { note_headers, ..self }
    }

    /// Sets `p_filesz` of PT_NOTE, regardless of the notes.
    pub fn note_size(self, size: u64) -> CoreBuilder {
        CoreBuilder { note_size: Some(size), ..self }
    }

    /// Adds empty section headers, as gdb writes one per segment.
    pub fn sections(self, sections: u16) -> CoreBuilder {
        CoreBuilder { sections, ..self }
    }

    #[allow(dead_code, reason = "no test makes such a core at present")]
    pub fn os_abi(self, os_abi: u8) -> CoreBuilder {
        CoreBuilder { os_abi, ..self }
    }

    pub fn count(self, count: Count) -> CoreBuilder {
        CoreBuilder { count, ..self }
    }

    pub fn patch(mut self, at: usize, bytes: &[u8]) -> CoreBuilder {
        self.patches.push((at, bytes.to_vec()));
        self
    }

    fn headers(&self) -> usize {
        self.loads.len() + self.note_headers
    }

    /// File range of the notes.
    pub fn notes_range(&self) -> std::ops::Range<usize> {
        let data: usize = self.loads.iter().map(|l| l.bytes.len()).sum();
        let first = EHDR + PHDR * self.headers();
        let start = if self.notes_last { first + data } else { first };
        start..start + self.notes.len()
    }

    /// File offset of the first segment's bytes.
    pub fn data_offset(&self) -> usize {
        let first = EHDR + PHDR * self.headers();
        if self.notes_last { first } else { first + self.notes.len() }
    }

    pub fn build(&self) -> Vec<u8> {
        let mut data_at = self.data_offset() as u64;
        let notes = self.notes_range();
        let mut out = Vec::new();
        self.elf_header(&mut out);
        for _ in 0..self.note_headers {
            let size = self.note_size.unwrap_or(self.notes.len() as u64);
            program_header(&mut out, PT_NOTE, 0, notes.start as u64, 0, size, 0);
        }
        for l in &self.loads {
            let offset = l.offset.unwrap_or(data_at);
            let filesz = l.filesz.unwrap_or(l.bytes.len() as u64);
            program_header(&mut out, PT_LOAD, l.flags, offset, l.vaddr, filesz, l.memsz.unwrap_or(filesz));
            data_at += l.bytes.len() as u64;
        }
        if !self.notes_last {
            out.extend(&self.notes);
        }
        for l in &self.loads {
            out.extend(&l.bytes);
        }
        if self.notes_last {
            out.extend(&self.notes);
        }
        self.section_headers(&mut out);
        for (at, bytes) in &self.patches {
            out[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        out
    }

    fn elf_header(&self, out: &mut Vec<u8>) {
        let data: usize = self.loads.iter().map(|l| l.bytes.len()).sum();
        let end = (EHDR + PHDR * self.headers() + data + self.notes.len()) as u64;
        let extended = self.count != Count::Plain;
        let with_sections = extended || self.sections > 0;
        out.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, self.os_abi, 0, 0, 0, 0, 0, 0, 0, 0]);
        out.extend(4u16.to_le_bytes());
        out.extend(self.machine.to_le_bytes());
        out.extend(1u32.to_le_bytes());
        for v in [0, EHDR as u64, if with_sections { end } else { 0 }] {
            out.extend(v.to_le_bytes());
        }
        out.extend(0u32.to_le_bytes());
        let count = if extended { 0xffff } else { self.headers() as u16 };
        let sections = if extended { self.sections.max(1) } else { self.sections };
        for v in [EHDR as u16, PHDR as u16, count, 64, sections, 0] {
            out.extend(v.to_le_bytes());
        }
    }

    fn section_headers(&self, out: &mut Vec<u8>) {
        let info = match self.count {
            Count::Plain => 0,
            Count::Extended => self.headers() as u32,
            Count::ExtendedLying(n) => n,
        };
        let sections = if self.count == Count::Plain { self.sections } else { self.sections.max(1) };
        for i in 0..sections {
            let mut header = [0u8; 64];
            if i == 0 {
                header[44..48].copy_from_slice(&info.to_le_bytes());
            }
            out.extend(header);
        }
    }

    pub fn write(&self) -> tempfile::NamedTempFile {
        file_with(&self.build())
    }
}

pub fn file_with(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn program_header(out: &mut Vec<u8>, kind: u32, flags: u32, offset: u64, vaddr: u64, filesz: u64, memsz: u64) {
    out.extend(kind.to_le_bytes());
    out.extend(flags.to_le_bytes());
    for v in [offset, vaddr, 0, filesz, memsz, 1] {
        out.extend(v.to_le_bytes());
    }
}

/// An ELF image as in memory: the header and these PT_LOADs (vaddr, memsz,
/// flags; all from file offset 0), padded to `len` bytes.
pub fn image(loads: &[(u64, u64, u32)], len: usize) -> Vec<u8> {
    let mut out = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    out.extend(3u16.to_le_bytes());
    out.extend(62u16.to_le_bytes());
    out.extend(1u32.to_le_bytes());
    for v in [0, EHDR as u64, 0] {
        out.extend(v.to_le_bytes());
    }
    out.extend(0u32.to_le_bytes());
    for v in [EHDR as u16, PHDR as u16, loads.len() as u16, 64, 0, 0] {
        out.extend(v.to_le_bytes());
    }
    for &(vaddr, memsz, flags) in loads {
        program_header(&mut out, PT_LOAD, flags, 0, vaddr, memsz, memsz);
    }
    out.resize(out.len().max(len), 0);
    out
}

/// A small core with one of everything, to be truncated and mutated.
pub fn small_core() -> CoreBuilder {
    small_core_with("/lib/libx.so")
}

/// The small core with a library of that path.
pub fn small_core_with(library: &str) -> CoreBuilder {
    CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(1234, 11, 0x7000_0000_0f00, 0x40_0100, 0))
        .note(notes::prpsinfo(1234, "small", "small --one"))
        .note(notes::siginfo(11, 1, 0x10))
        .note(notes::auxv(&[(6, 4096), (3, 0x40_0040), (9, 0x40_0100)]))
        .note(notes::files(4096, &[(0x40_0000, 0x40_2000, 0, "/bin/small"), (0x50_0000, 0x50_1000, 1, library)]))
        .note(notes::prstatus_x86_64(1235, 0, 0x7000_0001_0f00, 0x40_0200, 0))
        .load(Load::at(0x40_0000).flags(R | X).bytes(image(&[(0, 0x2000, R | X)], 0x2000)))
        .load(Load::at(0x60_0000).memsz(0x3000).bytes(vec![1; 0x1000]))
        .load(Load::at(0x7000_0000_0000).bytes(vec![2; 0x1000]))
        .load(Load::at(0x7000_0001_0000).bytes(vec![3; 0x1000]))
        .load(Load::at(0x7fff_0000_0000).flags(0).memsz(0x10_0000))
}
