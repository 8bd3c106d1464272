//! The heap: spans and objects, what the collector counts, and the heap profile.
//!
//! | file | contents |
//! |---|---|
//! | `spans`, `bits` | runs of pages, and which of their objects are live |
//! | `figures` | figures of the collector |
//! | `profile` | the sampled stacks that allocated |
//! | `typing` | types of objects |
//! | `objects` | the heap as all runtimes have one |

mod bits;
mod figures;
mod objects;
pub(super) mod profile;
mod spans;
mod typing;

pub(super) use bits::{Liveness, arena_of};
pub(super) use figures::Figures;
pub(super) use objects::{GoHeap, TypedBy};
pub(super) use spans::{Span, SpanUse, Spans};
pub(super) use typing::{Leads, PointerFields};
