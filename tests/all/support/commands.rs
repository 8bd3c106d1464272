//! Every command of the program once, and runs of them on the recorded cores. They serve all tests that cover every
//! command: CSV, schema, tables, damaged cores, cores without a runtime.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use coremap::commands::Subject;
use serde_json::Value;

use super::real;
use super::run::{Output, program};

/// A command, and how the tests run it.
#[derive(Debug)]
pub struct Command {
    pub name: &'static str,
    pub subject: Subject,
    /// Options and arguments before the core with which it can be run on any core.
    pub asked: &'static [&'static str],
    /// Whether it is run on each hostile core. The other commands read nothing that one of these does not.
    pub hostile: bool,
}

/// `asked` and `hostile` of each command.
pub const EXAMPLES: &[(&str, &[&str], bool)] = &[
    ("triage", &[], true),
    ("explore", &[], false),
    ("top", &[], false),
    ("shell", &[], false),
    ("info", &[], true),
    ("summary", &["--zero-fill"], true),
    ("regions", &[], true),
    ("maddress", &[], true),
    ("stacks", &["--zero-fill"], true),
    ("threads", &[], true),
    ("stackobjects", &[], false),
    ("async", &[], false),
    ("threadpool", &[], false),
    ("requests", &[], false),
    ("timers", &[], false),
    ("heap", &["--loader"], false),
    ("heapstat", &["--strings"], true),
    ("allocations", &[], false),
    ("objects", &["--type", "."], false),
    ("object", &["0x400000"], false),
    ("gcroot", &["--type", "."], true),
    ("retained", &[], true),
    ("collections", &[], true),
    ("handles", &[], false),
    ("finalizers", &[], false),
    ("syncblocks", &[], false),
    ("exceptions", &[], false),
    ("malloc", &[], false),
    ("search", &["marker"], true),
    ("whatis", &["0x400000"], true),
    ("why", &["0x400000"], true),
    ("refs", &["0x400000"], false),
    ("leaks", &[], false),
    ("holders", &[], false),
    ("anon", &[], false),
    ("ip2method", &["0x400000", "0", "ffffffffffffffff"], true),
    ("symbolicate", &[FRAMES], true),
    ("perfmap", &[], true),
    ("diff", &[GLIBC], false),
    ("record", &["-o", NEW], false),
    ("trend", &["--every", "10m"], false),
    ("dump", &["-o", NEW], false),
    ("report", &["-o", NEW], false),
    ("export", &["--to", "gcdump", "-o", NEW], false),
    ("shrink", &["-o", NEW], false),
    ("scan-secrets", &[], true),
    ("check", &[], true),
    ("mcp", &["--root", "."], false),
    ("schema", &[], false),
    ("completions", &["bash"], false),
    ("man", &[], false),
];

/// The library's commands, each with its example.
pub static COMMANDS: LazyLock<Vec<Command>> = LazyLock::new(|| {
    let example = |name| EXAMPLES.iter().find(|e| e.0 == name).unwrap_or_else(|| panic!("EXAMPLES has no {name}"));
    let all = coremap::commands::COMMANDS.iter();
    let all = all.map(|c| (c, example(c.name)));
    all.map(|(c, e)| Command { name: c.name, subject: c.subject, asked: e.1, hostile: e.2 }).collect()
});

pub fn of_cores() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(|c| matches!(c.subject, Subject::Process | Subject::Runtime))
}

pub const GLIBC: &str = "native-glibc-kernel.core";
pub const MUSL: &str = "native-musl-gcore.core";
pub const MALLOC: &str = "native-malloc-gcore.core";
pub const LEAKS: &str = "native-leaks.core";
pub const AARCH64: &str = "native-aarch64-qemu.core";
pub const CREATEDUMP: &str = "dotnet31-createdump.core";
pub const GCORE: &str = "dotnet31-gcore.core";
pub const PENDING: &str = "dotnet31-pending.core";
pub const VIRTUAL: &str = "java25-virtual.core";
pub const OBJECTS: &str = "dotnet8-objects.core";
pub const THREADS: &str = "dotnet8-threads.core";
pub const METHODS: &str = "dotnet8-methods.core";
pub const KERNEL10: &str = "dotnet10-kernel-shrunk.core";
pub const CALLS: &str = "dotnet11-calls.core";
pub const GO: &str = "go124-pie.core";
pub const SERVER: &str = "dotnet10-server-ingc-shrunk.core";

