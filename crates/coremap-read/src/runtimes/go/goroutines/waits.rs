//! What a goroutine waits for.
//!
//! Go records the channel of a send or receive, and the address of a semaphore. It does not record who holds a mutex.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::channels::Channel;
use super::list::{Goroutine, List};
use super::semaphores;
use crate::addr::Addr;
use crate::facts::WaitRow;
use crate::limits;
use crate::map::Confidence;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::runtime::Runtime;
use crate::runtimes::go::types::Types;
use crate::words::WaitKind;

/// Distance from the start of a `sync.Mutex` to its semaphore (state, sema).
const MUTEX_SEMA: u64 = 4;

/// Maximum number of channels of one `select` that are read.
const MAX_CASES: usize = 64;

/// Kind of a lock or counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::go) enum SemaphoreOf {
    Mutex,
    ReadWrite,
    WaitGroup,
    Other,
}

/// What a goroutine waits for.
#[derive(Clone, Debug)]
pub(in crate::runtimes::go) enum Waited {
    /// A channel, or several in a `select`.
    Channels(Vec<Channel>),
    /// A semaphore at this address.
    Semaphore(SemaphoreOf, Addr),
    /// The clock.
    Time,
    /// The network, or a file.
    Poll,
    /// Something that is not read.
    Other,
}

/// Reads what goroutines wait for. Each channel is read once.
pub(in crate::runtimes::go) struct Waits<'r, 'p> {
    runtime: &'r Runtime<'p>,
    types: &'r Types<'p>,
    list: &'r List,
    walks: Walks,
    semaphores: OnceLock<HashMap<Addr, Addr>>,
}

impl<'r, 'p> Waits<'r, 'p> {
    pub(in crate::runtimes::go) fn new(
        runtime: &'r Runtime<'p>,
        types: &'r Types<'p>,
        list: &'r List,
    ) -> Waits<'r, 'p> {
        let walks = Walks::new(Phase::Locks, limits::MAX_GO_WAITERS);
        Waits { runtime, types, list, walks, semaphores: OnceLock::new() }
    }

    /// What a goroutine waits for. `frames`: names of its functions.
    pub(in crate::runtimes::go) fn of<'n>(&self, g: &Goroutine, mut frames: impl Iterator<Item = &'n str>) -> Waited {
        if semaphores::is_semaphore(g.state) {
            let all = self.semaphores.get_or_init(|| semaphores::waits(self.runtime, self.list));
            let Some(at) = all.get(&g.at) else { return Waited::Other };
            // Before 1.20 all these waits have one state, so the functions on the stack decide.
            let of = frames.find_map(|name| match name {
                _ if name.contains("sync.(*RWMutex).") => Some(SemaphoreOf::ReadWrite),
                _ if name.contains("sync.(*WaitGroup).") => Some(SemaphoreOf::WaitGroup),
                _ if name.contains("sync.(*Mutex).") => Some(SemaphoreOf::Mutex),
                _ => None,
            });
            return Waited::Semaphore(of.unwrap_or(SemaphoreOf::Other), *at);
        }
        match g.state {
            "sleep" => Waited::Time,
            "IO wait" => Waited::Poll,
            _ if g.state.starts_with("chan ") || g.state.starts_with("select") => {
                let channels = self.channels(g);
                if channels.is_empty() { Waited::Other } else { Waited::Channels(channels) }
            }
            _ => Waited::Other,
        }
    }

    fn channels(&self, g: &Goroutine) -> Vec<Channel> {
        let (memory, shape) = (self.runtime.memory(), &self.runtime.shape().sudog);
        let mut out = Vec::new();
        let _ = self.walks.begin_own_set().at_most(MAX_CASES).follow(g.waiting, |at| {
            let r = Record::read(memory, at, shape.size).ok_or("is not in the core")?;
            if r.ptr(shape.g) != g.at {
                return Err("is another goroutine's");
            }
            out.extend(Channel::read(self.runtime, self.types, r.ptr(shape.c)));
            Ok(r.ptr(shape.waitlink))
        });
        out
    }

    /// The row for `threads`.
    pub(in crate::runtimes::go) fn row(&self, g: &Goroutine, waited: &Waited) -> Option<WaitRow> {
        let row = |kind, object, r#type: Option<String>, how| {
            Some(WaitRow { kind, object, r#type, how, confidence: Confidence::Exact, ..WaitRow::default() }.completed())
        };
        match waited {
            Waited::Channels(all) => {
                let first = all.first()?;
                let name = first.type_name(self.types);
                row(WaitKind::Channel, first.at, name, "sudog.c of the goroutine's waiting list")
            }
            Waited::Semaphore(of, at) => {
                let how = "the runtime's table of semaphores";
                let start = at.saturating_sub(MUTEX_SEMA);
                match of {
                    SemaphoreOf::Mutex => row(WaitKind::Mutex, start, Some("sync.Mutex".into()), how),
                    SemaphoreOf::ReadWrite => row(WaitKind::ReaderWriter, *at, Some("sync.RWMutex".into()), how),
                    SemaphoreOf::WaitGroup => row(WaitKind::Countdown, *at, Some("sync.WaitGroup".into()), how),
                    SemaphoreOf::Other => row(WaitKind::Semaphore, *at, None, how),
                }
            }
            Waited::Time => row(WaitKind::Sleep, g.at, None, "the goroutine's wait reason"),
            Waited::Poll | Waited::Other => None,
        }
    }
}
