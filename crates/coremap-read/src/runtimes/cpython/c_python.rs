//! One CPython of a process, with what was read of it so far.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use crate::addr::Addr;
use crate::bytes::printable;
use crate::diag::{WarningCode, was_read};
use crate::facts::{Finding, FrameRow, ObjectReport, RuntimeRow, ThreadRow, WaitRow};
use crate::map::{Claims, Confidence, Kind};
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::anatomy::Anatomy;
use crate::runtimes::api::{
    self, AllocationTraces, AsyncFunctions, AsyncTask, AsyncTasks, KindBytes, LastWords, LightThread, ListedMethods,
    Locks, ManagedCode, ManagedRun, ManagedRuntime, ManagedThread, ManagedThreads, NamedStatics, OwnedBuffer,
    RetainedSizes, RootKind, Roots, RuntimeFindings, RuntimeId, SmallBlock, SmallBlockSums, SmallBlocks, StackFrame,
    StackWalk, Structure, Survivors, TypeIndex, TypeRole, WaitFacts,
};
use crate::runtimes::cpython::frames::PyCode;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::instances::Instances;
use crate::runtimes::cpython::objects::StaticNames;
use crate::runtimes::cpython::obmalloc::{self, Arenas};
use crate::runtimes::cpython::runtime::{Detection, Runtime, detect};
use crate::runtimes::cpython::threads::Threads;
use crate::runtimes::cpython::{buffers, claim, findings, object, roots, structure};

/// A CPython runtime. Each part is read on first use and stored.
pub struct CPython<'p> {
    runtime: Arc<Runtime<'p>>,
    arenas: OnceLock<Vec<Arenas>>,
    heap: OnceLock<Option<Heap<'p>>>,
    code: OnceLock<PyCode<'p>>,
    threads: OnceLock<Threads>,
    names: OnceLock<StaticNames>,
    buffers: OnceLock<Vec<OwnedBuffer>>,
    library_modules: OnceLock<HashMap<String, bool>>,
    traces: OnceLock<Option<AllocationTraces>>,
    pub(super) instances: OnceLock<Instances>,
}

impl<'p> CPython<'p> {
    /// Finds all CPythons that can be read. For each other one, adds a diagnostic that says why.
    pub fn find(process: &'p Process) -> Vec<CPython<'p>> {
        let mut out = Vec::new();
        for found in detect(process) {
            match found {
                Detection::Unusable(why) => process.diag.add(why),
                Detection::Found(runtime) => out.push(CPython {
                    runtime: Arc::new(*runtime),
                    arenas: OnceLock::new(),
                    heap: OnceLock::new(),
                    code: OnceLock::new(),
                    threads: OnceLock::new(),
                    names: OnceLock::new(),
                    buffers: OnceLock::new(),
                    library_modules: OnceLock::new(),
                    traces: OnceLock::new(),
                    instances: OnceLock::new(),
                }),
            }
        }
        out
    }

    /// The interpreter's state and version.
    pub fn runtime(&self) -> &Arc<Runtime<'p>> {
        &self.runtime
    }

    /// The arenas of obmalloc. Empty with `PYTHONMALLOC=malloc`.
    pub fn arenas(&self) -> &[Arenas] {
        self.arenas.get_or_init(|| {
            let found = obmalloc::find(&self.runtime);
            found.map_err(|e| self.warn("arenas", &e.to_string())).unwrap_or_default()
        })
    }

