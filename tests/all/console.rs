//! The documents' `console` blocks are run, each in a shell in the repository's root, and what a `$` line
//! prints on stdout is compared with what stands below it. There a line `…` stands for any number of lines, and
//! `…` in a line for any text. What commands write they write below `$TMPDIR`.
//!
//! `COREMAP_UPDATE_DOCS=1 cargo test --profile checks --test all -- console::` writes what was printed into the documents, and
//! keeps their `…` where the line that follows is still to be found. Read the difference before you commit it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use snapbox::Data;
use snapbox::filter::NormalizeToExpected;

use crate::support::run::console;

/// Behind what each command printed.
const END: char = '\u{1e}';

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|file| file.unwrap().path());
    let mut all: Vec<PathBuf> = docs.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    all.extend(["README.md", "CHANGELOG.md", "testdata/README.md"].map(|name| root.join(name)));
    all.sort();
    all
}

/// A fenced block of a document.
struct Block {
    language: String,
    /// Of its fence, as in a list.
    indent: usize,
    /// Its lines between the fences, by number from 0.
    lines: Range<usize>,
}

fn blocks(lines: &[&str]) -> Vec<Block> {
    let fence = |line: &str| line.trim_start().strip_prefix("```").map(str::to_owned);
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (at, line) in lines.iter().enumerate() {
        match (fence(line), open.take()) {
            (Some(_), Some(block)) => found.push(Block { lines: block.lines.start..at, ..block }),
            (Some(language), None) => {
                let indent = line.len() - line.trim_start().len();
                open = Some(Block { language, indent, lines: at + 1..at + 1 });
            }
            (None, block) => open = block,
        }
    }
    assert!(open.is_none(), "a block that does not end");
    found
}

/// A `$` line of a block, without the `$`, and what stands below it.
struct Shown {
    command: String,
    answer: String,
}

fn shown(block: &Block, lines: &[&str]) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    for line in &lines[block.lines.clone()] {
        let line = line.get(block.indent..).unwrap_or_default();
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push(Shown { command: command.to_owned(), answer: String::new() }),
            (None, Some(last)) => last.answer.extend([line, "\n"]),
            (None, None) => panic!("a console block begins with `{line}`, which is no command"),
        }
    }
    all.into_iter().map(|s| Shown { answer: trimmed(&s.answer), ..s }).collect()
}

fn trimmed(text: &str) -> String {
    match text.trim_end_matches('\n') {
        "" => String::new(),
        text => format!("{text}\n"),
    }
}

/// What the commands print, run one behind the other in one shell.
fn printed(all: &[Shown]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    // The next command sees the status of the one before.
    let script: String =
        all.iter().map(|s| format!("{}\nstatus=$?; printf '\\036'; (exit $status)\n", s.command)).collect();
    let out = console(&script, folder.path()).go();
    assert!(!out.stderr.contains("panicked"), "{script}{}", out.stderr);
    // Readers see no folder's name that is another with each run.
    let stdout = out.stdout.replace(folder.path().to_str().unwrap(), "/tmp");
    let answers: Vec<String> = stdout.split_terminator(END).map(trimmed).collect();
    assert_eq!(answers.len(), all.len(), "{script}{}", out.stderr);
    answers
}

/// Our marks of what was left out, as snapbox has them.
fn pattern(answer: &str) -> String {
    let lines = answer.lines().map(|line| if line == "…" { "...\n".into() } else { line.replace('…', "[..]") + "\n" });
    lines.collect()
}

/// `actual` with what the pattern leaves out left out, as far as it fits.
fn like(expected: &str, actual: &str) -> String {
    NormalizeToExpected::new().redact().normalize(Data::text(actual), &Data::text(expected)).render().unwrap()
}

fn unmarked(pattern: &str) -> String {
    let lines = pattern.lines().map(|line| if line == "..." { "…\n".into() } else { line.replace("[..]", "…") + "\n" });
    lines.collect()
}

/// What a line begins with, whatever its figures.
fn beginning(line: &str) -> String {
    let word = line.split_whitespace().next().unwrap_or_default();
    if word.starts_with("--") { "--".to_owned() } else { word.replace(|c: char| c.is_ascii_digit(), "") }
}

