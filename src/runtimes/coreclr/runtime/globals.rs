//! Where the runtime's globals are: slots of `g_dacTable`, and the contract
//! descriptor's table of pointers where it names a global.
//!
//! Slots move between servicing releases (8.0.0 has 155, 8.0.33 has 157), so a
//! slot is believed only where what it leads to has the right shape.

use crate::addr::{Addr, AddrRange};
use crate::image::elf::ElfImage;
use crate::image::symbols::Symbol;
use crate::layout::{Global, Layout, StructView};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::clr_gc::vars;

/// Why the globals can't be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RootsError {
    /// No table of globals, exported or by shape.
    #[error("the table of globals (g_dacTable) is not in the core")]
    NoTable,
    /// A global no table names.
    #[error("global {0} is in no table")]
    NoGlobal(String),
    /// A global's memory.
    #[error("global {name}: {fault}")]
    Fault {
        /// Name.
        name: String,
        /// Where and why.
        fault: crate::memory::Fault,
    },
}

/// Addresses of globals.
#[derive(Clone, Debug)]
pub struct Roots {
    slots: Vec<Addr>,
    pointers: Vec<Addr>,
    /// GcDacVars, by shape.
    pub gc_dac_vars: Option<Addr>,
    /// How the table was found.
    pub source: String,
}

impl Roots {
    /// Find the globals of the runtime in `image`.
    ///
    /// # Errors
    /// [`RootsError::NoTable`]
    pub fn find(
        memory: &dyn Memory,
        image: &ElfImage,
        layout: &Layout,
        table: Option<Symbol>,
        pointers: Vec<Addr>,
    ) -> Result<Roots, RootsError> {
        let wide = layout.constant("DacTable", "slot").map_err(|_| RootsError::NoTable)? == WIDE;
        let counted = layout.field("GcDacVars", "total_generation_count").is_ok();
        if let Some(symbol) = table {
            let slots = read_slots(memory, image, symbol, wide);
            if !slots.is_empty() {
                let found = slots.iter().enumerate();
                let found = found.filter_map(|(i, &s)| Some((i, gc_dac_vars(memory, image, s, counted)?))).next();
                let gc_dac_vars = found.map(|(_, vars)| vars);
                let place = layout.value("DacSlot.GcDacGlobals").zip(found);
                // A table in which one slot has moved is another one: none of its slots is believed.
                if place.is_some_and(|(wanted, (i, _))| wanted != i as u64) {
                    let source = "export g_dacTable, with slots in other positions".into();
                    return Ok(Roots { slots: Vec::new(), pointers, gc_dac_vars, source });
                }
                return Ok(Roots { slots, pointers, gc_dac_vars, source: "export g_dacTable".into() });
            }
        }
        by_shape(memory, image, layout, wide, pointers).ok_or(RootsError::NoTable)
    }

    /// Address of a global: by the descriptor's name, else by its slot.
    ///
    /// # Errors
    /// [`RootsError::NoGlobal`]
    pub fn global(&self, layout: &Layout, name: &str) -> Result<Addr, RootsError> {
        if let Ok(Global::Pointer(i)) = layout.global(name)
            && let Some(&addr) = self.pointers.get(*i)
        {
            return Ok(addr);
        }
        let slot = layout.value(&format!("DacSlot.{name}")).and_then(|slot| usize::try_from(slot).ok());
        let found = slot.and_then(|s| self.slots.get(s)).copied().filter(|a| !a.is_null());
        found.ok_or_else(|| RootsError::NoGlobal(name.to_owned()))
    }

    /// The pointer that a global holds.
    ///
    /// # Errors
    /// [`RootsError`]
    pub fn pointer(&self, memory: &dyn Memory, layout: &Layout, name: &str) -> Result<Addr, RootsError> {
        let at = self.global(layout, name)?;
        memory.ptr(at).map_err(|fault| RootsError::Fault { name: name.to_owned(), fault })
    }
}

/// Bytes of a slot that holds an address; one that holds an RVA has 4.
const WIDE: u64 = 8;

