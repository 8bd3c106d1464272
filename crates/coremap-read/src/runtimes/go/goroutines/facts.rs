//! Goroutines as parties of the wait graph.

use std::collections::{HashMap, HashSet};

use super::holders::{self, Candidate};
use super::unwind::{self, PlacedFrame};
use super::waits::{SemaphoreOf, Waited, Waits};
use super::{Goroutine, created_by, is_system, names};
use crate::addr::Addr;
use crate::facts::{ThreadRow, WaitRow};
use crate::image::file_name;
use crate::map::Confidence;
use crate::phase::Phase;
use crate::runtimes::api::{
    Activation, MethodRole, PartyId, RequestSet, TaskDetail, TaskFact, WaitFact, WaitFacts, WaitNeeds, WaitOwner,
};
use crate::runtimes::go::Go;
use crate::words::WaitKind;

/// The function of net/http that serves one connection.
const HTTP_SERVER: &str = "net/http.(*conn).serve";

/// Number of the main goroutine.
const MAIN: u64 = 1;

/// Maximum number of goroutines whose channels are compared with others.
const MAX_WAITERS: usize = 1 << 16;

/// Maximum number of goroutines that are named as users of a collection.
const MAX_USERS: usize = 3;

/// The relation of a lock and its owner.
const HELD: &str = "held";

/// A goroutine whose stack was read.
struct Read<'l> {
    g: &'l Goroutine,
    /// Frames of the program's own functions, innermost first.
    own: Vec<Activation>,
    waited: Waited,
    wait: Option<WaitFact>,
    created_by: Option<Activation>,
}

impl WaitFacts for Go<'_> {
    fn tasks(&self) -> Vec<TaskFact> {
        let (runtime, list, code) = (self.runtime(), self.list(), self.all_code());
        let _phase = runtime.process.enter(Phase::Tasks);
        let waits = Waits::new(runtime, self.types(), list);
        let (mut all, mut candidates) = (Vec::new(), Vec::new());
        for g in list.all.iter().filter(|g| !is_system(code, g)) {
            let (frames, _) = unwind::frames(runtime.process, code, list, g);
            let waited = waits.of(g, names(&frames));
            let of_channel = matches!(waited, Waited::Channels(_));
            let what = |row: &WaitRow| {
                if row.kind == WaitKind::Sleep {
                    return Some("the end of a sleep".to_owned());
                }
                let kind = row.r#type.as_ref().filter(|_| of_channel)?;
                Some(format!("a {} on the {kind} at {}", g.state, row.object))
            };
            let wait = waits.row(g, &waited).map(|row| WaitFact {
                what: what(&row),
                object: row.object,
                r#type: row.r#type,
                relation: if matches!(row.kind, WaitKind::Mutex | WaitKind::ReaderWriter) { HELD } else { "" },
                idle: g.state.starts_with("chan receive")
                    || g.state.starts_with("select")
                    || g.state == "sync.Cond.Wait",
                // A select nearly always has a timeout or a cancellation among its cases.
                soon: row.kind == WaitKind::Sleep || g.state == "select",
                evidence: row.how,
                ..WaitFact::default()
            });
            let own = own_frames(&frames);
            candidates.push(Candidate {
                g,
                receivers: own.iter().filter_map(|frame| holders::receiver(&frame.method.name)).collect(),
                waits_for: lock_of(&waited),
                sp: frames.first().map_or(g.stack.end, |frame| frame.sp),
            });
            all.push(Read { g, own, waited, wait, created_by: created_by(code, g) });
        }
        let likely = holders::likely(runtime, &candidates);
        let tids: HashMap<Addr, u32> =
            all.iter().filter_map(|read| Some((read.g.at, list.thread_of(read.g)?.tid))).collect();
        all.into_iter().map(|read| fact(read, &likely, &tids)).collect()
    }

    fn requests(&self, _threads: &[ThreadRow]) -> Vec<RequestSet> {
        let tasks = self.serving();
        let count = tasks.len() as u64;
        let set = RequestSet { kind: "HTTP request".to_owned(), count, tasks, ..RequestSet::default() };
        (count > 0).then_some(set).into_iter().collect()
    }

    /// Returns goroutines that have one of the objects on their stack and do not run.
    fn users(&self, objects: &[Addr]) -> Vec<TaskFact> {
        let (runtime, list, code) = (self.runtime(), self.list(), self.all_code());
        let Some(heap) = self.objects() else { return Vec::new() };
        let waits = Waits::new(runtime, self.types(), list);
        let mut out = Vec::new();
        // A sleeping main keeps the process alive.
        for g in list.all.iter().filter(|g| !is_system(code, g) && g.id != MAIN) {
            if out.len() >= MAX_USERS {
                break;
            }
            let mut has = false;
            holders::each_word(runtime.memory(), g.used_stack(), |word| {
                has |= heap.object_at(word).is_some_and(|object| objects.contains(&object));
            });
            if !has {
                continue;
            }
            let (frames, _) = unwind::frames(runtime.process, code, list, g);
            let own = own_frames(&frames);
            let waited = waits.of(g, names(&frames));
            let what = match (&waited, waits.row(g, &waited)) {
                // A goroutine that waits for the collection itself is not stuck elsewhere.
                (Waited::Channels(all), _) if all.iter().any(|channel| objects.contains(&channel.at)) => continue,
                (Waited::Poll, _) => {
                    let inner = frames.iter().flat_map(|frame| &frame.place.all).map(|(a, _)| &a.method.name);
                    let call = inner.rev().find(|name| name.starts_with("net.(*"));
                    call.map_or_else(
                        || "a file or socket (IO wait)".to_owned(),
                        |call| format!("a socket (IO wait in {call})"),
                    )
                }
                (Waited::Time, _) => "the end of a sleep".to_owned(),
                (_, Some(row)) => {
                    let kind = row.r#type.as_ref().map_or_else(|| "object".to_owned(), ToString::to_string);
                    format!("a {} ({kind})", g.state)
                }
                (_, None) => continue,
            };
            let name = |frame: &Activation| frame.method.name.clone();
            let wait = WaitFact { what: Some(what), evidence: "the goroutine's state", ..WaitFact::default() };
            out.push(TaskFact {
                address: g.at,
                name: Some(format!("goroutine {}", g.id)),
                place: own.first().map(name),
                caller: own.get(1).map(name),
                wait: Some(wait),
                ..TaskFact::default()
            });
        }
        out
    }

    fn live_bytes(&self) -> u64 {
        self.figures().heap_alloc
    }
}

