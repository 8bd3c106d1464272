use std::collections::HashSet;

use crate::addr::{Addr, AddrRange};
use crate::analysis::crash;
use crate::analysis::last_words::last_words;
use crate::analysis::naming::Names;
use crate::bytes::{self, printable};
use crate::commands::info::report::{Completeness, InfoReport, ModuleRow, OsFact, ProcessRow, SignalRow};
use crate::image::ModuleKind;
use crate::image::modules::page_size;
use crate::limits;
use crate::map::Kind;
use crate::memory::Memory;
use crate::native::libc;
use crate::native::stack_records::Libc;
use crate::native::stacks::Stacks;
use crate::phase::Phase;
use crate::process::Process;
use crate::report::{ImageFormat, OsSubject};
use crate::session::Session;
use crate::targets::at;
use crate::targets::dump_notes::Dumped;
use crate::targets::{MappingName, PieceState};
use crate::units::{human, moment};

/// Describes the process and what the core contains. Arguments and values of the environment are included only with
/// `show_data`.
pub fn info(session: &Session<'_>, show_data: bool) -> InfoReport {
    note_missing_names(session);
    InfoReport {
        process: process_row(session.process, session.stacks(), show_data),
        last_words: last_words(session).map(|words| words.shown(show_data)),
        modules: session
            .process
            .modules
            .iter()
            .map(|m| ModuleRow {
                path: printable(&m.path).into_owned(),
                base: m.range.start,
                size: m.range.len(),
                build_id: m.build_id(),
                kind: match &m.kind {
                    ModuleKind::Elf(_) => Some(ImageFormat::Elf),
                    ModuleKind::Pe { .. } | ModuleKind::Bundled => Some(ImageFormat::Pe),
                    ModuleKind::NoHeaders => None,
                },
                in_core: session.process.space().dumped_in(m.range),
            })
            .collect(),
        completeness: completeness(session),
    }
}

/// Adds a warning for each runtime whose types have no names.
fn note_missing_names(session: &Session<'_>) {
    let _phase = session.process.enter(Phase::Types);
    session.runtimes().iter().for_each(|runtime| runtime.read_names());
    Names::new(session).note_missing();
}

fn process_row(process: &Process, stacks: &Stacks, show_data: bool) -> ProcessRow {
    let facts = process.facts();
    let info = facts.process.as_ref();
    let strings = process.strings();
    let safe = |s: &str| printable(s).into_owned();
    let arguments = strings.map(|s| &s.args[..]);
    // NT_PRPSINFO has the first 79 bytes of the arguments, in one line.
    let line = info.map(|i| i.args.as_str()).filter(|line| !line.is_empty());
    let command_line = arguments.map(|args| args.iter().map(|a| safe(a)).collect()).or(line.map(|l| vec![safe(l)]));
    let executable = facts
        .auxv(at::PHDR)
        .or_else(|| facts.auxv(at::ENTRY))
        .and_then(|a| process.modules.iter().find(|m| m.range.contains(Addr::new(a))))
        .map(|m| m.path.to_string())
        .filter(|p| !p.is_empty())
        .or_else(|| {
            let path = facts.auxv(at::EXECFN)?;
            process.memory.text(Addr::new(path), crate::limits::MAX_NAME).ok()
        })
        .map(|p| safe(&p));
    let program = arguments.and_then(|args| Some(args.first()?.as_str())).or(line);
    let program = program.and_then(|text| program_name(text, executable.as_deref())).map(safe);
    let entries = strings.map(|s| &s.environment[..]);
    let environment = entries.map(|entries| {
        let shown = entries.iter().filter_map(|e| if show_data { Some(e.as_str()) } else { variable(e) });
        shown.map(|text| printable(text).into_owned()).collect()
    });
    let crash = crash::crash(process);
    ProcessRow {
        pid: process.pid(),
        parent: info.map(|i| i.ppid).filter(|&p| p != 0),
        uid: info.map(|i| i.uid),
        name: info.map(|i| safe(&i.name)),
        program,
        arguments: arguments.map(|args| args.len().saturating_sub(1) as u64),
        command_line_withheld: !show_data && command_line.is_some(),
        command_line: command_line.filter(|_| show_data),
        executable,
        environment,
        environment_withheld: entries.filter(|_| !show_data).map_or(0, |e| e.len() as u64),
        crash_thread: crash.tid,
        signal: crash.signal.map(signal_row),
        os: os_facts(process, stacks),
        page_size: page_size(facts),
    }
}

/// File name of the program in `argv[0]`. Programs overwrite it with their status, as in `postgres: user database
/// SELECT`. Then it is the first word.
fn program_name<'a>(text: &'a str, executable: Option<&str>) -> Option<&'a str> {
    let last = |path: &'a str| path.rsplit('/').next().unwrap_or(path);
    let whole = last(text);
    let of_file = executable.and_then(|e| e.rsplit('/').next()) == Some(whole);
    let name = if of_file { whole } else { last(text.split_whitespace().next().unwrap_or_default()) };
    Some(name).filter(|name| !name.is_empty())
}

