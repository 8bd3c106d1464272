//! One CoreCLR of a process, with what was read of it so far.

use std::sync::{Arc, OnceLock};

use crate::dotnet::claim::read_heaps;
use crate::dotnet::gc::{self, handles};
use crate::dotnet::heap::Heap;
use crate::dotnet::{Detection, Handle, Heaps, Methods, Runtime, StackRefs, TypeSystem, detect};
use crate::managed::Roots;
use crate::map::Claims;
use crate::process::Process;

/// One CoreCLR of a process. Each part is read when it is first asked for, and kept: its
/// heaps, types, threads, handles, code.
pub struct CoreClr<'p> {
    process: &'p Process,
    runtime: Arc<Runtime>,
    heaps: OnceLock<(Heaps, Claims)>,
    types: OnceLock<Arc<TypeSystem<'p>>>,
    methods: OnceLock<Arc<Methods<'p>>>,
    heap: OnceLock<Heap<'p>>,
    told: OnceLock<()>,
}

impl<'p> CoreClr<'p> {
    /// All that can be read; of others is told why not.
    pub fn find(process: &'p Process) -> Vec<CoreClr<'p>> {
        let found = detect(process).into_iter().filter_map(|detection| match detection {
            Detection::NotMine => None,
            Detection::Unusable(why) => {
                process.diag.partial("dotnet-unusable", why);
                None
            }
            Detection::Found(runtime) => Some(CoreClr::new(process, *runtime)),
        });
        found.collect()
    }

    fn new(process: &'p Process, runtime: Runtime) -> CoreClr<'p> {
        CoreClr {
            process,
            runtime: Arc::new(runtime),
            heaps: OnceLock::new(),
            types: OnceLock::new(),
            methods: OnceLock::new(),
            heap: OnceLock::new(),
            told: OnceLock::new(),
        }
    }

    /// What it is, and where its globals are.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// `.NET 8.0.33`
    pub fn label(&self) -> String {
        self.runtime.name()
    }

    /// What its GC, its loader and its code manager say of their memory.
    pub fn heaps(&self) -> &Heaps {
        &self.read().0
    }

    /// The same, if it was read already.
    pub fn heaps_if_read(&self) -> Option<&Heaps> {
        self.heaps.get().map(|(heaps, _)| heaps)
    }

    fn read(&self) -> &(Heaps, Claims) {
        self.heaps.get_or_init(|| read_heaps(self.process, &self.runtime))
    }

    /// Claim its memory.
    pub fn claim(&self, claims: &mut Claims) {
        self.read().1.iter().for_each(|claim| claims.add(claim.clone()));
    }

    /// Its modules, types and method descriptors.
    pub fn types(&self) -> &Arc<TypeSystem<'p>> {
        self.types.get_or_init(|| Arc::new(TypeSystem::new(self.process, self.runtime.clone())))
    }

    /// Its code.
    pub fn methods(&self) -> &Arc<Methods<'p>> {
        self.methods.get_or_init(|| Arc::new(Methods::new(self.types().clone())))
    }

    /// Its objects; `None` where no segment of its GC is known.
    pub fn heap(&self) -> Option<&Heap<'p>> {
        let heaps = self.heaps();
        (!heaps.segments.is_empty()).then(|| self.objects())
    }

    /// Its objects, also where there is no segment that could hold any.
    pub fn objects(&self) -> &Heap<'p> {
        self.heap.get_or_init(|| Heap::open(self.types().clone(), self.heaps()))
    }

    /// Its handles, by address. What is wrong with their table is told once.
    pub fn handles(&self) -> &[Handle] {
        let (handles, notes) = handles(self.process, &self.runtime);
        self.told.get_or_init(|| self.tell("handle table", notes));
        handles
    }

    /// What keeps its objects; `stacks`: what its threads hold.
    pub fn roots(&self, stacks: &[StackRefs]) -> Roots {
        self.handles();
        let roots = gc::roots(self.objects(), self.heaps(), stacks);
        self.tell("roots", &roots.notes);
        roots
    }

    /// Tell what makes answers less than whole.
    pub fn tell<'n>(&self, what: &str, notes: impl IntoIterator<Item = &'n String>) {
        for note in notes {
            self.process.diag.partial("heap", format!("{}: {what}: {note}", self.runtime.name()));
        }
    }
}
