//! Reads numbers and types from the bytes of a signature.
//!
//! Sources: see [`super`]. Depth and number of types are capped. A blob nested ten
//! thousand deep is an error, and uses no stack.

use super::{ElementType, MethodSig, ModifierRef, SigError, Type};
use crate::image::metadata::Token;
use crate::image::metadata::coded::TYPE_DEF_OR_REF;
use crate::limits;

const PTR: u8 = 0x0f;
const BYREF: u8 = 0x10;
const VALUETYPE: u8 = 0x11;
const CLASS: u8 = 0x12;
const VAR: u8 = 0x13;
const ARRAY: u8 = 0x14;
const GENERICINST: u8 = 0x15;
const FNPTR: u8 = 0x1b;
const SZARRAY: u8 = 0x1d;
const MVAR: u8 = 0x1e;
const CMOD_REQD: u8 = 0x1f;
const CMOD_OPT: u8 = 0x20;
const INTERNAL: u8 = 0x21;
const CMOD_INTERNAL: u8 = 0x22;
const SENTINEL: u8 = 0x41;
const PINNED: u8 = 0x45;

/// Mask of the low bits of the first byte, which show the kind (II.23.2.3).
pub(super) const KIND: u8 = 0x0f;
pub(super) const FIELD: u8 = 0x06;
pub(super) const LOCALS: u8 = 0x07;
const PROPERTY: u8 = 0x08;
pub(super) const METHOD_SPEC: u8 = 0x0a;
const GENERIC: u8 = 0x10;

/// Reads a blob from its start on.
#[derive(Clone, Debug)]
pub struct Reader<'b> {
    rest: &'b [u8],
    nodes: u32,
}

impl<'b> Reader<'b> {
    /// Starts at the blob's first byte.
    pub fn new(blob: &'b [u8]) -> Reader<'b> {
        Reader { rest: blob, nodes: 0 }
    }

    /// Returns the bytes that were not read yet.
    pub fn rest(&self) -> &'b [u8] {
        self.rest
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SigError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(SigError::Cut)?;
        self.rest = rest;
        Ok(*head)
    }

    /// Reads the next byte.
    ///
    /// # Errors
    /// Fails at the end.
    pub fn byte(&mut self) -> Result<u8, SigError> {
        self.array::<1>().map(|[b]| b)
    }

    fn pointer(&mut self) -> Result<u64, SigError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a compressed unsigned number (II.23.2). Also returns how many bytes it took.
    fn compressed(&mut self) -> Result<(u32, u32), SigError> {
        let first = self.byte()?;
        if first & 0x80 == 0 {
            Ok((u32::from(first), 1))
        } else if first & 0x40 == 0 {
            Ok((u32::from_be_bytes([0, 0, first & 0x3f, self.byte()?]), 2))
        } else if first & 0x20 == 0 {
            let [b, c, d] = self.array()?;
            Ok((u32::from_be_bytes([first & 0x1f, b, c, d]), 4))
        } else {
            Err(SigError::BadNumber)
        }
    }

    /// Reads a compressed unsigned number (II.23.2).
    ///
    /// # Errors
    /// Fails if the bytes end, or are no number.
    pub fn unsigned(&mut self) -> Result<u32, SigError> {
        self.compressed().map(|(value, _)| value)
    }

    /// Reads a compressed signed number, which is rotated left by one within its bits
    /// (II.23.2).
    ///
    /// # Errors
    /// Like [`Reader::unsigned`].
    pub fn signed(&mut self) -> Result<i32, SigError> {
        let (value, bytes) = self.compressed()?;
        let sign: u32 = match bytes {
            1 => 1 << 6,
            2 => 1 << 13,
            _ => 1 << 28,
        };
        let magnitude = value >> 1;
        let bits = if value & 1 == 0 { magnitude } else { magnitude | sign.wrapping_neg() };
        Ok(bits.cast_signed())
    }

    /// Reads a TypeDefOrRefOrSpecEncoded (II.23.2.8).
    fn token(&mut self) -> Result<Token, SigError> {
        TYPE_DEF_OR_REF.decode(self.unsigned()?).ok_or(SigError::BadNumber)
    }

