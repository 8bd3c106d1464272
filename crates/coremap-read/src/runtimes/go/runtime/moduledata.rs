//! `moduledata`: the linker's description of a Go program, found by its shape.
//!
//! Source: runtime/symtab.go, `moduledata` and `pcHeader`. Its first words are a pointer to the header of the tables of
//! functions, then five slices into that table, one after the other, and the table of functions. The text's bounds
//! follow. No other data has this form.

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::shape::ModuleShape;

/// Magic numbers of `pcHeader`: Go 1.18 and 1.19, and from 1.20 on.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];

/// Maximum distance from the header to the first of its tables.
const MAX_HEADER: u64 = 4096;

/// Words of `moduledata` that its shape is recognised by.
const WORDS: usize = 24;

/// Indices of the first word of each of the five slices into the tables: names of functions, compilation units, files,
/// values by address, functions.
const SLICES: [usize; 5] = [1, 4, 7, 10, 13];

/// Fields of `moduledata` that can be read without the layout of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::go) struct Found {
    /// Address of the `moduledata`.
    pub(in crate::runtimes::go) at: Addr,
    pub(in crate::runtimes::go) funcnametab: Addr,
    pub(in crate::runtimes::go) cutab: Addr,
    pub(in crate::runtimes::go) filetab: Addr,
    pub(in crate::runtimes::go) pctab: Addr,
    pub(in crate::runtimes::go) pclntable: Addr,
    /// Number of rows of the function table. The last row only marks the end of the text.
    pub(in crate::runtimes::go) rows: u64,
    pub(in crate::runtimes::go) text: AddrRange,
    /// Bytes per unit of distance in code: 1 on x86_64, 4 on arm64. 1 if the header is not in the core.
    pub(in crate::runtimes::go) quantum: u64,
    /// Whether the header in memory agrees. `false` if it is in a missing file.
    pub(in crate::runtimes::go) header: bool,
}

/// Finds the first `moduledata` among `words`. `start` is the address of the first word.
pub(super) fn find(memory: &dyn Memory, start: Addr, words: &[u64]) -> Option<Found> {
    words.windows(WORDS).enumerate().find_map(|(i, window)| {
        let at = start.checked_add(8 * i as u64)?;
        shaped(window).then_some(())?;
        proven(memory, at, window)
    })
}

/// Whether words have the shape of `moduledata`.
fn shaped(w: &[u64]) -> bool {
    let word = |i: usize| w.get(i).copied().unwrap_or(0);
    let (header, first) = (word(0), word(1));
    if header == 0 || first <= header || first - header > MAX_HEADER {
        return false;
    }
    let starts = SLICES.map(word);
    let full = SLICES.iter().take(4).all(|&i| word(i + 1) == word(i + 2) && word(i + 1) != 0);
    let (text, minpc, maxpc, etext) = (word(22), word(20), word(21), word(23));
    full && starts.is_sorted_by(|a, b| a < b)
        && word(13) == word(16)
        && (1..=limits::MAX_GO_FUNCTIONS).contains(&word(17))
        && text != 0
        && text <= minpc
        && minpc < maxpc
        && maxpc <= etext.saturating_add(64)
}

/// Returns the description at `at`, if its header agrees or is not in memory.
fn proven(memory: &dyn Memory, at: Addr, w: &[u64]) -> Option<Found> {
    let word = |i: usize| w.get(i).copied().unwrap_or(0);
    let header = Addr::new(word(0));
    let mut quantum = 1;
    let known = Record::look(memory, header, 72);
    if let Some(head) = &known {
        let offsets: Vec<u64> = (0..5).map(|i| word(0).wrapping_add(head.u64(32 + 8 * i))).collect();
        let agrees = MAGICS.contains(&head.u32(0))
            && head.u8(7) == 8
            && head.u64(8).checked_add(1) == Some(word(17))
            && offsets == SLICES.map(word);
        if !agrees {
            return None;
        }
        quantum = u64::from(head.u8(6)).max(1);
    }
    let addr = |i: usize| Addr::new(word(i));
    Some(Found {
        at,
        funcnametab: addr(1),
        cutab: addr(4),
        filetab: addr(7),
        pctab: addr(10),
        pclntable: addr(13),
        rows: word(17),
        text: AddrRange::new(addr(22), addr(23)),
        quantum,
        header: known.is_some(),
    })
}

/// Further fields of `moduledata`, at offsets that differ by version.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtimes::go) struct Sections {
    pub(in crate::runtimes::go) noptrdata: AddrRange,
    pub(in crate::runtimes::go) data: AddrRange,
    pub(in crate::runtimes::go) bss: AddrRange,
    pub(in crate::runtimes::go) noptrbss: AddrRange,
    pub(in crate::runtimes::go) types: AddrRange,
    /// Start of further tables of functions, such as the inlining trees.
    pub(in crate::runtimes::go) gofunc: Addr,
}

impl Sections {
    /// Reads the fields with a version's offsets. `None` if they contradict each other, which means another version.
    /// One check: the masks of pointers have a bit for each word of data and bss.
    pub(super) fn read(memory: &dyn Memory, at: Addr, shape: &ModuleShape) -> Option<Sections> {
        let r = Record::read(memory, at, shape.size)?;
        let range = |start: u64, end: u64| AddrRange::new(r.ptr(start), r.ptr(end));
        let (data, bss) = (range(shape.data, shape.edata), range(shape.bss, shape.ebss));
        let fits = |mask: u64, section: AddrRange| {
            let bits = u64::from(r.u32(mask));
            bits.checked_sub(section.len() / 8).is_some_and(|more| more <= 16)
        };
        let types = range(shape.types, shape.etypes);
        let sections = Sections {
            noptrdata: range(shape.noptrdata, shape.noptrdata.checked_add(8)?),
            data,
            bss,
            noptrbss: range(shape.noptrbss, shape.enoptrbss),
            types,
            gofunc: r.ptr(shape.gofunc),
        };
        let ordered = !data.is_empty() && !bss.is_empty() && !types.is_empty();
        (ordered && fits(shape.gcdatamask, data) && fits(shape.gcbssmask, bss)).then_some(sections)
    }

    /// The sections of variables, each with whether it may be large and is zero in the file.
    pub(in crate::runtimes::go) fn variables(&self) -> [AddrRange; 4] {
        [self.noptrdata, self.data, self.bss, self.noptrbss]
    }
}
