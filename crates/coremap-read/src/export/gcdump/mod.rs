//! `.gcdump`: a managed heap as a graph, as dotnet-gcdump writes it and PerfView and Visual Studio open it.
//!
//! It has objects without their contents: type, size, address and references. File layout: microsoft/perfview,
//! src/FastSerialization, src/MemoryGraph/graph.cs, src/HeapDump/GCHeapDump.cs. The versions are those that
//! dotnet-gcdump writes.

mod nodes;
mod roots;
mod segments;
mod stream;

use std::io;

use rayon::prelude::*;

use crate::addr::Addr;
use crate::export::objects::Objects;
use crate::export::{ExportError, Output};
use crate::limits;
use crate::progress::Progress;
use crate::runtimes::api::{FREE, Heap, Root, Tally, TypeIndex, UnwalkedRanges};
use nodes::{FileType, NodeBatch, Sums, of_page, put_node};
use roots::{Child, Tree};
use stream::{Stream, tag};

/// Maximum size of all nodes in bytes. The file stores it as a signed 32-bit number.
const MAX_NODE_BYTES: u64 = i32::MAX as u64;

/// Maximum number of nodes that PerfView opens (graph.cs: their array may have at most int.MaxValue bytes).
pub const MAX_PERFVIEW_NODES: u64 = 134_217_716;

/// Number of object pages whose nodes are made at once: some tens of MiB, and enough for all threads.
const PAGES_AT_ONCE: usize = 64;

/// Facts about the process that the file contains.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Name of the program.
    pub process: Option<String>,
    /// Process id.
    pub pid: Option<u32>,
    /// Name of the tool that wrote the file.
    pub tool: String,
    /// Warnings about the graph, from reading the core.
    pub log: String,
}

/// Counts and sizes of a written file.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Number and size of objects.
    pub objects: Tally,
    /// Number and size of free spaces between objects. They are no nodes.
    pub free: Tally,
    /// Number of types that have objects.
    pub types: u64,
    /// Number of references between objects.
    pub references: u64,
    /// Number of references that point to no object.
    pub strays: u64,
    /// Number of roots that point to an object.
    pub roots: u64,
    /// Number of roots that point to none.
    pub stray_roots: u64,
    /// Number of nodes for static variables.
    pub statics: u64,
    /// Number of all nodes: objects, and the tree of roots.
    pub nodes: u64,
    /// Number of heap ranges with their generations.
    pub segments: u64,
    /// Objects above the maximum size of 2 GiB minus 1 byte, and the bytes cut off them.
    pub clipped: Tally,
    /// Parts of each heap that could not be walked.
    pub losses: Vec<UnwalkedRanges>,
}

/// A heap to export.
pub struct Source<'s> {
    /// Heap with the objects.
    pub heap: &'s dyn Heap,
    /// Roots of its objects.
    pub roots: &'s [Root],
    /// Name of the node above its roots, without brackets: `.NET Roots`.
    pub root: String,
}

/// A source with a number for each object.
struct NumberedHeap<'s> {
    source: &'s Source<'s>,
    objects: Objects<'s>,
    /// Number of its first object, counted over all heaps.
    first: u32,
    /// Types in the file, by type number.
    types: Vec<FileType>,
}

impl NumberedHeap<'_> {
    /// Returns the number of the object at `addr`, counted over all heaps.
    fn number(&self, addr: Addr) -> Option<u32> {
        self.objects.number(addr.get()).map(|number| self.first + number)
    }
}

