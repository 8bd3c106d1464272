//! The program as people and scripts use it: exit statuses, pipes, terminals,
//! standard input, and snapshots of what it prints.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::builder::{file_with, small_core};
use crate::support::cases::links;
use crate::support::real;
use crate::support::run::{Output, program, run};
use crate::support::terminal::shows;

const GLIBC: &str = "native-glibc-kernel.core.gz";
const CREATEDUMP: &str = "dotnet31-createdump.core.zst";
const PENDING: &str = "dotnet31-pending.core.xz";
const THREADS8: &str = "dotnet8-threads.core.zst";
const DOTNET31: &str = "dotnet31-methods.core.zst";
const DOTNET8: &str = "dotnet8-methods.core.zst";
const DOTNET10: &str = "dotnet10-kernel-methods.core.zst";

/// Run in a folder of the packed cores, so that paths are the same everywhere.
fn here(args: &[&str]) -> Output {
    let out = program(args).dir(links()).go();
    out.is_sound();
    out
}

/// What a person sees, both streams.
fn seen(args: &[&str]) -> String {
    let out = here(args);
    let mut text = format!("$ coremap {}\n{}", args.join(" "), out.stdout);
    if !out.stderr.is_empty() {
        text.push_str(&format!("--- stderr\n{}", out.stderr));
    }
    text.push_str(&format!("--- exit {}\n", out.code.unwrap()));
    text
}

/// Compared with tests/snapshots/cli__NAME.snap, whatever this module is a part of.
fn is_as_before(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!(format!("cli__{name}"), text));
}

/// One snapshot a test, under tests/snapshots; a change there is a change of
/// what people see and wants a reader's eyes.
macro_rules! snapshots {
    ($($name:ident: $($arg:expr),+;)+) => {
        $(#[test]
        fn $name() {
            is_as_before(stringify!($name), &seen(&[$($arg),+]));
        })+
    };
}

