//! Facts for the search for what retains memory: named variables, and the role of each type.

use std::sync::Arc;

use crate::addr::Addr;

/// The part that a type plays in the question who holds memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TypeRole {
    /// A type of the program, or of a library that it ships.
    #[default]
    Program,
    /// A collection of the runtime's library. Its elements are the first objects beyond its [`TypeRole::Part`]s.
    Collection,
    /// A part of a collection: a node, an entry, an array of them.
    Part,
    /// A node of a list to which the list's elements refer as well, as with timers and registrations. The node belongs
    /// to the list's owner, which is a [`TypeRole::Collection`]. An object that refers to a node does not own the list.
    ListNode,
    /// Any other type of the runtime's library.
    Library,
    /// An object that leads nearly everywhere: a thread, a class, a class loader, a module.
    Hub,
}

/// A static variable that references an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticRoot {
    /// Name, with its kind: `static App.Cache.ALL`, `global app.CACHE`.
    pub name: Arc<str>,
    /// The referenced object.
    pub object: Addr,
    /// Whether it belongs to the runtime's library rather than to the program.
    pub library: bool,
}

/// The static variables of a runtime.
#[derive(Clone, Debug, Default)]
pub struct NamedStatics {
    /// All variables that reference an object.
    pub roots: Vec<StaticRoot>,
    /// Objects that contain the variables: class mirrors, arrays of statics, modules and their dicts. They hold nothing
    /// themselves.
    pub containers: Vec<Addr>,
}
