//! The objects on the heap that locks consist of, and their fields by name.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::Object;
use crate::runtimes::coreclr::heap::{Collector, Heap};
use crate::runtimes::coreclr::types::TypeSystem;

/// Bit of the word before an object. If it is set, the word has a hash code or the index of a sync block. If it is
/// clear, the word is a thin lock: the low bits are the holder's managed id, and the next six the number of its
/// entries, less one (syncblk.h).
const HASH_OR_INDEX: u32 = 0x0800_0000;
const THIN_LEVEL: u32 = 0x3f;

/// Number of bits of a thin lock's owner from .NET 8 on. The layouts of earlier versions have their own number.
const THIN_OWNER_BITS: u32 = 16;

/// Classes whose objects take part in locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::runtimes::coreclr) enum LockClass {
    /// System.Threading.Lock.
    Lock,
    /// A thread's entry in the list of a condition.
    ConditionWaiter,
    /// Mutex, events, Semaphore.
    Handle,
    SemaphoreSlim,
    ReaderWriterLockSlim,
    ReaderWriterLock,
    ManualResetEventSlim,
    /// The event of a thread in Task.Wait.
    Blocked,
    CountdownEvent,
    Barrier,
    BlockingCollection,
    /// A task. Only those with a blocked thread are stored.
    Task,
}

/// Names of the classes. Those of generic classes end with `<`.
const CLASSES: &[(&str, LockClass)] = &[
    ("System.Threading.Lock", LockClass::Lock),
    ("System.Threading.Condition+Waiter", LockClass::ConditionWaiter),
    ("System.Threading.SemaphoreSlim", LockClass::SemaphoreSlim),
    ("System.Threading.ReaderWriterLockSlim", LockClass::ReaderWriterLockSlim),
    ("System.Threading.ReaderWriterLock", LockClass::ReaderWriterLock),
    ("System.Threading.Tasks.Task+SetOnInvokeMres", LockClass::Blocked),
    ("System.Threading.Tasks.Task+SetOnCountdownMres", LockClass::Blocked),
    ("System.Threading.ManualResetEventSlim", LockClass::ManualResetEventSlim),
    ("System.Threading.WaitHandle", LockClass::Handle),
    ("System.Threading.CountdownEvent", LockClass::CountdownEvent),
    ("System.Threading.Barrier", LockClass::Barrier),
    ("System.Collections.Concurrent.BlockingCollection<", LockClass::BlockingCollection),
    ("System.Threading.Tasks.Task", LockClass::Task),
];

/// Prefix of the type name of a list. For example, a task with several continuations has one.
const LIST: &str = "System.Collections.Generic.List<";

/// Offset of an array's first reference.
const ELEMENTS: u64 = 16;

/// Field of a task with who waits for it.
const CONTINUATION: &str = "m_continuationObject";

/// A class: its name, and the offsets of its objects' fields by name.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) part: Option<LockClass>,
    /// Whether it is a List.
    is_list: bool,
    fields: HashMap<String, u64>,
}

/// A thin lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThinLock {
    pub(super) owner: u32,
    pub(super) times: u32,
}

impl ThinLock {
    /// The lock in a header's word, whose owner has `owner_bits`. `None` if it has none, or if nobody holds it.
    fn of(word: u32, owner_bits: u32) -> Option<ThinLock> {
        let owner = word & ((1 << owner_bits) - 1);
        let times = (word >> owner_bits & THIN_LEVEL) + 1;
        (word & HASH_OR_INDEX == 0 && owner != 0).then_some(ThinLock { owner, times })
    }
}

/// Objects that take part in locks, from one walk of the heap.
#[derive(Debug, Default)]
pub(in crate::runtimes::coreclr) struct LockObjects {
    parts: BTreeMap<LockClass, Vec<Addr>>,
    /// Tasks by the event of the thread that waits for them.
    tasks: HashMap<Addr, Vec<Addr>>,
    thin: Vec<(Addr, ThinLock)>,
    count: usize,
    omitted: u64,
    /// Bytes that could not be walked.
    pub(in crate::runtimes::coreclr) lost: u64,
}

impl LockObjects {
    pub(in crate::runtimes::coreclr) fn sort(&mut self) {
        self.parts.values_mut().for_each(|addrs| addrs.sort_unstable());
        self.thin.sort_by_key(|(at, _)| *at);
        self.tasks.values_mut().for_each(|tasks| tasks.sort_unstable());
    }
}

/// Collects the objects of locks.
pub(in crate::runtimes::coreclr) struct LockCollector<'t, 'p> {
    heap: &'t Heap<'p>,
    objects: Objects<'t, 'p>,
    /// Remaining elements of lists of continuations that are read, over all tasks: tasks may share a list.
    elements: AtomicU64,
}

impl<'t, 'p> LockCollector<'t, 'p> {
    pub(in crate::runtimes::coreclr) fn new(heap: &'t Heap<'p>) -> LockCollector<'t, 'p> {
        let objects = Objects::new(heap.type_system(), None);
        LockCollector { heap, objects, elements: AtomicU64::new(limits::MAX_ASYNC_STEPS as u64) }
    }

