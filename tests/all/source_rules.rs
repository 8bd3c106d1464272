//! Rules of the source that no lint knows, by its text: lists in the process's memory are followed
//! by `memory::walk` alone, addresses are reckoned with by `Addr` alone, no kind of region is decided by default, and
//! no arrow between rooms leads up from below the commands, or out of .NET's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use coremap::map::Kind;
use regex::Regex;

/// Loops that look like walks over lists and are none: file, a part of the loop's first line,
/// and why.
const NO_LISTS: &[(&str, &str, &str)] = &[
    (
        "src/runtimes/cpython/obmalloc/pools.rs",
        "while !at.is_null()",
        "blocks of one pool: each is taken once, and there are a thousand at most",
    ),
    ("src/memory/walk.rs", "while !at.is_null()", "the walker itself"),
    ("src/runtimes/v8/heap/sizes.rs", "while at < window.end && votes < VOTES", "words of a page, one after the other"),
    ("src/runtimes/v8/heap/survey.rs", "while at < window.end", "objects of one page, one after the other"),
    (
        "src/native/malloc/find.rs",
        "while let Some(size) = self.chunk_size(at)",
        "chunks, upwards, at most GUESS_CHUNKS",
    ),
    ("src/runtimes/api/linear.rs", "while at < window.end && at < end", "objects, upwards, to the end of their part"),
    ("src/runtimes/graph/reduced_graph.rs", "while let Some(number) = next", "set bits of a row, upwards"),
    ("src/runtimes/api/linear.rs", "while at < stop", "objects, upwards, to the end of their part"),
    ("src/runtimes/hotspot/vm/tables.rs", "for _ in 0..limits::MAX_VM_TABLE_ROWS", "rows of an array, upwards"),
    ("src/causes/holders/naming.rs", "loop {", "up a spanning tree, which has no circles"),
    ("src/causes/holders/naming.rs", "for _ in 0..STEPS", "up a spanning tree, at most STEPS"),
    (
        "src/causes/holders/sentence.rs",
        "while let Some(Parent::Object(up))",
        "up a spanning tree, which has no circles",
    ),
    ("src/process.rs", "while let Some(pointer) = word(at)", "the words of envp, upwards, at most MAX_ARGS"),
    ("src/process.rs", "while let Some(value) = word(at)", "the words of argv, downwards, at most MAX_ARGS"),
];

/// Arithmetic beside `.get()` that is none on an address: file, a part of the line, and why.
const NO_ADDRESSES: &[(&str, &str, &str)] = &[
    ("src/runtimes/cpython/heap/arena_index.rs", ">> GRANULE_BITS", "the number of a granule"),
    ("src/search/scan.rs", "last.get().len()", "a cell of hits"),
    ("src/targets/budget.rs", "PENDING.get() + 1", "a cell that counts units of work"),
    ("src/runtimes/graph/work.rs", "STEPS.get() + ", "a cell that counts steps"),
    ("src/runtimes/graph/work.rs", "STEPS.get() - before", "a cell that counts steps"),
    ("src/stackwalk/mod.rs", "self.left.get().saturating_sub(", "a cell that counts frames"),
    ("src/runtimes/coreclr/types/instances.rs", "self.left.get().checked_sub(1)", "a cell that counts steps"),
    ("src/native/malloc/tcache.rs", "(link.get() >> shape.safe_linking) ^ word", "bits: what PROTECT_PTR does"),
    ("src/runtimes/api/space.rs", "start.get() >> MIB..=", "the number of a page"),
    ("src/targets/reads.rs", "get() / PAGE", "the number of a page"),
    ("src/runtimes/cpython/tasks/find.rs", "self.children_left.get().saturating_sub(", "a cell that counts children"),
];

/// Code that names a runtime and serves every one: file, a part of the line, and why.
const NAMES_RUNTIME: &[(&str, &str, &str)] = &[
    ("src/program.rs", "hotspot::heap::Generation", "generations of every heap, which an option may name"),
    ("src/internals.rs", "coreclr", "tests and benchmarks of .NET"),
];

