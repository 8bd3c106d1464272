//! Threads, tasks and pools as parties of the wait graph.

use std::collections::{BTreeMap, HashMap};

use crate::addr::Addr;
use crate::causes::frames::{is_blind, is_nameless, library, source};
use crate::causes::native;
use crate::causes::wait_graph::{Edges, NodeId, WaitGraph};
use crate::causes::wait_rows::{of_row, sleeps};
use crate::map::Confidence;
use crate::native::locks::NativeWait;
use crate::report::{ThreadRow, WaitRow};
use crate::runtimes::api::{
    Activity, Executor, PartyId, RequestSet, TaskDetail, TaskFact, WaitFact, WaitFacts, WaitNeeds, WaitOwner,
};
use crate::targets::threads::UNNUMBERED;
use crate::units::count;

pub(super) use crate::causes::frames::{own_frames, title};

/// A party.
#[derive(Clone, Debug)]
pub(crate) struct Party {
    pub(crate) id: PartyId,
    /// Name that the program gave to the party, else its number.
    pub(crate) name: String,
    /// The innermost method of the program.
    pub(crate) place: Option<String>,
    /// The method of the program that called it.
    pub(crate) caller: Option<String>,
    /// The function of a library or in C that the innermost method of the program calls.
    pub(crate) callee: Option<String>,
    /// Its activity, if it waits for nobody in the process.
    pub(crate) activity: Option<Activity>,
    /// Whether it is the first thread of the program, which starts others and waits for them.
    pub(crate) main: bool,
    /// Whether it is the runtime's thread that runs finalizers.
    pub(crate) finalizer: bool,
    /// Processor time that it used, in milliseconds.
    pub(crate) cpu_ms: Option<u64>,
    pub(crate) wait: Option<WaitFact>,
    /// What makes no progress while the party runs.
    pub(crate) serves: Option<&'static str>,
    /// File and line of the innermost method of the program.
    pub(crate) source: Option<String>,
    /// What a runtime records of a light thread.
    pub(crate) detail: Option<TaskDetail>,
}

impl Party {
    /// Whether the party runs code of the program. Otherwise it is idle.
    pub(crate) fn works(&self) -> bool {
        self.place.is_some()
    }

    /// Returns the activity in words: `is in a socket read (recv) in Feed.next ← Feed.run`.
    pub(crate) fn doing(&self) -> String {
        let activity = self.activity.map(Activity::words);
        match (activity, &self.place) {
            (Some(activity), Some(_)) => match self.callee.as_ref().filter(|_| self.activity == Some(Activity::Runs)) {
                Some(callee) => format!("{activity} in {callee}, called by {}", self.stack()),
                None => format!("{activity} in {}", self.stack()),
            },
            (Some(activity), None) => activity.to_owned(),
            (None, Some(_)) => format!("is in {}", self.stack()),
            (None, None) => "is in unnamed code".to_owned(),
        }
    }

    /// Returns the innermost method and its caller.
    pub(crate) fn stack(&self) -> String {
        match (&self.place, &self.caller) {
            (Some(place), Some(caller)) => format!("{place} ← {caller}"),
            (Some(place), None) => place.clone(),
            (None, _) => "unnamed code".to_owned(),
        }
    }
}

/// Objects whose finalizers are due.
#[derive(Clone, Debug, Default)]
pub(crate) struct DueObjects {
    pub(crate) count: u64,
    /// Their types with the number of objects, most first.
    pub(crate) types: Vec<(String, u64)>,
}

/// Facts for all rules on waits.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    pub(crate) parties: Vec<Party>,
    pub(crate) executors: Vec<Executor>,
    pub(crate) requests: Vec<RequestSet>,
    /// Names of objects by the program's fields.
    pub(crate) labels: HashMap<Addr, String>,
    /// Rings of blocks that running threads follow, in words, by thread ID.
    pub(crate) rings: HashMap<u32, String>,
    /// Number of threads with managed frames without names above the program's own.
    pub(crate) blind: u64,
    /// Objects whose finalizers are due.
    pub(crate) due: Option<DueObjects>,
    /// Bytes of live objects of the runtimes' heaps, as far as they are counted.
    pub(crate) live: u64,
    /// Whether findings may show data of the program.
    pub(crate) show_data: bool,
    by_id: HashMap<PartyId, NodeId>,
}

