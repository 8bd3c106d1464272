//! The runtime's own unwind data: that of Windows, which CoreCLR's JIT and crossgen write on Unix too. What there
//! is for each function or funclet (RUNTIME_FUNCTION), and the codes of each machine.

mod amd64;
mod arm64;

use crate::addr::Addr;
use crate::bytes::u32_at;
use crate::layout::{Layout, LayoutError};
use crate::memory::{Fault, Memory};
use crate::registers::Regs;
use crate::targets::Arch;

/// Why a managed frame can't be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::runtimes::coreclr) enum UnwindError {
    /// The unwind data or the stack.
    #[error("{0}")]
    Memory(#[from] Fault),
    /// A code that is not known, or a register that is not.
    #[error("invalid unwind data")]
    Bad,
}

/// A function or funclet with its unwind data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::coreclr) struct UnwindEntry {
    /// What RVAs count from.
    pub(super) base: Addr,
    /// Where its code begins.
    pub(super) begin: Addr,
    /// Where its code ends.
    pub(super) end: Addr,
    /// RVA of its unwind data; on arm64 that itself, where it fits.
    pub(super) data: u32,
}

impl UnwindEntry {
    /// Where its code begins.
    pub(in crate::runtimes::coreclr) fn begin(&self) -> Addr {
        self.begin
    }
}

/// A RUNTIME_FUNCTION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RuntimeFunction {
    /// RVA of its code.
    pub(super) begin: u32,
    /// RVA of its end, where that stands here.
    pub(super) end: Option<u32>,
    /// RVA of its unwind data, or that itself.
    pub(super) data: u32,
}

/// Where things stand in a RUNTIME_FUNCTION; on arm64 it has no end, which the unwind data tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct FunctionForm {
    arch: Arch,
    size: usize,
    begin: usize,
    end: Option<usize>,
    data: usize,
}

/// A RUNTIME_FUNCTION has at most so many bytes.
const LARGEST: u64 = 64;

impl FunctionForm {
    /// That of a runtime.
    ///
    /// # Errors
    /// Where its layout lacks one of the numbers.
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

    /// Bytes of one.
    pub(super) fn size(&self) -> u64 {
        self.size as u64
    }

    /// Those that lie one behind the other in `bytes`.
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

    /// The RVA of the end of `function`, from its unwind data where it has none itself.
    ///
    /// # Errors
    /// Where that can't be read.
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

/// The DWARF number of a register by its number in instructions, as GC info has it too.
pub(in crate::runtimes::coreclr) fn dwarf(arch: Arch, number: u32) -> Option<u16> {
    match arch {
        Arch::X86_64 => amd64::DWARF.get(number as usize).copied(),
        Arch::Aarch64 => u16::try_from(number).ok().filter(|&n| n <= arm64::LR),
    }
}

/// The registers of the caller of the frame with `regs`; `exact`: its address is
/// where it was interrupted, and no return address.
///
/// # Errors
/// Where the unwind data or the stack can't be read, or makes no sense.
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

/// What follows a function's unwind data in a ReadyToRun image: its GC info
/// (ReadyToRunJitManager::GetGCInfoToken, GetUnwindDataBlob). The RVA of a
/// personality routine stands between them, always.
///
/// # Errors
/// Where the unwind data can't be read.
pub(in crate::runtimes::coreclr) fn behind(
    memory: &dyn Memory,
    arch: Arch,
    entry: &UnwindEntry,
) -> Result<Addr, UnwindError> {
    match arch {
        Arch::X86_64 => amd64::behind(memory, entry),
        Arch::Aarch64 => arm64::behind(memory, entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{DOTNET_ARM64, DOTNET_X64};
    use crate::memory::FaultKind;

    /// .xdata records at 0x100 (10 instructions) and at 0x110 (cut off behind it).
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
            // One by its .xdata record, one that is packed (5 instructions), one whose record is not there.
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