/// The pattern with the lines that end a gap as they are now: else everything from the gap on would be shown.
fn ends_of_gaps(pattern: &str, actual: &str) -> String {
    let mut lines: Vec<String> = pattern.lines().map(str::to_owned).collect();
    for at in 1..lines.len() {
        let alike = |line: &&str| beginning(line) == beginning(&lines[at]);
        let gone = lines[at - 1] == "..." && !actual.lines().any(|line| like(&lines[at], line) == lines[at]);
        let found = if lines[at..].iter().any(|line| line == "...") {
            actual.lines().find(alike)
        } else {
            actual.lines().rfind(alike)
        };
        if let (true, Some(line)) = (gone, found) {
            lines[at] = line.to_owned();
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The document as it should be, and what in it is not as printed.
fn as_printed(text: &str) -> (String, Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    let (mut out, mut wrong) = (Vec::new(), Vec::new());
    let mut after = 0;
    for block in blocks(&lines).into_iter().filter(|b| b.language == "console") {
        let all = shown(&block, &lines);
        let indent = " ".repeat(block.indent);
        out.extend(lines[after..block.lines.start].iter().map(|&line| line.to_owned()));
        for (one, actual) in all.iter().zip(printed(&all)) {
            out.push(format!("{indent}$ {}", one.command));
            let expected = pattern(&one.answer);
            let now = if like(&expected, &actual) == expected {
                one.answer.clone()
            } else {
                let now = unmarked(&like(&ends_of_gaps(&expected, &actual), &actual));
                wrong.push(format!("line {}: $ {}\n{now}", block.lines.start + 1, one.command));
                now
            };
            out.extend(now.lines().map(|line| if line.is_empty() { String::new() } else { format!("{indent}{line}") }));
        }
        after = block.lines.end;
    }
    out.extend(lines[after..].iter().map(|&line| line.to_owned()));
    (out.join("\n") + "\n", wrong)
}

#[test]
fn blocks_show_what_the_program_prints() {
    let update = std::env::var_os("COREMAP_UPDATE_DOCS").is_some();
    let mut wrong = Vec::new();
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        let (now, stale) = as_printed(&text);
        if update && !stale.is_empty() {
            std::fs::write(&path, now).unwrap();
        }
        wrong.extend(stale.iter().map(|s| format!("{}, block at {s}", path.display())));
    }
    assert!(update || wrong.is_empty(), "{}\nCOREMAP_UPDATE_DOCS=1 writes it so", wrong.join("\n"));
}

#[test]
fn nothing_that_looks_run_is_not() {
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for block in blocks(&lines).iter().filter(|b| b.language != "console") {
            let not_run = lines[block.lines.clone()].iter().find(|line| line.trim_start().starts_with("$ coremap"));
            assert!(not_run.is_none(), "{}: no console block has {not_run:?}", path.display());
        }
    }
}

#[test]
fn a_block_that_lies_is_noticed_and_keeps_its_gaps() {
    let document = |answer: &str| {
        format!(
            "Text\n\n   ```console\n   $ printf 'a 1\\nb 2\\nc 3\\nd 4\\n'\n{answer}   $ echo $?\n   0\n   ```\nmore\n"
        )
    };
    for good in ["   a 1\n   …\n   d 4\n", "   …\n   c …\n   …\n", "   a 1\n   b 2\n   c 3\n   d 4\n"] {
        let (now, wrong) = as_printed(&document(good));
        assert_eq!((now, wrong.len()), (document(good), 0), "{good}: {wrong:?}");
    }
    let (now, wrong) = as_printed(&document("   a 7\n   …\n   d 5\n"));
    assert_eq!((now, wrong.len()), (document("   a 1\n   …\n   d 4\n"), 1));
    let (_, wrong) = as_printed(&document("   a 1\n   b 2\n   c 3\n"));
    assert_eq!(wrong.len(), 1, "a line that is missing, and no `…`");
    let (_, wrong) = as_printed("```console\n$ (exit 3)\n$ echo $?\n0\n```\n");
    assert_eq!(wrong.len(), 1, "another status");
}