fn files(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let all = walkdir::WalkDir::new(dir).sort_by_file_name().into_iter().map(|entry| entry.unwrap().into_path());
    all.filter(|path| path.extension().is_some_and(|e| e == "rs"))
}

/// Each file of the library and the program, without its unit tests: path in its package, and its lines. The rooms of
/// both packages are one order.
fn sources() -> Vec<(String, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readers = root.join("crates/coremap-read");
    let mut all: Vec<PathBuf> = [root, &readers].iter().flat_map(|package| files(&package.join("src"))).collect();
    all.sort();
    let name =
        |p: &Path| p.strip_prefix(&readers).or_else(|_| p.strip_prefix(root)).unwrap().to_str().unwrap().to_owned();
    let all = all.iter().map(|p| (name(p), std::fs::read_to_string(p).unwrap()));
    let no_tests = all.filter(|(p, _)| !p.contains("/tests") && !p.ends_with("tests.rs"));
    no_tests
        .map(|(path, text)| {
            let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
            let lines = code.lines().map(|l| l.split("//").next().unwrap().to_owned());
            (path, lines.collect())
        })
        .collect()
}

fn allowed(list: &[(&str, &str, &str)], path: &str, line: &str) -> bool {
    list.iter().any(|(file, part, _)| *file == path && line.contains(part))
}

/// A loop: its first line's number, that line, and all of it.
fn loops(lines: &[String]) -> Vec<(usize, String, String)> {
    let begins = Regex::new(r"^\s*(let \w+ = |break |\w+ => )?(while|loop|for _ in)\b").unwrap();
    let mut out = Vec::new();
    for (i, line) in lines.iter().enumerate().filter(|(_, l)| begins.is_match(l)) {
        let indent = line.len() - line.trim_start().len();
        // rustfmt closes a block where its first line began.
        let closes = |l: &&String| l.starts_with(&format!("{:indent$}}}", "")) && l.trim_start().starts_with('}');
        let rest = &lines[i + 1..];
        let len = rest.iter().position(|l| closes(&l)).map_or(rest.len(), |n| n + 1);
        out.push((i + 1, line.trim().to_owned(), lines[i..=(i + len).min(lines.len() - 1)].join("\n")));
    }
    out
}

/// Whether a loop goes from node to node: it reads pointers, and goes on at what it read.
fn follows(text: &str) -> bool {
    let reads = Regex::new(r"\.ptr\(|\.is_null\(\)|\.parent\(|chunk_size\(|word\(at\)|reveal\(").unwrap();
    let goes_on = Regex::new(r"(?m)(^\s*|=> |\{ )\*?(at|next|node|link|list|block|segment|map|chunk|state|class|parent|frame|entry|data|\w*_at) = ").unwrap();
    reads.is_match(text) && goes_on.is_match(text)
}

/// Where lists are followed without the walker.
fn without_walker(path: &str, lines: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    for (number, first, text) in loops(lines) {
        let walks = text.contains("walk.step(") || text.contains("self.step(");
        if follows(&text) && !(walks && path != "src/memory/walk.rs") && !allowed(NO_LISTS, path, &first) {
            out.push(format!("{path}:{number}: {first}"));
        }
    }
    out
}

/// Where numbers of addresses are reckoned with.
fn by_number(path: &str, lines: &[String]) -> Vec<String> {
    let after = Regex::new(r"\.get\(\)\)? *(\+|-|\*|/|%|<<|>>)[^>=]").unwrap();
    let before = Regex::new(r"[\w)\]] (\+|-|\*|/|%|<<|>>) &?\(?[\w.?()]*\.get\(\)").unwrap();
    let named = Regex::new(r"\.get\(\)\??\.(checked|saturating|wrapping|overflowing)_(add|sub|mul|shl|neg)").unwrap();
    let wrong = |l: &str| after.is_match(l) || before.is_match(l) || named.is_match(l);
    let lines = lines.iter().enumerate().filter(|(_, l)| wrong(l) && !allowed(NO_ADDRESSES, path, l));
    lines.map(|(i, l)| format!("{path}:{}: {}", i + 1, l.trim())).collect()
}

