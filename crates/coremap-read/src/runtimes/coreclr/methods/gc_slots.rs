//! References in the frames of managed methods: applies GC info to a frame's registers and stack.
//!
//! Sources: src/coreclr/vm: eetwain.cpp (EECodeManager::EnumGcRefs), codeman.cpp (GetGCInfoToken), gcinfodecoder.cpp
//! (GetStackSlot, IsScratchStackSlot).

use std::cell::Cell;
use std::sync::atomic::Ordering;

use crate::addr::Addr;
use crate::layout::{Layout, StructView, ViewError};
use crate::limits;
use crate::memory::Memory;
use crate::registers::{self, Regs};
use crate::runtimes::api::FrameSlotLocation;
use crate::runtimes::coreclr::code::gc_info::{Encoding, GcInfo, GcInfoError, Slot, SlotLocation, StackBase, StopKind};
use crate::runtimes::coreclr::code::{CodeBlock, CodeRangeKind, dwarf, gc_info_address};
use crate::targets::Arch;

use super::{CodeError, Methods};

/// A reference in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSlot {
    /// Register or stack slot.
    pub place: FrameSlotLocation,
    /// Address of an object, or 0. If `interior`, it may be an address within an object, or outside of the heap.
    pub value: u64,
    /// Whether `value` may be an interior pointer.
    pub interior: bool,
    /// Whether the object must not be moved.
    pub pinned: bool,
}

/// How execution stopped in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameState {
    /// In a call.
    Call,
    /// Interrupted, and continues at the same position.
    Interrupted,
    /// While an exception is thrown. Only its handlers run in the frame again.
    Aborted,
}

/// References of a frame, from GC info.
#[derive(Clone, Debug)]
pub struct FrameSlots {
    /// References in the frame.
    pub slots: Vec<FrameSlot>,
    /// Whether a collection may happen at this position. If not, the contents of registers and of tracked slots are
    /// unknown.
    pub safe: bool,
    /// Number of live slots that can't be read.
    pub unread: u32,
    /// Start of the method's code, including funclets.
    pub start: Addr,
    /// Whether the frame runs a funclet, not the method's body.
    pub funclet: bool,
    /// Whether the frame runs a funclet that is certainly not a filter. The frames between it and its method's body
    /// then no longer run.
    pub handler: bool,
    /// Whether the body's frame reports no slots if a funclet has reported them.
    pub only_leaf: bool,
    /// End of the stack area of called functions, which starts at the stack pointer.
    pub outgoing: Addr,
    /// Whether the method has arguments that GC info does not describe (`__arglist`).
    pub variable_arguments: bool,
}

/// Totals of a method's GC info, for checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct GcInfoFacts {
    /// Bytes of code, including funclets and the cold part.
    pub code_length: u32,
    /// Number of live-slot sets read.
    pub states: u64,
}

/// GC info found for an address, and the address's position in the method.
struct GcInfoLocation {
    gc_info: Addr,
    start: Addr,
    /// Offset from the start of the method. A cold part counts as following the hot part.
    offset: u64,
    /// Start of the funclet, as an offset from the start of the method. `None` in the body.
    funclet: Option<u64>,
    /// Starts of filters, as offsets from the start of the method, if known.
    filters: Option<Vec<u64>>,
    pristine: bool,
}

impl GcInfoLocation {
    /// Whether the funclet is certainly a filter.
    fn is_filter(&self) -> bool {
        self.funclet.zip(self.filters.as_ref()).is_some_and(|(begin, all)| all.contains(&begin))
    }
}

