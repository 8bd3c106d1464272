//! A big core with real structure, the commands on it, and other tools beside
//! them: time, own memory, and whether twice as much takes twice as long.
//!
//! The core is made from a small real process of .NET 3.1: objects in lists
//! (`common/heap.rs`), threads (`common/threads.rs`), mappings full of real
//! bytes. It is a plain dense file without holes.
//!
//! - `COREMAP_BIG_GB`: its size (0.2 where it is not set). One GB has 10,000,000
//!   objects, 150 threads and 5,000 mappings: 20 asks for 200,000,000, 3,000
//!   and 100,000. The file goes to `$TMPDIR` and is gone when the run ends.
//! - `COREMAP_BIG_OUT`: only write the core to this path, and keep it.
//! - `COREMAP_BIG_CORE`: measure this core, and make none.
//! - `COREMAP_BIG_PARTS`: of `commands`, `tools` and `doubling`, with commas.
//! - `COREMAP_BIG_SCALE`: 1 makes the doubling's greater cores of 100,000
//!   mappings, 3,000 threads, 32,000 stacks of threads that have no control block, and
//!   40,000,000 objects (0.05 where it is not set).

mod common;

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{FREE, Fallible, Load, PAGE, Scratch, heap, threads};
use coremap::internals;
use coremap::session::Session;

const SAMPLE: &str = "dotnet31-createdump/core.zst";

/// Where the mappings go.
const MAPPINGS: u64 = FREE + (2 << 40);

/// Text that real memory holds here and there, in both encodings.
const TEXT: &str = "centos.7-x64";

/// A tool that takes longer than this is stopped.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a process is asked for its memory.
const SAMPLING: Duration = Duration::from_millis(3);

const GIGA: f64 = 1e9;

/// What a core is to have beside the sample's own.
#[derive(Clone, Copy)]
struct Shape {
    objects: u64,
    threads: u64,
    /// Threads with registers and nothing else.
    bare: u64,
    mappings: u64,
    /// Bytes in all; mappings make up what is missing to it.
    bytes: u64,
}

impl Shape {
    fn of_gigabytes(gb: f64) -> Shape {
        let scaled = |a_gigabyte: f64| (gb * a_gigabyte) as u64;
        Shape { objects: scaled(1e7), threads: scaled(150.0), bare: 0, mappings: scaled(5e3), bytes: scaled(GIGA) }
    }
}

/// Mappings with gaps between them, so that each stays one of its own: of eight
/// one has no bytes and no access, and one is read-only.
fn mappings(count: u64, bytes: u64) -> Vec<Load> {
    let dumped = count - count / 8;
    let len = (bytes / dumped.max(1) / PAGE * PAGE).max(PAGE);
    let load = |i: u64| {
        let addr = MAPPINGS + i * (len + 16 * PAGE);
        match i % 8 {
            7 => Load { addr, len, flags: 0, dumped: false },
            3 => Load { addr, len, flags: 4, dumped: true },
            _ => Load::data(addr, len),
        }
    };
    (0..count).map(load).collect()
}

fn fill(file: &mut File, mut left: u64) -> Fallible {
    file.seek(SeekFrom::End(0))?;
    let bytes = common::real_bytes(true)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    while left > 0 {
        let n = left.min(bytes.len() as u64);
        out.write_all(&bytes[..n as usize])?;
        left -= n;
    }
    Ok(out.flush()?)
}

