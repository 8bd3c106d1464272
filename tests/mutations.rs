//! The mutation run: the small real cores, damaged at places that a seed picks,
//! through the library. No panic, the sums hold, and each ends in time.
//!
//! `COREMAP_MUTANTS=N` asks for N mutants of each core, `COREMAP_SEED=S` for
//! another seed; a failure names the seed of its mutant.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use coremap::addr::Addr;
use coremap::analysis::{
    self, HeapStatOptions, Names, RefsOptions, RegionOptions, RetainedOptions, SearchOptions, Span, ThreadOptions,
};
use coremap::introspect::{Findings, identify, introspect};
use coremap::map::audit;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::report::HeapStatReport;
use coremap::search::{Encoding, Pattern, PatternOptions};
use regex::Regex;
use support::Rng;
use support::{methods, real};

/// Mutants of each core where nothing else is asked for.
const MUTANTS: u64 = 600;

/// Much longer than any takes; a mutant that reaches it hangs.
const DEADLINE: Duration = Duration::from_secs(20);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().unwrap_or_else(|_| panic!("{name}={v} is not a number")))
}

/// A core in a file of its own that is damaged and mended again and again.
struct Patient {
    file: tempfile::NamedTempFile,
    len: u64,
    /// Bytes of ELF and program headers, and where the notes are.
    headers: u64,
    notes: (u64, u64),
    /// Offsets of pages that are not zero.
    pages: Vec<u64>,
    /// What was there before, newest last.
    undo: Vec<(u64, Vec<u8>)>,
    whole: Vec<u8>,
    cut: Option<u64>,
}

const PAGE: usize = 4096;

impl Patient {
    fn new(name: &str) -> Patient {
        let bytes = real::bytes(name);
        let headers = support::elf::read(&bytes);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        real::write_sparse(file.as_file_mut(), &bytes);
        let written = bytes.chunks(PAGE).enumerate().filter(|(_, p)| p.iter().any(|&b| b != 0));
        let pages = written.map(|(i, _)| (i * PAGE) as u64).collect();
        Patient {
            file,
            len: bytes.len() as u64,
            headers: headers.len as u64,
            notes: (headers.notes.0 as u64, headers.notes.1 as u64),
            pages,
            undo: Vec::new(),
            cut: None,
            whole: bytes,
        }
    }

    fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut old = vec![0; len.min((self.len - at) as usize)];
        self.file.as_file().read_exact_at(&mut old, at).unwrap();
        old
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let old = self.read(at, bytes.len());
        self.file.as_file().write_all_at(&bytes[..old.len()], at).unwrap();
        self.undo.push((at, old));
    }

    /// Cut the file off; what goes comes back from `whole`.
    fn cut(&mut self, at: u64) {
        self.cut = Some(at);
        self.file.as_file().set_len(at).unwrap();
    }

    fn mend(&mut self) {
        self.file.as_file().set_len(self.len).unwrap();
        if let Some(at) = self.cut.take() {
            for &page in self.pages.iter().filter(|&&p| p + PAGE as u64 > at) {
                let end = self.whole.len().min(page as usize + PAGE);
                self.file.as_file().write_all_at(&self.whole[page as usize..end], page).unwrap();
            }
        }
        for (at, old) in self.undo.drain(..).rev() {
            self.file.as_file().write_all_at(&old, at).unwrap();
        }
    }

    fn a_page(&self, rng: &mut Rng) -> u64 {
        self.pages[rng.below(self.pages.len() as u64) as usize]
    }

    /// An offset in headers, notes, or any page with something on it.
    fn a_place(&self, rng: &mut Rng) -> u64 {
        match rng.below(3) {
            0 => rng.below(self.headers),
            1 => self.notes.0 + rng.below(self.notes.1),
            _ => self.a_page(rng) + rng.below(PAGE as u64),
        }
        .min(self.len - 1)
    }

    fn damage(&mut self, rng: &mut Rng) {
        for _ in 0..1 + rng.below(4) {
            match rng.below(8) {
                0..3 => {
                    let at = self.a_place(rng);
                    let flipped: Vec<u8> = self.read(at, 1).iter().map(|b| b ^ (1 << rng.below(8))).collect();
                    self.write(at, &flipped);
                }
                3..5 => {
                    // A word that numbers, sizes and pointers tend to break on.
                    let words =
                        [0, 1, 0x7fff_ffff, 0xffff_ffff, 1 << 47, u64::MAX >> 1, u64::MAX - 4095, u64::MAX, rng.next()];
                    let word = words[rng.below(words.len() as u64) as usize];
                    let at = self.a_place(rng) & !7;
                    self.write(at, &word.to_le_bytes());
                }
                5 => {
                    let at = self.a_page(rng);
                    self.write(at, &[0; PAGE]);
                }
                6 => {
                    let (a, b) = (self.a_page(rng), self.a_page(rng));
                    let (one, other) = (self.read(a, PAGE), self.read(b, PAGE));
                    self.write(a, &other);
                    self.write(b, &one);
                }
                _ => {
                    // Pointers and sizes copied to where others are expected.
                    let (from, to) = (self.a_place(rng) & !7, self.a_place(rng) & !7);
                    let some = self.read(from, 8 << rng.below(6));
                    self.write(to, &some);
                }
            }
        }
    }
}

