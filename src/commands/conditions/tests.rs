use super::{Condition, Scope, judge_diff, judge_findings, judge_summary};
use crate::commands::diff::{CountDelta, DiffReport, DiffRow, DiffSide};
use crate::commands::summary::{BaseRow, KindRow, SummaryReport, TotalRow};
use crate::map::Kind;
use crate::report::{Finding, KindOrTotal, Resident, Severity};
use crate::targets::Producer;

const GIB: u64 = 1 << 30;

fn summary() -> SummaryReport {
    let stack = KindRow {
        kind: Kind::Stack,
        count: 4,
        size: GIB,
        in_core: GIB,
        largest: GIB / 2,
        zero: Some(GIB / 2),
        written: Some(GIB / 2),
        resident: Resident { rss: Some(GIB / 4), ..Resident::default() },
    };
    SummaryReport {
        kinds: vec![stack],
        total: TotalRow {
            count: 10,
            size: 4 * GIB,
            in_core: 2 * GIB,
            zero: Some(GIB),
            written: Some(GIB),
            resident: Resident { rss: Some(GIB), ..Resident::default() },
        },
        base: BaseRow { source: Producer::Kernel.lists(), size: 4 * GIB, in_core: 2 * GIB },
        rss: None,
        malloc: None,
        findings: Vec::new(),
        conditions: Vec::new(),
    }
}

fn holds(text: &str) -> bool {
    let c = Condition::parse(text, Scope::Summary).unwrap_or_else(|e| panic!("{text}: {e}"));
    judge_summary(&[c], &summary(), 300)[0].holds
}

/// GCHeap grew from 100 to 120, Malloc is new with 7, and AnonRW shrank from 10 to 4.
fn diff_holds(text: &str) -> bool {
    let row =
        |kind, old: u64, new: u64| DiffRow { kind, old, new, delta: new as i64 - old as i64, ..DiffRow::default() };
    let of = |kind, old, new| row(KindOrTotal::Kind(kind), old, new);
    let side = || DiffSide { path: String::new(), pid: None, producer: Producer::Kernel, threads: 0, truncated: false };
    let report = DiffReport {
        old: side(),
        new: side(),
        kinds: vec![of(Kind::GCHeap, 100, 120), of(Kind::Malloc, 0, 7), of(Kind::AnonRW, 10, 4)],
        total: row(KindOrTotal::Total, 110, 131),
        threads: CountDelta { old: 10, new: 15, delta: 5 },
        types: None,
        malloc: None,
        conditions: Vec::new(),
    };
    let c = Condition::parse(text, Scope::Diff).unwrap_or_else(|e| panic!("{text}: {e}"));
    judge_diff(&[c], &report)[0].holds
}

