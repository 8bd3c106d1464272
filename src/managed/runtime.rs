//! A managed runtime as one asks it, whatever it is.

use std::collections::{BTreeMap, HashMap};

use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::facts::{Finding, FrameRow, ObjectReport, RuntimeRow, ThreadRow, WaitRow};
use crate::managed::anatomy::Anatomy;
use crate::managed::fields::Fields;
use crate::managed::{
    AsyncFunctions, BlockLabels, ClrGc, Heap, LightFrame, ListedMethods, ManagedCode, Mark, OwnedBuffer, Roots,
    RuntimeId, SmallBlocks, StackFrame, Walk, buffer_at,
};
use crate::map::{Claims, Confidence, Kind};

/// A thread as a runtime knows it.
#[derive(Clone, Debug)]
pub struct ManagedThread {
    /// What the runtime knows it by.
    pub address: Addr,
    /// The runtime's number of it.
    pub id: Option<u32>,
    /// Its marks on the stack, lowest first.
    pub marks: Vec<Mark>,
}

/// A thread that a runtime runs on threads of the system, now on this one, now on that: a virtual thread of Java.
#[derive(Clone, Debug)]
pub struct LightThread {
    /// Its object.
    pub address: Addr,
    /// The runtime's number of it.
    pub id: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// What it does, in the runtime's words.
    pub state: Option<&'static str>,
    /// The thread of the system that it is on, by number; its frames are there, or the newer ones.
    pub carrier: Option<u32>,
    /// What it waits for.
    pub wait: Option<WaitRow>,
    /// Its frames that are on no thread of the system, that of the latest call first.
    pub frames: Vec<LightFrame>,
    /// Why there are no more, in words, where there should be.
    pub missing: Option<&'static str>,
}

/// The threads of a runtime.
#[derive(Clone, Debug, Default)]
pub struct ManagedThreads {
    /// By the system's number.
    pub by_tid: HashMap<u32, Vec<ManagedThread>>,
    /// What could not be read: code of a warning, and words.
    pub notes: Vec<(WarningCode, String)>,
}

impl ManagedThreads {
    /// The first that is of the system's thread.
    pub fn of(&self, tid: u32) -> Option<&ManagedThread> {
        self.by_tid.get(&tid)?.first()
    }
}

/// What an address is of the structures that a runtime keeps beside objects and code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Structure {
    /// The description of a type, or of a method, begins there.
    Descriptor {
        /// What it is, in the runtime's words: `MethodTable`.
        kind: &'static str,
        /// Name of the type or method.
        name: String,
        /// File name of the module that defines it.
        module: String,
    },
    /// It is in a handle that leads to an object.
    Handle {
        /// Where the handle begins.
        address: Addr,
        /// Its kind, in the runtime's words.
        kind: &'static str,
        /// The object.
        object: Addr,
        /// The object that it keeps together with that one.
        secondary: Option<Addr>,
    },
}

/// A managed runtime of a process. Each answer is read when it is first asked for.
///
/// Seven methods are required. All others have a default that means "no such thing", and most of them return an optional
/// capability: a trait of its own, which a runtime implements if it has that.
pub trait ManagedRuntime: Sync {
    /// Who it is, as it stands at the head of every answer.
    fn row(&self) -> RuntimeRow;

    /// Name and version in a few words, for warnings.
    fn label(&self) -> String;

    /// Say what memory is its own.
    fn claim(&self, claims: &mut Claims);

    /// Its objects; `None` where no part of its heap is known.
    fn heap(&self) -> Option<&dyn Heap>;

    /// Its code.
    fn code(&self) -> &dyn ManagedCode;

    /// Its threads.
    fn threads(&self) -> &ManagedThreads;

    /// What keeps its objects. `walk` follows the stack of a thread by the system's number;
    /// in its frames this runtime is `own`.
    fn roots(&self, own: RuntimeId, walk: &mut dyn FnMut(u32) -> Option<Walk>) -> Roots;

    /// The object at `addr`, or that it leads into, with its fields.
    fn object(&self, _addr: Addr) -> Option<ObjectReport> {
        None
    }

    /// What of the runtime's own structures `addr` is, in memory of that kind; `None` where it is none
    /// that can be told.
    fn structure(&self, _addr: Addr, _kind: Kind) -> Option<Structure> {
        None
    }

    /// Memory outside of its heap that its objects own, by address.
    fn buffers(&self) -> &[OwnedBuffer] {
        &[]
    }

    /// The buffer that holds `addr`. Of memory that is no part of the heap and of what its objects own within it, where
    /// that is told apart.
    fn buffer_of(&self, addr: Addr) -> Option<OwnedBuffer> {
        buffer_at(self.buffers(), addr).cloned()
    }

    /// Whether an object is freed as soon as nobody uses it, but for cycles: what is counted of it then is no garbage that waits for a
    /// collection.
    fn frees_at_once(&self) -> bool {
        false
    }

    /// What it notes at the start of blocks that it has from malloc; `None` where it notes nothing.
    fn block_labels(&self) -> Option<&dyn BlockLabels> {
        None
    }

    /// Fill in what the runtime says of a thread.
    fn describe(&self, _thread: &ManagedThread, _row: &mut ThreadRow) {}

    /// What the thread is for, and how sure that is, by its row without frames, and its
    /// frames.
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

    /// Visit its threads that are none of the system's.
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

    /// What decides how large the stacks of its threads are, in a sentence.
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
