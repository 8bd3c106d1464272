//! Rewrites arguments before they are parsed: SOS command names become ours, and a core without a
//! command becomes `summary CORE`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::CommandFactory;
use coremap::commands;

use crate::cli::program::{Args, OPTIONS};

/// A command name of SOS, and its replacement.
struct Alias {
    word: &'static str,
    /// Our command, with the options that it always gets.
    ours: &'static [&'static str],
    /// Options as SOS writes them, with ours. Empty if the command does that by default.
    options: &'static [(&'static str, &'static [&'static str])],
}

const fn alias(
    word: &'static str,
    ours: &'static [&'static str],
    options: &'static [(&'static str, &'static [&'static str])],
) -> Alias {
    Alias { word, ours, options }
}

/// Command names of other tools: SOS and `dotnet-dump analyze`, jcmd, jmap, jstack, gdb and Eclipse MAT.
/// docs/other-tools.md lists all of them.
const ALIASES: &[Alias] = &[
    alias("address", &["regions"], &[("-summary", &[])]),
    alias("analyzeoom", &["triage"], &[]),
    alias("bt", &["threads"], &[]),
    alias("clrmodules", &["info"], &[]),
    alias("clrstack", &["threads", "--managed"], &[("-all", &[]), ("-f", &[])]),
    alias("clrthreads", &["threads", "--managed"], &[]),
    alias("crashinfo", &["info"], &[]),
    alias("dcd", &["object"], &[]),
    alias("dcq", &["object"], &[]),
    alias("do", &["object"], &[]),
    alias("dominator_tree", &["retained"], &[]),
    alias("dumparray", &["object"], &[]),
    alias("dumpasync", &["async"], &[("-stat", &[]), ("-tasks", &[]), ("-completed", &[]), ("-fields", &[])]),
    alias("dumpconcurrentdictionary", &["object"], &[]),
    alias("dumpconcurrentqueue", &["object"], &[]),
    alias("dumpdelegate", &["object"], &[]),
    alias("dumpexceptions", &["exceptions"], &[]),
    alias("dumpgen", &["heapstat", "--generation"], &[]),
    alias("dumpheap", &["heapstat"], DUMPHEAP),
    alias("dumphttp", &["requests"], &[]),
    alias("dumpmd", &["whatis"], &[]),
    alias("dumpmt", &["whatis"], &[]),
    alias("dumpobj", &["object"], &[]),
    alias("dumprequests", &["requests"], &[]),
    alias("dso", &["stackobjects"], &[]),
    alias("dumpstack", &["threads"], &[]),
    alias("dumpstackobjects", &["stackobjects"], &[]),
    alias("eeheap", &["heap"], &[("-gc", &[]), ("-loader", &["--loader"])]),
    alias("eestack", &["threads"], &[]),
    alias("eeversion", &["info"], &[]),
    alias("finalizequeue", &["finalizers"], &[("-stat", &[])]),
    alias("findpointersin", &["refs"], &[]),
    alias("fq", &["finalizers"], &[]),
    alias("gc.class_histogram", &["heapstat", "--live"], &[("-all", &[])]),
    alias("gc.finalizer_info", &["finalizers"], &[]),
    alias("gchandleleaks", &["handles"], &[]),
    alias("gchandles", &["handles"], &[("-stat", &[])]),
    alias("gcheapstat", &["heap"], &[]),
    alias("gcwhere", &["whatis"], &[]),
    alias("histogram", &["heapstat"], &[]),
    alias("ip2md", &["ip2method"], &[]),
    alias("jmap", &["heapstat"], &[("-histo", &[]), ("-histo:live", &["--live"])]),
    alias("jstack", &["threads"], &[("-l", &[])]),
    alias("leak_suspects", &["triage"], &[]),
    alias("listnearobj", &["whatis"], &[]),
    alias("lm", &["info"], &[]),
    alias("lno", &["whatis"], &[]),
    alias("locks", &["syncblocks"], &[]),
    alias("modules", &["info"], &[]),
    alias("objsize", &["retained", "--object"], &[]),
    alias("parallelstacks", &["threads", "--group", "--managed"], &[]),
    alias("path2gc", &["gcroot"], &[]),
    alias("pathto", &["gcroot"], &[]),
    alias("pe", &["exceptions"], &[("-lines", &[]), ("-nested", &[])]),
    alias("printexception", &["exceptions"], &[("-lines", &[]), ("-nested", &[])]),
    alias("pstacks", &["threads", "--group", "--managed"], &[]),
    alias("runtimes", &["info"], &[]),
    alias("syncblk", &["syncblocks"], &[]),
    alias("taskstate", &["object"], &[]),
    alias("thread.print", &["threads"], &[]),
    alias("thread_overview", &["threads"], &[]),
    alias("threadpoolqueue", &["threadpool"], &[]),
    alias("threadstate", &["threads", "--managed"], &[]),
    alias("ti", &["timers"], &[]),
    alias("timerinfo", &["timers"], &[]),
    alias("tpq", &["threadpool"], &[]),
    alias("traverseheap", &["export"], &[]),
];