/// Writes the objects of all `sources` as one graph. PerfView and Visual Studio are made for .NET, but show any other
/// heap as well.
///
/// # Errors
/// Fails if there are more objects than the format allows, or the file can't be written.
pub fn write(
    sources: &[Source<'_>],
    about: &About,
    out: &mut dyn Output,
    progress: &Progress,
) -> Result<Written, ExportError> {
    let mut written = Written::default();
    let mut heaps = Vec::new();
    let mut first = 0_u32;
    for source in sources {
        let objects = Objects::of(source.heap, progress).ok_or_else(too_many_nodes)?;
        let len = objects.len();
        written.objects = written.objects.plus(objects.total);
        written.free = written.free.plus(objects.free);
        heaps.push(NumberedHeap { source, objects, first, types: Vec::new() });
        first = first.checked_add(len).ok_or_else(too_many_nodes)?;
    }
    if first == 0 {
        return Err(ExportError::Unfit("the core has no managed heap object; no file was written".into()));
    }
    let tree = Tree::of(&heaps);
    let before = tree.nodes.len() as u32;
    let count = i32::try_from(u64::from(before) + u64::from(first)).map_err(|_| too_many_nodes())?;
    let mut stream = Stream::begin(out)?;
    stream.object("GCHeapDump", 10, 8)?;
    stream.object("Graphs.MemoryGraph", 1, 0)?;
    let total_at = stream.at();
    stream.i64(0)?;
    // Index of the root node.
    stream.i32(0)?;
    written.types = write_types(&mut stream, &mut heaps, &tree)?;
    stream.i32(count)?;
    let starts_at = stream.at();
    let length_at = starts_at + 4 * count as u64;
    let mut graph = Graph { stream, starts_at, nodes_at: length_at + 4, bytes: 0 };
    let sums = graph.write(&heaps, &tree, progress)?;
    let Graph { mut stream, nodes_at, bytes, .. } = graph;
    stream.seek(total_at)?;
    stream.i64(i64::try_from(sums.size).unwrap_or(i64::MAX))?;
    stream.seek(length_at)?;
    stream.i32(bytes as i32)?;
    stream.seek(nodes_at + bytes)?;
    write_addresses(&mut stream, &heaps, count, before)?;
    let segments: Vec<_> = heaps.iter().flat_map(|heap| segments::of(heap.source.heap)).collect();
    write_rest(&mut stream, about, &segments)?;
    written.bytes = stream.finish()?;
    written.losses = heaps.into_iter().map(|heap| heap.objects.losses).collect();
    Ok(Written {
        references: sums.references,
        strays: sums.strays,
        roots: tree.roots,
        stray_roots: tree.strays,
        statics: tree.statics,
        nodes: count as u64,
        segments: segments.len() as u64,
        clipped: Tally { count: sums.clipped, size: sums.clipped_bytes },
        ..written
    })
}

fn too_many_nodes() -> ExportError {
    too_many("2,147,483,647 nodes")
}

fn too_many(what: &str) -> ExportError {
    ExportError::Unfit(format!("the heap is too large for a .gcdump: its limit is {what}"))
}

/// Writes the table of types: the one for no node, one for each tree node, and the types of objects. Returns the
/// number of object types.
fn write_types(stream: &mut Stream<'_>, heaps: &mut [NumberedHeap<'_>], tree: &Tree) -> Result<u64, ExportError> {
    let present = |heap: &NumberedHeap<'_>| {
        let kinds = (0..).zip(&heap.objects.kinds).filter(|(kind, known)| *kind != FREE.0 && known.tally.count > 0);
        kinds.map(|(kind, known)| (TypeIndex(kind), known.first_size())).collect::<Vec<_>>()
    };
    let of_heaps: Vec<Vec<(TypeIndex, u64)>> = heaps.iter().map(present).collect();
    let count: usize = of_heaps.iter().map(Vec::len).sum();
    stream.i32((1 + tree.nodes.len() + count) as i32)?;
    write_type(stream, "UNDEFINED", 0, None)?;
    for node in &tree.nodes {
        write_type(stream, &format!("[{}]", node.name), 0, None)?;
    }
    let mut number = 1 + tree.nodes.len() as i32;
    let mut room = limits::MAX_NAMES;
    for (numbered, present) in heaps.iter_mut().zip(of_heaps) {
        let heap = numbered.source.heap;
        numbered.types = vec![FileType::default(); numbered.objects.kinds.len()];
        for (kind, first_size) in present {
            let unnamed = || format!("(type {})", heap.type_info(kind).map(|info| info.address).unwrap_or_default());
            let name = if room > 0 { heap.type_name(kind) } else { unnamed() };
            room = room.saturating_sub(name.len());
            // dotnet-gcdump's report shows this size for the type, so use that of a real object.
            let size = i32::try_from(first_size).unwrap_or(i32::MAX);
            write_type(stream, &name, size, heap.type_module(kind).as_deref())?;
            if let Some(of) = numbered.types.get_mut(kind.0 as usize) {
                *of = FileType { number, size };
            }
            number += 1;
        }
    }
    Ok(count as u64)
}

fn write_type(stream: &mut Stream<'_>, name: &str, size: i32, module: Option<&str>) -> io::Result<()> {
    stream.text(Some(name))?;
    stream.i32(size)?;
    stream.text(module)
}

