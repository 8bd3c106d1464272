//! Finding CoreCLR: by its exports, and where a dump lacks the symbol table, by
//! the shape of its GC's own description in its data.

use crate::addr::{Addr, AddrRange};
use crate::core::Arch;
use crate::dotnet::roots::Roots;
use crate::image::elf::ElfImage;
use crate::image::symbols;
use crate::image::{Module, ModuleKind};
use crate::layout::{DOTNET_X64, Layout, read_descriptor};
use crate::limits;
use crate::memory::Memory;
use crate::phase::Phase;
use crate::process::Process;

/// Export: addresses of the runtime's globals, in the order of dacvars.h.
const DAC_TABLE: &str = "g_dacTable";

/// Export: the contract descriptor (9 and later).
const DESCRIPTOR: &str = "DotNetRuntimeContractDescriptor";

/// Start of the version text that the build puts into every native file
/// (eng/native: _version.c), in writable data and so in every dump.
const VERSION_TEXT: &[u8] = b"@(#)Version ";

/// A CoreCLR in the process that can be read.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// Index of its module.
    pub module: usize,
    /// Path of its module.
    pub path: String,
    /// Where it is loaded.
    pub base: Addr,
    /// Addresses it covers.
    pub range: AddrRange,
    /// Major version.
    pub major: u32,
    /// Version as its users know it, e.g. `8.0.33`.
    pub version: String,
    /// What the version is known from.
    pub version_source: String,
    /// What the layout is made of.
    pub layout_source: String,
    /// Structs and slots.
    pub layout: Layout,
    /// Where its globals are.
    pub roots: Roots,
}

impl Runtime {
    /// `.NET 8.0.33`
    pub fn name(&self) -> String {
        format!(".NET {}", self.version)
    }
}

/// Whether a module is a .NET runtime.
#[derive(Clone, Debug)]
pub enum Detection {
    /// It is none.
    NotMine,
    /// It is one.
    Found(Box<Runtime>),
    /// It is one, but can't be used, for this reason.
    Unusable(String),
}

/// Look at every module of the process.
pub fn detect(process: &Process) -> Vec<Detection> {
    let _phase = process.enter(Phase::Runtime);
    process
        .modules
        .iter()
        .enumerate()
        .map(|(i, module)| look_at(process, i, module))
        .filter(|d| !matches!(d, Detection::NotMine))
        .take(limits::MAX_RUNTIMES)
        .collect()
}

/// The runtime's library, where it is not inside the program.
const CORECLR: &str = "libcoreclr.so";

/// Whether the runtime's library is mapped, read or not.
pub fn has_coreclr(process: &Process) -> bool {
    process.modules.iter().any(|m| m.name() == CORECLR)
}

fn look_at(process: &Process, index: usize, module: &Module) -> Detection {
    let ModuleKind::Elf(image) = &module.kind else {
        return match module.name() {
            CORECLR => Detection::Unusable(format!("{}: its ELF header is not in the core", module.path)),
            _ => Detection::NotMine,
        };
    };
    let memory = &process.memory;
    let table = symbols::find(memory, image, DAC_TABLE);
    let descriptor = symbols::find(memory, image, DESCRIPTOR);
    // Without a symbol table in the core, only the usual places are searched:
    // the library of that name, and a program that may have it inside.
    let likely = module.name() == CORECLR || image.has_interpreter;
    if table.is_none() && descriptor.is_none() && !likely {
        return Detection::NotMine;
    }
    let text = version_text(memory, image);
    let (version, major, version_source) = match version(&text, &module.path) {
        Some(found) => found,
        None if table.is_some() || module.name() == CORECLR => {
            return Detection::Unusable(format!("{}: its version is not in the core", module.path));
        }
        None => return Detection::NotMine,
    };
    if process.core.arch != Arch::X86_64 {
        return Detection::Unusable(format!(
            "{}: no layout of .NET {version} on {}",
            module.path,
            process.core.arch.name()
        ));
    }
    // A newer major version than any known may still fit the newest table, as
    // far as it is checked; one between two tables belongs to neither.
    let newest = DOTNET_X64.iter().max_by_key(|(m, _)| *m);
    let exact = DOTNET_X64.iter().find(|(m, _)| *m == major);
    let Some((known, text)) = exact.or(newest.filter(|(m, _)| major > *m)) else {
        return Detection::Unusable(format!("{}: no layout of .NET {version} is known", module.path));
    };
    let mut layout = match Layout::parse(text) {
        Ok(layout) => layout,
        Err(e) => return Detection::Unusable(e.to_string()),
    };
    let mut layout_source = layout.id.clone();
    let mut pointers = Vec::new();
    if let Some(symbol) = descriptor {
        match read_descriptor(memory, symbol.addr) {
            Ok((own, table)) => {
                if own.capped {
                    let most = limits::MAX_DESCRIPTOR_ENTRIES;
                    let what = "types, globals, contracts or fields of a type";
                    process.diag.partial(
                        "limit",
                        format!(
                            "the contract descriptor at {} has more than {most} {what}: the rest is taken as not there",
                            symbol.addr
                        ),
                    );
                }
                layout.overlay(&own);
                layout_source = format!("contract descriptor over {layout_source}");
                pointers = table;
            }
            // A dump without the file's read-only pages: the bundled table is
            // of the same version.
            Err(e) => tracing::debug!(%e, "no contract descriptor"),
        }
    }
    match Roots::find(memory, image, &layout, major, table, pointers) {
        Ok(roots) => {
            if *known != major {
                process.diag.partial(
                    "dotnet-version",
                    format!(".NET {version} has no layout of its own here; that of {known} is tried, and checked"),
                );
            }
            Detection::Found(Box::new(Runtime {
                module: index,
                path: module.path.to_string(),
                base: module.range.start,
                range: module.range,
                major,
                version,
                version_source,
                layout_source,
                layout,
                roots,
            }))
        }
        // A program without a symbol table that is not a single-file .NET app.
        Err(_) if table.is_none() && module.name() != CORECLR => Detection::NotMine,
        Err(e) => Detection::Unusable(format!("{} ({version}): {e}", module.path)),
    }
}

