//! One NativeAOT runtime of a process, read on demand.

use std::sync::{Arc, OnceLock};

use crate::addr::Addr;
use crate::bytes::printable;
use crate::diag::{WarningCode, was_read};
use crate::facts::{ObjectReport, RuntimeRow, ThreadRow, ThrownRow};
use crate::map::{Claims, Kind};
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::anatomy::Anatomy;
use crate::runtimes::api::{
    self, AsyncFunctions, ClrGc, ClrHeaps, EventSession, FinalizeQueue, Handle, ManagedCode, ManagedRuntime,
    ManagedThread, ManagedThreads, Roots, RuntimeId, StackWalk, Structure,
};
use crate::runtimes::clr_gc::{self, GcHeap, finalizers, handle_at};
use crate::runtimes::nativeaot::claim::Heaps;
use crate::runtimes::nativeaot::code::NoCode;
use crate::runtimes::nativeaot::heap::Heap;
use crate::runtimes::nativeaot::naming::Names;
use crate::runtimes::nativeaot::runtime::{Detection, Runtime, detect};
use crate::runtimes::nativeaot::threads::Threads;
use crate::runtimes::nativeaot::{object, roots};
use crate::words::GcMode;

/// One NativeAOT runtime. Each part is read on first use and stored.
pub struct NativeAot<'p> {
    runtime: Arc<Runtime<'p>>,
    names: Arc<Names<'p>>,
    heaps: OnceLock<Heaps>,
    /// Handles by address, and whether some could not be read.
    handles: OnceLock<(Vec<Handle>, bool)>,
    heap: OnceLock<Heap<'p>>,
    threads: OnceLock<Threads>,
}

impl<'p> NativeAot<'p> {
    /// Finds all runtimes that can be read. A warning says why another cannot.
    pub fn find(process: &'p Process) -> Vec<NativeAot<'p>> {
        let found = detect(process).into_iter().filter_map(|detection| match detection {
            Detection::Unusable(why) => {
                process.diag.add(why);
                None
            }
            Detection::Found(runtime) => {
                let runtime = Arc::new(*runtime);
                Some(NativeAot {
                    names: Arc::new(Names::new(runtime.clone())),
                    runtime,
                    heaps: OnceLock::new(),
                    handles: OnceLock::new(),
                    heap: OnceLock::new(),
                    threads: OnceLock::new(),
                })
            }
        });
        found.collect()
    }

    /// The runtime's module, layout and globals.
    pub fn runtime(&self) -> &Arc<Runtime<'p>> {
        &self.runtime
    }

    fn heaps(&self) -> &Heaps {
        self.heaps.get_or_init(|| {
            was_read("heaps");
            let heaps = Heaps::read(&self.runtime);
            heaps.notes.iter().for_each(|note| self.warn(note));
            heaps
        })
    }

    /// Segments and regions of the GC.
    fn gc(&self) -> &GcHeap {
        &self.heaps().gc
    }

    /// Handles by address.
    pub fn handles(&self) -> &[Handle] {
        &self.all_handles().0
    }

    fn all_handles(&self) -> &(Vec<Handle>, bool) {
        self.handles.get_or_init(|| {
            let segments = &self.heaps().handles;
            let (handles, notes) = clr_gc::handles_in(self.runtime.process, self.runtime.gc(), segments);
            // A broken list of segments was reported when the segments were read.
            let segments_note = segments.1.as_ref().map(ToString::to_string);
            notes.iter().filter(|note| Some(*note) != segments_note.as_ref()).for_each(|note| self.warn(note));
            (handles, !notes.is_empty())
        })
    }

    /// The heap of objects. `None` if no GC segment is known.
    pub fn objects(&self) -> Option<&Heap<'p>> {
        let heaps = self.heaps();
        if heaps.gc.segments.is_empty() {
            return None;
        }
        Some(self.heap.get_or_init(|| {
            was_read("objects");
            let (threads, handles) = (self.all_threads(), self.handles());
            let _phase = self.runtime.process.enter(Phase::Objects);
            Heap::open(self.names.clone(), &heaps.gc, &threads.all, handles)
        }))
    }

    fn all_threads(&self) -> &Threads {
        self.threads.get_or_init(|| {
            was_read("marks of threads");
            Threads::read(&self.runtime)
        })
    }

    /// Warns that answers are incomplete.
    fn warn(&self, note: &str) {
        self.runtime.process.diag.partial(WarningCode::Nativeaot, format!("{}: {note}", self.runtime.name()));
    }
}

