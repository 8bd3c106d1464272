//! A managed runtime as one asks it, whatever it is.

use std::collections::{BTreeMap, HashMap};

use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::managed::{
    AsyncTask, BlockLabels, Heap, LightFrame, ManagedCode, Mark, OwnedBuffer, Roots, Run, SmallBlock, SmallBlocks,
    StackFrame, Walk, buffer_at,
};
use crate::map::{Claims, Confidence, Kind};
use crate::report::{Finding, FrameRow, ObjectReport, RuntimeRow, ThreadRow, WaitRow};

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
/// What only one of them has (handles of CoreCLR, say) is asked of its own type.
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

    /// What the thread of that number runs of methods that are in no frame of their own, the latest first: all of it is told
    /// with the thread's stack, however far that can be followed.
    fn runs(&self, _tid: u32) -> Vec<Run> {
        Vec::new()
    }

    /// What keeps its objects. `walk` follows the stack of a thread by the system's number;
    /// in its frames this runtime is that of number `own`.
    fn roots(&self, own: usize, walk: &mut dyn FnMut(u32) -> Option<Walk>) -> Roots;

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

    /// Its own allocator of small blocks; `None` where it has none.
    fn small_blocks(&self) -> Option<&SmallBlocks> {
        None
    }

    /// The small block that holds `addr`.
    fn small_block(&self, _addr: Addr) -> Option<SmallBlock> {
        None
    }

    /// What stands out in its own structures, mostly without a pass over its heap; `written`: bytes of the process that were
    /// written, by kind.
    fn findings(&self, _written: &BTreeMap<Kind, u64>) -> Vec<Finding> {
        Vec::new()
    }

    /// Whether it walks its heap for that.
    fn walks_for_findings(&self) -> bool {
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

    /// The lock that a thread of these frames waits for.
    fn wait(&self, _thread: &ManagedThread, _frames: &[StackFrame]) -> Option<WaitRow> {
        None
    }

    /// Visit its threads that are none of the system's.
    fn each_light_thread(&self, _visit: &mut dyn FnMut(LightThread)) {}

    /// Whether its async functions are read, so that none found means none there.
    fn reads_async(&self) -> bool {
        true
    }

    /// Visit its tasks of async functions that are not done.
    fn each_async_task(&self, _visit: &mut dyn FnMut(AsyncTask)) {}

    /// What could not be read of its locks.
    fn lock_notes(&self) -> &[String] {
        &[]
    }

    /// What decides how large the stacks of its threads are, in a sentence.
    fn stack_size_advice(&self) -> Option<&'static str> {
        None
    }
}
