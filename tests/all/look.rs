//! Tables on terminals of 80 and 200 columns, with colour and without.

use crate::support::commands::{
    CREATEDUMP, GLIBC, KERNEL10, MALLOC, OBJECTS, PENDING, RUNS, SERVER, THREADS, unpacked,
};
use crate::support::run::program;
use crate::support::terminal::shows;
use unicode_width::UnicodeWidthStr;

fn show(columns: u32, command: &str, core: &str) -> Option<String> {
    shows(columns, &unpacked(&[core]), &format!("NO_COLOR=1 $coremap {command} {core} 2> /dev/null"))
}

#[test]
fn no_line_of_a_table_is_wider_than_the_terminal() {
    for columns in [80, 200] {
        for args in RUNS.iter().filter(|r| r.table).map(|r| r.args) {
            let line = format!("NO_COLOR=1 $coremap {} 2> /dev/null", args.join(" "));
            let Some(text) = shows(columns, &unpacked(args), &line) else { return };
            assert!(text.lines().count() > 2, "{args:?}: {text}");
            let over: Vec<&str> = text.lines().filter(|l| l.width() > columns as usize).collect();
            assert!(over.is_empty(), "{args:?} at {columns}: {over:#?}");
        }
    }
}

#[test]
fn what_a_thread_waits_in_and_for_whom_is_read_at_80_columns() {
    for command in ["stacks", "stacks --zero-fill"] {
        let Some(text) = show(80, command, THREADS) else { return };
        let parks = text.lines().filter(|l| l.contains("Thread.Sleep ← Lab.Sleepers.Doze")).count();
        // One line in the list of stacks at the least, one in that of groups.
        assert!(parks >= 2, "{command}: {text}");
        // Where it is cut, both ends are there.
        let cut = text.lines().filter_map(|l| l.split_once('…'));
        let mut seen = 0;
        for (before, after) in cut {
            assert!(before.ends_with(|c: char| !c.is_whitespace()) && !after.is_empty(), "{before}…{after}");
            seen += 1;
        }
        assert!(seen > 0, "{command}: nothing is cut, so nothing was checked");
    }
    // With room for it nothing is cut, and no column is left out.
    let wide = show(200, "stacks", THREADS).unwrap();
    assert!(!wide.contains('…') && wide.contains("Guard") && wide.contains("Confidence"), "{wide}");
}

#[test]
fn the_address_of_a_value_is_never_cut() {
    let Some(text) = show(80, "object 0x7f4e2cc08dd0", OBJECTS) else { return };
    let at =
        |field: &str| text.lines().find(|l| l.starts_with(&format!("{field} "))).unwrap_or_else(|| panic!("{text}"));
    assert!(at("Text").contains(" 0x7f8e2da01be8 \"all types"), "{text}");
    assert!(at("Boxed").contains(" 0x7f4e2cc08f10 System.Int32 4711"), "{text}");
    // A GUID is one word, whole.
    let guid = at("Id").split_whitespace().nth(1).unwrap();
    assert_eq!(guid.len(), 36, "{text}");
}

#[test]
fn the_text_around_a_hit_shows_the_hit() {
    let Some(text) = show(80, "search --context coremap-", GLIBC) else { return };
    let hits: Vec<&str> = text.lines().filter(|l| l.starts_with("0x") && !l.contains("utf16")).collect();
    assert!(!hits.is_empty());
    let without: Vec<&&str> = hits.iter().filter(|l| !l.contains("coremap-")).collect();
    assert!(without.is_empty(), "{without:#?}");
}

#[test]
fn the_map_in_the_words_of_sos_keeps_its_frame() {
    for columns in [80, 100, 131, 160, 200] {
        let Some(text) = show(columns, "maddress", SERVER) else { return };
        let mut width = None;
        for line in text.lines().take_while(|l| !l.is_empty()) {
            assert!(line.starts_with(" |") || line.starts_with(" +"), "{line}");
            assert!(line.ends_with('|') || line.ends_with('+'), "{line}");
            assert_eq!(*width.get_or_insert(line.width()), line.width(), "{columns}: {line}");
        }
        assert!(width.unwrap() <= columns as usize);
        // The sums are the same on every terminal.
        assert!(text.contains("| [TOTAL] "), "{text}");
    }
    let pipe = program(["maddress", SERVER]).dir(&unpacked(&[SERVER])).go().stdout;
    assert!(pipe.lines().nth(1).unwrap().contains("| State       | Protect "), "a pipe has every column");
    assert!(pipe.contains("/libcoreclr.so "), "and whole paths");
}

