//! NativeAOT from 11.0 on: found by its contract descriptor, which replaced the debug header.
//!
//! A program has up to three descriptors: the main one, one of the GC and one that the compiler makes for the program
//! (ManagedTypes). All have the same head. The main one refers to the variables that hold the others' addresses. If it
//! is not exported, it is found in the module's data by its first bytes.

use crate::addr::Addr;
use crate::image::elf::ElfImage;
use crate::image::symbols;
use crate::layout::{
    DESCRIPTOR_MAGIC, DESCRIPTOR_SYMBOL, DescriptorHead, Layout, LayoutError, SUB_DESCRIPTOR, StructView,
};
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::clr_gc::{NATIVE_AOT, vars};

/// Names in the descriptor, and the header's names (up to 10.0), which this reader uses. Each is a type and a field.
const NAMES: [(&str, &str, &str, &str); 19] = [
    ("Thread", "LinkNext", "RuntimeThreadLocals", "m_pNext"),
    ("Thread", "OSId", "RuntimeThreadLocals", "m_threadId"),
    ("Thread", "ExceptionTracker", "RuntimeThreadLocals", "m_pExInfoStackHead"),
    ("Thread", "AllocContext", "RuntimeThreadLocals", "m_eeAllocContext"),
    ("ThreadStore", "FirstThreadLink", "ThreadStore", "m_ThreadList"),
    ("EEAllocContext", "GCAllocationContext", "ee_alloc_context", "m_rgbAllocContextBuffer"),
    ("GCAllocContext", "Pointer", "gc_alloc_context", "alloc_ptr"),
    ("GCAllocContext", "Limit", "gc_alloc_context", "alloc_limit"),
    ("MethodTable", "Flags", "MethodTable", "m_uFlags"),
    ("MethodTable", "BaseSize", "MethodTable", "m_uBaseSize"),
    ("MethodTable", "RelatedType", "MethodTable", "m_pBaseType"),
    ("MethodTable", "RelatedType", "MethodTable", "m_pRelatedParameterType"),
    ("MethodTable", "NumVtableSlots", "MethodTable", "m_usNumVtableSlots"),
    ("MethodTable", "NumInterfaces", "MethodTable", "m_usNumInterfaces"),
    ("MethodTable", "VTable", "MethodTable", "m_VTable"),
    ("ExInfo", "PreviousNestedInfo", "ExInfo", "m_pPrevExInfo"),
    ("ExInfo", "ThrownObject", "ExInfo", "m_exception"),
    ("RuntimeInstance", "ManagedCodeStartRange", "RuntimeInstance", "m_managedCodeStart"),
    ("RuntimeInstance", "ManagedCodeRangeSize", "RuntimeInstance", "m_managedCodeSize"),
];

/// Fields of GcDacVars, and the globals of the GC's descriptor that have the same address.
const SAME: [(&str, &str); 8] = [
    ("generation_table", "GCHeapGenerationTable"),
    ("ephemeral_heap_segment", "GCHeapEphemeralHeapSegment"),
    ("alloc_allocated", "GCHeapAllocAllocated"),
    ("finalize_queue", "GCHeapFinalizeQueue"),
    ("handle_table_map", "HandleTableMap"),
    ("gc_structures_invalid_cnt", "StructureInvalidCount"),
    ("n_heaps", "NumHeaps"),
    ("g_heaps", "Heaps"),
];

/// Name of a generation in the GC's descriptor.
const GENERATION: &str = "Generation";

/// Sizes of a row in the header of compiled code, in bytes.
const ROW_SIZES: [u8; 2] = [16, 24];

/// A type that only the main descriptor has.
const THREAD: &str = "Thread";

/// Minimum number of entries of [`SAME`] that must agree.
const MIN_SAME: usize = 3;

/// A descriptor with its layout.
pub(super) struct Described {
    pub(super) head: DescriptorHead,
    pub(super) layout: Layout,
    /// Whether the layout is from the process, not from a bundled copy.
    pub(super) own: bool,
}