fn read_slots(memory: &dyn Memory, image: &ElfImage, symbol: Symbol, wide: bool) -> Vec<Addr> {
    let width = if wide { 8 } else { 4 };
    let count = (symbol.size / width).min(limits::MAX_DAC_SLOTS);
    (0..count)
        .map_while(|i| {
            let at = symbol.addr.checked_add(i * width)?;
            if wide {
                memory.ptr(at).ok()
            } else {
                memory
                    .u32(at)
                    .ok()
                    .map(|rva| if rva == 0 { Addr::NULL } else { Addr::new(image.bias.wrapping_add(u64::from(rva))) })
            }
        })
        .collect()
}

/// GcDacVars where `slot` is the address of `g_gcDacGlobals`; `counted`: they say how many
/// generations there are.
fn gc_dac_vars(memory: &dyn Memory, image: &ElfImage, slot: Addr, counted: bool) -> Option<Addr> {
    if !image.range.contains(slot) {
        return None;
    }
    // Any word of an image's data may be asked for this: only what leads there is a structure that was read.
    let vars = Addr::new(memory.peek_u64(slot).ok()?);
    vars::looks_like(memory, vars, counted).then(|| memory.ptr(slot).ok())?
}

/// Without the export (3.1 has none; a kernel's core lacks the symbol table): in
/// the image's data, the word that leads to GcDacVars, at its slot in a run of
/// others that lead into the image. Of several such runs that whose slots lead to what
/// they are named for: a machine whose code reaches globals by way of the global offset
/// table (arm64) has a run of the same kind there.
fn by_shape(memory: &dyn Memory, image: &ElfImage, layout: &Layout, wide: bool, pointers: Vec<Addr>) -> Option<Roots> {
    let Some(slot) = layout.value("DacSlot.GcDacGlobals") else { return by_any_slot(memory, image, layout, wide) };
    let slot = slot as usize;
    let counted = layout.field("GcDacVars", "total_generation_count").is_ok();
    let mut found: Vec<Roots> = Vec::new();
    for part in image.writable_parts(memory) {
        let words = words(memory, image, part, wide)?;
        let mut tables = Tables { image, words: &words, end: 0 };
        for (first, &word) in words.iter().skip(slot).enumerate().filter(|(_, w)| image.range.contains(**w)) {
            let Some(slots) = tables.at(first) else { continue };
            if let Some(vars) = gc_dac_vars(memory, image, word, counted) {
                let width = if wide { 8 } else { 4 };
                let start = part.start.saturating_add(width * first as u64);
                memory.keep(start, width * slots.len() as u64);
                let source = format!("g_dacTable, found by its shape at {start}");
                let (slots, pointers) = (slots.to_vec(), pointers.clone());
                found.push(Roots { slots, pointers, gc_dac_vars: Some(vars), source });
            }
            if found.len() >= limits::MAX_DAC_TABLES {
                break;
            }
        }
    }
    if found.len() < 2 {
        return found.pop();
    }
    // The first of those that fit best.
    found.reverse();
    found.into_iter().max_by_key(|roots| fitting(memory, image, layout, roots))
}

/// How many slots lead to what they are named for.
fn fitting(memory: &dyn Memory, image: &ElfImage, layout: &Layout, roots: &Roots) -> usize {
    let pointer = |name: &str| {
        let leads = roots.pointer(memory, layout, name).ok()?;
        (leads.is_aligned(8) && memory.readable(leads, 8) == 8).then_some(leads)
    };
    let pointers =
        ["AppDomain", "SystemDomain", "FinalizerThread", "SyncTableEntries"].map(|name| pointer(name).is_some());
    let jit = || {
        let manager = pointer("EEJitManager")?;
        // It begins with its vtable.
        memory.ptr(manager).ok().filter(|vtable| image.range.contains(*vtable))
    };
    let threads = || {
        let store = StructView::new(memory, layout, "ThreadStore", pointer("ThreadStore")?);
        let (first, count) = (store.ptr("FirstThreadLink").ok()?, store.u32("ThreadCount").ok()?);
        (first.is_aligned(8) && memory.readable(first, 8) == 8 && count as usize <= limits::MAX_THREADS)
            .then_some(first)
    };
    let heap = || {
        let bound = |name| roots.pointer(memory, layout, name).ok().filter(|at| !at.is_null());
        let (low, high) = (bound("LowestAddress")?, bound("HighestAddress")?);
        (low < high && !image.range.contains(low)).then_some(low)
    };
    let shapes = [jit().is_some(), threads().is_some(), heap().is_some()];
    pointers.into_iter().chain(shapes).filter(|fits| *fits).count()
}

