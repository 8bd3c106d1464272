//! Reads of a core: which pages were read (what a shrunk core must keep), which
//! reads failed and in what phase, and reads that are made to fail, for tests.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::addr::{Addr, AddrRange, PAGE};
use crate::phase::Phase;
use crate::targets::budget::{Allowed, Budget};
use crate::targets::byte_set::ByteSet;

/// Stands for no address.
const NONE: u64 = u64::MAX;

/// Why bytes that the headers promise were not had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The read itself failed.
    Failed,
    /// The file ends before them.
    Cut,
    /// The budget of work or memory is spent.
    Spent,
}

impl Loss {
    const ALL: [Loss; 3] = [Loss::Failed, Loss::Cut, Loss::Spent];
}

/// The lowest address that a phase lost, in each way.
struct Lost([AtomicU64; Loss::ALL.len()]);

impl Default for Lost {
    fn default() -> Lost {
        Lost([const { AtomicU64::new(NONE) }; Loss::ALL.len()])
    }
}

/// Bytes that were read, told apart by what for: a core that is scrubbed keeps some of them (docs/sharing.md).
#[derive(Clone, Debug, Default)]
pub struct ReadBytes {
    /// Structures of programs, runtimes and the C library.
    pub structures: ByteSet,
    /// Of these, what was read of threads, locks and tasks: parts of stacks and of objects.
    pub threads: ByteSet,
    /// What malloc, or another allocator, keeps of its blocks.
    pub blocks: ByteSet,
    /// Program files in memory; what was read of mappings that turned out to be none is not told apart.
    pub images: ByteSet,
    /// Bookkeeping of managed heaps, of which some lies in the heaps themselves.
    pub heaps: ByteSet,
    /// What was told to be a structure or a name, wherever it lies ([`Memory::keep`](crate::memory::Memory::keep)).
    pub kept: ByteSet,
    /// Names among these ([`Memory::keep_name`](crate::memory::Memory::keep_name)).
    pub names: HashSet<NameAt>,
}

/// How a name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Script {
    /// UTF-8.
    Utf8,
    /// The same, of a program file or a runtime that everybody has: nobody's own name.
    Public,
    /// UTF-8 of a class or a descriptor of Java (JVMS 4.3).
    Java,
    /// Units of one byte (Latin-1), two bytes (UTF-16) or four.
    Units(u8),
}

/// A name in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameAt {
    /// Where it begins.
    pub at: Addr,
    /// Its bytes.
    pub len: u64,
    /// How it is written.
    pub script: Script,
}

/// What is told of bytes that were read.
#[derive(Clone, Copy)]
enum Told {
    /// Nothing but the phase.
    Nothing,
    /// They are a structure.
    Structure,
    /// They are a name.
    Name(Script),
}

/// Whether what is read in `phase` is looked at for its contents, and is no structure.
fn is_content(phase: Phase) -> bool {
    matches!(
        phase,
        Phase::Strings
            | Phase::Anonymous
            | Phase::Pointers
            | Phase::ZeroPages
            | Phase::Search
            | Phase::Proof
            | Phase::Dump
    )
}

impl ReadBytes {
    fn note(&mut self, phase: Phase, (addr, len): (Addr, u64), told: Told) {
        if !matches!(told, Told::Nothing) && !is_content(phase) {
            self.kept.add(addr, len);
        }
        if let Told::Name(script) = told
            && !is_content(phase)
        {
            self.names.insert(NameAt { at: addr, len, script });
        }
        match phase {
            _ if is_content(phase) => {}
            Phase::Malloc | Phase::MappedChunks | Phase::Blocks => self.blocks.add(addr, len),
            Phase::Modules => self.images.add(addr, len),
            // Other allocators and runtimes are guessed until something proves them, which is told then.
            Phase::Foreign => {}
            Phase::GcHeap => {
                self.structures.add(addr, len);
                self.heaps.add(addr, len);
            }
            Phase::Stacks | Phase::ManagedThreads | Phase::Locks | Phase::Tasks => {
                self.structures.add(addr, len);
                self.threads.add(addr, len);
            }
            _ => self.structures.add(addr, len),
        }
    }
}

/// Bytes that an attempt read.
type Attempt = Vec<(Phase, Addr, u64, Told)>;

thread_local! {
    /// Attempts of this thread that go on, one within the other.
    static ATTEMPTS: RefCell<Vec<Attempt>> = const { RefCell::new(Vec::new()) };
}

/// A record of reads: of those that failed always, of pages and bytes where asked for.
#[derive(Default)]
pub struct Reads {
    bytes: Option<Mutex<ReadBytes>>,
    /// Whether the bytes read were taken: what is read from then on is not recorded.
    taken: AtomicBool,
    pages: Option<Mutex<BTreeSet<u64>>>,
    fault: Option<Fault>,
    phase: AtomicU8,
    lost: [Lost; Phase::ALL.len()],
    budget: Budget,
}

/// A read that is made to fail.
#[derive(Default)]
struct Fault {
    /// Its number, from 1 on.
    at: u64,
    /// Reads so far.
    done: AtomicU64,
    /// Of these, those of memory while no phase was on.
    unnamed: AtomicU64,
}

