//! Native Memory Tracking. With `-XX:NativeMemoryTracking=summary` or `detail`, the VM puts a header before each of its
//! malloc blocks, with the requested bytes and their category.
//!
//! src/hotspot/share: services/mallocTracker.hpp up to JDK 20, nmt/mallocHeader.hpp from 21 on. The form of the header
//! is taken from a known block, the VM's heap object. The names of categories are in a table in libjvm.

use crate::addr::{Addr, AddrRange};
use crate::diag::WarningCode;
use crate::image::ModuleKind;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::{BlockLabel, BlockLabels};
use crate::runtimes::hotspot::vm::Vm;

/// Size of the header in bytes: requested bytes, then category, index of the call site, and from JDK 17 on a canary.
const HEADER: u64 = 16;

/// `MallocHeader::_header_canary_life_mark`, and its bit position in the second word.
const CANARY: u64 = 0xe99e;
const CANARY_SHIFT: u32 = 48;

/// `MallocHeader::_footer_canary_life_mark`: its two bytes, the high one first.
const FOOTER: [u8; 2] = [0xe8, 0x8e];

/// Bit position of the category in the second word of a header with a canary (17 to 25).
const CATEGORY_SHIFT: u32 = 32;

/// The first two entries of the table of names: `mtJavaHeap`, `mtClass`.
const FIRST: &str = "Java Heap";
const SECOND: &str = "Class";

/// The last entry: `mtNone`.
const LAST: &str = "Unknown";

/// Form of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// With canaries before and after the block.
    Canary,
    /// Without canaries (up to JDK 16): the category is the first byte of the second word.
    Plain,
}

/// Native Memory Tracking of one VM.
pub struct Nmt<'p> {
    memory: &'p dyn Memory,
    whose: String,
    form: Form,
    names: Vec<String>,
}

impl<'p> Nmt<'p> {
    /// Finds the tracking of `vm`. `None` if it is off, or its form is unknown.
    pub fn find(vm: &Vm<'p>) -> Option<Nmt<'p>> {
        let level = vm.memory.public_text(Addr::new(vm.flag("NativeMemoryTracking")?), limits::MAX_VM_NAME).ok()?;
        if level == "off" {
            return None;
        }
        let heap = vm.static_ptr("Universe", "_collectedHeap").ok()?;
        let head = heap.checked_sub(HEADER)?;
        let word = vm.memory.u64(head.checked_add(8)?).ok()?;
        let asked = vm.memory.u64(head).ok().filter(|asked| (8..=limits::MAX_VM_DATA).contains(asked))?;
        let mut nmt = Nmt { memory: vm.memory, whose: vm.name(), form: Form::Plain, names: names(vm) };
        if word >> CANARY_SHIFT == CANARY && nmt.reads_footer(heap.checked_add(asked)?) {
            nmt.form = Form::Canary;
        }
        let category = nmt.category(word);
        // The heap object belongs to the collector, whatever the header looks like.
        let known = nmt.form == Form::Canary || nmt.names.get(usize::from(category)).is_some_and(|name| name == "GC");
        if !known {
            vm.process.diag.note(
                WarningCode::Hotspot,
                format!("{}: Native Memory Tracking headers have an unsupported format", vm.name()),
            );
        }
        known.then_some(nmt)
    }

    fn reads_footer(&self, at: Addr) -> bool {
        let mut footer = [0; FOOTER.len()];
        self.memory.read(at, &mut footer).is_ok() && footer == FOOTER
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
            Form::Canary => word >> CANARY_SHIFT == CANARY && end < usable.end && self.reads_footer(end),
            // malloc allocates at most one step more than requested, or two if the rest would be too small for a chunk.
            Form::Plain => {
                let named = usize::from(word as u8) < self.names.len().max(1);
                size != 0 && named && end <= usable.end && usable.end.since(end) < SLACK
            }
        };
        fits.then(|| BlockLabel { label: self.category(word), size })
    }