snapshots! {
    help: "--help";
    help_options: "help", "options";
    help_triage: "help", "triage";
    help_dump: "help", "dump";
    help_info: "info", "--help";
    help_summary: "summary", "--help";
    help_regions: "regions", "--help";
    help_maddress: "maddress", "--help";
    help_stacks: "stacks", "--help";
    help_threads: "threads", "--help";
    help_async: "async", "--help";
    help_heapstat: "heapstat", "--help";
    help_gcroot: "gcroot", "--help";
    help_retained: "retained", "--help";
    help_search: "search", "--help";
    help_whatis: "whatis", "--help";
    help_why: "why", "--help";
    help_refs: "refs", "--help";
    help_anon: "anon", "--help";
    help_ip2method: "ip2method", "--help";
    help_symbolicate: "symbolicate", "--help";
    help_perfmap: "perfmap", "--help";
    help_shrink: "shrink", "--help";
    help_export: "export", "--help";
    help_scan_secrets: "scan-secrets", "--help";
    help_diff: "diff", "--help";
    help_record: "record", "--help";
    help_trend: "trend", "--help";
    help_report: "report", "--help";
    help_check: "check", "--help";
    help_mcp: "mcp", "--help";
    help_shell: "shell", "--help";
    help_schema: "schema", "--help";
    help_completions: "completions", "--help";
    help_man: "man", "--help";
    error_no_such_schema: "schema", "man";
    glibc_info: "info", GLIBC;
    glibc_summary: "summary", GLIBC;
    glibc_summary_zero_fill: "summary", "--zero-fill", GLIBC;
    glibc_regions: "regions", GLIBC;
    glibc_regions_by_size: "regions", "--kind", "stack", "--kind", "StackGuard", "--sort", "size", GLIBC;
    glibc_maddress: "maddress", GLIBC;
    glibc_maddress_summary: "maddress", "--summary", GLIBC;
    glibc_stacks: "stacks", GLIBC;
    glibc_stacks_zero_fill: "stacks", "--zero-fill", GLIBC;
    glibc_threads: "threads", GLIBC;
    glibc_whatis_stack: "whatis", "--bytes", "48", "0x7fe744a0fdd0", GLIBC;
    glibc_whatis_module: "whatis", "libc.so.6+0x10", GLIBC;
    glibc_refs: "refs", "--region", "--limit", "12", "0x7fe744a0fdd0", GLIBC;
    glibc_anon: "anon", GLIBC;
    glibc_whatis_nothing: "whatis", "00007fe7`20000000", GLIBC;
    glibc_search: "search", "coremap-", "--limit", "12", "--context", GLIBC;
    glibc_scan_secrets: "scan-secrets", GLIBC;
    glibc_check: "check", GLIBC;
    glibc_to_musl_diff: "diff", GLIBC, "native-musl-gcore.core.lz4";
    createdump_info: "info", CREATEDUMP;
    createdump_summary: "summary", CREATEDUMP;
    createdump_summary_zero_fill: "summary", "--zero-fill", CREATEDUMP;
    createdump_finalizers: "finalizers", CREATEDUMP;
    createdump_syncblocks: "syncblocks", CREATEDUMP;
    createdump_handles_csv: "handles", "--format", "csv", CREATEDUMP;
    createdump_exceptions: "exceptions", CREATEDUMP;
    createdump_heapstat: "heapstat", "--generation", "gen2", CREATEDUMP;
    createdump_heapstat_loh_csv: "heapstat", "--generation", "loh", "--format", "csv", CREATEDUMP;
    createdump_retained: "retained", "--top", "5", CREATEDUMP;
    createdump_retained_object: "retained", "--object", "0x7f61f606c590", "--top", "5", CREATEDUMP;
    createdump_retained_csv: "retained", "--top", "3", "--format", "csv", CREATEDUMP;
    createdump_why: "why", "0x7f61f606c590", CREATEDUMP;
    createdump_why_type: "why", "--type", "^app", "--top", "2", CREATEDUMP;
    glibc_why_block: "why", "0x557a682b6b10", GLIBC;
    glibc_why_stack: "why", "0x7fe744a0fdd0", GLIBC;
    glibc_why_nothing: "why", "0x7fe720000000", GLIBC;
    createdump_gcroot_type: "gcroot", "--type", "^app", "--top", "4", CREATEDUMP;
    createdump_gcroot_type_csv: "gcroot", "--type", "^app", "--top", "2", "--format", "csv", CREATEDUMP;
    createdump_threads: "threads", "--managed", CREATEDUMP;
    createdump_threads_group: "threads", "--group", CREATEDUMP;
    createdump_threads_fold: "threads", "--fold", CREATEDUMP;
    pending_async: "async", PENDING;
    pending_async_csv: "async", "--format", "csv", PENDING;
    native_async: "async", GLIBC;
    dotnet8_stacks: "stacks", THREADS8;
    dotnet8_threads_managed_group: "threads", "--managed", "--group", THREADS8;
    createdump_stacks: "stacks", CREATEDUMP;
    createdump_stacks_zero_fill: "stacks", "--zero-fill", CREATEDUMP;
    dotnet31_ip2method: "ip2method", "0x7f3f270511a0", "0x7f3f26c61710", DOTNET31;
    dotnet8_ip2method: "ip2method", "0x7f8e3e84433c", "0x7f8e3e8317b9", "0x7f8e3dba9956", DOTNET8;
    dotnet8_ip2method_short: "ip2method", "--short", "0x7f8e3e84433c", "0x7f8e3e8317b9", "0x7f8e3dba9956", DOTNET8;
    dotnet10_without_metadata_ip2method: "ip2method", "0x7fb1dc4967b0", DOTNET10;
    dotnet10_without_metadata_perfmap: "perfmap", DOTNET10;
    glibc_ip2method_nothing: "ip2method", "0x7fe744a0fdd0", "0x10", GLIBC;
    error_no_such_command: "sumary", GLIBC;
    error_no_such_kind: "regions", "--kind", "heap", GLIBC;
    error_no_core: "summary", "truth.json";
    error_not_an_address: "whatis", "main", GLIBC;
}

