//! Where the frames of managed methods hold references: GC info applied to a
//! frame's registers and stack.
//!
//! src/coreclr/vm: eetwain.cpp (EECodeManager::EnumGcRefs), codeman.cpp
//! (GetGCInfoToken), gcinfodecoder.cpp (GetStackSlot, IsScratchStackSlot).

use std::cell::Cell;
use std::sync::atomic::Ordering;

use crate::addr::Addr;
use crate::layout::{Layout, StructView, ViewError};
use crate::limits;
use crate::memory::Memory;
use crate::registers::{self, Regs};
use crate::runtimes::api::FrameSlotPlace;
use crate::runtimes::coreclr::code::gc_info::{At, Encoding, GcInfo, Place, Slot, StackBase};
use crate::runtimes::coreclr::code::{CodeBlock, CodeRangeKind, behind, dwarf};
use crate::targets::Arch;

use super::Methods;

/// A reference that a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSlot {
    /// Where.
    pub place: FrameSlotPlace,
    /// What is there: an object or null; if `interior`, maybe an address within
    /// an object, or outside of the heap.
    pub value: u64,
    /// See `value`.
    pub interior: bool,
    /// The object must not be moved.
    pub pinned: bool,
}

/// How a frame is at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameState {
    /// In a call.
    Call,
    /// Interrupted there, and goes on there.
    Interrupted,
    /// In an exception's throw: only its handlers will see it again.
    Aborted,
}

/// What GC info says of a frame.
#[derive(Clone, Debug)]
pub struct FrameSlots {
    /// Its references.
    pub slots: Vec<FrameSlot>,
    /// Whether a collection may meet the frame at this place; if not, nothing is
    /// known of what is in its registers and in slots that change their meaning.
    pub safe: bool,
    /// Slots that hold a reference, but can't be read.
    pub unread: u32,
    /// Begin of the method's code, funclets included.
    pub start: Addr,
    /// Whether it is one of the method's funclets, and not its body.
    pub funclet: bool,
    /// Whether it is a funclet that is known to be no filter: the frames from it up
    /// to its method's own are done.
    pub handler: bool,
    /// Whether the method's body tells nothing of its own where a funclet did.
    pub only_leaf: bool,
    /// End of what belongs to the functions that it calls, from its stack pointer on.
    pub outgoing: Addr,
    /// Its method has arguments that GC info does not describe (`__arglist`).
    pub variable_arguments: bool,
}

/// What the GC info of a method says of all of it; for checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg(feature = "internals")]
pub struct GcInfoFacts {
    /// Bytes of code, funclets and cold part included.
    pub code_length: u32,
    /// Sets of live slots that were read.
    pub states: u64,
}

/// Bytes of code that belongs to one GC info, found by one of its addresses.
struct Found {
    gc_info: Addr,
    start: Addr,
    /// From the method's begin, cold parts counted behind the hot one.
    offset: u64,
    /// Of a funclet, where it begins, from the method's begin.
    funclet: Option<u64>,
    /// Where filters begin, if that is known.
    filters: Option<Vec<u64>>,
    pristine: bool,
}

impl Found {
    /// Whether it is known to be a filter.
    fn is_filter(&self) -> bool {
        self.funclet.zip(self.filters.as_ref()).is_some_and(|(begin, all)| all.contains(&begin))
    }
}