/// Result of the search in one module.
pub(super) enum Search {
    /// No descriptor of NativeAOT.
    None,
    /// The main descriptor, and whether it is exported.
    Found(Box<Described>, bool),
    /// Only the GC's descriptor: the program was published without debugger support.
    NoMain,
    /// A descriptor is exported, but not in the core.
    NoData,
    /// A descriptor without text, which no bundled copy fits: its bytes and its number of pointers.
    Unknown(u32, usize),
}

impl Described {
    /// Reads the descriptor at `at`. `None` if there is none.
    fn read(memory: &dyn Memory, at: Addr) -> Option<Result<Described, DescriptorHead>> {
        let head = DescriptorHead::read(memory, at).ok()?;
        let own = head.own_layout(memory).ok();
        let is_own = own.is_some();
        Some(match own.or_else(|| head.built_in_layout()) {
            Some(layout) => Ok(Described { head, layout, own: is_own }),
            None => Err(head),
        })
    }

    /// Address of a variable.
    pub(super) fn variable(&self, name: &str) -> Option<Addr> {
        self.head.pointer(&self.layout, name)
    }

    /// Value of a pointer variable. `None` if it is 0 or can't be read.
    pub(super) fn value(&self, memory: &dyn Memory, name: &str) -> Option<Addr> {
        memory.ptr(self.variable(name)?).ok().filter(|at| !at.is_null())
    }

    /// A further descriptor.
    pub(super) fn part(&self, memory: &dyn Memory, name: &str) -> Option<Described> {
        Described::read(memory, self.value(memory, &format!("{SUB_DESCRIPTOR}{name}"))?)?.ok()
    }

    /// Whether this is the GC's descriptor.
    fn is_of_gc(&self) -> bool {
        self.layout.contract("GC").is_some() && !self.layout.offsets().any(|(kind, ..)| kind == THREAD)
    }

    /// Returns the version of .NET. A bundled copy does not have it: later releases may have a text of the same size.
    pub(super) fn version(&self) -> Option<String> {
        const MAX: usize = 64;
        let text = self.layout.text("RuntimeProductVersionString").filter(|_| self.own)?;
        (text.len() <= MAX && text.bytes().all(|b| b.is_ascii_graphic())).then(|| text.to_owned())
    }

    /// Its layout under the names of the header.
    pub(super) fn renamed(&self) -> Result<Layout, LayoutError> {
        let mut out = Layout::new(&self.layout.id, "the runtime's contract descriptor");
        for (kind, field, new_kind, new_field) in NAMES {
            if let Ok(offset) = self.layout.field(kind, field) {
                out.put(new_kind, new_field, offset)?;
            }
        }
        Ok(out)
    }
}

/// Finds the main descriptor of a module.
pub(super) fn search(memory: &dyn Memory, image: &ElfImage) -> Search {
    let exported = symbols::find(memory, image, DESCRIPTOR_SYMBOL);
    // CoreCLR exports its table of globals beside its descriptor.
    if exported.is_some() && symbols::find(memory, image, "g_dacTable").is_some() {
        return Search::None;
    }
    let places = exported.map_or_else(|| magic_places(memory, image), |symbol| vec![symbol.addr]);
    let mut unknown = Search::None;
    if exported.is_some_and(|symbol| memory.readable(symbol.addr, 1) == 0) {
        return Search::NoData;
    }
    let (mut gc, mut others) = (0, 0);
    for at in places {
        match Described::read(memory, at) {
            Some(Ok(found)) if found.layout.text("RuntimeFlavor") == Some(NATIVE_AOT) => {
                return Search::Found(Box::new(found), exported.is_some());
            }
            // By its bytes alone it may be any descriptor, such as that of a CoreCLR that is part of the program.
            Some(Err(head)) if exported.is_some() => unknown = Search::Unknown(head.size, head.pointers.len()),
            Some(Ok(found)) if found.is_of_gc() => gc += 1,
            // Types of the program.
            Some(Ok(found)) if found.head.pointers.is_empty() => {}
            Some(_) => others += 1,
            None => {}
        }
    }
    // The GC may be a library of its own, without compiled code.
    if gc > 0 && others == 0 && has_compiled_code(memory, image) { Search::NoMain } else { unknown }
}

