//! Type handles.
//!
//! A handle is a MethodTable or, marked by bit 1, a TypeDesc. TypeDescs represent types without a MethodTable:
//! pointers, by-refs, type parameters, function pointers.
//!
//! Sources: docs/design/datacontracts/RuntimeTypeSystem.md; src/coreclr/vm: methodtable.h (WFLAGS_LOW_ENUM,
//! WFLAGS_HIGH_ENUM), typedesc.h, typehandle.h.

use crate::addr::Addr;
use crate::bytes::u64_at;
use crate::image::metadata::{Table, Token};
use crate::layout::ViewError;
use crate::limits;
use crate::runtimes::coreclr::types::TypeSystem;

/// Bit of MTFlags: the low half is a component size (WFLAGS_HIGH_ENUM).
pub(in crate::runtimes::coreclr) const HAS_COMPONENT_SIZE: u32 = 0x8000_0000;

/// Other bits of MTFlags that are the same in all known versions.
mod flags {
    pub(super) const CONTAINS_POINTERS: u32 = 0x0100_0000;
    pub(super) const GENERICS_MASK: u32 = 0x30;
    pub(super) const CATEGORY_MASK: u32 = 0x000f_0000;
    pub(super) const CATEGORY_ARRAY_MASK: u32 = 0x000c_0000;
    pub(super) const CATEGORY_ARRAY: u32 = 0x0008_0000;
    pub(super) const CATEGORY_VALUE_TYPE: u32 = 0x0004_0000;
    pub(super) const CATEGORY_TRUE_PRIMITIVE: u32 = 0x0007_0000;
    pub(super) const IF_ARRAY_THEN_SZ_ARRAY: u32 = 0x0002_0000;
}

/// CorElementType of TypeDescs (ECMA-335 II.23.1.16).
mod element {
    pub(super) const PTR: u8 = 0x0f;
    pub(super) const BYREF: u8 = 0x10;
    pub(super) const VAR: u8 = 0x13;
    pub(super) const ARRAY: u8 = 0x14;
    pub(super) const FNPTR: u8 = 0x1b;
    pub(super) const SZARRAY: u8 = 0x1d;
    pub(super) const MVAR: u8 = 0x1e;
}

/// Bit of a TypeHandle that marks a TypeDesc.
const TYPE_DESC: u64 = 2;

/// Low bits of EEClassOrCanonMT. If 0 it is an EEClass, otherwise another MethodTable (bit 0 from .NET 5 on, bit 1
/// before).
const CANON_MASK: u64 = 3;

/// Bits of an object's MethodTable pointer that the GC uses as marks (ObjectToMethodTableUnmask). Default if no layout
/// has them.
const MARK_BITS: u64 = 7;

/// A true primitive whose EEClass is not in the core: only its name shows which one.
pub(in crate::runtimes::coreclr) const PRIMITIVE_BY_NAME: u8 = 0xff;

/// Base size of an array without dimensions: sync block, MethodTable, element count.
const ARRAY_BASE_SIZE: u64 = 24;

/// Bytes per dimension: its length and its lower bound.
const DIMENSION: u64 = 8;

/// Address of a MethodTable, or marked address of a TypeDesc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeHandle(pub Addr);

/// Kind of type that a handle represents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A class, interface or value type with a row in TypeDef.
    Named {
        /// Address of the MethodTable.
        method_table: Addr,
        /// Address of the module.
        module: Addr,
        /// TypeDef token. Nil for the types that own dynamic methods.
        token: Token,
        /// Element type of a true primitive. 0 for other types, 0xff if only the name shows which one.
        primitive: u8,
        /// Generic arguments.
        arguments: Vec<TypeHandle>,
    },
    /// `T[]`
    SzArray(TypeHandle),
    /// `T[,]`, with the number of dimensions.
    Array(TypeHandle, u32),
    /// `T*`
    Ptr(TypeHandle),
    /// `T&`
    ByRef(TypeHandle),
    /// A parameter of a generic type or method: module and GenericParam token.
    Parameter(Addr, Token),
    /// A function pointer: return type, then parameter types.
    FnPtr(Vec<TypeHandle>),
}

