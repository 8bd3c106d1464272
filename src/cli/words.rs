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

/// Command names of `dotnet-dump analyze` and SOS. Commands without a counterpart are not listed; for them clap
/// suggests the most similar command.
const ALIASES: &[Alias] = &[
    alias("address", &["regions"], &[("-summary", &[])]),
    alias("clrmodules", &["info"], &[]),
    alias("clrstack", &["threads", "--managed"], &[("-all", &[]), ("-f", &[])]),
    alias("clrthreads", &["threads", "--managed"], &[]),
    alias("do", &["object"], &[]),
    alias("dumpasync", &["async"], &[("-stat", &[]), ("-tasks", &[]), ("-completed", &[]), ("-fields", &[])]),
    alias("dumpheap", &["heapstat"], DUMPHEAP),
    alias("dumpmd", &["whatis"], &[]),
    alias("dumpmt", &["whatis"], &[]),
    alias("dumpobj", &["object"], &[]),
    alias("dumphttp", &["requests"], &[]),
    alias("dumprequests", &["requests"], &[]),
    alias("eeheap", &["heap"], &[("-gc", &[]), ("-loader", &["--loader"])]),
    alias("finalizequeue", &["finalizers"], &[("-stat", &[])]),
    alias("gchandles", &["handles"], &[("-stat", &[])]),
    alias("gcwhere", &["whatis"], &[]),
    alias("ip2md", &["ip2method"], &[]),
    alias("lm", &["info"], &[]),
    alias("locks", &["syncblocks"], &[]),
    alias("modules", &["info"], &[]),
    alias("parallelstacks", &["threads", "--group", "--managed"], &[]),
    alias("pathto", &["gcroot"], &[]),
    alias("printexception", &["exceptions"], &[]),
    alias("pstacks", &["threads", "--group", "--managed"], &[]),
    alias("threadpoolqueue", &["threadpool"], &[]),
    alias("ti", &["timers"], &[]),
    alias("timerinfo", &["timers"], &[]),
    alias("tpq", &["threadpool"], &[]),
    alias("syncblk", &["syncblocks"], &[]),
];

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
    args.extend(alias.ours.iter().map(Into::into));
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
