//! One Go runtime of a process, read on demand.

use std::sync::{Arc, OnceLock};

use crate::addr::Addr;
use crate::bytes::printable;
use crate::diag::{WarningCode, was_read};
use crate::facts::RuntimeRow;
use crate::map::Claims;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::{
    self, AllocationProfile, LastWords, LightThread, ManagedCode, ManagedRuntime, ManagedThread, ManagedThreads,
    NamedStatics, Roots, RuntimeFindings, RuntimeId, StackWalk, TypeIndex, TypeRole, WaitFacts,
};
use crate::runtimes::go::claim;
use crate::runtimes::go::code::Code;
use crate::runtimes::go::goroutines::{self, List};
use crate::runtimes::go::heap::{Figures, GoHeap, profile};
use crate::runtimes::go::runtime::{Detection, Runtime, detect};
use crate::runtimes::go::types::Types;
use crate::runtimes::go::{roles, roots, views};
use crate::units::count;

/// A Go runtime. Each part is read on first use and stored.
pub struct Go<'p> {
    runtime: Arc<Runtime<'p>>,
    code: OnceLock<Code<'p>>,
    threads: OnceLock<ManagedThreads>,
    goroutines: Arc<OnceLock<List>>,
    figures: OnceLock<Figures>,
    profile: OnceLock<Option<AllocationProfile>>,
    types: OnceLock<Types<'p>>,
    heap: OnceLock<GoHeap<'p>>,
}

impl<'p> Go<'p> {
    /// Finds all Go runtimes that can be read. For each other one, adds a diagnostic that says why.
    pub fn find(process: &'p Process) -> Vec<Go<'p>> {
        let mut out = Vec::new();
        for found in detect(process) {
            match found {
                Detection::Unusable(why) => process.diag.add(why),
                Detection::Found(runtime) => {
                    let (code, threads, figures, profile, types, heap) = Default::default();
                    let goroutines = Arc::default();
                    out.push(Go {
                        runtime: Arc::new(*runtime),
                        code,
                        threads,
                        goroutines,
                        figures,
                        profile,
                        types,
                        heap,
                    });
                }
            }
        }
        out
    }

    pub(super) fn all_code(&self) -> &Code<'p> {
        self.code.get_or_init(|| {
            was_read("functions");
            let code = Code::new(self.runtime.clone(), self.goroutines.clone());
            if code.functions().is_none() {
                let why = format!(
                    "{}: {}: its functions have no names and its stacks are not unwound, because their tables are not in the \
                     core. Give the folder of the program's file with --symbols DIR",
                    self.runtime.path,
                    self.runtime.name()
                );
                self.runtime.process.diag.note(WarningCode::Go, why);
            }
            code
        })
    }

    /// Figures of the collector.
    pub(super) fn figures(&self) -> &Figures {
        self.figures.get_or_init(|| {
            was_read("figures of the collector");
            let _phase = self.runtime.process.enter(Phase::GcHeap);
            let figures = Figures::read(&self.runtime);
            if figures.unread > 0 {
                self.warn(&format!("the bits of {} are not in the core", count(figures.unread, "span")));
            }
            figures
        })
    }

    /// The heap of objects.
    pub(super) fn objects(&self) -> Option<&GoHeap<'p>> {
        Some(self.heap.get_or_init(|| {
            was_read("objects");
            let (code, list) = (self.all_code(), self.list());
            let _phase = self.runtime.process.enter(Phase::Objects);
            GoHeap::open(self.runtime.clone(), code, list)
        }))
    }

    /// Path of the program's own module.
    fn module(&self) -> Option<&str> {
        self.runtime.build.module.as_deref()
    }

    /// Types of the program.
    pub(super) fn types(&self) -> &Types<'p> {
        self.types.get_or_init(|| Types::new(&self.runtime))
    }

    pub(super) fn runtime(&self) -> &Runtime<'p> {
        &self.runtime
    }

    /// Goroutines and threads.
    pub(super) fn list(&self) -> &List {
        self.goroutines.get_or_init(|| List::read(&self.runtime))
    }

    /// Adds a diagnostic that something could not be read completely.
    pub(super) fn warn(&self, note: &str) {
        self.runtime.process.diag.partial(WarningCode::Go, format!("{}: {note}", self.runtime.name()));
    }
}

