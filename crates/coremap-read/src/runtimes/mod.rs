//! Managed runtimes that coremap reads. `RUNTIMES` is the only list of them.
//!
//! Code that serves all runtimes uses [`ManagedRuntime`] and names no runtime. Commands are not in this room, and
//! neither is the unwinding of native frames.
//!
//! | module | contents |
//! |---|---|
//! | [`api`] | traits that every runtime implements, and their plain data; sums by type, equal strings |
//! | [`graph`] | the object graph: shortest paths from roots, dominators, path shapes |
//! | `clr_gc` | the garbage collector of .NET, which CoreCLR and NativeAOT share |
//! | `event_pipe` | buffers of .NET's event log, which both share too |
//! | `coreclr`, `nativeaot`, `hotspot`, `cpython`, `v8`, `go` | one runtime each, with its `anatomy` and `fields` |
//!
//! The objects of a heap, and what one of them references:
//!
//! ```
//! # use std::path::Path;
//! # use coremap::process::{Options, Process};
//! # use coremap::progress::Progress;
//! # use coremap::session::Session;
//! use coremap::runtimes::api::UnwalkedRanges;
//!
//! let core = Path::new("testdata/cores/dotnet8-objects/core.zst");
//! let process = Process::open(core, &Options::default(), &Progress::silent())?;
//! let session = Session::new(&process);
//! let runtimes = session.runtimes();
//! let heap = runtimes[0].heap().ok_or("no heap")?;
//! let (mut walker, mut reader, mut unwalked) = (heap.walker(), heap.reader(), UnwalkedRanges::default());
//! let (mut objects, mut references) = (0, 0);
//! for heap_range in heap.ranges() {
//!     walker.walk(heap_range, &mut unwalked, &mut |object| {
//!         objects += 1;
//!         reader.each(object.addr.get(), |_link, target| {
//!             references += u64::from(target != 0);
//!             true
//!         });
//!     });
//! }
//! println!("{objects} objects, {references} references, {} bytes unreadable", unwalked.bytes);
//! assert!(objects > 1000 && references > objects);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod api;
pub mod graph;

#[doc(hidden)]
pub mod clr_gc;
#[doc(hidden)]
pub mod coreclr;
#[doc(hidden)]
pub mod cpython;
#[doc(hidden)]
pub mod event_pipe;
#[doc(hidden)]
pub mod go;
#[doc(hidden)]
pub mod hotspot;
#[doc(hidden)]
pub mod nativeaot;
#[doc(hidden)]
pub mod v8;

use crate::diag::WarningCode;
use crate::image::{Module, ModuleKind};
use crate::process::Process;
use crate::report::UnreadRow;
use crate::runtimes::api::ManagedRuntime;
use crate::runtimes::coreclr::CoreClr;
use crate::runtimes::cpython::CPython;
use crate::runtimes::go::Go;
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::nativeaot::NativeAot;
use crate::runtimes::v8::V8;

/// Finds the runtimes of one kind in a process.
pub(crate) struct Finder {
    /// Name of the runtime, such as `CoreCLR`.
    pub name: &'static str,
    /// Its name in answers, such as `.NET`.
    pub shown: &'static str,
    /// Code of the diagnostic for one that cannot be read.
    pub unusable: WarningCode,
    /// Beginning of its library's file name, and the runtime's name in sentences. `None` if it has no library.
    pub library: Option<(&'static str, &'static str)>,
    /// Optional features of this runtime. A command that needs one runs only the finders that offer it. A shrunk core
    /// for that command then lacks the pages that other finders read.
    pub offers: &'static [Offer],
    /// Finds all readable runtimes of this kind. The finder adds a diagnostic for each one that it cannot read.
    pub find: for<'p> fn(&'p Process) -> Vec<DetectedRuntime<'p>>,
}

/// A feature that only some runtimes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Offer {
    /// The runtime is CoreCLR ([`DetectedRuntime::coreclr`]).
    CoreClr,
    /// The runtime uses .NET's garbage collector ([`ManagedRuntime::clr_gc`]).
    ClrGc,
}

