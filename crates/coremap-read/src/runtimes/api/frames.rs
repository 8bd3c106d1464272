//! Frames of a stack: native frames, managed frames, and marks that runtimes leave on the stack.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::native::unwind::{End, Trust};
use crate::registers::Regs;
use crate::runtimes::api::{Method, RuntimeId, Source};
pub use crate::words::Execution;

/// A frame for which a runtime is asked which methods run in it ([`ManagedCode::frame`]).
///
/// [`ManagedCode::frame`]: crate::runtimes::api::ManagedCode::frame
#[derive(Clone, Copy, Debug)]
pub struct FrameAt<'a> {
    /// System thread ID.
    pub tid: u32,
    /// Registers in this frame.
    pub regs: &'a Regs,
    /// Whether the code address is where execution was interrupted, not a return address.
    pub exact: bool,
    /// The stack that contains the frame. `None` if no known stack contains its stack pointer.
    pub stack: Option<AddrRange>,
}

/// The methods and the caller of a frame whose code address alone does not identify the method.
///
/// An interpreter stores the running method in its frame, and compiled code contains inlined methods.
#[derive(Clone, Debug)]
pub struct ManagedFrame {
    /// Methods that run in the frame, innermost first. Empty for a stub.
    pub methods: Vec<Activation>,
    /// The caller of the frame.
    pub caller: Caller,
}

/// The caller of a frame.
#[derive(Clone, Debug)]
pub enum Caller {
    /// The frame with these registers.
    Regs(Box<Regs>),
    /// Code that was interrupted, or that continued on another stack. These are its registers.
    Interrupted(Box<Regs>),
    /// Nobody: the frame is the first of its stack.
    Nobody,
    /// Unknown.
    Unknown,
}

/// Methods that run in one native frame of an interpreter written in C.
///
/// The runtime stores them in a list of its own, not in that frame. The native frame gets its own row, above the
/// methods.
#[derive(Clone, Debug)]
pub struct ManagedRun {
    /// A stack address inside the native frame, which identifies the frame. If `None`, runs are assigned in order to
    /// the frames for which [`ListedMethods::run_at`] is true.
    pub anchor: Option<Addr>,
    /// The methods, innermost first.
    pub methods: Vec<Activation>,
}

/// Methods that a runtime lists by thread, because its interpreter is written in C and runs many methods in one frame.
pub trait ListedMethods: Sync {
    /// The runs of a thread, newest first. All of them are reported with the thread's stack, however far that can be
    /// unwound.
    fn runs(&self, tid: u32) -> Vec<ManagedRun>;

    /// Whether the native code at `ip` is the interpreter loop that runs such methods.
    fn run_at(&self, ip: Addr) -> bool;
}

/// A frame of a thread that is not a system thread.
#[derive(Clone, Debug)]
pub struct LightFrame {
    /// Code address.
    pub ip: Addr,
    /// Address of the frame, which is inside an object of the runtime.
    pub sp: Addr,
    /// The method that runs in the frame.
    pub activation: Activation,
}

/// A method that runs in a frame.
#[derive(Clone, Debug)]
pub struct Activation {
    /// The running method.
    pub method: Arc<Method>,
    /// Position in the method, and how it runs.
    pub position: Position,
}

/// Where in a method a frame is, and how it runs.
#[derive(Clone, Debug, Default)]
pub struct Position {
    /// Bytecode offset, file and line.
    pub source: Source,
    /// How the method runs. `None` if the runtime has only one way.
    pub how: Option<Execution>,
}

/// A reference that the runtime's own code protects from the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectedRef {
    /// Address of the reference.
    pub address: Addr,
    /// Whether it may point into an object or outside the heap.
    pub interior: bool,
}

/// A mark that a runtime leaves on a stack at a transition between managed and native code: an explicit Frame of
/// CoreCLR, a `JavaFrameAnchor` of HotSpot.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Address of the mark on the stack.
    pub addr: Addr,
    /// Class of the mark in the runtime.
    pub class: &'static str,
    /// Address of the called method's structure in the runtime. `None` if the mark does not record it.
    pub method: Option<Addr>,
    /// Known registers of the frame that the mark was made for: a managed frame, or a runtime frame that leads to one.
    pub regs: Option<Regs>,
    /// Whether `regs` are from an interruption instead of a call.
    pub exact: bool,
    /// References that the mark protects.
    pub objects: Vec<ProtectedRef>,
}

/// Kind of a frame.
#[derive(Clone)]
pub enum FrameKind {
    /// A managed method of this runtime.
    Managed(RuntimeId, Arc<Method>),
    /// The runtime's managed code that searches for exception handlers, after it has finished: the handler runs, or
    /// none was found.
    Dispatch(RuntimeId, Arc<Method>),
    /// Native code of a module, a stub, or unknown code.
    Native,
    /// A mark of a runtime.
    Mark(Box<Mark>),
}

/// A frame of a stack.
#[derive(Clone)]
pub struct StackFrame {
    /// Registers in the frame. For a mark, the registers that it recorded.
    pub regs: Regs,
    /// Code address: a return address, unless `exact`.
    pub ip: Addr,
    /// Stack pointer. For a mark, its own address.
    pub sp: Addr,
    /// Whether `ip` is where execution was interrupted.
    pub exact: bool,
    /// How the frame was found.
    pub trust: Trust,
    /// Kind of the frame.
    pub kind: FrameKind,
    /// Position in the method, if the frame records it. `None` if it follows from `ip`.
    pub position: Option<Box<Position>>,
}

impl StackFrame {
    /// Address for the lookup of names and lines. For a return address this is the byte before it, which is in the
    /// call.
    pub fn code(&self) -> Addr {
        if self.exact { self.ip } else { self.ip.saturating_sub(1) }
    }

    /// The managed method that runs in the frame. `None` for dispatch frames, native frames and marks.
    pub fn method(&self) -> Option<&Arc<Method>> {
        match &self.kind {
            FrameKind::Managed(_, method) => Some(method),
            _ => None,
        }
    }
}

/// The frames of a stack, and why the walk ended.
pub struct StackWalk {
    /// Frames, innermost first.
    pub frames: Vec<StackFrame>,
    /// Why there are no more frames.
    pub end: End,
    /// Whether the caller of an interrupted function may be missing. The function's code can't be read, and it may have
    /// no frame record.
    pub may_skip: bool,
    /// Whether frames before one that a runtime recorded are missing. The frame pointer leads past it, and the code has
    /// no unwind data.
    pub lost: bool,
}