impl ManagedRuntime for NativeAot<'_> {
    fn row(&self) -> RuntimeRow {
        let heaps = self.heaps.get().filter(|heaps| !heaps.gc.segments.is_empty());
        let said = self.runtime.version.as_deref().map(|version| (version, "its descriptor"));
        let (version, from) = match (said.or_else(|| self.names.version()), self.runtime.release) {
            (Some((version, from)), _) => (Some(version.to_owned()), format!("; version from {from}")),
            (None, Some(release)) => {
                (Some(release.to_owned()), "; version from the form of its description".to_owned())
            }
            (None, None) => (None, String::new()),
        };
        RuntimeRow {
            name: "NativeAOT".into(),
            version,
            module: printable(&self.runtime.path).into_owned(),
            base: self.runtime.range.start,
            gc: heaps.map(|heaps| if heaps.gc.server { "server" } else { "workstation" }),
            layout_source: format!("{}{from}", self.runtime.source),
        }
    }

    fn label(&self) -> String {
        self.runtime.name()
    }

    fn claim(&self, claims: &mut Claims) {
        self.heaps().claim(&self.runtime, claims);
    }

    /// Tasks are ordinary objects. The method that waits in one is in no metadata of a core.
    fn async_functions(&self) -> AsyncFunctions<'_> {
        AsyncFunctions::Unread
    }

    fn heap(&self) -> Option<&dyn api::Heap> {
        self.objects().map(|heap| heap as &dyn api::Heap)
    }

    fn code(&self) -> &dyn ManagedCode {
        &NoCode
    }

    fn threads(&self) -> &ManagedThreads {
        &self.all_threads().managed
    }

    fn roots(&self, _own: RuntimeId, _walk: &mut dyn FnMut(u32) -> Option<StackWalk>) -> Roots {
        let Some(heap) = self.objects() else { return Roots::default() };
        let (handles, broken) = self.all_handles();
        let roots = roots::roots(heap, self.heaps(), (handles, *broken), self.all_threads());
        roots.notes.iter().for_each(|note| self.warn(note));
        roots
    }

    fn anatomy(&self) -> Option<&dyn Anatomy> {
        Some(self)
    }

    fn clr_gc(&self) -> Option<&dyn ClrGc> {
        Some(self)
    }

    fn event_sessions(&self) -> &[EventSession] {
        &self.heaps().events
    }

    fn object(&self, addr: Addr) -> Option<ObjectReport> {
        object::object(self, addr)
    }

    fn structure(&self, addr: Addr, kind: Kind) -> Option<Structure> {
        if kind == Kind::HandleTable {
            return handle_at(NativeAot::handles(self), addr);
        }
        // Types are in the program file.
        if kind != Kind::Image {
            return None;
        }
        let name = self.names.known(addr)?;
        let module = crate::image::file_name(&self.runtime.path).to_owned();
        Some(Structure::Descriptor { kind: "MethodTable", name, module })
    }

    fn describe(&self, thread: &ManagedThread, row: &mut ThreadRow) {
        let threads = self.all_threads();
        let Some(known) = threads.by_address.get(&thread.address).and_then(|&i| threads.all.get(i)) else { return };
        row.gc_mode = known.cooperative.map(|yes| if yes { GcMode::Cooperative } else { GcMode::Preemptive });
        row.exception = known.exception.and_then(|object| {
            let heap = self.objects()?;
            let (name, _) = api::ObjectNames::new(heap).object(object)?;
            Some(ThrownRow { r#type: name.to_string(), address: object, message: None })
        });
    }
}

impl ClrGc for NativeAot<'_> {
    fn heaps(&self) -> ClrHeaps<'_> {
        let gc = self.gc();
        let GcHeap { segments, server, regions, in_gc, .. } = gc;
        ClrHeaps { segments, free: gc.free_bytes(), server: *server, regions: *regions, in_gc: *in_gc }
    }

    fn objects(&self) -> Option<&dyn api::Heap> {
        self.heap()
    }

    fn handles(&self) -> &[Handle] {
        NativeAot::handles(self)
    }

    fn finalizers(&self) -> Vec<FinalizeQueue> {
        let gc = self.gc();
        let (queues, notes) = finalizers::read(self.runtime.gc(), gc.server, &gc.segments);
        notes.iter().for_each(|note| self.warn(note));
        queues
    }
}
