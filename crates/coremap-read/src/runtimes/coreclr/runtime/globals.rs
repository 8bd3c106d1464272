//! Addresses of the runtime's globals: slots of `g_dacTable`, or pointers of the contract descriptor if it names the
//! global.
//!
//! Slots move between servicing releases (8.0.0 has 155, 8.0.33 has 157). A slot is therefore used only if it leads to
//! data of the expected shape.

use crate::addr::{Addr, AddrRange};
use crate::image::elf::ElfImage;
use crate::image::symbols::Symbol;
use crate::layout::{Global, Layout, StructView};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::clr_gc::vars;

/// Reasons why the globals can't be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GlobalsError {
    /// No table of globals, neither exported nor found by its shape.
    #[error("the table of globals (g_dacTable) is not in the core")]
    NoTable,
    /// No table names this global.
    #[error("global {0} is in no table")]
    NoGlobal(String),
    /// The global's memory can't be read.
    #[error("global {name}: {fault}")]
    Fault {
        /// Name of the global.
        name: String,
        /// Address and reason.
        fault: crate::memory::Fault,
    },
}

/// Addresses of the runtime's globals.
#[derive(Clone, Debug)]
pub struct Globals {
    slots: Vec<Addr>,
    pointers: Vec<Addr>,
    /// Address of GcDacVars, recognised by its shape.
    pub gc_dac_vars: Option<Addr>,
    /// How the table was found, for display.
    pub source: String,
}

impl Globals {
    /// Finds the globals of the runtime in `image`.
    ///
    /// # Errors
    /// [`GlobalsError::NoTable`]
    pub fn find(
        memory: &dyn Memory,
        image: &ElfImage,
        layout: &Layout,
        table: Option<Symbol>,
        pointers: Vec<Addr>,
    ) -> Result<Globals, GlobalsError> {
        let wide = layout.constant("DacTable", "slot").map_err(|_| GlobalsError::NoTable)? == WIDE;
        let counted = layout.field("GcDacVars", "total_generation_count").is_ok();
        if let Some(symbol) = table {
            let slots = read_slots(memory, image, symbol, wide);
            if !slots.is_empty() {
                let found = slots.iter().enumerate();
                let found = found.filter_map(|(i, &s)| Some((i, gc_dac_vars(memory, image, s, counted)?))).next();
                let gc_dac_vars = found.map(|(_, vars)| vars);
                let place = layout.value("DacSlot.GcDacGlobals").zip(found);
                // If one slot has moved, others may have: then none is used.
                if place.is_some_and(|(wanted, (i, _))| wanted != i as u64) {
                    let source = "export g_dacTable, with slots in other positions".into();
                    return Ok(Globals { slots: Vec::new(), pointers, gc_dac_vars, source });
                }
                return Ok(Globals { slots, pointers, gc_dac_vars, source: "export g_dacTable".into() });
            }
        }
        by_shape(memory, image, layout, wide, pointers).ok_or(GlobalsError::NoTable)
    }

    /// Address of a global: from the descriptor if it has the name, otherwise from its slot.
    ///
    /// # Errors
    /// [`GlobalsError::NoGlobal`]
    pub fn global(&self, layout: &Layout, name: &str) -> Result<Addr, GlobalsError> {
        let found = self.described(layout, name).or_else(|| self.in_slot(layout, name));
        found.ok_or_else(|| GlobalsError::NoGlobal(name.to_owned()))
    }

    /// Address of a global that the descriptor names.
    fn described(&self, layout: &Layout, name: &str) -> Option<Addr> {
        let other = DESCRIBED_AS.iter().find(|(own, _)| *own == name).map(|(_, other)| *other);
        [Some(name), other].into_iter().flatten().find_map(|name| match layout.global(name) {
            Ok(Global::Pointer(i)) => self.pointers.get(*i).copied(),
            _ => None,
        })
    }

