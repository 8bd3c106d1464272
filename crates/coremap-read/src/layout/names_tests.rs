//! Checks, by the text of the source, that each name requested from a layout is in a table or only in a runtime's
//! descriptor, and that each table entry is requested.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use regex::Regex;

use super::{
    CPYTHON_X64, DOTNET_ARM64, DOTNET_BUNDLE, DOTNET_X64, EVENT_PIPE, GLIBC_MALLOC, GO_RUNTIME, GO_X64, Layout,
    MUSL_MALLOCNG, NATIVEAOT, NATIVEAOT_11, NATIVEAOT_BY_HEADER, NATIVEAOT_ENTRIES, NUMPY, Table,
};

/// Globals that no table has, and why they are requested.
const GLOBALS_FROM_DESCRIPTOR: &[(&str, &str)] = &[
    ("RuntimeProductVersionString", "without it the version is in the version text or in the path"),
    ("RuntimeFlavor", "the tables are of CoreCLR, and those of NativeAOT are for it alone"),
    ("GCInfoVersion", "the tables have TableGCInfoVersion, for their own version only"),
];

/// Methods of a view that take a field's name.
const READS: &str = "ptr|u64|u32|u16|u8|addr_of|has";

type Pair = (String, String);

/// The names that the code requests.
#[derive(Default)]
struct Asked {
    types: BTreeSet<String>,
    /// Pairs of type and field, if the source shows both.
    fields: BTreeSet<Pair>,
    /// Fields of a view that was created elsewhere.
    loose: BTreeSet<String>,
    groups: BTreeSet<String>,
    constants: BTreeSet<Pair>,
    globals: BTreeSet<String>,
    contracts: BTreeSet<String>,
    /// Other texts, which may be names in lists.
    texts: BTreeSet<String>,
}

fn files(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let all = walkdir::WalkDir::new(dir).sort_by_file_name().into_iter().map(|entry| entry.unwrap().into_path());
    all.filter(|path| path.extension().is_some_and(|e| e == "rs"))
}

/// A cached compiled pattern.
fn regex(pattern: &str) -> Arc<Regex> {
    static KNOWN: Mutex<BTreeMap<String, Arc<Regex>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap();
    known.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).unwrap().into()).clone()
}

/// End of the call whose parenthesis opens before `at`.
fn call_end(text: &str, at: usize) -> usize {
    let mut depth = 1;
    for (i, c) in text[at..].char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + i + 1;
        }
    }
    text.len()
}

impl Asked {
    fn of_source() -> Asked {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut asked = Asked::default();
        // Commands request fields too.
        let commands = root.join("../../../src");
        let own = root.join("layout");
        // Names of HotSpot and V8 are in tables of the process itself.
        let named = ["runtimes/hotspot", "runtimes/v8"].map(|room| root.join(room));
        let elsewhere = |p: &PathBuf| {
            !p.starts_with(&own) && !named.iter().any(|room| p.starts_with(room)) && !p.ends_with("tests.rs")
        };
        for path in files(&root).chain(files(&commands)).filter(elsewhere) {
            let text = std::fs::read_to_string(path).unwrap();
            let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
            let lines = code.lines().filter(|l| !l.trim_start().starts_with("//"));
            asked.read(&lines.collect::<Vec<_>>().join("\n"));
        }
        asked
    }

