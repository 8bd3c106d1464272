//! A HotSpot VM of a process, with its parts that were read so far.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use crate::addr::{Addr, AddrRange};
use crate::bytes::printable;
use crate::diag::{Warning, WarningCode, was_read};
use crate::facts::{Finding, FrameRow, ObjectReport, RuntimeRow, ThreadRow, WaitRow};
use crate::image::modules::file_name;
use crate::map::{Claims, Confidence};
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::anatomy::Anatomy;
use crate::runtimes::api::fields::Fields;
use crate::runtimes::api::{
    self, AsyncFunctions, BlockLabels, KindBytes, LastWords, LightThread, ManagedCode, ManagedRuntime, ManagedThread,
    ManagedThreads, NamedStatics, OwnedBuffer, RetainedSizes, Roots, RuntimeFindings, RuntimeId, StackFrame, StackWalk,
    TypeIndex, TypeRole, WaitFacts,
};
use crate::runtimes::hotspot::classes::Classes;
use crate::runtimes::hotspot::code::Code;
use crate::runtimes::hotspot::heap::{Collector, Heap, Spaces};
use crate::runtimes::hotspot::threads::{Carried, JavaThread, Locks, Threads, java_threads};
use crate::runtimes::hotspot::vm::{Detection, LIBJVM, Vm, VmError, detect};
use crate::runtimes::hotspot::{Nmt, buffers, claim, findings, object, roots, threads};
use crate::units::round;

/// A HotSpot VM. Each part is read on first use and cached.
pub struct HotSpot<'p> {
    vm: Arc<Vm<'p>>,
    classes: Arc<Classes<'p>>,
    spaces: OnceLock<Option<Spaces>>,
    /// Java threads, and whether all were read.
    java_threads: OnceLock<(Vec<JavaThread>, bool)>,
    heap: OnceLock<Option<Heap<'p>>>,
    code: OnceLock<Code<'p>>,
    pub(super) threads: OnceLock<Threads>,
    pub(super) locks: OnceLock<Locks>,
    buffers: OnceLock<Vec<OwnedBuffer>>,
    nmt: OnceLock<Option<Nmt<'p>>>,
    own_structures: OnceLock<HashSet<Addr>>,
    pub(super) carried: OnceLock<Carried>,
}

impl<'p> HotSpot<'p> {
    /// Finds the VMs of a process that can be read. Adds a warning for each other VM.
    pub fn find(process: &'p Process) -> Vec<HotSpot<'p>> {
        let mut out = Vec::new();
        for found in detect(process) {
            match found {
                Detection::Unusable(why) => process.diag.add(why),
                Detection::Found(vm) => match HotSpot::new(Arc::new(*vm)) {
                    Ok(found) => out.push(found),
                    Err((vm, e)) => {
                        let (code, message) = (WarningCode::HotspotUnusable, format!("{}: {e}", vm.name()));
                        process.diag.add(Warning { code, message, is_partial: e.is_damage() });
                    }
                },
            }
        }
        out
    }

    fn new(vm: Arc<Vm<'p>>) -> Result<HotSpot<'p>, (Arc<Vm<'p>>, VmError)> {
        let classes = Classes::new(vm.clone()).map_err(|e| (vm.clone(), e))?;
        let (spaces, java_threads, heap, code, threads, locks) = Default::default();
        let (buffers, nmt, own_structures, carried) = Default::default();
        let classes = Arc::new(classes);
        Ok(HotSpot {
            vm,
            classes,
            spaces,
            java_threads,
            heap,
            code,
            threads,
            locks,
            buffers,
            nmt,
            own_structures,
            carried,
        })
    }

    /// Returns the VM and its tables.
    pub fn vm(&self) -> &Arc<Vm<'p>> {
        &self.vm
    }

    /// Returns its classes.
    pub fn classes(&self) -> &Arc<Classes<'p>> {
        &self.classes
    }

    /// Returns the spaces of its heap. `None` if they cannot be read.
    pub fn spaces(&self) -> Option<&Spaces> {
        let read = || {
            was_read("heaps");
            let _phase = self.vm.process.enter(Phase::GcHeap);
            Spaces::read(&self.classes).map_err(|e| self.warn_partial("heap", &e.to_string())).ok()
        };
        self.spaces.get_or_init(read).as_ref()
    }

    /// Returns its Java threads.
    pub fn java_threads(&self) -> &[JavaThread] {
        &self.thread_list().0
    }

    /// Whether all Java threads were read.
    pub(super) fn has_all_java_threads(&self) -> bool {
        self.thread_list().1
    }

    fn thread_list(&self) -> &(Vec<JavaThread>, bool) {
        self.java_threads.get_or_init(|| {
            let _phase = self.vm.process.enter(Phase::ManagedThreads);
            let mut notes = Vec::new();
            let found = java_threads(&self.vm, &mut notes);
            notes.extend(found.as_ref().err().map(ToString::to_string));
            notes.iter().for_each(|note| self.warn_partial("threads", note));
            (found.unwrap_or_default(), notes.is_empty())
        })
    }

    /// Returns its heap. `None` if the spaces cannot be read or are empty.
    pub fn objects(&self) -> Option<&Heap<'p>> {
        let open = || {
            let spaces = self.spaces().filter(|spaces| !spaces.all.is_empty())?;
            was_read("objects");
            let _phase = self.vm.process.enter(Phase::Objects);
            Some(Heap::open(self.classes.clone(), spaces, self.java_threads()))
        };
        self.heap.get_or_init(open).as_ref()
    }

    /// Returns its generated code.
    pub fn all_code(&self) -> &Code<'p> {
        self.code.get_or_init(|| {
            was_read("code");
            Code::new(self.classes.clone())
        })
    }

    /// Warns about something that makes reports incomplete.
    pub(super) fn warn_partial(&self, what: &str, note: &str) {
        self.vm.process.diag.partial(WarningCode::Hotspot, format!("{}: {what}: {note}", self.vm.name()));
    }
}