impl Go<'_> {
    /// Finds a goroutine that waits for one of these channels. Returns its innermost function of the program, with the
    /// line.
    pub(in crate::runtimes::go) fn waiter_on(&self, channels: &HashSet<Addr>) -> Option<String> {
        let (runtime, list, code) = (self.runtime(), self.list(), self.all_code());
        let waits = Waits::new(runtime, self.types(), list);
        let may = |g: &&Goroutine| g.state.starts_with("chan ") || g.state.starts_with("select");
        list.all.iter().filter(may).take(MAX_WAITERS).find_map(|g| {
            let Waited::Channels(all) = waits.of(g, std::iter::empty()) else { return None };
            all.iter().find(|channel| channels.contains(&channel.at))?;
            let (frames, _) = unwind::frames(runtime.process, code, list, g);
            let own = own_frames(&frames).into_iter().next()?;
            let source = &own.position.source;
            let at = source.file.as_deref().zip(source.line);
            let at = at.map_or_else(String::new, |(file, line)| format!(" ({}:{line})", file_name(file)));
            Some(format!("{}{at}", own.method.name))
        })
    }

    /// Returns goroutines that serve a request of net/http: the server's function is on their stack, and above it a
    /// function of the program. An idle keep-alive connection has none above it.
    fn serving(&self) -> Vec<Addr> {
        let (runtime, list, code) = (self.runtime(), self.list(), self.all_code());
        let serves = |g: &&Goroutine| {
            let (frames, _) = unwind::frames(runtime.process, code, list, g);
            let all: Vec<&Activation> = frames.iter().flat_map(|f| f.place.all.iter().map(|(a, _)| a)).collect();
            let server = all.iter().position(|frame| frame.method.name == HTTP_SERVER);
            server.is_some_and(|at| all.iter().take(at).any(|frame| frame.method.role == MethodRole::Program))
        };
        list.all.iter().filter(serves).map(|g| g.at).collect()
    }
}

/// The lock that a goroutine waits for.
fn lock_of(waited: &Waited) -> Option<Addr> {
    match waited {
        Waited::Semaphore(SemaphoreOf::Mutex | SemaphoreOf::ReadWrite, at) => Some(*at),
        _ => None,
    }
}

fn own_frames(frames: &[PlacedFrame]) -> Vec<Activation> {
    let all = frames.iter().flat_map(|frame| &frame.place.all);
    all.filter(|(activation, _)| activation.method.role == MethodRole::Program).map(|(a, _)| a.clone()).collect()
}

fn fact(read: Read<'_>, likely: &HashMap<Addr, Vec<Addr>>, tids: &HashMap<Addr, u32>) -> TaskFact {
    let Read { g, own, waited, wait, created_by } = read;
    let owner = |holder: &Addr| {
        let party = tids.get(holder).map_or(PartyId::Task(*holder), |tid| PartyId::Thread(*tid));
        WaitOwner { party, confidence: Confidence::Derived }
    };
    let holders = lock_of(&waited).and_then(|lock| likely.get(&lock)).map(Vec::as_slice).unwrap_or_default();
    let owners: Vec<WaitOwner> = holders.iter().map(owner).collect();
    let needs = if owners.len() > 1 { WaitNeeds::Any } else { WaitNeeds::All };
    let position = own.first().and_then(|frame| {
        let source = &frame.position.source;
        Some(format!("{}:{}", file_name(source.file.as_deref()?), source.line?))
    });
    let name = |frame: &Activation| frame.method.name.clone();
    let detail = TaskDetail {
        word: "goroutine",
        state: g.state,
        position,
        created_by: created_by.as_ref().map(name),
        stack: g.stack.len(),
        gives: g.state.starts_with("chan send"),
    };
    TaskFact {
        activity: None,
        address: g.at,
        name: Some(format!("goroutine {}", g.id)),
        place: own.first().map(name),
        caller: own.get(1).map(name),
        wait: wait.map(|wait| WaitFact { owners, needs, ..wait }),
        detail: Some(detail),
    }
}
