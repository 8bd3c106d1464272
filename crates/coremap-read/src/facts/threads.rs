//! Threads and their frames, as runtimes return them.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::facts::Name;
use crate::map::Confidence;
use crate::words::{Execution, FrameRowKind, GcMode, OwnerState, Trust, WaitKind};

/// A thread.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ThreadRow {
    /// Thread id of the system.
    pub tid: u32,
    /// Name in the system.
    pub name: Option<String>,
    /// Thread id of the runtime.
    pub managed_id: Option<u32>,
    /// Name that managed code gave to it.
    pub managed_name: Option<String>,
    /// Role, as the runtime names it.
    pub role: Option<&'static str>,
    /// Confidence in the role.
    pub role_confidence: Option<Confidence>,
    /// State, as the runtime names it.
    pub state: Option<String>,
    /// Whether a collection must wait for it.
    pub gc_mode: Option<GcMode>,
    /// Exception that it threw last.
    pub exception: Option<ThrownRow>,
    /// System call that it is in. `null` if it ran, or if that is not known.
    pub syscall: Option<SyscallRow>,
    /// Processor time that the thread used, in milliseconds. In a core that the kernel wrote, the first thread's
    /// includes threads that ended. `null` if it is not recorded: gdb and createdump don't.
    pub cpu_ms: Option<u64>,
    /// What it waits for.
    pub waits_for: Option<WaitRow>,
    /// Locks that it holds, if its runtime records them by thread.
    pub holds: Vec<HeldRow>,
    /// Whether it is known to have caused the dump.
    pub crashed: bool,
    /// Signal that it crashed with. `null` for all other threads.
    pub signal: Option<u16>,
    /// Name of that signal: SIGSEGV.
    pub signal_name: Option<String>,
    /// Stack, innermost frame first.
    pub frames: Vec<FrameRow>,
    /// Why the stack ends.
    pub end: Option<String>,
}

/// A system call of a thread.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SyscallRow {
    /// Name. `null` if the number is in no table.
    pub name: Option<&'static str>,
    /// Number.
    pub number: u64,
    /// Contents of the six argument registers, in order. A call uses the first ones. `null` if a value is not known.
    pub arguments: Vec<Option<Addr>>,
}

/// An exception.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ThrownRow {
    /// Type.
    pub r#type: String,
    /// Address of the object.
    pub address: Addr,
    /// Message, if its runtime has one.
    pub message: Option<String>,
}

/// What a thread waits for.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WaitRow {
    /// Kind of wait.
    pub kind: WaitKind,
    /// The object: a lock, an event, a semaphore, a task, a collection. For the end of a thread that thread's object; for
    /// a sleep the thread's own. For a class that is being
    /// initialised, its `java.lang.Class`. For a native lock the same as `address`.
    pub object: Addr,
    /// Address of the object, or of the native lock.
    pub address: Option<Addr>,
    /// Type of the object.
    pub r#type: Option<String>,
    /// Who must act before the wait can end. `null` if that is not known, or if such an object has no owner.
    pub owner: Option<WaitOwnerRow>,
    /// Name of the class that is being initialised. `null` for other waits.
    pub class: Option<String>,
    /// Thread that holds the lock, that initialises the class, or whose end the thread waits for, by its system id.
    /// `null` if there is none, or it is unknown.
    pub owner_tid: Option<u32>,
    /// The same thread by its id in the runtime.
    pub owner_managed_id: Option<u32>,
    /// Whether this thread is a virtual thread, which has no system id.
    pub owner_virtual: bool,
    /// Whether this thread has certainly ended, so that nothing can release the lock.
    pub owner_ended: bool,
    /// Other threads that hold the lock for reading, by system id. If there is only one and no writer, it is the owner.
    pub reader_tids: Vec<u32>,
    /// The evidence for it, in a sentence.
    pub how: &'static str,
    /// Confidence.
    pub confidence: Confidence,
}

impl WaitRow {
    /// The row with the fields that follow from the others.
    #[must_use]
    pub fn completed(mut self) -> WaitRow {
        self.address = self.address.or(Some(self.object));
        if self.owner.is_none() && (self.owner_tid.is_some() || self.owner_managed_id.is_some()) {
            let state = if self.owner_ended { OwnerState::Ended } else { OwnerState::Alive };
            self.owner = Some(WaitOwnerRow { tid: self.owner_tid, task: None, state, confidence: self.confidence });
        }
        self
    }
}

