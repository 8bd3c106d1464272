//! Waits of native threads. Owners come from a field, or are likely by the code on a stack.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crate::addr::Addr;
use crate::analysis::naming::{Code, Names};
use crate::bytes::printable;
use crate::facts::{WaitOwnerRow, WaitRow};
use crate::limits;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::native::libc;
use crate::native::locks::{self, CodeFrame, NativeWait, Owner};
use crate::native::stack_records::Libc;
use crate::native::symbols::NativeSymbol;
use crate::phase::Phase;
use crate::session::Session;
use crate::targets::Thread;
use crate::words::{OwnerState, WaitKind};

/// Prefixes of the names of modules that are not the program's own.
const LIBRARIES: [&str; 10] =
    ["libc.", "libc-", "libpthread", "ld-linux", "ld-musl", "libstdc++", "libc++", "libgcc_s", "libm.", "[vdso]"];

/// Namespaces of standard and lock libraries, whose functions are compiled into programs.
const NAMESPACES: [&str; 8] =
    ["std::", "core::", "alloc::", "parking_lot", "lock_api::", "__gnu_cxx::", "pthread_", "__pthread_"];

/// Maximum number of frames of a thread whose code is read.
const MAX_CODE_FRAMES: usize = 12;

/// Maximum number of threads whose code is read for one process.
const MAX_CODE_THREADS: usize = 4096;

/// Maximum number of locks whose holder is searched by code.
const MAX_CODE_LOCKS: usize = 64;

/// Returns what each native thread waits for, by thread ID. A thread that is in no futex call is not in the map.
pub fn native_waits(session: &Session<'_>) -> BTreeMap<u32, NativeWait> {
    let process = session.process;
    let _phase = process.enter(Phase::Locks);
    let stacks = Stacks::new(session);
    // A runtime has many threads, and they wait in functions of its own.
    let runtimes = session.runtimes();
    let is_managed = |tid: u32| runtimes.iter().any(|runtime| runtime.threads().by_tid.contains_key(&tid));
    let mut names = |thread: &Thread| if is_managed(thread.tid) { Vec::new() } else { stacks.names(thread) };
    let mut waits = locks::waits(process, libc_of(session), &mut names);
    add_holders(session, &stacks, &mut waits);
    waits
}

fn libc_of(session: &Session<'_>) -> Option<Libc> {
    let process = session.process;
    let by_module = process.modules.iter().find_map(|module| libc::which(process, module)).map(|(libc, _)| libc);
    let by_stacks = || session.known_stacks().layout.map(|layout| layout.libc);
    // A statically linked program with one thread has neither. Programs with a runtime are not linked so, and malloc
    // needs the map.
    let may_be_static = || session.runtimes().is_empty();
    let by_malloc = || (may_be_static() && !session.malloc().musl.is_empty()).then_some(Libc::Musl);
    by_module.or_else(by_stacks).or_else(by_malloc)
}

/// Named frames of threads.
struct Stacks<'s, 'p> {
    session: &'s Session<'p>,
    names: Names<'s, 'p>,
    walker: crate::stackwalk::Walker<'s, 'p>,
}

impl<'s, 'p> Stacks<'s, 'p> {
    fn new(session: &'s Session<'p>) -> Stacks<'s, 'p> {
        let walker = session.walker(session.known_stacks()).at_most(limits::MAX_DOING_FRAMES);
        Stacks { session, names: Names::new(session), walker }
    }

    fn symbol(&self, code: Addr) -> Option<NativeSymbol> {
        match self.names.code(code) {
            Code::Native(symbol) => Some(symbol),
            Code::Managed(..) | Code::Stub(_) | Code::Other(_) | Code::None => None,
        }
    }

    /// Names of the functions on a stack, innermost first.
    fn names(&self, thread: &Thread) -> Vec<String> {
        let walk = self.session.walk(&self.walker, thread);
        walk.frames.iter().filter_map(|frame| Some(self.symbol(frame.code())?.name.to_string())).collect()
    }