/// Where numbers are added by `Iterator::sum`, or to the sums of a map, which overflow. Sums of lengths in memory, of
/// bits and of fractions do not; their type is on the line.
fn by_sum(path: &str, lines: &[String]) -> Vec<String> {
    let sum = Regex::new(r"\.sum(\(\)|::<)").unwrap();
    let harmless =
        Regex::new(r"\b(usize|f64|u128)\b|\bi64::from\(\w+ [<>] \w+\)|count_ones|crc\.sum|paths\.sum").unwrap();
    let by_key = Regex::new(r"\.(or_default\(\)|or_insert(_with)?\(.*\)(\.\d)?) \+= [^1]").unwrap();
    let wrong = |l: &&String| (sum.is_match(l) || by_key.is_match(l)) && !harmless.is_match(l);
    lines.iter().filter(wrong).map(|l| format!("{path}: {}", l.trim())).collect()
}

fn all(rule: fn(&str, &[String]) -> Vec<String>) -> Vec<String> {
    sources().iter().filter(|(path, _)| path != "src/addr.rs").flat_map(|(path, lines)| rule(path, lines)).collect()
}

#[test]
fn lists_are_followed_by_the_walker() {
    let found = all(without_walker);
    assert!(found.is_empty(), "use memory::walk, or say in NO_LISTS why it is no list:\n{}", found.join("\n"));
}

#[test]
fn sums_do_not_overflow() {
    let found = all(by_sum);
    assert!(found.is_empty(), "use SaturatingSum, or name the type on the line:\n{}", found.join("\n"));
}

#[test]
fn addresses_are_reckoned_with_by_their_type() {
    let found = all(by_number);
    assert!(found.is_empty(), "use a method of Addr, or say in NO_ADDRESSES what it is:\n{}", found.join("\n"));
}

/// The folders of runtimes. Each knows itself, and the rooms below it.
const RUNTIMES: [&str; 6] = ["coreclr", "nativeaot", "hotspot", "cpython", "v8", "go"];

/// Where a runtime is named outside of its own folder, of the list of runtimes, and of the commands that only .NET has.
fn of_one_runtime(path: &str, lines: &[String]) -> Vec<String> {
    if path == "src/runtimes/mod.rs" || path.starts_with("src/commands/dotnet/") {
        return Vec::new();
    }
    let own = path.strip_prefix("src/runtimes/").and_then(|rest| rest.split('/').next());
    let others = RUNTIMES.iter().filter(|runtime| own != Some(runtime));
    let names: Vec<String> = others
        .flat_map(|name| [format!("runtimes::{name}"), format!("DetectedRuntime::{name}"), format!(".{name}()")])
        .collect();
    let named = |l: &str| names.iter().any(|name| l.contains(name));
    let lines = lines.iter().enumerate().filter(|(_, l)| named(l) && !allowed(NAMES_RUNTIME, path, l));
    lines.map(|(i, l)| format!("{path}:{}: {}", i + 1, l.trim())).collect()
}

