//! The interface of a managed runtime.

use std::collections::{BTreeMap, HashMap};

use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::facts::{Finding, FrameRow, ObjectReport, RuntimeRow, ThreadRow, WaitRow};
use crate::map::{Claims, Confidence, Kind};
use crate::runtimes::api::anatomy::Anatomy;
use crate::runtimes::api::fields::Fields;
use crate::runtimes::api::{
    AsyncFunctions, BlockLabels, ClrGc, Heap, LightFrame, ListedMethods, ManagedCode, Mark, OwnedBuffer, Roots,
    RuntimeId, SmallBlocks, StackFrame, Walk, buffer_at,
};

/// A thread as a runtime sees it.
#[derive(Clone, Debug)]
pub struct ManagedThread {
    /// Address of the runtime's thread structure.
    pub address: Addr,
    /// The runtime's number of the thread.
    pub id: Option<u32>,
    /// Its marks on the stack, lowest first.
    pub marks: Vec<Mark>,
}

/// A thread that a runtime schedules on system threads, such as a virtual thread of Java.
#[derive(Clone, Debug)]
pub struct LightThread {
    /// Address of its object.
    pub address: Addr,
    /// The runtime's number of the thread.
    pub id: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// Its state, in the runtime's words.
    pub state: Option<&'static str>,
    /// Thread ID of the system thread that it runs on. Its newer frames are on that stack.
    pub carrier: Option<u32>,
    /// What it waits for.
    pub wait: Option<WaitRow>,
    /// Its frames outside of any system thread, latest call first.
    pub frames: Vec<LightFrame>,
    /// Why frames are missing, if they are.
    pub missing: Option<&'static str>,
}

/// The threads of a runtime.
#[derive(Clone, Debug, Default)]
pub struct ManagedThreads {
    /// Threads by the system's thread ID.
    pub by_tid: HashMap<u32, Vec<ManagedThread>>,
    /// What could not be read: warning code and message.
    pub notes: Vec<(WarningCode, String)>,
}

impl ManagedThreads {
    /// The first runtime thread of the system thread `tid`.
    pub fn of(&self, tid: u32) -> Option<&ManagedThread> {
        self.by_tid.get(&tid)?.first()
    }
}

/// A runtime structure beside objects and code, at some address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Structure {
    /// The start of a type's or method's description.
    Descriptor {
        /// Its name in the runtime: `MethodTable`.
        kind: &'static str,
        /// Name of the type or method.
        name: String,
        /// File name of the module that defines it.
        module: String,
    },
    /// Inside a handle that references an object.
    Handle {
        /// Start of the handle.
        address: Addr,
        /// Kind of the handle, in the runtime's words.
        kind: &'static str,
        /// The object.
        object: Addr,
        /// The second object that a dependent handle keeps alive.
        secondary: Option<Addr>,
    },
}

/// A managed runtime of a process. Each answer is read when first requested.
///
/// Seven methods are required. All others have a default that means "no such thing", and most of them return an optional
/// capability: a trait of its own, which a runtime implements if it has that.
pub trait ManagedRuntime: Sync {
    /// The runtime's row in the head of every answer.
    fn row(&self) -> RuntimeRow;

    /// Name and version, for warnings.
    fn label(&self) -> String;

    /// Adds claims for the memory that it owns.
    fn claim(&self, claims: &mut Claims);

    /// Its heap. `None` if no range of it was found.
    fn heap(&self) -> Option<&dyn Heap>;

    /// Its code.
    fn code(&self) -> &dyn ManagedCode;

    /// Its threads.
    fn threads(&self) -> &ManagedThreads;

    /// Its GC roots. `walk` unwinds the stack of a thread by the system's thread ID. In those frames, this
    /// runtime is `own`.
    fn roots(&self, own: RuntimeId, walk: &mut dyn FnMut(u32) -> Option<Walk>) -> Roots;

    /// The object at `addr`, or the object that contains it, with its fields.
    fn object(&self, _addr: Addr) -> Option<ObjectReport> {
        None
    }

    /// The runtime structure at `addr`, in memory of this kind. `None` if there is none.
    fn structure(&self, _addr: Addr, _kind: Kind) -> Option<Structure> {
        None
    }

    /// Memory outside of its heap that its objects own, by address.
    fn buffers(&self) -> &[OwnedBuffer] {
        &[]
    }

    /// The buffer that contains `addr`. Covers memory outside of the heap, and buffers inside the heap where
    /// the runtime separates them from objects.
    fn buffer_of(&self, addr: Addr) -> Option<OwnedBuffer> {
        buffer_at(self.buffers(), addr).cloned()
    }

    /// Whether unreferenced objects are freed at once, except for cycles. Counted objects are then not garbage
    /// that awaits a collection.
    fn frees_at_once(&self) -> bool {
        false
    }

    /// Labels at the start of its malloc blocks. `None` if it writes none.
    fn block_labels(&self) -> Option<&dyn BlockLabels> {
        None
    }

    /// Reads what names all types and methods, so that whatever is missing is known. Otherwise names are read on demand.
    fn read_names(&self) {}

    /// Adds to `row` what the runtime records about the thread.
    fn describe(&self, _thread: &ManagedThread, _row: &mut ThreadRow) {}

    /// The role of a thread and its confidence, from its row (without frames) and its frames.
    fn role(
        &self,
        _thread: Option<&ManagedThread>,
        _row: &ThreadRow,
        _frames: &[FrameRow],
    ) -> Option<(&'static str, Confidence)> {
        None
    }

    /// What the bytes of its objects mean; `None` if that is not known. `shrink --scrub` asks.
    fn anatomy(&self) -> Option<&dyn Anatomy> {
        None
    }

    /// Its classes and their fields, as a heap dump has them; `None` if these are not known. `export --to hprof` asks.
    fn fields(&self) -> Option<&dyn Fields> {
        None
    }

    /// The garbage collector of .NET, if it has that.
    fn clr_gc(&self) -> Option<&dyn ClrGc> {
        None
    }

    /// Visits its threads that are not system threads.
    fn each_light_thread(&self, _visit: &mut dyn FnMut(LightThread)) {}

    /// Methods that it lists by thread, which are in no frame of their own; `None` if frames tell all methods.
    fn listed_methods(&self) -> Option<&dyn ListedMethods> {
        None
    }

    /// Its own allocator of small blocks.
    fn small_blocks(&self) -> Option<&dyn SmallBlocks> {
        None
    }

    /// What stands out in its own structures.
    fn findings(&self) -> Option<&dyn RuntimeFindings> {
        None
    }

    /// Its locks.
    fn locks(&self) -> Option<&dyn Locks> {
        None
    }

    /// Its async functions.
    fn async_functions(&self) -> AsyncFunctions<'_> {
        AsyncFunctions::Elsewhere
    }

    /// One sentence about the setting that decides the stack size of its threads.
    fn stack_size_advice(&self) -> Option<&'static str> {
        None
    }
}

/// What stands out in a runtime's own structures.
pub trait RuntimeFindings: Sync {
    /// Whether [`RuntimeFindings::find`] walks the heap.
    fn walks(&self) -> bool {
        false
    }

    /// What stands out; `written`: bytes of the process that were written, by kind.
    fn find(&self, written: &BTreeMap<Kind, u64>) -> Vec<Finding>;
}

/// The locks of a runtime.
pub trait Locks: Sync {
    /// The lock that a thread of these frames waits for.
    fn wait(&self, thread: &ManagedThread, frames: &[StackFrame]) -> Option<WaitRow>;

    /// What could not be read of them.
    fn notes(&self) -> &[String] {
        &[]
    }
}