impl Methods<'_> {
    /// Which GC info a runtime's code has; newer runtimes tell themselves.
    fn gc_encoding(&self) -> Result<Encoding, String> {
        let runtime = &self.types.runtime;
        let bundled = || runtime.layout.value("TableGCInfoVersion").filter(|_| runtime.own_table);
        let version = runtime.layout.value("GCInfoVersion").or_else(bundled);
        let encoding = version.and_then(|v| Encoding::of(self.types.process.arch(), v));
        encoding.ok_or_else(|| match version {
            Some(version) => format!("GC info version {version} is not supported"),
            None => format!("the GC info of {} is not supported", runtime.name()),
        })
    }

    fn gc_info_at(&self, at: Addr) -> Result<Found, String> {
        let missing = || format!("no GC info for the code at {at}");
        let range = self.ranges.at(at).ok_or_else(missing)?;
        match range.kind {
            CodeRangeKind::Heap(node) => {
                let heap = self.heap(range, node);
                let heap = heap.as_ref().as_ref().map_err(String::clone)?;
                let start = heap.start_of(at).ok_or_else(missing)?;
                let runtime = &self.types.runtime;
                match heap.block(self.memory(), runtime, start).map_err(|e| e.to_string())? {
                    CodeBlock::Method { gc_info, eh_info, size, unwind, .. }
                        if !gc_info.is_null() && at.since(start) < size =>
                    {
                        let entry = heap.unwind_entry(self.memory(), runtime, unwind, at).ok_or_else(missing)?;
                        let funclet = (entry.begin() != start).then(|| entry.begin().since(start));
                        let filters = funclet.and_then(|_| filters(self.memory(), &runtime.layout, eh_info).ok());
                        Ok(Found { gc_info, start, offset: at.since(start), funclet, filters, pristine: false })
                    }
                    _ => Err(missing()),
                }
            }
            CodeRangeKind::ReadyToRun(module) => {
                let image = self.image(range, module);
                let image = image.as_ref().as_ref().map_err(String::clone)?;
                let method = image.method(at).ok_or_else(missing)?;
                let own = image.unwind_entry(method.start).ok_or_else(missing)?;
                let entry = image.unwind_entry(at).ok_or_else(missing)?;
                let cold = method.cold.filter(|c| at >= c.0 && at.since(c.0) < c.1);
                let offset = match cold {
                    Some((cold, _)) => method.size.saturating_add(at.since(cold)),
                    None => at.since(method.start.min(at)),
                };
                let begins = entry.begin() == method.start || cold.is_some_and(|c| entry.begin() == c.0);
                let pristine = self.types.process.memory.pristine();
                let gc_info = behind(&pristine, self.types.runtime.arch, &own).map_err(|e| e.to_string())?;
                // Its exception clauses are not read: no funclet is known to be no filter.
                let funclet = (!begins).then(|| entry.begin().since(method.start.min(entry.begin())));
                Ok(Found { gc_info, start: method.start, offset, funclet, filters: None, pristine: true })
            }
            _ => Err(missing()),
        }
    }

    /// Run `with` on the GC info of the code at `at`. How long it is stands
    /// nowhere: what is cut off is tried once more with all that is there.
    fn with_gc_info<T>(
        &self,
        found: &Found,
        with: impl Fn(GcInfo<'_>) -> Result<T, crate::runtimes::coreclr::code::gc_info::GcInfoError>,
    ) -> Result<T, String> {
        let encoding = self.gc_encoding()?;
        let pristine = self.types.process.memory.pristine();
        let memory: &dyn Memory = if found.pristine { &pristine } else { self.memory() };
        let mut last = String::new();
        for most in [limits::FIRST_GC_INFO, limits::MAX_GC_INFO] {
            if self.gc_work.load(Ordering::Relaxed) > limits::MAX_GC_INFO_WORK {
                return Err("more GC info than the limit".to_owned());
            }
            let len = memory.readable(found.gc_info, most) as usize;
            let owned;
            let bytes = match memory.borrow_to_look(found.gc_info, len) {
                Some(bytes) => bytes,
                None => {
                    owned = memory.look(found.gc_info, len).map_err(|e| e.to_string())?;
                    &owned
                }
            };
            let read_to = Cell::new(0);
            let read = GcInfo::read(bytes, encoding, &read_to);
            // What is refused may have been read to its end.
            let work = read.as_ref().map_or(len as u64, GcInfo::weight);
            self.gc_work.fetch_add(work, Ordering::Relaxed);
            match read.and_then(&with) {
                Ok(done) => {
                    // Bits that read as letters are no text, and what follows is nobody's structure: that of dynamic methods lies in
                    // blocks of malloc (dynamicmethod.cpp, ChunkAllocator).
                    memory.keep(found.gc_info, read_to.get().div_ceil(8));
                    return Ok(done);
                }
                Err(e) => last = format!("{}: {e}", found.gc_info),
            }
            if (len as u64) < most {
                break;
            }
        }
        Err(last)
    }

    /// The references that a frame in managed code holds.
    ///
    /// # Errors
    /// Where its GC info can't be read or is of an unknown version, in words.
    pub fn frame_slots(&self, regs: &Regs, state: FrameState) -> Result<FrameSlots, String> {
        let ip = regs.ip();
        // A call that never returns may be the last instruction.
        let back = u64::from(state == FrameState::Call);
        let found = self.gc_info_at(ip.saturating_sub(back))?;
        let offset = u32::try_from(found.offset + back).map_err(|_| format!("{ip} is in no method"))?;
        let at = match state {
            FrameState::Call => At::Call,
            FrameState::Interrupted => At::Interrupted,
            FrameState::Aborted => At::Aborted,
        };
        self.with_gc_info(&found, |info| {
            let live = info.live(offset, at)?;
            let sp = regs.sp();
            let outgoing = sp.saturating_add(u64::from(info.header.outgoing));
            let mut frame = Frame { methods: self, regs, state, base: info.header.base_register, caller: None };
            let mut out = FrameSlots {
                slots: Vec::new(),
                safe: live.safe,
                unread: 0,
                start: found.start,
                funclet: found.funclet.is_some(),
                handler: found.funclet.is_some() && found.filters.is_some() && !found.is_filter(),
                only_leaf: info.header.only_leaf,
                outgoing,
                variable_arguments: info.header.variable_arguments,
            };
            // A filter runs while its method's frame tells of its slots too.
            let untracked = if found.is_filter() { &[][..] } else { live.untracked.as_slice() };
            for (slot, tracked) in live.tracked.iter().map(|s| (s, true)).chain(untracked.iter().map(|s| (s, false))) {
                match frame.resolve(slot) {
                    // Arguments to what it calls are that one's.
                    Some(FrameSlot { place: FrameSlotPlace::Stack(at, ..), .. })
                        if tracked && state != FrameState::Interrupted && at >= sp && at < outgoing => {}
                    Some(resolved) => out.slots.push(resolved),
                    None => out.unread += 1,
                }
            }
            Ok(out)
        })
    }

    /// Read all of the GC info of the method at `start`.
    ///
    /// # Errors
    /// Where anything of it makes no sense, in words.
    #[cfg(feature = "internals")]
    pub fn gc_info_facts(&self, start: Addr) -> Result<GcInfoFacts, String> {
        let found = self.gc_info_at(start)?;
        self.with_gc_info(&found, |info| {
            Ok(GcInfoFacts { code_length: info.header.code_length, states: info.check()? })
        })
    }
}

