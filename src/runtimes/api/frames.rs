//! Frames of a stack: native ones, managed ones, and the marks that runtimes leave.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::native::unwind::{End, Trust};
use crate::registers::Regs;
use crate::runtimes::api::{Method, RuntimeId, Source};
pub use crate::words::Execution;

/// A frame that a runtime is asked about ([`ManagedCode::frame`]).
///
/// [`ManagedCode::frame`]: crate::runtimes::api::ManagedCode::frame
#[derive(Clone, Copy, Debug)]
pub struct FrameAt<'a> {
    /// The thread, by the system's number.
    pub tid: u32,
    /// Its registers.
    pub regs: &'a Regs,
    /// Whether its address is where it was interrupted, and no return address.
    pub exact: bool,
    /// The stack that it lies on; `None` where none is known to hold its stack pointer.
    pub stack: Option<AddrRange>,
}

/// What a runtime knows of a frame by more than the address of its code: an interpreter keeps in the frame
/// which method it runs, and compiled code has those in it that were inlined.
#[derive(Clone, Debug)]
pub struct ManagedFrame {
    /// Methods that run in it, that of the latest call first; none in a stub.
    pub methods: Vec<Activation>,
    /// Who called it.
    pub caller: Caller,
}

/// Who called a frame.
#[derive(Clone, Debug)]
pub enum Caller {
    /// The frame with these registers.
    Regs(Box<Regs>),
    /// It can't be told.
    Unknown,
}

/// Methods that one frame of a module's code runs, where the runtime keeps them in a list of its own and not in that frame
/// (an interpreter written in C). The frame has a row of its own, above its methods.
#[derive(Clone, Debug)]
pub struct Run {
    /// A place in the frame that runs them, by which it is told; where there is none, runs belong to frames for which
    /// [`ListedMethods::run_at`] is true, in their order.
    pub anchor: Option<Addr>,
    /// The methods, that of the latest call first.
    pub methods: Vec<Activation>,
}

/// Methods that a runtime lists by thread: its interpreter is written in C, and many methods run in one frame of it.
pub trait ListedMethods: Sync {
    /// What the thread of that number runs, the latest first. All of it is told with the thread's stack, however far
    /// that can be followed.
    fn runs(&self, tid: u32) -> Vec<Run>;

    /// Whether the code of a module at `ip` is what runs them.
    fn run_at(&self, ip: Addr) -> bool;
}

/// A frame of a thread that is none of the system's.
#[derive(Clone, Debug)]
pub struct LightFrame {
    /// Where its code is.
    pub ip: Addr,
    /// Where it lies: in an object of the runtime.
    pub sp: Addr,
    /// What runs in it.
    pub activation: Activation,
}

/// A method as it runs in a frame.
#[derive(Clone, Debug)]
pub struct Activation {
    /// The method.
    pub method: Arc<Method>,
    /// Where in it.
    pub position: Position,
}

/// Where in a method a frame is, and how it runs.
#[derive(Clone, Debug, Default)]
pub struct Position {
    /// Offset in its bytecode, file, line.
    pub source: Source,
    /// How it runs; `None` where the runtime has one way only.
    pub how: Option<Execution>,
}

/// A reference that the runtime's own code keeps from the collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectedRef {
    /// Where it stands.
    pub address: Addr,
    /// Whether it may lead into an object, or out of the heap.
    pub interior: bool,
}

/// A mark of a runtime on a stack: it tells of a transition between managed and native
/// code (an explicit Frame of CoreCLR, a JavaFrameAnchor of HotSpot).
#[derive(Clone, Debug)]
pub struct Mark {
    /// Where on the stack it is.
    pub addr: Addr,
    /// Its class, as in the runtime.
    pub class: &'static str,
    /// The method called, as the runtime knows it, where it keeps one.
    pub method: Option<Addr>,
    /// Registers of the frame it was made for: one in managed code, or one in the
    /// runtime that leads to it. Unknown ones are not kept.
    pub regs: Option<Regs>,
    /// Whether these are from where it was interrupted, and not from a call.
    pub exact: bool,
    /// Where references stand that it tells of.
    pub objects: Vec<ProtectedRef>,
}

/// What a frame is.
#[derive(Clone)]
pub enum FrameKind {
    /// Of a managed method, in that runtime.
    Managed(RuntimeId, Arc<Method>),
    /// Of the runtime's own managed code that finds handlers of an exception, and
    /// is done with it: the handler runs, or it was not found.
    Dispatch(RuntimeId, Arc<Method>),
    /// Of code of a module, of a stub, or of nothing known.
    Native,
    /// A mark of a runtime.
    Mark(Box<Mark>),
}

/// A frame of a stack.
#[derive(Clone)]
pub struct StackFrame {
    /// Its registers; of a mark, those that it keeps.
    pub regs: Regs,
    /// Where its code is: a return address, unless `exact`.
    pub ip: Addr,
    /// Its stack pointer; of a mark its own address.
    pub sp: Addr,
    /// Whether `ip` is where it was interrupted.
    pub exact: bool,
    /// How it was found.
    pub trust: Trust,
    /// What it is.
    pub kind: FrameKind,
    /// Where in the method, if the frame tells that and not its address.
    pub position: Option<Box<Position>>,
}

impl StackFrame {
    /// The address to ask names and lines for: that of the call.
    pub fn code(&self) -> Addr {
        if self.exact { self.ip } else { self.ip.saturating_sub(1) }
    }

    /// The managed method that runs in it.
    pub fn method(&self) -> Option<&Arc<Method>> {
        match &self.kind {
            FrameKind::Managed(_, method) => Some(method),
            _ => None,
        }
    }
}

/// A stack, and why it ends.
pub struct Walk {
    /// Its frames, that of the latest call first.
    pub frames: Vec<StackFrame>,
    /// Why there are no more.
    pub end: End,
}
