//! How fast a managed heap is walked: objects counted by type, on one thread
//! and on all, strings counted by content, the path from a root to the far end
//! of a list searched for, and the dominators of all objects.
//!
//! The heap is made: nodes of 32 bytes in 1,024 linked lists, and to each 20 of
//! them a string and a free gap, in segments of 256 MiB that are hung into the
//! segment list of a small real process of .NET 3.1. An array that one of its
//! strong handles leads to has the lists' heads. `COREMAP_BENCH_NODES` is
//! the number of nodes: 60000000 makes a core of 2.7 GB, and 2000000 are made
//! where it is not set.

mod common;

use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::{FREE, Fallible, PAGE, Scratch};
use coremap::addr::Addr;
use coremap::core::{Core, PieceState};
use coremap::dotnet::graph::{Graph, References, Retained, Search, Shapes, Tree, roots};
use coremap::dotnet::heap::{FREE as FREE_TYPE, Heap, Selection};
use coremap::dotnet::{Generation, HandleKind, TypeSystem, handles};
use coremap::introspect::{Findings, introspect};
use coremap::layout::StructView;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use divan::Bencher;
use divan::counter::ItemsCount;

const SAMPLE: &str = "dotnet31-createdump.core.zst";

/// Nodes where the environment does not say, and in a mere test run.
const NODES: u64 = 2_000_000;
const FEW_NODES: u64 = 20_000;

const LISTS: usize = 1024;
const NODE: u64 = 32;

/// Nodes to one string and one gap.
const GROUP: u64 = 20;

/// Different strings.
const STRINGS: u64 = 100_000;

/// Bytes of one segment (3.1's on 64 bits), and of the struct that describes it.
const SEGMENT: u64 = 256 << 20;
const STRUCT: u64 = 128;

/// Rounds of which the best counts.
const ROUNDS: usize = 5;

/// The same for what takes many seconds.
const ROUNDS_OF_LONG: usize = 2;

/// What is made.
struct Made {
    core: Scratch,
    nodes: u64,
    objects: u64,
    /// The node at the far end of the first list.
    last: Addr,
}

static MADE: OnceLock<Made> = OnceLock::new();

fn open(path: &std::path::Path) -> Fallible<(Process, Findings)> {
    let process = Process::open(path, &Options::default(), &Progress::silent())?;
    let found = introspect(&process);
    Ok((process, found))
}

/// MethodTables of the real process, and where its list of segments ends.
struct Real {
    node: u64,
    string: u64,
    free: u64,
    array: u64,
    last_next: Addr,
    strong: Addr,
}

fn look(process: &Process, found: &Findings) -> Fallible<Real> {
    let (runtime, heaps) = found.runtimes.first().ok_or("no runtime")?;
    let types = TypeSystem::new(process, runtime);
    let heap = Heap::open(&types, heaps);
    let stat = heap.stat(&Selection::default(), &Progress::silent());
    let find = |what, pick: &dyn Fn(&coremap::dotnet::heap::MethodTableInfo) -> bool| {
        stat.types.iter().map(|t| t.info).find(|i| pick(i)).map(|i| i.address.0).ok_or(what)
    };
    let last = heaps.segments.iter().filter(|s| matches!(s.generation, Generation::Gen2 | Generation::Ephemeral));
    let last = last.max_by_key(|s| s.start).ok_or("no segment")?;
    let view = StructView::new(&process.memory, &runtime.layout, "dac_heap_segment", last.address);
    if view.ptr("next")?.0 != 0 {
        return Err("the list of segments goes on".into());
    }
    // A node holds the next in its first field.
    let holds = |i: &coremap::dotnet::heap::MethodTableInfo| {
        let mut first = false;
        if let Some(references) =
            types.contains_references(i.address).then(|| References::read(&process.memory, i.address))
        {
            references.unwrap_or_default().visit(&[[1; 8]; 4], NODE, &mut |offset, _| {
                first |= offset == 8;
                true
            });
        }
        first
    };
    let (handles, _) = handles(process, runtime);
    let strong = handles.iter().find(|h| h.kind == HandleKind::Strong).ok_or("no strong handle")?;
    Ok(Real {
        node: find("no type of 32 bytes", &|i| u64::from(i.base_size) == NODE && !i.counted() && holds(i))?,
        array: find("no array of objects", &|i| {
            (i.base_size, i.component_size) == (24, 8) && types.contains_references(i.address)
        })?,
        strong: strong.address,
        string: find("no strings", &|i| i.string)?,
        free: find("no free space", &|i| i.free)?,
        last_next: view.addr_of("next")?,
    })
}

