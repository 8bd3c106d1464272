//! Waits for tasks and semaphores, and the likely holders of a semaphore's places.
//!
//! Nothing records the holders of a SemaphoreSlim. If an async method is past the await in which other methods of the
//! same object wait, it most likely has a place.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;
use crate::map::Confidence;
use crate::progress::Progress;
use crate::runtimes::api::{
    PartyId, PendingSemaphore, PendingTasks, TaskEnd, TaskFact, WaitFact, WaitNeeds, WaitOwner,
};
use crate::runtimes::coreclr::CoreClr;
use crate::runtimes::coreclr::tasks::{Node, Tasks};
use crate::units::exact;
use crate::words::TaskEndKind;

/// The thread pool as a party. There is only one, and its object's name would explain nothing.
pub(super) const POOL: Addr = Addr::NULL;

const SEMAPHORE: &str = "System.Threading.SemaphoreSlim";

/// Beginning of the names of the library's methods, which wait for the program's.
const LIBRARY: &str = "System.";

/// Maximum number of callers visited above a method that waits for a semaphore.
const CALLERS: usize = 3;

/// Maximum number of likely holders of one semaphore, and of methods that become parties.
const MAX_HOLDERS: usize = 64;
const MAX_PARTIES: usize = 1 << 16;

/// Maximum number of awaiting methods that are followed upwards from one that waits.
const MAX_ABOVE: usize = 32;

/// Maximum time, in milliseconds, of a timer that ends soon.
pub(super) const SOON_MS: u32 = 5_000;

/// Minimum number of waiters behind an operation that make it worth reporting. Operations of sockets usually end soon.
pub(super) const MANY: usize = 10;

mod how {
    pub(super) const STATES: &str =
        "the semaphore's queue; its places from async methods of the same object that are past this await (derived)";
    pub(super) const AWAITED: &str = "the task that its state machine awaits";
    pub(super) const ENDS: &str = "the task that is waited for, and what its continuation depends on";
}

/// Waiters of semaphores, and likely holders of their places.
#[derive(Default)]
pub(in crate::runtimes::coreclr) struct Places {
    /// Async methods that likely have a place, by semaphore.
    holders: HashMap<Addr, Vec<Addr>>,
    /// Methods that wait for a semaphore, and likely holders.
    pub(super) tasks: Vec<TaskFact>,
}

/// A state machine's type, and the object whose method it is.
type Key = (Addr, Option<Addr>);

/// Suspended methods of one state machine and one object, as indices into the nodes with their states.
type Siblings = HashMap<Key, Vec<(u32, i32)>>;

/// The name of a method without its parameters.
pub(in crate::runtimes::coreclr) fn short(name: &str) -> String {
    name.find('(').filter(|at| *at > 0).and_then(|at| name.get(..at)).unwrap_or(name).to_owned()
}

/// Formats a time: in milliseconds if it is short, else in seconds.
pub(super) fn duration(ms: u32) -> String {
    const MANY: u32 = 10_000;
    if ms < MANY { format!("{ms} ms") } else { format!("{} s", exact(u64::from(ms / 1000))) }
}

/// Siblings of `waiting` that are in a later state. Siblings that wait themselves only count if there are no others.
fn later(tasks: &Tasks, siblings: &Siblings, key: &dyn Fn(&Node) -> Option<Key>, waiting: &[u32]) -> Vec<u32> {
    let set: HashSet<u32> = waiting.iter().copied().collect();
    let mut first: HashMap<Key, i32> = HashMap::new();
    for node in set.iter().filter_map(|&i| tasks.nodes.get(i as usize)) {
        if let (Some(key), Some(state)) = (key(node), node.state) {
            first.entry(key).and_modify(|least| *least = state.min(*least)).or_insert(state);
        }
    }
    let all = first.iter().flat_map(|(key, &least)| {
        siblings.get(key).into_iter().flatten().filter(move |(_, state)| *state > least).map(|(i, _)| *i)
    });
    let (inside, outside): (Vec<u32>, Vec<u32>) = all.partition(|i| set.contains(i));
    let mut out = if outside.is_empty() { inside } else { outside };
    out.sort_unstable();
    out.truncate(MAX_HOLDERS);
    out
}

