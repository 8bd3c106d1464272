//! How fast a managed heap is walked: objects counted by type, on one thread
//! and on all, strings counted by content, the path from a root to the far end
//! of a list searched for, and the dominators of all objects.
//!
//! The heap is made (`common/heap.rs`). `COREMAP_BENCH_NODES` is the number of
//! its nodes: 60000000 makes a core of 2.7 GB, and 2000000 are made where it is
//! not set. Other shapes by `COREMAP_BENCH_LISTS` (1,024; 1 is one list of all nodes, and
//! as many as nodes one array of all), `COREMAP_BENCH_GROUP` (nodes to one string and one free
//! gap: 20) and `COREMAP_BENCH_SEGMENT` (bytes of a segment: 268435456).
//!
//! `COREMAP_BENCH_SHAPE` is one of `common/shapes.rs` (chains, linked, hub, tree, parents, small, random, strings), with
//! `COREMAP_BENCH_STRINGS` more strings in an array; `COREMAP_BENCH_SHUFFLED=1` puts its objects in no order.
//! `COREMAP_BENCH_OUT=path` only writes the core, and keeps it.

mod common;

use std::fs::File;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::heap::{self, Form};
use common::shapes::{self, Shape, Shaped};
use common::{Fallible, PAGE, Scratch, machine, process as open};
use coremap::addr::Addr;
use coremap::internals;
use coremap::limits;
use coremap::progress::Progress;
use coremap::runtimes::api::{FREE as FREE_TYPE, Heap as _, Root, Selection, stat, strings as count_strings};
use coremap::runtimes::graph::{Graph, MemoryBudget, PathSearch, Retained, Shapes, ShortestPathTree};
use coremap::session::Session;
use divan::Bencher;
use divan::counter::ItemsCount;

const SAMPLE: &str = "dotnet31-createdump/core.zst";

/// Nodes where the environment does not say, and in a mere test run.
const NODES: u64 = 2_000_000;
const FEW_NODES: u64 = 20_000;

/// Rounds of which the best counts.
const ROUNDS: usize = 5;

/// The same for what takes many seconds.
const ROUNDS_OF_LONG: usize = 3;

/// What is made.
struct Made {
    core: Scratch,
    /// Nodes of the one type, and the least length of the way to the last of them.
    nodes: u64,
    way: u64,
    objects: u64,
    last: Addr,
}

static MADE: OnceLock<Made> = OnceLock::new();

fn make(file: File, form: Form) -> Fallible<Made> {
    let sample = common::sample(SAMPLE)?;
    let process = open(&common::sample_path(SAMPLE))?;
    let session = Session::new(&process);
    let mut heap = heap::Made::plan(&session, form)?;
    let loads = heap.loads.clone();
    let core = common::extended(file, &sample, &loads, &[], |file| heap.write(file))?;
    let layout = &internals::coreclr(&session).ok_or("no runtime")?.runtime().layout;
    heap.link(&core, &sample, layout, (sample.bytes().len() as u64).next_multiple_of(PAGE))?;
    let way = form.nodes / form.lists;
    Ok(Made { core, nodes: form.nodes, way, objects: heap.objects, last: heap.last() })
}

fn make_shaped(file: File, form: shapes::Form) -> Fallible<Made> {
    let sample = common::sample(SAMPLE)?;
    let process = open(&common::sample_path(SAMPLE))?;
    let session = Session::new(&process);
    let heap = Shaped::plan(&session, form)?;
    let core = common::extended(file, &sample, &heap.hung.loads, &[], |file| heap.write(file))?;
    let layout = &internals::coreclr(&session).ok_or("no runtime")?.runtime().layout;
    heap.hung.link(&core, &sample, layout, (sample.bytes().len() as u64).next_multiple_of(PAGE))?;
    let way = if form.shape == Shape::Chains { form.nodes / form.heads } else { 1 };
    let nodes = if form.shape == Shape::Strings { form.strings } else { form.nodes };
    Ok(Made { core, nodes, way, objects: heap.objects, last: Addr::new(heap.last()) })
}

/// Time, objects and strings of one walk over everything.
fn walk(strings: bool) -> Fallible<(Duration, u64)> {
    let made = MADE.get().ok_or("nothing made")?;
    let process = open(&made.core.path())?;
    let session = Session::new(&process);
    let heap = internals::coreclr(&session).ok_or("no runtime")?.object_heap_or_empty();
    process.target().expect_scan();
    let begun = Instant::now();
    let silent = Progress::silent();
    let count = if strings {
        stat(heap, &Selection::default(), &silent);
        count_strings(heap, &Selection::default(), 1, &silent).total.count
    } else {
        let stat = stat(heap, &Selection::default(), &silent);
        let most = stat.types.iter().map(|t| t.total.count).max().unwrap_or(0);
        if stat.unwalked.count > 0 || most < made.nodes || heap.type_info(FREE_TYPE).is_none() {
            return Err(format!("{most} of {} nodes, {} bytes lost", made.nodes, stat.unwalked.bytes).into());
        }
        stat.types.iter().map(|t| t.total.count).sum()
    };
    Ok((begun.elapsed(), count))
}

