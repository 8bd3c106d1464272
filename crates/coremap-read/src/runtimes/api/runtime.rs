//! The interface of a managed runtime, and of its threads, structures and locks.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::addr::{Addr, AddrRange};
use crate::diag::WarningCode;
use crate::facts::{Finding, FrameRow, ObjectReport, RuntimeRow, ThreadRow, TimerRow, WaitRow};
use crate::map::{Claims, Confidence, Kind};
use crate::runtimes::api::anatomy::Anatomy;
use crate::runtimes::api::fields::Fields;
use crate::runtimes::api::{
    Activation, AllocationProfile, AllocationTraces, AsyncFunctions, BlockLabels, ClrGc, EventSession, ExceptionList,
    Heap, IsolateSizes, LastWords, LightFrame, ListedMethods, LockList, ManagedCode, Mark, NamedStatics, OwnedBuffer,
    PendingTasks, RetainedSizes, RootKind, Roots, RuntimeId, SmallBlocks, StackFrame, StackWalk, TypeIndex, TypeRole,
    WaitFacts, buffer_at,
};

/// A thread as a runtime sees it.
#[derive(Clone, Debug)]
pub struct ManagedThread {
    /// Address of the runtime's thread structure.
    pub address: Addr,
    /// Thread number in the runtime. `None` if it has none.
    pub id: Option<u32>,
    /// The runtime's marks on the thread's stack, lowest address first.
    pub marks: Vec<Mark>,
}

/// A thread that a runtime schedules on system threads, such as a virtual thread of Java.
#[derive(Clone, Debug)]
pub struct LightThread {
    /// Address of the thread's object.
    pub address: Addr,
    /// Thread number in the runtime. `None` if it has none.
    pub id: Option<u64>,
    /// Name of the thread.
    pub name: Option<String>,
    /// State in the runtime's words.
    pub state: Option<&'static str>,
    /// Thread ID of the system thread that it runs on. Its newer frames are on that thread's stack.
    pub carrier: Option<u32>,
    /// What the thread waits for.
    pub wait: Option<WaitRow>,
    /// The method that started it, with its position. `None` if the runtime does not record it.
    pub created_by: Option<Activation>,
    /// Frames that are stored outside of any system thread's stack, innermost first.
    pub frames: Vec<LightFrame>,
    /// Why frames are missing. `None` if none are.
    pub missing: Option<&'static str>,
}

/// The threads of a runtime, as the runtime lists them.
#[derive(Clone, Debug, Default)]
pub struct ManagedThreads {
    /// Runtime threads by system thread ID.
    pub by_tid: HashMap<u32, Vec<ManagedThread>>,
    /// Warnings about what could not be read: code and message.
    pub notes: Vec<(WarningCode, String)>,
}

impl ManagedThreads {
    /// Returns the first runtime thread of the system thread `tid`.
    pub fn of(&self, tid: u32) -> Option<&ManagedThread> {
        self.by_tid.get(&tid)?.first()
    }
}

/// A runtime structure that is neither object nor code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Structure {
    /// The start of the structure that describes a type or method.
    Descriptor {
        /// Name of the structure in the runtime, such as `MethodTable`.
        kind: &'static str,
        /// Name of the type or method.
        name: String,
        /// File name of the module that defines it.
        module: String,
    },
    /// An address inside a handle that references an object.
    Handle {
        /// Start of the handle.
        address: Addr,
        /// Kind of the handle, in the runtime's words.
        kind: &'static str,
        /// The object that the handle references.
        object: Addr,
        /// The second object that a dependent handle keeps alive.
        secondary: Option<Addr>,
    },
}

/// A managed runtime of a process. Each answer is read on first use.
///
/// Seven methods are required. The others have a default that means "none". Most of them return an optional capability:
/// a trait of its own that the runtime implements if it has the feature.
pub trait ManagedRuntime: Sync {
    /// The runtime's row in the header of every report.
    fn row(&self) -> RuntimeRow;

    /// Name and version, for warnings.
    fn label(&self) -> String;

    /// Adds claims for the memory that the runtime owns.
    fn claim(&self, claims: &mut Claims);

    /// The runtime's heap. `None` if no range of it was found.
    fn heap(&self) -> Option<&dyn Heap>;

    /// The runtime's managed code.
    fn code(&self) -> &dyn ManagedCode;

    /// The runtime's threads.
    fn threads(&self) -> &ManagedThreads;

    /// The runtime's GC roots. `walk` unwinds the stack of the thread with a system thread ID. `own` is this runtime's
    /// ID in the frames that `walk` returns.
    fn roots(&self, own: RuntimeId, walk: &mut dyn FnMut(u32) -> Option<StackWalk>) -> Roots;