/// Writes the nodes, and the table of their offsets, which precedes them.
struct Graph<'o> {
    stream: Stream<'o>,
    /// File offset of the next entry of the table.
    starts_at: u64,
    nodes_at: u64,
    /// Bytes of nodes written so far.
    bytes: u64,
}

impl Graph<'_> {
    fn write(&mut self, heaps: &[NumberedHeap<'_>], tree: &Tree, progress: &Progress) -> Result<Sums, ExportError> {
        let before = tree.nodes.len() as u32;
        // At 0 is the node for no object, with type 0 and no children.
        let mut piece = NodeBatch { bytes: vec![0, 0], ..NodeBatch::default() };
        for (number, node) in (0..).zip(&tree.nodes) {
            piece.starts.push(piece.bytes.len() as u32);
            let children = node.children.iter().map(|child| match child {
                Child::Node(node) => *node,
                Child::Object(object) => before + object,
            });
            put_node(&mut piece.bytes, FileType { number: number as i32 + 1, size: 0 }, 0, number, children);
        }
        self.put(&piece)?;
        progress.start(heaps.iter().map(|heap| heap.objects.total.size).fold(0, u64::saturating_add));
        let mut sums = Sums::default();
        for heap in heaps {
            for first in (0..heap.objects.pages()).step_by(PAGES_AT_ONCE) {
                let pages = first..heap.objects.pages().min(first + PAGES_AT_ONCE);
                let most = MAX_NODE_BYTES.saturating_sub(self.bytes) as usize;
                let pieces = pages.into_par_iter().map(|page| of_page(heap, page, before, most));
                for piece in pieces.collect::<Vec<NodeBatch>>() {
                    self.put(&piece)?;
                    sums = sums.plus(piece.sums);
                    progress.add(piece.sums.size);
                }
            }
        }
        Ok(sums)
    }

    fn put(&mut self, piece: &NodeBatch) -> Result<(), ExportError> {
        let from = self.bytes;
        self.bytes += piece.bytes.len() as u64;
        if self.bytes > MAX_NODE_BYTES {
            return Err(too_many("2 GiB of nodes and references"));
        }
        self.stream.seek(self.nodes_at + from)?;
        self.stream.bytes(&piece.bytes)?;
        self.stream.seek(self.starts_at)?;
        for start in &piece.starts {
            self.stream.u32(from as u32 + start)?;
        }
        self.starts_at = self.stream.at();
        Ok(())
    }
}

/// Writes the address of each node's object. Nodes of the tree of roots have address 0.
fn write_addresses(stream: &mut Stream<'_>, heaps: &[NumberedHeap<'_>], count: i32, before: u32) -> io::Result<()> {
    stream.i32(count)?;
    for _ in 0..before {
        stream.u64(0)?;
    }
    for objects in heaps.iter().map(|heap| &heap.objects) {
        for addr in (0..objects.pages()).flat_map(|page| objects.page(page).1) {
            stream.u64(addr.get())?;
        }
    }
    // Addresses are 64 bits wide.
    stream.u8(tag::BYTE)?;
    stream.u8(1)?;
    stream.end()
}

/// Writes what follows the graph.
fn write_rest(stream: &mut Stream<'_>, about: &About, segments: &[segments::Segment]) -> Result<(), ExportError> {
    stream.u8(1)?;
    // Sampling rates of counts and sizes: 1, because nothing was sampled.
    stream.f32(1.0)?;
    stream.f32(1.0)?;
    // No JavaScript.
    stream.u8(tag::NULL)?;
    if segments.is_empty() {
        stream.u8(tag::NULL)?;
    } else {
        segments::write(stream, segments)?;
    }
    stream.text(Some(&about.log))?;
    // Time in .NET ticks. 0 is unknown.
    stream.i64(0)?;
    stream.text(None)?;
    stream.text(about.process.as_deref())?;
    stream.i32(about.pid.and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0))?;
    // Committed memory and working set of the process: unknown.
    stream.i64(0)?;
    stream.i64(0)?;
    // Counts by type are used for sampling only.
    stream.i32(0)?;
    // No COM data.
    stream.nothing_to_skip()?;
    stream.u8(tag::TEXT)?;
    stream.text(Some(&about.tool))?;
    Ok(stream.end()?)
}
