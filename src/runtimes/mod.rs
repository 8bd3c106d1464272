//! Managed runtimes that coremap reads. [`RUNTIMES`] is the only list of them.
//!
//! Code that serves all runtimes uses [`ManagedRuntime`] and names no runtime. Commands are not in this room, and
//! neither is the unwinding of native frames.
//!
//! | module | contents |
//! |---|---|
//! | [`api`] | traits that every runtime implements, and their plain data; sums by type, equal strings |
//! | [`graph`] | the object graph: shortest paths from roots, dominators, path shapes |
//! | `clr_gc` | the garbage collector of .NET, which CoreCLR and NativeAOT share |
//! | `coreclr`, `nativeaot`, `hotspot`, `cpython` | one runtime each, with its `anatomy` and `fields` |

pub mod api;
#[doc(hidden)]
pub mod clr_gc;
#[doc(hidden)]
pub mod coreclr;
#[doc(hidden)]
pub mod cpython;
pub mod graph;
#[doc(hidden)]
pub mod hotspot;
#[doc(hidden)]
pub mod nativeaot;

use crate::process::Process;
use crate::runtimes::api::ManagedRuntime;
use crate::runtimes::coreclr::CoreClr;
use crate::runtimes::cpython::CPython;
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::nativeaot::NativeAot;

/// Finds the runtimes of one kind in a process.
pub struct Finder {
    /// Name of the runtime, such as `CoreCLR`.
    pub name: &'static str,
    /// Optional features of this runtime. A command that needs one runs only the finders that offer it. A shrunk core
    /// for that command then lacks the pages that other finders read.
    pub offers: &'static [Offer],
    /// Finds all readable runtimes of this kind. The finder adds a diagnostic for each one that it cannot read.
    pub find: for<'p> fn(&'p Process) -> Vec<DetectedRuntime<'p>>,
}

/// A feature that only some runtimes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The runtime is CoreCLR ([`DetectedRuntime::coreclr`]).
    CoreClr,
    /// The runtime uses .NET's garbage collector ([`ManagedRuntime::clr_gc`]).
    ClrGc,
}

/// All runtimes that coremap detects, in the order in which a session lists them.
pub const RUNTIMES: &[Finder] = &[
    Finder {
        name: "CoreCLR",
        offers: &[Offer::CoreClr, Offer::ClrGc],
        find: |process| CoreClr::find(process).into_iter().map(DetectedRuntime::clr).collect(),
    },
    Finder {
        name: "HotSpot",
        offers: &[],
        find: |process| HotSpot::find(process).into_iter().map(DetectedRuntime::other).collect(),
    },
    Finder {
        name: "CPython",
        offers: &[],
        find: |process| CPython::find(process).into_iter().map(DetectedRuntime::other).collect(),
    },
    Finder {
        name: "NativeAOT",
        offers: &[Offer::ClrGc],
        find: |process| NativeAot::find(process).into_iter().map(DetectedRuntime::other).collect(),
    },
];

/// A runtime that was found in a process.
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
    pub fn runtime(&self) -> &(dyn ManagedRuntime + 'p) {
        match self {
            DetectedRuntime::CoreClr(runtime) => &**runtime,
            DetectedRuntime::Other(runtime) => &**runtime,
        }
    }

    /// Returns CoreCLR by type. `None` for any other runtime.
    pub fn coreclr(&self) -> Option<&CoreClr<'p>> {
        match self {
            DetectedRuntime::CoreClr(runtime) => Some(runtime),
            DetectedRuntime::Other(_) => None,
        }
    }
}