/// Placeholder for a text file for `symbolicate`: two addresses of a trace.
pub const FRAMES: &str = "frames.txt";

/// Placeholder for a file to write.
pub const NEW: &str = "new.core";

/// Placeholder for the recording in testdata: ten minutes of `slow-leak.c`.
pub const RECORDING: &str = "slow-leak.jsonl";

/// A command with arguments and cores, and which parts of its answer are checked.
#[derive(Debug)]
pub struct Run {
    pub args: &'static [&'static str],
    /// JSON pointer to a value that must not be null, so that the schema has something to check.
    pub there: Option<&'static str>,
    /// JSON pointer of the list with as many entries as the CSV has rows. Empty if there is no such list. `None` if the
    /// CSV is not checked.
    pub rows: Option<&'static str>,
    /// Whether tables and prose are checked on terminals. Frames and addresses in text are words that are never broken.
    pub table: bool,
}

const fn run(args: &'static [&'static str]) -> Run {
    Run { args, there: None, rows: None, table: false }
}

impl Run {
    const fn json(self, there: &'static str) -> Run {
        Run { there: Some(there), ..self }
    }

    const fn csv(self, rows: &'static str) -> Run {
        Run { rows: Some(rows), ..self }
    }

    const fn table(self) -> Run {
        Run { table: true, ..self }
    }
}

