//! Header of a method's GC info.

use super::GcInfoError;
use super::bits::Bits;
use super::encoding::{Encoding, flags};

/// Facts about the method in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) struct Header {
    /// Bytes of code, including funclets.
    pub(in crate::runtimes::coreclr) code_length: u32,
    /// Base register of slots, by the processor's number.
    pub(in crate::runtimes::coreclr) base_register: Option<u32>,
    /// Bytes from the stack pointer on that belong to called functions.
    pub(in crate::runtimes::coreclr) outgoing: u32,
    /// Whether the body's frame reports no slots if a funclet has reported them.
    pub(in crate::runtimes::coreclr) only_leaf: bool,
    /// Whether it takes a variable number of arguments, which GC info does not describe.
    pub(in crate::runtimes::coreclr) variable_arguments: bool,
    pub(super) safe_points: u32,
    pub(super) ranges: u32,
}

impl Header {
    pub(super) fn read(bits: &mut Bits<'_>, encoding: &Encoding) -> Result<Header, GcInfoError> {
        if bits.flag()? { fat(bits, encoding) } else { slim(bits, encoding) }
    }
}

fn slim(bits: &mut Bits<'_>, encoding: &Encoding) -> Result<Header, GcInfoError> {
    let own = &encoding.own;
    let base_register = bits.flag()?.then_some(own.base_register);
    if encoding.version.return_kind {
        bits.read(own.return_kind_slim)?;
    }
    Ok(Header {
        code_length: code_length(bits, encoding)?,
        base_register,
        outgoing: 0,
        only_leaf: false,
        variable_arguments: false,
        safe_points: bits.unsigned(own.safe_points)?,
        ranges: 0,
    })
}

fn fat(bits: &mut Bits<'_>, encoding: &Encoding) -> Result<Header, GcInfoError> {
    let own = &encoding.own;
    let flags = bits.read(flags::BITS)?;
    let has = |flag| flags & flag != 0;
    if encoding.version.return_kind {
        bits.read(own.return_kind_fat)?;
    }
    let code_length = code_length(bits, encoding)?;
    if has(flags::GS_COOKIE) {
        bits.unsigned(own.prolog)?;
        bits.unsigned(own.epilog)?;
    } else if has(flags::SECURITY_OBJECT | flags::GENERICS_CONTEXT) {
        bits.unsigned(own.prolog)?;
    }
    for special in [flags::SECURITY_OBJECT, flags::GS_COOKIE, flags::PSP_SYM, flags::GENERICS_CONTEXT] {
        if has(special) {
            bits.signed(own.special_slot)?;
        }
    }
    let base_register = match has(flags::BASE_REGISTER) {
        true => Some(bits.unsigned(own.base_register_bits)? ^ own.base_register),
        false => None,
    };
    if has(flags::EDIT_AND_CONTINUE) {
        bits.unsigned(own.edit_and_continue)?;
        if let Some(width) = own.edit_and_continue_frame {
            bits.unsigned(width)?;
        }
    }
    if has(flags::REVERSE_PINVOKE) {
        bits.signed(own.special_slot)?;
    }
    let outgoing = bits.unsigned(own.stack_area)?;
    Ok(Header {
        code_length,
        base_register,
        outgoing: scaled(outgoing, own.slot_shift)?,
        only_leaf: has(flags::ONLY_LEAF),
        variable_arguments: has(flags::VARARG),
        safe_points: bits.unsigned(own.safe_points)?,
        ranges: bits.unsigned(own.ranges)?,
    })
}

fn code_length(bits: &mut Bits<'_>, encoding: &Encoding) -> Result<u32, GcInfoError> {
    let length = scaled(bits.unsigned(encoding.own.code_length)?, encoding.own.code_shift)?;
    if length == 0 { Err(GcInfoError::Bad("the code length is 0")) } else { Ok(length) }
}

fn scaled(value: u32, shift: u32) -> Result<u32, GcInfoError> {
    value.checked_mul(1 << shift).ok_or(GcInfoError::Bad("a number has more than 32 bits"))
}
