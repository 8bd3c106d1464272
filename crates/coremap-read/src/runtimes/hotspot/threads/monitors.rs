//! Monitors: which thread holds which object's lock.
//!
//! src/hotspot/share/runtime: objectMonitor.hpp, synchronizer.cpp, lockStack.hpp, basicLock.hpp; oops/markWord.hpp. An
//! object's lock has one of three forms:
//!
//! - an ObjectMonitor;
//! - a BasicLock in a frame of the holder, to which the object's first word points;
//! - since JDK 21, an entry of the holder's LockStack.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::memory::walk::{Broken, Walks};
use crate::phase::Phase;
use crate::runtimes::hotspot::classes::{Classes, WORD};
use crate::runtimes::hotspot::heap::Spaces;
use crate::runtimes::hotspot::threads::JavaThread;
use crate::runtimes::hotspot::vm::VmError;

/// Value of `LockingMode` for lock stacks instead of BasicLocks (LM_LIGHTWEIGHT).
const LIGHTWEIGHT: u64 = 2;

/// The lowest bits of an object's first word (markWord): the form of its lock.
mod mark {
    pub(super) const LOCK_MASK: u64 = 3;
    pub(super) const STACK_LOCKED: u64 = 0;
    pub(super) const UNLOCKED: u64 = 1;
    pub(super) const MONITOR: u64 = 2;
}

/// Evidence that a thread holds a lock.
mod how {
    pub(super) const MONITOR: &str = "its ObjectMonitor names the thread";
    pub(super) const LOCK_STACK: &str = "it is on the thread's LockStack";
    pub(super) const STACK: &str = "its first word points to a BasicLock on the thread's stack";
}

/// A lock that a thread holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// The locked object.
    pub object: Addr,
    /// Evidence, for reports.
    pub how: &'static str,
    /// Confidence that the thread holds it.
    pub confidence: Confidence,
}

/// The holder of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOwner {
    /// The thread with this JavaThread.
    Thread(Addr),
    /// The virtual thread with this number (`Thread.threadId()`).
    Number(u64),
}

/// The monitors of one VM.
pub struct Monitors<'c, 'p> {
    classes: &'c Classes<'p>,
    threads: &'c [JavaThread],
    addresses: HashSet<Addr>,
    /// Stacks with their threads, by address.
    stacks: Vec<(AddrRange, Addr)>,
    /// Threads by the number in ObjectMonitors, from JDK 23 on (`JavaThread::_monitor_owner_id`).
    numbers: HashMap<u64, Addr>,
    /// Whether the VM lists all ObjectMonitors: since JDK 17.
    listed: bool,
    held: HashMap<Addr, BTreeMap<Addr, HeldLock>>,
}

impl<'c, 'p> Monitors<'c, 'p> {
    /// Reads which thread holds which lock. What cannot be read is described in `notes`.
    pub fn read(
        classes: &'c Classes<'p>,
        threads: &'c [JavaThread],
        spaces: Option<&Spaces>,
        notes: &mut Vec<String>,
    ) -> Monitors<'c, 'p> {
        let vm = &classes.vm;
        let number = |thread: &JavaThread| {
            let number = vm.at("JavaThread", thread.address).number("_monitor_owner_id").ok()?;
            Some((number, thread.address))
        };
        let numbers = threads.iter().filter_map(number).collect();
        let addresses = threads.iter().map(|thread| thread.address).collect();
        let mut stacks: Vec<_> = threads.iter().filter_map(|thread| Some((thread.stack?, thread.address))).collect();
        stacks.sort_by_key(|(stack, _)| stack.start);
        let held = HashMap::new();
        let mut out = Monitors { classes, threads, addresses, stacks, numbers, listed: false, held };
        out.lock_stacks();
        out.list(notes);
        if vm.int_flag("LockingMode") != Some(LIGHTWEIGHT) || !out.listed {
            out.stacks(spaces);
        }
        out
    }

    /// Returns the locks of each thread, by JavaThread and object.
    pub fn into_held(self) -> HashMap<Addr, BTreeMap<Addr, HeldLock>> {
        self.held
    }