/// The rooms of the library, lowest first: each uses only rooms before it. docs/design.md has what is in them.
const ROOMS: &[&str] = &[
    "sums",
    "addr",
    "range_map",
    "phase",
    "words",
    "limits",
    "machine",
    "targets",
    "units",
    "shell",
    "map",
    "bytes",
    "facts",
    "diag",
    "report",
    "host",
    "progress",
    "resident",
    "core",
    "memory",
    "registers",
    "layout",
    "image",
    "live",
    "process",
    "native",
    "runtimes/api",
    "runtimes/graph",
    "stackwalk",
    "stacks",
    "introspect",
    "runtimes/clr_gc",
    "runtimes/event_pipe",
    "runtimes/coreclr",
    "runtimes/cpython",
    "runtimes/go",
    "runtimes/hotspot",
    "runtimes/nativeaot",
    "runtimes/v8",
    "runtimes",
    "session",
    "analysis",
    "causes",
    "render",
    "series",
    "export",
    "search",
    "symbolicate",
    "scrub",
    "dump",
    "shrink",
    "commands",
];

/// The room that a file is in.
fn room_of(path: &str) -> &str {
    let inside = path.strip_prefix("src/").unwrap();
    let mut parts = inside.split('/');
    let first = parts.next().unwrap().trim_end_matches(".rs");
    match (first, parts.next().filter(|second| !second.ends_with(".rs"))) {
        ("runtimes", Some(second)) => &inside[..first.len() + 1 + second.len()],
        _ => first,
    }
}

/// Where a room uses one that is not below it.
fn not_below(path: &str, lines: &[String]) -> Vec<String> {
    let used = Regex::new(
        r"\bcrate::(runtimes::(?:api|graph|clr_gc|event_pipe|coreclr|nativeaot|hotspot|cpython|v8|go)\b|\w+)",
    )
    .unwrap();
    let room = room_of(path);
    if ["main", "lib", "cli", "program", "internals"].contains(&room) {
        return Vec::new();
    }
    let place =
        |room: &str| ROOMS.iter().position(|of| *of == room).unwrap_or_else(|| panic!("{room} is not in ROOMS"));
    let mut out = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        for to in used.captures_iter(line).map(|found| found[1].replace("::", "/")) {
            if to != room && place(&to) >= place(room) {
                out.push(format!("{path}:{}: {room} uses {to}", i + 1));
            }
        }
    }
    out
}

/// The folder of a command that a file is in.
fn command_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/commands/")?;
    inside.strip_prefix("dotnet/").unwrap_or(inside).split_once('/').map(|(folder, _)| folder)
}

/// For each command those whose findings or rows it uses.
fn arrows(sources: &[(String, Vec<String>)]) -> BTreeMap<&str, BTreeSet<String>> {
    let named = Regex::new(r"crate::commands::(?:dotnet::)?(\w+)").unwrap();
    let folders: BTreeSet<&str> = sources.iter().filter_map(|(path, _)| command_of(path)).collect();
    let mut out: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (path, lines) in sources {
        let Some(from) = command_of(path) else { continue };
        let to = lines.iter().flat_map(|l| named.captures_iter(l)).map(|c| c[1].to_owned());
        out.entry(from).or_default().extend(to.filter(|to| to != from && folders.contains(to.as_str())));
    }
    out
}

/// What is left when all are taken away that use nothing but what was taken away: circles, and what leads to them.
fn circles(mut arrows: BTreeMap<&str, BTreeSet<String>>) -> BTreeMap<&str, BTreeSet<String>> {
    loop {
        let left: BTreeSet<String> = arrows.keys().map(|&from| from.to_owned()).collect();
        let before = arrows.len();
        arrows.retain(|_, to| !to.is_disjoint(&left));
        if arrows.len() == before {
            return arrows;
        }
    }
}

#[test]
fn only_its_own_folder_names_a_runtime() {
    let found = all(of_one_runtime);
    assert!(found.is_empty(), "ask crate::runtimes::api, or move it to commands/dotnet:\n{}", found.join("\n"));
    for name in RUNTIMES {
        let line = [format!("use crate::runtimes::{name}::Runtime;")];
        assert_eq!(of_one_runtime("src/commands/new/analysis.rs", &line).len(), 1);
        assert_eq!(of_one_runtime("src/scrub/new.rs", &line).len(), 1);
        assert_eq!(of_one_runtime("src/runtimes/clr_gc/new.rs", &line).len(), 1);
        assert!(of_one_runtime(&format!("src/runtimes/{name}/new.rs"), &line).is_empty());
        assert!(of_one_runtime("src/commands/dotnet/new/analysis.rs", &line).is_empty());
    }
}

