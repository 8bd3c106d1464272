//! Tasks of a runtime whose async functions are chains of objects, told runtime by runtime alike.

use crate::addr::Addr;
use crate::managed::Activation;

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