/// Words of the heap, as they come.
struct Writer<W> {
    out: W,
    at: u64,
    seed: u64,
    objects: u64,
}

impl<W: Write> Writer<W> {
    fn words(&mut self, words: &[u64]) -> Fallible {
        for word in words {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.at += 8 * words.len() as u64;
        Ok(())
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    /// A group of nodes, a string, a gap.
    fn group(&mut self, real: &Real, nodes: u64, lists: &mut [u64; LISTS]) -> Fallible {
        for i in 0..nodes {
            let here = self.at;
            let list = (self.objects + i) as usize % LISTS;
            self.words(&[real.node, lists[list], i, 0])?;
            lists[list] = here;
        }
        let number = self.random(STRINGS);
        let text: Vec<u8> = format!("value-{number}-{:>width$}", "x", width = 1 + (number % 30) as usize)
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let mut string = ((text.len() / 2) as u32).to_le_bytes().to_vec();
        string.extend(text);
        string.extend([0, 0]);
        // Up to where the next object may begin, but for its own sync block.
        string.resize((string.len() + 8).next_multiple_of(8) - 8 + 8, 0);
        let size = (22 + (string_len(&string)) * 2).max(24).next_multiple_of(8);
        string.resize(size as usize - 8, 0);
        self.words(&[real.string])?;
        self.out.write_all(&string)?;
        self.at += string.len() as u64;
        let extra = 8 * self.random(12);
        self.words(&[real.free, extra, 0])?;
        for _ in 0..extra / 8 {
            self.words(&[0])?;
        }
        self.objects += nodes + 2;
        Ok(())
    }
}

fn string_len(bytes: &[u8]) -> u64 {
    bytes.first_chunk::<4>().map_or(0, |b| u64::from(u32::from_le_bytes(*b)))
}

fn make(nodes: u64) -> Fallible<Made> {
    let sample = common::sample(SAMPLE)?;
    let whole = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cores").join(SAMPLE);
    let (process, found) = open(&whole)?;
    let real = look(&process, &found)?;
    let layout = &found.runtimes.first().ok_or("no runtime")?.0.layout;
    // A group is at most this large.
    let most = GROUP * NODE + 128 + 24 + 96;
    let room = (8 * LISTS as u64 + 24).next_multiple_of(PAGE);
    let groups = nodes.div_ceil(GROUP);
    let a_segment = SEGMENT / most;
    let count = groups.div_ceil(a_segment);
    let structs = (count * STRUCT).next_multiple_of(PAGE);
    let start = |i: u64| FREE + (1 << 32) + i * 2 * SEGMENT;
    let mut loads = vec![(FREE, structs)];
    loads.extend((0..count).map(|i| {
        (start(i), (SEGMENT.min((groups - i * a_segment).min(a_segment) * most) + room).next_multiple_of(PAGE))
    }));
    let mut ends = Vec::new();
    let (mut objects, mut array) = (0, 0);
    let core = common::extended(&sample, &loads, |file| {
        let mut offset = file.metadata()?.len() + structs;
        let mut lists = [0; LISTS];
        for (i, &(addr, len)) in (0..count).zip(loads.iter().skip(1)) {
            file.seek(SeekFrom::Start(offset))?;
            let mut out = Writer {
                out: BufWriter::with_capacity(1 << 20, &mut *file),
                at: addr,
                seed: 88172645463325252 + i,
                objects: 0,
            };
            for g in i * a_segment..((i + 1) * a_segment).min(groups) {
                out.group(&real, GROUP.min(nodes - g * GROUP), &mut lists)?;
            }
            if i + 1 == count {
                array = out.at;
                out.words(&[real.array, LISTS as u64])?;
                out.words(&lists)?;
                out.words(&[0])?;
                out.objects += 1;
            }
            out.out.flush()?;
            ends.push(out.at);
            objects += out.objects;
            offset += len;
        }
        Ok(())
    })?;
    // The structs, chained, and the last real one leads to the first of them.
    let base = (sample.bytes().len() as u64).next_multiple_of(PAGE);
    for (i, &end) in (0..count).zip(&ends) {
        let (at, next) = (base + i * STRUCT, if i + 1 < count { FREE + (i + 1) * STRUCT } else { 0 });
        for (field, value) in
            [("mem", start(i)), ("allocated", end), ("committed", end), ("reserved", end), ("next", next)]
        {
            core.patch(at + layout.positive("dac_heap_segment", field)?, &value.to_le_bytes())?;
        }
    }
    core.patch(offset_of(&sample, real.last_next)?, &FREE.to_le_bytes())?;
    core.patch(offset_of(&sample, real.strong)?, &array.to_le_bytes())?;
    Ok(Made { core, nodes, objects, last: Addr(start(0)) })
}

fn offset_of(core: &Core, addr: Addr) -> Fallible<u64> {
    let piece = core.pieces.at(addr).ok_or("not mapped")?;
    match piece.state {
        PieceState::Dumped(offset) => Ok(offset + addr.since(piece.range.start)),
        _ => Err("not dumped".into()),
    }
}

/// Time, objects and strings of one walk over everything.
fn walk(strings: bool) -> Fallible<(Duration, u64)> {
    let made = MADE.get().ok_or("nothing made")?;
    let (process, found) = open(&made.core.path())?;
    let (runtime, heaps) = found.runtimes.first().ok_or("no runtime")?;
    let types = TypeSystem::new(&process, runtime);
    let heap = Heap::open(&types, heaps);
    process.core.expect_scan();
    let begun = Instant::now();
    let silent = Progress::silent();
    let count = if strings {
        heap.stat(&Selection::default(), &silent);
        heap.strings(&Selection::default(), 1, &silent).total.count
    } else {
        let stat = heap.stat(&Selection::default(), &silent);
        let nodes = stat.types.iter().filter(|t| u64::from(t.info.base_size) == NODE && !t.info.counted());
        let most = nodes.map(|t| t.total.count).max().unwrap_or(0);
        if stat.losses.count > 0 || most < made.nodes || heap.kind(FREE_TYPE).is_none() {
            return Err(format!("{most} of {} nodes, {} bytes lost", made.nodes, stat.losses.bytes).into());
        }
        stat.types.iter().map(|t| t.total.count).sum()
    };
    Ok((begun.elapsed(), count))
}

/// Time of a search for a path to the far end of a list, and objects looked at.
fn search() -> Fallible<(Duration, u64)> {
    let made = MADE.get().ok_or("nothing made")?;
    let (process, found) = open(&made.core.path())?;
    let begun = Instant::now();
    let (runtime, heaps) = found.runtimes.first().ok_or("no runtime")?;
    let types = TypeSystem::new(&process, runtime);
    let heap = Heap::open(&types, heaps);
    let (handles, _) = handles(&process, runtime);
    let graph = Graph::new(&types, &heap, &handles);
    let (roots, _) = roots(&graph, heaps, &handles);
    let found = Search::new(&graph, made.last).run(&roots, 1);
    let longest = found.paths.iter().map(|p| p.steps.len() as u64).max().unwrap_or(0);
    if longest < made.nodes / LISTS as u64 {
        return Err(format!("a path of {longest} objects").into());
    }
    Ok((begun.elapsed(), found.objects))
}

/// Time to find what every object keeps, and with it the shapes of all paths; live
/// objects.
fn retained(paths: bool) -> Fallible<(Duration, u64)> {
    let made = MADE.get().ok_or("nothing made")?;
    let (process, found) = open(&made.core.path())?;
    let begun = Instant::now();
    let (runtime, heaps) = found.runtimes.first().ok_or("no runtime")?;
    let types = TypeSystem::new(&process, runtime);
    let heap = Heap::open(&types, heaps);
    let (handles, _) = handles(&process, runtime);
    let graph = Graph::new(&types, &heap, &handles);
    let (roots, _) = roots(&graph, heaps, &handles);
    let found = Retained::find(&graph, &roots)?;
    let nodes = found.types(0).iter().map(|t| t.own.count).max().unwrap_or(0);
    if nodes < made.nodes {
        return Err(format!("{nodes} of {} nodes live", made.nodes).into());
    }
    if paths {
        let statics = Default::default();
        let mut shapes = Shapes::new(&found, &statics);
        let tree = Tree::shortest(&found.live, |number, parent, link| shapes.enter(number, parent, link));
        if tree.order().len() + 1 != found.live.len() {
            return Err("not all objects have a path".into());
        }
    }
    Ok((begun.elapsed(), found.total.count))
}

fn compare() -> Fallible {
    let made = MADE.get().ok_or("nothing made")?;
    let bytes = std::fs::metadata(made.core.path())?.len();
    println!("{} objects made, core of {bytes} bytes; best of {ROUNDS}", made.objects);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let all = rayon::current_num_threads();
    let mut lines: Vec<(String, bool, Option<&rayon::ThreadPool>)> =
        vec![("by type, 1 thread".into(), false, Some(&one))];
    lines.push((format!("by type, {all} threads"), false, None));
    lines.push((format!("strings too, {all} threads"), true, None));
    for (name, strings, pool) in lines {
        let mut best = (Duration::MAX, 0);
        for _ in 0..ROUNDS {
            let run = || walk(strings).map_err(|e| e.to_string());
            best = best.min(pool.map_or_else(run, |p| p.install(run))?);
        }
        let objects = made.objects as f64;
        println!(
            "  {name:<24} {:>8.1} ms {:>8.1} million objects/s",
            best.0.as_secs_f64() * 1e3,
            objects / best.0.as_secs_f64() / 1e6
        );
    }
    let mut best = (Duration::MAX, 0);
    for _ in 0..ROUNDS {
        best = best.min(search().map_err(|e| e.to_string())?);
    }
    println!(
        "  {:<24} {:>8.1} ms {:>8.1} million objects met",
        format!("gcroot, {all} threads"),
        best.0.as_secs_f64() * 1e3,
        best.1 as f64 / 1e6
    );
    for (name, paths) in [("retained", false), ("gcroot --type", true)] {
        let mut best = (Duration::MAX, 0);
        for _ in 0..ROUNDS_OF_LONG {
            best = best.min(retained(paths).map_err(|e| e.to_string())?);
        }
        println!(
            "  {:<24} {:>8.1} ms {:>8.1} million live objects",
            format!("{name}, {all} threads"),
            best.0.as_secs_f64() * 1e3,
            best.1 as f64 / 1e6
        );
    }
    Ok(())
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn by_type(bencher: Bencher<'_, '_>) {
    let objects = MADE.get().map_or(0, |m| m.objects);
    bencher.counter(ItemsCount::new(objects)).bench(|| walk(false).ok());
}

fn prepare() -> Fallible {
    let asked = std::env::var("COREMAP_BENCH_NODES").ok().map(|n| n.parse()).transpose()?;
    let nodes = if common::measuring() { asked.unwrap_or(NODES) } else { FEW_NODES };
    let made = make(nodes)?;
    MADE.get_or_init(|| made);
    if common::measuring() {
        compare()
    } else {
        walk(false).and_then(|_| search()).and_then(|_| retained(true)).map(|_| ())
    }
}

fn main() {
    if let Err(e) = prepare() {
        eprintln!("heap: {e}");
        std::process::exit(1);
    }
    divan::main();
}
