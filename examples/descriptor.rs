//! Compares the contract descriptor of the .NET runtime in a core with a bundled layout table. Lists
//! fields that are equal, fields that differ, and fields that only one of them has. Use it to write the
//! table for a new version; docs/adding.md describes how.
//!
//! ```text
//! cargo run --release --example descriptor -- CORE [--against MAJOR] [--all] [--table]
//! ```
//!
//! `--all` also lists equal fields, and types that the table does not use. `--table` writes the draft of a
//! new table instead: every name of the old table with the descriptor's number, or `null` if the
//! descriptor has none.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use coremap::addr::Addr;
use coremap::image::{ModuleKind, symbols};
use coremap::internals;
use coremap::layout::{DOTNET_ARM64, DOTNET_X64, Global, Layout, read_descriptor};
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::runtimes::coreclr::{Detection, detect};
use coremap::targets::Arch;

type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Export of the contract descriptor (.NET 9 and later).
const DESCRIPTOR: &str = "DotNetRuntimeContractDescriptor";

fn main() -> Fallible {
    let (mut core, mut against, mut all, mut table) = (None, None, false, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--all" => all = true,
            "--table" => table = true,
            "--against" => against = Some(args.next().ok_or("--against needs a major version")?.parse::<u32>()?),
            _ => core = Some(arg),
        }
    }
    let core = core.ok_or("usage: descriptor CORE [--against MAJOR] [--all] [--table]")?;
    let process = Process::open(Path::new(&core), &Options::default(), &Progress::silent())?;
    let mut out = std::io::stdout().lock();
    for detection in detect(&process) {
        match detection {
            Detection::Found(r) => {
                writeln!(std::io::stderr(), "{}: {}, layout: {}", r.path, r.name(), r.layout_source)?;
                let major = r.version.split('.').next().and_then(|major| major.parse().ok());
                against = against.or(major);
            }
            Detection::Unusable(why) => writeln!(std::io::stderr(), "{}", why.message)?,
            Detection::NotMine => {}
        }
    }
    // The newest table up to the requested version.
    let tables: &[_] = if process.arch() == Arch::Aarch64 { &DOTNET_ARM64 } else { &DOTNET_X64 };
    let newest = tables.iter().rfind(|(major, _)| against.is_none_or(|a| *major <= a));
    let known = newest.ok_or("coremap has no table for this version or an older one")?.1.layout()?;
    let (own, pointers) = descriptor(&process)?;
    if table {
        write_table(&mut out, known, &own)
    } else {
        writeln!(out, "{} pointers; against {}", pointers.len(), known.id)?;
        compare(&mut out, known, &own, all)
    }
}

fn descriptor(process: &Process) -> Fallible<(Layout, Vec<Addr>)> {
    for module in &process.modules {
        let ModuleKind::Elf(image) = internals::kind(module) else { continue };
        if let Some(symbol) = symbols::find(&process.memory, image, DESCRIPTOR) {
            return Ok(read_descriptor(&process.memory, symbol.addr)?);
        }
    }
    Err("no module exports a contract descriptor. .NET 8 and earlier have none, and cores of the kernel lack the symbols"
        .into())
}

/// Numbers by name.
type Numbers = BTreeMap<String, String>;

fn compare(out: &mut impl Write, table: &Layout, own: &Layout, all: bool) -> Fallible {
    let fields = |l: &Layout| -> Numbers { l.offsets().map(|(t, f, o)| (format!("{t}.{f}"), o.to_string())).collect() };
    part(out, "fields", &fields(table), &fields(own), all)?;
    // A DAC slot and a pointer of the descriptor both refer to a global; their numbers are unrelated.
    let slots: Vec<&str> = table.globals().filter_map(|(name, _)| name.strip_prefix("DacSlot.")).collect();
    let (led, alone): (Vec<&str>, Vec<&str>) =
        slots.iter().partition(|name| matches!(own.global(name), Ok(Global::Pointer(_))));
    writeln!(out, "\nslots with a pointer in the descriptor: {}", led.join(", "))?;
    writeln!(out, "slots only in the table: {}", alone.join(", "))?;
    let globals = |l: &Layout| -> Numbers {
        let numbers =
            l.globals().filter(|(name, global)| !name.starts_with("DacSlot.") && !matches!(global, Global::Pointer(_)));
        numbers.map(|(name, global)| (name.to_owned(), text(global))).collect()
    };
    part(out, "globals", &globals(table), &globals(own), all)?;
    let contracts = |l: &Layout| -> Numbers {
        l.contracts().map(|(name, version)| (name.to_owned(), version.to_owned())).collect()
    };
    part(out, "contracts", &contracts(table), &contracts(own), all)
}

