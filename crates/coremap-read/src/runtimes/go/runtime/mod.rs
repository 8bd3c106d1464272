//! Detection of Go: version, layout, `moduledata` and the runtime's variables.

mod detect;
mod globals;
mod moduledata;
mod version;

pub(super) use detect::{Detection, detect};
pub(super) use globals::Globals;
pub(super) use moduledata::{Found, Sections};
pub(super) use version::Build;

use crate::addr::{Addr, AddrRange};
use crate::layout::Layout;
use crate::memory::Memory;
use crate::process::Process;
use crate::runtimes::go::heap::Spans;
use crate::runtimes::go::shape::Shape;

/// The layout of a runtime, and the structures that prove it.
pub(super) struct Proof {
    pub(super) layout: &'static Layout,
    pub(super) shape: Shape,
    /// Whether the layout was made for this version.
    pub(super) own: bool,
    pub(super) sections: Sections,
    pub(super) globals: Globals,
    pub(super) spans: Spans,
}

/// A readable Go runtime.
pub(super) struct Runtime<'p> {
    /// The process.
    pub(super) process: &'p Process,
    /// Index of its module.
    pub(super) module: usize,
    /// Path of its module.
    pub(super) path: String,
    /// Address range of its module.
    pub(super) range: AddrRange,
    /// The linker's description of the program, recognised by its shape.
    pub(super) found: Found,
    /// Version, and the program's own module.
    pub(super) build: Build,
    pub(super) proof: Proof,
}

impl<'p> Runtime<'p> {
    /// Memory of the process, with bytes of proven files.
    pub(super) fn memory(&self) -> &'p dyn Memory {
        &self.process.memory
    }

    /// Offsets of its version.
    pub(super) fn shape(&self) -> &Shape {
        &self.proof.shape
    }

    /// Name and version for messages, such as `Go 1.24.4`.
    pub(super) fn name(&self) -> String {
        match self.version() {
            Some(version) => format!("Go {version}"),
            None => "Go".to_owned(),
        }
    }

    /// Version without the prefix `go`, such as `1.24.4`. `None` if it is unknown.
    pub(super) fn version(&self) -> Option<&str> {
        let version = self.build.version.as_deref()?;
        Some(version.strip_prefix("go").unwrap_or(version))
    }

    /// How it was found and where the layout is from, for display.
    pub(super) fn source(&self) -> String {
        let Proof { layout, own, globals, .. } = &self.proof;
        let how = match (own, globals.in_use_equal) {
            (true, true) => "checked: bytes in use equal the sum of the spans",
            (true, false) => "bytes in use differ from the sum of the spans",
            (false, _) => "another version's, checked: bytes in use equal the sum of the spans",
        };
        let from = if self.build.version.is_some() { self.build.from } else { "unknown" };
        format!("{} (moduledata by its shape; {how}); version from {from}", layout.id)
    }

    /// Whether the process has a C library, which maps memory too.
    pub(super) fn has_libc(&self) -> bool {
        let is_libc = |name: &str| ["libc.so", "libc-2.", "ld-musl-", "libc.musl-"].iter().any(|n| name.starts_with(n));
        self.process.modules.iter().any(|module| is_libc(module.name()))
    }

    /// Whether an address is in the program's code.
    pub(super) fn is_code(&self, at: Addr) -> bool {
        self.found.text.contains(at)
    }
}
