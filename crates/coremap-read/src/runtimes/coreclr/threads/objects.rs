//! Facts from a managed thread's objects: its name, and its last thrown exception.
//!
//! Sources: System.Private.CoreLib: System.Threading.Thread (`_name`), Lock; src/coreclr/vm/field.h (FieldDesc);
//! docs/design/datacontracts: Object.md, Thread.md.

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::coreclr::threads::ManagedThread;
use crate::runtimes::coreclr::types::TypeSystem;
use crate::targets::reads::Script;

/// Field of System.Threading.Thread with its name.
const NAME_FIELD: &str = "_name";

/// Type of the exception that the runtime makes for fatal errors, and the field of System.Exception with the trace.
const FATAL: &str = "System.ExecutionEngineException";
const STACK_TRACE: &str = "_stackTrace";

/// System.Threading.Lock (.NET 9 on): the type, the field with the owner's system thread id (seen on 9.0.22, 10.0.11,
/// 10.0.14), and the state field, whose lowest bit is set while the lock is held.
const LOCK_TYPE: &str = "System.Threading.Lock";
const LOCK_OWNER: &str = "_owningThreadId";
const LOCK_STATE: &str = "_state";
const LOCK_HELD: u32 = 1;

/// FieldDesc: mask of the token's row, bit of static fields, mask of the offset.
const ROW: u32 = 0x00ff_ffff;
const STATIC: u32 = 1 << 24;
const OFFSET: u32 = (1 << 27) - 1;

/// An exception object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThrownException {
    /// Address of the object.
    pub object: Addr,
    /// Type name.
    pub type_name: String,
}

impl TypeSystem<'_> {
    /// Name that managed code gave to a thread.
    pub fn thread_name(&self, thread: &ManagedThread) -> Option<String> {
        let object = self.memory.ptr(thread.exposed_object?).ok().filter(|o| !o.is_null())?;
        let offset = self.field_offset(self.type_of(object)?, NAME_FIELD)?;
        // Field offsets start after the MethodTable pointer.
        let string = self.memory.ptr(object.checked_add(8 + offset)?).ok().filter(|s| !s.is_null())?;
        let view = self.view("String", string);
        let length = (view.u32("m_StringLength").ok()? as usize).min(limits::MAX_THREAD_NAME);
        let first = view.addr_of("m_FirstChar").ok()?;
        let bytes = self.memory.look(first, length * 2).ok()?;
        self.memory.keep_name(first, bytes.len() as u64, Script::Units(2));
        // If the heap can't be walked, nothing else identifies it as a string.
        self.memory.keep(view.addr_of("m_StringLength").ok()?, 4);
        let units: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|c| u16::from_le_bytes(*c)).collect();
        Some(String::from_utf16_lossy(&units))
    }

    /// The exception that a thread threw last, if the thread still references it.
    ///
    /// The runtime makes an ExecutionEngineException at its start, and stores it as the last one of a thread that it
    /// ends the process in (eepolicy.cpp: EEPolicy::HandleFatalError). Nobody threw it, so it has no stack trace.
    pub fn thrown_exception(&self, thread: &ManagedThread) -> Option<ThrownException> {
        let object = self.memory.ptr(thread.last_thrown?).ok().filter(|o| !o.is_null())?;
        let type_name = self.display_name(self.type_of(object)?);
        if type_name == FATAL && !self.has_stack_trace(object) {
            return None;
        }
        Some(ThrownException { object, type_name })
    }

    /// Whether an exception has a stack trace. False if that can't be read.
    fn has_stack_trace(&self, exception: Addr) -> bool {
        let by_name = || {
            let fields = self.object_fields(self.type_of(exception)?);
            Some(fields.iter().find(|field| self.field_name(field) == STACK_TRACE)?.offset)
        };
        let offset = self.runtime.layout.positive("Exception", STACK_TRACE).ok().or_else(by_name);
        let trace = offset.and_then(|offset| self.memory.ptr(exception.checked_add(offset)?).ok());
        trace.is_some_and(|trace| !trace.is_null())
    }

    /// System thread id of the owner of the System.Threading.Lock at `object`. `None` if it is no such object, or not
    /// held.
    pub fn lock_owner(&self, object: Addr) -> Option<u32> {
        let method_table = self.type_of(object).filter(|&mt| self.is_lock(mt))?;
        let word = |name| {
            let at = object.checked_add(8 + self.field_offset(method_table, name)?)?;
            Some((at, self.memory.u32(at).ok()?))
        };
        let (owner_at, owner) = word(LOCK_OWNER).filter(|&(_, id)| id != 0)?;
        let (state_at, _) = word(LOCK_STATE).filter(|(_, state)| state & LOCK_HELD != 0)?;
        [owner_at, state_at].into_iter().for_each(|at| self.memory.keep(at, 4));
        Some(owner)
    }

    fn is_lock(&self, method_table: Addr) -> bool {
        // Any word may be passed as an object, so its MethodTable must be consistent.
        let class = self.ee_class(method_table).and_then(|class| self.view("EEClass", class).ptr("MethodTable"));
        class.is_ok_and(|back| back == method_table) && self.display_name(method_table) == LOCK_TYPE
    }

    /// MethodTable of the object at `object`.
    pub fn type_of(&self, object: Addr) -> Option<Addr> {
        let word = self.view("Object", object).ptr("m_pMethTab").ok()?;
        Some(word.masked(!self.mark_bits())).filter(|a| !a.is_null())
    }

    /// Offset of a class's own instance field with that name.
    fn field_offset(&self, method_table: Addr, name: &str) -> Option<u64> {
        let module = self.module(self.module_of(method_table).ok()?);
        let metadata = module.metadata.as_ref()?;
        let class = self.view("EEClass", self.ee_class(method_table).ok()?);
        let list = class.ptr("FieldDescList").ok()?;
        let size = self.runtime.layout.size("FieldDesc").ok()?;
        for i in 0..limits::MAX_THREAD_FIELDS {
            let field = self.view("FieldDesc", list.checked_add(i * size)?);
            if field.ptr("MTOfEnclosingClass").ok()? != method_table {
                return None;
            }
            let (first, second) = (field.u32("DWord1").ok()?, field.u32("DWord2").ok()?);
            if first & STATIC == 0 && metadata.field(first & ROW).is_some_and(|f| f.name == name) {
                return Some(u64::from(second & OFFSET));
            }
        }
        None
    }
}