impl CoreClr<'_> {
    pub(super) fn places(&self) -> &Places {
        self.pending_facts().places.get_or_init(|| self.read_places())
    }

    fn method_of(&self, node: &Node) -> Option<String> {
        self.methods_of(node).first().map(|name| short(name))
    }

    /// Returns the program's methods that continue when a task completes. Methods of the library in between are
    /// skipped.
    fn own_above(&self, tasks: &Tasks, from: Addr) -> Vec<u32> {
        let next = |i: u32| tasks.nodes.get(i as usize).map(|node| node.next.clone()).unwrap_or_default();
        let Some(start) = tasks.index_of(from) else { return Vec::new() };
        let (mut out, mut level) = (Vec::new(), next(start));
        for _ in 0..CALLERS {
            let mut above = Vec::new();
            for i in level.into_iter().take(MAX_ABOVE) {
                let Some(node) = tasks.nodes.get(i as usize) else { continue };
                match self.method_of(node) {
                    Some(name) if !name.starts_with(LIBRARY) => out.push(i),
                    _ => above.extend(next(i)),
                }
            }
            level = above;
        }
        out
    }

    fn read_places(&self) -> Places {
        let taken = |slim: &&PendingSemaphore| slim.free == 0 && !slim.queue.is_empty();
        let semaphores: Vec<&PendingSemaphore> = self.semaphores().iter().filter(taken).collect();
        if semaphores.is_empty() {
            return Places::default();
        }
        let tasks = self.tasks(&Progress::silent());
        let types = self.types();
        let key = |node: &Node| Some((node.machine.as_ref()?.method_table, node.this(types)));
        let mut siblings: Siblings = HashMap::new();
        for (i, node) in (0..).zip(&tasks.nodes) {
            if let (Some(state), Some(key)) = (node.state.filter(|state| *state >= 0), key(node)) {
                siblings.entry(key).or_default().push((i, state));
            }
        }
        let mut out = Places::default();
        let mut waiters: Vec<(Addr, Vec<u32>)> = Vec::new();
        let mut left = MAX_PARTIES;
        for slim in semaphores {
            let queue = slim.queue.iter().take(left);
            let waiting: Vec<u32> = queue.flat_map(|&node| self.own_above(tasks, node)).collect();
            left = left.saturating_sub(waiting.len());
            // If a helper waits, its caller is past it.
            let mut level = waiting.clone();
            let mut holders = later(tasks, &siblings, &key, &level);
            for _ in 0..CALLERS {
                if !holders.is_empty() {
                    break;
                }
                level =
                    level.iter().filter_map(|&i| tasks.nodes.get(i as usize)).flat_map(|n| n.next.clone()).collect();
                level.truncate(MAX_PARTIES);
                holders = later(tasks, &siblings, &key, &level);
            }
            let holders = holders.iter().filter_map(|&i| Some(tasks.nodes.get(i as usize)?.addr)).collect();
            out.holders.insert(slim.address, holders);
            waiters.push((slim.address, waiting));
        }
        self.parties(tasks, &waiters, &mut out);
        out
    }

    /// Makes parties of the waiters of semaphores and of the likely holders.
    fn parties(&self, tasks: &Tasks, waiters: &[(Addr, Vec<u32>)], out: &mut Places) {
        let mut known: HashSet<Addr> = HashSet::new();
        // The method that waits, by each that awaits it.
        let mut inner: HashMap<Addr, u32> = HashMap::new();
        let mut facts: Vec<TaskFact> = Vec::new();
        for (slim, waiting) in waiters {
            for &i in waiting {
                let Some(node) = tasks.nodes.get(i as usize).filter(|node| known.insert(node.addr)) else { continue };
                facts.push(self.party(tasks, node, Some(self.place_of(out, *slim))));
                let above = |node: &&Node| node.next.first().and_then(|&i| tasks.nodes.get(i as usize));
                for caller in std::iter::successors(above(&node), above).take(MAX_ABOVE) {
                    inner.entry(caller.addr).or_insert(i);
                }
            }
        }
        for (slim, waiting) in waiters {
            for &holder in out.holders.get(slim).into_iter().flatten() {
                let node = tasks.index_of(holder).and_then(|i| tasks.nodes.get(i as usize));
                let Some(node) = node.filter(|_| known.insert(holder)) else { continue };
                let ends = self.ends(holder);
                let waits = inner.get(&holder).and_then(|&i| tasks.nodes.get(i as usize));
                let wait = match (waits, ends.as_slice()) {
                    (Some(waits), [only]) if only.kind == TaskEndKind::Semaphore => Some(WaitFact {
                        object: waits.addr,
                        what: self.method_of(waits),
                        owners: vec![WaitOwner { party: PartyId::Task(waits.addr), confidence: Confidence::Exact }],
                        relation: "run",
                        evidence: how::AWAITED,
                        ..WaitFact::default()
                    }),
                    (_, [only]) if only.kind == TaskEndKind::Source && waiting.len() < MANY => None,
                    _ => self.wait_of(out, &ends),
                };
                facts.push(self.party(tasks, node, wait));
            }
        }
        out.tasks = facts;
    }

    fn party(&self, tasks: &Tasks, node: &Node, wait: Option<WaitFact>) -> TaskFact {
        let above = node.next.first().and_then(|&i| tasks.nodes.get(i as usize));
        TaskFact {
            address: node.addr,
            name: None,
            place: self.method_of(node),
            caller: above.and_then(|caller| self.method_of(caller)),
            activity: None,
            wait,
            detail: None,
        }
    }

    /// The wait for a place of a semaphore.
    fn place_of(&self, places: &Places, slim: Addr) -> WaitFact {
        let holders = places.holders.get(&slim).into_iter().flatten();
        let owner = |&holder: &Addr| WaitOwner { party: PartyId::Task(holder), confidence: Confidence::Derived };
        // The list is sorted by address.
        let known = self.semaphores();
        let at = known.binary_search_by_key(&slim, |known| known.address).ok();
        WaitFact {
            places: at.and_then(|at| known.get(at)).filter(|known| known.free == 0).and_then(|known| known.limit),
            object: slim,
            r#type: Some(SEMAPHORE.to_owned()),
            owners: holders.map(owner).collect(),
            needs: WaitNeeds::Any,
            relation: "held",
            evidence: how::STATES,
            ..WaitFact::default()
        }
    }

    /// The wait of a thread for a place of a semaphore. `None` if no holder is known.
    pub(super) fn semaphore_wait(&self, slim: Addr) -> Option<WaitFact> {
        let places = self.places();
        places.holders.get(&slim).filter(|holders| !holders.is_empty()).map(|_| self.place_of(places, slim))
    }

    /// The wait of a thread for a task. `None` if it is not known how the task completes.
    pub(super) fn task_wait(&self, task: Addr) -> Option<WaitFact> {
        self.wait_of(self.places(), &self.ends(task))
    }

    /// The wait for one or several ends. `None` if it ends soon, or nothing is known.
    pub(super) fn wait_of(&self, places: &Places, ends: &[TaskEnd]) -> Option<WaitFact> {
        let first = ends.first()?;
        let fact = |what: Option<String>, relation| WaitFact {
            object: first.object,
            r#type: what.clone().or_else(|| first.type_name.clone()),
            what,
            relation,
            evidence: how::ENDS,
            ..WaitFact::default()
        };
        let mut owners: Vec<WaitOwner> = Vec::new();
        for end in ends {
            match self.owners_of(places, end) {
                // One end without an owner may be enough.
                of if of.is_empty() => {
                    owners.clear();
                    break;
                }
                of => owners.extend(of),
            }
        }
        owners.sort_by_key(|owner| (owner.party, owner.confidence != Confidence::Exact));
        owners.dedup_by_key(|owner| owner.party);
        // Whether all of several ends are needed is not known. One is assumed to be enough.
        if ends.len() > 1 {
            owners.iter_mut().for_each(|owner| owner.confidence = Confidence::Derived);
        }
        let found = match first.kind {
            TaskEndKind::Thread | TaskEndKind::Pool => fact(Some(self.name_of(first)), "run"),
            TaskEndKind::Semaphore => WaitFact { evidence: how::STATES, ..self.place_of(places, first.object) },
            TaskEndKind::Timer if first.due_ms.is_some_and(|due| due <= SOON_MS) => return None,
            TaskEndKind::Timer => {
                let due = first.due_ms.map_or_else(String::new, |due| format!(" of {}", duration(due)));
                WaitFact { outside: true, ..fact(Some(format!("a timer{due}")), "") }
            }
            TaskEndKind::Posted => {
                fact(Some(format!("{}, queued outside of the thread pool", self.name_of(first))), "")
            }
            TaskEndKind::Circle => fact(Some("tasks that await each other".to_owned()), ""),
            TaskEndKind::Promise => WaitFact { object: first.source.unwrap_or(first.object), ..fact(None, "") },
            TaskEndKind::Source => fact(None, ""),
            TaskEndKind::Done | TaskEndKind::Unknown => return None,
        };
        Some(WaitFact { owners, needs: WaitNeeds::Any, ..found })
    }

    fn owners_of(&self, places: &Places, end: &TaskEnd) -> Vec<WaitOwner> {
        let confidence = if end.exact { Confidence::Exact } else { Confidence::Derived };
        let party = match end.kind {
            TaskEndKind::Thread => end.tid.map(PartyId::Thread),
            TaskEndKind::Pool => Some(PartyId::Pool(POOL)),
            TaskEndKind::Semaphore => return self.place_of(places, end.object).owners,
            _ => None,
        };
        party.map(|party| WaitOwner { party, confidence }).into_iter().collect()
    }

    /// Name of an end's task: the outermost method, else the method that it runs.
    fn name_of(&self, end: &TaskEnd) -> String {
        let method = end.methods.last().cloned().or_else(|| self.item(end.object));
        method.map_or_else(|| "a task".to_owned(), |name| short(&name))
    }
}
