//! What was resident: of cores with the smaps that was saved in the same stop, against the text of that and against which
//! pages pagemap said were in RAM, both read by other code than the program's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coremap::addr::{Addr, AddrRange};
use coremap::commands;
use coremap::commands::regions::RegionOptions;
use coremap::core::open::Core;
use coremap::diag::Diagnostics;
use coremap::process::Process;
use coremap::progress::Progress;
use coremap::range_map::RangeMap;
use coremap::resident::{smaps, status};
use coremap::session::Session;
use coremap::targets::residence::{CgroupFigures, KnownPages, PageRuns};
use serde_json::Value;

use crate::support::cases::{Case, case, serving};
use crate::support::real;
use crate::support::run::{Output, run};

/// The sum of a figure over a text of smaps, in bytes.
fn sum(text: &str, key: &str) -> u64 {
    let values = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    values.map(|value| value.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10).sum()
}

fn saved(case: &Case) -> (PathBuf, String) {
    let path = case.folder.join("smaps.txt");
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

#[track_caller]
fn ask(args: &[&str], smaps: &Path, core: &Path) -> Output {
    let words = args.iter().copied().chain(["--smaps", smaps.to_str().unwrap(), core.to_str().unwrap()]);
    run(words)
}

fn number(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("{v} is no number"))
}

#[test]
fn kinds_add_up_to_what_the_kernel_said() {
    for case in serving("resident") {
        let (path, text) = saved(case);
        for args in [&["summary", "--json"][..], &["summary", "--json", "--zero-fill"]] {
            let answer = ask(args, &path, &real::plain(&case.name)).exits(0).json();
            let kinds = answer["kinds"].as_array().unwrap();
            let of = |field: &str| kinds.iter().map(|kind| number(&kind[field])).sum::<u64>();
            let rss = &answer["rss"];
            assert_eq!(number(&rss["smaps"]), sum(&text, "Rss"), "{}", case.name);
            assert_eq!(number(&rss["kinds"]) + number(&rss["not_in_core"]), sum(&text, "Rss"), "{}", case.name);
            assert_eq!(of("rss"), number(&rss["kinds"]), "{}", case.name);
            // Both cores list every mapping that has anything resident.
            for (field, key) in [("rss", "Rss"), ("pss", "Pss"), ("private_dirty", "Private_Dirty"), ("swap", "Swap")] {
                assert_eq!(of(field), sum(&text, key), "{} {field}", case.name);
                assert_eq!(answer["total"][field], of(field), "{} {field}", case.name);
            }
            assert_eq!(of("shared"), sum(&text, "Shared_Clean") + sum(&text, "Shared_Dirty"));
            assert_eq!(of("huge"), sum(&text, "AnonHugePages"));
            assert!(of("huge") > 0, "{}: this machine gave no huge page when the core was made", case.name);
            assert_eq!(number(&rss["lazy_free"]), sum(&text, "LazyFree"));
            let told = |key: &str| text.lines().find(|line| line.starts_with(key)).map(|line| sum(line, key));
            assert_eq!(rss["vm_rss"].as_u64(), told("VmRSS"));
            assert_eq!(rss["page_tables"].as_u64(), told("VmPTE"));
            let vm_rss = i64::try_from(told("VmRSS").unwrap()).unwrap();
            assert_eq!(rss["difference"].as_i64(), Some(vm_rss - i64::try_from(of("rss")).unwrap()));
            assert_eq!(
                rss["oom"].as_u64(),
                Some(told("VmRSS").unwrap() + told("VmPTE").unwrap() + told("VmSwap").unwrap())
            );
            assert!(rss["cgroup"].is_null(), "no file of a control group was saved");
        }
    }
}

#[test]
fn without_smaps_nothing_is_known() {
    let core = real::plain("resident-kernel");
    for command in ["summary", "stacks", "regions"] {
        let answer = run([command, "--json", core.to_str().unwrap()]).exits(0).json();
        let rows = ["kinds", "stacks", "regions"].iter().find_map(|list| answer[*list].as_array()).unwrap();
        assert!(!rows.is_empty() && rows.iter().all(|row| row["rss"].is_null()), "{command}");
        assert!(command != "summary" || answer["rss"].is_null());
    }
}