/// Each command that takes a core, with each option that changes the form of its answer.
pub const RUNS: &[Run] = &[
    run(&["info", GLIBC]).json("/modules/0").csv("/modules").table(),
    run(&["info", "--show-data", CREATEDUMP]).json("/core/runtimes/0"),
    run(&["info", AARCH64]).json("/process"),
    run(&["triage", CREATEDUMP]).json("/findings/0").csv("/findings").table(),
    run(&["triage", GLIBC]).json("/findings/0").csv("/findings").table(),
    run(&["triage", OBJECTS]).table(),
    run(&["summary", "--zero-fill", CREATEDUMP]).json("/kinds/0/zero").csv("/kinds").table(),
    run(&["summary", "--zero-fill", THREADS]).table(),
    run(&["summary", GLIBC]).json("/malloc/used"),
    run(&["regions", CREATEDUMP]).json("/regions/0").csv("/regions"),
    run(&["regions", "--kind", "stack", "--sort", "size", GLIBC]).csv("/regions"),
    run(&["regions", SERVER]).table(),
    run(&["regions", GLIBC]).table(),
    run(&["maddress", GLIBC]).json("/regions/0").csv("/regions"),
    run(&["maddress", SERVER]).table(),
    run(&["maddress", "--summary", CREATEDUMP]).csv("").table(),
    run(&["stacks", "--zero-fill", GLIBC]).json("/stacks/0/touched").table(),
    run(&["stacks", THREADS]).json("/groups/0").table(),
    run(&["stacks", "--zero-fill", THREADS]).csv("/stacks").table(),
    run(&["threads", CREATEDUMP]).json("/threads/0/frames/0"),
    run(&["threads", "--group", THREADS]).json("/groups/0/frames/0").csv(""),
    run(&["threads", GLIBC]).json("/threads/0/frames/0"),
    run(&["threads", THREADS]).csv(""),
    run(&["threads", "--tid", "20805", THREADS]).csv("/threads/0/frames"),
    run(&["stackobjects", OBJECTS]).json("/objects/0").csv("/objects").table(),
    run(&["threadpool", VIRTUAL]).json("/pools/0").csv("/pools").table(),
    run(&["requests", CALLS]).json("/requests/0").csv("/requests"),
    run(&["allocations", GO]).json("/sites/0").csv("/sites").table(),
    run(&["timers", CALLS]).json("/timers/0").csv("/timers"),
    run(&["async", "--all", PENDING]).json("/chains/0/frames/0").csv(""),
    run(&["heap", CREATEDUMP]).csv("/segments"),
    run(&["heap", "--loader", CREATEDUMP]).json("/core/runtimes/0").csv("/loader").table(),
    run(&["heap", "--loader", SERVER]).table(),
    run(&["heapstat", CREATEDUMP]).csv("/types"),
    run(&["heapstat", "--strings", CREATEDUMP]).json("/types/0").table(),
    run(&["heapstat", "--strings", OBJECTS]).csv("/strings/duplicates"),
    run(&["heapstat", OBJECTS]).table(),
    run(&["objects", "--type", "Dictionary", OBJECTS]).json("/objects/0").csv("/objects").table(),
    run(&["object", "0x7f4e2cc08dd0", OBJECTS]).json("/fields/0").csv("").table(),
    run(&["object", "0x7f4e31500f20", OBJECTS]).json("/exception").csv(""),
    run(&["object", "0x7f4e2cc08bc8", OBJECTS]).json("/collection").csv(""),
    run(&["object", "0x7f4e314ea4c0", OBJECTS]).json("/delegate"),
    run(&["gcroot", "0x7f61f606c590", CREATEDUMP]).json("/paths/0/chain/0").csv(""),
    run(&["gcroot", "--type", "^app", CREATEDUMP]).json("/groups/0").csv(""),
    run(&["retained", "--top", "5", CREATEDUMP]).json("/types/0").csv("").table(),
    run(&["retained", "--object", "0x7f61f606c590", CREATEDUMP]).json("/object").csv(""),
    run(&["collections", OBJECTS]).json("/types/0").csv("/types").table(),
    run(&["heapstat", "--live", OBJECTS]).json("/reach").csv("/types"),
    run(&["handles", CREATEDUMP]).json("/handles/0").csv("/handles").table(),
    run(&["handles", OBJECTS]).table(),
    run(&["finalizers", CREATEDUMP]).json("/types/0").csv("/objects").table(),
    run(&["syncblocks", CREATEDUMP]).json("/core/runtimes/0").csv("/blocks"),
    run(&["syncblocks", OBJECTS]).table(),
    run(&["exceptions", OBJECTS]).json("/exceptions/0").csv("/exceptions").table(),
    run(&["malloc", MALLOC]).json("/clusters/0").csv("/clusters").table(),
    run(&["malloc", "--chunks", "--limit", "50", MALLOC]).json("/chunks/0").csv("/chunks").table(),
    run(&["search", "--context", "coremap-", GLIBC]).json("/hits/0/context").csv("/hits").table(),
    run(&["search", "--pointer", "--context", "0x7f4e2cc08dd0", OBJECTS]).json("/hits/0/object").csv("/hits").table(),
    run(&["whatis", "--bytes", "16", "0x557a682b6b10", GLIBC]).json("/block"),
    run(&["whatis", "0x7f4e2cc08dd0", "0x7f4e314d9198", OBJECTS]).json("/results/1/object").csv("/results").table(),
    run(&["whatis", "0x7fe720000000", GLIBC]).json("/neighbours/0"),
    run(&["whatis", "0x7fe744a0fdd0", GLIBC]).csv(""),
    run(&["whatis", "--bytes", "64", "0x7f4e2cc08dd0", OBJECTS]).table(),
    run(&["why", "0x7f4e2cc08dd0", OBJECTS]).json("/paths/0/chain/0").csv(""),
    run(&["why", "--type", "LeakyCache$", OBJECTS]).json("/groups/0/chain/0").csv(""),
    run(&["why", "0x556a4aa6c1a0", LEAKS]).json("/retained/size").csv(""),
    run(&["why", "0x7fe720000000", GLIBC]).csv(""),
    run(&["refs", "--region", "0x7fe744a0fdd0", GLIBC]).json("/refs/0").csv("/refs").table(),
    run(&["leaks", LEAKS]).csv("/clusters").table(),
    run(&["leaks", "--blocks", LEAKS]).json("/clusters/0").csv("/blocks").table(),
    run(&["holders", "--native", LEAKS]).json("/native/0/bytes").csv("/native").table(),
    run(&["retained", "--top", "5", LEAKS]).json("/types/0").csv("").table(),
    run(&["holders", CREATEDUMP]).json("/core/runtimes/0").csv("/holders").table(),
    run(&["anon", GLIBC]).json("/clusters/0").csv("/clusters").table(),
    run(&["anon", KERNEL10]).table(),
    run(&["ip2method", "0x7f8e3e84433c", "0x10", METHODS]).json("/results/0/method").csv("/results"),
    run(&["ip2method", "--short", "0x7f8e3e84433c", METHODS]).csv("/results"),
    run(&["symbolicate", FRAMES, METHODS]).json("/frames/0/symbol").csv("/frames"),
    run(&["perfmap", METHODS]).json("/entries/0").csv("/entries"),
    run(&["diff", GLIBC, CREATEDUMP]).json("/kinds/0"),
    run(&["diff", CREATEDUMP, GCORE]).json("/types/0").csv("/kinds").table(),
    run(&["diff", MUSL, GLIBC]).table(),
    run(&["record", "-o", NEW, CREATEDUMP]).json("/cost/wall_ms/most").csv("/parts"),
    run(&["trend", RECORDING]).json("/series/0/per_hour_low").csv("/series"),
    run(&["trend", "--every", "1m", GLIBC, CREATEDUMP, GCORE]).json("/series/0/why"),
    run(&["diff", RECORDING, RECORDING]).json("/malloc/0/delta").csv("/kinds"),
    run(&["report", "-o", NEW, CREATEDUMP]).json("/parts/0").csv("/parts"),
    run(&["report", "-o", NEW, CREATEDUMP, GCORE]).json("/size"),
    run(&["export", "--to", "gcdump", "-o", NEW, CREATEDUMP]).json("/figures/0").csv(""),
    run(&["export", "--to", "speedscope", "-o", NEW, CREATEDUMP]).json("/files/0"),
    run(&["shrink", "-o", NEW, GLIBC]).json("/segments").csv(""),
    run(&["scan-secrets", GLIBC]).json("/secrets/0/regions/0").csv("/secrets").table(),
    run(&["scan-secrets", CREATEDUMP]).json("/secrets/0").table(),
    run(&["check", GLIBC]).json("/invariants/0").csv("/invariants"),
    run(&["check", CREATEDUMP]).table(),
];

