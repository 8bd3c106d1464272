//! Unwinds native stacks. The methods are call frame information, frame pointers, and a scan for return addresses, in
//! this order.
//!
//! LSB core specification, exception frames; System V ABI for x86_64, section 3.2.2.

mod cfi;
pub mod code;
mod replaced_fp;

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::addr::{Addr, AddrRange, union};
use crate::limits;
use crate::memory::{Fault, Memory};
use crate::native::placed::{PlacedImage, PlacedImages};
use crate::native::signal_frames;
use crate::process::Process;
use crate::range_map::{RangeMap, Ranged};
use crate::registers::Regs;
pub use crate::words::Trust;
use cfi::{CfiError, Scratch, Tables};

/// A frame of a native stack.
#[derive(Clone, Debug)]
pub struct UnwoundFrame {
    /// The frame's registers.
    pub regs: Regs,
    /// Whether the instruction pointer is where the frame was interrupted, and not a return address.
    pub exact: bool,
    /// How the frame was found.
    pub trust: Trust,
}

/// Why a stack cannot be followed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The thread began here.
    Bottom,
    /// The address has no unwind data, and no other method gives a caller.
    NoUnwindData(Addr),
    /// The stack cannot be read.
    Unreadable(Fault),
    /// The stack pointer is in no stack.
    NoStack(Addr),
    /// The caller's frame would be below this one, or the same.
    NotUp(Addr),
    /// The stack has more than `limits::MAX_STACK_FRAMES` frames.
    TooMany,
}

impl End {
    /// Describes the reason.
    pub fn text(self) -> String {
        match self {
            End::Bottom => "the thread began here".into(),
            End::NoUnwindData(ip) => format!("no unwind data for {ip}; its caller can't be found"),
            End::Unreadable(fault) => format!("the stack can't be read: {fault}"),
            End::NoStack(sp) => format!("the stack pointer {sp} is in no stack"),
            End::NotUp(sp) => format!("the caller's stack pointer would not be above {sp}"),
            End::TooMany => format!("more than {} frames; unwinding stopped", limits::MAX_STACK_FRAMES),
        }
    }
}

/// Where the address in a link register leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkTo {
    /// Into the caller.
    Caller,
    /// Into the caller, or into the function itself, behind its last call.
    CallerOrItself,
}

type Image<'p> = PlacedImage<'p, OnceLock<Option<Tables<'p>>>>;

/// Steps up native stacks. The unwind data of a module is read on first use.
pub struct Unwinder<'p> {
    process: &'p Process,
    images: PlacedImages<'p, OnceLock<Option<Tables<'p>>>>,
    executable: RangeMap<Executable>,
    scratch: Mutex<Box<Scratch>>,
}

struct Executable(AddrRange);

impl Ranged for Executable {
    fn range(&self) -> AddrRange {
        self.0
    }
}