impl Scene {
    /// Makes parties of threads, with their waits from the runtimes and the native locks.
    pub(crate) fn of_threads(
        threads: &[ThreadRow],
        facts: &[&dyn WaitFacts],
        natives: &BTreeMap<u32, NativeWait>,
    ) -> Scene {
        let mut waits: HashMap<PartyId, WaitFact> = HashMap::new();
        let (mut executors, mut requests) = (Vec::new(), Vec::new());
        for runtime in facts {
            waits.extend(runtime.waits(threads));
            executors.extend(runtime.executors(threads));
            requests.extend(runtime.requests(threads));
        }
        let mut shared: HashMap<&str, usize> = HashMap::new();
        for name in threads.iter().filter_map(system_name) {
            *shared.entry(name).or_default() += 1;
        }
        let is_shared = |name: &str| shared.get(name).is_some_and(|number| *number > 1);
        let party = |thread: &ThreadRow| {
            let id = PartyId::Thread(thread.tid);
            // Functions without a name of their own, such as `<lambda>`, count if there is no other.
            let titles: Vec<String> = own_frames(&thread.frames).map(title).collect();
            let named = titles.iter().filter(|title| !is_nameless(title));
            let mut own = named.chain(&titles).cloned();
            let place = own.next();
            let caller = own.find(|caller| Some(caller) != place.as_ref() && !is_nameless(caller));
            let sleeping = thread.waits_for.as_ref().filter(|row| sleeps(row)).map(|_| Activity::Sleep);
            let activity = sleeping.or_else(|| facts.iter().find_map(|runtime| runtime.activity(thread)));
            let of_row = |row: &WaitRow| {
                // A row has one owner, a native read-write lock may have several.
                let native =
                    natives.get(&thread.tid).filter(|wait| wait.address == row.object && wait.kind == row.kind);
                native.map_or_else(|| of_row(row), native::fact)
            };
            Party {
                id,
                name: match system_name(thread).filter(|name| is_shared(name)) {
                    Some(name) => format!("{name} ({})", thread.tid),
                    None => name(thread),
                },
                caller,
                callee: facts.iter().find_map(|runtime| runtime.callee(thread)).or_else(|| library(&thread.frames)),
                activity: activity.or_else(|| native::activity(thread)),
                cpu_ms: thread.cpu_ms,
                finalizer: thread.role == Some("finalizer"),
                main: thread.role == Some("main") || thread.managed_name.as_deref() == Some("main"),
                wait: waits.remove(&id).or_else(|| thread.waits_for.as_ref().filter(|row| !sleeps(row)).map(of_row)),
                serves: facts.iter().find_map(|runtime| runtime.serves(thread)),
                source: own_frames(&thread.frames).next().and_then(source),
                place,
                detail: None,
            }
        };
        let mut parties: Vec<Party> = threads.iter().map(party).collect();
        parties.extend(facts.iter().flat_map(|runtime| runtime.tasks()).map(of_task));
        let blind = threads.iter().filter(|thread| is_blind(&thread.frames)).count() as u64;
        let live = facts.iter().fold(0, |sum: u64, runtime| sum.saturating_add(runtime.live_bytes()));
        Scene { blind, live, ..Scene::of(parties, executors, requests) }
    }

    /// Creates a scene of these parties.
    pub(crate) fn of(parties: Vec<Party>, executors: Vec<Executor>, requests: Vec<RequestSet>) -> Scene {
        let pools = executors.iter().map(|pool| PartyId::Pool(pool.object));
        let ids = parties.iter().map(|party| party.id).chain(pools);
        let by_id = ids.zip(0..).collect();
        Scene { parties, executors, requests, by_id, ..Scene::default() }
    }

