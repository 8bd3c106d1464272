//! One V8 of a process. Its parts are read on demand.

use std::sync::{Arc, OnceLock};

use crate::addr::{Addr, AddrRange};
use crate::bytes::printable;
use crate::diag::was_read;
use crate::facts::{Finding, RuntimeRow, ThreadRow};
use crate::map::Claims;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::{
    self, IsolateSizes, IsolateSpace, KindBytes, LastWords, ManagedCode, ManagedRuntime, ManagedThread, ManagedThreads,
    NamedStatics, OwnedBuffer, RetainedSizes, Roots, RuntimeFindings, RuntimeId, StackWalk, TypeIndex, TypeRole,
    WaitFacts,
};
use crate::runtimes::v8::census::{self, Census, Pending, Served};
use crate::runtimes::v8::detect::{Detection, detect};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::stack::{Code, Stacks, builtins, marks};
use crate::runtimes::v8::vm::Vm;
use crate::runtimes::v8::{buffers, claim, roots};

/// Parts of a V8, each read on first use.
pub(super) struct Parts<'p> {
    pub vm: Arc<Vm<'p>>,
    heap: OnceLock<Arc<Heap<'p>>>,
    stacks: OnceLock<Stacks<'p>>,
    builtins: OnceLock<AddrRange>,
}

impl<'p> Parts<'p> {
    /// Its objects.
    pub(super) fn heap(&self) -> &Arc<Heap<'p>> {
        self.heap.get_or_init(|| {
            was_read("objects");
            let _phase = self.vm.process.enter(Phase::Objects);
            Arc::new(Heap::open(self.vm.clone()))
        })
    }

    /// Returns the address range of the builtins: the generated code that is part of the program.
    pub(super) fn builtins(&self) -> AddrRange {
        *self.builtins.get_or_init(|| builtins(&self.vm))
    }

    /// Its JavaScript stacks.
    pub(super) fn stacks(&self) -> &Stacks<'p> {
        self.stacks.get_or_init(|| {
            was_read("marks of threads");
            let heap = self.heap().clone();
            let _phase = self.vm.process.enter(Phase::ManagedThreads);
            Stacks::read(heap, self.builtins())
        })
    }
}

/// A V8.
pub struct V8<'p> {
    parts: Arc<Parts<'p>>,
    code: Code<'p>,
    buffers: OnceLock<Vec<OwnedBuffer>>,
    threads: OnceLock<ManagedThreads>,
    census: OnceLock<Census>,
    pending: OnceLock<Vec<Pending>>,
    served: OnceLock<Served>,
}

impl<'p> V8<'p> {
    /// Finds the V8s of a process that can be read. For each other one, a warning says why not.
    pub fn find(process: &'p Process) -> Vec<V8<'p>> {
        let found = detect(process).into_iter().filter_map(|found| match found {
            Detection::Unusable(why) => {
                process.diag.add(why);
                None
            }
            Detection::Found(vm) => Some(V8::new(*vm)),
        });
        found.collect()
    }

    fn new(vm: Vm<'p>) -> V8<'p> {
        let parts = Arc::new(Parts {
            vm: Arc::new(vm),
            heap: OnceLock::new(),
            stacks: OnceLock::new(),
            builtins: OnceLock::new(),
        });
        let (buffers, threads, census, pending, served) = Default::default();
        V8 { code: Code::new(parts.clone()), parts, buffers, threads, census, pending, served }
    }

    pub(super) fn vm(&self) -> &Vm<'p> {
        &self.parts.vm
    }

    /// Returns the heap after the first walk, whose results all walkers need.
    pub(super) fn objects(&self) -> &Heap<'p> {
        let heap = self.parts.heap();
        heap.survey();
        heap
    }

    /// Objects of Node.js's own classes.
    pub(super) fn census(&self) -> &Census {
        self.census.get_or_init(|| Census::read(self.objects()))
    }

    /// Suspended calls of async functions.
    pub(super) fn pending(&self) -> &[Pending] {
        self.pending.get_or_init(|| census::pending(self.objects(), self.census()))
    }

    /// Returns requests in flight, and the calls and closures that serve them.
    pub(super) fn served(&self) -> &Served {
        self.served.get_or_init(|| self.read_served())
    }
}

