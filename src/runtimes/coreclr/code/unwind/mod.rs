//! Unwind data of managed code. CoreCLR's JIT and crossgen write the format of Windows on Unix too.
//!
//! The entry of a function or funclet (RUNTIME_FUNCTION) is read here, the unwind codes in the module of each
//! architecture.

mod amd64;
mod arm64;

use crate::addr::Addr;
use crate::bytes::u32_at;
use crate::layout::{Layout, LayoutError};
use crate::memory::{Fault, Memory};
use crate::registers::Regs;
use crate::targets::Arch;

/// Reasons why a managed frame can't be unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnwindError {
    /// The unwind data or the stack can't be read.
    #[error("{0}")]
    Memory(#[from] Fault),
    /// An unknown unwind code or register.
    #[error("invalid unwind data")]
    Bad,
}

/// A function or funclet with its unwind data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) struct UnwindEntry {
    /// Base address of RVAs.
    pub(super) base: Addr,
    pub(super) begin: Addr,
    pub(super) end: Addr,
    /// RVA of the unwind data. On arm64 it may be the unwind data itself, if that fits.
    pub(super) data: u32,
}

impl UnwindEntry {
    pub(in crate::runtimes::coreclr) fn begin(&self) -> Addr {
        self.begin
    }
}

/// A RUNTIME_FUNCTION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RuntimeFunction {
    /// RVA of the code.
    pub(super) begin: u32,
    /// RVA of the end, if the entry has it.
    pub(super) end: Option<u32>,
    /// RVA of the unwind data, or the data itself.
    pub(super) data: u32,
}

/// Field offsets of a RUNTIME_FUNCTION. On arm64 there is no end field; the unwind data has the length.
#[derive(Clone, Copy, Debug)]
pub(super) struct FunctionForm {
    arch: Arch,
    size: usize,
    begin: usize,
    end: Option<usize>,
    data: usize,
}

/// Maximum size of a RUNTIME_FUNCTION in bytes.
const LARGEST: u64 = 64;

impl FunctionForm {
    /// Reads the offsets from a runtime's layout.
    ///
    /// # Errors
    /// If the layout lacks one of them.
    pub(super) fn of(arch: Arch, layout: &Layout) -> Result<FunctionForm, LayoutError> {
        let at = |field| layout.positive("RuntimeFunction", field).map(|at| at as usize);
        Ok(FunctionForm {
            arch,
            size: layout.size("RuntimeFunction")?.clamp(4, LARGEST) as usize,
            begin: at("BeginAddress")?,
            end: at("EndAddress").ok(),
            data: at("UnwindData")?,
        })
    }

    pub(super) fn size(&self) -> u64 {
        self.size as u64
    }

    /// Parses adjacent entries in `bytes`.
    pub(super) fn all<'b>(&self, bytes: &'b [u8]) -> impl Iterator<Item = RuntimeFunction> + use<'b> {
        let form = *self;
        bytes.chunks_exact(form.size).map_while(move |f| {
            let end = match form.end {
                Some(end) => Some(u32_at(f, end)?),
                None => None,
            };
            Some(RuntimeFunction { begin: u32_at(f, form.begin)?, end, data: u32_at(f, form.data)? })
        })
    }

    /// RVA of the end of `function`, from its unwind data if the entry lacks it.
    ///
    /// # Errors
    /// If the unwind data can't be read.
    pub(super) fn end(&self, memory: &dyn Memory, base: Addr, function: &RuntimeFunction) -> Result<u32, Fault> {
        match (function.end, self.arch) {
            (Some(end), _) => Ok(end),
            (None, Arch::Aarch64) => {
                let length = arm64::function_length(memory, base, function.data)?;
                Ok(function.begin.saturating_add(length))
            }
            (None, Arch::X86_64) => Ok(function.begin),
        }
    }
}

/// DWARF number of a register for its number in instructions, which GC info uses too.
pub(in crate::runtimes::coreclr) fn dwarf(arch: Arch, number: u32) -> Option<u16> {
    match arch {
        Arch::X86_64 => amd64::DWARF.get(number as usize).copied(),
        Arch::Aarch64 => u16::try_from(number).ok().filter(|&n| n <= arm64::LR),
    }
}

