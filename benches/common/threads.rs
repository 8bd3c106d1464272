//! More threads for a small real process of .NET: each is a copy of a real one,
//! its stack with the C library's control block at the top, its registers, and
//! the runtime's own Thread where it has one. Words that point into what was
//! copied are moved with it, so that every stack unwinds as its model does.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};

use coremap::addr::{Addr, AddrRange};
use coremap::core::open::Core;
use coremap::internals;
use coremap::layout::{Layout, StructView};
use coremap::map::Confidence;
use coremap::memory::Memory;
use coremap::native::stacks::StackState;
use coremap::runtimes::coreclr::threads as managed_threads;
use coremap::session::Session;

use super::{self as common, FREE, Fallible, Load, PAGE, Scratch};

/// Where the copies go: the Threads, and the stacks.
const THREADS: u64 = FREE + (1 << 40);
const STACKS: u64 = THREADS + (1 << 32);

/// Bytes copied of a Thread; 3.1's has less, what follows does no harm.
const THREAD: usize = 2048;

/// Ids that no real process of testdata has.
const FIRST_TID: u32 = 1_000_000;

/// Note types, and where NT_PRSTATUS has the id and the registers.
const PRSTATUS: u32 = 1;
const PRFPREG: u32 = 2;
const PR_PID: usize = 32;
const PR_REG: usize = 112;
const REGISTERS: usize = 27;

/// Threads of which no more is known than their registers, as in programs without
/// glibc: their notes, and their stacks from `addr` on, one touching the next.
pub(crate) fn bare(count: u64, addr: u64) -> (Vec<Load>, Vec<u8>) {
    /// Index of rsp.
    const SP: usize = 19;
    const STACK: u64 = 2 * PAGE;
    let (mut loads, mut notes) = (Vec::new(), Vec::new());
    for i in 0..count {
        let low = addr + i * STACK;
        loads.push(Load::data(low, STACK));
        let mut desc = vec![0; PR_REG + 8 * REGISTERS + 8];
        desc[PR_PID..PR_PID + 4].copy_from_slice(&(2 * FIRST_TID + i as u32).to_le_bytes());
        desc[PR_REG + 8 * SP..][..8].copy_from_slice(&(low + PAGE).to_le_bytes());
        notes.extend(note(PRSTATUS, &desc));
    }
    (loads, notes)
}

/// A real thread.
struct Model {
    guard: u64,
    /// Stack, thread-local storage and control block.
    range: AddrRange,
    bytes: Vec<u8>,
    prstatus: Vec<u8>,
    /// The floating-point registers' note, as it stands.
    rest: Vec<u8>,
    managed: Option<(Addr, Vec<u8>)>,
}

/// One that is made of it.
struct Copy {
    model: usize,
    tid: u32,
    /// End of its guard.
    low: u64,
    /// Its Thread.
    thread: Option<u64>,
}

/// What is added, and what links it to the process.
pub(crate) struct Made {
    models: Vec<Model>,
    copies: Vec<Copy>,
    /// To be added in this order.
    pub(crate) loads: Vec<Load>,
    /// To be added to the core's notes.
    pub(crate) notes: Vec<u8>,
    /// The last real Thread, and the number of all of them: where it is, and what it says.
    last: Option<Addr>,
    count: Option<(Addr, u32)>,
}

fn note(kind: u32, desc: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(20 + desc.len());
    for word in [5, desc.len() as u32, kind] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(b"CORE\0\0\0\0");
    out.extend_from_slice(desc);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// Type and contents of each note.
fn each_note(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
    let mut out = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<12>() {
        let word = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]) as usize;
        let name = word(0).next_multiple_of(4);
        let Some(desc) = rest.get(name..name + word(4)) else { break };
        out.push((word(8) as u32, desc));
        bytes = rest.get(name + word(4).next_multiple_of(4)..).unwrap_or_default();
    }
    out
}

/// Add to each aligned word what `moved` says of it.
fn move_words(bytes: &mut [u8], moved: &dyn Fn(u64) -> Option<u64>) {
    for word in bytes.as_chunks_mut::<8>().0 {
        if let Some(new) = moved(u64::from_le_bytes(*word)) {
            *word = new.to_le_bytes();
        }
    }
}

fn models(session: &Session<'_>, core: &Core) -> Fallible<(Vec<Model>, Option<Addr>)> {
    let process = session.process;
    let runtime = internals::coreclr(session).ok_or("no runtime")?.runtime();
    let (managed, _) = managed_threads(process, runtime).map_err(Clone::clone)?;
    let notes = each_note(common::notes(core)?.1);
    let mut out = Vec::new();
    for stack in &session.stacks().list {
        let (Some(tid), StackState::Thread, Confidence::Exact) = (stack.tid, stack.state, stack.confidence) else {
            continue;
        };
        let range = AddrRange::new(stack.stack.start, stack.mapped.end);
        let Ok(bytes) = process.memory.bytes(range.start, range.len() as usize) else { continue };
        let of_thread = |(kind, desc): &(u32, &[u8])| {
            *kind == PRSTATUS && desc.get(PR_PID..PR_PID + 4) == Some(&tid.to_le_bytes()[..])
        };
        let Some(at) = notes.iter().position(of_thread) else { continue };
        let rest = notes.get(at + 1).filter(|n| n.0 == PRFPREG).map(|n| note(n.0, n.1));
        let thread = managed.iter().find(|m| m.os_id == Some(tid)).map(|m| m.address);
        out.push(Model {
            guard: stack.guard.map_or(0, |g| g.len()),
            range,
            bytes,
            prstatus: notes[at].1.to_vec(),
            rest: rest.unwrap_or_default(),
            managed: thread.and_then(|a| Some((a, process.memory.bytes(a, THREAD).ok()?))),
        });
    }
    if out.is_empty() {
        return Err("no thread whose whole stack is in the core".into());
    }
    Ok((out, managed.last().map(|m| m.address)))
}

