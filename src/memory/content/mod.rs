//! What fills memory, told page by page: mappings that lie side by side are one to the kernel, and
//! what was written to them is what tells them apart.
//!
//! | file | holds |
//! |---|---|
//! | `page` | one page: what its bytes are |
//! | `leads` | what the pointers of a page lead into |
//! | `runs` | all pages of given ranges, in one parallel pass |
//! | `stretches` | where in a range what fills it changes for good; what most of a range is |

mod leads;
mod page;
mod runs;
mod stretches;

pub use leads::{Lead, Words};
pub use page::Content;
pub use runs::{Filled, filled};
pub use stretches::{Makeup, stretches, within};
