//! Finds the context in libc's data, the areas that it leads to, and the groups that their metas lead to.

use super::Mallocng;
use super::group::{Group, resolve_nesting};
use super::shape::{ContextShape, Shape};
use crate::addr::{Addr, AddrRange};
use crate::image::Module;
use crate::layout::LayoutError;
use crate::limits;
use crate::map::Base;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::native::libc;
use crate::native::malloc::find::writable;
use crate::native::stack_records::Libc;
use crate::phase::Phase;
use crate::process::Process;

/// Finds mallocng's heap.
///
/// # Errors
/// Only if the bundled table lacks a field.
pub(in crate::native::malloc) fn find(process: &Process, base: &Base) -> Result<Mallocng, LayoutError> {
    let shape = Shape::bundled()?;
    let libcs: Vec<Option<Libc>> =
        process.modules.iter().map(|m| libc::which(process, m).map(|(libc, _)| libc)).collect();
    // A static musl has no module of its own. Nobody links it into a program with another C library.
    let linked = libcs.iter().all(Option::is_none);
    let program = process.auxv(crate::targets::at::PHDR).map(Addr::new);
    let is_mapped = |range| is_mapped(base, range);
    let reader = Reader { memory: &process.memory, is_mapped: &is_mapped, shape: &shape };
    for (i, module) in process.modules.iter().enumerate() {
        let is_program = linked && program.is_some_and(|p| module.range.contains(p));
        if libcs.get(i) == Some(&Some(Libc::Musl)) || is_program {
            let found = reader.of_module(process, base, module);
            if let Some(found) = found {
                return Ok(Mallocng { module: Some(i), shape: Some(shape), ..found });
            }
        }
    }
    Ok(Mallocng::default())
}

pub(super) struct Reader<'a> {
    pub(super) memory: &'a dyn Memory,
    /// Whether all of a range is mapped.
    pub(super) is_mapped: &'a dyn Fn(AddrRange) -> bool,
    pub(super) shape: &'a Shape,
}