/// Commands of SOS without a counterpart, with the nearest answer. Empty if there is none.
const WITHOUT: &[(&str, &str)] = &[
    ("dumpalc", "`triage` names what keeps collectible load contexts alive"),
    ("dumpassembly", "`info` lists modules"),
    ("dumpclass", "`whatis` describes a MethodTable"),
    ("dumpdomain", "`info` lists modules"),
    ("dumpil", ""),
    ("dumplog", ""),
    ("dumpmodule", "`info` lists modules"),
    ("dumpobjgcrefs", "`object` shows the fields of an object"),
    ("dumpruntimetypes", "`heapstat --type` finds types with objects"),
    ("dumpsig", ""),
    ("dumpsigelem", ""),
    ("dumpvc", "`object` shows structures inside of objects"),
    ("ehinfo", ""),
    ("ephrefs", ""),
    ("ephtoloh", ""),
    ("gcinfo", ""),
    ("histobj", ""),
    ("histobjfind", ""),
    ("histroot", ""),
    ("name2ee", "`heapstat --type` finds types with objects, and `ip2method` methods by address"),
    ("notreachableinrange", "`heapstat --dead` counts objects that no root reaches"),
    ("sizestats", "`heapstat` counts objects by type"),
    ("token2ee", "`ip2method` shows the token of a method"),
    ("verifyheap", "`heapstat` reports ranges of the heap that could not be walked"),
    ("verifyobj", "`object` shows an object's fields"),
    ("watsonbuckets", ""),
];

/// The error for a command of SOS that has no counterpart. `None` for other commands.
pub(super) fn without_counterpart(args: &[OsString]) -> Option<String> {
    let word = args.get(command_at(args)?)?.to_str()?;
    let (name, instead) = WITHOUT.iter().find(|(name, _)| name.eq_ignore_ascii_case(word))?;
    let instead = if instead.is_empty() { String::new() } else { format!("; {instead}") };
    Some(format!("no command answers SOS {name}{instead}"))
}

const DUMPHEAP: &[(&str, &[&str])] = &[
    ("-stat", &[]),
    ("-type", &["--type"]),
    ("-min", &["--min"]),
    ("-max", &["--max"]),
    ("-strings", &["--strings"]),
    ("-gen", &["--generation"]),
    ("-live", &["--live"]),
    ("-dead", &["--dead"]),
];

