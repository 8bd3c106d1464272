//! The heap: spans, what the collector counts, and the heap profile.

mod bits;
mod figures;
pub(super) mod profile;
mod spans;

pub(super) use bits::{Liveness, arena_of};
pub(super) use figures::Figures;
pub(super) use spans::{Span, SpanUse, Spans};