    /// Returns the program's own innermost functions.
    fn code_frames(&self, thread: &Thread) -> Vec<CodeFrame> {
        let memory = &self.session.process.memory;
        let walk = self.session.walk(&self.walker, thread);
        let registers: Vec<u64> = thread.registers.iter().map(|(_, value)| value).collect();
        let mut out = Vec::new();
        for (frame, next) in walk.frames.iter().zip(walk.frames.iter().skip(1)) {
            let Some(symbol) = self.symbol(frame.code()).filter(|symbol| self.is_own(symbol)) else { continue };
            // Save the frame, and what inner functions saved of its registers.
            let from = thread.registers.sp();
            let len = next.sp.checked_since(from).unwrap_or(0).min(limits::MAX_CODE_FRAME);
            let bytes = memory.look(from, usize::try_from(memory.readable(from, len)).unwrap_or(0)).unwrap_or_default();
            let words = (0..bytes.len()).step_by(8).filter_map(|at| crate::bytes::u64_at(&bytes, at));
            out.push(CodeFrame {
                name: printable(&symbol.name).into_owned(),
                start: symbol.start,
                ip: frame.ip,
                words: words.chain(registers.iter().copied()).collect(),
                kept: locks::kept(&frame.regs),
            });
            if out.len() >= MAX_CODE_FRAMES {
                break;
            }
        }
        out
    }

    fn is_own(&self, symbol: &NativeSymbol) -> bool {
        let module = self.session.symbols().module_name(symbol);
        let name = symbol.name.trim_start_matches('<');
        // A thread's closure is compiled into the library's function that calls it.
        let is_closure = ["{closure", "__rust_begin_short_backtrace", "FnOnce"].iter().any(|part| name.contains(part));
        !LIBRARIES.iter().any(|start| module.starts_with(start))
            && (is_closure || !NAMESPACES.iter().any(|start| name.starts_with(start)))
    }
}

/// Adds likely holders of locks that don't record their owner.
fn add_holders(session: &Session<'_>, stacks: &Stacks<'_, '_>, waits: &mut BTreeMap<u32, NativeWait>) {
    let needs = |wait: &&NativeWait| wait.kind.is_lock() && wait.owners.is_empty();
    let mut wanted: Vec<Addr> = waits.values().filter(needs).map(|wait| wait.address).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted.truncate(MAX_CODE_LOCKS);
    if wanted.is_empty() {
        return;
    }
    let process = session.process;
    let name_of = |at: Addr| session.symbols().resolve(at).map(|symbol| symbol.name.to_string());
    let mut holders: BTreeMap<Addr, Vec<Owner>> = BTreeMap::new();
    let left = Cell::new(limits::MAX_LOCK_CODE);
    for thread in process.threads().iter().take(MAX_CODE_THREADS) {
        let frames = stacks.code_frames(thread);
        for &lock in &wanted {
            // The thread's innermost function waits for the lock, so it has not taken it.
            let waits_here = waits.get(&thread.tid).is_some_and(|wait| wait.address == lock);
            let frames = frames.get(usize::from(waits_here)..).unwrap_or_default();
            if let Some(function) = locks::held_by_code(&process.memory, lock, frames, &left, &name_of) {
                holders.entry(lock).or_default().push(Owner {
                    tid: thread.tid,
                    state: OwnerState::Alive,
                    how: format!("{function} took it before its present call, by its code; the lock records no owner"),
                    confidence: Confidence::Derived,
                });
            }
        }
    }
    // A thread whose code is not read may qualify too.
    if left.get() == 0 || process.threads().len() > MAX_CODE_THREADS {
        return;
    }
    let waiters: BTreeSet<(u32, Addr)> = waits.iter().map(|(tid, wait)| (*tid, wait.address)).collect();
    for wait in waits.values_mut().filter(|wait| wait.kind.is_lock() && wait.owners.is_empty()) {
        let mut found = holders.get(&wait.address).cloned().unwrap_or_default();
        // If only one thread can have the lock, several candidates prove nothing, unless all others wait for it.
        if wait.kind != WaitKind::ReaderWriter && found.len() > 1 {
            found.retain(|owner| !waiters.contains(&(owner.tid, wait.address)));
        }
        let fits = wait.kind == WaitKind::ReaderWriter || found.len() == 1;
        if fits {
            wait.owners = found;
        }
    }
}

/// Returns the row of a native wait.
pub fn row(wait: &NativeWait) -> WaitRow {
    let owner = wait.owners.first();
    let exact = owner.filter(|owner| owner.confidence == Confidence::Exact);
    WaitRow {
        kind: wait.kind,
        object: wait.address,
        address: Some(wait.address),
        r#type: wait.object.map(str::to_owned),
        owner: owner.map(|owner| WaitOwnerRow {
            tid: Some(owner.tid),
            task: None,
            state: owner.state,
            confidence: owner.confidence,
        }),
        // `owner_tid` is only for an owner that a field names. Likely owners are in `owner`, with their confidence.
        owner_tid: exact.map(|owner| owner.tid),
        owner_managed_id: None,
        owner_ended: exact.is_some_and(|owner| owner.state == OwnerState::Ended),
        reader_tids: Vec::new(),
        class: None,
        owner_virtual: false,
        how: wait.how,
        confidence: wait.confidence,
    }
}