impl ManagedRuntime for Go<'_> {
    fn row(&self) -> RuntimeRow {
        RuntimeRow {
            name: "Go".into(),
            version: self.runtime.version().map(str::to_owned),
            module: printable(&self.runtime.path).into_owned(),
            base: self.runtime.range.start,
            gc: None,
            layout_source: self.runtime.source(),
        }
    }

    fn label(&self) -> String {
        self.runtime.name()
    }

    fn claim(&self, claims: &mut Claims) {
        claim::claim(&self.runtime, self.list(), claims);
    }

    fn collector_figures(&self) -> Vec<(&'static str, u64)> {
        self.figures().all.clone()
    }

    fn allocation_profile(&self) -> Option<&AllocationProfile> {
        let first = self.runtime.proof.globals.mbuckets?;
        let read = || {
            was_read("heap profile");
            let _phase = self.runtime.process.enter(Phase::Objects);
            let profile = profile::read(&self.runtime, self.all_code(), first);
            profile.broken.iter().for_each(|note| self.warn(note));
            Some(profile)
        };
        self.profile.get_or_init(read).as_ref()
    }

    fn heap(&self) -> Option<&dyn api::Heap> {
        self.objects().map(|heap| heap as &dyn api::Heap)
    }

    fn named_statics(&self) -> NamedStatics {
        roots::named(self)
    }

    fn type_role(&self, kind: TypeIndex) -> TypeRole {
        self.objects().map_or(TypeRole::Program, |heap| roles::role(&api::Heap::type_name(heap, kind), self.module()))
    }

    fn elements_note(&self, _kind: TypeIndex, elements: &[Addr]) -> Option<String> {
        views::note(self, elements)
    }

    fn collection_note(&self, collection: Addr) -> Option<String> {
        views::note(self, &[collection])
    }

    fn code(&self) -> &dyn ManagedCode {
        self.all_code()
    }

    fn threads(&self) -> &ManagedThreads {
        self.threads.get_or_init(|| {
            let mut out = ManagedThreads::default();
            for m in self.list().threads.iter().filter(|m| m.tid != 0) {
                let known = ManagedThread { address: m.at, id: u32::try_from(m.id).ok(), marks: Vec::new() };
                out.by_tid.entry(m.tid).or_default().push(known);
            }
            let note = self.list().broken.iter();
            out.notes.extend(note.map(|note| (WarningCode::Go, format!("{}: {note}", self.runtime.name()))));
            out
        })
    }

    fn each_light_thread(&self, visit: &mut dyn FnMut(LightThread)) {
        let process = self.runtime.process;
        let (list, code) = (self.list(), self.all_code());
        let _phase = process.enter(Phase::Frames);
        goroutines::each(&self.runtime, self.types(), code, list, visit);
        if list.unread > 0 {
            self.warn(&format!("{} could not be read", count(list.unread, "goroutine")));
        }
    }

    fn wait_facts(&self) -> Option<&dyn WaitFacts> {
        Some(self)
    }

    fn last_words(&self) -> Option<&dyn LastWords> {
        Some(self)
    }

    fn findings(&self) -> Option<&dyn RuntimeFindings> {
        Some(self)
    }

    fn clears_objects(&self) -> bool {
        true
    }

    fn collector_off(&self) -> Option<&'static str> {
        let figures = self.figures();
        let off = figures.percent.is_some_and(|percent| percent < 0) && figures.limit.is_none();
        off.then_some("the collector is off (GOGC=off) and there is no memory limit")
    }

    fn light_thread_word(&self) -> &'static str {
        "goroutine"
    }

    fn roots(&self, _own: RuntimeId, _walk: &mut dyn FnMut(u32) -> Option<StackWalk>) -> Roots {
        let _phase = self.runtime.process.enter(Phase::References);
        roots::roots(self)
    }
}
