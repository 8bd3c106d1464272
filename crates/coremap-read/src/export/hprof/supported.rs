//! Selects the heaps that the format supports. Their runtimes must provide the names of fields.

use crate::export::hprof::{Source, Written, write};
use crate::export::{ExportError, Output};
use crate::facts::ThreadRow;
use crate::process::Process;
use crate::progress::Progress;
use crate::runtimes::api::fields::Fields;
use crate::runtimes::api::{Heap, ManagedRuntime, Root, RuntimeId};
use crate::session::Session;

/// A heap that the format supports.
pub struct SupportedHeap<'s> {
    /// Id of its runtime.
    pub id: RuntimeId,
    /// The runtime.
    pub runtime: &'s dyn ManagedRuntime,
    /// Heap with the objects.
    pub heap: &'s dyn Heap,
    fields: &'s dyn Fields,
}

/// Returns the heaps that the format supports. Java's come first, because the format is Java's.
pub fn heaps<'s>(session: &'s Session<'_>) -> Vec<SupportedHeap<'s>> {
    let all = session.runtimes_by_id().into_iter().filter_map(|(id, runtime)| {
        let fields = runtime.fields()?;
        Some(SupportedHeap { id, runtime, heap: runtime.heap()?, fields })
    });
    let mut all: Vec<SupportedHeap<'s>> = all.filter(|supported| !supported.heap.ranges().is_empty()).collect();
    all.sort_by_key(SupportedHeap::is_foreign);
    all
}

impl SupportedHeap<'_> {
    /// Whether it is described in the terms of another runtime.
    pub fn is_foreign(&self) -> bool {
        self.fields.is_foreign()
    }

    /// Writes the heap. `rows` are the threads of the process with their frames.
    ///
    /// # Errors
    /// Fails if the heap has more objects than can be numbered, or none, or the file can't be
    /// written.
    pub fn write(
        &self,
        process: &Process,
        mut roots: Vec<Root>,
        rows: &[ThreadRow],
        out: &mut dyn Output,
        progress: &Progress,
    ) -> Result<Written, ExportError> {
        let threads = self.fields.threads(rows, &roots);
        roots.extend(self.fields.more_roots());
        let references = self.fields.references();
        let source = Source {
            heap: self.heap,
            memory: &process.memory,
            reference: references.size,
            length_at: references.length_at,
            decode: &*references.decode,
            roots: &roots,
            threads: &threads,
        };
        write(&source, &|present| self.fields.classes(present), out, progress)
    }
}
