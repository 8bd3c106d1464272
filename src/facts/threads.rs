//! Threads and their frames: runtimes fill them in.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::addr::Addr;
use crate::facts::Name;
use crate::map::Confidence;
use crate::words::{Execution, FrameRowKind, GcMode, Trust, WaitKind};

/// One thread.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ThreadRow {
    /// The system's number.
    pub tid: u32,
    /// The system's name of it.
    pub name: Option<String>,
    /// The runtime's number.
    pub managed_id: Option<u32>,
    /// The name that managed code gave to it.
    pub managed_name: Option<String>,
    /// What it is for, in the runtime's own words.
    pub role: Option<&'static str>,
    /// How sure the role is.
    pub role_confidence: Option<Confidence>,
    /// Thread::ThreadState in words.
    pub state: Option<String>,
    /// Whether a collection must wait for it.
    pub gc_mode: Option<GcMode>,
    /// The exception that it threw last.
    pub exception: Option<ThrownRow>,
    /// The lock it waits for.
    pub waits_for: Option<WaitRow>,
    /// The locks it holds, where its runtime tells them by thread.
    pub holds: Vec<HeldRow>,
    /// Whether it is known to be the thread that brought the dump about.
    pub crashed: bool,
    /// The signal that it crashed by; `null` at all others.
    pub signal: Option<u16>,
    /// The same, by name: SIGSEGV.
    pub signal_name: Option<String>,
    /// Its stack, that of the latest call first.
    pub frames: Vec<FrameRow>,
    /// Why there are no more frames.
    pub end: Option<String>,
}

/// An exception.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ThrownRow {
    /// Its type.
    pub r#type: String,
    /// The object.
    pub address: Addr,
    /// What it says of itself, where its runtime tells.
    pub message: Option<String>,
}

/// What a thread waits for.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WaitRow {
    /// What for.
    pub kind: WaitKind,
    /// The object that is locked.
    pub object: Addr,
    /// Its type.
    pub r#type: Option<String>,
    /// Who holds the lock, by the system's number; `null` where nobody does, or it
    /// is not known.
    pub owner_tid: Option<u32>,
    /// The same, by the runtime's number.
    pub owner_managed_id: Option<u32>,
    /// How it is known, in a sentence.
    pub how: &'static str,
    /// How sure that is.
    pub confidence: Confidence,
}

/// A lock that a thread holds.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HeldRow {
    /// The object that is locked.
    pub object: Addr,
    /// Its type.
    pub r#type: Option<String>,
    /// How it is known, in a sentence.
    pub how: &'static str,
    /// How sure that is.
    pub confidence: Confidence,
}

/// A frame of a stack.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FrameRow {
    /// Where its code is: a return address, but in the first frame and in what a
    /// signal interrupted. `null` of an explicit Frame that keeps none.
    pub ip: Option<Addr>,
    /// Its stack pointer; of an explicit Frame its own address.
    pub sp: Addr,
    /// What it is of.
    pub kind: FrameRowKind,
    /// Of a managed method: name of its runtime.
    pub runtime: Option<Name>,
    /// The method or function.
    pub method: Option<Name>,
    /// Class of an explicit Frame, in the runtime's own words.
    pub frame: Option<&'static str>,
    /// MethodDesc.
    pub method_desc: Option<Addr>,
    /// File name of its module.
    pub module: Option<Name>,
    /// MethodDef token.
    pub token: Option<Name>,
    /// Bytes from the start of the method or function; of the module, where no
    /// function is known.
    pub offset: Option<u64>,
    /// Offset in its IL.
    pub il_offset: Option<i64>,
    /// Offset in its bytecode; -1 in a synchronized method that has yet to take its lock.
    pub bci: Option<i64>,
    /// How it runs, where its runtime has several ways.
    pub how: Option<Execution>,
    /// Source file.
    pub file: Option<Name>,
    /// Line.
    pub line: Option<u32>,
    /// How it was found.
    pub trust: Trust,
}

impl FrameRow {
    /// How little sure it is: 0 where nothing is guessed.
    pub fn doubt(&self) -> u8 {
        match self.trust {
            Trust::FramePointer => 1,
            Trust::Scan => 2,
            Trust::Context | Trust::Signal | Trust::UnwindData | Trust::Frame => 0,
        }
    }

    /// How a guess of that [`FrameRow::doubt`] looks in a table: ` (by scan)`.
    pub fn mark(doubt: u8) -> &'static str {
        match doubt {
            0 => "",
            1 => " (by frame pointer)",
            _ => " (by scan)",
        }
    }

    /// Its name as tables show it, and, of a guess, that it is one.
    pub fn title(&self) -> String {
        format!("{}{}", self.shown(), FrameRow::mark(self.doubt()))
    }

    /// What tells it from other frames: name and module, no addresses in it.
    pub fn name(&self) -> String {
        self.spelled(|name| name.to_string())
    }

    /// The same as it stands in tables: of a long name its beginning.
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

/// Numbers that stand for the names of frames: stacks are compared by them, as the names
/// of a million frames would take gigabytes.
#[derive(Default)]
pub(crate) struct FrameNames {
    known: HashMap<String, u32>,
}

impl FrameNames {
    /// The number of a frame's [`FrameRow::name`].
    pub(crate) fn number(&mut self, frame: &FrameRow) -> u32 {
        let next = self.known.len() as u32;
        *self.known.entry(frame.name()).or_insert(next)
    }
}
