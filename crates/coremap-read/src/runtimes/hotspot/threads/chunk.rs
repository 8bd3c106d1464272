//! Stacks of unmounted virtual threads: objects of jdk.internal.vm.StackChunk, with part of a stack after their fields.
//!
//! src/hotspot/share/oops/stackChunkOop.hpp, runtime/stackChunkFrameStream.inline.hpp,
//! cpu/x86/stackChunkFrameStream_x86.inline.hpp. Frames have the same layout as on a stack, except that frame pointers
//! of interpreted frames are distances in words.

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::memory::Memory;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::api::{Activation, LightFrame};
use crate::runtimes::hotspot::classes::{Classes, KlassShape, WORD};
use crate::runtimes::hotspot::code::Code;
use crate::runtimes::hotspot::threads::thread_object::{number, reference};
use crate::targets::Arch;

/// Words between a frame's stack pointer and its frame pointer that the callee saved below it
/// (`frame::sender_sp_offset`).
const LINK: u64 = 2;

/// Returns the frames of the stack that begins in the chunk at `chunk` and continues in its parents, innermost first.
/// Also returns why the stack is incomplete.
pub(super) fn frames(classes: &Classes<'_>, code: &Code<'_>, chunk: Addr) -> (Vec<LightFrame>, Option<&'static str>) {
    let mut out = Vec::new();
    if classes.vm.process.arch() != Arch::X86_64 {
        return (out, Some("frames can't be unwound on this machine type"));
    }
    let walks = Walks::new(Phase::Frames, limits::MAX_STACK_CHUNKS);
    let (mut walk, mut next) = (walks.begin(), Some(chunk));
    while let Some(at) = next {
        if walk.step(at).is_err() {
            return (out, Some("its list of stack chunks is cyclic or too long"));
        }
        if let Err(why) = chunk_frames(classes, code, at, &mut out) {
            return (out, Some(why));
        }
        next = classes.class_of(at).and_then(|class| reference(classes, &class, at, "parent"));
    }
    (out, None)
}

fn chunk_frames(
    classes: &Classes<'_>,
    code: &Code<'_>,
    chunk: Addr,
    out: &mut Vec<LightFrame>,
) -> Result<(), &'static str> {
    let memory = classes.vm.memory;
    let class = classes.class_of(chunk).ok_or("its stack chunk is invalid")?;
    let KlassShape::StackChunk { size, words_at } = class.shape else { return Err("its stack chunk is invalid") };
    let words = memory.u32(chunk.wrapping_add(words_at)).map_err(|_| "its stack chunk can't be read")?;
    let start = chunk.checked_add(size).ok_or("its stack chunk is invalid")?;
    let end = start.checked_add(u64::from(words) * WORD).ok_or("its stack chunk is invalid")?;
    let range = AddrRange::new(start, end);
    let sp = number(classes, &class, chunk, "sp").ok_or("its stack chunk has no stack pointer")?;
    let pc_at = classes.field(&class, "pc").ok_or("its stack chunk has no code address")?;
    let mut pc = memory.ptr(chunk.wrapping_add(pc_at.offset)).map_err(|_| "its stack chunk can't be read")?;
    let mut sp = start.checked_add(u64::from(sp) * WORD).ok_or("its stack chunk is invalid")?;
    let mut unextended = sp;
    // The outermost frame has no return address. Stack pointers rise.
    while range.contains(sp) && !pc.is_null() {
        if out.len() >= limits::MAX_STACK_FRAMES {
            return Err("it has more frames than the limit");
        }
        let frame = step(classes, code, &range, (sp, unextended), pc).ok_or("its code was not found")?;
        out.extend(frame.methods.into_iter().map(|activation| LightFrame { ip: pc, sp, activation }));
        let (up, sender_sp) =
            frame.caller.filter(|&(up, _)| up > sp && up <= end).ok_or("the end of a frame was not found")?;
        // Not recorded as a structure: if the frame is invalid, this word may be anything.
        pc = word(memory, up.saturating_sub(WORD)).map(Addr::new).ok_or("its stack chunk can't be read")?;
        (sp, unextended) = (up, sender_sp.max(up));
    }
    Ok(())
}

/// Reads a word of a chunk that may not be a structure.
fn word(memory: &dyn Memory, at: Addr) -> Option<u64> {
    Some(u64::from_le_bytes(memory.look(at, WORD as usize).ok()?.try_into().ok()?))
}

struct ChunkFrame {
    methods: Vec<Activation>,
    /// The caller's stack pointer, and its value before arguments for the callee were put there. An interpreted
    /// caller's frame pointer and return address are below the first. A compiled caller's size counts from the second.
    caller: Option<(Addr, Addr)>,
}

/// Returns the contents of the frame with this stack pointer; `unextended` is its value without the callee's arguments.
/// `None` if the VM did not generate the code.
fn step(
    classes: &Classes<'_>,
    code: &Code<'_>,
    range: &AddrRange,
    (sp, unextended): (Addr, Addr),
    pc: Addr,
) -> Option<ChunkFrame> {
    let memory = classes.vm.memory;
    let distance = |at: Addr| word(memory, at).map(|words| (words as i64).wrapping_mul(WORD as i64));
    if code.is_interpreter(pc) {
        let link = sp.checked_sub(LINK * WORD).filter(|&link| link >= range.start)?;
        let fp = link.wrapping_offset(distance(link)?);
        let fp = Some(fp).filter(|&fp| fp > link && range.contains(fp));
        if fp.is_some() {
            memory.keep(link, WORD);
        }
        let methods = fp.and_then(|fp| code.interpreted_in(fp)).into_iter().collect();
        let caller = fp.and_then(|fp| {
            let up = fp.checked_add(LINK * WORD)?;
            // `interpreter_frame_sender_sp`, a distance as well.
            let sender = fp.saturating_sub(WORD);
            let sender_sp = fp.wrapping_offset(distance(sender)?);
            let is_above = sender_sp > up && range.contains(sender_sp);
            if is_above {
                memory.keep(sender, WORD);
            }
            Some((up, if is_above { sender_sp } else { up }))
        });
        return Some(ChunkFrame { methods, caller });
    }
    let blob = code.blob_at(pc.saturating_sub(1))?;
    let caller = blob.frame_size.and_then(|words| unextended.checked_add(u64::from(words) * WORD));
    Some(ChunkFrame { methods: code.compiled_at(blob, pc), caller: caller.map(|up| (up, up)) })
}
