//! The finding about an OutOfMemoryException that the program caught.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::causes::last_words::{self, Caught};
use crate::commands::dotnet::coreclr;
use crate::commands::dotnet::exceptions::ExceptionRow;
use crate::report::Finding;
use crate::runtimes::api::{LastWords as _, ManagedRuntime as _};
use crate::session::Session;

const EXCEPTION: &str = "System.OutOfMemoryException";

/// The objects of such exceptions, among those that were thrown.
pub(in crate::commands) fn out_of_memory(thrown: &[ExceptionRow]) -> Vec<Addr> {
    thrown.iter().filter(|row| &*row.name == EXCEPTION).map(|row| row.object).collect()
}

/// Reports them. `names`: the fields or variables that keep objects.
pub(in crate::commands) fn caught(
    session: &Session<'_>,
    thrown: &[ExceptionRow],
    names: &HashMap<Addr, String>,
) -> Option<Finding> {
    let all = out_of_memory(thrown);
    // One that is kept says most.
    let object = all.iter().copied().find(|at| names.contains_key(at)).or(all.first().copied())?;
    let runtime = coreclr(session).find(|runtime| runtime.object(object).is_some())?;
    let detail = runtime.object(object).and_then(|report| report.exception);
    let frames = detail.map(|detail| detail.frames).unwrap_or_default();
    Some(last_words::caught(&Caught {
        r#type: EXCEPTION,
        count: all.len() as u64,
        object,
        methods: frames.into_iter().filter_map(|frame| frame.method).collect(),
        holder: names.get(&object).map(String::as_str),
        asked: runtime.failed_allocation(),
        limit: runtime.heap_limit(),
    }))
}