    pub(super) fn kind(&mut self, kind: u8) -> Result<(), SigError> {
        let first = self.byte()?;
        if first & KIND == kind { Ok(()) } else { Err(SigError::WrongKind(first)) }
    }

    /// Reads `count` types. Allocates as it reads, because the count is not trusted.
    pub(super) fn types(&mut self, count: u32, depth: u32) -> Result<Vec<Type>, SigError> {
        let mut out = Vec::new();
        for _ in 0..count {
            out.push(self.ty(depth)?);
        }
        Ok(out)
    }

    pub(super) fn ty(&mut self, depth: u32) -> Result<Type, SigError> {
        if depth >= limits::MAX_SIGNATURE_DEPTH {
            return Err(SigError::TooDeep);
        }
        self.nodes += 1;
        if self.nodes > limits::MAX_SIGNATURE_NODES {
            return Err(SigError::TooMany);
        }
        let inner = depth + 1;
        let element = self.byte()?;
        Ok(match element {
            PTR => Type::Ptr(Box::new(self.ty(inner)?)),
            BYREF => Type::ByRef(Box::new(self.ty(inner)?)),
            SZARRAY => Type::SzArray(Box::new(self.ty(inner)?)),
            PINNED => Type::Pinned(Box::new(self.ty(inner)?)),
            VALUETYPE => Type::ValueType(self.token()?),
            CLASS => Type::Class(self.token()?),
            VAR => Type::Var(self.unsigned()?),
            MVAR => Type::MVar(self.unsigned()?),
            ARRAY => self.general_array(inner)?,
            GENERICINST => self.generic_inst(inner)?,
            FNPTR => Type::FnPtr(Box::new(self.method(inner)?)),
            INTERNAL => Type::Internal(self.pointer()?),
            CMOD_REQD | CMOD_OPT => {
                let modifier = ModifierRef::Token(self.token()?);
                Type::Modified { required: element == CMOD_REQD, modifier, inner: Box::new(self.ty(inner)?) }
            }
            CMOD_INTERNAL => {
                let required = self.byte()? != 0;
                let modifier = ModifierRef::Internal(self.pointer()?);
                Type::Modified { required, modifier, inner: Box::new(self.ty(inner)?) }
            }
            other => Type::Primitive(ElementType::from_number(other).ok_or(SigError::BadElement(other))?),
        })
    }

    fn general_array(&mut self, depth: u32) -> Result<Type, SigError> {
        let element = Box::new(self.ty(depth)?);
        let rank = self.unsigned()?;
        let mut sizes = Vec::new();
        for _ in 0..self.unsigned()? {
            sizes.push(self.unsigned()?);
        }
        let mut lower_bounds = Vec::new();
        for _ in 0..self.unsigned()? {
            lower_bounds.push(self.signed()?);
        }
        Ok(Type::Array { element, rank, sizes, lower_bounds })
    }

    fn generic_inst(&mut self, depth: u32) -> Result<Type, SigError> {
        let definition = match self.byte()? {
            CLASS => Type::Class(self.token()?),
            VALUETYPE => Type::ValueType(self.token()?),
            INTERNAL => Type::Internal(self.pointer()?),
            other => return Err(SigError::BadElement(other)),
        };
        let count = self.unsigned()?;
        Ok(Type::GenericInst { definition: Box::new(definition), arguments: self.types(count, depth)? })
    }

    pub(super) fn method(&mut self, depth: u32) -> Result<MethodSig, SigError> {
        let convention = self.byte()?;
        if matches!(convention & KIND, FIELD | LOCALS | METHOD_SPEC) {
            return Err(SigError::WrongKind(convention));
        }
        let is_property = convention & KIND == PROPERTY;
        let generic_count = if convention & GENERIC != 0 && !is_property { self.unsigned()? } else { 0 };
        let count = self.unsigned()?;
        let ret = self.ty(depth)?;
        let mut params = Vec::new();
        let mut sentinel = None;
        for i in 0..count {
            if self.rest.first() == Some(&SENTINEL) && sentinel.is_none() {
                self.byte()?;
                sentinel = Some(i as usize);
            }
            params.push(self.ty(depth)?);
        }
        Ok(MethodSig { convention, generic_count, ret, params, sentinel })
    }
}
