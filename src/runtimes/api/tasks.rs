//! Tasks of a runtime whose async functions are chains of objects, told runtime by runtime alike.

use crate::addr::Addr;
use crate::runtimes::api::Activation;

/// An async function that has begun and is not done.
#[derive(Clone, Debug)]
pub struct AsyncFrame {
    /// Its object: a coroutine, or a generator.
    pub object: Addr,
    /// The object's type.
    pub kind: String,
    /// What runs in it.
    pub activation: Activation,
}

/// A task that is not done.
#[derive(Clone, Debug)]
pub struct AsyncTask {
    /// The object.
    pub address: Addr,
    /// Its type.
    pub kind: String,
    /// The name that the program gave to it.
    pub name: Option<String>,
    /// Async functions in it, that of the latest call first.
    pub frames: Vec<AsyncFrame>,
    /// What it waits for, in words.
    pub awaiting: String,
    /// The same without what differs between tasks that wait alike, as the time of a sleep.
    pub alike: String,
    /// The object that it waits for; null where there is none.
    pub awaited: Addr,
    /// Tasks that wait for this one.
    pub awaited_by: Vec<Addr>,
}

/// Tasks of async functions.
pub trait AsyncTasks: Sync {
    /// Visit those that are not done.
    fn each(&self, visit: &mut dyn FnMut(AsyncTask));
}

/// What is known of a runtime's async functions.
pub enum AsyncFunctions<'r> {
    /// No task is a chain of objects as [`AsyncTask`] has it: the runtime has none, or a command of its own for them.
    Elsewhere,
    /// They can't be read, so that none found does not mean none there.
    Unread,
    /// They are read.
    Tasks(&'r dyn AsyncTasks),
}
