//! Fuzzing: arbitrary input through the library's public doors. Whatever comes in, there is
//! an answer or an error, no panic, and neither much processor time nor much memory.
//!
//! Input is made from real samples that a seed damages. Nothing is learnt from what the code
//! does with it (libFuzzer, which cargo-fuzz brings, needs a nightly compiler), so that numbers
//! make up for it: `COREMAP_FUZZ=N` asks for N inputs a door, 2,000 where nothing is asked for, which takes
//! seconds; `COREMAP_SEED=S` begins at another seed. A failure names its seed, and
//! `COREMAP_SEED=S COREMAP_FUZZ=1` repeats it.

mod damage;
mod doors;
mod samples;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use self::damage::damaged;
use crate::support::{Rng, number};
use crate::watch::Watch;

/// Inputs of each door where nothing else is asked for.
const INPUTS: u64 = 2000;

/// Processor time of one input: they are at most a megabyte, and most take microseconds.
const MOST: Duration = Duration::from_secs(3);

/// Send damaged samples through a door. `share`: how many times rarer than the others it is.
fn fuzz(name: &str, samples: &[Vec<u8>], share: u64, door: impl Fn(&[u8], &mut Rng)) {
    assert!(samples.iter().any(|s| !s.is_empty()), "{name}: nothing to begin with");
    let count = number("COREMAP_FUZZ", INPUTS).div_ceil(share);
    let first = number("COREMAP_SEED", 0x00c0_ffee);
    let mut failures = Vec::new();
    let mut slowest = (Duration::ZERO, first);
    for seed in first..first + count {
        let mut rng = Rng(seed);
        let input = damaged(samples, &mut rng);
        let told = format!("{name}: COREMAP_SEED={seed} COREMAP_FUZZ=1, {} bytes", input.len());
        let watch = Watch::begin(told.clone());
        let tried = catch_unwind(AssertUnwindSafe(|| door(&input, &mut rng)));
        let took = watch.took();
        slowest = slowest.max((took, seed));
        let (why, _) = watch.end();
        if tried.is_err() {
            failures.push(format!("{told}: panicked, see above"));
        }
        if took > MOST {
            failures.push(format!("{told}: {took:?} of processor time"));
        }
        failures.extend(why.map(|why| format!("{told}: {why}")));
        if failures.len() >= 10 {
            break;
        }
    }
    println!("{name}: {count} inputs, the slowest {:?} (COREMAP_SEED={})", slowest.0, slowest.1);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The samples themselves go through, or what is tried begins nowhere.
fn sound(samples: &[Vec<u8>], door: impl Fn(&[u8]) -> bool) {
    for (i, sample) in samples.iter().enumerate() {
        assert!(door(sample), "sample {i} of {} bytes is refused", sample.len());
    }
}

#[test]
fn cores() {
    let samples = samples::cores();
    sound(&samples, doors::core);
    fuzz("cores", &samples, 4, |bytes, _| _ = doors::core(bytes));
}

#[test]
fn notes() {
    let samples = samples::notes();
    sound(&samples, doors::notes);
    fuzz("notes", &samples, 1, |bytes, _| _ = doors::notes(bytes));
}

#[test]
fn packed_files() {
    let samples = samples::packed();
    sound(&samples, doors::unpack);
    fuzz("packed files", &samples, 2, |bytes, _| _ = doors::unpack(bytes));
}

#[test]
fn elf_images() {
    let samples = samples::images();
    sound(&samples, doors::elf);
    fuzz("ELF images", &samples, 1, |bytes, _| _ = doors::elf(bytes));
}

#[test]
fn pe_files() {
    let samples = samples::pe_files();
    sound(&samples, doors::pe);
    fuzz("PE files", &samples, 1, |bytes, _| _ = doors::pe(bytes));
}

#[test]
fn metadata() {
    let samples = samples::metadata();
    sound(&samples, |bytes| doors::metadata(bytes, &mut Rng(1)));
    fuzz("metadata", &samples, 1, |bytes, rng| _ = doors::metadata(bytes, rng));
}

#[test]
fn pdbs() {
    let samples = vec![samples::pdb()];
    sound(&samples, doors::pdb);
    fuzz("PDBs", &samples, 1, |bytes, _| _ = doors::pdb(bytes));
}

#[test]
fn layouts() {
    let samples = samples::layouts();
    sound(&samples, doors::layout);
    fuzz("layouts", &samples, 1, |bytes, _| _ = doors::layout(bytes));
}

#[test]
fn texts_of_tools() {
    fuzz("texts", &samples::texts(), 1, doors::text);
}

#[test]
fn arguments() {
    fuzz("arguments", &samples::arguments(), 1, |bytes, _| doors::argument(bytes));
}

/// Its bits are read where methods are, so that a whole core is the input: what is damaged
/// are the pages that are read for it.
#[test]
fn gc_info() {
    let mut core = doors::GcInfo::of("dotnet8-threads");
    let count = number("COREMAP_FUZZ", INPUTS).div_ceil(40);
    let first = number("COREMAP_SEED", 0x00c0_ffee);
    let whole = core.read();
    assert!(whole > 20, "{whole} methods have GC info");
    let mut refused = 0;
    for seed in first..first + count {
        core.damage(&mut Rng(seed));
        let told = format!("GC info: COREMAP_SEED={seed} COREMAP_FUZZ=40");
        let watch = Watch::begin(told.clone());
        let tried = catch_unwind(AssertUnwindSafe(|| core.read()));
        let (why, _) = watch.end();
        assert!(why.is_none(), "{told}: {why:?}");
        let read = tried.unwrap_or_else(|_| panic!("{told}: panicked, see above"));
        refused += u64::from(read < whole);
        core.mend();
    }
    assert_eq!(core.read(), whole, "damage is not undone");
    println!("GC info: {count} cores, {refused} of them with methods that are refused");
    assert!(refused > 0 || count < 20, "nothing that matters is damaged");
}
