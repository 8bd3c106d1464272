//! The mutation run: the small real cores, damaged at places that a seed picks, and moved to
//! the ends of the address space, through every command in one process. No panic, the sums hold, and each ends
//! within its processor time and its memory.
//!
//! `COREMAP_MUTANTS=N` asks for N mutants of each core, `COREMAP_SEED=S` for
//! another seed; a failure names the core and the seed of its mutant, and `COREMAP_CORE=NAME` asks for one core. `COREMAP_MOVES=N` asks for N
//! moves of each core to places that the seed picks. The numbers tried and the
//! rate are printed (`--nocapture`).

mod commands;
mod damage;
mod moving;
mod patient;
mod texts;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use self::commands::{COMMANDS, examine};
use self::moving::Movable;
use self::patient::Patient;
use crate::support::cases::{Case, serving};
use crate::support::commands::of_cores;
use crate::support::run::run;
use crate::support::{Rng, methods, number, real};
use crate::watch::Watch;
use coremap::addr::Addr;

/// Mutants of each core where nothing else is asked for: about a minute of two processors in all. `scripts/mutants`
/// tries as many as one has time for.
const MUTANTS: u64 = 100;

/// Moves of each core beside those of its first mapping to 0 and its last to the end.
const MOVES: u64 = 1;

/// Of so many mutants each command sees one: what all commands read is damaged
/// more often than what one of them reads alone.
const COMMAND_EVERY: u64 = 16;

/// Commands that take as long as many others, and how much rarer they are.
const RARE: &[(&str, u64)] = &[("perfmap", 4)];

/// The addresses of code that are known of a core; half of its mutants are read for them alone.
fn code(case: &Case) -> Vec<Addr> {
    let list = if case.serves("methods") { methods::ips(&methods::official(&case.name)) } else { Vec::new() };
    list.iter().map(|ip| Addr::new(u64::from_str_radix(&ip[2..], 16).unwrap())).collect()
}

fn damaged(case: &Case) {
    let (name, ips) = (case.name.as_str(), &code(case)[..]);
    let count = number("COREMAP_MUTANTS", MUTANTS).div_ceil(case.mutants_one_in);
    let first = number("COREMAP_SEED", 0x00c0_ffee);
    let mut patient = Patient::new(name);
    println!("{name}: {count} mutants, COREMAP_SEED={first}; {}", patient.places.text());
    let mut failures = Vec::new();
    let (begun, mut most) = (Instant::now(), 0);
    let mut slowest = (Duration::ZERO, first);
    // The core as it is, through all commands: what is promised holds there at least.
    if let Err(why) = examine(patient.path(), &mut Rng(0), &[], |_, _| true) {
        failures.push(format!("undamaged: {why}"));
    }
    failures.extend(moved(name, first, ips));
    // One mutant alone goes through all commands too.
    let all = count == 1 && std::env::var_os("COREMAP_ALL").is_some();
    let runs = Cell::new(0u64);
    let takes = |rng: &mut Rng, command: usize| {
        let rare = RARE.iter().find(|r| r.0 == COMMANDS[command].0).map_or(1, |r| r.1);
        let taken = all || rng.below(COMMAND_EVERY * rare) == 0;
        runs.set(runs.get() + u64::from(taken));
        taken
    };
    for seed in first..first + count {
        let mut rng = Rng(seed);
        patient.damage(&mut rng);
        let told = format!("{name}: COREMAP_SEED={seed} COREMAP_MUTANTS=1");
        let watch = Watch::begin(told.clone());
        let path = patient.path();
        let tried = catch_unwind(AssertUnwindSafe(|| examine(path, &mut rng, ips, takes)));
        slowest = slowest.max((watch.took(), seed));
        let (why, took) = watch.end();
        most = most.max(took);
        match tried {
            Ok(Ok(())) => {}
            Ok(Err(why)) => failures.push(format!("{told}: {why}")),
            Err(_) => failures.push(format!("{told}: panicked, see above")),
        }
        failures.extend(why.map(|why| format!("{told}: {why}")));
        patient.mend();
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{name}: {count} mutants, {} of {} commands run on them in {seconds:.1} s, {:.0} a second, \
         at most {} MiB held, the slowest {:.1} s of a processor (COREMAP_SEED={}), {} failed",
        runs.get(),
        COMMANDS.len(),
        count as f64 / seconds,
        most >> 20,
        slowest.0.as_secs_f64(),
        slowest.1,
        failures.len()
    );
    assert!(failures.is_empty(), "{name}: {} of {count}:\n{}", failures.len(), failures.join("\n"));
}