/// The folder of the decompressed cores, including those that `args` name.
pub fn unpacked(args: &[&str]) -> PathBuf {
    for name in args.iter().filter(|a| **a != NEW).filter_map(|a| a.strip_suffix(".core")) {
        real::plain(name);
    }
    real::folder().to_owned()
}

/// Runs the program with `args` and then `form`, in the folder of decompressed cores.
pub fn answer(args: &[&str], form: &[&str]) -> Output {
    let (dir, text) = (tempfile::tempdir().unwrap(), frames());
    let (text, new) = (text.path().to_str().unwrap(), dir.path().join(NEW));
    let words = args.iter().map(|&a| match a {
        FRAMES => text,
        NEW => new.to_str().unwrap(),
        RECORDING => recording(),
        a => a,
    });
    let out = program(words.chain(form.iter().copied())).dir(&unpacked(args)).go();
    out.is_sound();
    out
}

/// The file that [`RECORDING`] represents.
pub fn recording() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/recordings/slow-leak.jsonl")
}

/// The file that [`FRAMES`] represents.
pub fn frames() -> tempfile::NamedTempFile {
    super::builder::file_with(b"0x7f8e3e84433c 0x7f8e3e8317b9\n")
}

/// The JSON of a run, which is made once for all tests.
pub fn json(args: &'static [&'static str]) -> Value {
    type Answers = Mutex<BTreeMap<&'static [&'static str], Arc<OnceLock<Value>>>>;
    static ANSWERS: OnceLock<Answers> = OnceLock::new();
    let place = ANSWERS.get_or_init(Mutex::default).lock().unwrap().entry(args).or_default().clone();
    place.get_or_init(|| answer(args, &["--json"]).json()).clone()
}