    /// The events of blocked threads that a task's continuation leads to: itself, or elements of a list.
    fn events(&self, continuation: Addr) -> Vec<Addr> {
        let objects = &self.objects;
        let blocked = |at: &Addr| objects.part_of(*at) == Some(LockClass::Blocked);
        match objects.class_of(continuation) {
            Some(class) if class.part == Some(LockClass::Blocked) => vec![continuation],
            Some(class) if class.is_list => {
                let mut out = objects.elements(continuation, &self.elements);
                out.retain(blocked);
                out
            }
            _ => Vec::new(),
        }
    }
}

/// What one worker collected, and the classes that it knows by the number of their type.
pub(in crate::runtimes::coreclr) struct LockShare {
    known: HashMap<u32, Option<(LockClass, Option<u64>)>>,
    pub(in crate::runtimes::coreclr) found: LockObjects,
}

impl Collector for LockCollector<'_, '_> {
    type Found = LockShare;

    fn begin(&self) -> LockShare {
        LockShare { known: HashMap::new(), found: LockObjects::default() }
    }

    fn visit(&self, share: &mut LockShare, object: &Object) {
        let (objects, found) = (&self.objects, &mut share.found);
        let types = objects.types;
        let header = object.addr.checked_sub(8).and_then(|at| types.memory.peek_u64(at).ok());
        if let Some(thin) = header.and_then(|word| objects.thin_lock((word >> 32) as u32)) {
            if found.count < limits::MAX_LOCK_OBJECTS {
                found.count += 1;
                found.thin.push((object.addr, thin));
            } else {
                found.omitted += 1;
            }
        }
        let part = share.known.entry(object.kind.0).or_insert_with(|| {
            let info = self.heap.method_table(object.kind).filter(|info| !info.free && !info.counted())?;
            let class = objects.class(info.address)?;
            Some((class.part?, class.fields.get(CONTINUATION).copied()))
        });
        let Some((part, continuation)) = *part else { return };
        if found.count >= limits::MAX_LOCK_OBJECTS {
            found.omitted += 1;
            return;
        }
        if part == LockClass::Task {
            let next = continuation.and_then(|at| types.memory.ptr(object.addr.checked_add(at)?).ok());
            for event in next.filter(|at| !at.is_null()).map_or_else(Vec::new, |at| self.events(at)) {
                found.tasks.entry(event).or_default().push(object.addr);
                found.count += 1;
            }
            return;
        }
        found.count += 1;
        found.parts.entry(part).or_default().push(object.addr);
    }

    fn join(&self, mut share: LockShare, later: LockShare) -> LockShare {
        let (a, b) = (&mut share.found, later.found);
        for (part, addrs) in b.parts {
            a.parts.entry(part).or_default().extend(addrs);
        }
        for (event, tasks) in b.tasks {
            a.tasks.entry(event).or_default().extend(tasks);
        }
        a.thin.extend(b.thin);
        a.count += b.count;
        a.omitted += b.omitted;
        share
    }
}

/// Classes by MethodTable. `None`: there is no class.
pub(super) type Classes = Mutex<HashMap<Addr, Option<Arc<Class>>>>;

/// Access to the fields of objects that locks consist of, and the objects that a walk found, if there was one.
pub(in crate::runtimes::coreclr) struct Objects<'t, 'p> {
    pub(super) types: &'t TypeSystem<'p>,
    classes: Arc<Classes>,
    thin_owner_bits: u32,
    found: Option<&'t LockObjects>,
}

impl<'t, 'p> Objects<'t, 'p> {
    /// `found`: objects of a walk over the heap. Without them the lists of objects are empty.
    pub(in crate::runtimes::coreclr) fn new(
        types: &'t TypeSystem<'p>,
        found: Option<&'t LockObjects>,
    ) -> Objects<'t, 'p> {
        let own_bits = types.runtime.layout.constant("ThinLock", "OwnerBits");
        let thin_owner_bits = own_bits.map_or(THIN_OWNER_BITS, |bits| bits.min(u64::from(THIN_OWNER_BITS)) as u32);
        Objects { types, classes: Arc::default(), thin_owner_bits, found }
    }

    /// Without a walk, with classes that were read before.
    pub(super) fn sharing(types: &'t TypeSystem<'p>, classes: &Arc<Classes>) -> Objects<'t, 'p> {
        Objects { classes: classes.clone(), ..Objects::new(types, None) }
    }

    pub(super) fn classes(&self) -> &Arc<Classes> {
        &self.classes
    }