/// The same for a layout that does not know the slot: whichever of a table leads to what is GcDacVars by
/// version, size of a generation and number of these. Where the table begins is not known then, nor any other global.
fn by_any_slot(memory: &dyn Memory, image: &ElfImage, layout: &Layout, wide: bool) -> Option<Roots> {
    let counted = layout.field("GcDacVars", "total_generation_count").is_ok();
    image.writable_parts(memory).into_iter().find_map(|part| {
        let words = words(memory, image, part, wide)?;
        let mut tables = Tables { image, words: &words, end: 0 };
        let mut in_table = 0;
        words.iter().enumerate().find_map(|(i, &word)| {
            if let Some(slots) = tables.at(i) {
                in_table = i + slots.len();
            }
            let vars = gc_dac_vars(memory, image, word, counted).filter(|_| i < in_table)?;
            let source = format!("GcDacVars, found by its shape at {vars} through a table of globals");
            Some(Roots { slots: Vec::new(), pointers: Vec::new(), gc_dac_vars: Some(vars), source })
        })
    })
}

/// Whether the image has a table of a runtime's globals, of whatever version: one that
/// leads to GcDacVars from some slot. Those whose table holds RVAs did not count their generations.
pub(in crate::runtimes::coreclr) fn has_table(memory: &dyn Memory, image: &ElfImage) -> bool {
    let in_part = |part: AddrRange, wide: bool| {
        let Some(words) = words(memory, image, part, wide) else { return false };
        let mut tables = Tables { image, words: &words, end: 0 };
        let mut in_table = 0;
        words.iter().enumerate().any(|(i, &word)| {
            if let Some(slots) = tables.at(i) {
                in_table = i + slots.len();
            }
            i < in_table && gc_dac_vars(memory, image, word, wide).is_some()
        })
    };
    let mut parts = image.writable_parts(memory).into_iter();
    parts.any(|part| in_part(part, true) || in_part(part, false))
}

/// The words of a part of the image's data, as a table of globals would have them.
fn words(memory: &dyn Memory, image: &ElfImage, part: AddrRange, wide: bool) -> Option<Vec<Addr>> {
    let bytes = memory.look(part.start, part.len() as usize).ok()?;
    Some(if wide {
        bytes.as_chunks::<8>().0.iter().map(|c| Addr::new(u64::from_le_bytes(*c))).collect()
    } else {
        bytes.as_chunks::<4>().0.iter().map(|c| from_rva(image, u32::from_le_bytes(*c))).collect()
    })
}

/// An address from an RVA of the table; 0 stands for none.
fn from_rva(image: &ElfImage, rva: u32) -> Addr {
    if rva == 0 { Addr::NULL } else { Addr::new(image.bias.wrapping_add(u64::from(rva))) }
}

/// Runs of words that could be a table of globals: all lead into the image past
/// its headers, but for some that are empty.
struct Tables<'a> {
    image: &'a ElfImage,
    words: &'a [Addr],
    /// Where the run ends that was looked at last: each word is looked at once,
    /// however many tables could begin in the run.
    end: usize,
}

impl<'a> Tables<'a> {
    /// The table that begins with word `first`; asked in rising order.
    fn at(&mut self, first: usize) -> Option<&'a [Addr]> {
        let past_headers = self.image.range.start.saturating_add(4096);
        let leads = |w: &&Addr| self.image.range.contains(**w) && **w >= past_headers;
        let words = self.words.get(first..)?;
        if self.end <= first {
            self.end = first + words.iter().take_while(|w| w.is_null() || leads(w)).count();
        }
        let run = (self.end - first).min(limits::MAX_DAC_SLOTS as usize);
        let slots = words.get(..run)?;
        (slots.get(..MIN_RUN)?.iter().filter(leads).count() >= MIN_FILLED).then_some(slots)
    }
}

/// Words in a row that make a table of globals (the smallest known has 129), and
/// how many of these are not empty.
const MIN_RUN: usize = 64;
const MIN_FILLED: usize = 48;
