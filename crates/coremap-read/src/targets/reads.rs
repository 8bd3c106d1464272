//! The record of reads: which pages were read (a shrunk core contains them), which reads failed in which phase, and
//! reads that fail on purpose in tests.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::addr::{Addr, AddrRange, PAGE};
use crate::phase::Phase;
use crate::targets::budget::{Budget, UserLimits};
use crate::targets::byte_set::ByteSet;
use crate::targets::deadline::Deadline;

/// Represents no address.
const NONE: u64 = u64::MAX;

/// Why bytes that the headers promise could not be read.
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

/// The lowest address that a phase could not read, by reason.
struct Lost([AtomicU64; Loss::ALL.len()]);

impl Default for Lost {
    fn default() -> Lost {
        Lost([const { AtomicU64::new(NONE) }; Loss::ALL.len()])
    }
}

/// The bytes that were read, by purpose. A scrubbed core retains some of them (docs/sharing.md).
#[derive(Clone, Debug, Default)]
pub struct ReadBytes {
    /// Structures of programs, runtimes and the C library.
    pub structures: ByteSet,
    /// The part of `structures` read for threads, locks and tasks: parts of stacks and of objects.
    pub threads: ByteSet,
    /// Metadata of malloc or another allocator about its blocks.
    pub blocks: ByteSet,
    /// Program files in memory. Includes reads of mappings that turned out not to be program files.
    pub images: ByteSet,
    /// Bookkeeping of managed heaps, some of which is in the heaps themselves.
    pub heaps: ByteSet,
    /// Bytes declared to be a structure or a name, in any memory ([`Memory::keep`](crate::memory::Memory::keep)).
    pub kept: ByteSet,
    /// The names among these ([`Memory::keep_name`](crate::memory::Memory::keep_name)).
    pub names: HashSet<NameAt>,
}

/// Encoding of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Script {
    /// UTF-8.
    Utf8,
    /// UTF-8 in a program file or runtime that is publicly available, so that it is not the program's own name.
    Public,
    /// UTF-8 name of a Java class, or a descriptor (JVMS 4.3).
    Java,
    /// Units of one byte (Latin-1), two bytes (UTF-16) or four.
    Units(u8),
}

/// A name in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameAt {
    /// Address of the name.
    pub at: Addr,
    /// Length in bytes.
    pub len: u64,
    /// Encoding.
    pub script: Script,
}

/// Declaration of a reader about bytes that it read.
#[derive(Clone, Copy)]
enum Told {
    /// Nothing; the phase decides.
    Nothing,
    /// The bytes are a structure.
    Structure,
    /// The bytes are a name.
    Name(Script),
}