    /// Messages about objects that are missing.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut out = Vec::new();
        let Some(found) = self.found else { return out };
        if found.omitted > 0 {
            out.push(format!("{} objects of locks are left out, beyond the limit", found.omitted));
        }
        if found.lost > 0 {
            out.push(format!("{} bytes of the heap can't be walked; locks in them are missing", found.lost));
        }
        out
    }

    /// Objects of a class, by address.
    pub(super) fn of(&self, part: LockClass) -> &[Addr] {
        self.found.and_then(|found| found.parts.get(&part)).map_or(&[], Vec::as_slice)
    }

    /// The thin lock in a header's word, if somebody holds it.
    pub(super) fn thin_lock(&self, word: u32) -> Option<ThinLock> {
        ThinLock::of(word, self.thin_owner_bits)
    }

    /// Objects whose header has a held thin lock.
    pub(super) fn thin(&self) -> &[(Addr, ThinLock)] {
        self.found.map_or(&[], |found| &found.thin)
    }

    /// The tasks for which a thread waits with an event: several with Task.WaitAll.
    pub(super) fn tasks_of(&self, event: Addr) -> &[Addr] {
        self.found.and_then(|found| found.tasks.get(&event)).map_or(&[], Vec::as_slice)
    }

    /// Elements of a List that are not null. Takes their number from `left`, which ends the reading.
    pub(super) fn elements(&self, list: Addr, left: &AtomicU64) -> Vec<Addr> {
        let mut out = Vec::new();
        let Some(items) = self.reference(list, "_items") else { return out };
        let count = u64::from(self.u32(list, "_size").unwrap_or(0)).min(limits::MAX_CONTINUATIONS as u64);
        for i in 0..count {
            if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err() {
                break;
            }
            let Ok(item) = self.types.memory.ptr(items.saturating_add(ELEMENTS + 8 * i)) else { break };
            out.extend(Some(item).filter(|item| !item.is_null()));
        }
        out
    }

    fn class(&self, method_table: Addr) -> Option<Arc<Class>> {
        let lock = || self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&method_table) {
            return known.clone();
        }
        let read = || {
            (self.types.is_method_table(method_table) == Ok(true)).then_some(())?;
            let bases = self.types.bases(method_table);
            let names: Vec<String> = bases.iter().map(|&at| self.types.display_name(at)).collect();
            let named = |name: &String| {
                let alike = |of: &str| of == name || of.ends_with('<') && name.starts_with(of);
                CLASSES.iter().find(|(of, _)| alike(of)).map(|(_, part)| *part)
            };
            let fields = self.types.object_fields(method_table);
            let fields = fields.iter().map(|f| (self.types.field_name(f), f.offset)).collect();
            let part = names.iter().find_map(named);
            let name = names.into_iter().next()?;
            Some(Arc::new(Class { part, is_list: name.starts_with(LIST), name, fields }))
        };
        let class = read();
        lock().insert(method_table, class.clone());
        class
    }

    /// Class of an object. `None` if there is no object with a known type.
    pub(super) fn class_of(&self, object: Addr) -> Option<Arc<Class>> {
        self.class(self.types.type_of(object)?)
    }

    /// Returns the role of an object in a lock. `None` if it is no part of one.
    pub(super) fn part_of(&self, object: Addr) -> Option<LockClass> {
        self.class_of(object)?.part
    }

    /// Like [`Objects::part_of`], for any word of a stack.
    pub(super) fn part_of_word(&self, word: Addr) -> Option<LockClass> {
        // Most words are no objects, so the memory that they point to is not recorded as needed.
        let method_table = self.types.memory.peek_u64(word).ok()? & !self.types.mark_bits();
        let method_table = Some(Addr::new(method_table)).filter(|at| !at.is_null() && at.is_aligned(8))?;
        self.class(method_table)?.part
    }

    /// Whether an object is a List.
    pub(super) fn is_list(&self, object: Addr) -> bool {
        self.class_of(object).is_some_and(|class| class.is_list)
    }

    /// Whether an object is of the class with that name.
    pub(super) fn is(&self, object: Addr, name: &str) -> bool {
        self.class_of(object).is_some_and(|class| class.name == name)
    }

    /// Address of a field.
    pub(super) fn at(&self, object: Addr, field: &str) -> Option<Addr> {
        object.checked_add(*self.class_of(object)?.fields.get(field)?)
    }

    /// A reference that is not null.
    pub(in crate::runtimes::coreclr) fn reference(&self, object: Addr, field: &str) -> Option<Addr> {
        self.types.memory.ptr(self.at(object, field)?).ok().filter(|at| !at.is_null())
    }

    pub(super) fn u64(&self, object: Addr, field: &str) -> Option<u64> {
        self.types.memory.u64(self.at(object, field)?).ok()
    }

    pub(super) fn u32(&self, object: Addr, field: &str) -> Option<u32> {
        self.types.memory.u32(self.at(object, field)?).ok()
    }

    pub(in crate::runtimes::coreclr) fn u16(&self, object: Addr, field: &str) -> Option<u16> {
        let mut bytes = [0; 2];
        self.types.memory.read(self.at(object, field)?, &mut bytes).ok()?;
        Some(u16::from_le_bytes(bytes))
    }

    pub(super) fn u8(&self, object: Addr, field: &str) -> Option<u8> {
        let mut byte = [0];
        self.types.memory.read(self.at(object, field)?, &mut byte).ok()?;
        Some(byte[0])
    }
}
