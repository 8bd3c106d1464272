//! Documents for users against the table of commands.

use std::collections::BTreeSet;

use coremap::commands::{COMMANDS, Group, named};
use coremap::report::FINDING_IDS;
use regex::Regex;

const DOCUMENTS: [&str; 2] = ["README.md", "docs/guide.md"];

/// What each match of `pattern` has in its first group that is there.
fn words<'t>(text: &'t str, pattern: &str) -> BTreeSet<&'t str> {
    let found = Regex::new(pattern).unwrap();
    let groups = found.captures_iter(text).filter_map(|c| c.iter().skip(1).flatten().next());
    groups.map(|group| group.as_str()).collect()
}

fn read(document: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(document)).unwrap()
}

#[test]
fn every_command_is_named() {
    for document in DOCUMENTS {
        let text = read(document);
        let told = words(&text, r"[`*]([a-z0-9-]+)[`* ]|`coremap ([a-z0-9-]+)|(?m)^\$ coremap ([a-z0-9-]+)");
        let missing: Vec<_> = COMMANDS.iter().map(|c| c.name).filter(|name| !told.contains(name)).collect();
        assert!(missing.is_empty(), "{document} has nothing of {missing:?}");
    }
}

#[test]
fn no_other_command_is_named() {
    for document in DOCUMENTS {
        let text = read(document);
        let told =
            words(&text, r"`coremap ([a-z][a-z0-9-]*)|(?m)^\$ coremap ([a-z][a-z0-9-]*)|^\*\*([a-z][a-z0-9-]*)[ *]");
        let unknown: Vec<_> = told.into_iter().filter(|&name| name != "help" && named(name).is_none()).collect();
        assert!(unknown.is_empty(), "{document}: there is no {unknown:?}");
    }
}

#[test]
fn findings_are_told_by_their_names() {
    let rows: String = FINDING_IDS.iter().map(|(id, says)| format!("| `{id}` | {says} |\n")).collect();
    let text = read("docs/findings.md");
    assert!(text.contains(&format!("|---|---|\n{rows}")), "docs/findings.md is to have this table:\n{rows}");
}

#[test]
fn commands_stand_in_the_groups_of_the_help() {
    for document in DOCUMENTS {
        let text = read(document);
        for group in Group::ALL {
            let names: Vec<String> =
                COMMANDS.iter().filter(|c| c.group == group).map(|c| format!("`{}`", c.name)).collect();
            let line = format!("- {}: {}", group.name(), names.join(", "));
            assert!(text.lines().any(|l| l == line), "{document} has no line '{line}'");
        }
    }
}
