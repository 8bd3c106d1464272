//! The open core that `explore` lends to the commands that it runs, each in a thread of its own. Their output goes to
//! the screen instead of stdout and stderr.

use std::cell::RefCell;

use coremap::session::Session;

/// A core that is lent to the current thread, with what was written for the screen.
struct Lent {
    session: &'static Session<'static>,
    columns: usize,
    text: Vec<u8>,
}

thread_local! {
    static LENT: RefCell<Option<Lent>> = const { RefCell::new(None) };
}

/// Lends a core to `work`, for a screen of `columns` columns. Returns what it wrote.
#[cfg(feature = "screen")]
pub(crate) fn with(session: &'static Session<'static>, columns: usize, work: impl FnOnce()) -> Vec<u8> {
    LENT.set(Some(Lent { session, columns, text: Vec::new() }));
    work();
    LENT.take().map(|lent| lent.text).unwrap_or_default()
}

/// The core that is lent to this thread.
pub(crate) fn session() -> Option<&'static Session<'static>> {
    LENT.with_borrow(|lent| lent.as_ref().map(|lent| lent.session))
}

/// Width of the screen that this thread writes for, in columns.
pub(crate) fn columns() -> Option<usize> {
    LENT.with_borrow(|lent| lent.as_ref().map(|lent| lent.columns))
}

/// Appends text for the screen. Returns false if this thread writes for no screen.
pub(crate) fn write(text: &[u8]) -> bool {
    LENT.with_borrow_mut(|lent| lent.as_mut().map(|lent| lent.text.extend_from_slice(text)).is_some())
}