/// Where the filters of a jitted method begin, from the method's begin: its
/// exception clauses, counted by the word before them (codeman.h,
/// EEJitManager::InitializeEHEnumeration; inc/corhdr.h, EE_ILEXCEPTION_CLAUSE).
fn filters(memory: &dyn Memory, layout: &Layout, eh_info: Addr) -> Result<Vec<u64>, ViewError> {
    let word = memory.u64(eh_info.saturating_sub(8)).map_err(ViewError::fault("EEILException", "count"))?;
    let filter = layout.constant("EEILExceptionClause", "FilterFlag")?;
    let (first, size) = (layout.positive("EEILException", "Clauses")?, layout.size("EEILExceptionClause")?);
    let mut out = Vec::new();
    for i in 0..word.min(limits::MAX_EH_CLAUSES) {
        let at = eh_info.saturating_add(first).saturating_add(i * size);
        let clause = StructView::new(memory, layout, "EEILExceptionClause", at);
        if u64::from(clause.u32("Flags")?) & filter != 0 {
            out.push(u64::from(clause.u32("FilterOffset")?));
        }
    }
    Ok(out)
}

/// A frame whose slots are looked up.
struct Frame<'a, 'p> {
    methods: &'a Methods<'p>,
    regs: &'a Regs,
    state: FrameState,
    base: Option<u32>,
    caller: Option<Option<Addr>>,
}

impl Frame<'_, '_> {
    fn resolve(&mut self, slot: &Slot) -> Option<FrameSlot> {
        let arch = self.regs.arch();
        let place = match slot.place {
            Place::Register(number) => {
                let number = dwarf(arch, number)?;
                let value = self.regs.get(number)?;
                let place = FrameSlotPlace::Register(registers::name(arch, number)?);
                return Some(FrameSlot { place, value, interior: slot.interior, pinned: slot.pinned });
            }
            Place::Stack(base, distance) => {
                let distance = i64::from(distance);
                let (from, name) = match base {
                    StackBase::Sp => (self.regs.sp(), registers::name(arch, self.regs.sp_number())?),
                    StackBase::CallerSp => (self.caller_sp()?, caller_sp_name(arch)),
                    StackBase::Register => {
                        let number = dwarf(arch, self.base?)?;
                        (Addr::new(self.regs.get(number)?), registers::name(arch, number)?)
                    }
                };
                FrameSlotPlace::Stack(from.checked_offset(distance)?, name, distance)
            }
        };
        let FrameSlotPlace::Stack(at, ..) = place else { return None };
        let value = self.methods.memory().u64(at).ok()?;
        Some(FrameSlot { place, value, interior: slot.interior, pinned: slot.pinned })
    }

    fn caller_sp(&mut self) -> Option<Addr> {
        let (methods, regs) = (self.methods, self.regs);
        let exact = self.state != FrameState::Call;
        *self.caller.get_or_insert_with(|| methods.unwind(regs, exact).ok().map(|up| up.sp()))
    }
}

/// What slots are called whose distance is from the caller's stack pointer.
fn caller_sp_name(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "caller's rsp",
        Arch::Aarch64 => "caller's sp",
    }
}