/// Rewrites the program's arguments.
pub(super) fn in_our_words(args: Vec<OsString>) -> Vec<OsString> {
    let args = with_process(args);
    let Some(at) = command_at(&args) else { return args };
    let Some(word) = args.get(at).and_then(|arg| arg.to_str()).map(str::to_owned) else {
        return with_summary(args, at);
    };
    if let Some(alias) = ALIASES.iter().find(|alias| alias.word.eq_ignore_ascii_case(&word)) {
        return translated(args, at, alias);
    }
    if let Some(bytes) = examined(&word) {
        let mut args = args;
        let words = ["whatis".into(), "--bytes".into(), bytes.to_string().into()];
        args.splice(at..=at, words);
        return args;
    }
    if commands::named(&word).is_some() || word == "help" {
        return args;
    }
    let mut args = args;
    if word == OPTIONS && !Path::new(OPTIONS).is_file() {
        args.insert(at, "help".into());
        return args;
    }
    with_summary(args, at)
}

/// Number of bytes that gdb's `x/16gx` shows. `None` for other words.
fn examined(word: &str) -> Option<u64> {
    let form = word.strip_prefix("x/")?;
    let digits = form.find(|c: char| !c.is_ascii_digit()).unwrap_or(form.len());
    let (count, letters) = form.split_at_checked(digits)?;
    let size = match letters.chars().find(|c| "bhwg".contains(*c)) {
        Some('b') => 1,
        Some('h') => 2,
        Some('w') => 4,
        _ => 8,
    };
    let count: u64 = if count.is_empty() { 1 } else { count.parse().ok()? };
    count.checked_mul(size)
}

/// Rewrites `--pid 4711`, at any position, as the core `/proc/4711` at the end.
fn with_process(mut args: Vec<OsString>) -> Vec<OsString> {
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let Some(at) =
        args.iter().take(end).position(|arg| arg == "--pid" || arg.as_encoded_bytes().starts_with(b"--pid="))
    else {
        return args;
    };
    let (value, after) = match args.get(at).and_then(|arg| arg.to_str()?.strip_prefix("--pid=")) {
        Some(value) => (Some(value.to_owned()), at + 1),
        None => (args.get(at + 1).and_then(|arg| arg.to_str()).map(str::to_owned), at + 2),
    };
    // clap reports what is wrong with any other value.
    let Some(pid) = value.and_then(|value| value.parse::<u32>().ok()) else { return args };
    args.drain(at..after.min(args.len()));
    args.push(format!("/proc/{pid}").into());
    args
}