/// Name of an environment variable. An entry without `=`, or with characters before it that no name has, is data:
/// programs overwrite their environment too.
fn variable(entry: &str) -> Option<&str> {
    let (name, _) = entry.split_once('=')?;
    let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '%' | '(' | ')');
    (!name.is_empty() && name.len() <= limits::MAX_VARIABLE && name.chars().all(of_name)).then_some(name)
}

fn signal_row(signal: crash::Signal) -> SignalRow {
    let name = crash::name(signal.number);
    let has_address = matches!(name.as_str(), "SIGSEGV" | "SIGBUS" | "SIGILL" | "SIGFPE" | "SIGTRAP");
    // With `si_code` up to 0 a process sent the signal, and `si_addr` is not an address.
    let fault = signal.info.filter(|s| has_address && s.code > 0);
    SignalRow { number: signal.number, name, code: signal.info.map(|s| s.code), address: fault.map(|s| s.addr) }
}

/// Facts about the operating system, each with its evidence. A string alone is no proof: hosts of .NET contain the
/// names of all distributions.
fn os_facts(process: &Process, stacks: &Stacks) -> Vec<OsFact> {
    let mut out = Vec::new();
    let mut add = |what, value: String, evidence: String| out.push(OsFact { what, value, evidence });
    match kernel_version(process) {
        Some(version) => add(OsSubject::Kernel, format!("Linux {version}"), "the vdso's ELF note \"Linux\"".into()),
        None => add(OsSubject::Kernel, "Linux".into(), "Linux notes in the core".into()),
    }
    let libcs = process.modules.iter().filter_map(|m| Some((m, libc::which(process, m)?)));
    let mut loaded = false;
    for (m, (libc, _)) in libcs.take(limits::MAX_BANNERS) {
        loaded = true;
        let path = printable(&m.path);
        let banner = if libc == Libc::Glibc { banner(process, m.range) } else { None };
        match banner {
            Some(text) => add(OsSubject::Libc, text, format!("version text in {path}")),
            None => add(OsSubject::Libc, libc.name().into(), format!("loaded: {path}")),
        }
        if m.path.contains("-linux-gnu/") {
            add(OsSubject::Distribution, "Debian family (multiarch library paths)".into(), format!("loaded: {path}"));
        }
    }
    // A statically linked C library has no module.
    if let Some(layout) = stacks.layout.filter(|_| !loaded) {
        add(OsSubject::Libc, layout.libc.name().into(), "layout of the thread control blocks".into());
    }
    out
}

/// Finds the version string of glibc: "GNU C Library (Debian GLIBC 2.36-9+deb12u10) stable release version 2.36."
fn banner(process: &Process, range: AddrRange) -> Option<String> {
    const START: &[u8] = b"GNU C Library (";
    let finder = memchr::memmem::Finder::new(START);
    let searched = AddrRange::sized(range.start, range.len().min(limits::MAX_BANNER_SEARCH));
    for part in process.memory.readable_parts(searched, limits::MAX_BANNER_SEARCH) {
        let bytes = process.memory.bytes(part.start, part.len() as usize).ok()?;
        if let Some(i) = finder.find(&bytes) {
            let line = bytes[i..].split(|&b| b == b'\n' || b == 0).next()?;
            return Some(printable(&String::from_utf8_lossy(&line[..line.len().min(200)])).into_owned());
        }
    }
    None
}

/// LINUX_VERSION_CODE (0xMMmmpp) in the vdso's note with owner "Linux" and type 0 (arch/x86/entry/vdso/note.S).
fn kernel_version(process: &Process) -> Option<String> {
    let base = Addr::new(process.auxv(at::SYSINFO_EHDR)?);
    let vdso = process.memory.bytes(base, process.memory.readable(base, 8192) as usize).ok()?;
    // n_namesz 6, n_descsz 4, n_type 0, "Linux\0", padding
    let note = b"\x06\0\0\0\x04\0\0\0\0\0\0\0Linux\0\0\0";
    let found = memchr::memmem::find(&vdso, note)?;
    let code = bytes::u32_at(&vdso, found + note.len())?;
    Some(format!("{}.{}.{}", code >> 16, (code >> 8) & 0xff, code & 0xff))
}

