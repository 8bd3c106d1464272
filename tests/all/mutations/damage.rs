//! Where a core is damaged, and how: flips, words, pages, headers, notes, the
//! contract descriptor, pointers and metadata.

use std::path::Path;

use coremap::commands;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::session::Session;
use coremap::targets::PieceState;

use super::patient::{PAGE, Patient};
use crate::support::Rng;
use crate::support::elf::{Headers, Segment};

/// One note: where its header and its bytes are, and its type.
pub struct Note {
    at: u64,
    pub body: u64,
    pub len: u64,
    kind: u32,
}

pub struct Places {
    /// Bytes of ELF and program headers.
    headers: u64,
    /// Offsets of pages that are not zero.
    pub pages: Vec<u64>,
    /// Those of them that commands read.
    read: Vec<u64>,
    notes: Vec<Note>,
    /// The contract descriptors' texts.
    texts: Vec<(u64, u64)>,
    /// Roots of metadata.
    metadata: Vec<u64>,
    /// Words in pages that commands read which hold an address that is there.
    pointers: Vec<u64>,
    loads: Vec<Segment>,
}

/// Pointers remembered; enough to meet each kind of list.
const POINTERS: usize = 1 << 17;

fn all_of(bytes: &[u8], what: &[u8]) -> Vec<u64> {
    memchr::memmem::find_iter(bytes, what).map(|at| at as u64).collect()
}

impl Places {
    pub fn find(bytes: &[u8], headers: &Headers, path: &Path) -> Places {
        let written = bytes.chunks(PAGE).enumerate().filter(|(_, p)| p.iter().any(|&b| b != 0));
        let pages: Vec<u64> = written.map(|(i, _)| (i * PAGE) as u64).collect();
        let read: Vec<u64> = read_pages(path).into_iter().filter(|p| pages.binary_search(p).is_ok()).collect();
        let held = |addr: u64| headers.loads.iter().any(|l| addr.wrapping_sub(l.vaddr) < l.filesz);
        let mut pointers = Vec::new();
        for &page in &read {
            let words = bytes[page as usize..].chunks_exact(8).take(PAGE / 8).enumerate();
            for (i, word) in words {
                let word = u64::from_le_bytes(word.try_into().unwrap());
                if word > 0xffff && word % 4 == 0 && held(word) && pointers.len() < POINTERS {
                    pointers.push(page + 8 * i as u64);
                }
            }
        }
        // The texts are JSON objects that name their version first; one ends
        // where braces are even.
        let texts = all_of(bytes, br#"{"version":"#).into_iter().filter_map(|at| {
            let mut depth = 0;
            let text = bytes[at as usize..].iter().take(1 << 16);
            let len = text.scan((), |(), &b| Some(b)).position(|b| {
                depth += i32::from(b == b'{') - i32::from(b == b'}');
                depth == 0
            })?;
            (len > 100).then_some((at, len as u64))
        });
        Places {
            headers: headers.len as u64,
            texts: texts.collect(),
            metadata: all_of(bytes, b"BSJB"),
            notes: notes(bytes, headers.notes),
            loads: headers.loads.clone(),
            read: if read.is_empty() { pages.clone() } else { read },
            pages,
            pointers,
        }
    }

    /// What there is to damage, in words.
    pub fn text(&self) -> String {
        format!(
            "{} pages read of {}, {} notes, {} descriptors, {} metadata roots, {} pointers",
            self.read.len(),
            self.pages.len(),
            self.notes.len(),
            self.texts.len(),
            self.metadata.len(),
            self.pointers.len()
        )
    }

    /// Of the pages that are read, mostly.
    fn page(&self, rng: &mut Rng) -> u64 {
        if rng.below(4) == 0 { one(&self.pages, rng) } else { one(&self.read, rng) }.copied().unwrap_or(0)
    }

    /// An offset in headers, notes, or any page with something on it.
    fn any(&self, rng: &mut Rng) -> u64 {
        match rng.below(4) {
            0 => rng.below(self.headers),
            1 => one(&self.notes, rng).map_or(0, |n| n.at + rng.below(12 + n.len)),
            _ => self.page(rng) + rng.below(PAGE as u64),
        }
    }

    /// The address of what is at `offset`.
    fn address(&self, offset: u64) -> u64 {
        let load = self.loads.iter().find(|l| offset.wrapping_sub(l.offset) < l.filesz);
        load.map_or(0, |l| l.vaddr + (offset - l.offset))
    }
}

fn one<'a, T>(list: &'a [T], rng: &mut Rng) -> Option<&'a T> {
    list.get(rng.below(list.len() as u64) as usize)
}