/// Inserts `summary` if a core is given instead of a command.
fn with_summary(mut args: Vec<OsString>, at: usize) -> Vec<OsString> {
    let is_process = |arg: &OsString| {
        let number = arg.to_str().map(|text| text.strip_prefix("/proc/").unwrap_or(text));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_core = |arg: &OsString| arg == OsStr::new("-") || Path::new(arg).is_file() || is_process(arg);
    if args.get(at).is_some_and(is_core) {
        args.insert(at, "summary".into());
    }
    args
}

fn translated(mut args: Vec<OsString>, at: usize, alias: &Alias) -> Vec<OsString> {
    let rest = args.split_off(at);
    // SOS shows one exception if it gets an address.
    let is_address = |arg: &OsString| arg.to_str().is_some_and(|arg| arg.starts_with("0x"));
    let ours = match alias.ours {
        ["exceptions"] if rest.iter().any(is_address) => &["object"],
        ours => ours,
    };
    args.extend(ours.iter().map(Into::into));
    for arg in rest.into_iter().skip(1) {
        match alias.options.iter().find(|(theirs, _)| arg.eq_ignore_ascii_case(theirs)) {
            Some((_, ours)) => args.extend(ours.iter().map(Into::into)),
            None => args.push(arg),
        }
    }
    args
}

/// Index of the first argument that is neither an option of the program nor an option's value.
fn command_at(args: &[OsString]) -> Option<usize> {
    let program = Args::command();
    let with_value = |name: &str| {
        let named =
            program.get_arguments().find(|a| a.get_long().is_some_and(|long| Some(long) == name.strip_prefix("--")));
        named.is_some_and(|a| a.get_action().takes_values())
    };
    let mut at = 1;
    loop {
        let arg = args.get(at)?;
        match arg.to_str() {
            Some("--") => return None,
            Some(option) if option.len() > 1 && option.starts_with('-') => at += 1 + usize::from(with_value(option)),
            _ => return Some(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        in_our_words(words).join(OsStr::new(" ")).into_string().unwrap_or_default()
    }

    #[test]
    fn words_of_sos_become_ours() {
        assert_eq!(ours("coremap ip2md 0x10 core"), "coremap ip2method 0x10 core");
        assert_eq!(ours("coremap --json dumpheap -stat core"), "coremap --json heapstat core");
        assert_eq!(
            ours("coremap --format csv DumpHeap -type Foo -min 85000 core"),
            "coremap --format csv heapstat --type Foo --min 85000 core"
        );
        assert_eq!(ours("coremap eeheap -loader core"), "coremap heap --loader core");
        assert_eq!(ours("coremap clrstack -all core"), "coremap threads --managed core");
        assert_eq!(ours("coremap pe core"), "coremap exceptions core");
        assert_eq!(ours("coremap pe -lines 0x10 core"), "coremap object 0x10 core");
        assert_eq!(ours("coremap objsize 0x10 core"), "coremap retained --object 0x10 core");
        assert_eq!(ours("coremap dumpheap -stat -live core"), "coremap heapstat --live core");
    }

    #[test]
    fn words_of_other_tools_become_ours() {
        assert_eq!(ours("coremap jmap -histo:live core"), "coremap heapstat --live core");
        assert_eq!(ours("coremap jstack core"), "coremap threads core");
        assert_eq!(ours("coremap Thread.print core"), "coremap threads core");
        assert_eq!(ours("coremap x/16gx 0x10 core"), "coremap whatis --bytes 128 0x10 core");
        assert_eq!(ours("coremap x/8wx 0x10 core"), "coremap whatis --bytes 32 0x10 core");
    }

    #[test]
    fn a_command_without_counterpart_is_an_error_with_the_nearest_answer() {
        let error = |line: &str| without_counterpart(&line.split(' ').map(Into::into).collect::<Vec<_>>());
        assert_eq!(error("coremap dumpil 0x10 core").as_deref(), Some("no command answers SOS dumpil"));
        assert!(error("coremap VerifyHeap core").is_some_and(|e| e.contains("`heapstat`")));
        assert_eq!(error("coremap heapstat core"), None);
    }

    #[test]
    fn the_document_on_other_tools_has_every_word() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/other-tools.md");
        let text = std::fs::read_to_string(path).unwrap_or_default().to_lowercase();
        let words = ALIASES.iter().map(|alias| alias.word).chain(WITHOUT.iter().map(|(word, _)| *word));
        let missing: Vec<&str> = words.filter(|word| !text.contains(&format!("`{word}`"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn each_leads_to_a_command_of_ours_and_takes_no_word_of_one() {
        for alias in ALIASES {
            assert!(alias.ours.first().is_some_and(|ours| commands::named(ours).is_some()), "{}", alias.word);
            assert!(commands::named(alias.word).is_none(), "{}", alias.word);
        }
    }

    #[test]
    fn a_core_alone_is_asked_for_its_summary() {
        assert_eq!(ours("coremap Cargo.toml"), "coremap summary Cargo.toml");
        assert_eq!(ours("coremap --json --format json Cargo.toml"), "coremap --json --format json summary Cargo.toml");
        assert_eq!(ours("coremap -"), "coremap summary -");
        // Anything else stays unchanged, and clap rejects it.
        assert_eq!(ours("coremap sumary Cargo.toml"), "coremap sumary Cargo.toml");
        assert_eq!(ours("coremap --version"), "coremap --version");
        assert_eq!(ours("coremap options"), "coremap help options");
        assert_eq!(ours("coremap help summary"), "coremap help summary");
    }
}