    /// Returns the object of an ObjectMonitor.
    pub fn object(&self, monitor: Addr) -> Option<Addr> {
        let at = self.classes.vm.at("ObjectMonitor", monitor).addr_of("_object").ok()?;
        let is_object = |object: &Addr| !object.is_null() && self.classes.class_of(*object).is_some();
        // A WeakHandle since JDK 16, the reference itself before.
        let by_handle = self.classes.handle(at).ok().filter(is_object);
        by_handle.or_else(|| {
            let word = self.classes.vm.memory.u64(at).ok()?;
            Some(self.classes.encoding.wide(word)).filter(is_object)
        })
    }

    /// Returns the holder of an ObjectMonitor.
    pub fn owner(&self, monitor: Addr) -> Option<LockOwner> {
        let vm = &self.classes.vm;
        let at = vm.at("ObjectMonitor", monitor).addr_of("_owner").ok()?;
        let owner = vm.memory.u64(at).ok().filter(|&owner| owner != 0)?;
        if let Some(&thread) = self.numbers.get(&owner) {
            return Some(LockOwner::Thread(thread));
        }
        // Another thread made the monitor, and did not know who held the lock.
        let anonymous = vm.constant("ObjectMonitor::ANONYMOUS_OWNER").unwrap_or(1) as u64;
        if owner == anonymous {
            let object = self.object(monitor)?;
            let holds = |(_, held): &(&Addr, &BTreeMap<Addr, HeldLock>)| held.contains_key(&object);
            return self.held.iter().find(holds).map(|(&thread, _)| LockOwner::Thread(thread));
        }
        if !self.numbers.is_empty() {
            let first = limits::FIRST_JAVA_THREAD_NUMBER;
            return (owner >= first).then_some(LockOwner::Number(owner));
        }
        // Up to JDK 22 the owner is a JavaThread, or a BasicLock on its stack.
        let owner = Addr::new(owner);
        if self.addresses.contains(&owner) {
            return Some(LockOwner::Thread(owner));
        }
        let after = self.stacks.partition_point(|(stack, _)| stack.start <= owner);
        let (stack, thread) = self.stacks.get(after.checked_sub(1)?)?;
        stack.contains(owner).then_some(LockOwner::Thread(*thread))
    }

    fn add(&mut self, thread: Addr, object: Addr, how: &'static str, confidence: Confidence) {
        let held = self.held.entry(thread).or_default();
        if held.len() < limits::MAX_HELD_LOCKS {
            held.entry(object).or_insert(HeldLock { object, how, confidence });
        }
    }

    /// Adds the locks in lock stacks: since JDK 21, each thread's uncontended locks.
    fn lock_stacks(&mut self) {
        let classes = self.classes;
        for thread in self.threads {
            let entries = lock_stack(classes, thread.address).unwrap_or_default();
            for object in entries {
                self.add(thread.address, object, how::LOCK_STACK, Confidence::Exact);
            }
        }
    }

    /// Adds the locks of all ObjectMonitors in use.
    fn list(&mut self, notes: &mut Vec<String>) {
        let (classes, mut all) = (self.classes, Vec::new());
        let vm = &classes.vm;
        let first =
            vm.static_addr("ObjectSynchronizer", "_in_use_list").and_then(|at| vm.at("MonitorList", at).ptr("_head"));
        let Ok(first) = first else { return };
        self.listed = true;
        let walks = Walks::new(Phase::Locks, limits::MAX_JAVA_MONITORS);
        let walked: Result<(), Broken<VmError>> = walks.begin().follow(first, |at| {
            all.push(at);
            vm.at("ObjectMonitor", at).ptr("_next_om")
        });
        if let Err(e) = walked {
            notes.push(format!("the list of monitors {e}"));
        }
        for monitor in all {
            if let (Some(LockOwner::Thread(thread)), Some(object)) = (self.owner(monitor), self.object(monitor)) {
                self.add(thread, object, how::MONITOR, Confidence::Exact);
            }
        }
    }

