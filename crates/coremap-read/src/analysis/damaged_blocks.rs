//! Malloc blocks that are involved in the end of a process: damaged ones with their neighbours, and freed ones.

use crate::addr::Addr;
use crate::analysis::last_words::{memory_text, word_text};
use crate::facts::InvolvedBlockRow;
use crate::limits;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::native::malloc::{Block, Chunk, Damage};
use crate::session::Session;
use crate::targets::Thread;
use crate::words::BlockRole;

/// Finds the first damaged block. If there is none, finds a block that the thread frees a second time.
pub(crate) fn find(session: &Session<'_>, thread: Option<&Thread>) -> Vec<InvolvedBlockRow> {
    let damaged = damaged(session);
    if !damaged.is_empty() {
        return damaged;
    }
    thread.and_then(|thread| freed_again(session, thread)).into_iter().collect()
}

/// Finds the first position in each arena at which the walk breaks, with the blocks on both sides.
fn damaged(session: &Session<'_>) -> Vec<InvolvedBlockRow> {
    let (malloc, process) = (session.malloc(), session.process);
    let lists = &session.blocks().0;
    let walked = malloc.walk(process, lists, |_| (), |(), _| {});
    let lost = walked.iter().flat_map(|(_, _, (), walk)| &walk.lost);
    let bad = lost.filter_map(|lost| match lost.damage {
        Damage::BadSize(size) => Some((lost.range, size)),
        Damage::NotDumped | Damage::Foreign => None,
    });
    let Some((range, size)) = bad.min_by_key(|(range, _)| range.start) else { return Vec::new() };
    // A second walk finds the neighbours. That is cheap enough, because damage is rare.
    let visit = |found: &mut [Option<Chunk>; 2], chunk: &Chunk| {
        if chunk.address.checked_add(chunk.size) == Some(range.start) {
            found[0] = Some(*chunk);
        }
        if chunk.address >= range.end && found[1].is_none_or(|after| chunk.address < after.address) {
            found[1] = Some(*chunk);
        }
    };
    let found = malloc.walk(process, lists, |_| [None, None], visit);
    let before = found.iter().find_map(|(_, _, [before, _], _)| *before);
    let after = found.iter().filter(|(_, part, _, _)| part.chunks.contains(range.start));
    let after = after.filter_map(|(_, _, [_, after], _)| *after).min_by_key(|chunk| chunk.address);
    let row = |role, chunk: Chunk| {
        let address = malloc.block(chunk.address);
        let usable = malloc.usable(chunk.size);
        InvolvedBlockRow {
            role,
            address,
            size: Some(usable),
            used: Some(!chunk.state.is_free()),
            // In a free block, the first two words are malloc's links.
            text: memory_text(&process.memory, address)
                .or_else(|| memory_text(&process.memory, address.saturating_add(16)).filter(|_| usable > 16)),
            overrun: (role == BlockRole::Before).then(|| overrun(&process.memory, address, usable)).flatten(),
            confidence: Confidence::Derived,
        }
    };
    let mut out: Vec<InvolvedBlockRow> = vec![InvolvedBlockRow {
        role: BlockRole::Damaged,
        address: malloc.block(range.start),
        size: None,
        used: None,
        text: word_text(size),
        overrun: None,
        confidence: Confidence::Exact,
    }];
    out.extend(before.map(|chunk| row(BlockRole::Before, chunk)));
    out.extend(after.map(|chunk| row(BlockRole::After, chunk)));
    out
}

/// Returns the number of bytes by which a text in a block continues past the block's end.
fn overrun(memory: &dyn Memory, block: Addr, usable: u64) -> Option<u64> {
    let wanted = usable.checked_add(limits::MAX_OVERRUN)?;
    let bytes = memory.look(block, usize::try_from(memory.readable(block, wanted)).ok()?).ok()?;
    let end = usize::try_from(usable).ok()?;
    let is_text = |b: &u8| b.is_ascii_graphic() || b.is_ascii_whitespace();
    // The text must reach the end from inside the block. Otherwise it belongs to the next block.
    let inside = bytes.get(end.checked_sub(8)?..end)?.iter().all(is_text);
    let beyond = bytes.get(end..)?.iter().take_while(|b| is_text(b)).count();
    (inside && beyond > 0).then_some(beyond as u64)
}

/// Returns the free block whose address is in the frames of the thread's innermost functions, as the argument of free.
fn freed_again(session: &Session<'_>, thread: &Thread) -> Option<InvolvedBlockRow> {
    let memory = &session.process.memory;
    let sp = thread.registers.sp();
    let have = memory.readable(sp, limits::MAX_FREE_FRAMES);
    let bytes = memory.look(sp, usize::try_from(have).ok()?).ok()?;
    let words = || (0..bytes.len()).step_by(8).filter_map(|at| crate::bytes::u64_at(&bytes, at)).map(Addr::new);
    let free = |at: Addr| session.blocks().1.at(at).filter(|block| !block.used && block.range.start == at);
    // glibc passes first the block, then its chunk, to inner functions.
    let header = session.malloc().block(Addr::NULL).get();
    let found = words().find_map(free).or_else(|| words().find_map(|at| free(at.checked_add(header)?)))?;
    Some(freed_row(session, &found, Confidence::Derived))
}

fn freed_row(session: &Session<'_>, block: &Block, confidence: Confidence) -> InvolvedBlockRow {
    // The first two words are malloc's links.
    let rest = block.range.start.saturating_add(16);
    InvolvedBlockRow {
        role: BlockRole::Freed,
        address: block.range.start,
        size: Some(block.range.len()),
        used: Some(false),
        text: memory_text(&session.process.memory, rest).filter(|_| block.range.contains(rest)),
        overrun: None,
        confidence,
    }
}

/// Registers that likely have the address of the object of a call or a loop, most likely first.
const OBJECTS: [&str; 9] = ["rdi", "rbx", "rax", "rsi", "rbp", "r12", "r13", "r14", "x0"];

/// Returns the free block at which the fault's base register points. If the base is not an address, returns the free
/// block from which it was read.
pub(crate) fn freed(session: &Session<'_>, thread: &Thread, base: Option<u64>) -> Vec<InvolvedBlockRow> {
    let blocks = &session.blocks().1;
    let free = |value: u64| blocks.at(Addr::new(value)).filter(|block| !block.used);
    if let Some(block) = base.and_then(free) {
        return vec![freed_row(session, &block, Confidence::Exact)];
    }
    // A base that is a word of a free block was read from that block.
    let read_from = |value: u64| {
        let block = free(value)?;
        let bytes = session.process.memory.look(block.range.start, usize::try_from(block.range.len()).ok()?).ok()?;
        let mut words = (0..bytes.len()).step_by(8).filter_map(|at| crate::bytes::u64_at(&bytes, at));
        words.any(|word| Some(word) == base && word != 0).then_some(block)
    };
    let registers = OBJECTS.iter().filter_map(|name| thread.registers.get(name));
    let found = registers.filter(|value| *value >= limits::MIN_BLOCK_ADDRESS).find_map(read_from);
    found.iter().map(|block| freed_row(session, block, Confidence::Derived)).collect()
}
