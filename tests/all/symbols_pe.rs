//! PE files under `--symbols` for modules whose header page is not in the core: which are
//! taken, what that rests on, and which are refused.

use std::path::Path;

use crate::support::builder::{CoreBuilder, Load, R, W, X};
use crate::support::notes;
use crate::support::run::{Output, bounded};

const BASE: u64 = 0x7e00_0000_0000;
const FLAT: u64 = 0x7d00_0000_0000;
const PAGE: u64 = 0x1000;
const PATH: &str = "/rt/Lab.dll";

/// A section: name, RVA, offset in the file, length, flags.
type Section = (&'static [u8; 8], u64, u64, u64, u32);

/// As .NET's precompiler for 3.1 lays it out: sections 64 KiB apart, the first one from
/// the file's first page on.
const DATA: Section = (b".data\0\0\0", 0x1_0200, 0x200, 0x1600, 0xc000_0040);
const TEXT: Section = (b".text\0\0\0", 0x2_1800, 0x1800, 0x2000, 0x6000_0020);
const RELOC: Section = (b".reloc\0\0", 0x3_3800, 0x3800, 0x200, 0x4200_0040);
/// A relocated word of .text.
const RELOCATED: u64 = 0x2400;

struct Pe {
    sections: Vec<Section>,
    file: Vec<u8>,
}

impl Pe {
    fn new(sections: &[Section]) -> Pe {
        let len = sections.iter().map(|s| s.2 + s.3).max().unwrap();
        let mut file: Vec<u8> = (0..len).map(|i| (i / 7 % 251) as u8).collect();
        file[..0x200].fill(0);
        file[..2].copy_from_slice(b"MZ");
        file[0x3c] = 0x40;
        file[0x40..0x44].copy_from_slice(b"PE\0\0");
        // COFF header: x86_64, sections, size of the optional header.
        file[0x44..0x46].copy_from_slice(&0x8664u16.to_le_bytes());
        file[0x46] = sections.len() as u8;
        file[0x54..0x56].copy_from_slice(&0xf0u16.to_le_bytes());
        let optional = 0x58;
        let mut word = |at: usize, value: u32| file[optional + at..][..4].copy_from_slice(&value.to_le_bytes());
        word(0, 0x20b);
        // SectionAlignment, FileAlignment, SizeOfImage, SizeOfHeaders, NumberOfRvaAndSizes.
        for (at, value) in [(32, 0x200), (36, 0x200), (56, 0x4_0000), (60, 0x200), (108, 16)] {
            word(at, value);
        }
        // Base relocations.
        let reloc = sections.iter().find(|s| s.0 == RELOC.0).unwrap();
        word(112 + 8 * 5, reloc.1 as u32);
        word(116 + 8 * 5, 12);
        for (i, (name, rva, offset, len, flags)) in sections.iter().enumerate() {
            let at = optional + 0xf0 + 40 * i;
            file[at..at + 8].copy_from_slice(*name);
            for (k, v) in [(8, *len as u32), (12, *rva as u32), (16, *len as u32), (20, *offset as u32), (36, *flags)] {
                file[at + k..][..4].copy_from_slice(&v.to_le_bytes());
            }
        }
        let text = sections.iter().find(|s| s.0 == TEXT.0).unwrap();
        let rva = (text.1 + RELOCATED - TEXT.2) as u32;
        let table = [(rva & !0xfff).to_le_bytes(), 12u32.to_le_bytes()].concat();
        file[reloc.2 as usize..][..8].copy_from_slice(&table);
        file[reloc.2 as usize + 8..][..2].copy_from_slice(&(0xa000 | rva as u16 & 0xfff).to_le_bytes());
        Pe { sections: sections.to_vec(), file }
    }

    /// Pages of the file from `offset` on that hold a section, and their address.
    fn mapping(&self, section: &Section) -> (u64, u64, u64) {
        let (_, rva, offset, len, _) = *section;
        (BASE + rva / PAGE * PAGE, BASE + (rva + len).next_multiple_of(PAGE), offset / PAGE)
    }

    /// Bytes of the file that a mapping of `section` shows.
    fn shown(&self, section: &Section) -> Vec<u8> {
        let (start, end, page) = self.mapping(section);
        let mut bytes = self.file[(page * PAGE) as usize..].to_vec();
        bytes.resize((end - start) as usize, 0);
        bytes
    }

    /// A core that maps the headers and all sections, and has the bytes of none.
    fn core(&self) -> CoreBuilder {
        self.with_files(&[])
    }

    fn with_files(&self, more: &[(u64, u64, u64, &str)]) -> CoreBuilder {
        let mut files = vec![(BASE, BASE + PAGE, 0, PATH)];
        files.extend(self.sections.iter().map(|s| self.mapping(s)).map(|(start, end, page)| (start, end, page, PATH)));
        files.extend_from_slice(more);
        CoreBuilder::x86_64()
            .note(notes::prstatus_x86_64(1, 0, 0x7fff_0000_0800, BASE, 0))
            .note(notes::prpsinfo(1, "lab", "lab"))
            .note(notes::files(PAGE, &files))
            .load(Load::at(0x7fff_0000_0000).bytes(vec![1; 0x1000]))
    }

    fn dumped(&self, core: CoreBuilder, section: &Section, flags: u32, bend: impl FnOnce(&mut [u8])) -> CoreBuilder {
        let mut bytes = self.shown(section);
        bend(&mut bytes);
        core.load(Load::at(self.mapping(section).0).flags(flags).bytes(bytes))
    }
}

/// What `whatis` shows of a byte in .text, with `file` as the module's.
fn shown(core: &CoreBuilder, file: &[u8], at: u64) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Lab.dll"), file).unwrap();
    let core = core.write();
    let (at, dir) = (format!("{at:#x}"), folder.path().to_str().unwrap());
    let out = bounded(&["whatis", &at, "--bytes", "16", "--symbols", dir], Path::new(core.path())).go();
    out.is_sound();
    out
}