impl Methods<'_> {
    /// Encoding of a runtime's GC info. Newer runtimes have its version in their descriptor.
    fn gc_encoding(&self) -> Result<Encoding, CodeError> {
        let runtime = &self.types.runtime;
        let bundled = || runtime.layout.value("TableGCInfoVersion").filter(|_| runtime.own_table);
        let version = runtime.layout.value("GCInfoVersion").or_else(bundled);
        let encoding = version.and_then(|v| Encoding::of(self.types.process.arch(), v));
        encoding.ok_or_else(|| match version {
            Some(version) => CodeError::GcInfoVersion { version },
            None => CodeError::GcInfoUnknown { runtime: runtime.name() },
        })
    }

    /// Whether `at` is in a funclet.
    pub(super) fn is_funclet(&self, at: Addr) -> bool {
        self.gc_info_at(at).is_ok_and(|location| location.funclet.is_some())
    }

    fn gc_info_at(&self, at: Addr) -> Result<GcInfoLocation, CodeError> {
        let missing = || CodeError::NoGcInfo { at };
        let range = self.ranges.at(at).ok_or_else(missing)?;
        match range.kind {
            CodeRangeKind::Heap(node) => {
                let heap = self.heap(range, node);
                let heap = heap.as_ref().as_ref().map_err(CodeError::clone)?;
                let start = heap.start_of(at).ok_or_else(missing)?;
                let runtime = &self.types.runtime;
                match heap.block(self.memory(), runtime, start)? {
                    CodeBlock::Method { gc_info, eh_info, size, unwind, .. }
                        if !gc_info.is_null() && at.since(start) < size =>
                    {
                        let entry = heap.unwind_entry(self.memory(), runtime, unwind, at).ok_or_else(missing)?;
                        let funclet = (entry.begin() != start).then(|| entry.begin().since(start));
                        let filters = funclet.and_then(|_| filters(self.memory(), &runtime.layout, eh_info).ok());
                        Ok(GcInfoLocation {
                            gc_info,
                            start,
                            offset: at.since(start),
                            funclet,
                            filters,
                            pristine: false,
                        })
                    }
                    _ => Err(missing()),
                }
            }
            CodeRangeKind::ReadyToRun(module) => {
                let image = self.image(range, module);
                let image = image.as_ref().as_ref().map_err(CodeError::clone)?;
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
                let gc_info = gc_info_address(&pristine, self.types.runtime.arch, &own)
                    .map_err(|source| CodeError::Unwind { at, source })?;
                // The exception clauses are not read, so any funclet may be a filter.
                let funclet = (!begins).then(|| entry.begin().since(method.start.min(entry.begin())));
                Ok(GcInfoLocation { gc_info, start: method.start, offset, funclet, filters: None, pristine: true })
            }
            _ => Err(missing()),
        }
    }

    /// Runs `with` on the GC info that was found. Its length is not stored anywhere. If the first bytes are too few,
    /// `with` is run once more on the maximum.
    fn with_gc_info<T>(
        &self,
        location: &GcInfoLocation,
        with: impl Fn(GcInfo<'_>) -> Result<T, GcInfoError>,
    ) -> Result<T, CodeError> {
        let encoding = self.gc_encoding()?;
        let pristine = self.types.process.memory.pristine();
        let memory: &dyn Memory = if location.pristine { &pristine } else { self.memory() };
        let mut last = CodeError::NoGcInfo { at: location.gc_info };
        for limit in [limits::FIRST_GC_INFO, limits::MAX_GC_INFO] {
            if self.gc_work.load(Ordering::Relaxed) > limits::MAX_GC_INFO_WORK {
                return Err(CodeError::TooMuchGcInfo { at: location.gc_info });
            }
            let len = memory.readable(location.gc_info, limit) as usize;
            let owned;
            let bytes = match memory.borrow_to_look(location.gc_info, len) {
                Some(bytes) => bytes,
                None => {
                    owned = memory.look(location.gc_info, len)?;
                    &owned
                }
            };
            let read_to = Cell::new(0);
            let read = GcInfo::read(bytes, encoding, &read_to);
            // Rejected data may have been read to its end.
            let work = read.as_ref().map_or(len as u64, GcInfo::weight);
            self.gc_work.fetch_add(work, Ordering::Relaxed);
            match read.and_then(&with) {
                Ok(done) => {
                    // Record only the bytes that were read. They are bits that may look like letters. What follows may
                    // be unrelated: GC info of dynamic methods is in malloc blocks (dynamicmethod.cpp, ChunkAllocator).
                    memory.keep(location.gc_info, read_to.get().div_ceil(8));
                    return Ok(done);
                }
                Err(source) => last = CodeError::GcInfo { at: location.gc_info, source },
            }
            if (len as u64) < limit {
                break;
            }
        }
        Err(last)
    }

    /// Returns the references in a managed frame.
    ///
    /// # Errors
    /// If its GC info can't be read or has an unknown version.
    pub fn frame_slots(&self, regs: &Regs, state: FrameState) -> Result<FrameSlots, CodeError> {
        let ip = regs.ip();
        // A call that never returns may be the last instruction.
        let back = u64::from(state == FrameState::Call);
        let location = self.gc_info_at(ip.saturating_sub(back))?;
        let offset = u32::try_from(location.offset + back).map_err(|_| CodeError::NoMethod { at: ip })?;
        let at = match state {
            FrameState::Call => StopKind::Call,
            FrameState::Interrupted => StopKind::Interrupted,
            FrameState::Aborted => StopKind::Aborted,
        };
        self.with_gc_info(&location, |info| {
            let live = info.live(offset, at)?;
            let sp = regs.sp();
            let outgoing = sp.saturating_add(u64::from(info.header.outgoing));
            let mut resolver =
                SlotResolver { methods: self, regs, state, base: info.header.base_register, caller: None };
            let mut out = FrameSlots {
                slots: Vec::new(),
                safe: live.safe,
                unread: 0,
                start: location.start,
                funclet: location.funclet.is_some(),
                handler: location.funclet.is_some() && location.filters.is_some() && !location.is_filter(),
                only_leaf: info.header.only_leaf,
                outgoing,
                variable_arguments: info.header.variable_arguments,
            };
            // While a filter runs, its method's frame reports the untracked slots too.
            let untracked = if location.is_filter() { &[][..] } else { live.untracked.as_slice() };
            for (slot, tracked) in live.tracked.iter().map(|s| (s, true)).chain(untracked.iter().map(|s| (s, false))) {
                match resolver.resolve(slot) {
                    // Outgoing arguments belong to the callee.
                    Some(FrameSlot { place: FrameSlotLocation::Stack(at, ..), .. })
                        if tracked && state != FrameState::Interrupted && at >= sp && at < outgoing => {}
                    Some(resolved) => out.slots.push(resolved),
                    None => out.unread += 1,
                }
            }
            Ok(out)
        })
    }

    /// Reads all GC info of the method at `start`.
    ///
    /// # Errors
    /// If the GC info is invalid or has an unknown version.
    #[doc(hidden)]
    pub fn gc_info_facts(&self, start: Addr) -> Result<GcInfoFacts, CodeError> {
        let location = self.gc_info_at(start)?;
        self.with_gc_info(&location, |info| {
            Ok(GcInfoFacts { code_length: info.header.code_length, states: info.check()? })
        })
    }
}