    fn marks(&self, usable: AddrRange) -> Vec<AddrRange> {
        let Some(label) = self.label(usable) else { return Vec::new() };
        let at = |from: u64, len: u64| AddrRange::sized(usable.start.saturating_add(from), len);
        let size = at(0, 8);
        match self.form {
            // The index of the call site is below the category. It is not kept.
            Form::Canary => {
                let category = at(8 + u64::from(CATEGORY_SHIFT / 8), 1);
                let canary = at(8 + u64::from(CANARY_SHIFT / 8), 2);
                vec![size, category, canary, at(HEADER.saturating_add(label.size), FOOTER.len() as u64)]
            }
            Form::Plain => vec![size, at(8, 1)],
        }
    }

    fn name(&self, label: u8) -> String {
        self.names.get(usize::from(label)).cloned().unwrap_or_else(|| format!("category {label}"))
    }
}

/// Upper bound on the bytes that a malloc block may have beyond the request.
const SLACK: u64 = 40;

/// Returns the names of categories by number, from libjvm's table for its reports. The table has pointers to texts: one
/// per category up to JDK 17, later two (`mtGC`, `GC`). The numbers change between releases, but the first two names do
/// not.
fn names(vm: &Vm<'_>) -> Vec<String> {
    let Some(ModuleKind::Elf(image)) = vm.process.modules.get(vm.module).map(|m| &m.kind) else { return Vec::new() };
    let data = image.segments.iter().filter(|s| s.perms.write).map(|s| s.range);
    data.map(|data| names_in(vm.memory, vm.range, data)).find(|names| !names.is_empty()).unwrap_or_default()
}

