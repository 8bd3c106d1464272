//! Code that a managed runtime made or loaded: from an address to a method.

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::bytes::printable;
use crate::facts::InlinedRow;
use crate::managed::{FrameAt, ManagedFrame};
use crate::registers::Regs;

/// What a method is to who asks what a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodRole {
    /// The program's own, or of a library that it brings along.
    Program,
    /// Of the runtime's own library.
    Framework,
    /// Made by the runtime for calls of native functions.
    NativeCall,
    /// Of the runtime's own library, and what every thread begins with.
    ThreadStart,
    /// Of the runtime's own library, and what finds handlers of an exception.
    Dispatcher,
}

/// The code of one method, in one of its versions.
#[derive(Clone, Debug)]
pub struct Method {
    /// Its name, as the runtime's own tools print it.
    pub name: String,
    /// Name of the assembly, archive or file that it is of.
    pub module: String,
    /// What the runtime knows it by: a MethodDesc, a Method, a code object.
    pub id: Option<Addr>,
    /// Its number in its module's metadata, in words.
    pub token: Option<String>,
    /// Where this code begins.
    pub start: Addr,
    /// Bytes of this code.
    pub size: u64,
    /// A part of it that lies elsewhere: start and bytes.
    pub cold: Option<(Addr, u64)>,
    /// What it is for.
    pub role: MethodRole,
}

impl Method {
    /// Bytes from the start of the part that `ip` is in; `None` in no part of it.
    pub fn offset_of(&self, ip: Addr) -> Option<u64> {
        let within = |start: Addr, size: u64| (ip >= start && ip.since(start) < size).then(|| ip.since(start));
        within(self.start, self.size).or_else(|| self.cold.and_then(|(start, size)| within(start, size)))
    }
}

/// A few instructions that lead to a method.
#[derive(Clone, Debug)]
pub struct CodeStub {
    /// What it is, in the runtime's words.
    pub kind: &'static str,
    /// Where it begins.
    pub start: Addr,
    /// Where it jumps to.
    pub target: Option<Addr>,
    /// The method that it is of.
    pub of: Option<String>,
    /// Its own name, where it has one.
    pub name: Option<String>,
    /// What runs in it, where that is a method which only the frame tells: `interpreted Java frame`.
    pub runs: Option<&'static str>,
}

impl CodeStub {
    /// What a frame in it is called: by what runs there, its own name, or its kind and method.
    pub fn title(&self) -> String {
        match (&self.name, self.runs, &self.of) {
            (Some(name), Some(runs), _) => format!("{runs} [{name}]"),
            (Some(name), None, _) => name.clone(),
            (None, _, Some(of)) => format!("{} of {of}", self.kind),
            (None, _, None) => self.kind.to_owned(),
        }
    }
}

/// A method that was compiled into the code of the one that called it.
#[derive(Clone, Debug)]
pub struct Inlined {
    /// Its name, as in [`Method::name`].
    pub method: String,
    /// Where in it.
    pub source: Source,
}

impl From<Inlined> for InlinedRow {
    fn from(from: Inlined) -> InlinedRow {
        let (method, file) = (printable(&from.method).into_owned(), from.source.file);
        InlinedRow { method, il_offset: from.source.il_offset, file, line: from.source.line }
    }
}

/// What an address of a runtime's code is.
#[derive(Clone, Debug)]
pub enum CodeAt {
    /// A method's code.
    Method(Arc<Method>),
    /// A stub.
    Stub(CodeStub),
    /// In memory for code, but in no method; why, in words.
    Other(String),
}

/// A row of all code there is.
#[derive(Clone, Copy, Debug)]
pub struct CodeEntry<'a> {
    /// What it is.
    pub kind: CodeEntryKind<'a>,
    /// Where it begins.
    pub start: Addr,
    /// Its bytes.
    pub size: u64,
}

/// What a row of code is.
#[derive(Clone, Copy, Debug)]
pub enum CodeEntryKind<'a> {
    /// A method.
    Method {
        /// Its name, as the runtime's own perf map has it.
        name: &'a str,
        /// How it was compiled.
        tier: Option<&'static str>,
        /// A part of it that lies elsewhere: start and bytes.
        cold: Option<(Addr, u64)>,
    },
    /// A block of stubs of this kind.
    Stubs(u64),
    /// A stub, or several, of this name.
    Stub(&'a str),
}

