//! Classifies the contents of memory page by page. The kernel merges adjacent mappings into one.
//! Only their contents show where one ends and the next begins.
//!
//! | file | contents |
//! |---|---|
//! | `page` | classifies one page by its bytes |
//! | `destinations` | the destination of a page's pointers |
//! | `runs` | classifies all pages of given ranges, in one parallel pass |
//! | `stretches` | divides a range where its content changes for good; a range's main content |

mod destinations;
mod page;
mod runs;
mod stretches;

pub use destinations::{AddressClassifier, DestinationId};
pub use page::Content;
pub use runs::{Filled, filled};
pub use stretches::{Makeup, stretches, within};