impl<'p> TypeSystem<'p> {
    /// Bits of an object's MethodTable pointer that are not part of the address.
    pub(in crate::runtimes::coreclr) fn mark_bits(&self) -> u64 {
        self.runtime.layout.value("ObjectToMethodTableUnmask").unwrap_or(MARK_BITS)
    }

    /// Resolves `handle`.
    ///
    /// # Errors
    /// If its structures are not in the core.
    pub fn shape(&self, handle: TypeHandle) -> Result<Shape, ViewError> {
        if !handle.0.masked(TYPE_DESC).is_null() {
            return self.type_desc(handle.0.masked(!TYPE_DESC));
        }
        let at = handle.0;
        let view = self.view("MethodTable", at);
        let mt_flags = view.u32("MTFlags")?;
        if mt_flags & flags::CATEGORY_ARRAY_MASK == flags::CATEGORY_ARRAY {
            let element = TypeHandle(view.ptr("PerInstInfo")?);
            if mt_flags & flags::IF_ARRAY_THEN_SZ_ARRAY != 0 {
                return Ok(Shape::SzArray(element));
            }
            let base = u64::from(view.u32("BaseSize")?);
            let rank = base.saturating_sub(ARRAY_BASE_SIZE) / DIMENSION;
            return Ok(Shape::Array(element, rank as u32));
        }
        let primitive = if mt_flags & flags::CATEGORY_MASK == flags::CATEGORY_TRUE_PRIMITIVE {
            // Triage dumps do not contain EEClasses.
            let class = self.ee_class(at).and_then(|c| self.view("EEClass", c).u8("InternalCorElementType"));
            class.unwrap_or(PRIMITIVE_BY_NAME)
        } else {
            0
        };
        Ok(Shape::Named {
            method_table: at,
            module: self.module_of(at)?,
            token: self.type_token(at)?,
            primitive,
            arguments: self.class_instantiation(at)?,
        })
    }

    fn type_desc(&self, at: Addr) -> Result<Shape, ViewError> {
        let kind = (self.view("TypeDesc", at).u32("TypeAndFlags")? & 0xff) as u8;
        let argument = || self.view("ParamTypeDesc", at).ptr("TypeArg").map(TypeHandle);
        Ok(match kind {
            element::PTR => Shape::Ptr(argument()?),
            element::BYREF => Shape::ByRef(argument()?),
            element::SZARRAY => Shape::SzArray(argument()?),
            // Up to .NET 3.1. The rank is in the template MethodTable.
            element::ARRAY => {
                let template = self.view("ParamTypeDesc", at).ptr("TemplateMT").unwrap_or(Addr::NULL);
                let base = self.view("MethodTable", template).u32("BaseSize").unwrap_or(0);
                let rank = u64::from(base).saturating_sub(ARRAY_BASE_SIZE) / DIMENSION;
                Shape::Array(argument()?, rank as u32)
            }
            element::FNPTR => {
                let view = self.view("FnPtrTypeDesc", at);
                let count = view.u32("NumArgs")?.min(limits::MAX_GENERIC_ARGS);
                Shape::FnPtr(self.handles(view.addr_of("RetAndArgTypes")?, count + 1)?)
            }
            element::VAR | element::MVAR => {
                let view = self.view("TypeVarTypeDesc", at);
                Shape::Parameter(view.ptr("Module")?, Token(view.u32("Token")?))
            }
            _ => {
                return Err(ViewError::Fault {
                    kind: "TypeDesc".into(),
                    field: format!("TypeAndFlags (element type 0x{kind:02x})"),
                    fault: crate::memory::Fault { addr: at, kind: crate::memory::FaultKind::Unmapped },
                });
            }
        })
    }

