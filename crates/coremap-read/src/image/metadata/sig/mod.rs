//! Signatures: types as blobs, written by compilers into metadata and by the runtime.
//!
//! ECMA-335 II.23.2 (signatures) and II.23.1.16 (element types). INTERNAL and
//! CMOD_INTERNAL, which only the runtime's own signatures have, are from CoreCLR's
//! src/inc/corhdr.h.

mod reader;

pub use reader::Reader;

use super::token::Token;
#[cfg(doc)]
use crate::limits;
use reader::{FIELD, LOCALS};

/// The reason why a signature can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SigError {
    /// The bytes end within the signature.
    #[error("signature is cut off")]
    Cut,
    /// Types are nested deeper than [`limits::MAX_SIGNATURE_DEPTH`].
    #[error("signature is nested too deep")]
    TooDeep,
    /// The signature has more types than [`limits::MAX_SIGNATURE_NODES`].
    #[error("signature has too many types")]
    TooMany,
    /// A byte does not begin a type.
    #[error("signature has unknown element type 0x{0:02x}")]
    BadElement(u8),
    /// A number or a token is malformed.
    #[error("signature has a malformed number")]
    BadNumber,
    /// The first byte belongs to another kind of signature.
    #[error("unexpected kind of signature: 0x{0:02x}")]
    WrongKind(u8),
}

/// A type that consists of its element type only (II.23.1.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum ElementType {
    Void = 0x01,
    Boolean = 0x02,
    Char = 0x03,
    I1 = 0x04,
    U1 = 0x05,
    I2 = 0x06,
    U2 = 0x07,
    I4 = 0x08,
    U4 = 0x09,
    I8 = 0x0a,
    U8 = 0x0b,
    R4 = 0x0c,
    R8 = 0x0d,
    String = 0x0e,
    TypedByRef = 0x16,
    I = 0x18,
    U = 0x19,
    Object = 0x1c,
}

impl ElementType {
    /// Returns the element type with this number, if it is one of these.
    pub fn from_number(number: u8) -> Option<ElementType> {
        use ElementType as E;
        Some(match number {
            0x01 => E::Void,
            0x02 => E::Boolean,
            0x03 => E::Char,
            0x04 => E::I1,
            0x05 => E::U1,
            0x06 => E::I2,
            0x07 => E::U2,
            0x08 => E::I4,
            0x09 => E::U4,
            0x0a => E::I8,
            0x0b => E::U8,
            0x0c => E::R4,
            0x0d => E::R8,
            0x0e => E::String,
            0x16 => E::TypedByRef,
            0x18 => E::I,
            0x19 => E::U,
            0x1c => E::Object,
            _ => return None,
        })
    }

    /// Returns the full name of its type.
    pub fn type_name(self) -> &'static str {
        use ElementType as E;
        match self {
            E::Void => "System.Void",
            E::Boolean => "System.Boolean",
            E::Char => "System.Char",
            E::I1 => "System.SByte",
            E::U1 => "System.Byte",
            E::I2 => "System.Int16",
            E::U2 => "System.UInt16",
            E::I4 => "System.Int32",
            E::U4 => "System.UInt32",
            E::I8 => "System.Int64",
            E::U8 => "System.UInt64",
            E::R4 => "System.Single",
            E::R8 => "System.Double",
            E::String => "System.String",
            E::TypedByRef => "System.TypedReference",
            E::I => "System.IntPtr",
            E::U => "System.UIntPtr",
            E::Object => "System.Object",
        }
    }
}

/// The type named by a custom modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifierRef {
    /// By token.
    Token(Token),
    /// By address of the runtime's TypeHandle.
    Internal(u64),
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "`ValueType` is the word of ECMA-335")]
pub enum Type {
    /// void, a number, string, object, native int, TypedReference.
    Primitive(ElementType),
    /// A value type by token.
    ValueType(Token),
    /// A class or interface by token.
    Class(Token),
    /// An unmanaged pointer.
    Ptr(Box<Type>),
    /// A managed reference to a variable.
    ByRef(Box<Type>),
    /// A one-dimensional array that starts at index 0.
    SzArray(Box<Type>),
    /// Any other array (II.23.2.13).
    Array {
        /// Type of its elements.
        element: Box<Type>,
        /// Number of dimensions.
        rank: u32,
        /// Sizes of the first dimensions.
        sizes: Vec<u32>,
        /// Lower bounds of the first dimensions.
        lower_bounds: Vec<i32>,
    },
    /// A generic parameter of the type.
    Var(u32),
    /// A generic parameter of the method.
    MVar(u32),
    /// A generic type with arguments.
    GenericInst {
        /// The generic type: `Class`, `ValueType` or `Internal`.
        definition: Box<Type>,
        /// Its arguments.
        arguments: Vec<Type>,
    },
    /// A pointer to a function.
    FnPtr(Box<MethodSig>),
    /// A type by address of the runtime's TypeHandle.
    Internal(u64),
    /// A type with a custom modifier.
    Modified {
        /// modreq and not modopt.
        required: bool,
        /// The modifier.
        modifier: ModifierRef,
        /// The type that it modifies.
        inner: Box<Type>,
    },
    /// A local that the GC must not move.
    Pinned(Box<Type>),
}

/// The signature of a method (II.23.2.1 to II.23.2.3) or a property (II.23.2.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodSig {
    /// The first byte: calling convention and flags.
    pub convention: u8,
    /// Number of generic parameters of the method.
    pub generic_count: u32,
    /// Type of the return value, or of the property.
    pub ret: Type,
    /// Types of the parameters, without `this`.
    pub params: Vec<Type>,
    /// Number of parameters before the variable ones, in a call to a vararg method.
    pub sentinel: Option<usize>,
}

impl MethodSig {
    /// Reads the signature of a method or a property.
    ///
    /// # Errors
    /// Fails if the blob isn't one; see [`SigError`].
    pub fn parse(blob: &[u8]) -> Result<MethodSig, SigError> {
        Reader::new(blob).method(0)
    }
}

/// The signature of a field (II.23.2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSig {
    /// Type of the field.
    pub ty: Type,
}

impl FieldSig {
    /// Reads a field's signature.
    ///
    /// # Errors
    /// Fails if the blob isn't one; see [`SigError`].
    pub fn parse(blob: &[u8]) -> Result<FieldSig, SigError> {
        let mut reader = Reader::new(blob);
        reader.kind(FIELD)?;
        Ok(FieldSig { ty: reader.ty(0)? })
    }
}

/// The signature of a method's local variables (II.23.2.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalsSig {
    /// Types of the variables, by slot.
    pub types: Vec<Type>,
}

impl LocalsSig {
    /// Reads the signature of local variables.
    ///
    /// # Errors
    /// Fails if the blob isn't one; see [`SigError`].
    pub fn parse(blob: &[u8]) -> Result<LocalsSig, SigError> {
        let mut reader = Reader::new(blob);
        reader.kind(LOCALS)?;
        let count = reader.unsigned()?;
        Ok(LocalsSig { types: reader.types(count, 0)? })
    }
}
