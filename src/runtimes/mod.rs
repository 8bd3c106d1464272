//! The managed runtimes that coremap reads. `RUNTIMES` is the only list of them.
//!
//! Everything that serves all runtimes asks [`ManagedRuntime`] and names none of them.
//!
//! | module | contents |
//! |---|---|
//! | [`api`] | what every runtime answers, as traits and plain data; sums by type, equal strings |
//! | [`graph`] | objects as a graph: shortest paths from roots, dominators, path shapes |
//! | `clr_gc` | the garbage collector of .NET, which CoreCLR and NativeAOT share |
//! | `coreclr`, `nativeaot`, `hotspot`, `cpython` | one runtime each, with its `anatomy` and `fields` |
//!
//! The objects of a heap, and what one of them references:
//!
//! ```
//! # use std::path::Path;
//! # use coremap::process::{Options, Process};
//! # use coremap::progress::Progress;
//! # use coremap::session::Session;
//! use coremap::runtimes::api::Losses;
//!
//! let core = Path::new("testdata/cores/dotnet8-objects/core.zst");
//! let process = Process::open(core, &Options::default(), &Progress::silent())?;
//! let session = Session::new(&process);
//! let runtimes = session.runtimes();
//! let heap = runtimes[0].heap().ok_or("no heap")?;
//! let (mut walker, mut reader, mut losses) = (heap.walker(), heap.reader(), Losses::default());
//! let (mut objects, mut references) = (0, 0);
//! for part in heap.parts() {
//!     walker.walk(part, &mut losses, &mut |object| {
//!         objects += 1;
//!         reader.each(object.addr.get(), |_link, target| {
//!             references += u64::from(target != 0);
//!             true
//!         });
//!     });
//! }
//! println!("{objects} objects, {references} references, {} bytes unreadable", losses.bytes);
//! assert!(objects > 1000 && references > objects);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod api;
pub mod graph;

cfg_if! {
    if #[cfg(feature = "internals")] {
        pub mod clr_gc;
        pub mod coreclr;
        pub mod cpython;
        pub mod hotspot;
        pub mod nativeaot;
    } else {
        pub(crate) mod clr_gc;
        pub(crate) mod coreclr;
        pub(crate) mod cpython;
        pub(crate) mod hotspot;
        pub(crate) mod nativeaot;
    }
}

use crate::process::Process;
use crate::runtimes::api::ManagedRuntime;
use crate::runtimes::coreclr::CoreClr;
use crate::runtimes::cpython::CPython;
use crate::runtimes::hotspot::HotSpot;
use crate::runtimes::nativeaot::NativeAot;

/// Finds the runtimes of one kind.
pub(crate) struct Finder {
    /// What the runtime is called.
    pub name: &'static str,
    /// What only some runtimes have. A command that needs it runs no other finder: what finders read becomes a part of
    /// smaller cores.
    pub offers: &'static [Offer],
    /// All of the process that can be read. Why others can't becomes a diagnostic.
    pub find: for<'p> fn(&'p Process) -> Vec<Found<'p>>,
}

/// What only some runtimes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It is CoreCLR ([`Found::coreclr`]).
    CoreClr,
    /// The garbage collector of .NET ([`ManagedRuntime::clr_gc`]).
    ClrGc,
}

/// Every runtime, in the order in which a session lists them.
pub(crate) const RUNTIMES: &[Finder] = &[
    Finder {
        name: "CoreCLR",
        offers: &[Offer::CoreClr, Offer::ClrGc],
        find: |process| CoreClr::find(process).into_iter().map(Found::clr).collect(),
    },
    Finder {
        name: "HotSpot",
        offers: &[],
        find: |process| HotSpot::find(process).into_iter().map(Found::other).collect(),
    },
    Finder {
        name: "CPython",
        offers: &[],
        find: |process| CPython::find(process).into_iter().map(Found::other).collect(),
    },
    Finder {
        name: "NativeAOT",
        offers: &[Offer::ClrGc],
        find: |process| NativeAot::find(process).into_iter().map(Found::other).collect(),
    },
];

/// A runtime of a process.
pub(crate) enum Found<'p> {
    /// CoreCLR: commands that only .NET has ask it about its own structures.
    CoreClr(Box<CoreClr<'p>>),
    /// Any other.
    Other(Box<dyn ManagedRuntime + Send + 'p>),
}

impl<'p> Found<'p> {
    fn clr(runtime: CoreClr<'p>) -> Found<'p> {
        Found::CoreClr(Box::new(runtime))
    }

    fn other(runtime: impl ManagedRuntime + Send + 'p) -> Found<'p> {
        Found::Other(Box::new(runtime))
    }

    /// What all runtimes answer.
    pub(crate) fn runtime(&self) -> &(dyn ManagedRuntime + 'p) {
        match self {
            Found::CoreClr(runtime) => &**runtime,
            Found::Other(runtime) => &**runtime,
        }
    }

    /// CoreCLR, if it is that.
    pub(crate) fn coreclr(&self) -> Option<&CoreClr<'p>> {
        match self {
            Found::CoreClr(runtime) => Some(runtime),
            Found::Other(_) => None,
        }
    }
}