/// Where in a method's source an address is.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Offset in its IL or bytecode.
    pub il_offset: Option<i64>,
    /// Source file.
    pub file: Option<String>,
    /// Line.
    pub line: Option<u32>,
}

/// A version of a method's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeVersion {
    /// Where its code begins; 0 where it has none yet.
    pub code: Addr,
    /// How it was compiled, in the words of the runtime's own tools.
    pub tier: &'static str,
    /// What the runtime keeps of it; 0 for the first version.
    pub node: Addr,
    /// Id of the IL version that it was compiled from; 0 for the original IL.
    pub il_version: u64,
}

/// More of a method than a stack shows.
#[derive(Clone, Debug, Default)]
pub struct MethodDetail {
    /// What the runtime knows its class by.
    pub class: Option<Addr>,
    /// The type that it is a method of.
    pub method_table: Option<Addr>,
    /// Path of its module.
    pub module_path: Option<String>,
    /// What the runtime knows the module by.
    pub module_address: Option<Addr>,
    /// Where its IL is.
    pub il_address: Option<Addr>,
    /// Whether the process compiled it, and nobody before.
    pub jitted: Option<bool>,
    /// All versions of its code.
    pub versions: Vec<CodeVersion>,
    /// What is missing of it, and what would help.
    pub note: Option<String>,
}

/// A file that code lies in and that a core's list of files may lack.
#[derive(Clone, Debug)]
pub struct CodeFile {
    /// Where it is mapped.
    pub range: AddrRange,
    /// Bytes from its start to what is mapped first.
    pub offset: u64,
    /// Its path.
    pub path: String,
}

/// The code of a runtime.
pub trait ManagedCode: Sync {
    /// Where it may lie; used to tell return addresses.
    fn ranges(&self) -> Vec<AddrRange>;

    /// What lies at `ip`; `None` where the runtime has no code.
    fn code_at(&self, ip: Addr) -> Option<CodeAt>;

    /// The stub that the bytes at `ip` are, where [`ManagedCode::code_at`] knows of none.
    fn stub_shaped(&self, _ip: Addr) -> Option<CodeStub> {
        None
    }

    /// The registers of the caller of a frame in this code; `exact`: its address is where
    /// it was interrupted, and no return address.
    ///
    /// # Errors
    /// Why there are none, in words.
    fn unwind(&self, regs: &Regs, exact: bool) -> Result<Regs, String>;

    /// The methods that run in a frame, where its address alone does not tell them; `None` for all other
    /// frames, of which [`ManagedCode::code_at`] and [`ManagedCode::unwind`] are asked.
    fn frame(&self, _at: &FrameAt<'_>) -> Option<ManagedFrame> {
        None
    }

    /// Where in the method's source `ip` is.
    fn source(&self, _method: &Method, _ip: Addr) -> Source {
        Source::default()
    }

    /// The methods that were inlined where `ip` is in a method's code, the innermost first; the method itself is none of
    /// them, and [`ManagedCode::source`] tells where in it the first one was called.
    fn inlined(&self, _method: &Method, _ip: Addr) -> Vec<Inlined> {
        Vec::new()
    }

    /// More of a method.
    fn detail(&self, _method: &Method) -> MethodDetail {
        MethodDetail::default()
    }

    /// The name of the method that the runtime knows by `id`; `None` where it is none.
    fn name_of(&self, _id: Addr) -> Option<String> {
        None
    }

    /// Visit all code, as long as `visit` says to go on.
    fn each(&self, visit: &mut dyn FnMut(CodeEntry<'_>) -> bool);

    /// Whether the runtime's own perf map tells behind a name how the method was compiled.
    fn tier_in_perf_map(&self) -> bool {
        true
    }

    /// Files that the code lies in.
    fn files(&self) -> Vec<CodeFile> {
        Vec::new()
    }

    /// Tell what names were asked for that could not be had, and what would help.
    fn tell_missing(&self) {}
}