    /// The heap of objects. `None` if it cannot be read.
    pub fn objects(&self) -> Option<&Heap<'p>> {
        let open = || {
            was_read("objects");
            let _phase = self.runtime.process.enter(Phase::Objects);
            let heap = Heap::open(self.runtime.clone(), self.arenas().to_vec());
            heap.map_err(|e| self.warn("objects", &e.to_string())).ok()
        };
        self.heap.get_or_init(open).as_ref()
    }

    pub(super) fn all_code(&self) -> &PyCode<'p> {
        self.code.get_or_init(|| PyCode::new(self.runtime.clone()))
    }

    pub(super) fn all_threads(&self) -> &Threads {
        self.threads.get_or_init(|| {
            let _phase = self.runtime.process.enter(Phase::ManagedThreads);
            Threads::read(&self.runtime)
        })
    }

    /// Whether each module belongs to the library, by name.
    pub(super) fn library_modules(&self) -> &HashMap<String, bool> {
        self.library_modules.get_or_init(|| self.modules_by_library())
    }

    /// Type name of one object, without reading the whole heap.
    pub(super) fn type_name_of(&self, object: Addr) -> Option<String> {
        let objects = self.runtime.objects();
        let names = self.names.get_or_init(|| self.runtime.static_names());
        let found = objects.read_type(objects.type_of(object)?, names)?;
        Some(printable(&found.name).into_owned())
    }

    /// The number of interpreters whose cyclic collector is off (`gc.disable()`).
    fn collectors_off(&self) -> usize {
        let runtime = &self.runtime;
        let is_off = |interpreter: &&Addr| {
            let gc = runtime.view("PyInterpreterState", **interpreter).addr_of("gc");
            gc.is_ok_and(|gc| runtime.view("_gc_runtime_state", gc).u32("enabled") == Ok(0))
        };
        runtime.interpreters.iter().filter(is_off).count()
    }

    /// Whether an interpreter's cyclic collector is off.
    pub(super) fn is_collector_off(&self) -> bool {
        self.collectors_off() > 0
    }

    /// Adds a diagnostic that something could not be read completely.
    pub(super) fn warn(&self, what: &str, note: &str) {
        self.runtime.process.diag.partial(WarningCode::Cpython, format!("{}: {what}: {note}", self.runtime.name()));
    }
}

