//! What fills memory, told page by page: mappings that lie side by side are one to the kernel, and
//! what was written to them is what tells them apart. `page.rs` looks at one page, `runs.rs` at
//! all pages of given ranges, in one parallel pass.

mod page;
mod runs;

pub use page::{Content, Words};
pub use runs::{Filled, filled};