/// Where the reasoning about causes names a runtime, its library or its words.
fn of_a_runtime_in_causes(path: &str, lines: &[String]) -> Vec<String> {
    if !path.starts_with("src/causes/") {
        return Vec::new();
    }
    let names = Regex::new(
        r"(?i)hotspot|coreclr|cpython|nativeaot|\bjvm\b|\bjava\b|python|\.net\b|dotnet|asyncio|\bSystem\.|\bjava\.|Monitor\.",
    )
    .unwrap();
    let lines = lines.iter().enumerate().filter(|(_, l)| names.is_match(l));
    lines.map(|(i, l)| format!("{path}:{}: {}", i + 1, l.trim())).collect()
}

#[test]
fn causes_name_no_runtime_and_their_files_are_short() {
    let found = all(of_a_runtime_in_causes);
    assert!(found.is_empty(), "read it as a fact through crate::runtimes::api:\n{}", found.join("\n"));
    let line = ["if name.starts_with(\"java.util.\") {".to_owned()];
    assert_eq!(of_a_runtime_in_causes("src/causes/new.rs", &line).len(), 1);
    assert!(of_a_runtime_in_causes("src/commands/new.rs", &line).is_empty());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/causes");
    for file in files(&root) {
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines < 400, "{}: {lines} lines", file.display());
    }
}

#[test]
fn every_room_uses_only_rooms_below_it() {
    let found = all(not_below);
    assert!(found.is_empty(), "{}", found.join("\n"));
    let line = ["use crate::commands::summary::SummaryReport;".to_owned()];
    assert_eq!(not_below("src/report/new.rs", &line).len(), 1);
    assert_eq!(not_below("src/runtimes/hotspot/new.rs", &line).len(), 1);
    assert!(not_below("src/cli/new.rs", &line).is_empty());
    let line = ["use crate::runtimes::nativeaot::NativeAot;".to_owned()];
    assert_eq!(not_below("src/runtimes/coreclr/new.rs", &line).len(), 1);
    assert!(not_below("src/runtimes/mod.rs", &line).is_empty());
}

#[test]
fn commands_use_each_other_without_a_circle() {
    let sources = sources();
    let arrows = arrows(&sources);
    assert!(arrows["diff"].contains("summary"), "{arrows:?}");
    let in_circles = circles(arrows.clone());
    assert!(in_circles.is_empty(), "{in_circles:?}");
    let mut with_one = arrows;
    with_one.entry("summary").or_default().insert("diff".into());
    assert!(circles(with_one).contains_key("summary"));
}

/// Matches over [`Kind`] with an arm for all other kinds: a new kind would fall into it unnoticed.
fn kinds_by_default(path: &str, lines: &[String]) -> Vec<String> {
    let kinds: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    let named = Regex::new(&format!(r"\bKind::({})\b", kinds.join("|"))).unwrap();
    let macros = Regex::new(r"\bmatches!\(|\buse .*\bKind::[{*]").unwrap();
    let begins = Regex::new(r"\bmatch\b.*\{$").unwrap();
    let others = Regex::new(r"^(_|[a-z]\w*)( if .*)? =>").unwrap();
    let mut out = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let at = |text: &str| format!("{path}:{}: {}", i + 1, text.trim());
        if macros.is_match(line) && (named.is_match(line) || line.contains("Kind::{")) {
            out.push(at(line));
        }
        if !begins.is_match(line) {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let within =
            lines[i + 1..].iter().take_while(|l| l.trim().is_empty() || l.len() - l.trim_start().len() > indent);
        // rustfmt begins each arm four columns in, and each of its patterns too.
        let arms: Vec<&str> = within.filter_map(|l| l.strip_prefix(&format!("{:1$}", "", indent + 4))).collect();
        let arms: Vec<&str> = arms.into_iter().filter(|arm| !arm.starts_with([' ', '}', ')'])).collect();
        let patterns = || arms.iter().map(|arm| arm.split(" =>").next().unwrap());
        if patterns().any(|pattern| named.is_match(pattern)) {
            out.extend(arms.iter().find(|arm| others.is_match(arm)).map(|arm| at(&format!("{line} {arm}"))));
        }
    }
    out
}