impl Reader<'_> {
    fn of_module(&self, process: &Process, base: &Base, module: &Module) -> Option<Mallocng> {
        let data = writable(process, base, module);
        let parts = data.into_iter().flat_map(|data| self.memory.readable_parts(data, limits::MAX_ALLOCATOR_DATA));
        parts.into_iter().find_map(|part| self.in_data(part))
    }

    /// Returns the heap whose context is in `data`.
    pub(super) fn in_data(&self, data: AddrRange) -> Option<Mallocng> {
        let bytes = self.memory.look(data.start, usize::try_from(data.len()).ok()?).ok()?;
        let words = bytes.as_chunks::<8>().0;
        let word = |i: usize| words.get(i).map(|w| u64::from_le_bytes(*w));
        for i in 0..words.len() {
            let fits = |form: &&ContextShape| {
                let at = |offset: u64| word(i + (offset / 8) as usize);
                let (head, tail) = (at(form.area_head), at(form.area_tail));
                word(i).is_some_and(|secret| secret != 0)
                    && head.is_some_and(|head| head != 0 && Addr::new(head).is_aligned(self.shape.area))
                    && tail.is_some_and(|tail| tail != 0 && Addr::new(tail).is_aligned(self.shape.area))
            };
            let at = data.start.saturating_add(8 * i as u64);
            let forms = self.shape.contexts.iter().filter(fits);
            if let Some(found) = forms.filter_map(|form| self.context(at, form)).next() {
                return Some(found);
            }
        }
        None
    }

    /// Reads the heap of a context. Its areas must begin with its secret, and the list must end with its last area.
    fn context(&self, at: Addr, form: &ContextShape) -> Option<Mallocng> {
        let field = |offset: u64| self.memory.peek_u64(at.checked_add(offset)?).ok();
        let secret = field(form.secret)?;
        let (head, tail) = (Addr::new(field(form.area_head)?), Addr::new(field(form.area_tail)?));
        let begun = self.memory.peek_u32(at.checked_add(form.init_done)?).ok()? == 1;
        let left = field(form.avail_meta_count)?;
        if !begun || left > self.shape.metas_of_area() || !self.is_area(head, secret) || !self.is_area(tail, secret) {
            return None;
        }
        let mut out = Mallocng { context: AddrRange::sized(at, form.size), ..Mallocng::default() };
        let walks = Walks::new(Phase::Malloc, limits::MAX_MALLOCNG_AREAS);
        // Metas that were never used contain nothing.
        let untouched = AddrRange::sized(Addr::new(field(form.avail_meta)?), left.saturating_mul(self.shape.meta));
        let end = walks.begin().follow(head, |area| {
            if !self.is_area(area, secret) {
                return Err("it does not begin with the secret");
            }
            out.areas.push(area);
            self.memory.keep(area, self.shape.metas);
            let next = self.memory.ptr(area.saturating_add(self.shape.next)).map_err(|_| "not in the core")?;
            for i in 0..self.shape.metas_of_area() {
                let meta = area.saturating_add(self.shape.metas + self.shape.meta * i);
                if !untouched.contains(meta) {
                    self.meta(meta, &mut out);
                }
            }
            Ok(next)
        });
        match end {
            Err(e) => out.broken = Some(format!("the list of meta areas {e}")),
            Ok(()) if out.areas.last() != Some(&tail) => {
                out.broken = Some("the list of meta areas ends before the last one".to_owned());
            }
            Ok(()) => {}
        }
        resolve_nesting(&mut out);
        out.areas.sort_unstable();
        let count = |class: u64| field(form.usage_by_class.checked_add(8 * class)?);
        out.counted = super::shape::classes().map(|class| count(class).unwrap_or(0)).collect();
        if out.groups.is_empty() {
            return None;
        }
        self.memory.keep(at, form.size);
        Some(out)
    }

    fn is_area(&self, at: Addr, secret: u64) -> bool {
        let word = |offset: u64| self.memory.peek_u64(at.checked_add(offset)?).ok();
        // `nslots` is an int, and nothing writes the padding after it.
        let count = |word: u64| word & 0xffff_ffff == self.shape.metas_of_area();
        at.is_aligned(self.shape.area)
            && word(self.shape.check) == Some(secret)
            && word(self.shape.count).is_some_and(count)
    }

    /// Adds the group of a meta, if the group points back to the meta.
    fn meta(&self, at: Addr, out: &mut Mallocng) {
        let word = |offset: u64| self.memory.u64(at.checked_add(offset)?).ok();
        let mask = |offset: u64| self.memory.u32(at.checked_add(offset)?).ok();
        let Some(memory) = word(self.shape.memory).map(Addr::new) else {
            out.unproven += 1;
            return;
        };
        if memory.is_null() {
            return;
        }
        let group = || {
            let back = self.memory.ptr(memory.checked_add(self.shape.back)?).ok()?;
            let bits = self.shape.bits(word(self.shape.bits)?).filter(|_| back == at)?;
            let range = AddrRange::sized(memory, self.shape.len(bits).max(bits.mapped));
            let free = mask(self.shape.avail)? | mask(self.shape.freed)?;
            let aligned = memory.is_aligned(if bits.mapped > 0 { self.shape.area } else { super::shape::UNIT });
            let sane = aligned && range.len() <= limits::MAX_HEAP_PART && (self.is_mapped)(range);
            sane.then(|| Group::new(at, range, memory.saturating_add(self.shape.storage), bits, free))
        };
        let found = group();
        if found.is_some() {
            // With the group's header, which points back.
            self.memory.keep(at, self.shape.meta);
            self.memory.keep(memory, self.shape.storage);
        }
        match found {
            Some(group) if out.groups.len() < limits::MAX_MALLOCNG_GROUPS => out.groups.push(group),
            Some(_) => out.capped = true,
            None => out.unproven += 1,
        }
    }
}

fn is_mapped(base: &Base, range: AddrRange) -> bool {
    let mut at = range.start;
    for entry in base.entries.overlapping(range) {
        if entry.range.start > at {
            return false;
        }
        at = at.max(entry.range.end);
    }
    at >= range.end
}
