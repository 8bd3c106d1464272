//! One step up a stack by a module's call frame information: .eh_frame, found through .eh_frame_hdr.
//!
//! LSB core specification, exception frames; DWARF 5, section 6.4.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use gimli::{
    BaseAddresses, CfaRule, CommonInformationEntry, EhFrame, EhFrameHdr, EhFrameOffset, EndianSlice, Evaluation,
    EvaluationResult, FrameDescriptionEntry, LittleEndian, ParsedEhFrameHdr, RegisterRule, UnwindContext,
    UnwindExpression, UnwindSection, UnwindTableRow, Value, Vendor,
};

use crate::addr::{Addr, AddrRange};
use crate::image::elf::ElfImage;
use crate::limits;
use crate::memory::{Fault, Memory};
use crate::native::unwind::replaced_fp;
use crate::registers::Regs;
use crate::targets::Arch;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// State that is reused between steps.
#[derive(Default)]
pub(super) struct Scratch {
    context: UnwindContext<usize>,
    /// Rules by address. Most threads of a process wait at the same few addresses.
    rules: HashMap<Addr, Rules>,
}

/// The unwind rules at one address.
struct Rules {
    row: UnwindTableRow<usize>,
    encoding: gimli::Encoding,
    /// The register with the return address.
    back: gimli::Register,
    /// Whether the code is a signal handler's trampoline.
    signal: bool,
    /// Distance from the stack pointer to the frame pointer, if the function replaced that register.
    replaced_fp: Option<u64>,
}

/// Why unwind data does not give a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CfiError {
    /// No unwind data covers the address.
    Missing,
    /// The unwind data marks this frame as the outermost.
    Outermost,
    Stack(Fault),
    /// The unwind data is invalid, or needs an unknown register.
    Bad,
}

impl From<gimli::Error> for CfiError {
    fn from(_: gimli::Error) -> CfiError {
        CfiError::Bad
    }
}

/// The calling frame.
pub(super) struct CallerFrame {
    pub(super) regs: Regs,
    /// Whether the frame left was a signal handler's trampoline. The caller was interrupted then, and made no call.
    pub(super) signal: bool,
}

/// Unwind data of one image.
pub(super) struct Tables<'m> {
    header: Option<Cow<'m, [u8]>>,
    frames: Cow<'m, [u8]>,
    bases: BaseAddresses,
}

impl<'m> Tables<'m> {
    /// Reads the unwind data of `image`. `None` if it has none, or it cannot be read.
    pub(super) fn read(memory: &'m dyn Memory, image: &ElfImage, names: &[(AddrRange, &str)]) -> Option<Tables<'m>> {
        let section = |name| names.iter().filter(|(_, n)| *n == name).map(|(r, _)| *r).min_by_key(|r| r.len());
        let bytes = |range: AddrRange| -> Option<Cow<'m, [u8]>> {
            let len = memory.readable(range.start, range.len().min(limits::MAX_EH_FRAME));
            let len = usize::try_from(len).ok().filter(|&n| n > 0)?;
            memory
                .borrow(range.start, len)
                .map(Cow::Borrowed)
                .or_else(|| memory.bytes(range.start, len).ok().map(Cow::Owned))
        };
        let frames = section(".eh_frame").filter(|r| image.range.contains(r.start))?;
        let header = section(".eh_frame_hdr");
        let mut bases = BaseAddresses::default().set_eh_frame(frames.start.get());
        if let Some(header) = header {
            bases = bases.set_eh_frame_hdr(header.start.get());
        }
        Some(Tables { header: header.and_then(bytes), frames: bytes(frames)?, bases })
    }