fn completeness(session: &Session<'_>) -> Completeness {
    let facts = session.process.facts();
    let map = session.map();
    // Bytes missing because the file is truncated do not count as left out of the dump.
    let cut_off = |range| {
        let pieces = facts.space.pieces.overlapping(range).filter(|p| p.state == PieceState::Truncated);
        pieces.filter_map(|p| p.range.intersect(&range)).map(|r| r.len()).fold(0, u64::saturating_add)
    };
    let missing = |f: &dyn Fn(&crate::map::Region) -> bool| {
        let left_out = |r: &crate::map::Region| (r.range.len() - r.in_core).saturating_sub(cut_off(r.range));
        map.regions.iter().filter(|r| f(r)).map(left_out).fold(0, u64::saturating_add)
    };
    let writable_missing =
        missing(&|r| r.file.is_none() && r.perms.is_some_and(|p| p.write) && r.kind != Kind::NoAccess);
    let is_file = |path: &str| MappingName::of(path).is_on_disk(path);
    let file_missing = missing(&|r| r.file.as_deref().is_some_and(is_file));
    // Shared memory and devices have names in NT_FILE, but no file has their contents.
    let shared_missing = missing(&|r| r.file.as_deref().is_some_and(|path| !is_file(path)));
    let programs: HashSet<&str> = session.process.modules.iter().map(|m| &*m.path).collect();
    // What a process may have written is in no file.
    let program_missing = missing(&|r| {
        r.file.as_deref().is_some_and(|path| programs.contains(path)) && !r.perms.is_some_and(|p| p.write)
    });
    let truncated = facts.truncation.map_or(0, |t| t.missing);
    let mut notes: Vec<String> = facts.dumped.iter().map(dumped).collect();
    if truncated > 0 {
        notes.push(format!(
            "truncated: {} of memory is missing at the end of the file and cannot be read",
            human(truncated)
        ));
    }
    if writable_missing > 0 {
        notes.push(format!(
            "{} of writable memory is not in the core (a mini, triage or heap-only dump, coredump_filter, or MADV_DONTDUMP) and cannot be read",
            human(writable_missing)
        ));
    }
    let unread = session.process.modules.iter().filter(|m| matches!(m.kind, ModuleKind::NoHeaders)).count();
    if file_missing > 0 {
        notes.push(format!(
            "{} of file mappings is not in the core, as usual; {}{}",
            human(file_missing),
            if unread > 0 { format!("{unread} files lack their headers too; ") } else { String::new() },
            match program_missing {
                0 => "none of it is code or constants of program files, which --symbols supplies".to_owned(),
                part if part >= file_missing => "--symbols DIR with the program's files supplies it".to_owned(),
                part => format!("--symbols DIR with the program's files supplies {} of it", human(part)),
            }
        ));
    }
    if shared_missing > 0 {
        notes.push(format!(
            "{} of shared memory, sockets' buffers and devices is not in the core (coredump_filter) and cannot be read",
            human(shared_missing)
        ));
    }
    if !facts.space.files.is_empty() && !facts.producer.lists_all_files(&facts.space.files) {
        notes.push(
            "no deleted file or memfd is listed; this version of createdump may omit them, and they then count as anonymous"
                .into(),
        );
    }
    if !facts.lists_files() {
        notes.push(
            "no list of mapped files (NT_FILE): modules are found only through the dynamic linker and their headers, \
             and other memory may be of files"
                .into(),
        );
    }
    if facts.threads.iter().all(|t| t.thread_pointer.is_none()) {
        notes.push("no thread pointers: stacks are found only by stack pointers".into());
    }
    Completeness {
        mapped: map.base.size(),
        in_core: facts.space.dumped_total(),
        writable_missing,
        file_missing,
        shared_missing,
        truncated,
        notes,
    }
}

/// Describes how coremap wrote the core.
fn dumped(dumped: &Dumped) -> String {
    let kept = if dumped.kept.is_empty() { "in full".to_owned() } else { format!("for {}", dumped.kept.join(", ")) };
    let stop = dumped.stop.map_or_else(String::new, |stop| {
        format!("; the process was stopped for {:.1} ms", stop.lasted.as_secs_f64() * 1000.0)
    });
    format!("written by coremap {} on {}, {kept}{stop}", dumped.version, moment(dumped.time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_without_what_was_written_over_its_name() {
        let name = |text| program_name(text, Some("/opt/My App/the server"));
        assert_eq!(name("/usr/bin/dotnet"), Some("dotnet"));
        assert_eq!(name("-bash"), Some("-bash"));
        assert_eq!(name("/opt/My App/the server"), Some("the server"));
        assert_eq!(name("postgres: alice payroll 10.0.0.1(1234) SELECT"), Some("postgres:"));
        assert_eq!(name("curl https://alice:secret@example.org/x"), Some("curl"));
        assert_eq!((name(""), name("dir/")), (None, None));
    }

    #[test]
    fn what_is_no_variable_is_data() {
        assert_eq!(variable("PATH=/bin"), Some("PATH"));
        assert_eq!(variable("BASH_FUNC_which%%=() { :; }"), Some("BASH_FUNC_which%%"));
        assert_eq!(variable("EMPTY="), Some("EMPTY"));
        for data in ["hunter2", "=x", "a b=c", "https://x?token=abc", "se\u{1b}cret=1", ""] {
            assert_eq!(variable(data), None, "{data}");
        }
        assert_eq!(variable(&format!("{}=", "A".repeat(2000))), None);
    }
}
