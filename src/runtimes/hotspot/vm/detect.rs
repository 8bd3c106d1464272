//! Detects HotSpot: a module that exports the vmStructs tables.

use crate::addr::Addr;
use crate::diag::{Warning, WarningCode};
use crate::image::{Module, ModuleKind, symbols};
use crate::limits;
use crate::memory::Memory;
use crate::phase::Phase;
use crate::process::Process;
use crate::runtimes::hotspot::vm::flags::Flags;
use crate::runtimes::hotspot::vm::{Tables, Vm, VmError, VmStruct};

/// Name of the VM's library, unless it is linked into the program.
pub(in crate::runtimes::hotspot) const LIBJVM: &str = "libjvm.so";

/// The export that no other library has.
const STRUCTS: &str = "gHotSpotVMStructs";

/// A module that is a VM.
pub enum Detection<'p> {
    /// A readable VM.
    Found(Box<Vm<'p>>),
    /// A VM that cannot be read, and why.
    Unusable(Warning),
}

/// Finds the VMs among the process's modules: libjvm, and a program that may contain it.
pub fn detect(process: &Process) -> Vec<Detection<'_>> {
    let _phase = process.enter(Phase::Runtime);
    let candidates = process.modules.iter().enumerate();
    candidates.filter_map(|(i, module)| look_at(process, i, module)).take(limits::MAX_RUNTIMES).collect()
}

fn look_at<'p>(process: &'p Process, index: usize, module: &Module) -> Option<Detection<'p>> {
    let named = module.name() == LIBJVM;
    let ModuleKind::Elf(image) = &module.kind else {
        return named.then(|| unsupported(module, "its ELF header is not in the core"));
    };
    if !named && !image.has_interpreter {
        return None;
    }
    if symbols::find(&process.memory, image, STRUCTS).is_none() {
        let why = "its symbol table is not in the core";
        return named.then(|| unsupported(module, why));
    }
    let found = Tables::read(&process.memory, image).and_then(|tables| open(process, index, module, tables));
    Some(match found {
        Ok(vm) => Detection::Found(Box::new(vm)),
        Err(e) => {
            let message = not_there(module, &e.to_string());
            Detection::Unusable(Warning { code: WarningCode::HotspotUnusable, message, is_partial: e.is_damage() })
        }
    })
}

fn unsupported<'p>(module: &Module, why: &str) -> Detection<'p> {
    Detection::Unusable(Warning::note(WarningCode::HotspotUnusable, not_there(module, why)))
}

fn not_there(module: &Module, why: &str) -> String {
    format!(
        "{}: {why}, so the Java VM can't be read. Give a folder with this file (same build) by --symbols DIR",
        module.path
    )
}

fn open<'p>(process: &'p Process, index: usize, module: &Module, tables: Tables) -> Result<Vm<'p>, VmError> {
    let memory = &process.memory;
    if tables.capped {
        process.diag.partial(
            WarningCode::Hotspot,
            format!("{}: its tables have more rows than the limit; the others are ignored", module.path),
        );
    }
    let flags = Flags::read(memory, &tables)?;
    let version = text(memory, &tables, "Abstract_VM_Version", "_s_vm_release").unwrap_or_default();
    let major = major(memory, &tables, &version)?;
    let (path, range) = (module.path.to_string(), module.range);
    Ok(Vm { process, memory, module: index, path, range, major, version, tables, flags })
}

fn text(memory: &dyn Memory, tables: &Tables, kind: &str, field: &str) -> Option<String> {
    let location = tables.static_field(kind, field).ok()?.location;
    memory.text(memory.ptr(Addr::new(location)).ok()?, limits::MAX_VM_NAME).ok()
}

/// Returns the JDK's major version. Up to 24 it is in `JDK_Version::_current`. From 25 on it is the VM's own version,
/// which has been the same since 10.
fn major(memory: &dyn Memory, tables: &Tables, version: &str) -> Result<u32, VmError> {
    let current = tables.static_field("JDK_Version", "_current").ok().map(|f| Addr::new(f.location));
    let of_jdk = current.and_then(|at| VmStruct::new(memory, tables, "JDK_Version", at).number("_major").ok());
    let of_vm = || {
        let location = tables.static_field("Abstract_VM_Version", "_vm_major_version").ok()?.location;
        memory.u32(Addr::new(location)).ok().map(u64::from)
    };
    let by_text = || version.split(['.', '+', '-']).next()?.parse().ok();
    let sane = |major: &u64| (1..1000).contains(major);
    let found = of_jdk.filter(sane).or_else(|| of_vm().filter(sane)).or_else(by_text);
    found.map(|major| major as u32).ok_or_else(|| VmError::MissingType("JDK_Version".to_owned()))
}
