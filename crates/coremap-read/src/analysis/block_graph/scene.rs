//! The graph with all results so far: groups of roots, kinds of blocks, dominators and paths.

use crate::addr::Addr;
use crate::analysis::block_graph::BlockGraph;
use crate::analysis::block_graph::containers::Prover;
use crate::analysis::block_graph::kinds::{Kinds, text};
use crate::analysis::block_graph::owners::{Owners, Vertex};
use crate::analysis::block_graph::paths::Paths;
use crate::analysis::block_graph::roots::{self, RootGroup};
use crate::analysis::block_graph::stacks::UnwoundStacks;
use crate::analysis::reach::Reach;
use crate::analysis::roots::room;
use crate::memory::Memory;
use crate::session::Session;

/// Whether the program is written in Rust, by the names of its main thread's first functions. Without unwind data, the
/// return addresses on the stack are used.
fn is_rust(session: &Session<'_>, stacks: &UnwoundStacks<'_, '_>) -> bool {
    let Some(main) = session.process.main_tid() else { return false };
    let is_first = |code: Addr| {
        let symbol = session.symbols().resolve(code);
        symbol.is_some_and(|symbol| symbol.name.contains("lang_start") || symbol.name.contains("__rust_begin_short"))
    };
    let frames = stacks
        .of(main)
        .is_some_and(|stack| stack.frames.iter().rev().take(FIRST_FRAMES).any(|(_, code)| is_first(*code)));
    let sp = session.thread(main).map(|thread| thread.registers.sp());
    let words = sp.into_iter().flat_map(|sp| (0..STACK / 8).map_while(move |i| sp.checked_add(8 * i)));
    let codes = || words.map_while(|at| session.process.memory.peek_u64(at).ok()).map(Addr::new);
    frames || codes().filter_map(|code| code.checked_sub(1)).any(is_first)
}

/// Number of bytes of the main thread's stack that are searched for return addresses.
const STACK: u64 = 64 << 10;

/// Number of outermost frames that may show the language.
const FIRST_FRAMES: usize = 12;

/// The graph and the intermediate results from which holders are found.
pub(super) struct Scene<'s, 'p> {
    pub(super) session: &'s Session<'p>,
    pub(super) graph: &'s BlockGraph<'s>,
    pub(super) prover: &'s Prover<'s>,
    pub(super) groups: &'s [RootGroup],
    pub(super) kinds: &'s Kinds,
    pub(super) owners: &'s Owners,
    pub(super) paths: &'s Paths,
    pub(super) stacks: &'s UnwoundStacks<'s, 'p>,
}

/// Reads the graph of the used blocks. `None` if there are no blocks or too many, or the time is up.
fn read_graph<'a>(session: &'a Session<'_>) -> Option<BlockGraph<'a>> {
    if session.malloc().is_empty() {
        return None;
    }
    session.process.target().expect_scan();
    let (_, blocks) = session.blocks();
    let reach = Reach::new(session.process, blocks).without_tracers(session);
    BlockGraph::read(session, &reach).filter(|graph| graph.len() > 0)
}

/// Reads the classes of all blocks. This declares the bytes that it reads as structures and names
/// ([`ReadBytes`](crate::targets::reads::ReadBytes)).
pub fn read_classes(session: &Session<'_>) {
    if let Some(graph) = read_graph(session) {
        drop(Kinds::find(session, &graph, false, &room(session)));
    }
}

/// Reads the graph and passes it to `with`. `None` if there are no blocks or too many, or the time is up.
pub(super) fn with_scene<T>(session: &Session<'_>, with: impl FnOnce(&Scene<'_, '_>) -> T) -> Option<T> {
    let graph = read_graph(session)?;
    let budget = room(session);
    let stacks = UnwoundStacks::new(session);
    let prover = Prover::new(session, &graph, is_rust(session, &stacks));
    let groups = roots::find(session, &graph, &prover, &stacks, &budget)?;
    let kinds = Kinds::find(session, &graph, prover.rust, &budget).ok()?;
    let is_typed = |block: u32| kinds.name(block).is_some();
    let owners = Owners::find(&graph, &prover, &groups, &is_typed, &budget).ok()?;
    let paths = Paths::find(&graph, &kinds, &owners, &budget).ok()?;
    let scene = Scene {
        session,
        graph: &graph,
        prover: &prover,
        groups: &groups,
        kinds: &kinds,
        owners: &owners,
        paths: &paths,
        stacks: &stacks,
    };
    Some(with(&scene))
}

impl Scene<'_, '_> {
    /// Returns the group at the start of a path.
    pub(super) fn group_of(&self, path: u32) -> Option<&RootGroup> {
        self.groups.get(self.paths.group.get(path as usize).copied().flatten()? as usize)
    }

    /// Returns the path of a block. `None` if it has none.
    pub(super) fn path_of(&self, block: u32) -> Option<u32> {
        self.paths.of_block.get(block as usize).copied().filter(|path| *path > 0)
    }

    /// Returns the paths from the start down to `path`.
    pub(super) fn above(&self, path: u32) -> Vec<u32> {
        let mut out = vec![path];
        let mut at = path;
        // A path's index is higher than its parent's, so this ends.
        while let Some(parent) = self.paths.get(at).map(|path| path.parent).filter(|parent| (1..at).contains(parent)) {
            out.push(parent);
            at = parent;
        }
        out.reverse();
        out
    }

    /// Describes the blocks of a path. `None` for a root.
    pub(super) fn in_words(&self, path: u32) -> Option<String> {
        let part = self.paths.get(path).filter(|path| matches!(path.first, Vertex::Block(_))).and(self.part(path))?;
        Some(part.words())
    }

    /// The first word of a block.
    pub(super) fn first_word(&self, block: u32) -> Option<Addr> {
        self.session.process.memory.peek_u64(self.graph.start(block)).ok().map(Addr::new)
    }

    /// Returns the group that retains a block. `None` if several do, or none.
    pub(super) fn root_of(&self, block: u32) -> Option<u32> {
        self.paths.group.get(self.path_of(block)? as usize).copied().flatten()
    }

    /// A text in a block.
    pub(super) fn text(&self, block: u32) -> Option<String> {
        text(&self.session.process.memory, self.graph, block)
    }
}
