//! ELF files under `--symbols` for modules of which the core has neither headers nor code, as with
//! `coredump_filter` 0x23, 0x21 and 0x03: which are used, on what evidence, and which are refused.

use std::path::Path;

use crate::support::builder::{CoreBuilder, Load, R, W, X};
use crate::support::notes;
use crate::support::run::{Output, bounded};

const BASE: u64 = 0x7f00_0000_0000;
const PAGE: u64 = 0x1000;

/// Places in the file. The writable segment is one page higher in memory than in the file, with
/// a mapping without access before it, as linkers make it.
const RELOCATIONS: usize = 0x400;
const TEXT: usize = 0x1000;
const RELRO: usize = 0x3000;
const DATA: usize = 0x4000;
const END: usize = 0x5000;
const GAP: u64 = 0x1000;
/// First relocated word in the file, and how many there are.
const WORDS: usize = RELRO + 0x200;
const COUNT: usize = 32;

#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// `Elf64_Rela` with a relative relocation of this type.
    Rela(u64),
    /// DT_RELR.
    Relr,
}

/// A library of headers, code, a page that is read-only after relocation, and data.
struct Library {
    file: Vec<u8>,
    machine: u16,
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn addend(i: usize) -> u64 {
    0x1000 + 0x40 * i as u64
}

impl Library {
    fn new(machine: u16, form: Form) -> Library {
        let mut file: Vec<u8> = (0..END).map(|i| (i / 5 % 253) as u8).collect();
        file[..TEXT].fill(0);
        file[RELRO..DATA].fill(0);
        file[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        // e_type ET_DYN, e_machine, e_version; e_phoff; e_ehsize, e_phentsize, e_phnum.
        for (at, value) in [(16, 3), (18, machine), (20, 1), (52, 64), (54, 56), (56, 5)] {
            file[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        put(&mut file, 32, 64);
        let (text, relro) = (TEXT as u64, RELRO as u64);
        let rest = (END - RELRO) as u64;
        let dynamic: &[(u64, u64)] = &[
            (12, 0x1000),
            (13, 0x2f00),
            (5, 0x800),
            (10, 0x123),
            (6, 0x900),
            (0x6fff_fef5, 0xa00),
            (14, 0x11),
            // DT_DEBUG
            (21, 0),
        ];
        let table: &[(u64, u64)] = match form {
            Form::Rela(_) => &[(7, RELOCATIONS as u64), (8, 24 * COUNT as u64), (9, 24)],
            Form::Relr => &[(36, RELOCATIONS as u64), (35, 16), (37, 8)],
        };
        for (i, (tag, value)) in dynamic.iter().chain(table).chain(&[(0, 0)]).enumerate() {
            put(&mut file, RELRO + 16 * i, *tag);
            put(&mut file, RELRO + 16 * i + 8, *value);
        }
        // Type and flags, offset, vaddr, filesz, memsz.
        let headers = [
            (1, 4, 0, 0, text),
            (1, 5, text, text, relro - text),
            (1, 6, relro, relro + GAP, rest),
            (2, 6, relro, relro + GAP, 0x200),
            (0x6474_e552, 4, relro, relro + GAP, 0x1000),
        ];
        for (i, (kind, flags, offset, vaddr, size)) in headers.into_iter().enumerate() {
            let at = 64 + 56 * i;
            for (k, v) in
                [(0, kind | flags << 32), (8, offset), (16, vaddr), (24, vaddr), (32, size), (40, size), (48, PAGE)]
            {
                put(&mut file, at + k, v);
            }
        }
        for i in 0..COUNT {
            let vaddr = WORDS as u64 + GAP + 8 * i as u64;
            match form {
                Form::Rela(kind) => {
                    for (k, v) in [vaddr, kind, addend(i)].into_iter().enumerate() {
                        put(&mut file, RELOCATIONS + 24 * i + 8 * k, v);
                    }
                }
                Form::Relr => put(&mut file, WORDS + 8 * i, addend(i)),
            }
        }
        if form == Form::Relr {
            put(&mut file, RELOCATIONS, WORDS as u64 + GAP);
            // Bit 0 marks a bitmap; the others are the words after the first.
            put(&mut file, RELOCATIONS + 8, ((1 << (COUNT - 1)) - 1) << 1 | 1);
        }
        Library { file, machine }
    }

    /// The page that is read-only after relocation, as the dynamic linker leaves it.
    fn relocated(&self) -> Vec<u8> {
        let mut page = self.file[RELRO..DATA].to_vec();
        for i in 0..COUNT {
            put(&mut page, WORDS - RELRO + 8 * i, BASE + addend(i));
        }
        // r_debug of the dynamic linker.
        put(&mut page, 16 * 7 + 8, 0x7fff_1234_5678);
        page
    }

    /// A core that maps the file and has none of its bytes.
    fn core(&self, path: &str) -> CoreBuilder {
        let at = |offset: usize| BASE + offset as u64;
        let files = [
            (at(0), at(TEXT), 0, path),
            (at(TEXT), at(RELRO), 1, path),
            (at(RELRO), at(RELRO) + GAP, 3, path),
            (at(RELRO) + GAP, at(DATA) + GAP, 3, path),
            (at(DATA) + GAP, at(END) + GAP, 4, path),
        ];
        let stack = 0x7fff_0000_0000;
        let (core, thread) = match self.machine {
            183 => (CoreBuilder::aarch64(), notes::prstatus_aarch64(1, 0, stack + 0x800, at(TEXT))),
            _ => (CoreBuilder::x86_64(), notes::prstatus_x86_64(1, 0, stack + 0x800, at(TEXT), 0)),
        };
        core.note(thread)
            .note(notes::prpsinfo(1, "lab", "lab"))
            .note(notes::files(PAGE, &files))
            .note(notes::auxv(&[(9, at(TEXT) + 0x10)]))
            .load(Load::at(at(0)).flags(R).memsz(PAGE))
            .load(Load::at(at(TEXT)).flags(R | X).memsz((RELRO - TEXT) as u64))
            .load(Load::at(stack).bytes(vec![1; 0x1000]))
    }

    /// The same with the two pages that the process wrote.
    fn written(&self, path: &str, relro: Vec<u8>) -> CoreBuilder {
        let at = BASE + RELRO as u64 + GAP;
        self.core(path)
            .load(Load::at(at).flags(R).bytes(relro))
            .load(Load::at(at + PAGE).flags(R | W).bytes(vec![0x77; 0x1000]))
    }
}

/// What `whatis` shows of the code, with `file` in the folder of symbols.
fn shown(core: &CoreBuilder, name: &str, file: &[u8]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), file).unwrap();
    let core = core.write();
    let (at, dir) = (format!("{:#x}", BASE + TEXT as u64 + 0x40), folder.path().to_str().unwrap());
    let out = bounded(&["whatis", &at, "--bytes", "16", "--symbols", dir], Path::new(core.path())).go();
    out.is_sound();
    out
}

#[track_caller]
fn used(core: &CoreBuilder, name: &str, file: &[u8], evidence: Option<&str>) {
    let out = shown(core, name, file);
    let bytes: Vec<String> = file[TEXT + 0x40..][..16].iter().map(|b| format!("{b:02x}")).collect();
    let squeezed = out.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(squeezed.contains(&bytes.join(" ")), "{}\n{}", out.stdout, out.stderr);
    match evidence {
        Some(text) => assert!(out.stderr.contains("symbols-unproven") && out.stderr.contains(text), "{}", out.stderr),
        None => assert!(!out.stderr.contains("--symbols"), "{}", out.stderr),
    }
}

#[track_caller]
fn refused(core: &CoreBuilder, name: &str, file: &[u8]) {
    let out = shown(core, name, file);
    assert!(out.stderr.contains("symbols-mismatch"), "{}\n{}", out.stdout, out.stderr);
}

/// x86_64 with R_X86_64_RELATIVE, aarch64 with R_AARCH64_RELATIVE.
const MACHINES: [(u16, Form); 4] = [(62, Form::Rela(8)), (183, Form::Rela(1027)), (62, Form::Relr), (183, Form::Relr)];

#[test]
fn relocated_words_are_proof() {
    for (machine, form) in MACHINES {
        let library = Library::new(machine, form);
        let core = library.written("/lib/libtill.so.1", library.relocated());
        used(&core, "libtill.so.1", &library.file, None);
    }
}

#[test]
fn a_build_that_differs_in_one_address_is_refused() {
    for (machine, form) in MACHINES {
        let library = Library::new(machine, form);
        let mut page = library.relocated();
        put(&mut page, WORDS - RELRO + 8 * (COUNT - 1), BASE + addend(COUNT - 1) + 0x20);
        refused(&library.written("/lib/libtill.so.1", page), "libtill.so.1", &library.file);
        // DT_FINI moved, since the code before it grew.
        let mut page = library.relocated();
        put(&mut page, 16 + 8, 0x2f20);
        refused(&library.written("/lib/libtill.so.1", page), "libtill.so.1", &library.file);
        // A file for another machine has the same layout.
        let other = Library::new(if machine == 62 { 183 } else { 62 }, form);
        refused(&library.written("/lib/libtill.so.1", library.relocated()), "libtill.so.1", &other.file);
    }
}

#[test]
fn addresses_in_the_dynamic_section_may_be_relocated_in_place() {
    let library = Library::new(62, Form::Rela(8));
    let mut page = library.relocated();
    for entry in [2, 4, 5] {
        let value = u64::from_le_bytes(page[16 * entry + 8..][..8].try_into().unwrap());
        put(&mut page, 16 * entry + 8, BASE + value);
    }
    used(&library.written("/lib/libtill.so.1", page), "libtill.so.1", &library.file, None);
}

#[test]
fn a_core_with_no_byte_of_the_file_gives_a_warning() {
    let library = Library::new(62, Form::Rela(8));
    let core = library.core("/lib/libtill.so.1");
    used(&core, "libtill.so.1", &library.file, Some("offset and length of sections or segments"));
    // One page more of code.
    let mut longer = library.file.clone();
    put(&mut longer, 64 + 56 + 32, (RELRO - TEXT) as u64 + PAGE);
    put(&mut longer, 64 + 56 * 2 + 16, RELRO as u64 + 2 * GAP);
    refused(&core, "libtill.so.1", &longer);
}

#[test]
fn a_program_may_have_any_name() {
    let library = Library::new(62, Form::Rela(8));
    let core = library.written("/srv/till", library.relocated());
    used(&core, "till", &library.file, None);
}
