//! EventPipe, the event log of .NET: the buffers of its open sessions. CoreCLR and NativeAOT share it.
//!
//! A diagnostics tool (dotnet-trace, dotnet-monitor, a profiler) opens a session. Threads that write events get
//! buffers, which the runtime maps and which count as the process's memory until the tool has read them.
//!
//! Nothing in a core names a session, and its structures differ by version. They are found by their shape, starting at
//! the runtime's variables: a session points to its buffer manager, the manager points back and has its size and its
//! limit. Each of its threads has a list of buffers. A list is believed if it is linked in both directions, has as many
//! buffers as it counts, and each of them names the thread of the list (src/native/eventpipe: ep-buffer.h,
//! ep-buffer-manager.h).

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use crate::addr::{Addr, AddrRange, PAGE, WORD};
use crate::image::ModuleKind;
use crate::layout::{EVENT_PIPE, Layout, StructView, ViewError};
use crate::limits;
use crate::map::{Base, Kind};
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::api::EventSession;
use crate::runtimes::clr_gc::sink::Sink;
use crate::sums::{SaturatingAdd, SaturatingSum};

/// Words read of a session.
const SESSION: usize = 64;

/// Words read of a buffer manager, and of each structure that it leads to.
const NODE: usize = 16;

/// Maximum number of pointers from a manager to its first list of buffers: list of threads, its first node, the thread's
/// state, the list of buffers; and two more for other versions.
const LINKS: usize = 6;

/// Words read of a thread. It begins with a pointer for each of 64 sessions.
const THREAD: usize = 96;

/// Maximum number of possible managers that wait to be read: 2 MiB.
const BATCH: usize = 1 << 18;

/// Buffers that one thread filled for one session.
struct List {
    writer: Addr,
    buffers: Vec<(Addr, AddrRange)>,
}

struct Search<'a> {
    process: &'a Process,
    memory: &'a dyn Memory,
    base: &'a Base,
    layout: &'static Layout,
    module: AddrRange,
    walks: Walks,
}

/// Finds the sessions whose buffers contain events. `module`: index of the runtime's module.
pub(crate) fn find(process: &Process, module: usize) -> Vec<EventSession> {
    let Some(module) = process.modules.get(module) else { return Vec::new() };
    let (ModuleKind::Elf(image), Ok(layout)) = (&module.kind, EVENT_PIPE.layout()) else { return Vec::new() };
    let search = Search {
        process,
        memory: &process.memory,
        base: process.base(),
        layout,
        module: module.range,
        walks: Walks::new(Phase::LoaderHeaps, limits::MAX_EVENT_BUFFERS),
    };
    let mut sessions = BTreeSet::new();
    for (_, words) in image.writable_words(search.memory) {
        sessions.extend(words.into_iter().map(Addr::new).filter(|&word| search.may_be_struct(word)));
    }
    let managers = search.managers(&sessions);
    let mut pairs: Vec<(Addr, Addr, (u64, u64))> = Vec::new();
    let mut pages = OnePage::default();
    for session in sessions {
        let words = pages.words(search.memory, session, SESSION);
        let sized = words.into_iter().filter_map(|word| Some((word, *managers.get(&word)?)));
        let fits = |&(manager, _): &(Addr, _)| manager != session && search.points_back(session, manager);
        pairs.extend(sized.filter(fits).map(|(manager, sizes)| (session, manager, sizes)));
    }
    let managers = search.with_lists(pairs.iter().map(|(_, manager, _)| *manager).collect());
    let mut out: Vec<EventSession> = Vec::new();
    for (session, manager, (size, limit)) in pairs {
        if managers.contains(&manager) && !out.iter().any(|found| found.manager == manager) {
            search.memory.keep(manager, NODE as u64 * WORD);
            search.memory.keep(session, SESSION as u64 * WORD);
            let lists = search.lists(manager, size);
            if lists.is_empty() {
                continue;
            }
            let tids: HashSet<u64> = process.threads().iter().map(|thread| u64::from(thread.tid)).collect();
            let writers: BTreeSet<Addr> = lists.iter().map(|list| list.writer).collect();
            out.push(EventSession {
                manager,
                size,
                limit,
                waiting: lists.iter().map(|list| list.buffers.len().saturating_sub(1) as u64).saturating_sum(),
                writers: writers.len() as u64,
                threads: writers.iter().filter_map(|&writer| search.thread(writer, &tids)).collect(),
                buffers: lists.into_iter().flat_map(|list| list.buffers).collect(),
            });
            if out.len() >= limits::MAX_EVENT_SESSIONS {
                return out;
            }
        }
    }
    out
}