/// As long as it lives, reads are of one phase.
pub struct InPhase<'a> {
    reads: &'a Reads,
    before: u8,
}

impl Drop for InPhase<'_> {
    fn drop(&mut self) {
        self.reads.phase.store(self.before, Ordering::Relaxed);
    }
}

impl Reads {
    /// A record of pages that is on.
    pub fn recording() -> Reads {
        Reads { pages: Some(Mutex::default()), ..Reads::default() }
    }

    /// A record of bytes that is on.
    pub fn recording_bytes() -> Reads {
        Reads { bytes: Some(Mutex::default()), ..Reads::default() }
    }

    /// Whether bytes are recorded.
    pub fn records_bytes(&self) -> bool {
        self.bytes.is_some()
    }

    /// The bytes read so far; `None` where that was not recorded. What is read from then on is not.
    pub fn take_bytes(&self) -> Option<ReadBytes> {
        self.taken.store(true, Ordering::Relaxed);
        Some(std::mem::take(&mut *self.bytes.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The same record, with the `n`th read (from 1 on) failing.
    #[doc(hidden)]
    #[must_use]
    pub fn failing_at(self, n: u64) -> Reads {
        Reads { fault: Some(Fault { at: n, ..Fault::default() }), ..self }
    }

    /// The same record for a core file of so many bytes: reads fail once the budget of
    /// such a file is spent.
    #[must_use]
    pub(crate) fn within(self, file: u64, allowed: Allowed) -> Reads {
        Reads { budget: Budget::of(file, allowed), ..self }
    }

    /// Bytes of memory that tables may still take which could be in files.
    pub fn room(&self) -> u64 {
        self.budget.room()
    }

    /// The budget of all reads.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What is read from now on is for `phase`. To be called where nothing runs
    /// beside it: all threads that read then do so for this phase.
    #[must_use]
    pub(crate) fn enter(&self, phase: Phase) -> InPhase<'_> {
        InPhase { reads: self, before: self.phase.swap(phase as u8, Ordering::Relaxed) }
    }

    /// What reads are for now.
    pub(crate) fn phase(&self) -> Phase {
        Phase::ALL.get(usize::from(self.phase.load(Ordering::Relaxed))).copied().unwrap_or(Phase::Question)
    }

    /// The same, where no closer phase than the command's question is on.
    pub(crate) fn enter_if_none(&self, phase: Phase) -> InPhase<'_> {
        let now = self.phase.load(Ordering::Relaxed);
        let none = now == Phase::Question as u8;
        self.phase.store(if none { phase as u8 } else { now }, Ordering::Relaxed);
        InPhase { reads: self, before: now }
    }

    /// Whether the read that begins now is the one that fails.
    pub(crate) fn fails(&self) -> bool {
        self.fault.as_ref().is_some_and(|f| f.done.fetch_add(1, Ordering::Relaxed) + 1 == f.at)
    }

    /// Why the read of `len` bytes at `addr` that begins now fails, if it does: it is the
    /// one that is to fail, or the budget is spent. It is remembered with its phase.
    pub(crate) fn refuses(&self, addr: Addr, len: u64) -> Option<Loss> {
        if let Some(fault) = &self.fault
            && self.phase.load(Ordering::Relaxed) == Phase::Question as u8
        {
            fault.unnamed.fetch_add(1, Ordering::Relaxed);
        }
        if self.fails() {
            self.lose(addr, Loss::Failed);
            return Some(Loss::Failed);
        }
        if !self.budget.spend(len) {
            self.lose(addr, Loss::Spent);
            return Some(Loss::Spent);
        }
        None
    }

    /// What the headers promise at `addr` could not be had.
    pub(crate) fn lose(&self, addr: Addr, loss: Loss) {
        let lost = self.lost.get(usize::from(self.phase.load(Ordering::Relaxed)));
        if let Some(first) = lost.and_then(|lost| lost.0.get(loss as usize)) {
            first.fetch_min(addr.get().min(NONE - 1), Ordering::Relaxed);
        }
    }

    /// Phases that could not read what the headers promise, with the lowest address.
    pub(crate) fn losses(&self) -> Vec<(Phase, Loss, Addr)> {
        let all = Phase::ALL.iter().zip(&self.lost);
        let each = all.flat_map(|(&phase, lost)| Loss::ALL.into_iter().zip(&lost.0).map(move |(l, a)| (phase, l, a)));
        let each = each.map(|(phase, loss, first)| (phase, loss, first.load(Ordering::Relaxed)));
        each.filter(|l| l.2 != NONE).map(|(phase, loss, first)| (phase, loss, Addr::new(first))).collect()
    }

    /// Reads so far, where one of them was to fail.
    #[doc(hidden)]
    pub fn counted(&self) -> u64 {
        self.fault.as_ref().map_or(0, |f| f.done.load(Ordering::Relaxed))
    }

    /// Reads of memory so far that no phase was on for, where one read was to fail.
    #[doc(hidden)]
    pub fn unnamed(&self) -> u64 {
        self.fault.as_ref().map_or(0, |f| f.unnamed.load(Ordering::Relaxed))
    }

    /// `len` bytes at `addr` were read.
    pub fn note(&self, addr: Addr, len: u64) {
        self.record(addr, len, Told::Nothing);
        self.note_run(addr, len);
    }

    /// What was found there is a structure.
    pub fn keep(&self, addr: Addr, len: u64) {
        self.record(addr, len, Told::Structure);
    }

    /// What was found there is a name.
    pub fn keep_name(&self, addr: Addr, len: u64, script: Script) {
        self.record(addr, len, Told::Name(script));
    }

    fn recorded(&self) -> Option<&Mutex<ReadBytes>> {
        self.bytes.as_ref().filter(|_| !self.taken.load(Ordering::Relaxed))
    }

    fn record(&self, addr: Addr, len: u64, told: Told) {
        let Some(bytes) = self.recorded() else { return };
        let phase = self.phase();
        let held = ATTEMPTS.with_borrow_mut(|attempts| match attempts.last_mut() {
            Some(attempt) => {
                attempt.push((phase, addr, len, told));
                true
            }
            None => false,
        });
        if !held {
            bytes.lock().unwrap_or_else(PoisonError::into_inner).note(phase, (addr, len), told);
        }
    }

    /// Look whether something is what it may be: bytes that `look` reads are structures where it finds something, and none
    /// where it does not, as they are anything then. It must read on the thread that it is called on, and must not be the
    /// one to fill a cache with more than what it looks for.
    pub(crate) fn attempt<T>(&self, look: impl FnOnce() -> Option<T>) -> Option<T> {
        let Some(bytes) = self.recorded() else { return look() };
        ATTEMPTS.with_borrow_mut(|attempts| attempts.push(Vec::new()));
        let found = look();
        let read = ATTEMPTS.with_borrow_mut(Vec::pop).unwrap_or_default();
        if found.is_some() {
            // Whatever an attempt around it comes to, this was found.
            let mut bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
            read.into_iter().for_each(|(phase, addr, len, told)| bytes.note(phase, (addr, len), told));
        }
        found
    }

    /// So many bytes from there on were passed over by a scan, which looks for something in them.
    pub fn note_run(&self, addr: Addr, len: u64) {
        if let Some(pages) = &self.pages
            && len > 0
        {
            let last = addr.saturating_add(len - 1).get() / PAGE;
            let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
            pages.extend(addr.get() / PAGE..=last);
        }
    }

    /// The pages read so far, as sorted ranges.
    pub fn ranges(&self) -> Vec<AddrRange> {
        let Some(pages) = &self.pages else { return Vec::new() };
        let pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
        crate::addr::union(pages.iter().map(|p| AddrRange::sized(Addr::new(p * PAGE), PAGE)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_of_the_phase_they_fell_in() {
        let reads = Reads::default();
        assert!(reads.losses().is_empty());
        {
            let _modules = reads.enter(Phase::Modules);
            reads.lose(Addr::new(0x2000), Loss::Failed);
            {
                let _malloc = reads.enter(Phase::Malloc);
                reads.lose(Addr::new(0x5000), Loss::Cut);
                let _kept = reads.enter_if_none(Phase::Pointers);
                reads.lose(Addr::MAX, Loss::Failed);
            }
            reads.lose(Addr::new(0x1000), Loss::Failed);
        }
        let _pointers = reads.enter_if_none(Phase::Pointers);
        reads.lose(Addr::new(0x7000), Loss::Cut);
        let found = reads.losses();
        let wanted = [
            (Phase::Modules, Loss::Failed, Addr::new(0x1000)),
            (Phase::Malloc, Loss::Failed, Addr::new(u64::MAX - 1)),
            (Phase::Malloc, Loss::Cut, Addr::new(0x5000)),
            (Phase::Pointers, Loss::Cut, Addr::new(0x7000)),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_an_attempt_reads_counts_where_it_finds_something() {
        let reads = Reads::recording_bytes();
        let read = |at: u64| reads.note(Addr::new(at), 8);
        let found = reads.attempt(|| {
            read(0x1000);
            let within = reads.attempt(|| {
                read(0x2000);
                Some(true)
            });
            assert_eq!(within, Some(true));
            reads.attempt(|| {
                read(0x3000);
                None::<()>
            })
        });
        assert_eq!(found, None);
        read(0x4000);
        let bytes = reads.take_bytes().unwrap_or_default().structures;
        let kept = [0x1000, 0x2000, 0x3000, 0x4000].map(|at| bytes.word(Addr::new(at)) != 0);
        assert_eq!(kept, [false, true, false, true]);
    }

    #[test]
    fn the_nth_read_fails_and_no_other() {
        let reads = Reads::default().failing_at(3);
        let failed: Vec<bool> = (0..5).map(|i| reads.refuses(Addr::new(0x1000 * (i + 1)), 8).is_some()).collect();
        assert_eq!(failed, [false, false, true, false, false]);
        assert_eq!(reads.losses(), [(Phase::Question, Loss::Failed, Addr::new(0x3000))]);
        assert_eq!(reads.counted(), 5);
    }
}
