//! Method descriptors.
//!
//! docs/design/datacontracts/RuntimeTypeSystem.md, MethodDesc;
//! src/coreclr/vm/method.hpp (MethodDesc, MethodDescChunk and the classes
//! derived of MethodDesc).

use crate::addr::Addr;
use crate::image::metadata::{Table, Token};
use crate::layout::ViewError;
use crate::limits;
use crate::runtimes::coreclr::types::{TypeHandle, TypeSystem};

/// MethodClassification (method.hpp), the low three bits of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classification {
    /// IL
    Il,
    /// A call into the runtime.
    FCall,
    /// P/Invoke.
    PInvoke,
    /// Made by the runtime: a delegate's Invoke.
    EeImpl,
    /// An array's Get, Set, Address or constructor.
    Array,
    /// A generic method, or an instantiation of one.
    Instantiated,
    /// COM.
    ComInterop,
    /// Without metadata: a DynamicMethod or an IL stub.
    Dynamic,
}

const CLASSIFICATION: u16 = 7;

impl Classification {
    fn of(flags: u16) -> Classification {
        use Classification as C;
        match flags & CLASSIFICATION {
            0 => C::Il,
            1 => C::FCall,
            2 => C::PInvoke,
            3 => C::EeImpl,
            4 => C::Array,
            5 => C::Instantiated,
            6 => C::ComInterop,
            _ => C::Dynamic,
        }
    }

    /// The type whose "!" in a layout is the size of this class's descriptor.
    fn layout_type(self) -> &'static str {
        use Classification as C;
        match self {
            C::Il => "MethodDesc",
            C::FCall => "FCallMethodDesc",
            C::PInvoke => "PInvokeMethodDesc",
            C::EeImpl => "EEImplMethodDesc",
            C::Array => "ArrayMethodDesc",
            C::Instantiated => "InstantiatedMethodDesc",
            C::ComInterop => "CLRToCOMCallMethodDesc",
            C::Dynamic => "DynamicMethodDesc",
        }
    }
}

/// What a method without metadata is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DynamicKind {
    /// System.Reflection.Emit.DynamicMethod.
    Lcg,
    /// Made by the runtime, for marshalling and the like.
    IlStub,
}

/// A method descriptor's own fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodDesc {
    /// Its address.
    pub addr: Addr,
    /// MethodTable of its chunk.
    pub method_table: Addr,
    /// Its class.
    pub classification: Classification,
    /// Its MethodDef; row 0 where it has none.
    pub token: Token,
    /// Its slot in the MethodTable.
    pub slot: u16,
    /// Its first 64 bits: flags of all kinds.
    word: u64,
}

/// InstantiatedMethodDesc::Flags2: the kind, and the one that is a definition.
const KIND_MASK: u16 = 7;
const GENERIC_METHOD_DEFINITION: u16 = 0;

impl<'p> TypeSystem<'p> {
    /// Read the descriptor at `addr`.
    ///
    /// # Errors
    /// Where it is not in the core.
    pub fn method_desc(&self, addr: Addr) -> Result<MethodDesc, ViewError> {
        let layout = &self.runtime.layout;
        let view = self.view("MethodDesc", addr);
        let (index, rest, flags) = (view.u8("ChunkIndex")?, view.u16("Flags3AndTokenRemainder")?, view.u16("Flags")?);
        let align = layout.value("MethodDescAlignment").unwrap_or(8);
        let back = layout.size("MethodDescChunk")? + u64::from(index) * align;
        let chunk = self.view("MethodDescChunk", addr.saturating_sub(back));
        let method_table = chunk.ptr("MethodTable")?;
        let bits = layout.value("MethodDescTokenRemainderBitCount").unwrap_or(12).clamp(1, 16) as u32;
        let range = u32::from(chunk.u16("FlagsAndTokenRange")?) & ((1 << (24 - bits)) - 1);
        let remainder = u32::from(rest) & ((1 << bits) - 1);
        Ok(MethodDesc {
            addr,
            method_table,
            classification: Classification::of(flags),
            token: Token::new(Table::MethodDef, range << bits | remainder),
            slot: view.u16("Slot")?,
            word: self.memory.u64(addr).unwrap_or(0),
        })
    }

    /// One of the descriptor's flags, by its name in the layout.
    pub fn method_flag(&self, desc: &MethodDesc, name: &str) -> bool {
        let bit = self.runtime.layout.constant("MethodDescBits", name);
        bit.is_ok_and(|bit| bit < 64 && desc.word >> bit & 1 != 0)
    }

    /// Generic arguments of a method; empty where it has none, or is the definition.
    ///
    /// # Errors
    /// Where they are not in the core.
    pub fn method_instantiation(&self, desc: &MethodDesc) -> Result<Vec<TypeHandle>, ViewError> {
        if desc.classification != Classification::Instantiated {
            return Ok(Vec::new());
        }
        let view = self.view("InstantiatedMethodDesc", desc.addr);
        if view.u16("Flags2")? & KIND_MASK == GENERIC_METHOD_DEFINITION {
            return Ok(Vec::new());
        }
        let (dictionary, count) = (view.ptr("PerInstInfo")?, view.u16("NumGenericArgs")?);
        if dictionary.is_null() {
            return Ok(Vec::new());
        }
        self.handles(dictionary, u32::from(count))
    }

    /// What a dynamic method is; `None` for others.
    pub fn dynamic_kind(&self, desc: &MethodDesc) -> Option<DynamicKind> {
        if desc.classification != Classification::Dynamic {
            return None;
        }
        let flags = u64::from(self.view("StoredSigMethodDesc", desc.addr).u32("ExtendedFlags").ok()?);
        let is = |name| self.runtime.layout.constant("DynamicMethodDesc", name).is_ok_and(|bit| flags & bit != 0);
        if is("IsILStub") { Some(DynamicKind::IlStub) } else { is("IsLCGMethod").then_some(DynamicKind::Lcg) }
    }

    /// The signature that a descriptor without metadata holds itself.
    pub(in crate::runtimes::coreclr) fn stored_signature(&self, desc: &MethodDesc) -> Option<Vec<u8>> {
        use Classification as C;
        if !matches!(desc.classification, C::Dynamic | C::EeImpl | C::Array) {
            return None;
        }
        let view = self.view("StoredSigMethodDesc", desc.addr);
        let (at, len) = (view.ptr("Sig").ok()?, view.u32("cSig").ok()?);
        (!at.is_null() && len <= limits::MAX_SIGNATURE).then(|| self.memory.bytes(at, len as usize).ok())?
    }

    /// Where the code of the method's default version stands: its native code slot.
    pub fn native_code_slot(&self, desc: &MethodDesc) -> Option<Addr> {
        if !self.method_flag(desc, "HasNativeCodeSlot") {
            return None;
        }
        let layout = &self.runtime.layout;
        let mut at = layout.size(desc.classification.layout_type()).ok()?;
        if self.method_flag(desc, "HasNonVtableSlot") {
            at += 8;
        }
        if self.method_flag(desc, "HasMethodImpl") {
            at += layout.size("MethodImpl").unwrap_or(16);
        }
        Some(desc.addr.saturating_add(at))
    }
}