/// An address in .text, and the bytes there.
fn in_text(pe: &Pe) -> (u64, String) {
    let text = pe.sections.iter().find(|s| s.0 == TEXT.0).unwrap();
    let offset = text.2 as usize + 0x40;
    let bytes: Vec<String> = pe.file[offset..offset + 16].iter().map(|b| format!("{b:02x}")).collect();
    (BASE + text.1 / PAGE * PAGE + text.2 % PAGE + 0x40, bytes.join(" "))
}

#[track_caller]
fn taken(core: &CoreBuilder, pe: &Pe, rests_on: Option<&str>) {
    let (at, bytes) = in_text(pe);
    let out = shown(core, &pe.file, at);
    let squeezed = out.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(squeezed.contains(&bytes), "{bytes} is not in {}\n{}", out.stdout, out.stderr);
    match rests_on {
        Some(text) => assert!(out.stderr.contains("symbols-unproven") && out.stderr.contains(text), "{}", out.stderr),
        None => assert!(!out.stderr.contains("--symbols"), "{}", out.stderr),
    }
}

#[track_caller]
fn refused(core: &CoreBuilder, pe: &Pe, file: &[u8]) {
    let (at, _) = in_text(pe);
    let out = shown(core, file, at);
    assert!(out.stderr.contains("symbols-mismatch"), "{}\n{}", out.stdout, out.stderr);
}

#[test]
fn a_section_that_shows_the_headers_is_proof() {
    let pe = Pe::new(&[DATA, TEXT, RELOC]);
    // gcore dumps .data, for it was written, and its first page begins with the headers.
    let written = |bytes: &mut [u8]| bytes[0x600..0x1000].fill(0x77);
    let core = pe.dumped(pe.core(), &DATA, R | W, written);
    taken(&core, &pe, None);
    // Another build of as many pages and the same sections.
    let mut other = pe.file.clone();
    other[0x48] = 0x55;
    refused(&core, &pe, &other);
}

#[test]
fn places_and_lengths_of_sections_without_a_byte() {
    // No section lies in the first page.
    let data = (DATA.0, 0x1_2000, 0x2000, 0x1600, DATA.4);
    let text = (TEXT.0, 0x2_3800, 0x3800, 0x2000, TEXT.4);
    let reloc = (RELOC.0, 0x3_5800, 0x5800, 0x200, RELOC.4);
    let pe = Pe::new(&[data, text, reloc]);
    let core = pe.core();
    taken(&core, &pe, Some("offset and length of sections"));
    // One section elsewhere.
    let moved = Pe::new(&[data, (TEXT.0, 0x2_4800, 0x3800, 0x2000, TEXT.4), reloc]);
    refused(&core, &pe, &moved.file);
}

#[test]
fn dumped_bytes_decide_but_for_those_that_were_relocated() {
    let data = (DATA.0, 0x1_2000, 0x2000, 0x1600, DATA.4);
    let text = (TEXT.0, 0x2_3800, 0x3800, 0x2000, TEXT.4);
    let reloc = (RELOC.0, 0x3_5800, 0x5800, 0x200, RELOC.4);
    let pe = Pe::new(&[data, text, reloc]);
    let word = (0x800 + RELOCATED - TEXT.2) as usize;
    let relocate = |bytes: &mut [u8]| bytes[word..word + 8].copy_from_slice(&BASE.to_le_bytes());
    let core = pe.dumped(pe.core(), &text, R | X, relocate);
    taken(&core, &pe, None);
    let patched = |bytes: &mut [u8]| bytes[word + 16] ^= 1;
    refused(&pe.dumped(pe.core(), &text, R | X, patched), &pe, &pe.file);
    // What may be written proves nothing, either way.
    let written = |bytes: &mut [u8]| bytes.fill(0x77);
    taken(&pe.dumped(pe.core(), &data, R | W, written), &pe, Some("offset and length of sections"));
}

#[test]
fn another_mapping_of_the_same_path_is_proof() {
    let data = (DATA.0, 0x1_2000, 0x2000, 0x1600, DATA.4);
    let text = (TEXT.0, 0x2_3800, 0x3800, 0x2000, TEXT.4);
    let reloc = (RELOC.0, 0x3_5800, 0x5800, 0x200, RELOC.4);
    let pe = Pe::new(&[data, text, reloc]);
    // Mapped as it is, too: that mapping is in the core as a whole, or its headers are.
    let end = FLAT + (pe.file.len() as u64).next_multiple_of(PAGE);
    for have in [pe.file.len(), 0x1000] {
        let flat = Load::at(FLAT).flags(R).bytes(pe.file[..have].to_vec()).memsz(end - FLAT);
        let core = pe.with_files(&[(FLAT, end, 0, PATH)]).load(flat);
        taken(&core, &pe, Some("another mapping of the same path"));
        let mut other = pe.file.clone();
        other[0x48] = 0x55;
        let out = shown(&core, &other, in_text(&pe).0);
        assert!(!out.stderr.contains("another mapping"), "{}", out.stderr);
    }
}
