//! The open core that `explore`, `shell` and the worker of `mcp` lend to the commands that they run, each in a thread
//! of its own. Their output goes to whoever lent the core instead of stdout and stderr.

use std::cell::RefCell;

use coremap::session::Session;

/// A core that is lent to the current thread, with what was written.
struct Lent {
    /// The core. `None` if the command opens its own.
    session: Option<&'static Session<'static>>,
    columns: usize,
    written: Written,
    /// Whether messages are separate from the answer.
    splits: bool,
}

/// Output of a command.
#[derive(Default)]
pub(crate) struct Written {
    /// The answer.
    pub(crate) text: Vec<u8>,
    /// Notes, warnings and errors, which otherwise go to stderr. Empty if they are in `text`.
    pub(crate) messages: Vec<u8>,
}

thread_local! {
    static LENT: RefCell<Option<Lent>> = const { RefCell::new(None) };
}

/// Lends a core to `work`, for a screen of `columns` columns. Returns what it wrote, messages included.
#[cfg(feature = "screen")]
pub(crate) fn with(session: &'static Session<'static>, columns: usize, work: impl FnOnce()) -> Vec<u8> {
    let lent = Lent { session: Some(session), columns, written: Written::default(), splits: false };
    during(lent, work).1.text
}

/// Lends a core to `work`, or nothing, for a terminal of `columns` columns. Returns its result and what it wrote,
/// messages apart from the answer.
#[cfg(any(feature = "mcp", feature = "prompt"))]
pub(crate) fn split<R>(
    session: Option<&'static Session<'static>>,
    columns: usize,
    work: impl FnOnce() -> R,
) -> (R, Written) {
    during(Lent { session, columns, written: Written::default(), splits: true }, work)
}

#[cfg(any(feature = "mcp", feature = "prompt", feature = "screen"))]
fn during<R>(lent: Lent, work: impl FnOnce() -> R) -> (R, Written) {
    LENT.set(Some(lent));
    let result = work();
    (result, LENT.take().map(|lent| lent.written).unwrap_or_default())
}

/// The core that is lent to this thread.
pub(crate) fn session() -> Option<&'static Session<'static>> {
    LENT.with_borrow(|lent| lent.as_ref().and_then(|lent| lent.session))
}

/// Width of the screen that this thread writes for, in columns.
pub(crate) fn columns() -> Option<usize> {
    LENT.with_borrow(|lent| lent.as_ref().map(|lent| lent.columns))
}

/// Whether messages are separate from the answer.
pub(crate) fn splits() -> bool {
    LENT.with_borrow(|lent| lent.as_ref().is_some_and(|lent| lent.splits))
}

/// Appends text of an answer. Returns false if this thread writes to stdout.
pub(crate) fn write(text: &[u8]) -> bool {
    LENT.with_borrow_mut(|lent| lent.as_mut().map(|lent| lent.written.text.extend_from_slice(text)).is_some())
}

/// Appends a message. Returns false if this thread writes to stderr.
pub(crate) fn message(text: &[u8]) -> bool {
    LENT.with_borrow_mut(|lent| {
        let Some(lent) = lent.as_mut() else { return false };
        let to = if lent.splits { &mut lent.written.messages } else { &mut lent.written.text };
        to.extend_from_slice(text);
        true
    })
}