impl ManagedRuntime for HotSpot<'_> {
    fn row(&self) -> RuntimeRow {
        let spaces = self.spaces.get().and_then(Option::as_ref);
        RuntimeRow {
            name: "HotSpot".into(),
            version: Some(printable(&self.vm.version).into_owned()),
            module: printable(&self.vm.path).into_owned(),
            base: self.vm.range.start,
            gc: spaces.map(|spaces| spaces.collector.name()),
            layout_source: "the VM's own vmStructs".to_owned(),
        }
    }

    fn label(&self) -> String {
        self.vm.name()
    }

    fn claim(&self, claims: &mut Claims) {
        claim::claim(self, claims);
        threads::claim(self, claims);
    }

    fn heap(&self) -> Option<&dyn api::Heap> {
        self.objects().map(|heap| heap as &dyn api::Heap)
    }

    fn is_own_structure(&self, at: Addr) -> bool {
        // A thread points at its JavaThread, a class loader at its ClassLoaderData.
        let threads = || self.java_threads().iter().map(|thread| thread.address);
        let read = || threads().chain(self.classes.loaders().iter().map(|loader| loader.data)).collect();
        self.own_structures.get_or_init(read).contains(&at)
    }

    fn image(&self) -> Option<AddrRange> {
        (file_name(&self.vm.path) == LIBJVM).then_some(self.vm.range)
    }

    fn code(&self) -> &dyn ManagedCode {
        self.all_code()
    }

    fn buffers(&self) -> &[OwnedBuffer] {
        self.buffers.get_or_init(|| {
            let Some(heap) = self.objects() else { return Vec::new() };
            let _phase = self.vm.process.enter(Phase::Objects);
            let (found, more) = buffers::buffers(&self.classes, heap);
            if more > 0 {
                self.warn_partial("buffers", &format!("{more} objects over the limit are ignored"));
            }
            found
        })
    }

    fn anatomy(&self) -> Option<&dyn Anatomy> {
        Some(self)
    }

    fn fields(&self) -> Option<&dyn Fields> {
        Some(self)
    }

    fn collector_off(&self) -> Option<&'static str> {
        let never = self.spaces().is_some_and(|spaces| spaces.collector == Collector::Epsilon);
        never.then_some("the Epsilon collector frees nothing")
    }

    fn block_labels(&self) -> Option<&dyn BlockLabels> {
        self.nmt.get_or_init(|| Nmt::find(&self.vm)).as_ref().map(|nmt| nmt as &dyn BlockLabels)
    }

    fn threads(&self) -> &ManagedThreads {
        &self.all_threads().managed
    }

    fn describe(&self, thread: &ManagedThread, row: &mut ThreadRow) {
        self.all_threads().describe(&self.classes, thread, row);
        row.holds = self.locks().held(&self.classes, thread.address);
    }

    fn role(
        &self,
        thread: Option<&ManagedThread>,
        _row: &ThreadRow,
        frames: &[FrameRow],
    ) -> Option<(&'static str, Confidence)> {
        self.role_of(thread?, frames)
    }

    fn each_light_thread(&self, visit: &mut dyn FnMut(LightThread)) {
        self.each_virtual_thread(visit);
    }

    /// Java has virtual threads instead of async methods. What waits for a CompletableFuture is not read.
    fn async_functions(&self) -> AsyncFunctions<'_> {
        AsyncFunctions::Unread
    }

    fn object(&self, addr: Addr) -> Option<ObjectReport> {
        object::object(self, addr)
    }

    fn findings(&self) -> Option<&dyn RuntimeFindings> {
        Some(self)
    }

    fn named_statics(&self) -> NamedStatics {
        self.all_statics()
    }

    fn type_role(&self, kind: TypeIndex) -> TypeRole {
        self.role_of_class(kind)
    }

    fn named_by(&self, entry: Addr) -> Option<Addr> {
        self.thread_local_of(entry)
    }

    fn collection_note(&self, collection: Addr) -> Option<String> {
        self.note_on_keys(collection)
    }

    fn thread_local_values(&self) -> HashSet<Addr> {
        self.values_of_threads()
    }

    fn elements_note(&self, kind: TypeIndex, elements: &[Addr]) -> Option<String> {
        self.note_on(kind, elements)
    }

    fn clears_objects(&self) -> bool {
        true
    }

    fn heap_setting(&self) -> Option<String> {
        let least = ["InitialHeapSize", "MinHeapSize"].iter().filter_map(|flag| self.vm.int_flag(flag)).max()?;
        (least > 0).then(|| format!("InitialHeapSize (-Xms) {} keeps it committed", round(least)))
    }

    fn last_words(&self) -> Option<&dyn LastWords> {
        Some(self)
    }

    fn wait_facts(&self) -> Option<&dyn WaitFacts> {
        Some(self)
    }

    fn locks(&self) -> Option<&dyn api::Locks> {
        Some(self)
    }

    fn roots(&self, _own: RuntimeId, _walk: &mut dyn FnMut(u32) -> Option<StackWalk>) -> Roots {
        roots::roots(self)
    }
}

impl RuntimeFindings for HotSpot<'_> {
    fn find(&self, used: &KindBytes, _retained: Option<&dyn RetainedSizes>) -> Vec<Finding> {
        findings::findings(self, used)
    }
}

impl api::Locks for HotSpot<'_> {
    fn wait(&self, thread: &ManagedThread, _frames: &[StackFrame]) -> Option<WaitRow> {
        self.locks().wait(thread.address)
    }
}
