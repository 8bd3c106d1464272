use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::addr::Addr;
use crate::analysis::place::place;
use crate::commands::scan_secrets::report::{SecretExampleRow, SecretKindRow, SecretRegionRow, SecretsReport};
use crate::diag::WarningCode;
use crate::limits;
use crate::map::{Confidence, Kind};
use crate::progress::Progress;
use crate::report::SecretKind;
use crate::search::secrets::{Distinct, SecretHit, SecretScan};
use crate::session::Session;
use crate::sums::SaturatingSum;
use crate::targets::at;
use crate::units::count;

/// Maximum number of examples of each kind of secret, and maximum number of these in one kind of region.
const EXAMPLES: usize = 5;
const EXAMPLES_EACH: u64 = 2;

/// Number of bytes that the suggested command shows.
const SHOWN_BYTES: u64 = 64;

/// Scans all dumped memory and the arguments in the notes for secrets. Counts the arguments and the environment of the
/// process.
pub fn scan_secrets(session: &Session<'_>, progress: &Progress) -> SecretsReport {
    session.process.target().expect_scan();
    let process = session.process;
    let map = session.map();
    let scan = SecretScan::default();
    let mut kinds: BTreeMap<SecretKind, Tally> = BTreeMap::new();
    // The arguments in NT_PRPSINFO, which is not memory. If the stack has them too, they count again there.
    let note = process.facts().process.as_ref().map(|info| info.args.as_str()).unwrap_or_default();
    for hit in scan.bytes(note.as_bytes()) {
        kinds.entry(hit.kind).or_default().add(&hit, None, None);
    }
    let found = scan.memory(process.target(), progress, |hit| {
        let kind = map.region_at(hit.address).map(|r| r.kind);
        kinds.entry(hit.kind).or_default().add(hit, kind, Some(hit.address));
    });
    if found.dropped > 0 {
        let what = format!(
            "{} were skipped: more than {} in 4 MiB of memory",
            count(found.dropped, "place"),
            limits::MAX_SECRETS
        );
        process.diag.partial(WarningCode::Limit, what);
    }
    let mut rows: Vec<SecretKindRow> = kinds.into_iter().map(|(kind, tally)| tally.row(session, kind)).collect();
    rows.extend(start(session, note));
    rows.sort_by_key(|row| (row.severity, row.kind));
    SecretsReport {
        total: rows.iter().map(|row| row.count).saturating_sum(),
        secrets: rows,
        scanned: found.scanned,
        start_known: process.strings().is_some(),
    }
}

#[derive(Default)]
struct Tally {
    count: u64,
    checked: u64,
    distinct: Distinct,
    regions: BTreeMap<Option<Kind>, u64>,
    examples: Vec<(SecretHit, Option<Kind>, Option<Addr>)>,
}

impl Tally {
    fn add(&mut self, hit: &SecretHit, kind: Option<Kind>, address: Option<Addr>) {
        self.count += 1;
        self.checked += u64::from(hit.checked);
        self.distinct.add(hit);
        let here = self.regions.entry(kind).or_default();
        *here += 1;
        if *here <= EXAMPLES_EACH && self.examples.len() < EXAMPLES {
            self.examples.push((*hit, kind, address));
        }
    }

    fn row(self, session: &Session<'_>, kind: SecretKind) -> SecretKindRow {
        let examples: Vec<SecretExampleRow> = self
            .examples
            .iter()
            .map(|(hit, kind, address)| {
                let region = address.and_then(|at| session.map().region_at(at));
                let detail = match (region, address) {
                    (Some(region), Some(at)) => place(session, region, *at),
                    _ => NOTE.to_owned(),
                };
                SecretExampleRow { address: *address, kind: *kind, detail, encoding: hit.encoding }
            })
            .collect();
        let first = examples.iter().find_map(|e| e.address);
        SecretKindRow {
            kind,
            severity: kind.severity(),
            confidence: if self.checked == self.count { Confidence::Derived } else { Confidence::Heuristic },
            count: self.count,
            checked: self.checked,
            distinct: self.distinct.count(),
            regions: regions(self.regions),
            examples,
            command: first.map_or_else(shown, |at| format!("coremap whatis --bytes {SHOWN_BYTES} {at} CORE")),
        }
    }
}

/// Detail of matches in the notes.
const NOTE: &str = "arguments in the core's notes (NT_PRPSINFO)";

fn shown() -> String {
    "coremap info --show-data CORE".to_owned()
}

fn regions(counts: BTreeMap<Option<Kind>, u64>) -> Vec<SecretRegionRow> {
    let mut rows: Vec<SecretRegionRow> =
        counts.into_iter().map(|(kind, count)| SecretRegionRow { kind, count }).collect();
    rows.sort_by_key(|row| Reverse(row.count));
    rows
}

/// Reports that arguments and environment are present, regardless of their contents.
fn start(session: &Session<'_>, note: &str) -> Vec<SecretKindRow> {
    let process = session.process;
    let stack = [at::EXECFN, at::RANDOM].into_iter().find_map(|key| process.auxv(key));
    let stack = stack.and_then(|at| session.map().region_at(Addr::new(at))).map(|region| region.kind);
    let row = |kind: SecretKind, all: Vec<&str>, place: Option<Kind>| {
        let count = all.len() as u64;
        let distinct = all.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
        (count > 0).then(|| SecretKindRow {
            kind,
            severity: kind.severity(),
            confidence: Confidence::Exact,
            count,
            checked: 0,
            distinct: Some(distinct),
            regions: vec![SecretRegionRow { kind: place, count }],
            examples: Vec::new(),
            command: shown(),
        })
    };
    let rows = match process.strings() {
        Some(strings) => [
            row(SecretKind::Environment, strings.environment.iter().map(String::as_str).collect(), stack),
            row(SecretKind::Argument, strings.args.iter().skip(1).map(String::as_str).collect(), stack),
        ],
        // NT_PRPSINFO has the first 79 bytes of the arguments, in one line.
        None => [None, row(SecretKind::Argument, note.split_ascii_whitespace().skip(1).collect(), None)],
    };
    rows.into_iter().flatten().collect()
}
