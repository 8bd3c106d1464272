//! The registers and stack slots in which a method stores references.

use super::GcInfoError;
use super::bits::Bits;
use super::encoding::Widths;

use crate::limits;

/// GcSlotFlags.
const INTERIOR: u32 = 1;
const PINNED: u32 = 2;

/// Base of a stack slot's offset (GcStackSlotBase).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) enum StackBase {
    /// The caller's stack pointer.
    CallerSp,
    /// The frame's own stack pointer.
    Sp,
    /// The method's base register.
    Register,
}

/// Location of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) enum SlotLocation {
    /// A register, by the processor's number.
    Register(u32),
    /// Byte offset from a base.
    Stack(StackBase, i32),
}

/// A location that may contain a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) struct Slot {
    pub(in crate::runtimes::coreclr) place: SlotLocation,
    /// Whether it may be an interior pointer, or point to no object at all.
    pub(in crate::runtimes::coreclr) interior: bool,
    /// Whether its object must not be moved.
    pub(in crate::runtimes::coreclr) pinned: bool,
}

/// All slots of a method.
#[derive(Clone, Debug)]
pub(super) struct SlotTable {
    /// Registers, then tracked stack slots, then untracked slots, which are always live.
    pub(super) all: Vec<Slot>,
    /// Number of tracked slots. The untracked ones follow them.
    pub(super) tracked: usize,
}

impl SlotTable {
    pub(super) fn read(bits: &mut Bits<'_>, own: &Widths) -> Result<SlotTable, GcInfoError> {
        let registers = if bits.flag()? { bits.unsigned(own.registers)? } else { 0 };
        let (stack, untracked) = match bits.flag()? {
            true => (bits.unsigned(own.stack_slots)?, bits.unsigned(own.untracked)?),
            false => (0, 0),
        };
        let total = u64::from(registers) + u64::from(stack) + u64::from(untracked);
        // A slot takes at least three bits.
        if total > limits::MAX_GC_SLOTS || total * 3 > bits.left() {
            return Err(GcInfoError::Bad("more slots than fit"));
        }
        let mut all = Vec::with_capacity(total as usize);
        register_slots(bits, own, registers, &mut all)?;
        stack_slots(bits, own, stack, &mut all)?;
        let tracked = all.len();
        stack_slots(bits, own, untracked, &mut all)?;
        Ok(SlotTable { all, tracked })
    }
}

/// A slot without flags is stored as a delta, and has the flags of the previous slot.
fn register_slots(bits: &mut Bits<'_>, own: &Widths, count: u32, out: &mut Vec<Slot>) -> Result<(), GcInfoError> {
    let mut last: Option<(u32, u32)> = None;
    for _ in 0..count {
        let (number, flags) = match last {
            Some((number, 0)) => (number.saturating_add(bits.unsigned(own.register_delta)?).saturating_add(1), 0),
            _ => (bits.unsigned(own.register)?, bits.read(2)?),
        };
        if number >= u64::BITS {
            return Err(GcInfoError::Bad("an invalid register number"));
        }
        last = Some((number, flags));
        out.push(slot(SlotLocation::Register(number), flags));
    }
    Ok(())
}

fn stack_slots(bits: &mut Bits<'_>, own: &Widths, count: u32, out: &mut Vec<Slot>) -> Result<(), GcInfoError> {
    let mut last: Option<(i32, u32)> = None;
    for _ in 0..count {
        let base = match bits.read(2)? {
            0 => StackBase::CallerSp,
            1 => StackBase::Sp,
            2 => StackBase::Register,
            _ => return Err(GcInfoError::Bad("a stack slot with an invalid base")),
        };
        let (unit, flags) = match last {
            Some((unit, 0)) => (unit.checked_add_unsigned(bits.unsigned(own.stack_slot_delta)?), 0),
            _ => (Some(bits.signed(own.stack_slot)?), bits.read(2)?),
        };
        let unit = unit.ok_or(GcInfoError::Bad("a stack slot offset out of range"))?;
        let offset =
            unit.checked_mul(1 << own.slot_shift).ok_or(GcInfoError::Bad("a stack slot offset out of range"))?;
        last = Some((unit, flags));
        out.push(slot(SlotLocation::Stack(base, offset), flags));
    }
    Ok(())
}

fn slot(place: SlotLocation, flags: u32) -> Slot {
    Slot { place, interior: flags & INTERIOR != 0, pinned: flags & PINNED != 0 }
}
