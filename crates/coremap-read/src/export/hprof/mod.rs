//! `.hprof`: a managed heap with its contents, as `jmap -dump` writes it and VisualVM, Eclipse MAT and others open it.
//!
//! Format 1.0.2 with 8-byte ids and big-endian numbers: openjdk/jdk, src/hotspot/share/services/heapDumper.cpp. An
//! object's id is its address. The file has only the sizes of instances, in their classes. Each tool computes the size
//! of an array itself, most with 8-byte references.
//!
//! | file | contents |
//! |---|---|
//! | `records` | encodes records, sub-records and names |
//! | `objects` | writes objects, page by page |
//! | `supported` | selects the heaps that the format supports |
//!
//! Classes, fields and threads come from the runtimes ([`Fields`](crate::runtimes::api::fields::Fields)).

mod objects;
mod records;
mod supported;

pub use supported::heaps;

use std::collections::{HashMap, HashSet};
use std::io::{BufWriter, Write};

use rayon::prelude::*;

use crate::addr::Addr;
use crate::export::objects::Objects;
use crate::export::{ExportError, Output};
use crate::memory::ProcessMemory;
use crate::progress::Progress;
use crate::runtimes::api::fields::{Classes, FIRST_SYNTHETIC_ID, Frame, Thread};
use crate::runtimes::api::{FREE, Heap, Root, RootKind, Tally, TypeIndex, UnwalkedRanges};
use objects::{Sums, of_page, write_large};
use records::{Names, put_class, put_loaded, put_root, put_sticky, put_thread, put_traces, record, segment};

/// Number of object pages that are made at once: enough for all threads.
const PAGES_AT_ONCE: usize = 8;

const BUFFER: usize = 1 << 20;

/// Number of ids reserved for classes in the heap that the runtime does not list. The ids of classes in frames follow.
const MADE_UP_CLASSES: u64 = 0x100;

/// Approximate size in bytes of a segment of classes or roots.
const SEGMENT: usize = 64 << 20;

/// A heap to export.
pub struct Source<'s> {
    /// Heap with the objects.
    pub heap: &'s dyn Heap,
    /// Memory that contains them.
    pub memory: &'s ProcessMemory,
    /// Size of a reference in an object, in bytes.
    pub reference: u64,
    /// Offset of an array's 32-bit length from its start, in bytes.
    pub length_at: u64,
    /// Converts a stored reference to an address.
    pub decode: &'s (dyn Fn(u64) -> u64 + Sync),
    /// Roots of the objects.
    pub roots: &'s [Root],
    /// Threads, in order.
    pub threads: &'s [Thread],
}

/// Counts and sizes of a written file.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Number of classes.
    pub classes: u64,
    /// Number and size of objects with fields.
    pub instances: Tally,
    /// Number and size of objects that represent classes. They are written as those classes.
    pub mirrors: Tally,
    /// Number and size of arrays of references.
    pub object_arrays: Tally,
    /// Number and size of arrays of values.
    pub value_arrays: Tally,
    /// Number of character arrays made from strings. Their bytes count as the strings'.
    pub texts: u64,
    /// Number of references between objects.
    pub references: u64,
    /// Number of roots.
    pub roots: u64,
    /// Number of threads, which are written with their frames.
    pub threads: u64,
    /// Number of elements cut off arrays, because a segment has at most 4 GiB.
    pub cut: u64,
    /// Number of objects whose bytes are not all in the core. Zeros replace missing bytes.
    pub lost: u64,
    /// Number of objects that are left out because their class is unknown.
    pub unknown: u64,
    /// Parts of the heap that could not be walked.
    pub losses: UnwalkedRanges,
}

/// A heap with its objects and classes numbered.
struct Dump<'s> {
    source: &'s Source<'s>,
    objects: Objects<'s>,
    classes: &'s Classes,
    /// Index into the classes, by type number.
    by_kind: Vec<Option<u32>>,
    /// Ids of classes. Objects at these addresses are written as classes.
    mirrors: HashSet<u64>,
}