    /// EEClass of a MethodTable. If it has none, its canonical MethodTable has it.
    ///
    /// # Errors
    /// If it is not in the core.
    pub fn ee_class(&self, method_table: Addr) -> Result<Addr, ViewError> {
        let own = self.view("MethodTable", method_table).ptr("EEClassOrCanonMT")?;
        if own.masked(CANON_MASK).is_null() {
            return Ok(own);
        }
        self.view("MethodTable", own.masked(!CANON_MASK)).ptr("EEClassOrCanonMT").map(|a| a.masked(!CANON_MASK))
    }

    /// The canonical MethodTable, with which a MethodTable shares its code.
    ///
    /// # Errors
    /// If it is not in the core.
    pub fn canonical(&self, method_table: Addr) -> Result<Addr, ViewError> {
        let own = self.view("MethodTable", method_table).ptr("EEClassOrCanonMT")?;
        Ok(if own.masked(CANON_MASK).is_null() { method_table } else { own.masked(!CANON_MASK) })
    }

    /// Whether a MethodTable's type is a value type.
    ///
    /// # Errors
    /// If it is not in the core.
    pub fn is_value_type(&self, method_table: Addr) -> Result<bool, ViewError> {
        let mt_flags = self.view("MethodTable", method_table).u32("MTFlags")?;
        Ok(mt_flags & flags::CATEGORY_ARRAY_MASK == flags::CATEGORY_VALUE_TYPE)
    }

    /// MethodTable of an array's elements, if they have one.
    pub fn element_type(&self, method_table: Addr) -> Option<Addr> {
        match self.shape(TypeHandle(method_table)).ok()? {
            Shape::SzArray(of) | Shape::Array(of, _) => of.0.masked(TYPE_DESC).is_null().then_some(of.0),
            _ => None,
        }
    }

    /// Whether objects of a MethodTable have references. False if the MethodTable is not in the core.
    pub fn contains_references(&self, method_table: Addr) -> bool {
        self.view("MethodTable", method_table).u32("MTFlags").is_ok_and(|f| f & flags::CONTAINS_POINTERS != 0)
    }

    /// The LoaderAllocator object of a collectible type. It keeps the type's code and data alive, and each object of
    /// the type keeps it alive.
    pub fn loader_allocator_object(&self, method_table: Addr) -> Option<Addr> {
        let mt_flags = self.view("MethodTable", method_table).u32("MTFlags").ok()?;
        let collectible = self.runtime.layout.constant("MTFlags", "Collectible").ok()?;
        if u64::from(mt_flags) & collectible == 0 {
            return None;
        }
        let module = self.loader_module(method_table)?;
        let allocator = self.view("Module", module).ptr("LoaderAllocator").ok()?;
        let handle = self.view("LoaderAllocator", allocator).ptr("ObjectHandle").ok()?;
        self.memory.ptr(handle).ok().filter(|o| !o.is_null())
    }

    /// Module whose loader allocator contains a MethodTable.
    pub(super) fn loader_module(&self, method_table: Addr) -> Option<Addr> {
        let view = self.view("MethodTable", method_table);
        // Up to .NET 8 it is in the MethodTable, in the field that has the defining module from 9 on.
        if self.runtime.layout.field("MethodTableAuxiliaryData", "LoaderModule").is_err() {
            return view.ptr("Module").ok();
        }
        let data = self.view("MethodTableAuxiliaryData", view.ptr("AuxiliaryData").ok()?);
        data.ptr("LoaderModule").ok()
    }

    /// TypeDef token of a MethodTable.
    ///
    /// # Errors
    /// If it is not in the core.
    pub fn type_token(&self, method_table: Addr) -> Result<Token, ViewError> {
        let view = self.view("MethodTable", method_table);
        // Up to .NET 8 a field of its own, from .NET 9 on the upper 24 bits of MTFlags2.
        let rid = if view.has("Token") { u32::from(view.u16("Token")?) } else { view.u32("MTFlags2")? >> 8 };
        Ok(Token::new(Table::TypeDef, rid))
    }