impl<'p> Unwinder<'p> {
    /// Makes an unwinder that has read no unwind data yet. `code` are ranges of code outside modules and outside the
    /// core's executable segments.
    pub fn new(process: &'p Process, code: impl IntoIterator<Item = AddrRange>) -> Unwinder<'p> {
        let images = PlacedImages::new(process);
        let of_images = images.iter().flat_map(|i| i.elf.segments.iter()).filter(|s| s.perms.exec).map(|s| s.range);
        let of_core = process.space().mappings.iter().filter(|s| s.perms.exec).map(|s| s.range);
        let executable = union(of_images.chain(of_core).chain(code).collect()).into_iter().map(Executable).collect();
        Unwinder {
            process,
            images,
            executable: RangeMap::from_sorted(executable).unwrap_or_default(),
            scratch: Mutex::default(),
        }
    }

    /// Whether `addr` may be code.
    pub fn is_code(&self, addr: Addr) -> bool {
        self.executable.at(addr).is_some()
    }

    /// Returns the caller of a native frame, by unwind data.
    ///
    /// # Errors
    /// [`End::NoUnwindData`] also if the data is unusable.
    pub fn by_unwind_data(&self, step: &UnwoundFrame) -> Result<UnwoundFrame, End> {
        let ip = step.regs.ip();
        // A return address may be the first byte after its function.
        let at = if step.exact { ip } else { ip.saturating_sub(1) };
        let missing = End::NoUnwindData(ip);
        let image = self.images.at(at).ok_or(missing)?;
        let tables = image.kept.get_or_init(|| self.tables(image)).as_ref().ok_or(missing)?;
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        match tables.step(&self.process.memory, &mut scratch, &step.regs, at) {
            Ok(up) if up.regs.ip().is_null() => Err(End::Bottom),
            Ok(up) => Ok(UnwoundFrame { regs: up.regs, exact: up.signal, trust: Trust::UnwindData }),
            Err(CfiError::Outermost) => Err(End::Bottom),
            Err(CfiError::Stack(fault)) => Err(End::Unreadable(fault)),
            Err(CfiError::Missing | CfiError::Bad) => Err(missing),
        }
    }

    /// Returns the code that one entry of the unwind data describes, and the address of the entry's language-specific
    /// data.
    pub fn entry_at(&self, at: Addr) -> Option<(AddrRange, Option<Addr>)> {
        let image = self.images.at(at)?;
        let tables = image.kept.get_or_init(|| self.tables(image)).as_ref()?;
        tables.code_of(&self.process.memory, at)
    }

    fn tables(&self, image: &Image<'p>) -> Option<Tables<'p>> {
        let sections = match image.module {
            Some(module) => &self.process.modules.get(module)?.sections,
            None => &image.elf.sections,
        };
        let names: Vec<(AddrRange, &str)> = sections.iter().map(|s| (s.range, s.name.as_str())).collect();
        Tables::read(&self.process.memory, &image.elf, &names)
    }

    /// Returns the caller by the frame pointer. It points to the caller's frame pointer, followed by the return
    /// address.
    pub fn by_frame_pointer(&self, step: &UnwoundFrame, stack: AddrRange) -> Option<UnwoundFrame> {
        let fp = step.regs.fp().filter(|fp| fp.is_aligned(8) && stack.contains(*fp) && *fp >= step.regs.sp())?;
        let memory = &self.process.memory;
        let (above, back) = (memory.peek_u64(fp).ok()?, memory.peek_u64(fp.checked_add(8)?).ok()?);
        let mut regs = step.regs.of_frame(Addr::NULL, fp.checked_add(16)?);
        regs.set_ip(back);
        regs.set(regs.fp_number(), Some(above));
        // Code that cannot be read may be a call, since the frame pointer is evidence too.
        let called = self.is_code(regs.ip())
            && (self.follows_call(regs.ip()) != Some(false) || self.is_signal_return(regs.ip()));
        called.then_some(UnwoundFrame { regs, exact: false, trust: Trust::FramePointer })
    }

    /// Returns the caller of an aarch64 function that called a funclet. The function gave the funclet the frame pointer
    /// of the method's own frame, so its own frame record is where its stack pointer is (CoreCLR 9 to 11,
    /// pal/src/arch/arm64/exceptionhelper.S).
    pub fn by_record_at_sp(&self, step: &UnwoundFrame, stack: AddrRange) -> Option<UnwoundFrame> {
        let mut step = step.clone();
        step.regs.set(step.regs.fp_number(), Some(step.regs.sp().get()));
        self.by_frame_pointer(&step, stack)
    }

    /// Returns the caller of a function that has not set up its frame yet. The return address is in the link register
    /// or on top of the stack.
    pub fn by_leaf(&self, step: &UnwoundFrame, stack: AddrRange) -> Option<UnwoundFrame> {
        let (sp, mut regs) = (step.regs.sp(), step.regs.clone());
        let is_return = match step.regs.link() {
            Some(link) => {
                regs.set_ip(link);
                // With a frame record, the frame pointer leads to this caller, and to its frame.
                !self.is_recorded(step, stack, regs.ip())
                    && match self.links(step) {
                        Some(LinkTo::Caller) => true,
                        Some(LinkTo::CallerOrItself) => false,
                        None => self.is_return_address(regs.ip()),
                    }
            }
            None => {
                regs.set_ip(self.process.memory.peek_u64(sp).ok().filter(|_| stack.contains(sp))?);
                regs.set_sp(sp.checked_add(8)?);
                self.is_return_address(regs.ip())
            }
        };
        let moved = regs.ip() != step.regs.ip();
        (moved && is_return).then_some(UnwoundFrame { regs, exact: false, trust: Trust::Scan })
    }

    /// Whether an interrupted function may have a caller that the frame pointer does not lead to, because the function
    /// has no frame record and its code can't be read.
    pub fn may_skip_caller(&self, step: &UnwoundFrame, stack: AddrRange) -> bool {
        // The link register may contain the caller's address, or be left over from a call that returned here.
        let Some(link) = step.regs.link().map(|link| Addr::new(step.regs.without_signature(link))) else {
            return self.process.memory.readable(step.regs.ip(), 1) == 0;
        };
        self.links(step) == Some(LinkTo::CallerOrItself) && !self.is_recorded(step, stack, link)
    }

    /// What the link register shows if the code there can't be read. `None` if the code can be read, or is no code.
    fn links(&self, step: &UnwoundFrame) -> Option<LinkTo> {
        let (link, ip) = (step.regs.link()?, step.regs.ip());
        let at = Addr::new(step.regs.without_signature(link));
        if at == ip || !self.is_code(at) || self.follows_call(at).is_some() {
            return None;
        }
        // A function signs the link register on entry, with pointer authentication, and calls replace it by an
        // unsigned address. In a function of another file, no call returned to this one.
        let is_signed = link != at.get();
        let base = self.process.base();
        let file = |at: Addr| base.at(at).and_then(|entry| base.path(entry));
        let is_elsewhere = || matches!((file(at), file(ip)), (Some(a), Some(b)) if a != b);
        Some(if is_signed || is_elsewhere() { LinkTo::Caller } else { LinkTo::CallerOrItself })
    }

    /// Whether the frame record that the frame pointer leads to has this return address.
    fn is_recorded(&self, step: &UnwoundFrame, stack: AddrRange, caller: Addr) -> bool {
        let record = step.regs.fp().filter(|fp| fp.is_aligned(8) && stack.contains(*fp) && *fp >= step.regs.sp());
        let back = record.and_then(|fp| self.process.memory.peek_u64(fp.checked_add(8)?).ok());
        back.is_some_and(|back| step.regs.without_signature(back) == caller.get())
    }

    /// Returns the caller by the first word on the stack that is a return address. At most [`limits::MAX_SCAN_WORDS`]
    /// words are read.
    pub fn by_scan(&self, step: &UnwoundFrame, stack: AddrRange) -> Option<UnwoundFrame> {
        let memory = &self.process.memory;
        // If this code is not in the core, its callers' code may be missing too. A scan would then find leftovers of
        // calls that have returned.
        if self.is_code(step.regs.ip()) && memory.readable(step.regs.ip(), 1) == 0 {
            return None;
        }
        let mut at = step.regs.sp().align_up(8);
        for _ in 0..limits::MAX_SCAN_WORDS {
            if !stack.contains(at) {
                return None;
            }
            let word = memory.peek_u64(at).ok()?;
            let above = at.checked_add(8)?;
            let mut regs = step.regs.of_frame(Addr::NULL, above);
            regs.set_ip(word);
            if self.is_return_address(regs.ip()) {
                // A frame pointer above this word may still be the caller's.
                let fp = step.regs.fp().filter(|fp| *fp >= above && stack.contains(*fp));
                regs.set(regs.fp_number(), fp.map(|fp| fp.get()));
                return Some(UnwoundFrame { regs, exact: false, trust: Trust::Scan });
            }
            at = above;
        }
        None
    }

    /// Whether `addr` is where a signal handler returns to.
    pub fn is_signal_return(&self, addr: Addr) -> bool {
        code::is_signal_return(&self.process.memory, self.process.arch(), addr)
    }

    /// Returns the interrupted frame if a signal handler is about to return, by the kernel's signal frame.
    pub fn by_signal_frame(&self, step: &UnwoundFrame) -> Option<UnwoundFrame> {
        let (arch, memory) = (step.regs.arch(), &self.process.memory);
        let above = signal_frames::above_return(arch, step.regs.sp())?;
        // A walk by frame pointers reaches the signal return, but not the stack pointer with which the handler returns.
        let below = || {
            let record = step.regs.fp().filter(|_| !signal_frames::is_ucontext(memory, arch, above))?;
            signal_frames::below_record(memory, arch, record, step.regs.sp())
        };
        let regs = signal_frames::registers(memory, arch, below().unwrap_or(above))?;
        Some(UnwoundFrame { regs, exact: true, trust: Trust::Signal })
    }

    /// Returns the interrupted frame by the first signal frame above, if no method leads from the handler to its
    /// return.
    ///
    /// On an alternate stack, the kernel's frame shows that the handler runs there. On any other stack, the frame may
    /// be left over from an earlier signal.
    pub fn by_signal_shape(&self, step: &UnwoundFrame, stack: AddrRange) -> Option<UnwoundFrame> {
        let (arch, memory) = (step.regs.arch(), &self.process.memory);
        let frame = signal_frames::find(memory, arch, step.regs.sp(), stack)?;
        let alternate = frame.alternate.contains(frame.at) && frame.alternate.contains(step.regs.sp());
        let regs = signal_frames::registers(memory, arch, frame.at)?;
        Some(UnwoundFrame { regs, exact: true, trust: if alternate { Trust::Signal } else { Trust::Scan } })
    }

    /// Returns possible callers between the frame at `step` and the frame `up`, to which its frame pointer leads: one
    /// for each return address on the stack between them. Such a caller has kept the frame pointer.
    pub(crate) fn skipped(&self, step: &UnwoundFrame, up: &UnwoundFrame) -> Vec<UnwoundFrame> {
        let mut out = Vec::new();
        let Some(end) = step.regs.fp() else { return out };
        let mut at = step.regs.sp().align_up(8);
        for _ in 0..limits::MAX_SCAN_WORDS {
            let Some(above) = at.checked_add(8).filter(|_| at < end && end < up.regs.sp()) else { break };
            let Ok(word) = self.process.memory.peek_u64(at) else { break };
            let mut regs = step.regs.clone();
            regs.set_ip(word);
            regs.set_sp(above);
            // Code that is not in the core may be a call. Nothing calls a signal's trampoline, nor ends a call at the
            // first byte of a mapping.
            let before = Addr::new(word).saturating_sub(1);
            let may_follow = self.is_code(before) && self.follows_call(regs.ip()) != Some(false);
            if self.is_code(regs.ip()) && may_follow && !self.is_signal_return(regs.ip()) {
                out.push(UnwoundFrame { regs, exact: false, trust: Trust::Scan });
            }
            at = above;
        }
        out
    }

    fn is_return_address(&self, addr: Addr) -> bool {
        self.is_code(addr) && (self.follows_call(addr) == Some(true) || self.is_signal_return(addr))
    }

    fn follows_call(&self, addr: Addr) -> Option<bool> {
        code::follows_call(&self.process.memory, self.process.arch(), addr)
    }
}