/// Pages in RAM, as pagemap told them; with `of` "private" those of this process alone.
fn resident(case: &Case, of: &str) -> Vec<AddrRange> {
    let text = std::fs::read_to_string(case.folder.join("pages.json")).unwrap();
    let runs: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(runs["swapped"].as_array().map(Vec::len), Some(0), "a truth with swap needs more of this test");
    let run = |run: &Value| AddrRange::new(Addr::new(real::hex(&run[0])), Addr::new(real::hex(&run[1])));
    runs[of].as_array().unwrap().iter().map(run).collect()
}

fn within(pages: &[AddrRange], range: AddrRange) -> u64 {
    pages.iter().filter_map(|page| page.intersect(&range)).map(|part| part.len()).sum()
}

/// The core as a target that knows what was resident; by single pages too, if asked.
fn process(case: &Case, by_page: bool) -> Process {
    let diag = Diagnostics::default();
    let mut core = Core::open(&real::plain(&case.name), &diag, &Progress::silent()).unwrap();
    let text = saved(case).1;
    let mut residence = smaps::parse(text.as_bytes()).into_residence("saved".into());
    if by_page {
        let (pages, alone) = (resident(case, "resident"), resident(case, "private"));
        let known = residence.mappings.iter().map(|mapping| {
            let inside = |runs: &[AddrRange]| runs.iter().filter_map(|run| run.intersect(&mapping.range)).collect();
            let runs = PageRuns { resident: inside(&pages), private: Some(inside(&alone)), swapped: Vec::new() };
            KnownPages { range: mapping.range, runs }
        });
        residence.pages = Some(Arc::new(RangeMap::from_sorted(known.collect()).unwrap()));
    }
    residence.status = status::parse(text.as_bytes());
    residence.cgroup = Some(CgroupFigures {
        version: 2,
        current: Some(64 << 20),
        max: Some(128 << 20),
        anon: Some(40 << 20),
        file: Some(20 << 20),
        kernel: Some(3 << 20),
        ..CgroupFigures::default()
    });
    core.facts.residence = Some(Arc::new(residence));
    Process::of(Arc::new(core))
}

#[test]
fn by_page_every_kind_and_stack_has_what_is_there() {
    for case in serving("pages") {
        let (pages, alone) = (resident(case, "resident"), resident(case, "private"));
        let process = process(case, true);
        let session = Session::new(&process);
        let mut truth: BTreeMap<&str, u64> = BTreeMap::new();
        for region in session.map().regions.iter() {
            *truth.entry(region.kind.name()).or_default() += within(&pages, region.range);
        }
        let summary = commands::summary(&session, false, &Progress::silent());
        for kind in &summary.kinds {
            assert_eq!(kind.resident.rss, Some(truth[kind.kind.name()]), "{} {}", case.name, kind.kind);
            assert_eq!(kind.resident.rss_estimated, Some(0), "{} {}", case.name, kind.kind);
            let of_kind = || session.map().regions.iter().filter(|region| region.kind == kind.kind);
            let shared: u64 = of_kind().map(|r| within(&pages, r.range) - within(&alone, r.range)).sum();
            assert_eq!(kind.resident.shared, Some(shared), "{} {}", case.name, kind.kind);
        }
        let stacks = commands::stacks(&session, &Default::default(), false, &Progress::silent());
        assert!(stacks.stacks.len() >= 7, "{}", case.name);
        for stack in &stacks.stacks {
            let range = AddrRange::new(stack.low.unwrap(), stack.high.unwrap());
            assert_eq!(
                (stack.resident.rss, stack.resident.rss_estimated),
                (Some(within(&pages, range)), Some(0)),
                "{} {range}",
                case.name
            );
        }
        let sum = stacks.stacks.iter().filter_map(|stack| stack.resident.rss).sum::<u64>();
        assert_eq!((stacks.total.resident.rss, stacks.total.resident.rss_estimated), (Some(sum), Some(0)));
        let regions = commands::regions(&session, &RegionOptions::default(), &Progress::silent());
        for row in &regions.regions {
            let there = within(&pages, AddrRange::new(row.start, row.end));
            assert_eq!(
                (row.rss.unwrap_or(0), row.rss_estimated.unwrap_or(0)),
                (there, 0),
                "{} {}",
                case.name,
                row.start
            );
        }
    }
}