/// Returns the names if their table is in `data`. The texts are in the module at `range`.
fn names_in(memory: &dyn Memory, range: AddrRange, data: AddrRange) -> Vec<String> {
    let is = |word: u64, text: &str| {
        let mut have = [0; 16];
        let len = text.len().saturating_add(1).min(have.len());
        let Some(have) = have.get_mut(..len) else { return false };
        let read = range.contains(Addr::new(word)) && memory.read(Addr::new(word), have).is_ok();
        read && have.split_last().is_some_and(|(end, name)| *end == 0 && name == text.as_bytes())
    };
    let len = memory.readable(data.start, data.len().min(limits::MAX_VM_DATA)) as usize;
    let bytes = memory.look(data.start, len).unwrap_or_default();
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
    for (at, _) in words.iter().enumerate().filter(|(_, word)| is(**word, FIRST)) {
        let next = |step: usize| words.get(at.saturating_add(step)).copied().unwrap_or(0);
        let Some(step) = [1, 2].into_iter().find(|&step| is(next(step), SECOND)) else { continue };
        let mut out = Vec::new();
        for i in 0..limits::MAX_NMT_CATEGORIES {
            let name = Addr::new(next(i * step));
            let Ok(name) = memory.public_text(name, limits::MAX_VM_NAME) else { break };
            let last = name == LAST;
            out.push(crate::bytes::printable(&name).into_owned());
            if last {
                break;
            }
        }
        return out;
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Fault, FaultKind};

    const BASE: u64 = 0x1000;

    /// Memory from [`BASE`] on.
    struct Lab(Vec<u8>);

    impl Lab {
        fn put(&mut self, at: u64, bytes: &[u8]) {
            let from = (at - BASE) as usize;
            self.0[from..from + bytes.len()].copy_from_slice(bytes);
        }

        fn words(&mut self, at: u64, words: &[u64]) {
            for (i, word) in words.iter().enumerate() {
                self.put(at + 8 * i as u64, &word.to_le_bytes());
            }
        }
    }

    impl Memory for Lab {
        fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
            let have = addr.checked_since(Addr::new(BASE)).and_then(|at| self.0.get(at as usize..)?.get(..buf.len()));
            let have = have.ok_or(Fault { addr, kind: FaultKind::Unmapped })?;
            buf.copy_from_slice(have);
            Ok(())
        }

        fn readable(&self, addr: Addr, max: u64) -> u64 {
            let at = addr.checked_since(Addr::new(BASE)).unwrap_or(u64::MAX);
            (self.0.len() as u64).saturating_sub(at).min(max)
        }
    }

    fn nmt(lab: &Lab, form: Form) -> Nmt<'_> {
        let names = ["Java Heap", "Class", "Thread"].map(str::to_owned).to_vec();
        Nmt { memory: lab, whose: "HotSpot".into(), form, names }
    }

    fn label(lab: &Lab, form: Form, len: u64) -> Option<(u8, u64)> {
        nmt(lab, form).label(AddrRange::sized(Addr::new(BASE + 0x10), len)).map(|l| (l.label, l.size))
    }

    #[test]
    fn a_header_with_canaries_is_believed_where_both_are_right() {
        let mut lab = Lab(vec![0; 0x100]);
        lab.words(BASE + 0x10, &[20, 0xe99e_0002_1234_5678]);
        lab.put(BASE + 0x10 + 16 + 20, &[0xe8, 0x8e]);
        assert_eq!(label(&lab, Form::Canary, 40), Some((2, 20)));
        let marks = nmt(&lab, Form::Canary).marks(AddrRange::sized(Addr::new(BASE + 0x10), 40));
        let marks: Vec<_> = marks.iter().map(|r| (r.start.get() - BASE - 0x10, r.len())).collect();
        assert_eq!(marks, [(0, 8), (12, 1), (14, 2), (36, 2)]);
        // The footer is after the usable part of the block.
        assert_eq!(label(&lab, Form::Canary, 36), None);
        lab.put(BASE + 0x10 + 16 + 20, &[0]);
        assert_eq!(label(&lab, Form::Canary, 40), None);
        // A size that wraps around the address space.
        lab.words(BASE + 0x10, &[u64::MAX - 20]);
        assert_eq!(label(&lab, Form::Canary, 40), None);
    }

    #[test]
    fn a_header_without_canary_is_believed_where_the_block_is_as_large() {
        let mut lab = Lab(vec![0; 0x100]);
        lab.words(BASE + 0x10, &[20, 0xffff_ff01]);
        assert_eq!(label(&lab, Form::Plain, 40), Some((1, 20)));
        assert_eq!(label(&lab, Form::Plain, 35), None);
        assert_eq!(label(&lab, Form::Plain, 96), None);
        // A category that is not in the table.
        lab.words(BASE + 0x10, &[20, 3]);
        assert_eq!(label(&lab, Form::Plain, 40), None);
    }

    #[test]
    fn names_are_found_in_both_forms_of_the_table_and_others_are_numbers() {
        let texts = BASE + 0x200;
        for step in [1, 2] {
            let mut lab = Lab(vec![0; 0x400]);
            lab.put(texts, b"Java Heap\0Class\0GC\0Unknown\0mtX\0");
            let places = [texts, texts + 10, texts + 16, texts + 19];
            for (i, place) in places.iter().enumerate() {
                lab.words(BASE + 0x40 + 8 * (i * step) as u64, &[*place]);
                if step == 2 {
                    lab.words(BASE + 0x40 + 8 * (i * step + 1) as u64, &[texts + 27]);
                }
            }
            let range = AddrRange::sized(Addr::new(BASE), 0x400);
            let names = names_in(&lab, range, AddrRange::sized(Addr::new(BASE), 0x100));
            assert_eq!(names, ["Java Heap", "Class", "GC", "Unknown"], "step {step}");
        }
        let lab = Lab(vec![0; 0x10]);
        let nmt = nmt(&lab, Form::Canary);
        assert_eq!((nmt.name(2), nmt.name(77)), ("Thread".to_owned(), "category 77".to_owned()));
    }
}