/// What was made, opened as a graph with its roots, and used; the time of all that.
/// Of stacks no root is needed: the lists hang off a handle.
fn timed<R>(with: impl FnOnce(&Made, Graph<'_>, &[Root]) -> Fallible<R>) -> Fallible<(Duration, R)> {
    let made = MADE.get().ok_or("nothing made")?;
    let process = open(&made.core.path())?;
    let session = Session::new(&process);
    let runtime = internals::coreclr(&session).ok_or("no runtime")?;
    runtime.heaps();
    let begun = Instant::now();
    let answer = with(made, Graph::new(runtime.object_heap_or_empty()), &runtime.roots_with(&[]).all)?;
    Ok((begun.elapsed(), answer))
}

/// Time of a search for a path to the far end of a list, and objects looked at.
fn search() -> Fallible<(Duration, u64)> {
    timed(|made, graph, roots| {
        let found = PathSearch::new(graph, made.last, &MemoryBudget::unbounded()).run(roots, 1)?;
        let longest = found.paths.iter().map(|p| p.steps.len() as u64).max().unwrap_or(0);
        if longest < made.way.min(limits::MAX_PATH as u64) {
            return Err(format!("a path of {longest} objects").into());
        }
        Ok(found.objects)
    })
}

/// Time to find what every object keeps, and with it the shapes of all paths; live
/// objects.
fn retained(paths: bool) -> Fallible<(Duration, u64)> {
    timed(|made, graph, roots| {
        let found = Retained::find(graph, roots, &MemoryBudget::unbounded(), |_| {})?;
        let nodes = found.types(0).iter().map(|t| t.own.count).max().unwrap_or(0);
        if nodes < made.nodes {
            return Err(format!("{nodes} of {} nodes live", made.nodes).into());
        }
        if paths {
            let statics = Default::default();
            let mut shapes = Shapes::new(&found, &statics)?;
            let tree = ShortestPathTree::build(&found.live, |number, parent, link| shapes.enter(number, parent, link));
            if tree.path(found.live.len() as u32 - 1).len() < 2 {
                return Err("not all objects have a path".into());
            }
        }
        Ok(found.total.count)
    })
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
    machine::tell_limits(common::open(&made.core.path())?.bytes());
    println!("  the graph: the best of {ROUNDS_OF_LONG}, by the wall clock");
    type Question = fn() -> Fallible<(Duration, u64)>;
    let questions: [(&str, Question); 3] =
        [("gcroot", search), ("retained", || retained(false)), ("gcroot --type", || retained(true))];
    for (name, ask) in questions {
        let mut best = None;
        for _ in 0..ROUNDS_OF_LONG {
            let (took, (_, objects)) = machine::watched(ask)?;
            if best.is_none_or(|(best, _): (machine::Took, u64)| took.wall < best.wall) {
                best = Some((took, objects));
            }
        }
        if let Some((took, objects)) = best {
            println!("  {name:<16} {took}; {:.1} million objects met", objects as f64 / 1e6);
        }
    }
    Ok(())
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn by_type(bencher: Bencher<'_, '_>) {
    let objects = MADE.get().map_or(0, |m| m.objects);
    bencher.counter(ItemsCount::new(objects)).bench(|| walk(false).ok());
}

fn prepare() -> Fallible {
    let asked = |name: &str, otherwise: u64| -> Fallible<u64> {
        let text = std::env::var(format!("COREMAP_BENCH_{name}")).ok();
        Ok(text.map(|n| n.parse()).transpose()?.unwrap_or(otherwise))
    };
    let usual = Form::of(NODES);
    let (shape, out) = (std::env::var("COREMAP_BENCH_SHAPE").ok(), std::env::var_os("COREMAP_BENCH_OUT"));
    let file = match &out {
        Some(path) => File::options().read(true).write(true).create_new(true).open(path)?,
        None => tempfile::tempfile()?,
    };
    let made = match shape.filter(|_| common::measuring()) {
        Some(name) => {
            let form = shapes::Form {
                shape: Shape::named(&name)?,
                nodes: asked("NODES", usual.nodes)?,
                heads: asked("LISTS", usual.lists)?.max(1),
                strings: asked("STRINGS", 0)?,
                shuffled: asked("SHUFFLED", 0)? != 0,
                segment: asked("SEGMENT", usual.segment)?,
            };
            make_shaped(file, form)?
        }
        None if common::measuring() => make(
            file,
            Form {
                nodes: asked("NODES", usual.nodes)?,
                lists: asked("LISTS", usual.lists)?.max(1),
                group: asked("GROUP", usual.group)?.max(1),
                segment: asked("SEGMENT", usual.segment)?,
            },
        )?,
        None => make(file, Form::of(FEW_NODES))?,
    };
    if out.is_some() {
        println!("{} objects; the last one is {}", made.objects, made.last);
        std::process::exit(0);
    }
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
