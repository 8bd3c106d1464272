//! Virtual threads (java.lang.VirtualThread, since JDK 21), mounted ones and those with their stack in the heap.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::bytes::printable;
use crate::memory::Memory;
use crate::phase::Phase;
use crate::runtimes::api::{Heap as _, LightThread, UnwalkedRanges};
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::classes::{Classes, Klass};
use crate::runtimes::hotspot::threads::thread_object::{number, reference};
use crate::runtimes::hotspot::threads::waits::parked;
use crate::runtimes::hotspot::threads::{ThreadObject, chunk};
use crate::units::exact;

const VIRTUAL: &str = "java.lang.VirtualThread";

/// Class of virtual threads on platforms without continuations.
const WITHOUT_CONTINUATIONS: &str = "java.lang.ThreadBuilders$BoundVirtualThread";

/// Constants of that class that are states; it has others too. Their values differ between releases and are read.
const STATES: [&str; 20] = [
    "NEW",
    "STARTED",
    "RUNNABLE",
    "RUNNING",
    "PARKING",
    "PARKED",
    "PINNED",
    "YIELDING",
    "YIELDED",
    "UNPARKED",
    "TIMED_PARKING",
    "TIMED_PARKED",
    "TIMED_PINNED",
    "BLOCKING",
    "BLOCKED",
    "UNBLOCKED",
    "WAITING",
    "WAIT",
    "TIMED_WAITING",
    "TIMED_WAIT",
];
const TERMINATED: &str = "TERMINATED";

/// The bit that is set beside a state while a debugger suspends the thread (`VirtualThread.SUSPENDED`).
const SUSPENDED: u32 = 1 << 8;

impl Classes<'_> {
    /// Whether the thread at `object` is a virtual thread.
    pub(super) fn is_virtual_thread(&self, object: Addr) -> bool {
        self.class_of(object).is_some_and(|class| class.name == VIRTUAL || class.name == WITHOUT_CONTINUATIONS)
    }
}

impl HotSpot<'_> {
    /// Visits all virtual threads that have started and not ended, by address.
    pub(in crate::runtimes::hotspot) fn each_virtual_thread(&self, visit: &mut dyn FnMut(LightThread)) {
        let Some(heap) = self.objects() else { return };
        // Read the platform threads first, so that their reads are not part of this.
        self.all_threads();
        let _phase = self.vm().process.enter(Phase::ManagedThreads);
        let (mut walker, mut losses) = (heap.walker(), UnwalkedRanges::default());
        let mut kinds: HashMap<_, bool> = HashMap::new();
        let mut found = Vec::new();
        for part in heap.ranges() {
            walker.walk(part, &mut losses, &mut |object| {
                let is = kinds.entry(object.kind).or_insert_with(|| heap.type_name(object.kind) == VIRTUAL);
                if *is {
                    found.push(object.addr);
                }
            });
        }
        if losses.bytes > 0 {
            self.warn_partial(
                "virtual threads",
                &format!("{} bytes of the heap could not be walked", exact(losses.bytes)),
            );
        }
        let Some(class) = found.first().and_then(|&first| self.classes().class_of(first)) else { return };
        let states = states(self.classes(), &class);
        for object in found {
            if let Some(thread) = self.virtual_thread(&class, &states, object) {
                visit(thread);
            }
        }
    }

    fn virtual_thread(&self, class: &Klass, states: &HashMap<u32, &'static str>, object: Addr) -> Option<LightThread> {
        let (classes, threads) = (self.classes(), self.all_threads());
        let state = number(classes, class, object, "state").map(|state| state & !SUSPENDED);
        let state = state.and_then(|state| states.get(&state).copied());
        if state == Some(TERMINATED) || state == Some("NEW") {
            return None;
        }
        let thread = ThreadObject::read(classes, object)?;
        let carrier = reference(classes, class, object, "carrierThread");
        let carrier = carrier.and_then(|carrier| threads.by_object.get(&carrier));
        let carrier = carrier.and_then(|thread| threads.by_address.get(thread)?.tid);
        let chunk = reference(classes, class, object, "cont").and_then(|cont| {
            let class = classes.class_of(cont)?;
            reference(classes, &class, cont, "tail")
        });
        let (frames, missing) = chunk.map(|at| chunk::frames(classes, self.all_code(), at)).unwrap_or_default();
        Some(LightThread {
            address: object,
            id: thread.id,
            name: thread.name.filter(|name| !name.is_empty()).map(|name| printable(&name).into_owned()),
            state,
            carrier,
            wait: thread.blocker.map(|blocker| parked(classes, threads, blocker)),
            created_by: None,
            frames,
            missing,
        })
    }
}

/// Returns the names of states by number, from the class's static fields.
fn states(classes: &Classes<'_>, class: &Klass) -> HashMap<u32, &'static str> {
    let Some(mirror) = classes.mirror(class.address) else { return HashMap::new() };
    let fields = classes.declared_fields(class.address);
    let constants = fields.iter().filter(|field| field.is_static && field.descriptor == "I");
    let known = |name: &str| STATES.iter().chain([&TERMINATED]).find(|&&known| known == name).copied();
    let state = |field: &crate::runtimes::hotspot::classes::JavaField| {
        let name = known(&field.name)?;
        Some((classes.vm.memory.u32(mirror.wrapping_add(field.offset)).ok()?, name))
    };
    constants.filter_map(state).collect()
}
