//! Tasks of runtimes whose async functions are chains of objects.

use crate::addr::Addr;
use crate::runtimes::api::Activation;

/// An async function that has started and not finished.
#[derive(Clone, Debug)]
pub struct AsyncFrame {
    /// Address of its coroutine or generator object.
    pub object: Addr,
    /// Type of that object.
    pub kind: String,
    /// The method that runs in it, with its position.
    pub activation: Activation,
}

/// A task that is not done.
#[derive(Clone, Debug)]
pub struct AsyncTask {
    /// Address of the task object.
    pub address: Addr,
    /// Type of the task object.
    pub kind: String,
    /// Name that the program gave to the task.
    pub name: Option<String>,
    /// Async functions of the task, innermost first.
    pub frames: Vec<AsyncFrame>,
    /// What the task waits for, in words.
    pub awaiting: String,
    /// `awaiting` without details that differ between similar tasks, such as the duration of a sleep. Used for
    /// grouping.
    pub group_text: String,
    /// The object that the task waits for. Null if there is none.
    pub awaited: Addr,
    /// Tasks that wait for this task.
    pub awaited_by: Vec<Addr>,
}

/// Tasks of async functions.
pub trait AsyncTasks: Sync {
    /// Visits the tasks that are not done.
    fn each(&self, visit: &mut dyn FnMut(AsyncTask));
}

/// Whether a runtime's tasks can be read.
pub enum AsyncFunctions<'r> {
    /// The runtime has no tasks that are chains of objects ([`AsyncTask`]), or has its own command for them.
    Elsewhere,
    /// Tasks could not be read. Finding none does not mean that there are none.
    Unread,
    /// The tasks that were read.
    Tasks(&'r dyn AsyncTasks),
}
