//! The objects on the heap that locks consist of, and their fields by name.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::{Heap as _, HeapRange, UnwalkedRanges};
use crate::runtimes::coreclr::heap::Heap;
use crate::runtimes::coreclr::types::TypeSystem;

/// Bit of the word before an object: the rest is a hash code or the index of a sync block. If it is clear, the low bits
/// are the managed id of the thread that holds a thin lock, and the next six are how often it entered it, less one
/// (syncblk.h).
const HASH_OR_INDEX: u32 = 0x0800_0000;
const THIN_LEVEL: u32 = 0x3f;

/// Number of bits of a thin lock's owner from .NET 8 on. The layouts of earlier versions have their own number.
const THIN_OWNER_BITS: u32 = 16;

/// Classes whose objects take part in locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LockClass {
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
    /// A task. Only those with a blocked thread are stored.
    Task,
}

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
    ("System.Threading.Tasks.Task", LockClass::Task),
];

/// Field of a task with who waits for it.
const CONTINUATION: &str = "m_continuationObject";

/// A class: its name, and the offsets of its objects' fields by name.
pub(super) struct Class {
    pub(super) name: String,
    part: Option<LockClass>,
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

#[derive(Default)]
struct LockObjects {
    parts: BTreeMap<LockClass, Vec<Addr>>,
    /// Tasks by the event of the thread that waits for them.
    tasks: HashMap<Addr, Addr>,
    thin: Vec<(Addr, ThinLock)>,
    count: usize,
    omitted: u64,
    losses: UnwalkedRanges,
}

/// Parts of locks by class, and access to their fields.
pub(super) struct Objects<'t, 'p> {
    pub(super) types: &'t TypeSystem<'p>,
    classes: Mutex<HashMap<Addr, Option<Arc<Class>>>>,
    thin_owner_bits: u32,
    found: LockObjects,
}

impl<'t, 'p> Objects<'t, 'p> {
    /// Walks the heap.
    pub(super) fn find(heap: &'t Heap<'p>) -> Objects<'t, 'p> {
        let types: &'t TypeSystem<'p> = heap.type_system();
        let own_bits = types.runtime.layout.constant("ThinLock", "OwnerBits");
        let thin_owner_bits = own_bits.map_or(THIN_OWNER_BITS, |bits| bits.min(u64::from(THIN_OWNER_BITS)) as u32);
        let mut objects = Objects { types, classes: Mutex::default(), thin_owner_bits, found: LockObjects::default() };
        let of_part = |mut found: LockObjects, part: &HeapRange| {
            let mut losses = std::mem::take(&mut found.losses);
            let mut known: HashMap<u32, Option<(LockClass, Option<u64>)>> = HashMap::new();
            heap.walker().walk(part, &mut losses, &mut |object| {
                let header = object.addr.checked_sub(8).and_then(|at| types.memory.peek_u64(at).ok());
                if let Some(thin) = header.and_then(|word| objects.thin_lock((word >> 32) as u32)) {
                    if found.count < limits::MAX_LOCK_OBJECTS {
                        found.count += 1;
                        found.thin.push((object.addr, thin));
                    } else {
                        found.omitted += 1;
                    }
                }
                let part = known.entry(object.kind.0).or_insert_with(|| {
                    let info = heap.method_table(object.kind).filter(|info| !info.free && !info.counted())?;
                    let class = objects.class(info.address)?;
                    Some((class.part?, class.fields.get(CONTINUATION).copied()))
                });
                let Some((part, continuation)) = *part else { return };
                if found.count >= limits::MAX_LOCK_OBJECTS {
                    found.omitted += 1;
                    return;
                }
                if part == LockClass::Task {
                    let waits = continuation.and_then(|at| types.memory.ptr(object.addr.checked_add(at)?).ok());
                    let waits = waits.filter(|at| !at.is_null() && objects.part_of(*at) == Some(LockClass::Blocked));
                    if let Some(event) = waits {
                        found.tasks.insert(event, object.addr);
                        found.count += 1;
                    }
                    return;
                }
                found.count += 1;
                found.parts.entry(part).or_default().push(object.addr);
            });
            found.losses = losses;
            found
        };
        let join = |mut a: LockObjects, b: LockObjects| {
            for (part, addrs) in b.parts {
                a.parts.entry(part).or_default().extend(addrs);
            }
            a.tasks.extend(b.tasks);
            a.thin.extend(b.thin);
            a.count += b.count;
            a.omitted += b.omitted;
            a.losses.merge(b.losses);
            a
        };
        let mut found = heap.ranges().par_iter().fold(LockObjects::default, of_part).reduce(LockObjects::default, join);
        found.parts.values_mut().for_each(|addrs| addrs.sort_unstable());
        found.thin.sort_by_key(|(at, _)| *at);
        objects.found = found;
        objects
    }

    /// Messages about objects that are missing.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.found.omitted > 0 {
            out.push(format!("{} objects of locks are left out, beyond the limit", self.found.omitted));
        }
        if self.found.losses.bytes > 0 {
            out.push(format!(
                "{} bytes of the heap can't be walked; locks in them are missing",
                self.found.losses.bytes
            ));
        }
        out
    }

    /// Objects of a class, by address.
    pub(super) fn of(&self, part: LockClass) -> &[Addr] {
        self.found.parts.get(&part).map_or(&[], Vec::as_slice)
    }

    /// The thin lock in a header's word, if somebody holds it.
    pub(super) fn thin_lock(&self, word: u32) -> Option<ThinLock> {
        ThinLock::of(word, self.thin_owner_bits)
    }

    /// Objects whose header has a held thin lock.
    pub(super) fn thin(&self) -> &[(Addr, ThinLock)] {
        &self.found.thin
    }

    /// The task for which a thread waits with an event.
    pub(super) fn task_of(&self, event: Addr) -> Option<Addr> {
        self.found.tasks.get(&event).copied()
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
            let named = |name: &String| CLASSES.iter().find(|(of, _)| of == name).map(|(_, part)| *part);
            let fields = self.types.object_fields(method_table);
            let fields = fields.iter().map(|f| (self.types.field_name(f), f.offset)).collect();
            Some(Arc::new(Class { part: names.iter().find_map(named), name: names.into_iter().next()?, fields }))
        };
        let class = read();
        lock().insert(method_table, class.clone());
        class
    }

    /// Class of an object. `None` if there is no object with a known type.
    pub(super) fn class_of(&self, object: Addr) -> Option<Arc<Class>> {
        self.class(self.types.type_of(object)?)
    }

    fn part_of(&self, object: Addr) -> Option<LockClass> {
        self.class_of(object)?.part
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
    pub(super) fn reference(&self, object: Addr, field: &str) -> Option<Addr> {
        self.types.memory.ptr(self.at(object, field)?).ok().filter(|at| !at.is_null())
    }

    pub(super) fn u64(&self, object: Addr, field: &str) -> Option<u64> {
        self.types.memory.u64(self.at(object, field)?).ok()
    }

    pub(super) fn u32(&self, object: Addr, field: &str) -> Option<u32> {
        self.types.memory.u32(self.at(object, field)?).ok()
    }

    pub(super) fn u8(&self, object: Addr, field: &str) -> Option<u8> {
        let mut byte = [0];
        self.types.memory.read(self.at(object, field)?, &mut byte).ok()?;
        Some(byte[0])
    }
}