/// Whether reads in `phase` look at contents, not at structures.
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
    fn note(&mut self, phase: Phase, (addr, len): (Addr, u64), learned: Told) {
        if !matches!(learned, Told::Nothing) && !is_content(phase) {
            self.kept.add(addr, len);
        }
        if let Told::Name(script) = learned
            && !is_content(phase)
        {
            self.names.insert(NameAt { at: addr, len, script });
        }
        match phase {
            _ if is_content(phase) => {}
            Phase::Malloc | Phase::MappedChunks | Phase::Blocks => self.blocks.add(addr, len),
            Phase::Modules => self.images.add(addr, len),
            // Other allocators and runtimes are guesses until something proves them. The recogniser then declares what
            // it read.
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

/// The reads of an attempt.
type Attempt = Vec<(Phase, Addr, u64, Told)>;

thread_local! {
    /// The active attempts of this thread, innermost last.
    static ATTEMPTS: RefCell<Vec<Attempt>> = const { RefCell::new(Vec::new()) };
}

/// A record of reads. Failures are always recorded, pages and bytes only on request.
#[derive(Default)]
pub struct Reads {
    bytes: Option<Mutex<ReadBytes>>,
    /// Whether [`Reads::take_bytes`] was called. Later reads are not recorded.
    taken: AtomicBool,
    pages: Option<Mutex<BTreeSet<u64>>>,
    fault: Option<Fault>,
    phase: AtomicU8,
    lost: [Lost; Phase::ALL.len()],
    budget: Budget,
    deadline: Arc<Deadline>,
}

/// A read that must fail, for tests.
#[derive(Default)]
struct Fault {
    /// Number of that read, counted from 1.
    at: u64,
    /// Number of reads so far.
    done: AtomicU64,
    /// Number of memory reads so far outside all phases.
    unnamed: AtomicU64,
}

/// Sets the phase of reads while it lives.
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
    /// Creates a record that stores pages.
    pub fn recording() -> Reads {
        Reads { pages: Some(Mutex::default()), ..Reads::default() }
    }

    /// Creates a record that stores bytes.
    pub fn recording_bytes() -> Reads {
        Reads { bytes: Some(Mutex::default()), ..Reads::default() }
    }

    /// Whether bytes are recorded.
    pub fn records_bytes(&self) -> bool {
        self.bytes.is_some()
    }

    /// Takes the bytes read so far. Later reads are not recorded. `None` if bytes are not recorded.
    pub fn take_bytes(&self) -> Option<ReadBytes> {
        self.taken.store(true, Ordering::Relaxed);
        Some(std::mem::take(&mut *self.bytes.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Makes the `n`th read fail, counted from 1.
    #[doc(hidden)]
    #[must_use]
    pub fn failing_at(self, n: u64) -> Reads {
        Reads { fault: Some(Fault { at: n, ..Fault::default() }), ..self }
    }

    /// Sets the budget for a core file of `file` bytes. Reads fail once it is spent.
    #[must_use]
    pub(crate) fn within(self, file: u64, allowed: UserLimits) -> Reads {
        Reads { budget: Budget::of(file, allowed), ..self }
    }

    /// Bytes of memory left for tables that could be in files instead.
    pub fn spill_headroom(&self) -> u64 {
        self.budget.spill_headroom()
    }

    /// The budget of all reads.
    #[doc(hidden)]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The time limit of the current analysis.
    #[doc(hidden)]
    pub fn deadline(&self) -> &Arc<Deadline> {
        &self.deadline
    }

    /// Attributes all following reads to `phase`, until the guard is dropped. Don't call it while other threads read
    /// for another phase.
    #[must_use]
    #[doc(hidden)]
    pub fn enter(&self, phase: Phase) -> InPhase<'_> {
        InPhase { reads: self, before: self.phase.swap(phase as u8, Ordering::Relaxed) }
    }

    /// The current phase.
    pub(crate) fn phase(&self) -> Phase {
        Phase::ALL.get(usize::from(self.phase.load(Ordering::Relaxed))).copied().unwrap_or(Phase::Question)
    }

    /// Enters `phase`, unless a more specific phase than the command's own is active.
    pub(crate) fn enter_if_none(&self, phase: Phase) -> InPhase<'_> {
        let now = self.phase.load(Ordering::Relaxed);
        let none = now == Phase::Question as u8;
        self.phase.store(if none { phase as u8 } else { now }, Ordering::Relaxed);
        InPhase { reads: self, before: now }
    }

    /// Counts a read. Returns whether it is the one that must fail.
    pub(crate) fn fails(&self) -> bool {
        self.fault.as_ref().is_some_and(|f| f.done.fetch_add(1, Ordering::Relaxed) + 1 == f.at)
    }

    /// Counts a read of `len` bytes at `addr`. Returns why it must fail, if so: a test's fault, or a spent budget. The
    /// failure is recorded with its phase.
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

    /// Records that bytes at `addr`, which the headers promise, could not be read.
    pub(crate) fn lose(&self, addr: Addr, loss: Loss) {
        let lost = self.lost.get(usize::from(self.phase.load(Ordering::Relaxed)));
        if let Some(first) = lost.and_then(|lost| lost.0.get(loss as usize)) {
            first.fetch_min(addr.get().min(NONE - 1), Ordering::Relaxed);
        }
    }

    /// The phases that could not read bytes promised by the headers, with the lowest address.
    pub(crate) fn losses(&self) -> Vec<(Phase, Loss, Addr)> {
        let all = Phase::ALL.iter().zip(&self.lost);
        let each = all.flat_map(|(&phase, lost)| Loss::ALL.into_iter().zip(&lost.0).map(move |(l, a)| (phase, l, a)));
        let each = each.map(|(phase, loss, first)| (phase, loss, first.load(Ordering::Relaxed)));
        each.filter(|l| l.2 != NONE).map(|(phase, loss, first)| (phase, loss, Addr::new(first))).collect()
    }

    /// Number of reads so far, if one was to fail.
    #[doc(hidden)]
    pub fn counted(&self) -> u64 {
        self.fault.as_ref().map_or(0, |f| f.done.load(Ordering::Relaxed))
    }

    /// Number of memory reads so far outside all phases, if one read was to fail.
    #[doc(hidden)]
    pub fn unnamed(&self) -> u64 {
        self.fault.as_ref().map_or(0, |f| f.unnamed.load(Ordering::Relaxed))
    }

    /// Records that `len` bytes at `addr` were read.
    pub fn note(&self, addr: Addr, len: u64) {
        self.record(addr, len, Told::Nothing);
        self.note_run(addr, len);
    }

    /// Declares that `len` bytes at `addr` are a structure.
    pub fn keep(&self, addr: Addr, len: u64) {
        self.record(addr, len, Told::Structure);
    }

    /// Declares that `len` bytes at `addr` are a name.
    pub fn keep_name(&self, addr: Addr, len: u64, script: Script) {
        self.record(addr, len, Told::Name(script));
    }

    fn recorded(&self) -> Option<&Mutex<ReadBytes>> {
        self.bytes.as_ref().filter(|_| !self.taken.load(Ordering::Relaxed))
    }

    fn record(&self, addr: Addr, len: u64, learned: Told) {
        let Some(bytes) = self.recorded() else { return };
        let phase = self.phase();
        let held = ATTEMPTS.with_borrow_mut(|attempts| match attempts.last_mut() {
            Some(attempt) => {
                attempt.push((phase, addr, len, learned));
                true
            }
            None => false,
        });
        if !held {
            bytes.lock().unwrap_or_else(PoisonError::into_inner).note(phase, (addr, len), learned);
        }
    }

    /// Runs a guess. The bytes that `look` reads count as structures if it returns something, and are not recorded if
    /// it returns `None`, because they may be anything. `look` must read on the calling thread. It must not fill a
    /// cache with more than what it looks for.
    pub(crate) fn attempt<T>(&self, look: impl FnOnce() -> Option<T>) -> Option<T> {
        let Some(bytes) = self.recorded() else { return look() };
        ATTEMPTS.with_borrow_mut(|attempts| attempts.push(Vec::new()));
        let found = look();
        let read = ATTEMPTS.with_borrow_mut(Vec::pop).unwrap_or_default();
        if found.is_some() {
            // This was found, even if an enclosing attempt fails.
            let mut bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
            read.into_iter().for_each(|(phase, addr, len, learned)| bytes.note(phase, (addr, len), learned));
        }
        found
    }

    /// Records the pages of `len` bytes at `addr`, which a scan visited.
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