#[test]
fn of_smaps_alone_what_is_called_certain_is_there() {
    for case in serving("pages") {
        let pages = resident(case, "resident");
        let process = process(case, false);
        let session = Session::new(&process);
        let mut estimated = Vec::new();
        for zero_fill in [false, true] {
            let stacks = commands::stacks(&session, &Default::default(), zero_fill, &Progress::silent());
            for stack in &stacks.stacks {
                let range = AddrRange::new(stack.low.unwrap(), stack.high.unwrap());
                let certain = stack.resident.rss.unwrap() - stack.resident.rss_estimated.unwrap();
                assert!(certain <= within(&pages, range), "{} {range}", case.name);
            }
            // Where threads stand on them tells it here to the page, though that is no proof.
            for stack in stacks.stacks.iter().filter(|stack| stack.resident.rss_estimated != Some(0)) {
                let there = within(&pages, AddrRange::new(stack.low.unwrap(), stack.high.unwrap()));
                assert_eq!(stack.resident.rss, Some(there), "{} {:?}", case.name, stack.tid);
            }
            // Six stacks are one mapping: together all of it is theirs.
            let truth: u64 =
                stacks.stacks.iter().map(|s| within(&pages, AddrRange::new(s.low.unwrap(), s.high.unwrap()))).sum();
            assert_eq!(
                (stacks.total.resident.rss, stacks.total.resident.rss_estimated),
                (Some(truth), Some(0)),
                "{}",
                case.name
            );
            let summary = commands::summary(&session, zero_fill, &Progress::silent());
            for kind in &summary.kinds {
                let of_kind = session.map().regions.iter().filter(|region| region.kind == kind.kind);
                let there: u64 = of_kind.map(|region| within(&pages, region.range)).sum();
                let certain = kind.resident.rss.unwrap() - kind.resident.rss_estimated.unwrap();
                assert!(certain <= there, "{} {}", case.name, kind.kind);
            }
            estimated.push(summary.total.resident.rss_estimated.unwrap());
        }
        assert!(estimated[1] < estimated[0], "{}: the pages of a core tell closer: {estimated:?}", case.name);
    }
}

#[test]
fn the_control_group_is_told_by_its_parts() {
    let process = process(case("resident-kernel"), true);
    let summary = commands::summary(&Session::new(&process), false, &Progress::silent());
    let group = summary.rss.and_then(|rss| rss.cgroup).unwrap();
    assert_eq!((group.current, group.max, group.other), (Some(64 << 20), Some(128 << 20), Some(1 << 20)));
    assert_eq!((group.sock, group.peak), (None, None), "unknown, and not 0");
}

/// A changed copy of the saved text.
fn changed(case: &Case, change: impl FnOnce(String) -> String) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), change(saved(case).1)).unwrap();
    file
}

/// Warnings of an answer, by code.
fn warnings(answer: &Value) -> BTreeMap<String, String> {
    let list = answer["warnings"].as_array().unwrap();
    list.iter().map(|w| (w["code"].as_str().unwrap().into(), w["message"].as_str().unwrap().into())).collect()
}

#[test]
fn what_is_of_another_process_is_refused() {
    let case = case("resident-kernel");
    let other = ask(&["summary"], &saved(case).0, &real::plain("native-glibc-kernel"));
    other.exits(3);
    assert!(other.stderr.contains("is of another process: "), "{}", other.stderr);
    assert!(other.stdout.is_empty());
    let core = real::plain(&case.name);
    let maps = |text: String| {
        text.lines().filter(|l| l.contains(" 00:") || l.contains(" fe:")).fold(String::new(), |s, l| s + l + "\n")
    };
    let rollup = |_| "556dc7456000-7ffc5645e000 ---p 00000000 00:00 0 [rollup]\nRss:    7744 kB\n".to_owned();
    for (text, sentence) in [
        (changed(case, maps), "has mappings without figures, like /proc/PID/maps; save /proc/PID/smaps"),
        (changed(case, rollup), "is a smaps_rollup, which has only sums; save /proc/PID/smaps"),
        (changed(case, |_| String::new()), "has no mappings with an Rss"),
        (changed(case, |_| "\u{7f}ELF\0\0\n".repeat(99)), "has no mappings with an Rss"),
    ] {
        let out = ask(&["summary"], text.path(), &core);
        out.exits(3);
        assert!(out.stderr.contains(sentence), "{}", out.stderr);
    }
    let out = ask(&["summary"], Path::new("/nowhere/smaps"), &core);
    out.exits(3);
    assert!(out.stderr.contains("--smaps: /nowhere/smaps: No such file"), "{}", out.stderr);
}