#[test]
fn sentences_on_stderr_are_broken_between_words() {
    let Some(text) = shows(80, &unpacked(&[KERNEL10]), &format!("$coremap stacks -v {KERNEL10} 2>&1 > /dev/null"))
    else {
        return;
    };
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() > 3 && lines.iter().all(|l| l.width() <= 80), "{lines:#?}");
    assert!(lines.iter().all(|l| l.starts_with("coremap: ") || l.starts_with("  ")), "{lines:#?}");
    // In a pipe each is one line, for programs that read them.
    let piped = program(["stacks", "-v", KERNEL10]).dir(&unpacked(&[KERNEL10])).go().stderr;
    assert!(piped.lines().all(|l| l.starts_with("coremap: ")), "{piped}");
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), piped.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn colour_adds_nothing_but_colour() {
    // Bold, two colours of marks and their end are all there is: readable on any background.
    let bare = regex::Regex::new("\u{1b}\\[(?:0|1|31|33)m").unwrap();
    for (columns, command, core) in [
        (80, "stacks", THREADS),
        (200, "summary --zero-fill", CREATEDUMP),
        (200, "malloc", MALLOC),
        (80, "regions", SERVER),
    ] {
        let Some(plain) = show(columns, command, core) else { return };
        let colour = shows(columns, &unpacked(&[core]), &format!("$coremap {command} {core} 2> /dev/null")).unwrap();
        assert!(colour.contains("\u{1b}[1m"), "{command}: {colour:?}");
        assert_eq!(bare.replace_all(&colour, ""), plain, "{command}");
    }
}

#[test]
fn what_is_not_known_of_malloc_is_not_zero() {
    // A core with the pages of async chains only: none of malloc's structures are in it.
    let text = program(["summary", PENDING]).dir(&unpacked(&[PENDING])).go().stdout;
    let json = program(["summary", "--json", PENDING]).dir(&unpacked(&[PENDING])).go().json();
    assert_eq!(
        (&json["malloc"]["used"], &json["malloc"]["free"]),
        (&0.into(), &0.into()),
        "another case is needed here"
    );
    assert!(text.contains("\nMalloc: usage of ") && !text.contains("used 0"), "{text}");
}

#[test]
fn sums_of_a_table_are_those_above_it() {
    let Some(text) = show(200, "malloc", MALLOC) else { return };
    let total = text.lines().find(|l| l.starts_with("[TOTAL]")).unwrap();
    let cells: Vec<&str> = total.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
    let head = text.lines().find(|l| l.contains(": used ")).unwrap();
    assert!(head.starts_with(&format!("{} (", cells[1])), "{head}\n{total}");
    assert!(head.contains(&format!("used {} in", cells[2])), "{head}\n{total}");
    assert!(head.contains(&format!("free {} in", cells[3])), "{head}\n{total}");
    let json = program(["malloc", "--json", MALLOC]).dir(&unpacked(&[MALLOC])).go().json();
    let mapped = json["mmapped"]["count"].as_u64().unwrap();
    assert!(mapped > 0, "no mmapped chunk, so nothing was checked");
    assert!(text.lines().any(|l| l.starts_with("(mmapped) ") && l.contains(&format!(" {mapped} "))), "{text}");
}

/// Shares have bars on a terminal, and nowhere else; colours are those that can be read on light and dark.
#[test]
fn shares_have_bars_on_a_terminal_alone() {
    let core = unpacked(&[OBJECTS]);
    for columns in [80, 120, 200] {
        for command in ["summary", "triage"] {
            let shown =
                |flags: &str| shows(columns, &core, &format!("$coremap {flags} {command} {OBJECTS} 2> /dev/null"));
            let Some(text) = shown("") else { return };
            assert!(text.contains('█'), "{command} at {columns}: {text}");
            for yellow_or_white in ["\x1b[33m", "\x1b[37m", "\x1b[93m", "\x1b[97m"] {
                assert!(!text.contains(yellow_or_white), "{text}");
            }
            let plain = shown("--color never").unwrap();
            assert!(!plain.contains(['█', '▏', '\x1b']), "{command} at {columns}: {plain}");
        }
    }
    let piped = shows(80, &core, &format!("$coremap --color always summary {OBJECTS} 2> /dev/null | cat"));
    assert!(piped.is_some_and(|text| text.contains("\x1b[1m") && !text.contains(['█', '▏'])));
}

#[test]
fn names_of_types_are_cut_in_the_middle() {
    let Some(text) = show(80, "heapstat", OBJECTS) else { return };
    let cut: Vec<&str> = text.lines().filter(|l| l.contains('…')).collect();
    assert!(!cut.is_empty(), "{text}");
    assert!(cut.iter().all(|l| !l.ends_with('…') && !l.contains("  …")), "{cut:#?}");
}