/// The version text in the image's writable data.
fn version_text(memory: &dyn Memory, image: &ElfImage) -> Option<String> {
    let finder = memchr::memmem::Finder::new(VERSION_TEXT);
    for part in image.writable_parts(memory) {
        let bytes = memory.bytes(part.start, part.len() as usize).ok()?;
        if let Some(i) = finder.find(&bytes) {
            let text = &bytes[i + VERSION_TEXT.len()..bytes.len().min(i + 128)];
            return Some(crate::bytes::text(text));
        }
    }
    None
}

/// Version, major, and what they are known from. `8.0.3326.52219` is the file
/// version of 8.0.33: the third part is 100 times the servicing number plus a
/// build's. 3.1's files say `4.700.…`; there the path has the number.
fn version(text: &Option<String>, path: &str) -> Option<(String, u32, String)> {
    let from_path = || {
        path.rsplit('/').find_map(|part| {
            let numbers: Vec<u32> = part.split('.').map(|n| n.parse().ok()).collect::<Option<_>>()?;
            (numbers.len() == 3).then(|| (part.to_owned(), numbers[0]))
        })
    };
    let first = text.as_deref().and_then(|t| t.split_whitespace().next());
    if let Some(file_version) = first {
        let parts: Vec<u32> = file_version.split('.').map_while(|n| n.parse().ok()).collect();
        match parts.as_slice() {
            [4, 700, ..] => {
                let version = from_path().map_or_else(|| "3.1".to_owned(), |(v, _)| v);
                return Some((version, 3, format!("version text {file_version}, and its path")));
            }
            [major, minor, build, ..] if (5..100).contains(major) => {
                let version = format!("{major}.{minor}.{}", build / 100);
                return Some((version, *major, format!("version text {file_version}")));
            }
            _ => {}
        }
    }
    from_path().map(|(version, major)| (version, major, "its path".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, path: &str) -> Option<(String, u32)> {
        version(&Some(text.to_owned()), path).map(|(v, m, _)| (v, m))
    }

    #[test]
    fn versions() {
        assert_eq!(of("8.0.3326.52219 @Commit: x", ""), Some(("8.0.33".into(), 8)));
        assert_eq!(of("10.0.1126.37416", ""), Some(("10.0.11".into(), 10)));
        assert_eq!(of("9.0.26.52218", ""), Some(("9.0.0".into(), 9)));
        assert_eq!(of("4.700.22.11601", "/x/3.1.23/libcoreclr.so"), Some(("3.1.23".into(), 3)));
        assert_eq!(of("", "/x/shared/Microsoft.NETCore.App/7.0.4/libcoreclr.so"), Some(("7.0.4".into(), 7)));
        assert_eq!(of("junk", "/usr/bin/bash"), None);
    }
}