/// Claims the buffers of the sessions.
pub(crate) fn claim(sessions: &[EventSession], out: &mut Sink<'_>) {
    for session in sessions {
        for (at, range) in &session.buffers {
            let detail = format!("events of the session with the buffer manager at {}", session.manager);
            out.exact(*range, Kind::EventPipeBuffer, &detail, &format!("EventPipeBuffer at {at}"));
        }
    }
}

impl Search<'_> {
    /// Returns up to `count` words from `at` on.
    fn words(&self, at: Addr, count: usize) -> Vec<Addr> {
        words(self.memory, at, count)
    }

    /// Finds the structures that the sessions point to and that have the sizes of a buffer manager. Few have.
    ///
    /// Many sessions lead to the same structures. So each is read once a batch, by address, a page at a time.
    fn managers(&self, sessions: &BTreeSet<Addr>) -> HashMap<Addr, (u64, u64)> {
        let mut out = HashMap::new();
        let (mut of_sessions, mut of_managers) = (OnePage::default(), OnePage::default());
        let mut batch: Vec<Addr> = Vec::new();
        let mut sessions = sessions.iter().peekable();
        while let Some(&session) = sessions.next() {
            let words = of_sessions.words(self.memory, session, SESSION);
            batch.extend(words.into_iter().filter(|word| !word.is_null() && word.is_aligned(WORD)));
            if batch.len() < BATCH && sessions.peek().is_some() {
                continue;
            }
            batch.sort_unstable();
            batch.dedup();
            for manager in batch.drain(..).filter(|&word| self.may_be_struct(word)) {
                let found = sizes(&of_managers.words(self.memory, manager, NODE));
                out.extend(found.map(|sizes| (manager, sizes)));
            }
        }
        out
    }

    /// Whether `at` is an address that an allocator could return: aligned, and in writable memory outside the module.
    fn may_be_struct(&self, at: Addr) -> bool {
        let is_writable = || self.base.at(at).is_some_and(|entry| entry.perms.is_some_and(|perms| perms.write));
        !at.is_null() && at.is_aligned(WORD) && !self.module.contains(at) && is_writable()
    }

    /// Whether a manager has a pointer to the session that points to it.
    fn points_back(&self, session: Addr, manager: Addr) -> bool {
        self.words(manager, NODE).contains(&session)
    }

    /// Returns those managers of which a list of buffers is near. Many other structures have two sizes and a pointer back,
    /// and lead to all of the heap.
    fn with_lists(&self, managers: HashSet<Addr>) -> HashSet<Addr> {
        let mut out = HashSet::new();
        let limit = limits::MAX_EVENT_STRUCTS.saturating_mul(managers.len());
        let mut seen = managers.clone();
        let mut level: Vec<Addr> = managers.iter().copied().collect();
        for link in 0..=LINKS {
            let mut next = Vec::new();
            for at in level {
                let words = self.words(at, NODE);
                for (i, &word) in words.iter().enumerate() {
                    let manager = words.get(i + 1).filter(|&word| managers.contains(word) && !out.contains(word));
                    let list =
                        |&manager: &Addr| self.list(at.saturating_add(WORD * i as u64), manager).map(|_| manager);
                    out.extend(manager.and_then(list));
                    if link < LINKS && seen.len() < limit && self.may_be_struct(word) && seen.insert(word) {
                        next.push(word);
                    }
                }
            }
            level = next;
        }
        out
    }

    /// Searches the structures that the manager leads to for lists of its buffers. Ends when they have `size` bytes.
    fn lists(&self, manager: Addr, size: u64) -> Vec<List> {
        let mut out: Vec<List> = Vec::new();
        let mut seen = HashSet::from([manager]);
        let mut queue = VecDeque::from([manager]);
        let (mut buffers, mut bytes) = (HashSet::new(), 0_u64);
        while let Some(at) = queue.pop_front() {
            let words = self.words(at, NODE);
            for (i, &word) in words.iter().enumerate() {
                // A list begins with its thread and its manager.
                let begins_list = words.get(i + 1) == Some(&manager);
                let list_at = at.saturating_add(WORD * i as u64);
                if let Some(list) = begins_list.then(|| self.list(list_at, manager)).flatten() {
                    if list.buffers.iter().all(|(at, _)| buffers.insert(*at)) {
                        bytes.add_saturating(list.buffers.iter().map(|(_, range)| range.len()).saturating_sum());
                        out.push(list);
                    }
                    if bytes >= size {
                        return out;
                    }
                }
                if seen.len() < limits::MAX_EVENT_STRUCTS && self.may_be_struct(word) && seen.insert(word) {
                    queue.push_back(word);
                }
            }
        }
        out
    }

    /// Returns the list at `at`, if all of its links and counts agree.
    fn list(&self, at: Addr, manager: Addr) -> Option<List> {
        self.process.reads().attempt(|| {
            let view = StructView::new(self.memory, self.layout, "EventPipeBufferList", at);
            let count = view.u32("buffer_count").ok().filter(|&count| count > 0)?;
            let (head, tail) = (view.ptr("head_buffer").ok()?, view.ptr("tail_buffer").ok()?);
            let writer = view.ptr("thread_holder").ok()?;
            if view.ptr("manager").ok()? != manager || !self.may_be_struct(head) {
                return None;
            }
            let mut buffers: Vec<(Addr, AddrRange)> = Vec::new();
            let walk = self.walks.begin_own_set().at_most(count as usize);
            let end = walk.follow(head, |at| {
                let (range, next) = self.buffer(at, writer, buffers.last().map_or(Addr::NULL, |(last, _)| *last))?;
                // A list that proves wrong ends here.
                buffers.extend(range.map(|range| (at, range)));
                Ok::<_, ViewError>(if range.is_some() { next } else { Addr::NULL })
            });
            let whole = buffers.len() == count as usize && buffers.last().is_some_and(|(last, _)| *last == tail);
            (end.is_ok() && whole).then_some(List { writer, buffers })
        })
    }

    /// Returns the memory of one buffer and the next buffer's address. No memory if it is not a buffer of this list.
    fn buffer(&self, at: Addr, writer: Addr, previous: Addr) -> Result<(Option<AddrRange>, Addr), ViewError> {
        let view = StructView::new(self.memory, self.layout, "EventPipeBuffer", at);
        let (start, current, limit) = (view.ptr("buffer")?, view.ptr("current")?, view.ptr("limit")?);
        let linked = view.ptr("prev_buffer")? == previous && view.ptr("writer_thread")? == writer;
        let ordered = start < limit && start <= current && current <= limit;
        let range = AddrRange::new(start, limit.max(start));
        let paged = start.is_aligned(PAGE) && limit.is_aligned(PAGE) && range.len() <= limits::MAX_RUNTIME_RANGE;
        let mapped = self.base.at(start).is_some_and(|entry| entry.file.is_none());
        Ok(((linked && ordered && paged && mapped).then_some(range), view.ptr("next_buffer")?))
    }

    /// Returns the ID of the thread that an EventPipeThread describes: its first word that is one of `tids`.
    fn thread(&self, at: Addr, tids: &HashSet<u64>) -> Option<u32> {
        let words = self.words(at, THREAD);
        let (i, found) = words.iter().enumerate().find(|(_, word)| tids.contains(&word.get()))?;
        self.memory.keep(at.saturating_add(WORD * i as u64), WORD);
        u32::try_from(found.get()).ok()
    }
}

