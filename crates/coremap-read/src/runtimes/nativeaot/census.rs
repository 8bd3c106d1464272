//! Objects of the library that explain threads, locks, exceptions and tasks, found by one walk of the heap.
//!
//! Types are found by their names and those of their bases. Without names nothing is found, which proves nothing.

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::{Heap as _, HeapRange, Link, Object, TypeIndex, UnwalkedRanges};
use crate::runtimes::nativeaot::heap::Heap;
use crate::runtimes::nativeaot::object::string_at;
use crate::sums::SaturatingAdd;

/// Bits of the word before an object. If one is set, the word has the number of a Lock, or a hash code. If both are
/// clear, the low bits are the managed id of the thread that holds the object. The next six bits are the number of its
/// entries, less one (ObjectHeader.cs).
const NOT_THIN: u32 = 0x0c00_0000;
const THIN_OWNER: u32 = 0xffff;

/// Distance from an object to that word.
const HEADER: u64 = 4;

/// Maximum number of base types of a type.
const MAX_BASES: usize = 32;

/// Kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Part {
    Thread,
    Lock,
    Condition,
    /// The table of objects with a Lock.
    SyncTable,
    /// Mutex, events, Semaphore.
    Handle,
    SemaphoreSlim,
    EventSlim,
    Exception,
    /// A task that is not complete.
    Task,
    /// A TaskCompletionSource.
    Source,
}

/// Names of classes. Objects of subclasses count too.
const CLASSES: [(&str, Part); 11] = [
    ("System.Threading.Thread", Part::Thread),
    ("System.Threading.Lock", Part::Lock),
    ("System.Threading.Condition", Part::Condition),
    ("System.Threading.SyncTable.Entry[]", Part::SyncTable),
    ("System.Threading.WaitHandle", Part::Handle),
    ("System.Threading.SemaphoreSlim", Part::SemaphoreSlim),
    ("System.Threading.ManualResetEventSlim", Part::EventSlim),
    ("System.Exception", Part::Exception),
    ("System.Threading.Tasks.Task", Part::Task),
    ("System.Threading.Tasks.TaskCompletionSource", Part::Source),
    ("System.Threading.Tasks.TaskCompletionSource<", Part::Source),
];

/// The objects by kind, sorted by address.
#[derive(Debug, Default)]
pub(super) struct Census {
    parts: BTreeMap<Part, Vec<Object>>,
    /// Objects that a thread holds according to their header, with the header's word.
    pub(super) thin: Vec<(Addr, u32)>,
    /// Number of objects that were left out.
    pub(super) omitted: u64,
    /// Bytes that could not be walked.
    pub(super) lost: u64,
    /// Whether types have names at all.
    pub(super) named: bool,
}

impl Census {
    pub(super) fn of(&self, part: Part) -> &[Object] {
        self.parts.get(&part).map_or(&[], Vec::as_slice)
    }

    /// Whether the object is of this kind.
    pub(super) fn is(&self, part: Part, at: Addr) -> bool {
        self.of(part).binary_search_by_key(&at, |object| object.addr).is_ok()
    }

