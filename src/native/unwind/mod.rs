//! Unwinding native stacks: by the modules' call frame information, where that
//! lacks by frame pointers, and where these lack by looking for what can be
//! nothing but a return address.
//!
//! LSB core specification, exception frames; System V ABI for x86_64, section 3.2.2.

mod cfi;
pub(crate) mod code;

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

/// A frame: what it was in when it called, or was interrupted.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its registers.
    pub regs: Regs,
    /// Whether its address is where it was interrupted, and no return address.
    pub exact: bool,
    /// How it was found.
    pub trust: Trust,
}

/// Why a stack can't be followed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// This is where the thread began.
    Bottom,
    /// No unwind data, and nothing else leads on.
    NoUnwindData(Addr),
    /// The stack can't be read.
    Unreadable(Fault),
    /// The stack pointer is in no stack.
    NoStack(Addr),
    /// The frame above would be below, or the same again.
    NotUp(Addr),
    /// More than `limits::MAX_STACK_FRAMES`.
    TooMany,
}

impl End {
    /// In words.
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

type Image<'p> = PlacedImage<'p, OnceLock<Option<Tables<'p>>>>;

/// Steps up native stacks; unwind data of a module is read when first needed.
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
    /// Ready to step; reads no unwind data yet. `code`: where code is that is in
    /// no module and no segment of the core that says so.
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

    /// Whether code may be at an address.
    pub fn is_code(&self, addr: Addr) -> bool {
        self.executable.at(addr).is_some()
    }

    /// The frame above one in native code, by unwind data.
    ///
    /// # Errors
    /// [`End::NoUnwindData`] also where the data can't be used.
    pub fn by_unwind_data(&self, step: &Step) -> Result<Step, End> {
        let ip = step.regs.ip();
        // A return address may be the first byte after its function.
        let at = if step.exact { ip } else { ip.saturating_sub(1) };
        let missing = End::NoUnwindData(ip);
        let image = self.images.at(at).ok_or(missing)?;
        let tables = image.kept.get_or_init(|| self.tables(image)).as_ref().ok_or(missing)?;
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        match tables.step(&self.process.memory, &mut scratch, &step.regs, at) {
            Ok(up) if up.regs.ip().is_null() => Err(End::Bottom),
            Ok(up) => Ok(Step { regs: up.regs, exact: up.signal, trust: Trust::UnwindData }),
            Err(CfiError::Outermost) => Err(End::Bottom),
            Err(CfiError::Stack(fault)) => Err(End::Unreadable(fault)),
            Err(CfiError::Missing | CfiError::Bad) => Err(missing),
        }
    }