/// Pages of the file that the commands read which follow structures.
fn read_pages(path: &Path) -> Vec<u64> {
    let process = Process::open(path, &Options { record: true, ..Options::default() }, &Progress::silent()).unwrap();
    let session = Session::new(&process);
    drop(commands::info(&session, true));
    drop(commands::threads(&session, commands::ThreadOptions::default()));
    drop(commands::heapstat(&session, &commands::HeapStatOptions::default(), &Progress::silent()));
    drop(commands::handles(&session, &commands::HandleOptions::default()));
    drop(commands::exceptions(&session));
    drop(commands::syncblocks(&session));
    drop(commands::finalizers(&session));
    let mut out = Vec::new();
    for range in process.reads().ranges() {
        for piece in process.space().pieces.overlapping(range) {
            if let (Some(part), PieceState::Dumped(offset)) = (piece.range.intersect(&range), piece.state) {
                let from = offset + part.start.since(piece.range.start);
                let pages = from / PAGE as u64..(from + part.len()).div_ceil(PAGE as u64);
                out.extend(pages.map(|p| p * PAGE as u64));
            }
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// All notes of a core.
pub fn notes(bytes: &[u8], (start, len): (usize, usize)) -> Vec<Note> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut out) = (start, Vec::new());
    while at + 12 <= start + len {
        let (name, desc) = (word(at) as usize, word(at + 4) as usize);
        let body = at + 12 + name.next_multiple_of(4);
        out.push(Note { at: at as u64, body: body as u64, len: desc as u64, kind: word(at + 8) });
        at = body + desc.next_multiple_of(4);
    }
    out
}

/// A number that sizes, counts and pointers tend to break on.
pub fn odd(rng: &mut Rng) -> u64 {
    let words = [
        0,
        1,
        2,
        7,
        8,
        24,
        0xff,
        0xffff,
        0x1_0000,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        1 << 32,
        1 << 47,
        u64::MAX >> 1,
        1 << 63,
        u64::MAX - 4095,
        u64::MAX - 7,
        u64::MAX,
        rng.next(),
        rng.next() >> rng.below(64),
    ];
    one(&words, rng).copied().unwrap_or(0)
}

impl Patient {
    /// Damage it in one to four places.
    pub fn damage(&mut self, rng: &mut Rng) {
        for _ in 0..1 + rng.below(4) {
            match rng.below(16) {
                0..3 => self.flip(self.places.any(rng), rng),
                3..5 => {
                    let at = self.places.any(rng) & !7;
                    self.write(at, &odd(rng).to_le_bytes());
                }
                5 => {
                    let at = self.places.page(rng);
                    self.write(at, &[0; PAGE]);
                }
                6 => {
                    let (a, b) = (self.places.page(rng), self.places.page(rng));
                    let (one, other) = (self.read(a, PAGE), self.read(b, PAGE));
                    self.write(a, &other);
                    self.write(b, &one);
                }
                7 => {
                    // Pointers and sizes copied to where others are expected.
                    let (from, to) = (self.places.any(rng) & !7, self.places.any(rng) & !7);
                    let some = self.read(from, 8 << rng.below(6));
                    self.write(to, &some);
                }
                8 => self.headers(rng),
                9 => self.note(rng),
                10 if !self.places.texts.is_empty() => self.descriptor(rng),
                11 if !self.places.metadata.is_empty() => self.metadata(rng),
                12 => self.chain(rng),
                _ => self.pointer(rng),
            }
        }
        // A cut comes last: damage is written to whole files only.
        if rng.below(16) == 0 {
            let at = if rng.below(3) == 0 { rng.below(self.places.headers) } else { rng.below(self.len) };
            self.cut(at);
        }
    }

    fn flip(&mut self, at: u64, rng: &mut Rng) {
        let flipped: Vec<u8> = self.read(at, 1).iter().map(|b| b ^ (1 << rng.below(8))).collect();
        self.write(at, &flipped);
    }

    /// A field of the ELF header or of a program header that lies.
    fn headers(&mut self, rng: &mut Rng) {
        const EHDR: [(u64, usize); 8] = [(16, 2), (18, 2), (32, 8), (40, 8), (54, 2), (56, 2), (58, 2), (60, 2)];
        const PHDR: [(u64, usize); 8] = [(0, 4), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8), (40, 8), (48, 8)];
        let count = self.places.headers.saturating_sub(64) / 56;
        let (base, fields) = match rng.below(8) {
            0 => (0, EHDR),
            _ => (64 + 56 * rng.below(count), PHDR),
        };
        let Some(&(field, width)) = one(&fields, rng) else { return };
        let value = match rng.below(4) {
            // Another header's value: what overlaps, and what is at two addresses.
            0 | 1 if base > 0 => {
                let other = self.read(64 + 56 * rng.below(count) + field, width);
                other.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b))
            }
            2 => {
                let own = self.read(base + field, width);
                let own = own.iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
                own.wrapping_add(rng.below(3) * 4096).wrapping_sub(4096)
            }
            _ => odd(rng),
        };
        self.write(base + field, &value.to_le_bytes()[..width]);
    }

    /// Sizes and type of a note, what NT_FILE lists, registers of a thread.
    fn note(&mut self, rng: &mut Rng) {
        const NT_FILE: u32 = 0x4649_4c45;
        let pick = rng.below(3);
        let wanted = |n: &&Note| match pick {
            0 => true,
            1 => n.kind == NT_FILE,
            _ => n.kind == 1,
        };
        let some: Vec<&Note> = self.places.notes.iter().filter(wanted).collect();
        let Some(note) = one(&some, rng) else { return };
        let (at, body, len, kind) = (note.at, note.body, note.len, note.kind);
        match rng.below(3) {
            0 => {
                let value = odd(rng) as u32;
                self.write(at + 4 * rng.below(3), &value.to_le_bytes());
            }
            1 if kind == NT_FILE => {
                // Count and page size are most worth it.
                let word = if rng.below(2) == 0 { rng.below(2) } else { rng.below(len / 8) };
                self.write(body + 8 * word, &odd(rng).to_le_bytes());
            }
            _ => {
                let value = match one(&self.places.pointers, rng) {
                    Some(&p) if rng.below(2) == 0 => self.places.address(p).wrapping_add(rng.below(3)),
                    _ => odd(rng),
                };
                self.write(body + (rng.below(len) & !7), &value.to_le_bytes());
            }
        }
    }

    fn descriptor(&mut self, rng: &mut Rng) {
        let Some(&(start, len)) = one(&self.places.texts, rng) else { return };
        let at = start + rng.below(len);
        match rng.below(4) {
            0 => {
                let marks = *one(b"{}[],:\"\\-0e", rng).unwrap_or(&b'{');
                self.write(at, &[marks]);
            }
            1 => {
                // Another number where one is.
                let text = self.read(at, 64);
                if let Some(i) = text.iter().position(u8::is_ascii_digit) {
                    let digits = text[i..].iter().take_while(|b| b.is_ascii_digit()).count();
                    let number = vec![b'9' - (rng.below(10) as u8); digits];
                    self.write(at + i as u64, &number);
                }
            }
            2 => {
                // What comes later moves up.
                let some = self.read(at + 1 + rng.below(8), 64);
                self.write(at, &some);
            }
            _ => self.flip(at, rng),
        }
    }

    fn metadata(&mut self, rng: &mut Rng) {
        let Some(&root) = one(&self.places.metadata, rng) else { return };
        let within = if rng.below(3) == 0 { 256 } else { 64 << 10 };
        let at = (root + rng.below(within)).min(self.len - 8);
        if rng.below(2) == 0 {
            self.flip(at, rng);
        } else {
            self.write(at & !3, &(odd(rng) as u32).to_le_bytes());
        }
    }

    /// A pointer to a long list, made of a run of memory: one that ends, runs in a cycle, or
    /// leads to where the pointer led. No damage to single words makes one.
    fn chain(&mut self, rng: &mut Rng) {
        let large = |l: &&Segment| l.filesz.min(self.len.saturating_sub(l.offset)) >= PAGE as u64;
        let loads: Vec<Segment> = self.places.loads.iter().filter(large).copied().collect();
        let (Some(&at), Some(load)) = (one(&self.places.pointers, rng), one(&loads, rng)) else { return };
        let own = u64::from_le_bytes(self.read(at, 8).try_into().unwrap());
        let room = load.filesz.min(self.len.saturating_sub(load.offset));
        let step = 8 << rng.below(5);
        // Where in a node the next one's address stands.
        let link = 8 * rng.below(step / 8);
        let most = (room / step).min(1 << (4 + rng.below(13)));
        let first = rng.below(room / step - most + 1) * step;
        let node = |i: u64| load.vaddr + first + i * step;
        let last = match rng.below(4) {
            0 => 0,
            1 => own,
            2 => node(0),
            _ => node(rng.below(most)),
        };
        let mut bytes = self.read(load.offset + first, (most * step) as usize);
        for i in 0..most {
            let next = if i + 1 == most { last } else { node(i + 1) };
            if let Some(word) = bytes.get_mut((i * step + link) as usize..).and_then(|b| b.first_chunk_mut()) {
                *word = next.to_le_bytes();
            }
        }
        self.write(load.offset + first, &bytes);
        self.write(at, &node(0).to_le_bytes());
    }

    /// A pointer to itself, to another, beside its target, to the last word there is.
    fn pointer(&mut self, rng: &mut Rng) {
        let (Some(&at), Some(&other)) = (one(&self.places.pointers, rng), one(&self.places.pointers, rng)) else {
            return;
        };
        let own = u64::from_le_bytes(self.read(at, 8).try_into().unwrap());
        let near = at ^ (8 << rng.below(6));
        let value = match rng.below(7) {
            0 => self.places.address(at),
            1 => self.places.address(at).wrapping_sub(8 * rng.below(8)),
            2 => self.places.address(other),
            3 => u64::from_le_bytes(self.read(other, 8).try_into().unwrap()),
            4 => own.wrapping_add(8 * rng.below(64)).wrapping_sub(256),
            5 => one(&self.places.loads, rng).map_or(0, |l| l.vaddr.wrapping_add(l.memsz).wrapping_sub(8)),
            _ => self.places.address(near),
        };
        self.write(at, &value.to_le_bytes());
    }
}