    /// Returns the caller of the frame with `regs`, by the unwind data for `at`.
    pub(super) fn step(
        &self,
        memory: &dyn Memory,
        scratch: &mut Scratch,
        regs: &Regs,
        at: Addr,
    ) -> Result<CallerFrame, CfiError> {
        let mut frames = EhFrame::new(&self.frames, LittleEndian);
        if regs.arch() == Arch::Aarch64 {
            // With pointer authentication, an arm64-only CFA instruction marks where the return address is signed.
            frames.set_vendor(Vendor::AArch64);
        }
        let Scratch { context, rules } = scratch;
        if rules.len() >= limits::MAX_UNWIND_ROWS {
            rules.clear();
        }
        let Rules { row, encoding, back, signal, replaced_fp } = match rules.entry(at) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                new.insert(self.rules(memory, regs.arch(), &frames, context, at).ok_or(CfiError::Missing)?)
            }
        };
        let machine = Machine { memory, frames: &frames, encoding: *encoding, regs };
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let own = replaced_fp.filter(|_| register.0 == regs.fp_number());
                let from =
                    own.map_or_else(|| regs.get(register.0), |distance| Some(regs.sp().saturating_add(distance).get()));
                from.ok_or(CfiError::Bad)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => machine.evaluate(expression, None)?,
        };
        let mut above = regs.clone();
        above.set_sp(Addr::new(cfa));
        // Without a rule, the return address is still in the link register, on machines that have one.
        above.set(back.0, regs.link());
        let mut outermost = false;
        for (register, rule) in row.registers() {
            let value = match rule {
                RegisterRule::Undefined | RegisterRule::Architectural => {
                    outermost |= register == back;
                    None
                }
                RegisterRule::SameValue => regs.get(register.0),
                RegisterRule::Offset(offset) => Some(machine.register(cfa.wrapping_add_signed(*offset))?),
                RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
                RegisterRule::Register(other) => regs.get(other.0),
                RegisterRule::Expression(expression) => {
                    Some(machine.register(machine.evaluate(expression, Some(cfa))?)?)
                }
                RegisterRule::ValExpression(expression) => Some(machine.evaluate(expression, Some(cfa))?),
                RegisterRule::Constant(value) => Some(*value),
            };
            above.set(register.0, value);
        }
        if outermost {
            return Err(CfiError::Outermost);
        }
        let ip = above.get(back.0).ok_or(CfiError::Bad)?;
        above.set_ip(ip);
        // A call may have changed the volatile registers, so the caller's values are unknown.
        if !*signal {
            forget_volatile(&mut above);
        }
        Ok(CallerFrame { regs: above, signal: *signal })
    }

    /// Code of the entry that contains `at`, and the address of its language-specific data.
    pub(super) fn code_of(&self, memory: &dyn Memory, at: Addr) -> Option<(AddrRange, Option<Addr>)> {
        let frames = EhFrame::new(&self.frames, LittleEndian);
        let entry = self.entry(&frames, at)?;
        let own = entry.lsda().and_then(|own| match own {
            gimli::Pointer::Direct(at) => Some(Addr::new(at)),
            gimli::Pointer::Indirect(at) => memory.ptr(Addr::new(at)).ok(),
        });
        let range = AddrRange::sized(Addr::new(entry.initial_address()), entry.len());
        Some((range, own.filter(|at| !at.is_null())))
    }

    fn rules(
        &self,
        memory: &dyn Memory,
        arch: Arch,
        frames: &EhFrame<Slice<'_>>,
        context: &mut UnwindContext<usize>,
        at: Addr,
    ) -> Option<Rules> {
        let entry = self.entry(frames, at)?;
        let row = entry.unwind_info_for_address(frames, &self.bases, context, at.get()).ok()?.clone();
        let (cie, signal) = (entry.cie(), entry.is_signal_trampoline());
        let by_fp = matches!(row.cfa(), CfaRule::RegisterAndOffset { register, .. } if register.0 == FP_OF_AARCH64);
        let start = Addr::new(entry.initial_address());
        let replaced_fp = (arch == Arch::Aarch64 && by_fp)
            .then(|| code(memory, start, at))
            .flatten()
            .and_then(|code| replaced_fp::distance(&code));
        Some(Rules { row, encoding: cie.encoding(), back: cie.return_address_register(), signal, replaced_fp })
    }

    fn entry<'a>(&'a self, frames: &EhFrame<Slice<'a>>, at: Addr) -> Option<FrameDescriptionEntry<Slice<'a>>> {
        let by_header = self.header.as_deref().and_then(|header| {
            let header: ParsedEhFrameHdr<Slice<'a>> =
                EhFrameHdr::new(header, LittleEndian).parse(&self.bases, 8).ok()?;
            let found = header.table()?.lookup(at.get(), &self.bases).and_then(gimli::Pointer::direct).ok();
            Some(found.and_then(|found| self.entry_at(frames, found)).filter(|entry| entry.contains(at.get())))
        });
        match by_header {
            Some(found) => found,
            None => frames.fde_for_address(&self.bases, at.get(), cie).ok(),
        }
    }

    /// Parses the entry at address `at`, which is from the header's table. A damaged table may lead below the section,
    /// where `fde_for_address` of gimli 0.34 overflows.
    fn entry_at<'a>(&'a self, frames: &EhFrame<Slice<'a>>, at: u64) -> Option<FrameDescriptionEntry<Slice<'a>>> {
        let offset = at.checked_sub(self.bases.eh_frame.section?)?;
        frames.fde_from_offset(&self.bases, EhFrameOffset(usize::try_from(offset).ok()?), cie).ok()
    }
}

