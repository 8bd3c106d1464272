//! MethodTables as the walk needs them: is it one, and how large are its objects.
//!
//! src/coreclr/vm: methodtable.h (GetBaseSize, RawGetComponentSize),
//! methodtable.cpp (MethodTable::Validate).

use std::sync::Arc;

use crate::addr::Addr;
use crate::dotnet::heap::MIN_OBJECT;
use crate::dotnet::types::TypeSystem;
use crate::layout::ViewError;
use crate::limits;
use crate::managed::TypeIndex;
use crate::managed::type_table::TypeTable;

/// MTFlags: the low half is a component size (WFLAGS_HIGH_ENUM).
const HAS_COMPONENT_SIZE: u32 = 0x8000_0000;

/// Least BaseSize: a string's, which counts no character but its NUL.
const MIN_BASE_SIZE: u32 = 22;

/// Bytes of a character; an array of them has a larger head.
const STRING_COMPONENT: u16 = 2;

/// MTFlags and BaseSize of the MethodTable of free space, the same in all
/// versions: an array of bytes.
const FREE_FLAGS: u32 = 0x8000_0001;
const FREE_BASE_SIZE: u32 = 24;

/// A type of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodTableInfo {
    /// Its MethodTable.
    pub address: Addr,
    /// Size of an object, without elements.
    pub base_size: u32,
    /// Size of an element; 0 for what has none.
    pub component_size: u16,
    /// Whether it is the space between objects.
    pub free: bool,
    /// Whether it is System.String.
    pub string: bool,
}

impl MethodTableInfo {
    /// Whether its objects have a count of elements.
    pub fn counted(&self) -> bool {
        self.component_size != 0
    }
}

/// All MethodTables met so far, each looked at once.
pub(super) struct MethodTables<'p> {
    types: Arc<TypeSystem<'p>>,
    free: Option<Addr>,
    known: TypeTable<MethodTableInfo>,
}

impl<'p> MethodTables<'p> {
    pub(super) fn new(types: Arc<TypeSystem<'p>>) -> MethodTables<'p> {
        let global = types.runtime.roots.pointer(types.memory, &types.runtime.layout, "FreeObjectMethodTable");
        // Slots of globals move between servicing releases: what it leads to
        // must look right, or free space is told by its shape alone.
        let free = global.ok().filter(|&address| {
            let view = types.view("MethodTable", address);
            view.u32("MTFlags").ok().zip(view.u32("BaseSize").ok()) == Some((FREE_FLAGS, FREE_BASE_SIZE))
        });
        let info = MethodTableInfo {
            address: free.unwrap_or(Addr::NULL),
            base_size: FREE_BASE_SIZE,
            component_size: 1,
            free: true,
            string: false,
        };
        let known = TypeTable::new(info, None, limits::MAX_METHOD_TABLES);
        MethodTables { types, free, known }
    }

    /// What the table of that number is.
    pub(super) fn get(&self, kind: TypeIndex) -> Option<MethodTableInfo> {
        self.known.get(kind)
    }

    /// The number of System.String, if one was met.
    pub(super) fn string(&self) -> Option<TypeIndex> {
        self.known.find(|info| info.string)
    }

    /// Whether no more tables are taken: their objects are then lost.
    pub(super) fn is_full(&self) -> bool {
        self.known.is_full()
    }

    /// Number of tables met so far.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// The MethodTable at `address`, if it is one.
    pub(super) fn lookup(&self, address: u64) -> Option<(TypeIndex, MethodTableInfo)> {
        self.known.lookup(address, || {
            let info = self.read(Addr::new(address)).ok().flatten()?;
            Some((info, info.free))
        })
    }

    fn read(&self, address: Addr) -> Result<Option<MethodTableInfo>, ViewError> {
        if address.is_null() || !address.is_aligned(8) {
            return Ok(None);
        }
        let view = self.types.view("MethodTable", address);
        let (flags, base_size) = (view.u32("MTFlags")?, view.u32("BaseSize")?);
        let component_size = if flags & HAS_COMPONENT_SIZE == 0 { 0 } else { flags as u16 };
        let info = MethodTableInfo {
            address,
            base_size,
            component_size,
            free: self.free == Some(address),
            // Characters, of which the first is counted with the head.
            string: base_size == MIN_BASE_SIZE && component_size == STRING_COMPONENT,
        };
        let shaped_as_free = flags == FREE_FLAGS
            && base_size == FREE_BASE_SIZE
            && view.u64("EEClassOrCanonMT").is_ok_and(|class| class == 0);
        if info.free || (self.free.is_none() && shaped_as_free) {
            return Ok(Some(MethodTableInfo { free: true, ..info }));
        }
        let sized = (MIN_BASE_SIZE..=limits::MAX_BASE_SIZE).contains(&base_size);
        // Only strings and arrays end at an odd place, or are that small.
        let aligned = info.counted() || (base_size.is_multiple_of(8) && u64::from(base_size) >= MIN_OBJECT);
        Ok((sized && aligned && self.types.is_method_table(address)?).then_some(info))
    }
}