fn text(global: &Global) -> String {
    match global {
        Global::Value(value) => value.to_string(),
        Global::Pointer(index) => format!("pointer {index}"),
        Global::Text(text) => format!("{text:?}"),
    }
}

fn part(out: &mut impl Write, what: &str, table: &Numbers, own: &Numbers, all: bool) -> Fallible {
    let both = || table.iter().filter_map(|(name, here)| Some((name, here, own.get(name)?)));
    writeln!(out, "\n{what} equal: {}", both().filter(|(_, a, b)| a == b).count())?;
    for (name, here, _) in both().filter(|(_, a, b)| all && a == b) {
        writeln!(out, "  {name:<55} {here}")?;
    }
    writeln!(out, "{what} different: {}", both().filter(|(_, a, b)| a != b).count())?;
    for (name, here, there) in both().filter(|(_, a, b)| a != b) {
        writeln!(out, "  {name:<55} table {here}, descriptor {there}")?;
    }
    let only = |from: &Numbers, other: &Numbers| {
        from.iter()
            .filter(|(name, _)| !other.contains_key(*name))
            .map(|(n, v)| (n.clone(), v.clone()))
            .collect::<Vec<_>>()
    };
    let (here, there) = (only(table, own), only(own, table));
    writeln!(out, "{what} only in the table: {}", here.len())?;
    for (name, value) in &here {
        writeln!(out, "  {name:<55} {value}")?;
    }
    // coremap does not use many types of the descriptor.
    let hint = if all { "" } else { " (of types in the table; --all lists all)" };
    writeln!(out, "{what} only in the descriptor: {}{hint}", there.len())?;
    let kind = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
    let kinds: std::collections::BTreeSet<String> = table.keys().map(|name| kind(name)).collect();
    for (name, value) in there.iter().filter(|(name, _)| all || kinds.contains(&kind(name))) {
        writeln!(out, "  {name:<55} {value}")?;
    }
    Ok(())
}

fn write_table(out: &mut impl Write, table: &Layout, own: &Layout) -> Fallible {
    let mut types: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (kind, field, _) in table.offsets() {
        let number = own.field(kind, field).map_or("null".to_owned(), |n| n.to_string());
        types.entry(kind).or_default().push(format!("\"{field}\": {number}"));
    }
    let types: Vec<String> =
        types.iter().map(|(kind, fields)| format!("    \"{kind}\": {{{}}}", fields.join(", "))).collect();
    let mut constants: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (group, name, _) in table.constants() {
        constants.entry(group).or_default().push(format!("\"{name}\": null"));
    }
    let constants: Vec<String> =
        constants.iter().map(|(group, names)| format!("    \"{group}\": {{{}}}", names.join(", "))).collect();
    let globals: Vec<String> = table
        .globals()
        .map(|(name, _)| format!("    \"{name}\": {}", own.value(name).map_or("null".into(), |n| n.to_string())))
        .collect();
    writeln!(out, "{{\n  \"version\": 0,\n  \"id\": \"\",\n  \"from\": \"\",")?;
    writeln!(out, "  \"types\": {{\n{}\n  }},", types.join(",\n"))?;
    writeln!(out, "  \"constants\": {{\n{}\n  }},", constants.join(",\n"))?;
    writeln!(out, "  \"globals\": {{\n{}\n  }}\n}}", globals.join(",\n"))?;
    Ok(())
}