/// All runtimes that coremap detects, in the order in which a session lists them.
pub(crate) const RUNTIMES: &[Finder] = &[
    Finder {
        name: "CoreCLR",
        shown: ".NET",
        unusable: WarningCode::DotnetUnusable,
        library: Some(("libcoreclr.so", ".NET")),
        offers: &[Offer::CoreClr, Offer::ClrGc],
        find: |process| CoreClr::find(process).into_iter().map(DetectedRuntime::clr).collect(),
    },
    Finder {
        name: "HotSpot",
        shown: "HotSpot",
        unusable: WarningCode::HotspotUnusable,
        library: Some(("libjvm.so", "Java")),
        offers: &[],
        find: |process| HotSpot::find(process).into_iter().map(DetectedRuntime::other).collect(),
    },
    Finder {
        name: "CPython",
        shown: "CPython",
        unusable: WarningCode::CpythonUnusable,
        library: Some(("libpython3", "Python")),
        offers: &[],
        find: |process| CPython::find(process).into_iter().map(DetectedRuntime::other).collect(),
    },
    Finder {
        name: "NativeAOT",
        shown: "NativeAOT",
        unusable: WarningCode::NativeaotUnusable,
        library: None,
        offers: &[Offer::ClrGc],
        find: |process| NativeAot::find(process).into_iter().map(DetectedRuntime::other).collect(),
    },
    Finder {
        name: "V8",
        shown: "V8",
        unusable: WarningCode::V8Unusable,
        library: Some(("libnode", "Node.js")),
        offers: &[],
        find: |process| V8::find(process).into_iter().map(DetectedRuntime::other).collect(),
    },
    Finder {
        name: "Go",
        shown: "Go",
        unusable: WarningCode::GoUnusable,
        library: None,
        offers: &[],
        find: |process| Go::find(process).into_iter().map(DetectedRuntime::other).collect(),
    },
];

/// Libraries of managed runtimes that the process maps, readable or not: file name, and the runtime's name.
#[doc(hidden)]
pub fn mapped_libraries(process: &Process) -> Vec<(&str, &'static str)> {
    let of = |name: &str| RUNTIMES.iter().filter_map(|f| f.library).find(|(library, _)| name.starts_with(library));
    process.modules.iter().filter_map(|module| Some((module.name(), of(module.name())?.1))).collect()
}

/// Runtimes that the process has and that could not be read, by the diagnostics of their finders.
pub(crate) fn unusable(process: &Process) -> Vec<UnreadRow> {
    let warnings = process.diag.warnings();
    let row = |finder: &Finder| {
        let warning = warnings.iter().find(|warning| warning.code == finder.unusable)?;
        let of = |name: &&str| finder.library.is_some_and(|(library, _)| name.starts_with(library));
        // A file has only the first values of variables.
        let has_variables = |module: &&Module| match &module.kind {
            ModuleKind::Elf(image) => !image.lacks_variables(&process.memory),
            _ => true,
        };
        let module = process.modules.iter().filter(|module| of(&module.name())).find(has_variables);
        let file = module.map(|module| module.name().to_owned());
        Some(UnreadRow { name: finder.shown.to_owned(), file, why: warning.message.clone() })
    };
    RUNTIMES.iter().filter_map(row).collect()
}

/// A runtime that was found in a process.
#[doc(hidden)]
pub enum DetectedRuntime<'p> {
    /// CoreCLR. Commands that only .NET has read its own structures.
    CoreClr(Box<CoreClr<'p>>),
    /// Any other runtime.
    Other(Box<dyn ManagedRuntime + Send + 'p>),
}

impl<'p> DetectedRuntime<'p> {
    fn clr(runtime: CoreClr<'p>) -> DetectedRuntime<'p> {
        DetectedRuntime::CoreClr(Box::new(runtime))
    }

    fn other(runtime: impl ManagedRuntime + Send + 'p) -> DetectedRuntime<'p> {
        DetectedRuntime::Other(Box::new(runtime))
    }

    /// Returns the interface that all runtimes implement.
    #[doc(hidden)]
    pub fn runtime(&self) -> &(dyn ManagedRuntime + 'p) {
        match self {
            DetectedRuntime::CoreClr(runtime) => &**runtime,
            DetectedRuntime::Other(runtime) => &**runtime,
        }
    }

    /// Returns CoreCLR by type. `None` for any other runtime.
    #[doc(hidden)]
    pub fn coreclr(&self) -> Option<&CoreClr<'p>> {
        match self {
            DetectedRuntime::CoreClr(runtime) => Some(runtime),
            DetectedRuntime::Other(_) => None,
        }
    }
}