/// Writes `source`. `classes` returns the classes, including those of the types at the given addresses.
///
/// # Errors
/// Fails if the heap has more objects than can be numbered, or none, or the file can't be written.
pub fn write(
    source: &Source<'_>,
    classes: &dyn Fn(&[Addr]) -> Classes,
    out: &mut dyn Output,
    progress: &Progress,
) -> Result<Written, ExportError> {
    let too_many =
        || ExportError::Unfit("the heap is too large for HPROF: it has more than 4,294,967,295 objects".into());
    let objects = Objects::of(source.heap, progress).ok_or_else(too_many)?;
    if objects.len() == 0 {
        return Err(ExportError::Unfit("the core has no managed heap object; no file was written".into()));
    }
    let present = (0..).zip(&objects.kinds).filter(|(kind, of)| *kind != FREE.0 && of.tally.count > 0);
    let present: Vec<(u32, Addr)> =
        present.filter_map(|(kind, _)| Some((kind, source.heap.type_info(TypeIndex(kind))?.address))).collect();
    // Type numbers depend on thread timing. Sorted, so that the file is always the same.
    let mut places: Vec<Addr> = present.iter().map(|(_, at)| *at).collect();
    places.sort_unstable();
    let classes = classes(&places);
    let mut by_kind = vec![None; objects.kinds.len()];
    for (kind, at) in present {
        if let Some(place) = by_kind.get_mut(kind as usize) {
            *place = classes.by_address.get(&at).copied();
        }
    }
    let mirrors = classes.all.iter().map(|class| class.id).collect();
    let dump = Dump { source, objects, classes: &classes, by_kind, mirrors };
    let mut out = BufWriter::with_capacity(BUFFER, out);
    out.write_all(b"JAVA PROFILE 1.0.2\0")?;
    out.write_all(&8_u32.to_be_bytes())?;
    // Time of the dump: a core does not have it.
    out.write_all(&0_u64.to_be_bytes())?;
    let mut written = Written { classes: classes.all.len() as u64, ..Written::default() };
    dump.names_and_frames(&mut out, &mut written)?;
    dump.roots(&mut out, &mut written)?;
    dump.objects(&mut out, &mut written, progress)?;
    record(&mut out, records::tag::END, &[])?;
    out.flush()?;
    written.losses = dump.objects.losses;
    Ok(written)
}