/// Who must act before a wait can end.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WaitOwnerRow {
    /// Thread, by its system id. `null` if only the runtime's id is known, or if it is a task.
    pub tid: Option<u32>,
    /// Task.
    pub task: Option<Addr>,
    /// Whether the thread is there.
    pub state: OwnerState,
    /// Exact if a field names it.
    pub confidence: Confidence,
}

/// A lock that a thread holds.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HeldRow {
    /// Locked object.
    pub object: Addr,
    /// Type of the object.
    pub r#type: Option<String>,
    /// The evidence for it, in a sentence.
    pub how: &'static str,
    /// Confidence.
    pub confidence: Confidence,
}

/// A stack frame.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FrameRow {
    /// Code address: a return address, except in the first frame and where a signal interrupted the thread. `null` for
    /// an explicit Frame without one.
    pub ip: Option<Addr>,
    /// Stack pointer; for an explicit Frame, its address.
    pub sp: Addr,
    /// Kind of frame.
    pub kind: FrameRowKind,
    /// For a managed method: name of its runtime.
    pub runtime: Option<Name>,
    /// Method or function.
    pub method: Option<Name>,
    /// Class of an explicit Frame, as the runtime names it.
    pub frame: Option<&'static str>,
    /// Address of the MethodDesc.
    pub method_desc: Option<Addr>,
    /// File name of its module.
    pub module: Option<Name>,
    /// MethodDef token.
    pub token: Option<Name>,
    /// Bytes from the start of the method or function; from the start of the module if no function is known.
    pub offset: Option<u64>,
    /// Offset in its IL.
    pub il_offset: Option<i64>,
    /// Offset in its bytecode; -1 in a synchronized method that has not taken its lock yet.
    pub bci: Option<i64>,
    /// How it runs, if its runtime has several ways.
    pub how: Option<Execution>,
    /// Source file.
    pub file: Option<Name>,
    /// Line.
    pub line: Option<u32>,
    /// Column, from 1 on. `null` in runtimes that don't record it.
    pub column: Option<u32>,
    /// How the frame was found.
    pub trust: Trust,
    /// Whether the code is the program's: not of the runtime's library, nor of the system's.
    #[serde(skip)]
    pub own: bool,
}

impl FrameRow {
    /// How much the frame is a guess: 0 for none, higher is less certain.
    pub fn doubt(&self) -> u8 {
        match self.trust {
            Trust::FramePointer => 1,
            Trust::Scan => 2,
            Trust::FramePointerGap => 3,
            Trust::Context | Trust::Signal | Trust::UnwindData | Trust::Frame => 0,
        }
    }

    /// Suffix of a frame with this [`FrameRow::doubt`] in a table: ` (by scan)`.
    pub fn mark(doubt: u8) -> &'static str {
        match doubt {
            0 => "",
            1 => " (by frame pointer)",
            2 => " (by scan)",
            _ => " (by frame pointer, a frame may be missing before it)",
        }
    }

    /// The name as in tables, with a suffix if the frame is a guess.
    pub fn title(&self) -> String {
        format!("{}{}", self.shown(), FrameRow::mark(self.doubt()))
    }

    /// The name and module that identify the frame, without addresses.
    pub fn name(&self) -> String {
        self.spelled(|name| name.to_string())
    }

    /// The [`FrameRow::name`], cut as in tables if it is long.
    pub fn shown(&self) -> String {
        self.spelled(Name::shown)
    }

    fn spelled(&self, text: impl Fn(&Name) -> String) -> String {
        match (&self.method, self.frame, &self.module) {
            (Some(method), Some(frame), _) => format!("[{frame}: {}]", text(method)),
            (None, Some(frame), _) => format!("[{frame}]"),
            (Some(method), None, Some(module)) if self.kind == FrameRowKind::Native => {
                format!("{}!{}", text(module), text(method))
            }
            (Some(method), None, _) => text(method),
            (None, None, Some(module)) => format!("{}+{:#x}", text(module), self.offset.unwrap_or(0)),
            (None, None, None) => self.ip.unwrap_or_default().to_string(),
        }
    }
}

/// Numbers for frame names. Stacks are compared by number, because the names of a million frames would take gigabytes.
#[derive(Default)]
pub struct FrameNames {
    known: HashMap<String, u32>,
}

impl FrameNames {
    pub fn number(&mut self, frame: &FrameRow) -> u32 {
        let next = self.known.len() as u32;
        *self.known.entry(frame.name()).or_insert(next)
    }
}
