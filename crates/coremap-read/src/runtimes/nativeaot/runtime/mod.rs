//! Detection of NativeAOT, and the layout of its structures from `DotNetRuntimeDebugHeader` or, from 11.0 on, from
//! `DotNetRuntimeContractDescriptor`.

mod described;
mod detect;
mod entries;
mod file_data;
mod header;

pub(super) use detect::{Detection, detect};
use file_data::FileData;

use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::layout::{Layout, StructView, ViewError};
use crate::memory::Memory;
use crate::process::Process;
use crate::runtimes::clr_gc::Gc;

/// A readable NativeAOT runtime.
pub struct Runtime<'p> {
    /// The process.
    pub process: &'p Process,
    /// Memory of the process, supplemented by data from the program's file.
    data: Arc<FileData<'p>>,
    /// Index of its module.
    pub module: usize,
    /// Path of its module.
    pub path: String,
    /// Address range of its module.
    pub range: AddrRange,
    /// Release with headers of this version, such as `9.0`. `None` if it is unknown.
    pub release: Option<&'static str>,
    /// Layout of its structures.
    pub layout: Layout,
    /// How it was found and where the layout is from, for display.
    pub source: String,
    /// Address of GcDacVars.
    pub gc_dac_vars: Addr,
    /// Address of the RuntimeInstance.
    pub instance: Addr,
    /// Address of the ThreadStore. `None` if the RuntimeInstance has it.
    pub store: Option<Addr>,
    /// Address of the text about a crash, if the runtime states it.
    pub crash_info: Option<Addr>,
    /// Version, as the runtime states it.
    pub version: Option<String>,
    /// Address of the MethodTable of free space.
    pub free: Addr,
}

impl<'p> Runtime<'p> {
    /// Memory of the process. Data that the core lacks may be from the program's file.
    pub fn memory(&self) -> &dyn Memory {
        self.data.memory()
    }

    /// Name and release for warnings, such as `NativeAOT 9.0`.
    pub fn name(&self) -> String {
        match self.release {
            Some(release) => format!("NativeAOT {release}"),
            None => "NativeAOT".to_owned(),
        }
    }

    pub(super) fn view<'a>(&'a self, kind: &'a str, addr: Addr) -> StructView<'a> {
        StructView::new(self.memory(), &self.layout, kind, addr)
    }

    /// Address of the ThreadStore.
    pub(super) fn thread_store(&self) -> Result<Addr, ViewError> {
        self.store.map_or_else(|| self.view("RuntimeInstance", self.instance).ptr("m_pThreadStore"), Ok)
    }

    /// Access to the runtime's GC.
    pub(super) fn gc(&self) -> Gc<'_> {
        Gc { memory: self.memory(), layout: &self.layout, vars: Some(self.gc_dac_vars) }
    }

    /// A bit or mask of a MethodTable's flags, by its name in the layout. 0 if it is missing.
    pub(super) fn flag(&self, name: &str) -> u32 {
        self.layout.constant("MethodTableFlags", name).map_or(0, |bits| bits as u32)
    }
}
