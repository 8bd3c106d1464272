//! CoreCLR's additions to the GC that it shares with NativeAOT ([`clr_gc`](crate::runtimes::clr_gc)): checks that a
//! layout fits, caches the handles, and finds the roots.

mod fit;
mod handles;
mod roots;

pub(super) use fit::misfit;
pub(crate) use handles::handles;
pub(super) use handles::read as read_handle_table;
pub(super) use roots::roots;