    /// Kind of the roots of objects whose reference counts prove references from unknown memory. `None` if the runtime
    /// counts no references.
    fn unexplained_references(&self) -> Option<RootKind> {
        None
    }

    /// Describes the object at or around `addr`, with its fields.
    fn object(&self, _addr: Addr) -> Option<ObjectReport> {
        None
    }

    /// The runtime structure at `addr`, which is in memory of kind `_kind`. `None` if there is none.
    fn structure(&self, _addr: Addr, _kind: Kind) -> Option<Structure> {
        None
    }

    /// Memory outside of the heap that its objects own, sorted by address.
    fn buffers(&self) -> &[OwnedBuffer] {
        &[]
    }

    /// Whether buffers count as memory of their objects in the question who holds memory.
    fn counts_buffers(&self) -> bool {
        false
    }

    /// The buffer that contains `addr`. Unlike `buffers`, this includes buffers inside the heap if the runtime
    /// separates them from objects.
    fn buffer_of(&self, addr: Addr) -> Option<OwnedBuffer> {
        buffer_at(self.buffers(), addr).cloned()
    }

    /// What the object of a root represents, as text: a thread with its name. `None` if it is an ordinary object.
    fn represents(&self, _object: Addr) -> Option<String> {
        None
    }

    /// Whether the runtime's own structure for an object begins at `_at`: a thread, an assembly. The objects that
    /// represent such structures point at them.
    fn is_own_structure(&self, _at: Addr) -> bool {
        false
    }

    /// The image of the runtime's library. A malloc block that begins with a pointer into it is a C++ object of the
    /// runtime. `None` if the image contains code of the program too.
    fn image(&self) -> Option<AddrRange> {
        None
    }

    /// Whether an unreferenced object is freed at once, except in a cycle. An object that is counted is then not
    /// garbage that awaits a collection.
    fn frees_at_once(&self) -> bool {
        false
    }