    /// Address of a global in its slot.
    fn in_slot(&self, layout: &Layout, name: &str) -> Option<Addr> {
        let slot = layout.value(&format!("DacSlot.{name}")).and_then(|slot| usize::try_from(slot).ok());
        slot.and_then(|s| self.slots.get(s)).copied().filter(|a| !a.is_null())
    }

    /// Drops all slots if the descriptor contradicts one of them: it has another address for the same global. Then this
    /// build numbers its slots differently, and globals that the descriptor lacks are unknown.
    #[must_use]
    pub(super) fn checked_by_descriptor(mut self, layout: &Layout) -> Globals {
        let differs = |name: &str| {
            let both = self.described(layout, name).zip(self.in_slot(layout, name));
            both.is_some_and(|(described, slot)| described != slot)
        };
        if layout.globals().filter_map(|(name, _)| name.strip_prefix("DacSlot.")).any(differs) {
            self.slots = Vec::new();
            self.source = format!("{}, whose slots are not those of the layout", self.source);
        }
        self
    }

    /// Value of a global that is a pointer.
    ///
    /// # Errors
    /// [`GlobalsError`]
    pub fn pointer(&self, memory: &dyn Memory, layout: &Layout, name: &str) -> Result<Addr, GlobalsError> {
        let at = self.global(layout, name)?;
        memory.ptr(at).map_err(|fault| GlobalsError::Fault { name: name.to_owned(), fault })
    }
}

/// Globals that descriptors have under another name.
const DESCRIBED_AS: &[(&str, &str)] = &[
    ("LowestAddress", "GCLowestAddress"),
    ("HighestAddress", "GCHighestAddress"),
    ("EEJitManager", "EEJitManagerAddress"),
    ("CodeRangeMap", "ExecutionManagerCodeRangeMapAddress"),
];

/// Bytes of a slot with an address. A slot with an RVA has 4.
const WIDE: u64 = 8;

fn read_slots(memory: &dyn Memory, image: &ElfImage, symbol: Symbol, wide: bool) -> Vec<Addr> {
    let width = if wide { 8 } else { 4 };
    let count = (symbol.size / width).min(limits::MAX_DAC_SLOTS);
    (0..count)
        .map_while(|i| {
            let at = symbol.addr.checked_add(i * width)?;
            if wide { memory.ptr(at).ok() } else { Some(from_rva(image, memory.u32(at).ok()?)) }
        })
        .collect()
}

/// GcDacVars, if `slot` is the address of `g_gcDacGlobals`. `counted`: the structure includes the number of
/// generations.
fn gc_dac_vars(memory: &dyn Memory, image: &ElfImage, slot: Addr, counted: bool) -> Option<Addr> {
    if !image.range.contains(slot) {
        return None;
    }
    // Any word of the image's data may be tried here, so only a match is recorded as read.
    let vars = Addr::new(memory.peek_u64(slot).ok()?);
    vars::looks_like(memory, vars, counted).then(|| memory.ptr(slot).ok())?
}

/// Finds the table without its export (3.1 has none; a kernel's core lacks the symbol table).
///
/// Searches the image's data for the word that leads to GcDacVars, at its slot in a run of words that lead into the
/// image. There may be several such runs: on arm64 the global offset table is one, since code reaches globals through
/// it. Then the run wins whose slots lead to the globals that they are named for.
fn by_shape(
    memory: &dyn Memory,
    image: &ElfImage,
    layout: &Layout,
    wide: bool,
    pointers: Vec<Addr>,
) -> Option<Globals> {
    let Some(slot) = layout.value("DacSlot.GcDacGlobals") else { return by_any_slot(memory, image, layout, wide) };
    let slot = slot as usize;
    let counted = layout.field("GcDacVars", "total_generation_count").is_ok();
    let mut found: Vec<Globals> = Vec::new();
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
                found.push(Globals { slots, pointers, gc_dac_vars: Some(vars), source });
            }
            if found.len() >= limits::MAX_DAC_TABLES {
                break;
            }
        }
    }
    if found.len() < 2 {
        return found.pop();
    }
    // The first of the best matches.
    found.reverse();
    found.into_iter().max_by_key(|globals| count_matching_slots(memory, image, layout, globals))
}