fn cie<'a>(
    frames: &EhFrame<Slice<'a>>,
    bases: &BaseAddresses,
    offset: EhFrameOffset<usize>,
) -> gimli::Result<CommonInformationEntry<Slice<'a>>> {
    frames.cie_from_offset(bases, offset)
}

/// Number of the frame pointer of aarch64 in DWARF.
const FP_OF_AARCH64: u16 = 29;

/// The instructions of a function from its start up to and with the one at `at`. `None` if they are too many, or not in
/// the core.
fn code(memory: &dyn Memory, start: Addr, at: Addr) -> Option<Vec<u32>> {
    let len = usize::try_from(at.checked_since(start)?).ok()?.checked_add(1)? / 4 * 4;
    let bytes = (len <= 4 * replaced_fp::MAX_CODE).then(|| memory.look(start, len).ok()).flatten()?;
    Some(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
}

/// Forgets the registers that the calling convention lets a callee change.
fn forget_volatile(regs: &mut Regs) {
    let volatile: &[std::ops::RangeInclusive<u16>] = match regs.arch() {
        // rax rdx rcx; rsi rdi; r8 to r11
        Arch::X86_64 => &[0..=2, 4..=5, 8..=11],
        Arch::Aarch64 => &[0..=18],
    };
    for number in volatile.iter().cloned().flatten() {
        regs.set(number, None);
    }
}

/// The memory and registers that expressions read.
struct Machine<'a, 'f> {
    memory: &'a dyn Memory,
    frames: &'a EhFrame<Slice<'f>>,
    encoding: gimli::Encoding,
    regs: &'a Regs,
}

impl<'f> Machine<'_, 'f> {
    fn word(&self, at: u64) -> Result<u64, CfiError> {
        self.memory.u64(Addr::new(at)).map_err(CfiError::Stack)
    }

    /// Reads a saved register, as in a search: unless it is an address, it is a value of the program and no structure.
    fn register(&self, at: u64) -> Result<u64, CfiError> {
        self.memory.peek_u64(Addr::new(at)).map_err(CfiError::Stack)
    }

    fn evaluate(&self, expression: &UnwindExpression<usize>, start: Option<u64>) -> Result<u64, CfiError> {
        let expression = expression.get(self.frames)?;
        let mut run: Evaluation<Slice<'f>> = expression.evaluation(self.encoding);
        run.set_max_iterations(limits::MAX_EXPRESSION_STEPS);
        if let Some(start) = start {
            run.set_initial_value(start);
        }
        let mut state = run.evaluate()?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let word = self.word(address)?;
                    let bits = u32::from(size.min(8)) * 8;
                    let kept = if bits >= 64 { word } else { word & ((1 << bits) - 1) };
                    run.resume_with_memory(Value::Generic(kept))?
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = self.regs.get(register.0).ok_or(CfiError::Bad)?;
                    run.resume_with_register(Value::Generic(value))?
                }
                _ => return Err(CfiError::Bad),
            };
        }
        match run.value_result() {
            Some(value) => Ok(value.to_u64(!0)?),
            None => Err(CfiError::Bad),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: u32 = 0x2000;
    const ENTRY: u32 = FRAMES + 0x18;
    const HEADER: u32 = 0x3000;
    const CODE: u32 = 0x1800;

    /// Makes a CIE (`zR`, pc-relative 32-bit addresses) and an FDE for 256 bytes of code.
    fn frames() -> Vec<u8> {
        let mut out = vec![0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b];
        // The CFA is rsp + 8, and the return address is at CFA - 8.
        out.extend([0x0c, 7, 8, 0x90, 1, 0, 0]);
        for word in [0x10, ENTRY + 4 - FRAMES, CODE.wrapping_sub(ENTRY + 8), 0x100, 0] {
            out.extend(word.to_le_bytes());
        }
        out
    }

    /// Makes the search table with one function, whose FDE is at `entry`.
    fn header(entry: u32) -> Vec<u8> {
        let mut out = vec![1, 0x1b, 3, 0x3b];
        for word in [FRAMES.wrapping_sub(HEADER + 4), 1, CODE.wrapping_sub(HEADER), entry.wrapping_sub(HEADER)] {
            out.extend(word.to_le_bytes());
        }
        out
    }

    fn found(entry: u32, at: u32) -> bool {
        let bases = BaseAddresses::default().set_eh_frame(FRAMES.into()).set_eh_frame_hdr(HEADER.into());
        let tables = Tables { header: Some(header(entry).into()), frames: frames().into(), bases };
        tables.entry(&EhFrame::new(&tables.frames, LittleEndian), Addr::new(at.into())).is_some()
    }

    #[test]
    fn the_table_leads_to_the_entry_of_an_address() {
        assert!(found(ENTRY, CODE) && found(ENTRY, CODE + 0xff));
        assert!(!found(ENTRY, CODE + 0x100), "behind its code");
    }

    /// Found by the mutation run (COREMAP_SEED=20000072 of dotnet10-shrunk).
    #[test]
    fn a_table_that_leads_out_of_the_section_finds_nothing() {
        for entry in [FRAMES - 0x100, 0, ENTRY + 0x1000, ENTRY + 1] {
            assert!(!found(entry, CODE), "{entry:#x}");
        }
    }

    /// A stack at STACK with a frame pointer and a signed return address.
    struct Stack;

    const STACK: u64 = 0x7000_0000;
    const BACK: u64 = 0x40_1234;

    impl Memory for Stack {
        fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
            let words = [STACK + 0x40, BACK | 0x2a << 48];
            let at = addr.checked_since(Addr::new(STACK)).and_then(|at| words.get(at as usize / 8));
            let word = at.ok_or(Fault { addr, kind: crate::memory::FaultKind::Unmapped })?;
            buf.copy_from_slice(&word.to_le_bytes());
            Ok(())
        }

        fn readable(&self, _: Addr, max: u64) -> u64 {
            max
        }
    }

    /// paciasp; stp x29, x30, [sp, #-16]!: as compilers write it with -mbranch-protection=standard.
    #[test]
    fn a_signed_return_address_of_arm64() {
        let mut frames = vec![0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 4, 0x78, 30, 1, 0x1b];
        frames.extend([0x0c, 31, 0, 0, 0, 0, 0]);
        for word in [0x18, ENTRY + 4 - FRAMES, CODE.wrapping_sub(ENTRY + 8), 0x100] {
            frames.extend(word.to_le_bytes());
        }
        // negate_ra_state after one instruction. After the next one the frame is 16 bytes, with x29 and x30 at its
        // lower end.
        frames.extend([0, 0x41, 0x2d, 0x41, 0x0e, 16, 0x80 | 29, 2, 0x80 | 30, 1, 0, 0]);
        let bases = BaseAddresses::default().set_eh_frame(FRAMES.into()).set_eh_frame_hdr(HEADER.into());
        let tables = Tables { header: Some(header(ENTRY).into()), frames: frames.into(), bases };
        let at = Addr::new(u64::from(CODE) + 0x20);
        let regs = Regs::new(Arch::Aarch64, at, Addr::new(STACK));
        let up = tables.step(&Stack, &mut Scratch::default(), &regs, at).map(|up| up.regs);
        let found = up.as_ref().map(|r| (r.ip(), r.sp(), r.fp())).ok();
        assert_eq!(found, Some((Addr::new(BACK), Addr::new(STACK + 16), Some(Addr::new(STACK + 0x40)))));
    }
}