fn make(file: File, shape: Shape) -> Fallible<Scratch> {
    let sample = common::sample(SAMPLE)?;
    let process = common::process(&common::sample_path(SAMPLE))?;
    let session = Session::new(&process);
    let layout = &internals::coreclr(&session).ok_or("no runtime")?.runtime().layout;
    // Of 22 objects 20 are nodes.
    let nodes = shape.objects * heap::GROUP / (heap::GROUP + 2);
    let mut objects = heap::Made::plan(&session, heap::Form::of(nodes.max(heap::GROUP)))?;
    let threads = threads::Made::plan(&session, shape.threads)?;
    let mut loads = objects.loads.clone();
    loads.extend_from_slice(&threads.loads);
    let so_far: u64 = loads.iter().map(Load::in_file).sum::<u64>() + sample.bytes().len() as u64;
    let mappings = mappings(shape.mappings, shape.bytes.saturating_sub(so_far));
    let (bare, more) = threads::bare(shape.bare, MAPPINGS + (1 << 40));
    let filled = mappings.iter().chain(&bare).map(Load::in_file).sum();
    loads.extend(mappings);
    loads.extend(bare);
    let notes = [&threads.notes[..], &more].concat();
    let core = common::extended(file, &sample, &loads, &notes, |file| {
        objects.write(file)?;
        threads.write(file, layout)?;
        fill(file, filled)
    })?;
    objects.link(&core, &sample, layout, (sample.bytes().len() as u64).next_multiple_of(PAGE))?;
    threads.link(&core, &sample, layout)?;
    Ok(core)
}

/// How one process went.
struct Run {
    time: Duration,
    /// Most anonymous memory that was seen.
    own: u64,
    /// Lines it printed.
    lines: u64,
    /// Exit status; none where it was stopped.
    status: Option<i32>,
}

impl Run {
    fn seconds(&self) -> String {
        let time = self.time.as_secs_f64();
        if self.status.is_none() { format!("> {time:.0} s") } else { format!("{time:.3} s") }
    }
}