impl ManagedRuntime for CPython<'_> {
    fn row(&self) -> RuntimeRow {
        RuntimeRow {
            name: "CPython".into(),
            version: Some(self.runtime.version()),
            module: printable(&self.runtime.path).into_owned(),
            base: self.runtime.range.start,
            gc: None,
            layout_source: self.runtime.layout.id.clone(),
        }
    }

    fn label(&self) -> String {
        self.runtime.name()
    }

    fn claim(&self, claims: &mut Claims) {
        claim::claim(self, claims);
    }

    fn heap(&self) -> Option<&dyn api::Heap> {
        self.objects().map(|heap| heap as &dyn api::Heap)
    }

    fn code(&self) -> &dyn ManagedCode {
        self.all_code()
    }

    fn threads(&self) -> &ManagedThreads {
        &self.all_threads().managed
    }

    fn describe(&self, thread: &ManagedThread, row: &mut ThreadRow) {
        self.describe_thread(thread, row);
    }

    fn role(
        &self,
        thread: Option<&ManagedThread>,
        row: &ThreadRow,
        frames: &[FrameRow],
    ) -> Option<(&'static str, Confidence)> {
        self.role_of(thread, row, frames)
    }

    fn each_light_thread(&self, visit: &mut dyn FnMut(LightThread)) {
        self.each_task_as_thread(visit);
    }

    fn object(&self, addr: Addr) -> Option<ObjectReport> {
        object::object(self, addr)
    }

    fn structure(&self, addr: Addr, kind: Kind) -> Option<Structure> {
        structure::structure(self, addr, kind)
    }

    fn unexplained_references(&self) -> Option<RootKind> {
        Some(roots::FROM_C)
    }

    fn buffers(&self) -> &[OwnedBuffer] {
        self.buffers.get_or_init(|| {
            let Some(heap) = self.objects() else { return Vec::new() };
            let (found, more) = buffers::buffers(heap);
            if more > 0 {
                self.warn("buffers", &format!("{more} over the limit are ignored"));
            }
            found
        })
    }

    fn buffer_of(&self, addr: Addr) -> Option<OwnedBuffer> {
        buffers::buffer_of(self.objects()?, self.buffers(), addr)
    }

    fn anatomy(&self) -> Option<&dyn Anatomy> {
        Some(self)
    }

    fn collector_off(&self) -> Option<&'static str> {
        match self.collectors_off() {
            0 => None,
            off if off == self.runtime.interpreters.len() => Some("the cyclic garbage collector is off (gc.disable())"),
            _ => Some("the cyclic garbage collector of some interpreters is off (gc.disable())"),
        }
    }

    fn frees_at_once(&self) -> bool {
        true
    }

    fn listed_methods(&self) -> Option<&dyn ListedMethods> {
        Some(self)
    }

    fn small_blocks(&self) -> Option<&dyn SmallBlocks> {
        Some(self)
    }

    fn findings(&self) -> Option<&dyn RuntimeFindings> {
        Some(self)
    }

    fn named_statics(&self) -> NamedStatics {
        self.all_globals()
    }

    fn type_role(&self, kind: TypeIndex) -> TypeRole {
        self.role_of_type(kind)
    }

    fn named_by(&self, entry: Addr) -> Option<Addr> {
        self.is_thread_local(entry).then_some(entry)
    }

    fn limit_of(&self, collection: Addr) -> Option<(&'static str, u64)> {
        self.limit_of_cache(collection)
    }

    fn last_words(&self) -> Option<&dyn LastWords> {
        Some(self)
    }

    fn allocation_traces(&self) -> Option<&AllocationTraces> {
        self.traces.get_or_init(|| self.read_traces()).as_ref()
    }

    fn numbers(&self, wanted: &HashSet<u64>) -> HashMap<u64, Addr> {
        self.objects().map(|heap| heap.numbers(wanted)).unwrap_or_default()
    }

    fn elements_note(&self, kind: TypeIndex, elements: &[Addr]) -> Option<String> {
        self.note_on_tasks(kind, elements).or_else(|| self.note_on_views(kind, elements))
    }

    fn wait_facts(&self) -> Option<&dyn WaitFacts> {
        Some(self)
    }

    fn locks(&self) -> Option<&dyn Locks> {
        Some(self)
    }

    fn async_functions(&self) -> AsyncFunctions<'_> {
        AsyncFunctions::Tasks(self)
    }

    fn roots(&self, _own: RuntimeId, _walk: &mut dyn FnMut(u32) -> Option<StackWalk>) -> Roots {
        roots::roots(self)
    }
}

impl ListedMethods for CPython<'_> {
    fn runs(&self, tid: u32) -> Vec<ManagedRun> {
        self.all_threads().runs(&self.all_code().codes, tid)
    }

    fn run_at(&self, ip: Addr) -> bool {
        self.all_code().evaluates_at(ip)
    }
}

impl SmallBlocks for CPython<'_> {
    fn sums(&self) -> Option<&SmallBlockSums> {
        // Without arenas, don't read the heap.
        if self.arenas().iter().all(|arenas| arenas.all.is_empty()) {
            return None;
        }
        self.objects()?.small_blocks()
    }

    fn survivors(&self) -> Vec<Survivors> {
        let sums = self.sums();
        self.objects().zip(sums).map(|(heap, sums)| self.survivors_in(heap, sums)).unwrap_or_default()
    }

    fn block_at(&self, addr: Addr) -> Option<SmallBlock> {
        self.objects()?.small_block(addr)
    }
}

impl RuntimeFindings for CPython<'_> {
    fn walks(&self) -> bool {
        true
    }

    fn find(&self, used: &KindBytes, retained: Option<&dyn RetainedSizes>) -> Vec<Finding> {
        findings::findings(self, used, retained)
    }
}

impl Locks for CPython<'_> {
    fn wait(&self, thread: &ManagedThread, _frames: &[StackFrame]) -> Option<WaitRow> {
        self.wait_of(thread)
    }
}

impl AsyncTasks for CPython<'_> {
    fn each(&self, visit: &mut dyn FnMut(AsyncTask)) {
        self.each_task(visit);
    }
}
