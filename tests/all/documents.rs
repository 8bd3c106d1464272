//! Documents for users against the table of commands.
//!
//! docs/commands.md is generated: `COREMAP_UPDATE_DOCS=1 cargo test --test all -- documents::` writes it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use coremap::commands::named;
use coremap::commands::triage::RANKING;
use coremap::report::FINDING_IDS;
use regex::Regex;

use crate::support::run::run;

const DOCUMENTS: [&str; 2] = ["README.md", "docs/guide.md"];

/// The first group that matched, of each match of `pattern`.
fn words<'t>(text: &'t str, pattern: &str) -> BTreeSet<&'t str> {
    let found = Regex::new(pattern).unwrap();
    let groups = found.captures_iter(text).filter_map(|c| c.iter().skip(1).flatten().next());
    groups.map(|group| group.as_str()).collect()
}

fn path(document: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(document)
}

fn read(document: &str) -> String {
    std::fs::read_to_string(path(document)).unwrap()
}

#[test]
fn the_reference_of_commands_is_generated() {
    let now = run(["man", "--markdown"]).exits(0).stdout.clone();
    if std::env::var_os("COREMAP_UPDATE_DOCS").is_some() {
        std::fs::write(path("docs/commands.md"), now).unwrap();
        return;
    }
    let differs = now != read("docs/commands.md");
    assert!(!differs, "docs/commands.md is not as generated; COREMAP_UPDATE_DOCS=1 writes it");
}

#[test]
fn no_unknown_command_is_named() {
    for document in DOCUMENTS {
        let text = read(document);
        let told =
            words(&text, r"`coremap ([a-z][a-z0-9-]*)|(?m)^\$ coremap ([a-z][a-z0-9-]*)|^\*\*([a-z][a-z0-9-]*)[ *]");
        let unknown: Vec<_> = told.into_iter().filter(|&name| name != "help" && named(name).is_none()).collect();
        assert!(unknown.is_empty(), "{document}: unknown {unknown:?}");
    }
}

#[test]
fn every_finding_is_documented() {
    let rows: String = FINDING_IDS.iter().map(|(id, says)| format!("| `{id}` | {says} |\n")).collect();
    let text = read("docs/causes.md");
    assert!(text.contains(&format!("|---|---|\n{rows}")), "docs/causes.md must have this table:\n{rows}");
    let rank = |(at, (_, name, why)): (usize, &(_, &str, &str))| format!("| {} | {name} | {why} |\n", at + 1);
    let rows: String = RANKING.iter().enumerate().map(rank).collect();
    assert!(text.contains(&format!("|---|---|---|\n{rows}")), "docs/causes.md must have this table:\n{rows}");
}