/// The core at other addresses.
fn moved(name: &str, seed: u64, ips: &[Addr]) -> Vec<String> {
    let core = Movable::new(name);
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut failures = Vec::new();
    for how in core.moves(number("COREMAP_MOVES", MOVES), &mut Rng(seed)) {
        core.write(how, file.path());
        let told = format!("{name}: COREMAP_SEED={seed} moved by {:#x} with {:?}", how.by, how.with);
        let watch = Watch::begin(told.clone());
        let tried = catch_unwind(AssertUnwindSafe(|| {
            examine(file.path(), &mut Rng(seed), &[], |_, _| true)?;
            if ips.is_empty() { Ok(()) } else { examine(file.path(), &mut Rng(seed + 1), ips, |_, _| false) }
        }));
        match tried {
            Ok(Ok(())) => {}
            Ok(Err(why)) => failures.push(format!("{told}: {why}")),
            Err(_) => failures.push(format!("{told}: panicked, see above")),
        }
        failures.extend(watch.end().0.map(|why| format!("{told}: {why}")));
    }
    failures
}

/// Every core that serves for it, each in a thread that is free: which of them takes long is not known.
#[test]
fn mutants_of_every_core() {
    let only = std::env::var("COREMAP_CORE").ok();
    let cases: Vec<&Case> =
        serving("mutants").into_iter().filter(|c| only.as_ref().is_none_or(|o| *o == c.name)).collect();
    assert!(!cases.is_empty(), "no core {only:?}");
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let work = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(why) = catch_unwind(|| damaged(case)) {
                let why = why.downcast_ref::<String>().map_or("panicked, see above", String::as_str);
                failed.lock().unwrap().push(format!("{}: {why}", case.name));
            }
        }
    };
    std::thread::scope(|s| (0..available_parallelism().map_or(1, NonZero::get)).for_each(|_| _ = s.spawn(work)));
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// `symbolicate` goes with `ip2method`, and the others are of the program.
#[test]
fn every_command_is_tried() {
    let tried = COMMANDS.iter().map(|c| c.0).chain(["symbolicate"]).collect::<BTreeSet<_>>();
    assert_eq!(tried, of_cores().map(|c| c.name).collect());
}

/// Found by a move: malloc's search took its header off address 0.
#[test]
fn each_mapping_of_native_processes_at_both_ends() {
    for name in ["native-leaks", "native-musl-gcore"] {
        let core = Movable::new(name);
        let file = tempfile::NamedTempFile::new().unwrap();
        for how in core.each() {
            core.write(how, file.path());
            let told = format!("{name} moved by {:#x}", how.by);
            let watch = Watch::begin(told.clone());
            let tried = catch_unwind(AssertUnwindSafe(|| examine(file.path(), &mut Rng(how.by), &[], |_, _| false)));
            assert_eq!(tried.map_err(|_| "panicked"), Ok(Ok(())), "{told}");
            assert_eq!(watch.end().0, None, "{told}");
        }
    }
}

#[test]
fn a_patient_is_mended_to_what_it_was() {
    // Or each mutant would carry the damage of all before it.
    let mut patient = Patient::new("native-glibc-kernel");
    let whole = std::fs::read(patient.path()).unwrap();
    for seed in 0..100 {
        patient.damage(&mut Rng(seed));
        if seed % 4 == 0 {
            patient.cut(seed * 1000);
        }
        patient.mend();
        assert!(std::fs::read(patient.path()).unwrap() == whole, "seed {seed} is not undone");
    }
    patient.damage(&mut Rng(7));
    assert!(std::fs::read(patient.path()).unwrap() != whole, "nothing is damaged");
}

/// Found by the run (COREMAP_SEED=12648435): rows with a list in them are no CSV.
#[test]
fn anon_is_written_as_csv_with_a_row_for_each_cluster() {
    let path = real::plain("dotnet31-kernel");
    let path = path.to_str().unwrap();
    let json = run(["anon", "--format", "json", path]);
    let clusters =
        serde_json::from_str::<serde_json::Value>(&json.stdout).unwrap()["clusters"].as_array().unwrap().len();
    assert!(clusters > 0, "no cluster in it");
    let csv = run(["anon", "--format", "csv", path]);
    assert!(!csv.stderr.contains("CSV"), "{}", csv.stderr);
    assert!(csv.stdout.starts_with("size,count,bytes,"), "{}", csv.stdout);
    assert_eq!(csv.stdout.lines().count(), clusters + 1);
}