    /// Adds objects that words on stacks reference, and whose first words point back there. A thread that holds a lock
    /// has its object in a frame, since it must release the lock.
    fn stacks(&mut self, spaces: Option<&Spaces>) {
        let Some(spaces) = spaces else { return };
        let mut heap: Vec<AddrRange> = spaces.all.iter().map(|space| space.used).filter(|r| !r.is_empty()).collect();
        heap.sort_by_key(|range| range.start);
        let is_in_heap = |object: Addr| {
            let after = heap.partition_point(|range| range.start <= object);
            after.checked_sub(1).and_then(|i| heap.get(i)).is_some_and(|range| range.contains(object))
        };
        let classes = self.classes;
        let (vm, encoding) = (&classes.vm, &classes.encoding);
        let mut left = limits::MAX_LOCK_STACK_BYTES;
        let by_tid: HashMap<u32, Addr> = vm.process.threads().iter().map(|t| (t.tid, t.registers.sp())).collect();
        for thread in self.threads {
            let Some(stack) = thread.stack else { continue };
            let sp = thread.tid.and_then(|tid| by_tid.get(&tid)).filter(|sp| stack.contains(**sp));
            let Some(sp) = sp.map(|sp| sp.align_down(WORD)) else { continue };
            let len = vm.memory.readable(sp, stack.end.since(sp).min(limits::MAX_STACK_FOR_LOCKS).min(left));
            left -= len;
            let bytes = vm.memory.look(sp, len as usize).unwrap_or_default();
            for word in bytes.as_chunks::<8>().0 {
                let word = u64::from_le_bytes(*word);
                let halves = [word as u32, (word >> 32) as u32].map(|half| encoding.narrow(half));
                let narrow = halves.into_iter().filter(|_| encoding.narrow);
                for object in [Addr::new(word)].into_iter().chain(narrow) {
                    if object.is_aligned(WORD) && is_in_heap(object) {
                        let found = vm.process.reads().attempt(|| self.held_at(thread, stack, object));
                        if let Some((how, confidence)) = found {
                            self.add(thread.address, object, how, confidence);
                        }
                    }
                }
            }
        }
    }

    /// Returns how the object's first word shows that the thread holds its lock.
    fn held_at(&self, thread: &JavaThread, stack: AddrRange, object: Addr) -> Option<(&'static str, Confidence)> {
        let memory = self.classes.vm.memory;
        let word = memory.u64(object).ok()?;
        let at = Addr::new(word & !mark::LOCK_MASK);
        match word & mark::LOCK_MASK {
            mark::STACK_LOCKED if stack.contains(at) => {
                // It contains the previous value of the first word.
                let displaced = memory.u64(at).unwrap_or(0);
                let is_held = displaced & mark::LOCK_MASK == mark::UNLOCKED && self.classes.class_of(object).is_some();
                is_held.then_some((how::STACK, Confidence::Derived))
            }
            mark::MONITOR if !self.listed => {
                let is_its = self.owner(at) == Some(LockOwner::Thread(thread.address));
                let is_held = is_its && self.object(at) == Some(object);
                is_held.then_some((how::MONITOR, Confidence::Exact))
            }
            _ => None,
        }
    }
}

/// Returns the objects in a thread's LockStack, from its base to its top. The top is an offset from the thread's start.
fn lock_stack(classes: &Classes<'_>, thread: Addr) -> Result<Vec<Addr>, VmError> {
    let vm = &classes.vm;
    let stack = vm.at("LockStack", vm.at("JavaThread", thread).addr_of("_lock_stack")?);
    let (base, top) = (stack.addr_of("_base[0]")?, thread.saturating_add(stack.number("_top")?));
    let count = top.checked_since(base).unwrap_or(0) / WORD;
    let slot = |i: u64| {
        let word = vm.memory.u64(base.saturating_add(i * WORD)).ok()?;
        Some(classes.encoding.wide(word)).filter(|at| !at.is_null())
    };
    Ok((0..count.min(limits::MAX_LOCK_STACK)).filter_map(slot).collect())
}