/// Number of checked slots that lead to the global they are named for.
fn count_matching_slots(memory: &dyn Memory, image: &ElfImage, layout: &Layout, globals: &Globals) -> usize {
    let pointer = |name: &str| {
        let leads = globals.pointer(memory, layout, name).ok()?;
        (leads.is_aligned(8) && memory.readable(leads, 8) == 8).then_some(leads)
    };
    let pointers =
        ["AppDomain", "SystemDomain", "FinalizerThread", "SyncTableEntries"].map(|name| pointer(name).is_some());
    let jit = || {
        let manager = pointer("EEJitManager")?;
        // An object with a vtable in the image.
        memory.ptr(manager).ok().filter(|vtable| image.range.contains(*vtable))
    };
    let threads = || {
        let store = StructView::new(memory, layout, "ThreadStore", pointer("ThreadStore")?);
        let (first, count) = (store.ptr("FirstThreadLink").ok()?, store.u32("ThreadCount").ok()?);
        (first.is_aligned(8) && memory.readable(first, 8) == 8 && count as usize <= limits::MAX_THREADS)
            .then_some(first)
    };
    let heap = || {
        let bound = |name| globals.pointer(memory, layout, name).ok().filter(|at| !at.is_null());
        let (low, high) = (bound("LowestAddress")?, bound("HighestAddress")?);
        (low < high && !image.range.contains(low)).then_some(low)
    };
    let shapes = [jit().is_some(), threads().is_some(), heap().is_some()];
    pointers.into_iter().chain(shapes).filter(|fits| *fits).count()
}

/// Finds GcDacVars for a layout without the slot's number. Any slot of a table may lead to it; version, generation size
/// and number of generations must be plausible. The start of the table remains unknown, and with it all other globals.
fn by_any_slot(memory: &dyn Memory, image: &ElfImage, layout: &Layout, wide: bool) -> Option<Globals> {
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
            Some(Globals { slots: Vec::new(), pointers: Vec::new(), gc_dac_vars: Some(vars), source })
        })
    })
}

/// Whether the image has a table of a runtime's globals, of any version: a slot must lead to GcDacVars. Runtimes whose
/// table has RVAs do not store the number of generations.
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

/// Words of a range of the image's data, read as slots of a table.
fn words(memory: &dyn Memory, image: &ElfImage, part: AddrRange, wide: bool) -> Option<Vec<Addr>> {
    let bytes = memory.look(part.start, part.len() as usize).ok()?;
    Some(if wide {
        bytes.as_chunks::<8>().0.iter().map(|c| Addr::new(u64::from_le_bytes(*c))).collect()
    } else {
        bytes.as_chunks::<4>().0.iter().map(|c| from_rva(image, u32::from_le_bytes(*c))).collect()
    })
}

/// Address for an RVA of the table; 0 means none.
fn from_rva(image: &ElfImage, rva: u32) -> Addr {
    if rva == 0 { Addr::NULL } else { Addr::new(image.bias.wrapping_add(u64::from(rva))) }
}

/// Finds runs of words that could be a table of globals: each word is null or an address in the image after its
/// headers.
struct Tables<'a> {
    image: &'a ElfImage,
    words: &'a [Addr],
    /// End of the last run found. Each word is checked once, however many tables could begin in the run.
    end: usize,
}

impl<'a> Tables<'a> {
    /// The table that begins with word `first`. Must be called in ascending order.
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

/// Minimum number of words in a table of globals (the smallest known has 129), and of words that are not null.
const MIN_RUN: usize = 64;
const MIN_FILLED: usize = 48;