#[test]
fn exit_statuses() {
    let core = real::plain("native-glibc-kernel");
    let core = core.to_str().unwrap();
    run(["summary", core]).exits(0);
    run(["--version"]).exits(0);
    run(["whatis", "0x7fe720000000", core]).exits(1);
    run(["search", "no such text anywhere in it", core]).exits(1);
    for wrong in [&["summary"][..], &["nonsense"], &[], &["summary", "--format", "xml", core], &["whatis", "zz", core]]
    {
        let out = run(wrong);
        out.exits(2);
        assert_eq!(out.stdout, "", "{wrong:?}");
        assert!(!out.stderr.is_empty(), "{wrong:?}");
    }
    run(["summary", "/does/not/exist"]).exits(3);
    let cut = file_with(&small_core().build()[..9000]);
    run(["summary", cut.path().to_str().unwrap()]).exits(4);
}

#[test]
fn a_condition_that_holds_is_status_1_and_a_sentence() {
    let gate = |condition: &str, code: i32| {
        let out = here(&["summary", "--zero-fill", "--json", "--fail-if", condition, GLIBC]);
        out.exits(code);
        let v: serde_json::Value = serde_json::from_str(&out.stdout).unwrap();
        let c = &v["conditions"][0];
        assert_eq!((&c["condition"], &c["holds"]), (&condition.into(), &(code == 1).into()), "{c}");
        assert_eq!(out.stderr.contains(condition), code == 1, "{}", out.stderr);
        // The figure is that of the row it names.
        let row = v["kinds"].as_array().unwrap().iter().find(|k| k["kind"] == "Stack").unwrap();
        assert_eq!(c["value"], row["written"]);
    };
    gate("stack.written>1KiB", 1);
    gate("STACK.written > 1 GiB", 0);
    let wrong = here(&["summary", "--fail-if", "heap.size>1", GLIBC]);
    wrong.exits(2);
    assert!(wrong.stderr.contains("kind 'heap'") && wrong.stderr.contains("GCHeap"), "{}", wrong.stderr);
    // What was read of a cut core is too much already: 1, with the warning; else 4.
    let cut = file_with(&small_core().build()[..9000]);
    let cut = cut.path().to_str().unwrap();
    let out = run(["summary", "--fail-if", "total.size>1", cut]);
    out.exits(1);
    assert!(out.stderr.contains("warning"), "{}", out.stderr);
    run(["summary", "--fail-if", "total.size==0", cut]).exits(4);
}

#[test]
fn a_summary_is_the_older_side_of_a_diff() {
    let base = file_with(here(&["summary", "--json", GLIBC]).stdout.as_bytes());
    let base = base.path().to_str().unwrap();
    let diff = |more: &[&str], core: &str| here(&[&["diff", "--json"], more, &[base, core]].concat());
    let same = diff(&["--fail-if", "total.delta>0%", "--fail-if", "threads.delta>0"], GLIBC);
    same.exits(0);
    let v: serde_json::Value = serde_json::from_str(&same.stdout).unwrap();
    assert!(v["kinds"].as_array().unwrap().iter().all(|k| k["delta"] == 0 && k["delta_count"] == 0), "{v}");
    assert!(v["types"].is_null() && v["malloc"].is_null());
    diff(&["--fail-if", "image.delta>0"], CREATEDUMP).exits(1);
    let swapped = here(&["diff", GLIBC, base]);
    swapped.exits(2);
    assert!(swapped.stderr.contains("coremap diff BASELINE CORE"), "{}", swapped.stderr);
    let other = file_with(here(&["info", "--json", GLIBC]).stdout.as_bytes());
    let out = here(&["diff", other.path().to_str().unwrap(), GLIBC]);
    out.exits(3);
    assert!(out.stderr.contains("info"), "{}", out.stderr);
}

#[test]
fn arguments_that_make_no_sense_get_a_sentence_that_helps() {
    for (args, order) in [
        (&["ip2method", GLIBC, "0x7fe744a0fdd0"][..], "coremap ip2method ADDR"),
        (&["objects", "--type", "(", GLIBC], "unclosed group"),
        (&["summary", "--fail-if", "stack.written>1", GLIBC], "--zero-fill"),
    ] {
        let out = here(args);
        out.exits(2);
        assert!(out.stderr.starts_with("coremap: "), "{}", out.stderr);
        assert!(out.stderr.contains(order), "{}", out.stderr);
        assert_eq!(out.stderr.lines().count(), 1, "{}", out.stderr);
    }
}

