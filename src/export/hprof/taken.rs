//! Heaps that the format can take: those of HotSpot and CoreCLR, whose fields are known by name.

use crate::addr::{Addr, WORD};
use crate::dotnet::heap::Heap as OfDotnet;
use crate::dotnet::{CoreClr, Handle};
use crate::export::hprof::{Source, Thread, Written, dotnet, java, threads, write};
use crate::export::{ExportError, Output};
use crate::hotspot::HotSpot;
use crate::hotspot::heap::Heap as OfJava;
use crate::managed::{Heap, ManagedRuntime, Root, RootKind};
use crate::process::Process;
use crate::progress::Progress;
use crate::report::ThreadRow;
use crate::session::Session;

/// A heap that the format can take.
pub struct Taken<'s, 'p> {
    /// Number of its runtime among those of the session.
    pub number: usize,
    of: Of<'s, 'p>,
}

enum Of<'s, 'p> {
    Java(&'s HotSpot<'p>, &'s OfJava<'p>),
    Dotnet(&'s CoreClr<'p>, &'s OfDotnet<'p>),
}

/// The heaps that the format can take: Java's come first, as it is theirs.
pub fn heaps<'s, 'p>(session: &'s Session<'p>) -> Vec<Taken<'s, 'p>> {
    let dotnet = session.coreclr();
    let of_java = session.hotspot().iter().zip(dotnet.len()..);
    let of_java = of_java.filter_map(|(vm, number)| Some(Taken { number, of: Of::Java(vm, vm.objects()?) }));
    let of_dotnet = dotnet
        .iter()
        .enumerate()
        .filter_map(|(number, runtime)| Some(Taken { number, of: Of::Dotnet(runtime, runtime.heap_of_objects()?) }));
    of_java.chain(of_dotnet).filter(|taken| !taken.heap().parts().is_empty()).collect()
}

impl<'s> Taken<'s, '_> {
    /// Whose it is.
    pub fn runtime(&self) -> &'s dyn ManagedRuntime {
        match self.of {
            Of::Java(vm, _) => vm,
            Of::Dotnet(runtime, _) => runtime,
        }
    }

    /// Its objects.
    pub fn heap(&self) -> &'s dyn Heap {
        match self.of {
            Of::Java(_, heap) => heap,
            Of::Dotnet(_, heap) => heap,
        }
    }

    /// Whether it is told in the terms of another runtime.
    pub fn is_foreign(&self) -> bool {
        matches!(self.of, Of::Dotnet(..))
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
        let heap = self.heap();
        let memory = &process.memory;
        match self.of {
            Of::Java(vm, _) => {
                let threads: Vec<Thread> = rows.iter().map(|row| threads::of_java(vm, row, &roots)).collect();
                let encoding = &vm.classes().encoding;
                let narrow = |word: u64| encoding.narrow(word as u32).get();
                let wide = |word: u64| encoding.wide(word).get();
                let decode: &(dyn Fn(u64) -> u64 + Sync) = if encoding.narrow { &narrow } else { &wide };
                let (reference, length_at) = (encoding.unit(), encoding.length_at);
                let source = Source { heap, memory, reference, length_at, decode, roots: &roots, threads: &threads };
                write(&source, &|present: &[Addr]| java::classes(vm, present), out, progress)
            }
            Of::Dotnet(runtime, of_dotnet) => {
                let threads = threads::of_dotnet(process, runtime, rows);
                roots.extend(kept_beside(runtime));
                let decode = &|word: u64| word;
                let (reference, length_at) = (WORD, WORD);
                let source = Source { heap, memory, reference, length_at, decode, roots: &roots, threads: &threads };
                write(&source, &|present: &[Addr]| dotnet::classes(of_dotnet, present), out, progress)
            }
        }
    }
}

/// What dependent handles keep beside objects: the format has no way to say by which.
fn kept_beside(runtime: &CoreClr<'_>) -> Vec<Root> {
    let dependent = runtime.handles().iter().filter(|handle| !handle.object.is_null());
    let root =
        |handle: &Handle| Some(Root::new(RootKind::Of(u8::MAX, "DependentHandle"), handle.address, handle.secondary?));
    dependent.filter_map(root).collect()
}