/// Returns up to `count` words from `at` on.
fn words(memory: &dyn Memory, at: Addr, count: usize) -> Vec<Addr> {
    let len = memory.readable(at, (count as u64).saturating_mul(WORD));
    to_words(&memory.look(at, len as usize).unwrap_or_default())
}

fn to_words(bytes: &[u8]) -> Vec<Addr> {
    bytes.as_chunks::<8>().0.iter().map(|word| Addr::new(u64::from_le_bytes(*word))).collect()
}

/// Returns the bytes of all buffers and their limit, if a buffer manager may begin with `words`.
fn sizes(words: &[Addr]) -> Option<(u64, u64)> {
    let (is_page, longest) = (|word: &Addr| word.is_aligned(PAGE), limits::MAX_RUNTIME_RANGE);
    words.windows(2).find_map(|pair| {
        let [size, limit] = pair else { return None };
        let fits = !size.is_null() && size <= limit && limit.get() <= longest && is_page(size) && is_page(limit);
        fits.then(|| (size.get(), limit.get()))
    })
}

/// The page that was read last. Structures are read by address, and many are on one page.
#[derive(Default)]
struct OnePage {
    start: Addr,
    bytes: Vec<u8>,
}

impl OnePage {
    /// Returns up to `count` words from `at` on.
    fn words(&mut self, memory: &dyn Memory, at: Addr, count: usize) -> Vec<Addr> {
        let start = at.align_down(PAGE);
        if self.start != start || self.bytes.is_empty() {
            let len = memory.readable(start, PAGE) as usize;
            *self = OnePage { start, bytes: memory.look(start, len).unwrap_or_default() };
        }
        let from = at.since(start) as usize;
        let within = self.bytes.get(from..from.saturating_add(count.saturating_mul(WORD as usize)));
        // The others end on the next page.
        within.map_or_else(|| words(memory, at, count), to_words)
    }
}