    /// Returns the objects that findings may name.
    pub(crate) fn objects(&self) -> Vec<Addr> {
        let awaited = self.parties.iter().filter_map(|party| Some(party.wait.as_ref()?.object));
        let pools = self.executors.iter().map(|pool| pool.object);
        let mut all: Vec<Addr> = awaited.chain(pools).filter(|at| !at.is_null()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the threads that run code of the program.
    pub(crate) fn running(&self) -> impl Iterator<Item = u32> {
        let runs = self.parties.iter().filter(|party| party.activity == Some(Activity::Runs) && party.works());
        runs.filter_map(|party| match party.id {
            PartyId::Thread(tid) => Some(tid),
            PartyId::Task(_) | PartyId::Pool(_) => None,
        })
    }

    pub(crate) fn party(&self, node: NodeId) -> Option<&Party> {
        self.parties.get(node as usize)
    }

    /// Returns the executor of this node.
    pub(crate) fn pool(&self, node: NodeId) -> Option<&Executor> {
        self.executors.get((node as usize).checked_sub(self.parties.len())?)
    }

    pub(crate) fn node(&self, id: PartyId) -> Option<NodeId> {
        self.by_id.get(&id).copied()
    }

    /// Returns the wait graph. A pool waits for any of its workers.
    pub(crate) fn graph(&self) -> WaitGraph {
        let of_party = |party: &Party| {
            let Some(wait) = party.wait.as_ref().filter(|wait| party.works() || wait.relation == HELD) else {
                return Edges::default();
            };
            // A party that joins itself waits on purpose, as some main threads do.
            let joins_itself = |owner: &&WaitOwner| wait.relation == JOINED && owner.party == party.id;
            let owners = wait.owners.iter().filter(|owner| !joins_itself(owner));
            let to = owners.filter_map(|owner| self.node(owner.party)).collect();
            let exact = wait.owners.iter().all(|owner| owner.confidence == Confidence::Exact);
            Edges { to, needs: wait.needs, exact }
        };
        let of_pool = |pool: &Executor| {
            let to = pool.workers.iter().filter_map(|tid| self.node(PartyId::Thread(*tid))).collect();
            Edges { to, needs: WaitNeeds::Any, exact: true }
        };
        WaitGraph::new(self.parties.iter().map(of_party).chain(self.executors.iter().map(of_pool)).collect())
    }

    /// Names the object of a wait, in the program's words.
    pub(crate) fn noun(&self, wait: &WaitFact) -> String {
        let of_object = || match (self.labels.get(&wait.object), &wait.r#type) {
            (Some(label), _) => label.clone(),
            (None, Some(kind)) => format!("the {kind} at {}", wait.object),
            (None, None) => format!("the object at {}", wait.object),
        };
        let noun = wait.what.clone().unwrap_or_else(of_object);
        match wait.peer.as_ref().filter(|_| self.show_data) {
            Some(peer) => format!("{noun} to {peer}"),
            None => noun,
        }
    }

    /// Returns the name of an executor.
    pub(crate) fn pool_name(&self, pool: &Executor) -> String {
        match self.labels.get(&pool.object) {
            Some(label) => label.clone(),
            None if pool.object.is_null() => format!("the {}", pool.kind),
            None => format!("the {} at {}", pool.kind, pool.object),
        }
    }
}

/// The relation between a thread and the threads that wait for its end.
pub(crate) const JOINED: &str = "joined";

/// The relation between a resource and the party that has borrowed it.
pub(crate) const LENT: &str = "lent";

/// The relation between a lock and its owner.
pub(crate) const HELD: &str = "held";

/// Arguments of the command that shows a thread. A thread without an ID of its own has no option.
pub(super) fn threads_of(tid: u32) -> String {
    if tid < UNNUMBERED { format!("threads --tid {tid}") } else { "threads".to_owned() }
}

pub(super) fn of_task(task: TaskFact) -> Party {
    let name = task.name.unwrap_or_else(|| format!("task {}", task.address));
    let TaskFact { place, caller, activity, wait, detail, .. } = task;
    Party { place, caller, activity, wait, detail, ..Party::new(PartyId::Task(task.address), name) }
}

/// Returns the noun for a party of its kind.
pub(crate) fn word(party: &Party) -> &'static str {
    match party.id {
        _ if party.detail.is_some() => party.detail.as_ref().map_or("task", |detail| detail.word),
        PartyId::Thread(_) => "thread",
        PartyId::Task(_) | PartyId::Pool(_) => "task",
    }
}

/// Returns the name of a native thread. A thread inherits its creator's name unless it gets another.
fn system_name(thread: &ThreadRow) -> Option<&str> {
    let is_native = thread.managed_name.is_none() && thread.managed_id.is_none();
    thread.name.as_deref().filter(|name| is_native && !name.is_empty())
}

impl Party {
    /// Creates a party of which only the name is known.
    pub(super) fn new(id: PartyId, name: String) -> Party {
        Party {
            id,
            name,
            place: None,
            caller: None,
            callee: None,
            activity: None,
            main: false,
            finalizer: false,
            cpu_ms: None,
            wait: None,
            serves: None,
            source: None,
            detail: None,
        }
    }