fn error(text: &str, scope: Scope) -> String {
    match Condition::parse(text, scope) {
        Ok(c) => panic!("{text} was taken: {c:?}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn sizes_are_held_to_the_byte() {
    assert!(holds("stack.size>=1GiB") && !holds("stack.size>1GiB"));
    assert!(holds("STACK.Size>1GB"), "1 GB is 1,000,000,000 bytes");
    assert!(holds("stack.size>1073741823") && !holds("stack.size>1073741824"));
    assert!(holds("stack.size==1073741824b"));
    assert!(holds(" stack.size <= 1024 MiB ") && !holds("stack.size<1024MiB"));
    assert!(holds("stack.written==0.5GiB") && holds("stack.zero>=512MiB"));
    assert!(holds("stack.largest<0.6GiB") && holds("total.in_core==2GiB"));
    assert!(holds("stack.count==4") && !holds("stack.count>4"));
    assert!(holds("threads.count>299") && !holds("threads.count>300"));
}

#[test]
fn percentages_of_a_summary_are_of_the_total_in_the_same_column() {
    assert!(holds("stack.size>=25%") && !holds("stack.size>25%"));
    assert!(holds("stack.in_core==50%") && holds("stack.count==40%"));
    assert!(holds("stack.written>49.99%") && !holds("stack.written>50.01%"));
}

#[test]
fn what_a_core_has_nothing_of_is_nothing() {
    assert!(!holds("malloc.size>0") && holds("malloc.size==0") && !holds("malloc.size>1%"));
}

#[test]
fn percentages_of_a_diff_are_of_the_older_core() {
    assert!(diff_holds("gcheap.delta>=20%") && !diff_holds("gcheap.delta>20%"));
    assert!(diff_holds("gcheap.delta>19.9%") && diff_holds("gcheap.new==120%"));
    // Growth from 0 exceeds every percentage.
    assert!(diff_holds("malloc.delta>1000%") && !diff_holds("stack.delta>0%"));
    assert!(diff_holds("anonrw.delta<-50%") && diff_holds("anonrw.delta==-6") && !diff_holds("anonrw.delta<-60%"));
    assert!(diff_holds("threads.delta>4") && diff_holds("threads.delta==50%"));
    assert!(diff_holds("total.delta>20b"));
}

#[test]
fn errors_tell_what_there_is() {
    let on = |text| error(text, Scope::Summary);
    assert!(on("heap.size>1").contains("GCHeap, ") && on("heap.size>1").contains("total, threads, "));
    assert!(on("stack.sizes>1").contains("size, in_core, written, zero, count, largest"));
    assert!(on("stack>1").contains("column is missing") && on("stack.size").contains("KIND.COLUMN"));
    assert!(on("stack.size=1").contains("==") && on("stack.size!=1").contains("=="));
    assert!(on("stack.size>1G").contains("GiB") && on("stack.size>much").contains("1GiB"));
    assert!(on("stack.count>1MiB").contains("is a count"));
    assert!(on("total.size>50%").contains("the total itself") && on("threads.count>50%").contains("percentage"));
    assert!(on("total.largest>1").contains("total has"));
    for bad in ["stack.size>", "stack.size>1.", "stack.size>.5", "stack.size>1e9", "stack.size>--1", "stack.size>1 2"] {
        on(bad);
    }
    on("stack.size>99999999999999999999999999999999999999999999");
    assert!(error("stack.written>1", Scope::Diff).contains("old, new, delta"));
    assert!(error("threads.count>1", Scope::Diff).contains("old, new, delta"));
}

#[test]
fn reasons_are_words() {
    let of = |text| {
        let c = Condition::parse(text, Scope::Summary).unwrap_or_else(|e| panic!("{e}"));
        judge_summary(&[c], &summary(), 300).remove(0)
    };
    assert_eq!(of("stack.written>1MiB").text, "Stack written is 512.00 MiB (536,870,912 bytes): more than 1MiB");
    let share = of("stack.size>20%");
    assert_eq!(
        share.text,
        "Stack size is 1.00 GiB (1,073,741,824 bytes), 25.0 % of the total (4,294,967,296): more than 20%"
    );
    assert_eq!((share.value, share.whole), (1 << 30, Some(4 << 30)));
    assert_eq!(of("threads.count>200").text, "threads: count is 300: more than 200");
}

#[test]
fn a_finding_is_there_or_not() {
    let findings = [Finding::new("deadlock", Severity::Critical, "two threads wait", "locks").about(3)];
    let judged = |text: &str| {
        let c = Condition::parse(text, Scope::Triage).unwrap_or_else(|e| panic!("{text}: {e}"));
        let row = judge_findings(&[c], &findings).remove(0);
        (row.holds, row.value, row.text)
    };
    assert_eq!(judged("finding=deadlock"), (true, 3, "two threads wait".to_owned()));
    assert_eq!(judged("finding=Stack-Overflow"), (false, 0, "no finding 'stack-overflow'".to_owned()));
    assert!(
        error("finding=nothing", Scope::Triage)
            .contains("the findings are alike-tasks, allocation-sites, allocator, anonymous")
    );
    assert!(error("stack.size>1", Scope::Triage).contains("finding=NAME"));
    assert!(error("finding=deadlock", Scope::Diff).contains("unknown comparison"));
    let report = SummaryReport { findings: findings.to_vec(), ..summary() };
    let c = Condition::parse("finding=deadlock", Scope::Summary).unwrap_or_else(|e| panic!("{e}"));
    assert!(judge_summary(&[c], &report, 1)[0].holds);
}