#[test]
fn what_differs_from_the_core_is_told() {
    let case = case("resident-kernel");
    let core = real::plain(&case.name);
    let json =
        |text: &tempfile::NamedTempFile, code| ask(&["summary", "--json"], text.path(), &core).exits(code).json();
    // The heap is left out, and a mapping that the core lacks is there.
    let other = changed(case, |text| {
        let at = text.find("[heap]").unwrap();
        let (from, to) = (text[..at].rfind('\n').unwrap() + 1, at + text[at..].find("VmFlags").unwrap());
        let to = to + text[to..].find('\n').unwrap() + 1;
        let heap = text[from..to].to_owned();
        let (_, rest) = heap.split_once(' ').unwrap();
        let elsewhere = format!("556e10000000-556e10021000 {rest}");
        text.replace(&heap, &elsewhere)
    });
    let answer = json(&other, 0);
    let told = &warnings(&answer)["smaps-differs"];
    // [vsyscall] is where it is in every process.
    let all = saved(case).1.lines().filter(|line| line.starts_with("Size:")).count() - 1;
    assert!(told.starts_with(&format!("{} of {all} mappings of the core are in", all - 1)), "{told}");
    assert!(told.contains("the file alone has 1 other with 132.00 KiB resident"), "{told}");
    let rss = &answer["rss"];
    assert_eq!(number(&rss["not_in_core"]), 132 << 10);
    assert_eq!(number(&rss["kinds"]) + (132 << 10), number(&rss["smaps"]));
    // It ends in the midst of a mapping.
    let cut = changed(case, |text| text[..text.rfind("Private_Clean").unwrap()].to_owned());
    let answer = json(&cut, 4);
    assert!(warnings(&answer).contains_key("smaps-cut"));
    // Seen from outside a container.
    let outside = changed(case, |text| text.replacen("Pid:\t", "Pid:\t1", 1));
    assert!(warnings(&json(&outside, 0)).contains_key("smaps-pid"));
    // A kernel that does not tell swap and huge pages.
    let old = changed(case, |text| {
        let keep = |l: &&str| !["Swap", "AnonHuge", "Shmem", "File", "VmSwap"].iter().any(|key| l.starts_with(key));
        text.lines().filter(keep).fold(String::new(), |s, l| s + l + "\n")
    });
    let answer = json(&old, 0);
    assert!(answer["total"]["swap"].is_null() && answer["total"]["huge"].is_null() && answer["rss"]["oom"].is_null());
    assert!(answer["kinds"].as_array().unwrap().iter().all(|kind| kind["swap"].is_null() && kind["rss"].is_u64()));
    // VmRSS of another moment.
    let line = saved(case).1.lines().find(|line| line.starts_with("VmRSS:")).unwrap().to_owned();
    let kib = sum(&line, "VmRSS") >> 10;
    let less = |text: String| text.replacen(&line, &format!("VmRSS:\t{:>8} kB", kib - 44), 1);
    let later = changed(case, less);
    assert_eq!(json(&later, 0)["rss"]["counting"].as_i64(), Some(-44 << 10));
    let table = ask(&["summary"], later.path(), &core).exits(0).stdout.clone();
    assert!(table.contains("KiB is 44 KiB less: the kernel updates it in batches"), "{table}");
}

#[test]
fn a_limit_may_be_on_what_was_resident() {
    let case = case("resident-kernel");
    let core = real::plain(&case.name);
    let path = saved(case).0;
    ask(&["summary", "--fail-if", "total.rss>7MiB"], &path, &core).exits(1);
    ask(&["summary", "--fail-if", "stack.rss>50%"], &path, &core).exits(0);
    let without = run(["summary", "--fail-if", "total.rss>7MiB", core.to_str().unwrap()]);
    without.exits(2);
    assert!(without.stderr.contains("needs --smaps"), "{}", without.stderr);
}

#[test]
fn check_reckons_with_it() {
    let case = case("resident-gcore");
    let answer = ask(&["check", "--json"], &saved(case).0, &real::plain(&case.name)).exits(0).json();
    let invariants = answer["invariants"].as_array().unwrap();
    let resident = invariants.iter().find(|invariant| invariant["name"] == "resident").unwrap();
    assert_eq!(resident["ok"], true, "{resident}");
}
