//! Containers, proven by their own fields: the number of elements in the header is the number of nodes that are
//! reached.
//!
//! All proofs share a budget of steps, and end at the time limit. Each address is tried once.

mod cxx;
mod plain;
mod rust;

use std::cell::RefCell;
use std::collections::HashMap;

use crate::addr::Addr;
use crate::analysis::block_graph::BlockGraph;
use crate::analysis::block_graph::containers::cxx::TreeForm;
use crate::memory::walk::Walks;
use crate::memory::{Memory, ProcessMemory};
use crate::phase::Phase;
use crate::session::Session;
use crate::targets::deadline::Deadline;

/// Possible distances in bytes from a container's header to a word that points at a block.
const BEFORE: [u64; 5] = [0, 8, 16, 24, 32];

/// Maximum number of nodes visited by all proofs: per block of the heap, plus a constant.
const VISITS: u64 = 8;
const VISITS_MORE: u64 = 1 << 20;

/// Bytes of an array whose search counts as one visited node.
const BYTES_PER_VISIT: u64 = 1024;

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Container {
    pub(super) kind: ContainerKind,
    /// Address and bytes of its header.
    pub(super) header: Addr,
    pub(super) len: u64,
    /// Number of elements. `None` if the structure does not show it.
    pub(super) count: Option<u64>,
    /// Its storage, or its first node.
    pub(super) storage: Addr,
    /// Bytes in use and bytes in total of its storage, if that is one block.
    pub(super) room: Option<(u64, u64)>,
}

/// Kinds of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerKind {
    StdMap,
    LibcxxMap,
    StdList,
    Ring,
    StdUnordered,
    LibcxxUnordered,
    StdVector,
    StdDeque,
    HashMap,
    Vec,
    VecDeque,
    BTreeMap,
    Channel,
    GHashTable,
}

impl ContainerKind {
    /// Whether it is an array, which can be full.
    pub(super) fn is_array(self) -> bool {
        matches!(self, ContainerKind::StdVector | ContainerKind::Vec | ContainerKind::VecDeque)
    }

    /// Its name. `rust`: whether the program is written in Rust.
    pub(super) fn name(self, rust: bool) -> &'static str {
        match self {
            ContainerKind::StdMap => "std::map or std::set (red-black tree)",
            ContainerKind::LibcxxMap => "std::map or std::set (libc++)",
            ContainerKind::StdList => "std::list",
            ContainerKind::Ring => "ring of nodes linked both ways",
            ContainerKind::StdUnordered => "std::unordered_map or std::unordered_set",
            ContainerKind::LibcxxUnordered => "std::unordered_map or std::unordered_set (libc++)",
            ContainerKind::StdVector => "std::vector",
            ContainerKind::StdDeque => "std::deque",
            ContainerKind::HashMap => "HashMap or HashSet (hashbrown)",
            ContainerKind::Vec if rust => "Vec",
            ContainerKind::Vec => "growing array {capacity, address, length}",
            ContainerKind::VecDeque => "VecDeque",
            ContainerKind::BTreeMap => "BTreeMap or BTreeSet",
            ContainerKind::Channel => "channel (mpsc)",
            ContainerKind::GHashTable => "GHashTable",
        }
    }
}

/// Proves containers.
pub(super) struct Prover<'a> {
    memory: &'a ProcessMemory,
    graph: &'a BlockGraph<'a>,
    /// Whether the program is written in Rust.
    pub(super) rust: bool,
    walks: Walks,
    deadline: &'a Deadline,
    /// Results by the address of the header.
    known: RefCell<HashMap<Addr, Option<Box<Container>>>>,
}

