//! Where the runtime is, and the layout of its structures, by `DotNetRuntimeDebugHeader`.

mod detect;
mod entries;
mod header;

pub(super) use detect::{Detection, detect};

use crate::addr::{Addr, AddrRange};
use crate::layout::{Layout, StructView};
use crate::memory::Memory;
use crate::process::Process;
use crate::runtimes::clr_gc::Gc;

/// A NativeAOT runtime that can be read.
pub struct Runtime<'p> {
    /// Of which process.
    pub process: &'p Process,
    /// That process's memory.
    pub memory: &'p dyn Memory,
    /// Index of its module.
    pub module: usize,
    /// Path of its module.
    pub path: String,
    /// Addresses it covers.
    pub range: AddrRange,
    /// The release that headers of this version are of, `9.0`; `None` where that is not known.
    pub release: Option<&'static str>,
    /// Structures.
    pub layout: Layout,
    /// How it was found, and where the layout is from.
    pub source: String,
    /// GcDacVars.
    pub gc_dac_vars: Addr,
    /// The RuntimeInstance.
    pub instance: Addr,
    /// The MethodTable of free space.
    pub free: Addr,
}

impl<'p> Runtime<'p> {
    /// `NativeAOT 9.0`: name and release, for warnings.
    pub fn name(&self) -> String {
        match self.release {
            Some(release) => format!("NativeAOT {release}"),
            None => "NativeAOT".to_owned(),
        }
    }

    /// A struct at `addr`.
    pub(super) fn view<'a>(&'a self, kind: &'a str, addr: Addr) -> StructView<'a> {
        StructView::new(self.memory, &self.layout, kind, addr)
    }

    /// Its GC.
    pub(super) fn gc(&self) -> Gc<'_> {
        Gc { memory: self.memory, layout: &self.layout, vars: Some(self.gc_dac_vars) }
    }

    /// A bit or number of a MethodTable's flags.
    pub(super) fn flag(&self, name: &str) -> u32 {
        self.layout.constant("MethodTableFlags", name).map_or(0, |bits| bits as u32)
    }
}