impl Dump<'_> {
    /// Writes names, classes, and stack traces of threads.
    fn names_and_frames(&self, out: &mut dyn Write, written: &mut Written) -> Result<(), ExportError> {
        let mut names = Names::default();
        let mut loaded = Vec::new();
        for (serial, class) in (1..).zip(&self.classes.all) {
            put_loaded(&mut loaded, serial, class.id, names.id(&class.name))?;
        }
        let (mut piece, mut dumps) = (Vec::new(), Vec::new());
        for class in &self.classes.all {
            put_class(&mut piece, class, &mut names);
            if piece.len() > SEGMENT {
                segment(&mut dumps, &piece)?;
                piece.clear();
            }
        }
        segment(&mut dumps, &piece)?;
        let known = self.classes.all.len() as u32;
        let mut named: HashMap<String, u32> = HashMap::new();
        let mut serial = |frame: &Frame| {
            if let Some(place) = frame.class.and_then(|at| self.classes.by_address.get(&at)) {
                return place + 1;
            }
            let next = known + named.len() as u32 + 1;
            // A viewer looks up the class name of every frame, even of one without a class.
            let name = if frame.class_name.is_empty() { "(no class)" } else { frame.class_name.as_str() };
            *named.entry(name.to_owned()).or_insert(next)
        };
        let mut traces = Vec::new();
        put_traces(&mut traces, self.source.threads, &mut serial, &mut names)?;
        let mut named: Vec<(u32, String)> = named.into_iter().map(|(name, serial)| (serial, name)).collect();
        named.sort_unstable();
        for (id, (serial, name)) in (FIRST_SYNTHETIC_ID + MADE_UP_CLASSES..).zip(named) {
            put_loaded(&mut loaded, serial, id, names.id(&name))?;
        }
        names.write(out)?;
        for part in [loaded, traces, dumps] {
            out.write_all(&part)?;
        }
        written.threads = self.source.threads.len() as u64;
        Ok(())
    }

    fn roots(&self, out: &mut dyn Write, written: &mut Written) -> Result<(), ExportError> {
        let is_object = |at: Addr| self.objects.number(at.get()).is_some();
        let mut piece = Vec::new();
        let mut of_threads: HashSet<Addr> = HashSet::new();
        for (serial, thread) in (1_u32..).zip(self.source.threads) {
            if let Some(object) = thread.object.filter(|at| is_object(*at)) {
                put_thread(&mut piece, object, serial);
                of_threads.insert(object);
                written.roots += 1;
            }
        }
        let serials = (1_u32..).zip(self.source.threads).filter_map(|(serial, thread)| Some((thread.tid?, serial)));
        let serials: HashMap<u32, u32> = serials.collect();
        for root in self.source.roots.iter().filter(|root| is_object(root.object)) {
            if root.kind.name() == records::THREAD_OBJECT && of_threads.contains(&root.object) {
                continue;
            }
            let serial = root.thread.and_then(|tid| serials.get(&tid)).copied();
            let place = serial.and_then(|serial| {
                let frame = self.source.threads.get(serial as usize - 1)?.frame_at(root.address);
                Some((serial, frame.map_or(records::NO_FRAME, |frame| frame as i32)))
            });
            put_root(&mut piece, root, place);
            written.roots += 1;
            if piece.len() > SEGMENT {
                segment(out, &piece)?;
                piece.clear();
            }
        }
        for class in self.classes.all.iter().filter(|class| class.is_root) {
            put_sticky(&mut piece, class.id);
            written.roots += 1;
        }
        let frozen = self.source.heap.ranges().iter().filter(|part| part.generation.frozen);
        for (_, at) in frozen.flat_map(|part| self.objects.within(part.range)) {
            put_root(&mut piece, &Root::new(RootKind::Frozen, at, at), None);
            written.roots += 1;
            if piece.len() > SEGMENT {
                segment(out, &piece)?;
                piece.clear();
            }
        }
        segment(out, &piece)
    }

    fn objects(&self, out: &mut dyn Write, written: &mut Written, progress: &Progress) -> Result<(), ExportError> {
        progress.start(self.objects.total.size);
        let mut sums = Sums::default();
        for first in (0..self.objects.pages()).step_by(PAGES_AT_ONCE) {
            let pages = first..self.objects.pages().min(first + PAGES_AT_ONCE);
            let pieces: Vec<_> = pages.into_par_iter().map(|page| (page, of_page(self, page, 0))).collect();
            for (page, piece) in pieces {
                let mut piece = piece?;
                loop {
                    segment(out, &piece.bytes)?;
                    sums = sums.plus(piece.sums);
                    progress.add(piece.sums.bytes());
                    for large in &piece.large {
                        write_large(self, large, out, &mut sums)?;
                    }
                    // Objects that did not fit into the last piece of the page.
                    let Some(next) = piece.next else { break };
                    piece = of_page(self, page, next)?;
                }
            }
        }
        written.instances = sums.instances;
        written.mirrors = sums.mirrors;
        written.object_arrays = sums.object_arrays;
        written.value_arrays = sums.value_arrays;
        written.texts = sums.texts;
        written.references = sums.references;
        (written.cut, written.lost, written.unknown) = (sums.cut, sums.lost, sums.unknown);
        Ok(())
    }
}
