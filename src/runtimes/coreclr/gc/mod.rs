//! What CoreCLR adds to the GC that it shares with NativeAOT ([`clr_gc`](crate::runtimes::clr_gc)): whether it is where a layout says,
//! its handles read once, and its roots.

mod fit;
mod handles;
mod roots;

pub(super) use fit::misfit;
pub(crate) use handles::handles;
pub(super) use handles::read as read_handle_table;
pub(super) use roots::roots;