/// Returns the registers of the caller of the frame with `regs`. `exact`: the instruction pointer is where the thread
/// was interrupted, not a return address.
///
/// # Errors
/// If the unwind data or the stack can't be read or is invalid.
pub(in crate::runtimes::coreclr) fn unwind(
    memory: &dyn Memory,
    entry: &UnwindEntry,
    regs: &Regs,
    exact: bool,
) -> Result<Regs, UnwindError> {
    match regs.arch() {
        Arch::X86_64 => amd64::unwind(memory, entry, regs, exact),
        Arch::Aarch64 => arm64::unwind(memory, entry, regs, exact),
    }
}

/// Like [`unwind`] after a call, by the stack pointer alone. If the frame pointer leads to the same caller, both are
/// right. `None` for machines where every function has a frame record.
pub(in crate::runtimes::coreclr) fn unwind_from_sp(
    memory: &dyn Memory,
    entry: &UnwindEntry,
    regs: &Regs,
) -> Option<Result<Regs, UnwindError>> {
    match regs.arch() {
        Arch::X86_64 => Some(amd64::unwind_from_sp(memory, entry, regs)),
        Arch::Aarch64 => None,
    }
}

/// Address of a function's GC info in a ReadyToRun image. It follows the unwind data
/// (ReadyToRunJitManager::GetGCInfoToken, GetUnwindDataBlob) and the RVA of a personality routine, which is always
/// present.
///
/// # Errors
/// If the unwind data can't be read.
pub(in crate::runtimes::coreclr) fn gc_info_address(
    memory: &dyn Memory,
    arch: Arch,
    entry: &UnwindEntry,
) -> Result<Addr, UnwindError> {
    match arch {
        Arch::X86_64 => amd64::gc_info_address(memory, entry),
        Arch::Aarch64 => arm64::gc_info_address(memory, entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{DOTNET_ARM64, DOTNET_X64};
    use crate::memory::FaultKind;

    /// .xdata records at 0x100 (10 instructions) and at 0x110 (cut off after it).
    struct Image;

    impl Memory for Image {
        fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
            let word: u32 = if addr == Addr::new(0x100) { 10 | 1 << 27 } else { 0 };
            if addr >= Addr::new(0x110) || buf.len() != 4 {
                return Err(Fault { addr, kind: FaultKind::Unmapped });
            }
            buf.copy_from_slice(&word.to_le_bytes());
            Ok(())
        }

        fn readable(&self, addr: Addr, max: u64) -> u64 {
            0x110u64.saturating_sub(addr.get()).min(max)
        }
    }

    #[test]
    fn functions_with_an_end_of_their_own_and_without() -> Result<(), Box<dyn std::error::Error>> {
        let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        let (_, x64) = DOTNET_X64.iter().next_back().ok_or("no table")?;
        let form = FunctionForm::of(Arch::X86_64, x64.layout()?)?;
        let all: Vec<_> = form.all(&words(&[0x1000, 0x1040, 0x100, 0x1040, 0x1080, 0x100, 7])).collect();
        let ends: Vec<_> = all.iter().map(|f| (f.begin, form.end(&Image, Addr::NULL, f))).collect();
        assert_eq!(ends, [(0x1000, Ok(0x1040)), (0x1040, Ok(0x1080))]);
        for (_, table) in &DOTNET_ARM64 {
            let form = FunctionForm::of(Arch::Aarch64, table.layout()?)?;
            // Functions with an .xdata record, with packed data (5 instructions), and with a missing record.
            let all: Vec<_> = form.all(&words(&[0x1000, 0x100, 0x1028, 5 << 2 | 1, 0x1040, 0x110, 7])).collect();
            let ends: Vec<_> = all.iter().map(|f| (f.begin, form.end(&Image, Addr::NULL, f).ok())).collect();
            assert_eq!(ends, [(0x1000, Some(0x1028)), (0x1028, Some(0x103c)), (0x1040, None)]);
        }
        Ok(())
    }

    #[test]
    fn registers_by_the_numbers_of_each_machine() {
        assert_eq!((dwarf(Arch::X86_64, 5), dwarf(Arch::X86_64, 16)), (Some(6), None));
        assert_eq!((dwarf(Arch::Aarch64, 29), dwarf(Arch::Aarch64, 31)), (Some(29), None));
    }
}
