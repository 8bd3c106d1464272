//! Frames of Java code: the methods that run in a frame, and its caller.
//!
//! src/hotspot/share/runtime/frame.hpp, src/hotspot/cpu/x86/frame_x86.hpp, stubGenerator_x86_64.cpp (the call stub); in
//! the JDK, sun.jvm.hotspot.runtime.x86.X86Frame. Frames of other machines have another layout and are not supported
//! here.

use crate::addr::Addr;
use crate::memory::Memory;
use crate::registers::Regs;
use crate::runtimes::api::{Caller, FrameAt, ManagedFrame};
use crate::runtimes::hotspot::classes::WORD;
use crate::runtimes::hotspot::code::{Blob, Code};
use crate::targets::Arch;

/// Offsets of words in x86_64 frames, in words from the frame pointer. They are used if the VM's constants lack them.
/// The constants always have `last_sp`, from which the others count.
pub(crate) mod interpreted {
    /// `frame::interpreter_frame_last_sp_offset`
    pub(crate) const LAST_SP: i64 = -2;
    /// `frame::interpreter_frame_sender_sp_offset`
    pub(crate) const SENDER_SP: i64 = -1;
    /// From last_sp: `frame::interpreter_frame_method_offset`, equal in JDK 11 to 25.
    pub(crate) const METHOD_FROM_LAST_SP: i64 = -1;
    /// From last_sp: `frame::interpreter_frame_bcp_offset`, equal in JDK 11 to 25.
    pub(crate) const BCP_FROM_LAST_SP: i64 = -6;
}

/// DWARF number of the register with the interpreter's bytecode address on x86_64 (`r13`, InterpreterMacroAssembler).
const BCP_REGISTER: u16 = 13;

/// The code of a frame.
enum FrameCode<'c> {
    /// The interpreter.
    Interpreter,
    /// The stub through which the VM calls Java.
    CallStub,
    /// Another blob of the code cache.
    Blob(&'c Blob),
}