impl<'a> Prover<'a> {
    pub(super) fn new(session: &'a Session<'_>, graph: &'a BlockGraph<'a>, rust: bool) -> Prover<'a> {
        let left = (graph.len() as u64).saturating_mul(VISITS).saturating_add(VISITS_MORE);
        let walks = Walks::new(Phase::Pointers, usize::try_from(left).unwrap_or(usize::MAX));
        let deadline = session.process.target().reads().deadline();
        Prover { memory: &session.process.memory, graph, rust, walks, deadline, known: RefCell::default() }
    }

    /// Returns the container whose header includes the word at `at`. The word points at a block.
    pub(super) fn near(&self, at: Addr) -> Option<Container> {
        BEFORE.iter().find_map(|before| {
            let found = self.at(at.checked_sub(*before)?)?;
            (found.len > *before).then_some(found)
        })
    }

    /// Returns the container whose header begins at `at`.
    pub(super) fn at(&self, at: Addr) -> Option<Container> {
        if let Some(known) = self.known.borrow().get(&at) {
            return known.as_deref().cloned();
        }
        let found = self.prove(at);
        self.known.borrow_mut().insert(at, found.clone().map(Box::new));
        found
    }

    fn prove(&self, at: Addr) -> Option<Container> {
        if self.deadline.has_passed() {
            return None;
        }
        self.std_map(at)
            .or_else(|| self.std_unordered(at))
            .or_else(|| self.libcxx_map(at))
            .or_else(|| self.libcxx_unordered(at))
            .or_else(|| self.list(at))
            .or_else(|| self.deque(at))
            .or_else(|| self.vector(at))
            .or_else(|| self.hashbrown(at))
            .or_else(|| self.channel(at))
            .or_else(|| self.btree(at))
            .or_else(|| self.vec(at))
    }

    /// Returns the blocks that are nodes and tables of a container.
    pub(super) fn nodes(&self, of: &Container) -> Vec<u32> {
        let mut out = Vec::new();
        let mut add = |at: Addr| out.extend(self.graph.at(at));
        match of.kind {
            ContainerKind::StdMap => self.each_of_tree(of, &cxx::STD_TREE, &mut add),
            ContainerKind::LibcxxMap => self.each_of_tree(of, &cxx::LIBCXX_TREE, &mut add),
            ContainerKind::StdUnordered | ContainerKind::LibcxxUnordered => {
                if let Some(table) = self.word(of.header) {
                    add(Addr::new(table));
                }
                self.each_linked(of.storage, 0, of.header, &mut add);
            }
            ContainerKind::StdList | ContainerKind::Ring => self.each_linked(of.storage, 0, of.header, &mut add),
            ContainerKind::Channel => self.each_of_channel(of.storage, &mut add),
            ContainerKind::BTreeMap => self.btree_nodes(of.storage).iter().for_each(|node| add(*node)),
            ContainerKind::StdVector
            | ContainerKind::StdDeque
            | ContainerKind::HashMap
            | ContainerKind::Vec
            | ContainerKind::VecDeque
            | ContainerKind::GHashTable => {}
        }
        out
    }

    /// Visits nodes linked by their word at `next`, up to `end` or a null pointer.
    fn each_linked(&self, first: Addr, next: u64, end: Addr, visit: &mut dyn FnMut(Addr)) {
        let mut at = first;
        let mut walk = self.walks.begin_cycle_only();
        while !at.is_null() && at != end && walk.step(at).is_ok() {
            visit(at);
            let Some(to) = self.at_offset(at, next) else { break };
            at = to;
        }
    }

    /// Visits the nodes of a tree from its leftmost, in order.
    fn each_of_tree(&self, of: &Container, form: &TreeForm, visit: &mut dyn FnMut(Addr)) {
        let end = of.header.saturating_add(8);
        let mut at = of.storage;
        let mut walk = self.walks.begin_cycle_only();
        while at != end && walk.step(at).is_ok() {
            visit(at);
            let Some(next) = self.after(at, end, form) else { break };
            at = next;
        }
    }

    /// Takes the steps for a search of `bytes` bytes at `at` from the budget. `None` if it is used up.
    fn spend(&self, at: Addr, bytes: u64) -> Option<()> {
        self.walks.spend(at, (bytes / BYTES_PER_VISIT).saturating_add(1)).ok()
    }

    fn word(&self, at: Addr) -> Option<u64> {
        self.memory.peek_u64(at).ok()
    }

    fn words<const N: usize>(&self, at: Addr) -> Option<[u64; N]> {
        let mut out = [0; N];
        for (i, word) in (0..).zip(&mut out) {
            *word = self.word(at.checked_add(8 * i)?)?;
        }
        Some(out)
    }

    fn at_offset(&self, at: Addr, offset: u64) -> Option<Addr> {
        self.word(at.checked_add(offset)?).map(Addr::new)
    }

    /// Returns the usable bytes of a block.
    pub(super) fn usable(&self, block: u32) -> u64 {
        self.graph.usable(block)
    }

    /// Whether the word at `at` is null.
    pub(super) fn is_null(&self, at: Addr) -> bool {
        self.word(at) == Some(0)
    }

    /// Returns the usable bytes of the block that begins at `at`.
    fn starting(&self, at: u64) -> Option<u64> {
        let block = self.graph.starting(Addr::new(at))?;
        Some(self.graph.usable(block))
    }
}

/// Returns the maximum number of bytes that malloc adds to a request. A block with its own mapping has up to a page
/// more.
fn slack(usable: u64) -> u64 {
    const OF_CHUNK: u64 = 24;
    const MAPPED: u64 = 128 << 10;
    if usable >= MAPPED { OF_CHUNK + 4096 } else { OF_CHUNK }
}
