//! A target of a few pages made by hand: no ELF, no file, no core. The answers need none of these.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use coremap::addr::{Addr, AddrRange};
use coremap::commands;
use coremap::internals;
use coremap::map::audit;
use coremap::memory::{FaultKind, Memory};
use coremap::process::Process;
use coremap::progress::Progress;
use coremap::range_map::RangeMap;
use coremap::search::{Pattern, PatternOptions, search};
use coremap::session::Session;
use coremap::targets::{
    AddressSpace, Arch, Extents, Facts, FileMapping, Mapping, Perms, Piece, PieceState, Reads, Registers, Target,
    Thread,
};

const PAGE: u64 = 4096;
const HEAP: Addr = Addr::new(0x10_0000);
const STACK: Addr = Addr::new(0x7000_0000);

/// Its bytes lie in one row, and a place is an index into it.
struct Toy {
    facts: Facts,
    reads: Reads,
    extents: Extents,
    bytes: Vec<u8>,
    /// Whether single reads get slices, as from a mapped file, or copies, as from a process
    /// that runs.
    has_slices: bool,
}

impl Target for Toy {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn reads(&self) -> &Reads {
        &self.reads
    }

    fn slice(&self, place: Range<u64>) -> Option<&[u8]> {
        self.cached_slice(place).filter(|_| self.has_slices)
    }

    fn cached_slice(&self, place: Range<u64>) -> Option<&[u8]> {
        self.bytes.get(place.start as usize..place.end as usize)
    }

    fn copy(&self, place: u64, out: &mut [u8]) -> io::Result<usize> {
        // A short one: who copies has to go on.
        let len = out.len().min(5);
        let bytes = self.cached_slice(place..place + len as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
        out[..len].copy_from_slice(bytes);
        Ok(len)
    }

    fn extents(&self) -> &Extents {
        &self.extents
    }
}

/// Four pages of heap of which the last was not dumped, a stack, and a file of which nothing
/// was dumped.
fn toy(has_slices: bool) -> Option<Toy> {
    let pages = |at: Addr, count: u64| AddrRange::sized(at, count * PAGE);
    let read_write = Perms { read: true, write: true, exec: false };
    let map = |range: AddrRange| Mapping { range, perms: read_write, whole: range.start };
    let mut bytes = vec![0; 5 * PAGE as usize];
    bytes[100..105].copy_from_slice(b"hello");
    bytes[2 * PAGE as usize - 2..][..5].copy_from_slice(b"world");
    let pieces = vec![
        Piece { range: pages(HEAP, 3), mapping: 0, state: PieceState::Dumped(0) },
        Piece { range: pages(HEAP.saturating_add(3 * PAGE), 1), mapping: 0, state: PieceState::NotDumped },
        Piece { range: pages(STACK, 2), mapping: 1, state: PieceState::Dumped(3 * PAGE) },
    ];
    let mappings = vec![map(pages(HEAP, 4)), map(pages(STACK, 2))];
    let files = vec![FileMapping { range: pages(Addr::new(0x40_0000), 2), offset: 0, path: "/opt/data.bin".into() }];
    let space = AddressSpace::new(mappings, RangeMap::from_sorted(pieces)?).with_files(files);
    let mut values = vec![0; Registers::count(Arch::X86_64)];
    let sp = Registers::new(Arch::X86_64, (0..).take(values.len()).collect())?.sp().get() as usize;
    *values.get_mut(sp)? = STACK.saturating_add(PAGE).get();
    let registers = Registers::new(Arch::X86_64, values)?;
    let thread_pointer = registers.thread_pointer();
    let thread = Thread { tid: 7, signal: 0, thread_pointer, registers, cpu: None, call: None };
    let facts = Facts { threads: vec![thread], ..Facts::new("toy", Arch::X86_64, space) };
    Some(Toy { facts, reads: Reads::default(), extents: Extents::dense(5 * PAGE), bytes, has_slices })
}

#[test]
fn what_is_no_core_file_gets_the_same_answers() -> Result<(), Box<dyn std::error::Error>> {
    for has_slices in [true, false] {
        let process = Process::of(Arc::new(toy(has_slices).ok_or("registers")?));
        assert!(internals::core(&process).is_none());
        let session = Session::new(&process);
        let report = commands::summary(&session, true, &Progress::silent());
        // Four pages of heap, two of stack, two of the file; five of them are there.
        assert_eq!((report.total.size, report.base.size), (8 * PAGE, 8 * PAGE));
        assert_eq!(report.total.in_core, 5 * PAGE);
        assert_eq!(report.total.zero, Some(2 * PAGE), "text lies over a border of pages");
        assert!(audit::invariants(session.map(), process.facts()).iter().all(|i| i.ok));
        let stack = session.map().region_at(STACK.saturating_add(PAGE)).ok_or("no stack")?;
        assert_eq!(stack.kind, coremap::map::Kind::Stack);

        let (mut text, at) = ([0; 5], HEAP.saturating_add(2 * PAGE - 2));
        process.memory.read(at, &mut text)?;
        assert_eq!(&text, b"world");
        let behind = HEAP.saturating_add(3 * PAGE);
        let fault = process.memory.read(behind.saturating_sub(2), &mut text).err().ok_or("read")?;
        assert_eq!((fault.addr, fault.kind), (behind, FaultKind::NotDumped));
        let pattern = Pattern::new("world", PatternOptions::default())?;
        let hits = search(process.target(), &pattern, None, None, &Progress::silent()).hits;
        assert_eq!(hits.iter().map(|hit| hit.address).collect::<Vec<_>>(), [at]);
        let envelope = commands::envelope("summary", &session, report);
        assert_eq!((envelope.core.path.as_str(), envelope.core.threads), ("toy", 1));
    }
    Ok(())
}