/// Starts of a jitted method's filters, as offsets from the start of the method. Reads its exception clauses, which
/// follow a word with their number (codeman.h, EEJitManager::InitializeEHEnumeration; inc/corhdr.h,
/// EE_ILEXCEPTION_CLAUSE).
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

/// Resolves the slots of a frame.
struct SlotResolver<'a, 'p> {
    methods: &'a Methods<'p>,
    regs: &'a Regs,
    state: FrameState,
    base: Option<u32>,
    caller: Option<Option<Addr>>,
}

impl SlotResolver<'_, '_> {
    fn resolve(&mut self, slot: &Slot) -> Option<FrameSlot> {
        let arch = self.regs.arch();
        let place = match slot.place {
            SlotLocation::Register(number) => {
                let number = dwarf(arch, number)?;
                let value = self.regs.get(number)?;
                let place = FrameSlotLocation::Register(registers::name(arch, number)?);
                return Some(FrameSlot { place, value, interior: slot.interior, pinned: slot.pinned });
            }
            SlotLocation::Stack(base, distance) => {
                let distance = i64::from(distance);
                let (from, name) = match base {
                    StackBase::Sp => (self.regs.sp(), registers::name(arch, self.regs.sp_number())?),
                    StackBase::CallerSp => (self.caller_sp()?, caller_sp_name(arch)),
                    StackBase::Register => {
                        let number = dwarf(arch, self.base?)?;
                        (Addr::new(self.regs.get(number)?), registers::name(arch, number)?)
                    }
                };
                FrameSlotLocation::Stack(from.checked_offset(distance)?, name, distance)
            }
        };
        let FrameSlotLocation::Stack(at, ..) = place else { return None };
        let value = self.methods.memory().u64(at).ok()?;
        Some(FrameSlot { place, value, interior: slot.interior, pinned: slot.pinned })
    }

    fn caller_sp(&mut self) -> Option<Addr> {
        let (methods, regs) = (self.methods, self.regs);
        let exact = self.state != FrameState::Call;
        *self.caller.get_or_insert_with(|| methods.unwind(regs, exact).ok().map(|up| up.sp()))
    }
}

/// Name of the base of slots relative to the caller's stack pointer.
fn caller_sp_name(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "caller's rsp",
        Arch::Aarch64 => "caller's sp",
    }
}
