//! The finding about an OutOfMemoryException that the program caught.

use std::collections::HashMap;

use crate::addr::Addr;
use crate::causes::last_words::{self, Caught};
use crate::commands::dotnet::coreclr;
use crate::commands::dotnet::exceptions::ExceptionRow;
use crate::report::Finding;
use crate::runtimes::api::{KeptFailure, LastWords as _, ManagedRuntime as _};
use crate::session::Session;

const EXCEPTION: &str = "System.OutOfMemoryException";

/// Returns the OutOfMemoryException objects among the thrown exceptions.
pub(in crate::commands) fn out_of_memory(thrown: &[ExceptionRow]) -> impl Iterator<Item = Addr> + '_ {
    thrown.iter().filter(|row| &*row.name == EXCEPTION).map(|row| row.object)
}

/// Reports these exceptions. `held_by`: the field or variable that retains each object.
pub(in crate::commands) fn caught(
    session: &Session<'_>,
    thrown: &[ExceptionRow],
    held_by: &HashMap<Addr, String>,
) -> Option<Finding> {
    // An exception that is still retained explains most.
    let is_kept = |at: &Addr| held_by.contains_key(at);
    let object = out_of_memory(thrown).find(is_kept).or_else(|| out_of_memory(thrown).next())?;
    let (runtime, report) = coreclr(session).find_map(|runtime| Some((runtime, runtime.object(object)?)))?;
    let frames = report.exception.map(|detail| detail.frames).unwrap_or_default();
    let functions = frames.into_iter().filter_map(|frame| frame.method).collect();
    Some(last_words::caught(&Caught {
        failure: &KeptFailure { object, r#type: EXCEPTION.to_owned(), functions },
        count: out_of_memory(thrown).count() as u64,
        holder: held_by.get(&object).map(String::as_str),
        asked: runtime.failed_allocation(),
        limit: runtime.heap_limit(),
    }))
}