/// All that the commands do; an answer that breaks its promise is an error.
fn examine(path: &Path, rng: &mut Rng) -> Result<(), String> {
    let silent = Progress::silent();
    let Ok(process) = Process::open(path, &Options::default(), &silent) else { return Ok(()) };
    let found = introspect(&process);
    let broken: Vec<_> = audit::invariants(&found.map, &process.core).into_iter().filter(|i| !i.ok).collect();
    if !broken.is_empty() {
        return Err(format!("{broken:?}"));
    }
    let zero_fill = rng.below(4) == 0;
    let sum = analysis::summary(&process, &found, zero_fill, &silent);
    if sum.total.size != sum.base.size || sum.total.in_core != sum.base.in_core {
        return Err(format!("kinds {:?}, base {:?}", sum.total, sum.base));
    }
    let (zero, written) = (sum.total.zero.unwrap_or(0), sum.total.written.unwrap_or(sum.total.in_core));
    if zero.checked_add(written) != Some(sum.total.in_core) {
        return Err(format!("zero and written are not what the core holds: {:?}", sum.total));
    }
    let regions = analysis::regions(&found, &RegionOptions::default());
    let names = Names::new(&process, &found);
    let doing = analysis::doing(&process, &names, &found.stacks);
    let stacks = analysis::stacks(&process, &found, &doing, zero_fill, &silent);
    for s in &stacks.stacks {
        let within = |part: Option<u64>| part.is_none_or(|part| Some(part) <= s.reserved);
        if !within(s.in_use) || !within(s.touched) || !within(Some(s.in_core)) && s.low.is_some() {
            return Err(format!("more of a stack than there is: {s:?}"));
        }
    }
    let info = analysis::info(&process, &found, true);
    let check = analysis::check(&process, &found);
    if rng.below(4) == 0 {
        let ips: Vec<Addr> = regions.regions.iter().take(20).map(|r| r.start).chain([Addr(rng.next())]).collect();
        name_code(&process, &found, &ips, rng.below(4) == 0)?;
    }
    let some = regions.regions.get(rng.below(regions.regions.len() as u64) as usize).map_or(0, |r| r.start.0);
    for addr in [0, some, some.wrapping_sub(1), rng.next(), u64::MAX] {
        let whatis = analysis::whatis(&process, &found, Addr(addr), 64);
        serde_json::to_string(&whatis).map_err(|e| e.to_string())?;
    }
    if rng.below(4) == 0 {
        let options = RefsOptions { span: Span::Region, kinds: Vec::new(), limit: 100 };
        let refs = analysis::refs(&process, &found, Addr(some), &options, &silent);
        let counted: u64 = refs.counts.iter().map(|c| c.count).sum();
        if counted != refs.total {
            return Err(format!("{counted} words counted, {} in all", refs.total));
        }
        let anon = analysis::anon(&process, &found, &silent);
        let blocks: u64 = anon.clusters.iter().map(|c| c.bytes).sum();
        if blocks > anon.size {
            return Err(format!("{blocks} bytes in blocks of {}", anon.size));
        }
        serde_json::to_string(&(refs, anon)).map_err(|e| e.to_string())?;
    }
    let options = HeapStatOptions { strings: rng.below(4) == 0, ..HeapStatOptions::default() };
    let heap = analysis::heapstat(&process, &found, &options, &silent);
    let (objects, size) = heap.types.iter().fold((0, 0), |sum, t| (sum.0 + t.count, sum.1 + t.size));
    if (objects, size) != (heap.total.objects, heap.total.size) {
        return Err(format!("types are {objects} objects of {size} bytes, in all {:?}", heap.total));
    }
    serde_json::to_string(&heap).map_err(|e| e.to_string())?;
    if rng.below(4) == 0 {
        what_is_kept(&process, &found, &heap, rng.below(4) == 0)?;
    }
    if rng.below(4) == 0 {
        let options = PatternOptions { ignore_case: true, regex: true, hex: false, encoding: Encoding::Both };
        let pattern = Pattern::new("coremap-mark.r|lib[a-z]+[.]so", options).map_err(|e| e.to_string())?;
        let options = SearchOptions { kinds: Vec::new(), limit: Some(100), context: true };
        let hits = analysis::search(&process, &found, "", &pattern, &options, &silent);
        if hits.scanned > sum.total.in_core {
            return Err(format!("{} bytes scanned, the core holds {}", hits.scanned, sum.total.in_core));
        }
        serde_json::to_string(&hits).map_err(|e| e.to_string())?;
    }
    let names = Names::new(&process, &found);
    let threads = analysis::threads(&process, &names, &found.stacks, ThreadOptions::default());
    if threads.threads.len() != process.core.notes.threads.len() {
        return Err(format!("{} threads, the core has {}", threads.threads.len(), process.core.notes.threads.len()));
    }
    let chains = analysis::async_chains(&process, &found, &names, true, &silent);
    if chains.total != chains.chains.iter().map(|c| c.count).sum::<u64>() {
        return Err(format!("{} chains, by kind they are others: {:?}", chains.total, chains.chains));
    }
    for answer in [
        serde_json::to_string(&analysis::envelope("async", &process, &found, chains)),
        serde_json::to_string(&analysis::envelope("threads", &process, &found, threads)),
        serde_json::to_string(&analysis::envelope("summary", &process, &found, sum)),
        serde_json::to_string(&analysis::envelope("regions", &process, &found, regions)),
        serde_json::to_string(&analysis::envelope("stacks", &process, &found, stacks)),
        serde_json::to_string(&analysis::envelope("info", &process, &found, info)),
        serde_json::to_string(&analysis::envelope("check", &process, &found, check)),
    ] {
        answer.map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Live and unreachable objects are those of the heap, and what is kept is no more.
fn what_is_kept(process: &Process, found: &Findings, heap: &HeapStatReport, paths: bool) -> Result<(), String> {
    let kept = analysis::retained(process, found, &RetainedOptions { top: 100, ..RetainedOptions::default() });
    let (objects, size) = (kept.live.objects + kept.unreachable.objects, kept.live.size + kept.unreachable.size);
    let all = (heap.total.objects - heap.free.objects, heap.total.size - heap.free.size);
    if (objects, size) != all {
        return Err(format!("{:?} live and {:?} unreachable, in all {all:?}", kept.live, kept.unreachable));
    }
    if kept.objects.iter().any(|o| o.retained < o.size || o.retained > Some(kept.live.size)) {
        return Err(format!("kept is less than the object or more than all: {:?}", kept.objects));
    }
    serde_json::to_string(&kept).map_err(|e| e.to_string())?;
    if paths {
        let every = Regex::new(".").map_err(|e| e.to_string())?;
        let ways = analysis::gcroot_types(process, found, &every, usize::MAX);
        if ways.more == 0 && ways.groups.iter().map(|g| g.count).sum::<u64>() != kept.live.objects {
            return Err("not all live objects are in a group".into());
        }
        serde_json::to_string(&ways).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// All that names code: an answer or a reason for each address, a map in order,
/// a text that keeps its lines.
fn name_code(process: &Process, found: &Findings, ips: &[Addr], all: bool) -> Result<(), String> {
    let names = Names::new(process, found);
    let report = analysis::ip2method(&names, ips);
    for row in &report.results {
        if row.found == row.reason.is_some() || row.found == row.method.is_none() {
            return Err(format!("neither an answer nor a reason: {row:?}"));
        }
    }
    serde_json::to_string(&report).map_err(|e| e.to_string())?;
    let text: String = ips.iter().map(|ip| format!("\t{:16x} [unknown] ([unknown])\n", ip.0)).collect();
    let mut out = Vec::new();
    let options = coremap::symbolicate::Options::default();
    let named = analysis::symbolicate(process, &names, &mut text.as_bytes(), &mut out, false, &options);
    named.map_err(|e| e.to_string())?;
    let lines = out.iter().filter(|b| **b == b'\n').count();
    if lines != ips.len() {
        return Err(format!("{lines} lines of {}: {}", ips.len(), String::from_utf8_lossy(&out)));
    }
    if all {
        let map = analysis::perfmap(&names);
        if !map.entries.is_sorted_by_key(|e| e.start) || map.entries.iter().any(|e| e.name.contains('\n')) {
            return Err("the map is not in order".into());
        }
    }
    Ok(())
}

/// The same for a core that is damaged: sampled addresses, and some of no method.
fn examine_code(path: &Path, ips: &[Addr], rng: &mut Rng) -> Result<(), String> {
    let Ok(process) = Process::open(path, &Options::default(), &Progress::silent()) else { return Ok(()) };
    let found = identify(&process);
    let mut some: Vec<Addr> = (0..6).map(|_| ips[rng.below(ips.len() as u64) as usize]).collect();
    some.extend([Addr(0), Addr(u64::MAX), Addr(rng.next()), Addr(some[0].0 ^ (1 << rng.below(20)))]);
    name_code(&process, &found, &some, rng.below(8) == 0)
}

fn mutate(name: &str) {
    damaged(name, MUTANTS, examine);
}

/// Fewer of them: these cores are there for their code, and each is read for it.
fn mutate_code(name: &str) {
    let list = methods::ips(&methods::official(name));
    let ips: Vec<Addr> = list.iter().map(|ip| Addr(u64::from_str_radix(&ip[2..], 16).unwrap())).collect();
    damaged(name, MUTANTS / 3, |path, rng| examine_code(path, &ips, rng));
}

fn damaged(name: &str, mutants: u64, examine: impl Fn(&Path, &mut Rng) -> Result<(), String>) {
    let count = number("COREMAP_MUTANTS", mutants);
    let first = number("COREMAP_SEED", 0x00c0_ffee);
    println!("{name}: {count} mutants, COREMAP_SEED={first}");
    let mut patient = Patient::new(name);
    let mut failures = Vec::new();
    for seed in first..first + count {
        let mut rng = Rng(seed);
        patient.damage(&mut rng);
        // A cut comes last: damage is written to whole files only.
        if rng.below(6) == 0 {
            let cut = if rng.below(3) == 0 { rng.below(patient.headers) } else { rng.below(patient.len) };
            patient.cut(cut);
        }
        let begun = Instant::now();
        let path = patient.file.path();
        match catch_unwind(AssertUnwindSafe(|| examine(path, &mut rng))) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => failures.push(format!("COREMAP_SEED={seed} COREMAP_MUTANTS=1: {why}")),
            Err(_) => failures.push(format!("COREMAP_SEED={seed} COREMAP_MUTANTS=1: panicked, see above")),
        }
        if begun.elapsed() > DEADLINE {
            failures.push(format!("COREMAP_SEED={seed} COREMAP_MUTANTS=1: took {:?}", begun.elapsed()));
        }
        patient.mend();
    }
    assert!(failures.is_empty(), "{name}: {} of {count}:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn mutants_of_the_kernels_core_of_a_dotnet_process() {
    mutate("dotnet31-kernel");
}

#[test]
fn mutants_of_gdbs_core_of_a_dotnet_process() {
    mutate("dotnet31-gcore");
}

#[test]
fn mutants_of_createdumps_core_of_a_dotnet_process() {
    mutate("dotnet31-createdump");
}

#[test]
fn mutants_of_the_kernels_core_of_a_glibc_process() {
    mutate("native-glibc-kernel");
}

#[test]
fn mutants_of_gdbs_core_of_a_musl_process() {
    mutate("native-musl-gcore");
}

#[test]
fn mutants_of_qemus_core_of_an_aarch64_process() {
    mutate("native-aarch64-qemu");
}

#[test]
fn mutants_of_code_of_dotnet_3_1() {
    mutate_code("dotnet31-methods");
}

#[test]
fn mutants_of_code_of_dotnet_8() {
    mutate_code("dotnet8-methods");
}

#[test]
fn mutants_of_code_of_dotnet_9_without_metadata() {
    mutate_code("dotnet9-methods");
}

#[test]
fn mutants_of_code_of_dotnet_10() {
    mutate_code("dotnet10-methods");
}

#[test]
fn mutants_of_code_of_dotnet_10_without_metadata() {
    mutate_code("dotnet10-kernel-methods");
}

#[test]
fn a_patient_is_mended_to_what_it_was() {
    // Or each mutant would carry the damage of all before it.
    let mut patient = Patient::new("native-glibc-kernel");
    let whole = std::fs::read(patient.file.path()).unwrap();
    for seed in 0..20 {
        patient.damage(&mut Rng(seed));
        patient.cut(seed * 1000);
        assert!(std::fs::read(patient.file.path()).unwrap() != whole, "seed {seed} damages nothing");
        patient.mend();
    }
    assert!(std::fs::read(patient.file.path()).unwrap() == whole);
}