    fn read(&mut self, text: &str) {
        let function = regex(r"\bfn \w+");
        let starts: Vec<usize> = function.find_iter(text).map(|m| m.start()).chain([text.len()]).collect();
        // Texts by position. Those in requests with a known type are removed.
        let literal = regex(r#"(?s)"((?:[^"\\]|\\.)*)""#);
        let mut free: BTreeMap<usize, String> =
            literal.captures_iter(text).map(|c| (c.get(0).unwrap().start(), c[1].to_owned())).collect();
        let before = &text[..starts[0]];
        self.function(before, 0, &mut free);
        for pair in starts.windows(2) {
            self.function(&text[pair[0]..pair[1]], pair[0], &mut free);
        }
        // Files that use no layout have names of other things.
        if ["layout", "StructView", ".view(", ".held(", ".bytes(runtime"].iter().any(|word| text.contains(word)) {
            self.texts.extend(free.into_values());
        }
    }

    fn function(&mut self, text: &str, base: usize, free: &mut BTreeMap<usize, String>) {
        let made = regex(r#"(?:\.view\(\s*|StructView::new\(\s*(?:[\w.&]+(?:\(\))?,\s*)+)"([^"]+)",\s*"#);
        let bound = regex(r"let (?:mut )?(\w+) =\s*[\w.\s&*]*$");
        let chained = regex(&format!(r#"^\s*\.(?:{READS})\(\s*"([^"]+)"\s*,?\s*\)"#));
        let mut views: BTreeMap<String, (usize, String)> = BTreeMap::new();
        let mut reads: Vec<(usize, String, String)> = Vec::new();
        let on_variable = regex(&format!(r#"([\w.]+)\s*\.(?:{READS})\(\s*("[^"]+")\s*,?\s*\)"#));
        for c in on_variable.captures_iter(text) {
            let literal = c.get(2).unwrap();
            reads.push((literal.start(), c[1].to_owned(), literal.as_str().trim_matches('"').to_owned()));
        }
        let mut all_views: Vec<(usize, String, String)> = Vec::new();
        for c in made.captures_iter(text) {
            let (whole, kind) = (c.get(0).unwrap(), c[1].to_owned());
            self.types.insert(kind.clone());
            let end = call_end(text, whole.end());
            if let Some(read) = chained.captures(&text[end..]) {
                let literal = end + read.get(1).unwrap().start() - 1;
                free.remove(&(base + literal));
                self.fields.insert((kind.clone(), read[1].to_owned()));
            } else if text[end..].starts_with(';')
                && let Some(name) = bound.captures(&text[..whole.start()])
            {
                all_views.push((end, name[1].to_owned(), kind));
            }
        }
        let mut next = 0;
        for (at, variable, field) in reads {
            while let Some((end, name, kind)) = all_views.get(next).filter(|v| v.0 <= at) {
                views.insert(name.clone(), (*end, kind.clone()));
                next += 1;
            }
            match views.get(&variable) {
                Some((_, kind)) => {
                    free.remove(&(base + at));
                    self.fields.insert((kind.clone(), field));
                }
                None => {
                    self.loose.insert(field);
                }
            }
        }
        let mut each = |pattern: &'static str, take: &mut dyn FnMut(&mut Asked, &regex::Captures<'_>)| {
            for c in regex(pattern).captures_iter(text) {
                take(self, &c);
            }
        };
        each(r#"\.(?:field|positive)\(\s*"([^"]+)",\s*"([^"]+)""#, &mut |a, c| {
            free.remove(&(base + c.get(2).unwrap().start() - 1));
            a.types.insert(c[1].to_owned());
            a.fields.insert((c[1].to_owned(), c[2].to_owned()));
        });
        each(r#"\.constant\(\s*"([^"]+)",\s*"([^"]+)""#, &mut |a, c| {
            free.remove(&(base + c.get(2).unwrap().start() - 1));
            a.groups.insert(c[1].to_owned());
            a.constants.insert((c[1].to_owned(), c[2].to_owned()));
        });
        each(r#"\.positive\(\s*"([^"]+)",\s*[a-z]"#, &mut |a, c| {
            match c[1].strip_prefix("constants_") {
                Some(group) => a.groups.insert(group.to_owned()),
                None => a.types.insert(c[1].to_owned()),
            };
        });
        each(r#"\.constant\(\s*"([^"]+)",\s*[a-z]"#, &mut |a, c| {
            a.groups.insert(c[1].to_owned());
        });
        each(r#"(?:layout|table)\s*\.size\(\s*"([^"]+)""#, &mut |a, c| {
            a.types.insert(c[1].to_owned());
            a.fields.insert((c[1].to_owned(), "!".into()));
        });
        each(r#"(?:roots|globals)\s*\.(?:global|pointer)\([^"()]*"([^"]+)""#, &mut |a, c| {
            a.globals.insert(c[1].to_owned());
        });
        each(r#"layout\s*\.(?:value|text|global)\(\s*"([^"]+)""#, &mut |a, c| {
            a.globals.insert(c[1].to_owned());
        });
        each(r#"layout\s*\.contract\(\s*"([^"]+)""#, &mut |a, c| {
            a.contracts.insert(c[1].to_owned());
        });
    }
}

fn tables() -> Vec<&'static Layout> {
    let python = CPYTHON_X64.iter().map(|(_, table)| table);
    [asked_by_name(), python.map(Table::layout).collect::<Result<_, _>>().unwrap()].concat()
}

/// Tables whose entries are all requested by name. CPython's tables have whole structs instead, because each field of
/// an object names the references from there.
fn asked_by_name() -> Vec<&'static Layout> {
    let dotnet = DOTNET_X64.iter().chain(&DOTNET_ARM64).chain(&GO_X64).map(|(_, table)| table);
    let dotnet = dotnet.chain(NATIVEAOT_BY_HEADER.iter().map(|(_, table)| table));
    let others =
        [&GLIBC_MALLOC, &GO_RUNTIME, &DOTNET_BUNDLE, &MUSL_MALLOCNG, &NATIVEAOT, &NATIVEAOT_11, &NUMPY, &EVENT_PIPE];
    let tables = dotnet.chain(others);
    tables.map(Table::layout).collect::<Result<_, _>>().unwrap()
}

/// Types and fields described by NativeAOT's own header.
fn of_nativeaot_header() -> Vec<Pair> {
    let all: serde_json::Value = serde_json::from_str(NATIVEAOT_ENTRIES).unwrap();
    let types = all["lists"].as_array().unwrap().iter().flat_map(|list| list["types"].as_array().unwrap());
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let fields = |kind: &serde_json::Value| -> Vec<Pair> {
        kind[1].as_array().unwrap().iter().map(|field| (text(&kind[0]), text(field))).collect()
    };
    types.flat_map(fields).collect()
}