    /// Returns the name with the number by which tools select the thread, because several may have one name.
    pub(super) fn full_name(&self) -> String {
        match self.id {
            PartyId::Thread(tid) if self.name != format!("thread {tid}") => format!("{} ({tid})", self.name),
            _ => self.name.clone(),
        }
    }
}

fn name(thread: &ThreadRow) -> String {
    let name = thread.managed_name.as_deref().or(thread.name.as_deref()).filter(|name| !name.is_empty());
    name.map_or_else(|| format!("thread {}", thread.tid), str::to_owned)
}

/// Lists names, the first few of many: `a, 3 × b, c and 4 more`.
pub(crate) fn names(parties: &[&Party]) -> String {
    const SHOWN: usize = 4;
    let mut counts: Vec<(&str, usize)> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    for name in parties.iter().map(|party| party.name.as_str()) {
        let at = *known.entry(name).or_insert(counts.len());
        match counts.get_mut(at) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let text = |&(name, count): &(&str, usize)| if count > 1 { format!("{count} × {name}") } else { name.to_owned() };
    let shown: Vec<String> = counts.iter().take(SHOWN).map(text).collect();
    let more = counts.iter().skip(SHOWN).map(|(_, count)| count).sum::<usize>();
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// The object that a party waits for, and the program's function in which it waits.
type WhatAndWhere<'a> = (String, Option<&'a str>);

/// Groups waiters by what they wait for and where: `7 threads wait for A in B.c (x, y …)`.
pub(crate) fn groups(scene: &Scene, nodes: &[NodeId]) -> Vec<String> {
    let mut groups: Vec<(WhatAndWhere<'_>, Vec<&Party>)> = Vec::new();
    let mut known: HashMap<(String, Option<&str>), usize> = HashMap::new();
    for party in nodes.iter().filter_map(|node| scene.party(*node)) {
        let Some(wait) = &party.wait else { continue };
        let key = (scene.noun(wait), party.place.as_deref());
        let at = *known.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        if let Some((_, list)) = groups.get_mut(at) {
            list.push(party);
        }
    }
    groups.sort_by_key(|(_, list)| std::cmp::Reverse(list.len()));
    let text = |((_, _), list): &(_, Vec<&Party>)| {
        let first = list.first()?;
        let noun = scene.noun(first.wait.as_ref()?);
        let verb = if list.len() == 1 { "waits" } else { "wait" };
        let place = first.place.as_deref().map_or_else(String::new, |place| format!(" in {place}"));
        Some(format!("{} {verb} for {noun}{place} ({})", count(list.len() as u64, word(first)), names(list)))
    };
    groups.iter().take(GROUPS).filter_map(text).collect()
}

/// Maximum number of groups of waiters in one finding.
const GROUPS: usize = 4;