fn shell(script: &str) -> Output {
    // `$0` is the program, `$1` a core.
    let mut command = Command::new("sh");
    let core = real::plain("native-glibc-kernel");
    command.args(["-c", script, env!("CARGO_BIN_EXE_coremap")]).arg(core).stdin(Stdio::null());
    let out = command.output().unwrap();
    Output {
        code: out.status.code(),
        signal: None,
        stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
        took: std::time::Duration::ZERO,
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    // The search has more rows than any buffer.
    for command in ["regions", "regions --json", "search --format csv coremap-", "maddress", "summary", "info --json"] {
        // The reader is gone before the first byte; then after the first line.
        for reader in ["true", "head -n 1"] {
            let out = shell(&format!("( sleep 0.1; \"$0\" {command} \"$1\"; echo \"exit $?\" >&2 ) | {reader}"));
            assert_eq!(out.stderr, "exit 0\n", "{command} | {reader}");
        }
    }
}

#[test]
fn a_closed_or_full_stdout_is_no_panic() {
    for command in ["summary", "maddress", "regions --json"] {
        let out = shell(&format!("\"$0\" {command} \"$1\" >&-"));
        out.is_sound();
        let out = shell(&format!("\"$0\" {command} \"$1\" > /dev/full"));
        assert_eq!(out.exits(3).stderr.lines().count(), 1, "{command}: {}", out.stderr);
        assert_eq!(out.stderr, "coremap: the answer could not be written: No space left on device\n", "{command}");
        shell(&format!("\"$0\" {command} \"$1\" 2>&- > /dev/null")).exits(0);
    }
}

#[test]
fn completions_propose_kinds_generations_and_conditions() {
    let words = |shell: &str| here(&["completions", shell]).stdout;
    for shell in ["bash", "zsh", "fish"] {
        let text = words(shell);
        for value in ["StackGuard", "frozen", "gcheap.in_core", "gcheap.delta", "threads.count"] {
            assert!(text.contains(value), "{shell} has no {value}");
        }
    }
    // They are proposals: what is no name of a kind is a condition all the same, in any case of letters.
    here(&["summary", "--fail-if", "Stack.in_core>100GiB", GLIBC]).exits(0);
    here(&["regions", "--kind", "stackguard", GLIBC]).exits(0);
}

#[test]
fn help_that_cannot_be_written_is_told() {
    let out = shell("\"$0\" --help > /dev/full");
    assert_eq!(out.exits(3).stderr, "coremap: the answer could not be written: No space left on device\n");
    shell("\"$0\" --help 2>&- > /dev/null").exits(0);
}

#[test]
fn a_core_on_standard_input() {
    let plain = std::fs::read(real::plain("native-aarch64-qemu")).unwrap();
    let packed = std::fs::read(real::packed("native-aarch64-qemu")).unwrap();
    let want = run(["summary", "--json", real::plain("native-aarch64-qemu").to_str().unwrap()]).json();
    for bytes in [plain, packed] {
        let out = program(["summary", "--json", "-"]).input(bytes).go();
        let answer = out.exits(0).json();
        assert_eq!(answer["kinds"], want["kinds"]);
        assert_eq!(answer["core"]["path"], "-");
    }
    let out = program(["summary", "-"]).input(Vec::new()).go();
    assert!(out.exits(3).stderr.contains("empty"), "{}", out.stderr);
    run(["diff", "-", "-"]).exits(2);
}

/// What the program prints on a terminal of so many columns, or `None` where there
/// is nothing to make one with.
fn on_a_terminal(columns: u32, env: &str, command: &str) -> Option<String> {
    let core: PathBuf = real::plain("native-glibc-kernel");
    shows(columns, core.parent().unwrap(), &format!("{env} $coremap {command} '{}'", core.display()))
}

#[test]
fn a_narrow_terminal_cuts_names_and_never_numbers() {
    let Some(wide) = on_a_terminal(250, "NO_COLOR=1", "regions") else { return };
    let narrow = on_a_terminal(130, "NO_COLOR=1", "regions").unwrap();
    let table = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert!(table(&narrow).iter().all(|l| l.chars().count() <= 130), "{narrow}");
    assert!(narrow.contains('…') && !wide.contains('…'));
    // The columns before the names are the same.
    let numbers = |l: &String| l.split_whitespace().take(4).map(str::to_owned).collect::<Vec<_>>();
    let rows = |text: &str| table(text).iter().filter(|l| l.contains("0x")).map(numbers).collect::<Vec<_>>();
    assert_eq!(rows(&narrow), rows(&wide));
    // Prose is wrapped.
    let narrow = on_a_terminal(60, "NO_COLOR=1", "info").unwrap();
    let prose = narrow.lines().filter(|l| !l.contains("0x") && !l.contains("/tmp/lab/"));
    assert!(prose.clone().all(|l| l.chars().count() <= 60), "{narrow}");
}

#[test]
fn a_narrow_terminal_wraps_beside_titles() {
    let line = "$coremap ip2method 0x7f8e3e84433c dotnet8-methods.core.zst";
    let Some(text) = shows(60, links(), line) else { return };
    assert!(text.contains("Method Name:          System.Reflection."), "{text}");
    assert!(text.contains("\n                      System.Private.CoreLib]"), "{text}");
    assert!(text.contains("\n  ILCodeVersion:      0000000000000000\n  IL Addr:            "), "{text}");
}

#[test]
fn colour_only_on_a_terminal_and_only_where_wanted() {
    let Some(colour) = on_a_terminal(200, "env -u NO_COLOR", "summary") else { return };
    assert!(colour.contains('\u{1b}'), "{colour:?}");
    let plain = on_a_terminal(200, "NO_COLOR=1", "summary").unwrap();
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    // An empty NO_COLOR is none (no-color.org).
    assert!(on_a_terminal(200, "NO_COLOR=", "summary").unwrap().contains('\u{1b}'));
    let piped = run(["summary", real::plain("native-glibc-kernel").to_str().unwrap()]);
    assert!(!piped.stdout.contains('\u{1b}'));
    // What is asked for goes before both.
    assert!(!on_a_terminal(200, "env -u NO_COLOR", "--color never summary").unwrap().contains('\u{1b}'));
    assert!(on_a_terminal(200, "NO_COLOR=1", "summary --color always").unwrap().contains('\u{1b}'));
}

#[test]
fn marks_have_the_colour_of_their_severity() {
    let seen = here(&["threads", "--color", "always", "--managed", "--group", THREADS8]).stdout;
    assert!(seen.contains("\u{1b}[1;31m!!\u{1b}[0m Deadlock"), "{seen}");
    let seen = here(&["heapstat", "--color", "always", THREADS8]).stdout;
    assert!(seen.contains("\n\u{1b}[35m!\u{1b}[0m "), "{seen}");
    // Nothing else of it is changed, and JSON has none.
    let plain = here(&["threads", "--managed", "--group", THREADS8]).stdout;
    assert!(plain.contains("\n!! Deadlock") || plain.contains("!! Deadlock"), "{plain}");
    assert!(!here(&["summary", "--color", "always", "--json", GLIBC]).stdout.contains('\u{1b}'));
}

#[test]
fn warnings_go_to_stderr_and_the_result_to_stdout() {
    let cut = file_with(&small_core().build()[..12_000]);
    let out = run(["summary", "--json", cut.path().to_str().unwrap()]);
    out.exits(4);
    let codes: Vec<_> = out.json()["warnings"].as_array().unwrap().iter().map(|w| w["code"].to_string()).collect();
    assert!(codes.contains(&"\"truncated\"".to_owned()), "{codes:?}");
    assert!(out.stderr.starts_with("coremap: ") && out.stderr.lines().count() == 1, "{}", out.stderr);
    let all = run(["summary", "-v", cut.path().to_str().unwrap()]).stderr;
    assert!(all.lines().all(|l| l.starts_with("coremap: warning: ")), "{all}");
    assert_eq!(all.lines().count(), codes.len());
}
