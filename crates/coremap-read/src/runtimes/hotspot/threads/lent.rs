//! The program's own pools: threads wait for a thing that other threads have borrowed.
//!
//! Nothing records the borrower of a thing. A method of the program that waits and returns an object of the program
//! lends it. A thread has borrowed the object if it is on the thread's stack, or if a field of type Thread in it names
//! the thread. But a worker has its own task on its stack too. So the lender must refer to the things by another path
//! than the queue that they are taken from.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::facts::{FrameRow, ThreadRow, WaitRow};
use crate::limits;
use crate::map::Confidence;
use crate::runtimes::api::{Heap as _, PartyId, TypeRole, WaitFact, WaitNeeds, WaitOwner};
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::hotspot::holders::is_library;
use crate::runtimes::hotspot::roots;
use crate::words::WaitKind;

/// The descriptor of a field that names a thread.
const THREAD: &str = "Ljava/lang/Thread;";

/// Parts of the names of methods that take from a queue. The last constant is part of the names of queues' packages.
const TAKES: [&str; 5] = [".take(", ".takeFirst(", ".takeLast(", ".poll(", ".pollFirst("];
const QUEUES: &str = "java.util.concurrent.";

/// Maximum number of lenders, and of collections of one lender, that are read.
const COLLECTIONS: usize = 64;

mod how {
    pub(super) const LENT: &str = "the return type of the waiting method; objects of it on stacks of other threads";
    pub(super) const QUEUE: &str = "it takes from a queue";
}

/// Objects on the stacks of threads.
#[derive(Default)]
pub(super) struct OnStacks {
    pub(super) by_thread: HashMap<u32, HashSet<Addr>>,
    /// IDs of the threads that have an object on their stacks.
    by_object: HashMap<Addr, HashSet<u32>>,
}

/// Whether a thread waits for something that no thread owns.
fn waits_for_no_thread(thread: &ThreadRow) -> bool {
    let is = |wait: &WaitRow| matches!(wait.kind, WaitKind::Park | WaitKind::Notify) && wait.owner_tid.is_none();
    thread.waits_for.as_ref().is_some_and(is)
}

impl HotSpot<'_> {
    /// Objects on the stacks of all Java threads, word by word.
    pub(super) fn objects_on_stacks(&self) -> OnStacks {
        let mut out = OnStacks::default();
        for (tid, object) in roots::on_stacks(self, self.java_threads()) {
            out.by_thread.entry(tid).or_default().insert(object);
            out.by_object.entry(object).or_default().insert(tid);
        }
        out
    }

    /// Whether a thread takes from a queue of the library as a consumer, and not to borrow a thing.
    fn is_consumer(&self, thread: &ThreadRow) -> bool {
        let takes = thread.frames.iter().take_while(|frame| !frame.own).any(|frame| {
            let takes = |name: &str| name.starts_with(QUEUES) && TAKES.iter().any(|part| name.contains(part));
            frame.method.as_deref().is_some_and(takes)
        });
        takes && self.lent_type(thread).is_none()
    }

    /// The wait of a consumer. It is idle.
    pub(super) fn consumes(&self, thread: &ThreadRow) -> Option<WaitFact> {
        let wait = thread.waits_for.as_ref().filter(|_| self.is_consumer(thread))?;
        let r#type = wait.r#type.clone();
        Some(WaitFact { object: wait.object, r#type, idle: true, evidence: how::QUEUE, ..WaitFact::default() })
    }

    /// Whether a thread may wait for a thing that is lent.
    pub(super) fn may_borrow(&self, thread: &ThreadRow) -> bool {
        waits_for_no_thread(thread) && self.lent_type(thread).is_some()
    }

    /// The class of the program that the innermost method of the program returns, and the method's class.
    fn lent_type(&self, thread: &ThreadRow) -> Option<(String, String)> {
        let frame: &FrameRow = thread.frames.iter().find(|frame| frame.own)?;
        let method = self.classes().method(frame.method_desc?)?;
        let returns = method.descriptor.rsplit_once(')')?.1.strip_prefix('L')?.strip_suffix(';')?.replace('/', ".");
        let holder = self.classes().klass(method.holder)?.name.clone();
        (!is_library(&returns) && returns != holder).then_some((returns, holder))
    }

    /// The wait of a thread for a thing that others have borrowed.
    pub(super) fn borrows(&self, thread: &ThreadRow, stacks: &OnStacks) -> Option<WaitFact> {
        let wait = thread.waits_for.as_ref().filter(|_| waits_for_no_thread(thread))?;
        let (lent, lender) = self.lent_type(thread)?;
        let own = stacks.by_thread.get(&thread.tid)?;
        let mut lenders: Vec<Addr> = own.iter().copied().filter(|at| self.is_a(*at, &[&lender])).collect();
        lenders.sort_unstable();
        let things: HashSet<Addr> = lenders.iter().take(COLLECTIONS).flat_map(|at| self.things(*at, &lent)).collect();
        if things.is_empty() {
            return None;
        }
        let borrowers: HashMap<Addr, u32> =
            things.iter().filter_map(|thing| Some((*thing, self.borrower(*thing)?))).collect();
        // If one thing is not borrowed, the thread does not wait for a return.
        let others = |thing: &Addr| {
            let of_thing = stacks.by_object.get(thing).into_iter().flatten().copied();
            of_thing.filter(|tid| *tid != thread.tid)
        };
        if !things.iter().all(|thing| borrowers.contains_key(thing) || others(thing).next().is_some()) {
            return None;
        }
        let mut tids: Vec<u32> = things.iter().flat_map(others).chain(borrowers.values().copied()).collect();
        tids.sort_unstable();
        tids.dedup();
        let owner = |tid| WaitOwner { party: PartyId::Thread(tid), confidence: Confidence::Derived };
        Some(WaitFact {
            object: wait.object,
            r#type: wait.r#type.clone(),
            owners: tids.into_iter().map(owner).collect(),
            needs: WaitNeeds::Any,
            relation: "lent",
            lent: Some(lent),
            evidence: how::LENT,
            ..WaitFact::default()
        })
    }

    /// Things of a class in the fields, arrays and collections of a lender.
    fn things(&self, lender: Addr, class: &str) -> Vec<Addr> {
        let Some(heap) = self.objects() else { return Vec::new() };
        let (mut out, mut reader) = (Vec::new(), heap.reader());
        let (mut open, mut left) = (self.contents(lender), COLLECTIONS);
        while let Some(at) = open.pop().filter(|_| out.len() < limits::MAX_QUEUED_TASKS) {
            if self.is_a(at, &[class]) {
                out.push(at);
                continue;
            }
            let kind = reader.node(at.get()).map(|node| node.kind);
            let is_collection = kind.is_some_and(|kind| self.role_of_class(kind) == TypeRole::Collection);
            if is_collection && left > 0 {
                left -= 1;
                open.extend(self.contents(at).into_iter().filter(|at| self.is_a(*at, &[class])));
            }
        }
        out
    }

    /// The live thread that a thing names as its user.
    fn borrower(&self, thing: Addr) -> Option<u32> {
        let class = self.classes().class_of(thing)?;
        self.classes().with_superclasses(class.address).find_map(|at| {
            let fields = self.classes().declared_fields(at);
            let mut threads = fields.iter().filter(|field| !field.is_static && field.descriptor == THREAD);
            threads.find_map(|field| self.tid_of(self.get(thing, &field.name)?))
        })
    }
}
