//! Heaps that the format can take: those of runtimes whose fields are known by name.

use crate::export::hprof::{Source, Written, write};
use crate::export::{ExportError, Output};
use crate::facts::ThreadRow;
use crate::process::Process;
use crate::progress::Progress;
use crate::runtimes::api::fields::Fields;
use crate::runtimes::api::{Heap, ManagedRuntime, Root, RuntimeId};
use crate::session::Session;

/// A heap that the format can take.
pub struct Taken<'s> {
    /// Its runtime.
    pub id: RuntimeId,
    /// The same.
    pub runtime: &'s dyn ManagedRuntime,
    /// Its objects.
    pub heap: &'s dyn Heap,
    fields: &'s dyn Fields,
}

/// The heaps that the format can take: Java's come first, as it is theirs.
pub fn heaps<'s>(session: &'s Session<'_>) -> Vec<Taken<'s>> {
    let all = session.runtimes_by_id().into_iter().filter_map(|(id, runtime)| {
        let fields = runtime.fields()?;
        Some(Taken { id, runtime, heap: runtime.heap()?, fields })
    });
    let mut all: Vec<Taken<'s>> = all.filter(|taken| !taken.heap.parts().is_empty()).collect();
    all.sort_by_key(Taken::is_foreign);
    all
}

impl Taken<'_> {
    /// Whether it is told in the terms of another runtime.
    pub fn is_foreign(&self) -> bool {
        self.fields.is_foreign()
    }

    /// Write it. `rows`: the threads of the process with their frames.
    ///
    /// # Errors
    /// Where the heap has more objects than can be numbered, or none, or the file can't be written.
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