/// Whether the module's data has the header of compiled code: `RTR\0`, then u16 major, and the size of its rows.
fn has_compiled_code(memory: &dyn Memory, image: &ElfImage) -> bool {
    image.writable_words(memory).any(|(_, words)| {
        let pairs = words.windows(2).filter_map(|pair| Some((pair.first()?.to_le_bytes(), pair.get(1)?.to_le_bytes())));
        pairs.into_iter().any(|(head, rest)| {
            let [b'R', b'T', b'R', 0, major, 0, ..] = head else { return false };
            major > 0 && ROW_SIZES.contains(&rest[6])
        })
    })
}

/// Addresses in the module's data where a descriptor may begin.
fn magic_places(memory: &dyn Memory, image: &ElfImage) -> Vec<Addr> {
    let magic = u64::from_le_bytes(*DESCRIPTOR_MAGIC);
    let mut out = Vec::new();
    for (start, words) in image.writable_words(memory) {
        let found = words.iter().enumerate().filter(|(_, word)| **word == magic);
        out.extend(found.map(|(i, _)| start.saturating_add(8 * i as u64)).take(limits::MAX_DESCRIPTOR_PLACES));
    }
    out
}

/// Finds GcDacVars in the module's data. Neither a symbol nor the descriptor leads to it; the addresses that the GC's
/// descriptor has prove it.
pub(super) fn gc_dac_vars(memory: &dyn Memory, image: &ElfImage, gc: &Described, layout: &Layout) -> Option<Addr> {
    for (start, words) in image.writable_words(memory) {
        for (i, pair) in words.windows(2).enumerate() {
            // Cheap tests first: u8 major, u8 minor, six bytes 0, and the size of a generation.
            let [head, size] = [pair.first(), pair.get(1)].map(|word| word.copied().unwrap_or(0));
            if head >> 16 != 0 || head & 0xff == 0 || Some(size) != gc.layout.size(GENERATION).ok() {
                continue;
            }
            let at = start.saturating_add(8 * i as u64);
            if vars::looks_like(memory, at, true) && is_same(memory, at, gc, layout) {
                return Some(at);
            }
        }
    }
    None
}

fn is_same(memory: &dyn Memory, at: Addr, gc: &Described, layout: &Layout) -> bool {
    let vars = StructView::new(memory, layout, "GcDacVars", at);
    let pairs = SAME.iter().filter_map(|(field, name)| Some((vars.ptr(field).ok()?, gc.variable(name)?)));
    let (mut same, mut other) = (0, 0);
    for (have, wanted) in pairs {
        if have == wanted { same += 1 } else { other += 1 }
    }
    same >= MIN_SAME && other == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(size: u32, count: usize) -> Option<Described> {
        let head = DescriptorHead { size, json: Addr::NULL, pointers: (0..count as u64).map(Addr::new).collect() };
        let layout = head.built_in_layout()?;
        Some(Described { head, layout, own: false })
    }

    #[test]
    fn names_are_those_of_the_header() -> Result<(), LayoutError> {
        // By the DWARF of programs of 11.0.0.
        for (size, exceptions, stack_low) in [(2235, 120, 160), (2240, 128, 168)] {
            let found = described(size, 9);
            let Some(found) = found else { panic!("no copy of {size} bytes") };
            let layout = found.renamed()?;
            assert_eq!(layout.field("RuntimeThreadLocals", "m_pExInfoStackHead")?, exceptions);
            assert_eq!(layout.field("RuntimeThreadLocals", "m_threadId")?, stack_low + 16);
            assert_eq!(layout.field("RuntimeThreadLocals", "m_pNext")?, 96);
            assert_eq!(layout.field("MethodTable", "m_usNumVtableSlots")?, 16);
            // Pointer 0 is unused.
            assert_eq!(found.variable("ThreadStore"), Some(Addr::new(1)));
            assert_eq!(found.variable("subDescriptor.GC"), Some(Addr::new(8)));
            assert_eq!((found.version(), found.is_of_gc()), (None, false));
        }
        for (size, count) in [(2280, 25), (2134, 12)] {
            assert!(described(size, count).is_some_and(|gc| gc.is_of_gc()), "{size}");
        }
        Ok(())
    }
}