    fn tables(&self, image: &Image<'p>) -> Option<Tables<'p>> {
        let sections = match image.module {
            Some(module) => &self.process.modules.get(module)?.sections,
            None => &image.elf.sections,
        };
        let names: Vec<(AddrRange, &str)> = sections.iter().map(|s| (s.range, s.name.as_str())).collect();
        Tables::read(&self.process.memory, &image.elf, &names)
    }

    /// The frame above by the frame pointer: what it points to is the caller's,
    /// and then the return address.
    pub fn by_frame_pointer(&self, step: &Step, stack: AddrRange) -> Option<Step> {
        let fp = step.regs.fp().filter(|fp| fp.is_aligned(8) && stack.contains(*fp) && *fp >= step.regs.sp())?;
        let memory = &self.process.memory;
        let (above, back) = (memory.u64(fp).ok()?, memory.u64(fp.checked_add(8)?).ok()?);
        let mut regs = Regs::new(step.regs.arch(), Addr::NULL, fp.checked_add(16)?);
        regs.set_ip(back);
        regs.set(regs.fp_number(), Some(above));
        // What can't be read may be a call: a frame pointer is a sign of its own.
        let called = self.is_code(regs.ip())
            && (self.follows_call(regs.ip()) != Some(false) || self.is_signal_return(regs.ip()));
        called.then_some(Step { regs, exact: false, trust: Trust::FramePointer })
    }

    /// The frame above a function that has not set up its own yet: its return
    /// address is in the link register, or on top of the stack.
    pub fn by_leaf(&self, step: &Step, stack: AddrRange) -> Option<Step> {
        let (sp, mut regs) = (step.regs.sp(), step.regs.clone());
        match step.regs.link() {
            Some(link) => regs.set_ip(link),
            None => {
                regs.set_ip(self.process.memory.u64(sp).ok().filter(|_| stack.contains(sp))?);
                regs.set_sp(sp.checked_add(8)?);
            }
        }
        let moved = regs.ip() != step.regs.ip();
        (moved && self.is_return_address(regs.ip())).then_some(Step { regs, exact: false, trust: Trust::Scan })
    }

    /// The frame above by the first word on the stack that can be nothing but a
    /// return address; at most [`limits::MAX_SCAN_WORDS`] are looked at.
    pub fn by_scan(&self, step: &Step, stack: AddrRange) -> Option<Step> {
        let memory = &self.process.memory;
        // Where this code is not in the core, its callers' may not be either, and
        // what is found would be what is left over from calls that returned.
        if self.is_code(step.regs.ip()) && memory.readable(step.regs.ip(), 1) == 0 {
            return None;
        }
        let mut at = step.regs.sp().align_up(8);
        for _ in 0..limits::MAX_SCAN_WORDS {
            if !stack.contains(at) {
                return None;
            }
            let word = memory.u64(at).ok()?;
            let above = at.checked_add(8)?;
            let mut regs = Regs::new(step.regs.arch(), Addr::NULL, above);
            regs.set_ip(word);
            if self.is_return_address(regs.ip()) {
                // A frame pointer that was not yet passed may still be the caller's.
                let fp = step.regs.fp().filter(|fp| *fp >= above && stack.contains(*fp));
                regs.set(regs.fp_number(), fp.map(|fp| fp.get()));
                return Some(Step { regs, exact: false, trust: Trust::Scan });
            }
            at = above;
        }
        None
    }

    /// Whether a signal's handler returns there.
    pub fn is_signal_return(&self, addr: Addr) -> bool {
        code::is_signal_return(&self.process.memory, self.process.arch(), addr)
    }

    /// What a signal interrupted, where its handler is about to return: by what
    /// the kernel put on the stack.
    pub fn by_signal_frame(&self, step: &Step) -> Option<Step> {
        let (arch, memory) = (step.regs.arch(), &self.process.memory);
        let above = signal_frames::above_return(arch, step.regs.sp())?;
        // Frame pointers lead to where a handler returns, not to the stack pointer it returns with.
        let below = || {
            let record = step.regs.fp().filter(|_| !signal_frames::is_ucontext(memory, arch, above))?;
            signal_frames::below_record(memory, arch, record, step.regs.sp())
        };
        let regs = signal_frames::registers(memory, arch, below().unwrap_or(above))?;
        Some(Step { regs, exact: true, trust: Trust::Signal })
    }

    /// What a signal interrupted, where nothing leads from its handler to where that
    /// returns: by the first signal frame above. On an alternate stack the kernel says
    /// that the handler runs there; on any other the frame may be left over from an
    /// earlier signal.
    pub fn by_signal_shape(&self, step: &Step, stack: AddrRange) -> Option<Step> {
        let (arch, memory) = (step.regs.arch(), &self.process.memory);
        let frame = signal_frames::find(memory, arch, step.regs.sp(), stack)?;
        let alternate = frame.alternate.contains(frame.at) && frame.alternate.contains(step.regs.sp());
        let regs = signal_frames::registers(memory, arch, frame.at)?;
        Some(Step { regs, exact: true, trust: if alternate { Trust::Signal } else { Trust::Scan } })
    }

    fn is_return_address(&self, addr: Addr) -> bool {
        self.is_code(addr) && (self.follows_call(addr) == Some(true) || self.is_signal_return(addr))
    }

    /// Whether the instruction before an address is a call; `None` where that is
    /// not in the core.
    fn follows_call(&self, addr: Addr) -> Option<bool> {
        code::follows_call(&self.process.memory, self.process.arch(), addr)
    }
}