impl Made {
    /// What `count` more threads take.
    pub(crate) fn plan(session: &Session<'_>, count: u64) -> Fallible<Made> {
        let process = session.process;
        let (models, last) = models(session, internals::core(process).ok_or("no core file")?)?;
        let runtime = internals::coreclr(session).ok_or("no runtime")?.runtime();
        let store = runtime.globals.pointer(&process.memory, &runtime.layout, "ThreadStore")?;
        let store = StructView::new(&process.memory, &runtime.layout, "ThreadStore", store);
        let known = (store.addr_of("ThreadCount")?, store.u32("ThreadCount")?);
        let mut made =
            Made { models, copies: Vec::new(), loads: Vec::new(), notes: Vec::new(), last, count: Some(known) };
        if count == 0 {
            return Ok(made);
        }
        made.loads.push(Load::data(THREADS, (count * THREAD as u64).next_multiple_of(PAGE)));
        let mut at = STACKS;
        for i in 0..count {
            let number = i as usize % made.models.len();
            let model = &made.models[number];
            let low = at + model.guard;
            if model.guard > 0 {
                made.loads.push(Load { addr: at, len: model.guard, flags: 0, dumped: false });
            }
            made.loads.push(Load::data(low, model.range.len()));
            at = low + model.range.len();
            let copy = Copy {
                model: number,
                tid: FIRST_TID + i as u32,
                low,
                thread: model.managed.as_ref().map(|_| THREADS + i * THREAD as u64),
            };
            let mut desc = model.prstatus.clone();
            desc[PR_PID..PR_PID + 4].copy_from_slice(&copy.tid.to_le_bytes());
            move_words(&mut desc[PR_REG..PR_REG + 8 * REGISTERS], &made.mover(&copy));
            made.notes.extend(note(PRSTATUS, &desc));
            made.notes.extend_from_slice(&model.rest);
            made.copies.push(copy);
        }
        Ok(made)
    }

    fn mover(&self, copy: &Copy) -> impl Fn(u64) -> Option<u64> + use<> {
        let model = &self.models[copy.model];
        let (start, end, low) = (model.range.start.get() - model.guard, model.range.end.get(), copy.low - model.guard);
        let thread = model.managed.as_ref().map(|m| m.0.get()).zip(copy.thread);
        move |word| {
            if (start..=end).contains(&word) {
                return Some(word - start + low);
            }
            let (old, new) = thread?;
            (old..old + THREAD as u64).contains(&word).then(|| word - old + new)
        }
    }

    /// Append the bytes of its loads.
    pub(crate) fn write(&self, file: &mut File, layout: &Layout) -> Fallible {
        let Some(threads) = self.loads.first() else { return Ok(()) };
        let begin = file.seek(SeekFrom::End(0))?;
        let to_link = layout.positive("Thread", "LinkNext")? as usize;
        let mut block = vec![0; threads.len as usize];
        // Linked from the last to the first.
        let mut next = 0u64;
        for (i, copy) in self.copies.iter().enumerate().rev() {
            let (Some(address), Some((_, bytes))) = (copy.thread, &self.models[copy.model].managed) else { continue };
            let mut bytes = bytes.clone();
            move_words(&mut bytes, &self.mover(copy));
            let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
            put(layout.positive("Thread", "OSId")? as usize, &copy.tid.to_le_bytes());
            put(layout.positive("Thread", "Id")? as usize, &(copy.tid - FIRST_TID + 1000).to_le_bytes());
            put(to_link, &next.to_le_bytes());
            // Two threads never allocate from the same piece of the heap.
            let context = layout.positive("Thread", "m_alloc_context")?;
            for field in ["Pointer", "Limit"] {
                put((context + layout.positive("GCAllocContext", field)?) as usize, &[0; 8]);
            }
            next = address + to_link as u64;
            block[i * THREAD..][..THREAD].copy_from_slice(&bytes);
        }
        let mut out = BufWriter::with_capacity(1 << 20, file);
        out.write_all(&block)?;
        for copy in &self.copies {
            let mut bytes = self.models[copy.model].bytes.clone();
            move_words(&mut bytes, &self.mover(copy));
            out.write_all(&bytes)?;
        }
        out.flush()?;
        let wanted: u64 = self.loads.iter().map(Load::in_file).sum();
        if out.stream_position()? != begin + wanted {
            return Err("stacks and their loads differ in size".into());
        }
        Ok(())
    }

    /// Hang the copies' Threads into the runtime's list.
    pub(crate) fn link(&self, core: &Scratch, sample: &Core, layout: &Layout) -> Fallible {
        let managed = self.copies.iter().filter_map(|c| c.thread);
        let (Some(first), Some(last), Some((at, known))) = (managed.clone().next(), self.last, self.count) else {
            return Ok(());
        };
        let to_link = layout.positive("Thread", "LinkNext")?;
        core.patch(common::offset_of(sample, Addr::new(last.get() + to_link))?, &(first + to_link).to_le_bytes())?;
        let all = known + u32::try_from(managed.count())?;
        core.patch(common::offset_of(sample, at)?, &all.to_le_bytes())
    }
}
