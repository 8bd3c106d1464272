//! Findings on Node.js's own structures.

use crate::facts::Finding;
use crate::runtimes::api::RetainedSizes;
use crate::runtimes::v8::census::{Census, Pending, agents, async_functions, emitters, timers};
use crate::runtimes::v8::heap::Heap;

/// Returns the findings on timers, listeners, agents and async functions, in this order.
pub(in crate::runtimes::v8) fn all(
    heap: &Heap<'_>,
    census: &Census,
    pending: &[Pending],
    retained: Option<&dyn RetainedSizes>,
) -> Vec<Finding> {
    let mut out = timers::findings(heap, census, retained);
    out.extend(emitters::findings(heap, census, retained));
    out.extend(agents::findings(heap, census));
    out.extend(async_functions::findings(heap, census, pending, retained));
    out
}