    /// Why no collection frees unreachable objects, such as `the cyclic garbage collector is off (gc.disable())`.
    /// `None` if collections run.
    fn collector_off(&self) -> Option<&'static str> {
        None
    }

    /// Labels that the runtime writes at the start of its malloc blocks. `None` if it writes none.
    fn block_labels(&self) -> Option<&dyn BlockLabels> {
        None
    }

    /// Reads the names of all types and methods now, so that missing ones are reported. Otherwise names are read on
    /// demand.
    fn read_names(&self) {}

    /// Adds to `row` what the runtime records about the thread.
    fn describe(&self, _thread: &ManagedThread, _row: &mut ThreadRow) {}

    /// Role of a thread, with confidence, derived from its row (which has no frames yet) and its frames.
    fn role(
        &self,
        _thread: Option<&ManagedThread>,
        _row: &ThreadRow,
        _frames: &[FrameRow],
    ) -> Option<(&'static str, Confidence)> {
        None
    }

    /// Meaning of the bytes of its objects, for `shrink --scrub`. `None` if unknown.
    fn anatomy(&self) -> Option<&dyn Anatomy> {
        None
    }

    /// Classes and fields as a Java heap dump has them, for `export --to hprof`. `None` if unknown.
    fn fields(&self) -> Option<&dyn Fields> {
        None
    }

    /// .NET's garbage collector. `None` for runtimes without it.
    fn clr_gc(&self) -> Option<&dyn ClrGc> {
        None
    }

    /// Visits the threads that are not system threads.
    fn each_light_thread(&self, _visit: &mut dyn FnMut(LightThread)) {}

    /// Word for such a thread.
    fn light_thread_word(&self) -> &'static str {
        "virtual thread"
    }

    /// Methods listed by thread, for methods without a native frame of their own. `None` if every method is in a frame.
    fn listed_methods(&self) -> Option<&dyn ListedMethods> {
        None
    }

    /// The runtime's own small-block allocator. `None` if it has none.
    fn small_blocks(&self) -> Option<&dyn SmallBlocks> {
        None
    }

    /// Findings about the runtime's own structures. `None` if it reports none.
    fn findings(&self) -> Option<&dyn RuntimeFindings> {
        None
    }

    /// Open sessions of .NET's EventPipe, with buffers that nobody has read.
    fn event_sessions(&self) -> &[EventSession] {
        &[]
    }

    /// The runtime's locks. `None` if they are not read.
    fn locks(&self) -> Option<&dyn Locks> {
        None
    }

    /// The locks that its heap has. `None` if they are read in another way, or not at all.
    fn lock_list(&self) -> Option<&dyn LockList> {
        None
    }

    /// The exception objects of its heap. `None` if they are read in another way, or not at all.
    fn exception_list(&self) -> Option<&dyn ExceptionList> {
        None
    }

    /// The runtime's async functions.
    fn async_functions(&self) -> AsyncFunctions<'_> {
        AsyncFunctions::Elsewhere
    }

    /// Pending tasks as facts for a wait graph. `None` if they are not read.
    fn pending_tasks(&self) -> Option<&dyn PendingTasks> {
        None
    }

    /// Its static variables, and the objects that contain them. Empty if they are not read.
    fn named_statics(&self) -> NamedStatics {
        NamedStatics::default()
    }

    /// The part that a type plays in the question who holds memory.
    fn type_role(&self, _kind: TypeIndex) -> TypeRole {
        TypeRole::Program
    }

    /// Whether the program itself named the entries of a collection of this type: a JavaScript object.
    fn names_entries(&self, _kind: TypeIndex) -> bool {
        false
    }

    /// Returns the object that names an entry in one of the runtime's tables. For the entry of a thread-local value,
    /// this is the thread-local variable. `None` for other entries.
    fn named_by(&self, _entry: Addr) -> Option<Addr> {
        None
    }

    /// A sentence on the state of a collection itself: for example, that it finds no equal keys.
    fn collection_note(&self, _collection: Addr) -> Option<String> {
        None
    }

    /// Values of thread-local variables. A frame that uses such a value does not own it.
    fn thread_local_values(&self) -> HashSet<Addr> {
        HashSet::new()
    }

    /// The number that limits a collection itself, with the name of its field. `None` if it is unlimited or unknown.
    fn limit_of(&self, _collection: Addr) -> Option<(&'static str, u64)> {
        None
    }

    /// Describes the state of a collection's elements of one type, in words, such as how many are not completed.
    fn elements_note(&self, _kind: TypeIndex, _elements: &[Addr]) -> Option<String> {
        None
    }

    /// Figures of its collector, with the runtime's own names. Empty if they are not read.
    fn collector_figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// The profile of its heap that it samples itself. `None` if there is none, or its records are not found.
    fn allocation_profile(&self) -> Option<&AllocationProfile> {
        None
    }

    /// The lines that allocated blocks of native memory. `None` if no tracer of the runtime was on.
    fn allocation_traces(&self) -> Option<&AllocationTraces> {
        None
    }

    /// Number objects that have one of these values, by value. A program may store an address as a number, and its
    /// digits are not a pointer that a scan finds.
    fn numbers(&self, _wanted: &HashSet<u64>) -> HashMap<u64, Addr> {
        HashMap::new()
    }

    /// Whether the runtime clears each object that it allocates. Then a page of zeros in an object was written too.
    fn clears_objects(&self) -> bool {
        false
    }

    /// The setting that keeps the heap's memory committed, as a clause. `None` if none is known.
    fn heap_setting(&self) -> Option<String> {
        None
    }

    /// The isolated heaps of the runtime. Empty if it has a single heap.
    fn isolates(&self) -> Vec<IsolateSizes> {
        Vec::new()
    }

    /// Facts about the end of the process. `None` if the runtime has none.
    fn last_words(&self) -> Option<&dyn LastWords> {
        None
    }

    /// Its active timers. `None` if they are not read.
    fn timers(&self) -> Option<Vec<TimerRow>> {
        None
    }

    /// Waits, executors and requests. `None` if they are not read.
    fn wait_facts(&self) -> Option<&dyn WaitFacts> {
        None
    }

    /// One sentence that names the setting for the stack size of the runtime's threads.
    fn stack_size_advice(&self) -> Option<&'static str> {
        None
    }
}

/// Findings that a runtime derives from its own structures.
pub trait RuntimeFindings: Sync {
    /// Whether [`RuntimeFindings::find`] walks the heap.
    fn walks(&self) -> bool {
        false
    }

    /// Returns the findings. `used`: memory of the process by kind. `retained`: retained sizes of the runtime's
    /// objects. Without them, findings that need them are left out.
    fn find(&self, used: &KindBytes, retained: Option<&dyn RetainedSizes>) -> Vec<Finding>;
}

/// Memory of a process by kind.
#[derive(Clone, Debug, Default)]
pub struct KindBytes {
    /// Word for the bytes, as at the start of a sentence: `Written`, `Resident`.
    pub measure: &'static str,
    /// Bytes of each kind.
    pub bytes: BTreeMap<Kind, u64>,
}

impl KindBytes {
    /// Bytes of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.bytes.get(&kind).copied().unwrap_or(0)
    }
}

/// The locks of a runtime.
pub trait Locks: Sync {
    /// The lock that the thread waits for, judged by its `frames`.
    fn wait(&self, thread: &ManagedThread, frames: &[StackFrame]) -> Option<WaitRow>;

    /// Messages about locks that could not be read.
    fn notes(&self) -> &[String] {
        &[]
    }
}
