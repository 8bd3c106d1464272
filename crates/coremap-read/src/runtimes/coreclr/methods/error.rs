//! Errors of looking up code, of unwinding it, and of reading its GC info.

use crate::addr::Addr;
use crate::layout::ViewError;
use crate::memory::Fault;
use crate::runtimes::coreclr::code::UnwindError;
use crate::runtimes::coreclr::code::gc_info::GcInfoError;

/// Reasons why managed code, or a frame in it, can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// A structure of the runtime (code heap, image, MethodDesc or Module) can't be read.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The bytes of the GC info can't be read.
    #[error(transparent)]
    Memory(#[from] Fault),
    /// The limit on jitted code was reached. The code heap at `at` was not read.
    #[error("more jitted code than the limit")]
    TooMuchJitted {
        /// Address of the HeapList node.
        at: Addr,
    },
    /// The layout is that of another version, and the nibble map read by it does not lead to methods.
    #[error("the code heap at {at} does not fit the layout, which is another version's")]
    Form {
        /// Address of the HeapList node.
        at: Addr,
    },
    /// The limit on precompiled code was reached. The image of the module at `at` was not read.
    #[error("more precompiled code than the limit")]
    TooMuchPrecompiled {
        /// Address of the Module.
        at: Addr,
    },
    /// The process has not used this instantiation, so the runtime has no MethodDesc for it.
    #[error("in precompiled code of a generic instantiation that the process has not used")]
    Unused {
        /// Start of the code.
        at: Addr,
    },
    /// The code has no unwind data, or is in no method.
    #[error("no unwind data for managed code at {at}")]
    NoUnwindData {
        /// Code address of the frame.
        at: Addr,
    },
    /// The unwind data or the stack can't be read.
    #[error("{source}")]
    Unwind {
        /// Code address of the frame.
        at: Addr,
        /// The unwinder's error.
        source: UnwindError,
    },
    /// The code has no GC info, or is in no method.
    #[error("no GC info for the code at {at}")]
    NoGcInfo {
        /// Code address.
        at: Addr,
    },
    /// GC info of this version is not supported.
    #[error("GC info version {version} is not supported")]
    GcInfoVersion {
        /// Version that the runtime reports.
        version: u64,
    },
    /// The GC info version of this runtime is unknown.
    #[error("the GC info of {runtime} is not supported")]
    GcInfoUnknown {
        /// Name and version of the runtime.
        runtime: String,
    },
    /// The limit on GC info was reached. The GC info at `at` was not read.
    #[error("more GC info than the limit")]
    TooMuchGcInfo {
        /// Address of the GC info.
        at: Addr,
    },
    /// The GC info is invalid.
    #[error("{at}: {source}")]
    GcInfo {
        /// Address of the GC info.
        at: Addr,
        /// The decoder's error.
        source: GcInfoError,
    },
    /// The address is in no method.
    #[error("{at} is in no method")]
    NoMethod {
        /// Code address.
        at: Addr,
    },
}