/// A global's name in the code. Tables have prefixes for slots, and suffixes for numbers of Frames.
fn asked_as(global: &str) -> [&str; 2] {
    [global, global.strip_prefix("DacSlot.").unwrap_or(global.strip_suffix("Identifier").unwrap_or(global))]
}

#[test]
fn what_the_code_asks_for_is_in_a_table_or_comes_from_the_descriptor() {
    let (asked, tables) = (Asked::of_source(), tables());
    let mut fields: BTreeSet<Pair> =
        tables.iter().flat_map(|t| t.offsets()).map(|(t, f, _)| (t.to_owned(), f.to_owned())).collect();
    fields.extend(of_nativeaot_header());
    let constants: BTreeSet<Pair> =
        tables.iter().flat_map(|t| t.constants()).map(|(g, n, _)| (g.to_owned(), n.to_owned())).collect();
    let globals: BTreeSet<&str> = tables.iter().flat_map(|t| t.globals()).flat_map(|(n, _)| asked_as(n)).collect();
    let mut missing: Vec<String> = Vec::new();
    for kind in &asked.types {
        if !fields.iter().any(|(t, _)| t == kind) {
            missing.push(kind.clone());
        }
    }
    for (kind, field) in &asked.fields {
        if !fields.contains(&(kind.clone(), field.clone())) {
            missing.push(format!("{kind}.{field}"));
        }
    }
    for field in &asked.loose {
        if !fields.iter().any(|(_, f)| f == field) {
            missing.push(format!("field {field}"));
        }
    }
    let groups: BTreeSet<&String> = constants.iter().map(|(g, _)| g).collect();
    missing.extend(asked.groups.iter().filter(|g| !groups.contains(g)).map(|g| format!("constants {g}")));
    missing.extend(asked.constants.iter().filter(|c| !constants.contains(c)).map(|(g, n)| format!("constant {g}.{n}")));
    for global in asked.globals.iter().filter(|g| !globals.contains(g.as_str())) {
        if !GLOBALS_FROM_DESCRIPTOR.iter().any(|(name, _)| name == global) {
            missing.push(format!("global {global}"));
        }
    }
    assert!(missing.is_empty(), "no table has, and GLOBALS_FROM_DESCRIPTOR does not name: {missing:#?}");
    let stale: Vec<_> =
        GLOBALS_FROM_DESCRIPTOR.iter().filter(|(n, _)| globals.contains(n) || !asked.globals.contains(*n)).collect();
    assert!(stale.is_empty(), "in a table, or not asked for: {stale:#?}");
}

#[test]
fn every_entry_of_a_table_is_asked_for() {
    let asked = Asked::of_source();
    let mut unused = BTreeSet::new();
    for table in asked_by_name() {
        for (kind, field, _) in table.offsets() {
            let known = asked.types.contains(kind) || asked.texts.contains(kind);
            let read = asked.fields.contains(&(kind.to_owned(), field.to_owned()))
                || asked.texts.contains(field)
                || (field == "!" && asked.texts.contains(kind));
            if !known || !read {
                unused.insert(format!("{}: {kind}.{field}", table.id));
            }
        }
        for (group, name, _) in table.constants() {
            let known = asked.groups.contains(group) || asked.texts.contains(group);
            let read = asked.constants.contains(&(group.to_owned(), name.to_owned())) || asked.texts.contains(name);
            if !known || !read {
                unused.insert(format!("{}: constant {group}.{name}", table.id));
            }
        }
        for (name, _) in table.globals() {
            let names = asked_as(name);
            if !names.iter().any(|n| asked.globals.contains(*n) || asked.texts.contains(*n)) {
                unused.insert(format!("{}: global {name}", table.id));
            }
        }
        for (name, _) in table.contracts() {
            if !asked.contracts.contains(name) {
                unused.insert(format!("{}: contract {name}", table.id));
            }
        }
    }
    assert!(unused.is_empty(), "no code asks for: {unused:#?}");
}

#[test]
fn questions_are_seen_in_the_source() {
    let mut asked = Asked::default();
    asked.read(
        "fn a() {\n    let view = self.view(\"T\", at(1));\n    view.ptr(\"A\")?;\n    \
         StructView::new(memory, &self.layout, \"U\", view.addr)\n        .u32(\"B\")?;\n}\n\
         fn b(view: &StructView) { view.u8(\"C\"); layout.constant(\"G\", \"N\"); f(\"free\"); }",
    );
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(asked.fields, BTreeSet::from([pair("T", "A"), pair("U", "B")]));
    assert_eq!(asked.loose, BTreeSet::from(["C".to_owned()]));
    assert_eq!(asked.constants, BTreeSet::from([pair("G", "N")]));
    assert!(asked.texts.contains("free") && !asked.texts.contains("A") && !asked.texts.contains("N"));
}
