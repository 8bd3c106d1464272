//! Native Memory Tracking: with `-XX:NativeMemoryTracking=summary` or `detail` the VM puts a header before each block that
//! it has from malloc, with the bytes that were asked for and what they are for.
//!
//! src/hotspot/share: services/mallocTracker.hpp up to JDK 20, nmt/mallocHeader.hpp from 21 on. Which form it has is
//! seen at a block that is known, the VM's heap object; what the numbers mean, at the table of names in libjvm.

use crate::addr::{Addr, AddrRange};
use crate::hotspot::vm::Vm;
use crate::image::ModuleKind;
use crate::limits;
use crate::managed::{BlockLabel, BlockLabels};
use crate::memory::{Memory, ProcessMemory};

/// Bytes of the header: the size asked for, then category, place in a table of call sites, and from JDK 17 on a canary.
const HEADER: u64 = 16;

/// `MallocHeader::_header_canary_life_mark`, and where it stands.
const CANARY: u64 = 0xe99e;
const CANARY_SHIFT: u32 = 48;

/// `MallocHeader::_footer_canary_life_mark`: its two bytes, the high one first.
const FOOTER: [u8; 2] = [0xe8, 0x8e];

/// In the second word of a header with a canary, where the category stands (17 to 25).
const CATEGORY_SHIFT: u32 = 32;

/// What the table of names begins with: `mtJavaHeap`, `mtClass`.
const FIRST: &str = "Java Heap";
const SECOND: &str = "Class";

/// What it ends with: `mtNone`.
const LAST: &str = "Unknown";

/// How a header looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// With a canary before and behind.
    Canary,
    /// Without (up to JDK 16): the category is the first byte of the second word.
    Plain,
}

/// The tracking of one VM.
pub struct Nmt<'p> {
    memory: &'p ProcessMemory,
    whose: String,
    form: Form,
    names: Vec<String>,
}

impl<'p> Nmt<'p> {
    /// The tracking of `vm`; `None` where it is off, or has no form that is known.
    pub fn find(vm: &Vm<'p>) -> Option<Nmt<'p>> {
        let level = vm.memory.text(Addr::new(vm.flag("NativeMemoryTracking")?), limits::MAX_VM_NAME).ok()?;
        if level == "off" {
            return None;
        }
        let heap = vm.static_ptr("Universe", "_collectedHeap").ok()?;
        let head = heap.checked_sub(HEADER)?;
        let word = vm.memory.u64(head.checked_add(8)?).ok()?;
        let asked = vm.memory.u64(head).ok().filter(|asked| (8..=limits::MAX_VM_DATA).contains(asked))?;
        let footer = vm.memory.bytes(heap.checked_add(asked)?, FOOTER.len()).ok();
        let form = match word >> CANARY_SHIFT == CANARY && footer.is_some_and(|f| f == FOOTER) {
            true => Form::Canary,
            false => Form::Plain,
        };
        let names = names(vm);
        let nmt = Nmt { memory: vm.memory, whose: vm.name(), form, names };
        let category = nmt.category(word);
        // A heap is of the collector, whatever the header looks like.
        let known = form == Form::Canary || nmt.names.get(usize::from(category)).is_some_and(|name| name == "GC");
        if !known {
            vm.process
                .diag
                .partial("hotspot", format!("{}: headers of tracked memory have no form that is known", vm.name()));
        }
        known.then_some(nmt)
    }

    fn category(&self, word: u64) -> u8 {
        match self.form {
            Form::Canary => (word >> CATEGORY_SHIFT) as u8,
            Form::Plain => word as u8,
        }
    }
}

impl BlockLabels for Nmt<'_> {
    fn whose(&self) -> String {
        format!("{}, Native Memory Tracking", self.whose)
    }

    fn header(&self) -> u64 {
        HEADER
    }

    fn label(&self, usable: AddrRange) -> Option<BlockLabel> {
        let size = self.memory.u64(usable.start).ok()?;
        let word = self.memory.u64(usable.start.checked_add(8)?).ok()?;
        let end = usable.start.checked_add(HEADER)?.checked_add(size)?;
        let fits = match self.form {
            Form::Canary => {
                word >> CANARY_SHIFT == CANARY
                    && end < usable.end
                    && self.memory.borrow(end, FOOTER.len()).is_some_and(|footer| footer == FOOTER)
            }
            // malloc gives at most one step more than was asked for, or two where the rest would be no chunk.
            Form::Plain => {
                let named = usize::from(word as u8) < self.names.len().max(1);
                size != 0 && named && end <= usable.end && usable.end.since(end) < SLACK
            }
        };
        fits.then(|| BlockLabel { label: self.category(word), size })
    }

    fn name(&self, label: u8) -> String {
        self.names.get(usize::from(label)).cloned().unwrap_or_else(|| format!("category {label}"))
    }
}

/// Bytes that a block of malloc may have more than was asked for.
const SLACK: u64 = 40;

/// The names of categories by their numbers, as libjvm has them for its reports: a table of pointers to texts, up to
/// JDK 17 one for each, later two (`mtGC`, `GC`). Numbers shift from release to release, the order of the first two does not.
fn names(vm: &Vm<'_>) -> Vec<String> {
    let Some(ModuleKind::Elf(image)) = vm.process.modules.get(vm.module).map(|m| &m.kind) else { return Vec::new() };
    let is = |word: u64, text: &str| {
        let mut have = [0; 16];
        let len = text.len().saturating_add(1).min(have.len());
        let Some(have) = have.get_mut(..len) else { return false };
        let read = vm.range.contains(Addr::new(word)) && vm.memory.read(Addr::new(word), have).is_ok();
        read && have.split_last().is_some_and(|(end, name)| *end == 0 && name == text.as_bytes())
    };
    for segment in image.segments.iter().filter(|s| s.perms.write) {
        let len = vm.memory.readable(segment.range.start, segment.range.len().min(limits::MAX_VM_DATA)) as usize;
        let Ok(bytes) = vm.memory.bytes(segment.range.start, len) else { continue };
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
        for (at, &word) in words.iter().enumerate() {
            let next = |step: usize| words.get(at.saturating_add(step)).copied().unwrap_or(0);
            if !is(word, FIRST) {
                continue;
            }
            let Some(step) = [1, 2].into_iter().find(|&step| is(next(step), SECOND)) else { continue };
            let mut out = Vec::new();
            for i in 0..limits::MAX_NMT_CATEGORIES {
                let Ok(name) = vm.memory.text(Addr::new(next(i * step)), limits::MAX_VM_NAME) else { break };
                let last = name == LAST;
                out.push(crate::bytes::printable(&name).into_owned());
                if last {
                    break;
                }
            }
            return out;
        }
    }
    Vec::new()
}