impl Code<'_> {
    /// Returns the methods in a frame and its caller. `None` if the VM did not generate the frame's code.
    pub(super) fn frame_of(&self, at: &FrameAt<'_>) -> Option<ManagedFrame> {
        let code = self.frame_code(at)?;
        let methods = match code {
            FrameCode::Interpreter => self.interpreted(at).into_iter().collect(),
            FrameCode::CallStub => Vec::new(),
            FrameCode::Blob(blob) => self.compiled(blob, at),
        };
        let caller = self.caller(&code, at).map_or(Caller::Unknown, |regs| Caller::Regs(Box::new(regs)));
        Some(ManagedFrame { methods, caller })
    }

    /// Returns the registers of a frame's caller. `None` if they are unknown, or the VM did not generate the frame's
    /// code.
    pub fn caller_of(&self, at: &FrameAt<'_>) -> Option<Regs> {
        self.caller(&self.frame_code(at)?, at)
    }

    /// Whether a frame is the call stub's.
    pub fn is_call_stub(&self, at: &FrameAt<'_>) -> bool {
        !at.exact && self.call_stub_return() == Some(at.regs.ip())
    }

    fn frame_code(&self, at: &FrameAt<'_>) -> Option<FrameCode<'_>> {
        if at.regs.arch() != Arch::X86_64 {
            return None;
        }
        let ip = at.regs.ip();
        if self.is_call_stub(at) {
            return Some(FrameCode::CallStub);
        }
        if self.is_interpreter(ip) {
            return Some(FrameCode::Interpreter);
        }
        // A call may be the last instruction of a blob.
        let inside = if at.exact { ip } else { ip.saturating_sub(1) };
        self.blob_at(inside).map(FrameCode::Blob)
    }

    fn caller(&self, code: &FrameCode<'_>, at: &FrameAt<'_>) -> Option<Regs> {
        match code {
            FrameCode::Interpreter => self.interpreted_caller(at),
            FrameCode::CallStub => self.chained_caller(at),
            FrameCode::Blob(blob) if at.exact => self.interrupted_caller(blob, at),
            FrameCode::Blob(blob) => match blob.frame_size {
                Some(words) => self.sized_caller(at, u64::from(words)),
                None => self.chained_caller(at),
            },
        }
    }

    /// Returns the frame pointer if it is plausible for the frame.
    pub(super) fn frame_pointer(&self, at: &FrameAt<'_>) -> Option<Addr> {
        let fp = at.regs.fp().filter(|fp| fp.is_aligned(WORD) && *fp >= at.regs.sp())?;
        at.stack.is_none_or(|stack| stack.contains(fp)).then_some(fp)
    }

    /// Reads the word at an offset, in words, from a frame pointer. The read is no structure: a register that the
    /// callee saved may have had any value.
    pub(super) fn frame_word(&self, fp: Addr, words: i64) -> Option<Addr> {
        let word =
            self.classes.vm.memory.look(fp.wrapping_offset(words.wrapping_mul(WORD as i64)), WORD as usize).ok()?;
        Some(Addr::new(u64::from_le_bytes(word.try_into().ok()?)))
    }

    /// Declares that a word of a frame is a structure, for `scrub`.
    pub(super) fn keep_frame_word(&self, fp: Addr, words: i64) {
        self.classes.vm.memory.keep(fp.wrapping_offset(words.wrapping_mul(WORD as i64)), WORD);
    }

    /// Returns an offset from the frame pointer by the VM's constants, or `otherwise`.
    pub(super) fn frame_offset(&self, name: &str, otherwise: i64) -> i64 {
        self.classes.vm.constant(name).unwrap_or(otherwise)
    }

    /// Returns the bytecode address in the register of an interrupted frame.
    pub(super) fn bcp_register(&self, at: &FrameAt<'_>) -> Option<Addr> {
        at.regs.get(BCP_REGISTER).filter(|_| at.exact).map(Addr::new)
    }

    fn interpreted_caller(&self, at: &FrameAt<'_>) -> Option<Regs> {
        let fp = self.frame_pointer(at)?;
        let sender = self.frame_offset("frame::interpreter_frame_sender_sp_offset", interpreted::SENDER_SP);
        let caller_sp = fp.checked_add(2 * WORD)?;
        // If compiled code made the call, this word is where the caller's stack ended before arguments were moved
        // there.
        let sp = self.frame_word(fp, sender).filter(|&sp| sp >= caller_sp && self.fits(at, sp)).unwrap_or(caller_sp);
        self.regs(at, self.frame_word(fp, 1)?, sp, self.frame_word(fp, 0))
    }

    /// Returns the caller of a frame that begins with `push rbp; mov rbp, rsp`.
    fn chained_caller(&self, at: &FrameAt<'_>) -> Option<Regs> {
        let fp = self.frame_pointer(at)?;
        self.regs(at, self.frame_word(fp, 1)?, fp.checked_add(2 * WORD)?, self.frame_word(fp, 0))
    }

    /// Returns the caller of code with a fixed frame size. The caller's frame pointer was pushed first.
    fn sized_caller(&self, at: &FrameAt<'_>, words: u64) -> Option<Regs> {
        let sp = at.regs.sp().checked_add(words.checked_mul(WORD)?)?;
        self.regs(at, self.frame_word(sp, -1)?, sp, self.frame_word(sp, -2))
    }

    /// Returns the caller of interrupted code. Its frame may not be complete yet, or may be removed already.
    fn interrupted_caller(&self, blob: &Blob, at: &FrameAt<'_>) -> Option<Regs> {
        let returns = |regs: Option<Regs>| regs.filter(|regs| self.is_return(regs.ip()));
        // Before `push rbp`, directly after it, and after `pop rbp`.
        let bare = || {
            let sp = at.regs.sp();
            returns(self.regs(at, self.frame_word(sp, 0)?, sp.checked_add(WORD)?, at.regs.fp()))
        };
        let pushed = || {
            let sp = at.regs.sp();
            returns(self.regs(at, self.frame_word(sp, 1)?, sp.checked_add(2 * WORD)?, self.frame_word(sp, 0)))
        };
        let sized = || returns(self.sized_caller(at, u64::from(blob.frame_size?)));
        let chained = || returns(self.chained_caller(at));
        let complete = self.classes.vm.at("CodeBlob", blob.range.start).signed("_frame_complete_offset").ok();
        let complete = complete.and_then(|at| u64::try_from(at).ok());
        let is_made = complete.is_none_or(|complete| at.regs.ip().since(blob.code.start) >= complete);
        match blob.frame_size {
            Some(_) if is_made => sized().or_else(bare).or_else(pushed),
            Some(_) => bare().or_else(pushed).or_else(sized),
            None => bare().or_else(chained).or_else(pushed),
        }
    }

    /// Whether generated code may return to `ip`.
    fn is_return(&self, ip: Addr) -> bool {
        self.is_interpreter(ip) || self.blob_at(ip.saturating_sub(1)).is_some()
    }

    fn fits(&self, at: &FrameAt<'_>, sp: Addr) -> bool {
        sp > at.regs.sp() && at.stack.is_none_or(|stack| sp > stack.start && sp <= stack.end)
    }

    fn regs(&self, at: &FrameAt<'_>, ip: Addr, sp: Addr, fp: Option<Addr>) -> Option<Regs> {
        if ip.is_null() || !self.fits(at, sp) {
            return None;
        }
        let mut regs = Regs::new(at.regs.arch(), ip, sp);
        regs.set(regs.fp_number(), fp.map(Addr::get));
        Some(regs)
    }
}