    /// Module that defines a MethodTable's type.
    ///
    /// # Errors
    /// If it is not in the core.
    pub fn module_of(&self, method_table: Addr) -> Result<Addr, ViewError> {
        let view = self.view("MethodTable", method_table);
        let layout = &self.runtime.layout;
        let (Ok(mask), Ok(mark)) = (
            layout.constant("MethodTable", "MultipurposeSlotsMask"),
            layout.constant("MethodTable", "HasModuleOverride"),
        ) else {
            return view.ptr("Module");
        };
        // Up to .NET 7 the Module field is the loader module. If a generic type's own module is another one, that is in
        // a slot that only some types have.
        let mt_flags = view.u32("MTFlags")?;
        if mt_flags & (HAS_COMPONENT_SIZE | flags::GENERICS_MASK) == 0 {
            return view.ptr("Module");
        }
        let is_array = mt_flags & flags::CATEGORY_ARRAY_MASK == flags::CATEGORY_ARRAY;
        let at = if is_array { method_table } else { self.canonical(method_table)? };
        let view = self.view("MethodTable", at);
        let slots = u64::from(view.u16("MTFlags2")?) & mask;
        if slots & mark == 0 {
            return view.ptr("Module");
        }
        // Slots are assigned in the order of their bits: two are in the struct, the others follow the vtable. The
        // vtable is a row of pointers to chunks of 8 slots.
        let before = u64::from((slots & (mark - 1)).count_ones());
        let index = if slots & 3 == 2 && before == 1 { 0 } else { before };
        match index {
            0 => view.ptr("PerInstInfo"),
            1 => view.ptr("InterfaceMap"),
            _ => {
                let chunks = u64::from(view.u16("NumVirtuals")?).div_ceil(8);
                let end = layout.size("MethodTable")?;
                let slot = at.saturating_add(end + (chunks + index - 2) * 8);
                self.memory.ptr(slot).map_err(ViewError::fault("MethodTable", "ModuleOverride"))
            }
        }
    }

    /// Generic arguments of a MethodTable's type. Empty if the type is not generic.
    ///
    /// # Errors
    /// If they are not in the core.
    pub fn class_instantiation(&self, method_table: Addr) -> Result<Vec<TypeHandle>, ViewError> {
        let view = self.view("MethodTable", method_table);
        let mt_flags = view.u32("MTFlags")?;
        if mt_flags & HAS_COMPONENT_SIZE != 0 || mt_flags & flags::GENERICS_MASK == 0 {
            return Ok(Vec::new());
        }
        let dictionaries = view.ptr("PerInstInfo")?;
        let info =
            self.view("GenericsDictInfo", dictionaries.saturating_sub(self.runtime.layout.size("GenericsDictInfo")?));
        let (count, own) = (info.u16("NumTypeArgs")?, info.u16("NumDicts")?);
        let last = dictionaries.saturating_add(u64::from(own).saturating_sub(1) * 8);
        let dictionary = self.memory.ptr(last).map_err(ViewError::fault("MethodTable", "PerInstInfo"))?;
        self.handles(dictionary, u32::from(count))
    }

    /// Reads `count` adjacent type handles.
    pub(super) fn handles(&self, at: Addr, count: u32) -> Result<Vec<TypeHandle>, ViewError> {
        let count = count.min(limits::MAX_GENERIC_ARGS) as usize;
        let bytes = self.memory.bytes(at, count * 8).map_err(ViewError::fault("Dictionary", "instantiation"))?;
        Ok((0..count).filter_map(|i| u64_at(&bytes, i * 8).map(|v| TypeHandle(Addr::new(v)))).collect())
    }
}
