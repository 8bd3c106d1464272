//! The global interpreter lock (GIL). Up to 3.11 there is one per process. Later there is one per interpreter, or a
//! shared one (Python/ceval_gil.c).

use crate::addr::{Addr, AddrRange};
use crate::layout::StructView;
use crate::runtimes::cpython::runtime::Runtime;

/// State of a GIL when the core was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::cpython) struct Gil {
    /// Addresses of `struct _gil_runtime_state`. Waiting threads wait at an address inside.
    pub(in crate::runtimes::cpython) range: Option<AddrRange>,
    /// The thread state that held it last.
    pub(in crate::runtimes::cpython) holder: Addr,
    /// Whether that thread still holds it.
    pub(in crate::runtimes::cpython) locked: bool,
}

impl Gil {
    pub(super) fn of(runtime: &Runtime<'_>, interpreter: Addr) -> Option<Gil> {
        let start = runtime.view("PyInterpreterState", interpreter).ptr("ceval.gil").ok();
        let start = start.or_else(|| {
            let holder = runtime.view("_PyRuntimeState", runtime.address).addr_of("ceval.gil.last_holder").ok()?;
            holder.checked_sub(runtime.layout.positive("_gil_runtime_state", "last_holder").ok()?)
        })?;
        let gil: StructView<'_> = runtime.view("_gil_runtime_state", start);
        let size = runtime.layout.size("_gil_runtime_state").ok();
        Some(Gil {
            range: size.map(|size| AddrRange::sized(start, size)),
            holder: gil.ptr("last_holder").ok()?,
            locked: gil.u32("locked").ok()? == 1,
        })
    }
}