    pub(super) fn read(heap: &Heap<'_>) -> Census {
        #[derive(Default)]
        struct Share {
            known: HashMap<TypeIndex, Option<Part>>,
            out: Census,
            count: usize,
            losses: UnwalkedRanges,
        }
        let memory = heap.runtime().memory();
        let pending = Pending::of(heap);
        let of_part = |mut share: Share, range: &HeapRange| {
            let Share { known, out, count, losses } = &mut share;
            heap.walker().walk(range, losses, &mut |object| {
                let part = *known.entry(object.kind).or_insert_with(|| part_of(heap, object.kind));
                let part = part.filter(|part| *part != Part::Task || pending.is(heap, object.addr));
                let word = object.addr.checked_sub(HEADER).and_then(|at| memory.peek_u32(at).ok()).unwrap_or(0);
                let thin = word & NOT_THIN == 0 && word & THIN_OWNER != 0;
                if (part.is_none() && !thin) || *count >= limits::MAX_LOCK_OBJECTS {
                    out.omitted += u64::from(part.is_some() || thin);
                    return;
                }
                *count += 1;
                if let Some(part) = part {
                    out.parts.entry(part).or_default().push(*object);
                }
                if thin {
                    out.thin.push((object.addr, word));
                }
            });
            share
        };
        let join = |mut a: Share, b: Share| {
            for (part, objects) in b.out.parts {
                a.out.parts.entry(part).or_default().extend(objects);
            }
            a.out.thin.extend(b.out.thin);
            a.out.omitted.add_saturating(b.out.omitted);
            a.losses.bytes = a.losses.bytes.saturating_add(b.losses.bytes);
            a
        };
        let share = heap.ranges().par_iter().fold(Share::default, of_part).reduce(Share::default, join);
        let Share { mut out, losses, .. } = share;
        out.parts.values_mut().for_each(|objects| objects.sort_unstable_by_key(|object| object.addr));
        out.thin.sort_unstable();
        out.lost = losses.bytes;
        // Every program has strings, and their type has a name if any has.
        out.named = heap.string_type().is_some_and(|kind| heap.is_named(kind));
        out
    }
}

/// How to know that a task is not complete.
struct Pending {
    flags: Option<u64>,
    done: u32,
}

impl Pending {
    fn of(heap: &Heap<'_>) -> Pending {
        let layout = &heap.runtime().layout;
        let done = layout.constant("AotTaskState", "Done").map_or(0, |bits| bits as u32);
        Pending { flags: layout.positive("AotTask", "m_stateFlags").ok(), done }
    }

    fn is(&self, heap: &Heap<'_>, at: Addr) -> bool {
        let flags = self.flags.and_then(|offset| heap.runtime().memory().peek_u32(at.checked_add(offset)?).ok());
        flags.is_some_and(|flags| flags & self.done == 0)
    }
}

/// Returns the kind of objects of a type, by the names of the type and its base types.
fn part_of(heap: &Heap<'_>, kind: TypeIndex) -> Option<Part> {
    let own = heap.type_name(kind);
    let of = |name: &str| {
        let matches = |class: &str| class == name || class.ends_with('<') && name.starts_with(class);
        CLASSES.iter().find(|(class, _)| matches(class)).map(|(_, part)| *part)
    };
    if own.ends_with(']') {
        return of(&own);
    }
    let bases = heap.base_names(kind, MAX_BASES);
    std::iter::once(own).chain(bases).find_map(|name| of(&name))
}

/// Fields of library objects.
impl Heap<'_> {
    /// The reference in a field. `None` if it is null or can't be read.
    pub(super) fn held(&self, kind: &str, at: Addr, field: &str) -> Option<Addr> {
        self.runtime().view(kind, at).ptr(field).ok().filter(|object| !object.is_null())
    }

    /// A number in a field.
    pub(super) fn number(&self, kind: &str, at: Addr, field: &str) -> Option<u32> {
        self.runtime().view(kind, at).u32(field).ok()
    }

    /// The text of the string in a field.
    pub(super) fn text(&self, kind: &str, at: Addr, field: &str) -> Option<String> {
        string_at(self, self.held(kind, at, field)?, limits::MAX_SHOWN_STRING)
    }

    /// All objects that an object references.
    pub(super) fn references_of(&self, at: Addr) -> Vec<(u64, Addr)> {
        let mut out = Vec::new();
        self.reader().each(at.get(), |link, value| {
            if let Link::Field(offset) = link {
                out.push((offset, Addr::new(value)));
            }
            out.len() < limits::MAX_AOT_OBJECT_REFS
        });
        out
    }

    /// Name of the type of the object at an address.
    pub(super) fn name_at(&self, at: Addr) -> Option<String> {
        let node = self.reader().node(at.get())?;
        Some(self.type_name(node.kind))
    }
}