/// RssAnon of a process, bytes.
fn anonymous(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

/// Run a program to its end, its output read by nobody but us.
fn run(program: &str, args: &[&str]) -> Fallible<Run> {
    let mut command = Command::new(program);
    command.args(args).env("LC_ALL", "C").env_remove("DEBUGINFOD_URLS");
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut out = child.stdout.take().ok_or("no output")?;
    let reader = std::thread::spawn(move || {
        let (mut buffer, mut lines) = (vec![0; 1 << 16], 0);
        while let Ok(n @ 1..) = out.read(&mut buffer) {
            lines += buffer[..n].iter().filter(|&&b| b == b'\n').count() as u64;
        }
        lines
    });
    let mut own = 0;
    let status = loop {
        own = own.max(anonymous(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            break status.code();
        }
        if begun.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(SAMPLING);
    };
    let time = begun.elapsed();
    let lines = reader.join().map_err(|_| "reader")?;
    Ok(Run { time, own, lines, status })
}

fn coremap(args: &[&str]) -> Fallible<Run> {
    run(env!("CARGO_BIN_EXE_coremap"), args)
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().split_whitespace().take(1).collect()
}

/// What it costs to read the file at all, now and on this machine.
fn plain_read(path: &str) -> Fallible<Run> {
    run("dd", &[&format!("if={path}"), "of=/dev/null", "bs=1M", "status=none"])
}

/// The commands, each so often.
const COMMANDS: [(&[&str], usize); 11] = [
    (&["info"], 3),
    (&["summary"], 3),
    (&["summary", "--zero-fill"], 2),
    (&["stacks", "--zero-fill"], 3),
    (&["threads", "--group"], 2),
    (&["regions"], 2),
    (&["heapstat"], 2),
    (&["search", TEXT], 2),
    (&["retained"], 2),
    (&["retained", "--memory", "1GiB"], 1),
    (&["triage"], 2),
];

fn commands(path: &str, bytes: u64) -> Fallible {
    println!("{bytes} bytes; load of the machine {}; best of several runs; own: most RssAnon seen", load());
    println!("{:<24} {:>10} {:>12} {:>10} {:>12}  exit", "", "time", "GB/s", "own MiB", "lines");
    let line = |name: &str, runs: Vec<Run>| {
        let own = runs.iter().map(|r| r.own).max().unwrap_or(0);
        if let Some(best) = runs.iter().min_by_key(|r| r.time) {
            println!(
                "{name:<24} {:>10} {:>12.2} {:>10.1} {:>12}  {}",
                best.seconds(),
                bytes as f64 / best.time.as_secs_f64() / GIGA,
                own as f64 / 1048576.0,
                best.lines,
                best.status.map_or("stopped".into(), |s| s.to_string())
            );
        }
    };
    line("dd of=/dev/null bs=1M", vec![plain_read(path)?, plain_read(path)?]);
    for (args, rounds) in COMMANDS {
        let all: Vec<&str> = args.iter().copied().chain([path]).collect();
        let runs: Result<Vec<Run>, _> = (0..rounds).map(|_| coremap(&all)).collect();
        line(&args.join(" "), runs?);
    }
    line("dd of=/dev/null bs=1M", vec![plain_read(path)?]);
    Ok(())
}

/// A second try for what did not take long.
fn better_of_two(mut run: impl FnMut() -> Fallible<Run>) -> Fallible<Run> {
    let first = run()?;
    if first.time > PATIENCE / 6 {
        return Ok(first);
    }
    let second = run()?;
    Ok(if second.time < first.time { second } else { first })
}

/// A piece of work: what it is, how coremap is asked, and how others are.
type Work<'a> = (&'a str, Vec<&'a str>, Vec<(&'a str, Vec<&'a str>)>);

fn tools(path: &str) -> Fallible {
    let gdb = |what: &'static str| ("gdb", vec!["-nx", "-batch", "-ex", what, "-core", path]);
    let pipe = format!("strings -a '{path}' | grep -c {TEXT}");
    let wide = format!("strings -a -e l '{path}' | grep -c {TEXT}");
    let works: [Work<'_>; 3] = [
        (
            "search",
            vec!["search", TEXT, path],
            vec![
                ("grep", vec!["-c", TEXT, path]),
                ("grep", vec!["-caF", TEXT, path]),
                ("sh", vec!["-c", &pipe]),
                ("sh", vec!["-c", &wide]),
            ],
        ),
        (
            "mappings",
            vec!["regions", path],
            vec![
                ("readelf", vec!["-lW", path]),
                ("eu-readelf", vec!["-l", path]),
                gdb("info proc mappings"),
                gdb("maintenance info sections"),
            ],
        ),
        (
            "backtraces",
            vec!["threads", path],
            vec![gdb("info threads"), gdb("thread apply all bt"), ("eu-stack", vec!["--core", path])],
        ),
    ];
    println!("load of the machine {}; each stopped after {} s", load(), PATIENCE.as_secs());
    println!("{:<12} {:<44} {:>10} {:>8} {:>10} {:>10}  exit", "work", "", "time", "times", "own MiB", "lines");
    // None shall pay for the others' reading.
    plain_read(path)?;
    for (what, own, others) in works {
        let ours = better_of_two(|| coremap(&own))?;
        let line = |name: &str, run: &Run| {
            println!(
                "{what:<12} {name:<44} {:>10} {:>8.1} {:>10.1} {:>10}  {}",
                run.seconds(),
                run.time.as_secs_f64() / ours.time.as_secs_f64(),
                run.own as f64 / 1048576.0,
                run.lines,
                run.status.map_or("stopped".into(), |s| s.to_string())
            );
        };
        let named = |program: &str, args: &[&str]| {
            format!("{program} {}", args.join(" ").replace(path, "CORE").replace("-nx -batch -ex ", ""))
        };
        line(&named("coremap", &own), &ours);
        for (program, args) in others {
            match better_of_two(|| run(program, &args)) {
                Ok(run) => line(&named(program, &args), &run),
                Err(e) => println!("{what:<12} {program}: {e}"),
            }
        }
    }
    Ok(())
}

/// Time of each command on a core and on one with twice as many of one thing.
fn doubling(scale: f64) -> Fallible {
    let few = Shape { objects: 1000, threads: 8, bare: 0, mappings: 64, bytes: 0 };
    let scaled = |n: f64| (n * scale) as u64;
    let series = [
        ("mappings", Shape { mappings: scaled(5e4), ..few }, Shape { mappings: scaled(1e5), ..few }),
        ("threads", Shape { threads: scaled(1500.0), ..few }, Shape { threads: scaled(3000.0), ..few }),
        ("stacks", Shape { bare: scaled(1.6e4), ..few }, Shape { bare: scaled(3.2e4), ..few }),
        ("objects", Shape { objects: scaled(2e7), ..few }, Shape { objects: scaled(4e7), ..few }),
    ];
    println!("\ntwice as many of one thing; load {}; best of 5", load());
    println!("{:<10} {:<24} {:>10} {:>10} {:>7} {:>20}", "", "", "half", "whole", "ratio", "own MiB");
    for (what, half, whole) in series {
        let cores = [make(tempfile::tempfile()?, half)?, make(tempfile::tempfile()?, whole)?];
        let paths = cores.each_ref().map(|c| c.path().display().to_string());
        for (args, _) in COMMANDS {
            let mut best: [Option<Run>; 2] = [None, None];
            for _ in 0..5 {
                for (path, best) in paths.iter().zip(&mut best) {
                    let all: Vec<&str> = args.iter().copied().chain([path.as_str()]).collect();
                    let new = coremap(&all)?;
                    if best.as_ref().is_none_or(|b| new.time < b.time) {
                        *best = Some(new);
                    }
                }
            }
            if let [Some(half), Some(whole)] = best {
                println!(
                    "{what:<10} {:<24} {:>10} {:>10} {:>7.2} {:>9.1} {:>10.1}",
                    args.join(" "),
                    half.seconds(),
                    whole.seconds(),
                    whole.time.as_secs_f64() / half.time.as_secs_f64(),
                    half.own as f64 / 1048576.0,
                    whole.own as f64 / 1048576.0
                );
            }
        }
    }
    Ok(())
}

fn number(name: &str, otherwise: f64) -> Fallible<f64> {
    Ok(std::env::var(name).ok().map(|n| n.parse()).transpose()?.unwrap_or(otherwise))
}

fn all() -> Fallible {
    // A mere test run only shows that the core can be made and is understood.
    let test = !common::measuring();
    let shape = Shape::of_gigabytes(if test { 0.05 } else { number("COREMAP_BIG_GB", 0.2)? });
    if let Some(out) = std::env::var_os("COREMAP_BIG_OUT") {
        let file = File::options().read(true).write(true).create_new(true).open(&out)?;
        make(file, shape)?;
        return Ok(());
    }
    let parts = std::env::var("COREMAP_BIG_PARTS").unwrap_or("commands,tools,doubling".into());
    let asked = |part: &str| !test && parts.split(',').any(|p| p == part);
    if test || asked("commands") || asked("tools") {
        let given = std::env::var("COREMAP_BIG_CORE").ok();
        let made = if given.is_none() { Some(make(tempfile::tempfile()?, shape)?) } else { None };
        let path = given.or(made.as_ref().map(|m| m.path().display().to_string())).ok_or("no core")?;
        let bytes = std::fs::metadata(Path::new(&path))?.len();
        if test {
            for command in ["summary", "heapstat", "threads"] {
                match coremap(&[command, &path])?.status {
                    Some(0 | 4) => {}
                    status => return Err(format!("{command}: exit {status:?}").into()),
                }
            }
        }
        if asked("commands") {
            commands(&path, bytes)?;
        }
        if asked("tools") {
            tools(&path)?;
        }
    }
    if asked("doubling") { doubling(number("COREMAP_BIG_SCALE", 0.05)?) } else { Ok(()) }
}

fn main() {
    if let Err(e) = all() {
        eprintln!("big: {e}");
        std::process::exit(1);
    }
}