#[test]
fn no_kind_is_decided_by_default() {
    let found = all(kinds_by_default);
    assert!(found.is_empty(), "add a column to map::kind_facts, or name each kind:\n{}", found.join("\n"));
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let by_default = [
        "    match kind {\n        Kind::Stack => 1,\n        _ => 2,\n    }",
        "    let x = match region.kind {\n        Kind::Stack\n        | Kind::Image => {\n            1\n        }\n        _ => 2,\n    };",
        "    match kind {\n        Kind::Stack if x => 1,\n        kind => 2,\n    }",
        "    match (kind, x) {\n        (Kind::Stack, 1) => 1,\n        _ => 2,\n    }",
        "    matches!(kind, Kind::Stack | Kind::Image)",
        "    use Kind::{Image, Stack};",
    ];
    for text in by_default {
        assert_eq!(kinds_by_default("src/new.rs", &lines(text)).len(), 1, "{text}");
    }
    let sound = [
        "    match kind.facts().backing {\n        Backing::File => Some(Kind::Stack),\n        _ => None,\n    }",
        "    match kind {\n        SecretKind::Image => match x {\n            _ => 1,\n        },\n    }",
        "    if kind == Kind::Stack {",
    ];
    for text in sound {
        assert!(kinds_by_default("src/new.rs", &lines(text)).is_empty(), "{text}");
    }
}

#[test]
fn what_is_allowed_is_there() {
    let sources = sources();
    let mut gone = String::new();
    for (file, part, _) in NO_LISTS.iter().chain(NO_ADDRESSES).chain(NAMES_RUNTIME) {
        let lines = sources.iter().find(|(path, _)| path == file).map(|(_, lines)| lines);
        if !lines.is_some_and(|lines| lines.iter().any(|l| l.contains(part))) {
            writeln!(gone, "{file}: {part}").unwrap();
        }
    }
    assert!(gone.is_empty(), "{gone}");
}

#[test]
fn a_new_walk_by_hand_is_noticed() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let by_hand = [
        "    while !at.is_null() && out.len() < limits::MAX_LIST {\n        out.push(at);\n        at = memory.ptr(at)?;\n    }",
        "    for _ in 0..limits::MAX_LIST {\n        match view.ptr(\"Next\") {\n            Ok(next) => at = next,\n        }\n    }",
        "    while let Some(node) = next {\n        next = memory.ptr(node).ok();\n    }",
        "    loop {\n        match types.parent(class) {\n            Ok(parent) => class = parent,\n        }\n    }",
    ];
    for text in by_hand {
        assert_eq!(without_walker("src/new.rs", &lines(text)).len(), 1, "{text}");
    }
    let sound = "    while !at.is_null() {\n        walk.step(at)?;\n        at = memory.ptr(at)?;\n    }";
    assert!(without_walker("src/new.rs", &lines(sound)).is_empty());
    for text in ["x.get() + 1", "1 + x.get()", "a.b.get() - c.get()", "x.get() << 3", "x.get().wrapping_sub(1)"] {
        assert_eq!(by_number("src/new.rs", &lines(text)).len(), 1, "{text}");
    }
    for text in ["x.get() & 1", "f(x.get())", "list.get(i) + 1", "cell.get()"] {
        assert!(by_number("src/new.rs", &lines(text)).is_empty(), "{text}");
    }
}