impl ManagedRuntime for V8<'_> {
    fn row(&self) -> RuntimeRow {
        let vm = self.vm();
        let [major, minor, build, patch] = vm.version;
        RuntimeRow {
            name: "V8".into(),
            version: Some(format!("{major}.{minor}.{build}.{patch}")),
            module: printable(&vm.path).into_owned(),
            base: vm.range.start,
            gc: None,
            layout_source: format!("V8's own constants (v8dbg), and the form of V8 {}", vm.form.name),
        }
    }

    fn label(&self) -> String {
        self.vm().name()
    }

    fn claim(&self, claims: &mut Claims) {
        let _phase = self.vm().process.enter(Phase::GcHeap);
        claim::claim(self.vm(), claims);
    }

    fn heap(&self) -> Option<&dyn api::Heap> {
        Some(self.objects())
    }

    fn code(&self) -> &dyn ManagedCode {
        &self.code
    }

    fn threads(&self) -> &ManagedThreads {
        self.threads.get_or_init(|| {
            let (vm, stacks) = (self.vm(), self.parts.stacks());
            let mut out = ManagedThreads::default();
            for (id, isolate) in (0..).zip(&vm.isolates) {
                let Some(tid) = isolate.tid else { continue };
                let frames = stacks.by_tid.get(&tid).map(Vec::as_slice).unwrap_or_default();
                let marks = marks(frames, vm.process.arch());
                let thread = ManagedThread { address: isolate.heap, id: Some(id), marks };
                out.by_tid.entry(tid).or_default().push(thread);
            }
            out
        })
    }

    fn describe(&self, thread: &ManagedThread, row: &mut ThreadRow) {
        let isolate = self.vm().isolates.iter().find(|isolate| isolate.heap == thread.address);
        row.managed_name = isolate.map(|isolate| isolate.name.clone());
    }

    fn roots(&self, _own: RuntimeId, _walk: &mut dyn FnMut(u32) -> Option<StackWalk>) -> Roots {
        let _phase = self.vm().process.enter(Phase::References);
        roots::roots(self.objects())
    }

    fn buffers(&self) -> &[OwnedBuffer] {
        self.buffers.get_or_init(|| {
            let heap = self.objects();
            let _phase = self.vm().process.enter(Phase::Objects);
            buffers::buffers(heap)
        })
    }

    fn names_entries(&self, kind: TypeIndex) -> bool {
        self.objects().is_plain_object(kind)
    }

    fn counts_buffers(&self) -> bool {
        true
    }

    fn limit_of(&self, owner: Addr) -> Option<(&'static str, u64)> {
        census::limit_of(self.vm(), owner.get())
    }

    fn elements_note(&self, _kind: TypeIndex, elements: &[Addr]) -> Option<String> {
        buffers::views_note(self.objects(), elements)
    }

    fn collection_note(&self, collection: Addr) -> Option<String> {
        let vm = self.vm();
        let isolate = vm.isolates.get(vm.isolate_of(vm.page_of(collection.get())?.heap)?)?;
        // The isolate's name includes its kind: `worker of thread 12`.
        (isolate.name != "main").then(|| format!("It belongs to the {}.", isolate.name))
    }

    fn findings(&self) -> Option<&dyn RuntimeFindings> {
        Some(self)
    }

    fn wait_facts(&self) -> Option<&dyn WaitFacts> {
        Some(self)
    }

    fn last_words(&self) -> Option<&dyn LastWords> {
        Some(self)
    }

    fn named_statics(&self) -> NamedStatics {
        self.objects().variables()
    }

    fn type_role(&self, kind: TypeIndex) -> TypeRole {
        self.objects().role(kind)
    }

    fn clears_objects(&self) -> bool {
        true
    }

    fn isolates(&self) -> Vec<IsolateSizes> {
        let vm = self.vm();
        let heap = self.objects();
        let reserves = claim::code_reserves(vm);
        let sizes = |(number, isolate): (u32, &super::isolates::Isolate)| {
            let bytes = |space: u8| {
                let pages = vm.pages.iter().filter(|page| page.heap == isolate.heap && page.space == space);
                pages.map(|page| page.range.len()).fold(0, u64::saturating_add)
            };
            let spaces = vm.form.spaces.iter().zip(0..).map(|(name, space)| IsolateSpace { name, size: bytes(space) });
            let (buffers, buffer_bytes) = buffers::stores(heap, isolate.heap);
            let code = reserves.iter().filter(|(i, _)| u32::try_from(*i) == Ok(number));
            IsolateSizes {
                name: isolate.name.clone(),
                address: isolate.heap,
                heap: number,
                tid: isolate.tid,
                spaces: spaces.filter(|space| space.size > 0).collect(),
                buffers,
                buffer_bytes,
                code_reserve: code.map(|(_, range)| range.len()).fold(0, u64::saturating_add),
            }
        };
        (0..).zip(&vm.isolates).map(sizes).collect()
    }
}

impl RuntimeFindings for V8<'_> {
    fn walks(&self) -> bool {
        true
    }

    fn find(&self, _used: &KindBytes, retained: Option<&dyn RetainedSizes>) -> Vec<Finding> {
        let _phase = self.vm().process.enter(Phase::Objects);
        census::findings::all(self.objects(), self.census(), self.pending(), retained)
    }
}
