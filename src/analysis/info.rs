use crate::addr::{Addr, AddrRange};
use crate::bytes::{self, printable};
use crate::core::Producer;
use crate::core::elf::PieceState;
use crate::core::notes::at;
use crate::image::ModuleKind;
use crate::image::modules::page_size;
use crate::introspect::Findings;
use crate::limits;
use crate::map::Kind;
use crate::memory::Memory;
use crate::process::Process;
use crate::report::{Completeness, InfoReport, ModuleRow, OsFact, ProcessRow, SignalRow};
use crate::units::human;

/// Tell of the process; environment values only with `show_data`.
pub fn info(process: &Process, found: &Findings, show_data: bool) -> InfoReport {
    InfoReport {
        process: process_row(process, show_data),
        modules: process
            .modules
            .iter()
            .map(|m| ModuleRow {
                path: printable(&m.path).into_owned(),
                base: m.range.start,
                size: m.range.len(),
                build_id: m.build_id(),
                kind: match &m.kind {
                    ModuleKind::Elf(_) => Some("elf"),
                    ModuleKind::Pe { .. } => Some("pe"),
                    ModuleKind::NoHeaders => None,
                },
                in_core: process.core.dumped_in(m.range),
            })
            .collect(),
        completeness: completeness(process, found),
    }
}

fn process_row(process: &Process, show_data: bool) -> ProcessRow {
    let core = &process.core;
    let info = core.notes.process.as_ref();
    let strings = process.strings();
    let safe = |s: &String| printable(s).into_owned();
    let command_line = strings
        .map(|s| s.args.iter().map(safe).collect::<Vec<_>>())
        .or_else(|| info.filter(|i| !i.args.is_empty()).map(|i| vec![safe(&i.args)]));
    let executable = core
        .notes
        .auxv(at::PHDR)
        .or_else(|| core.notes.auxv(at::ENTRY))
        .and_then(|a| process.modules.iter().find(|m| m.range.contains(Addr(a))))
        .map(|m| m.path.to_string())
        .filter(|p| !p.is_empty())
        .or_else(|| {
            let path = core.notes.auxv(at::EXECFN)?;
            process.memory.text(Addr(path), crate::limits::MAX_NAME).ok()
        })
        .map(|p| safe(&p));
    let environment = strings.map(|s| {
        s.environment
            .iter()
            .map(|e| {
                let name = e.split_once('=').map_or(e.as_str(), |(n, _)| n);
                printable(if show_data { e } else { name }).into_owned()
            })
            .collect()
    });
    let signal = signal(process);
    let first = core.notes.threads.first();
    ProcessRow {
        pid: process.pid(),
        parent: info.map(|i| i.ppid).filter(|&p| p != 0),
        uid: info.map(|i| i.uid),
        name: info.map(|i| safe(&i.name)),
        command_line,
        executable,
        environment,
        crash_thread: match core.producer {
            // The kernel puts the thread that brought the dump about first;
            // the others order by tid or by what was current in the debugger.
            Producer::Kernel if !core.notes.first_thread_lost => first.map(|t| t.tid),
            _ => None,
        },
        signal,
        os: os_facts(process),
        page_size: page_size(core),
    }
}

fn signal(process: &Process) -> Option<SignalRow> {
    let notes = &process.core.notes;
    let (number, code, addr) = match notes.signal {
        Some(s) if s.signo != 0 && !(process.core.producer == Producer::Gcore && ATTACH_SIGNALS.contains(&s.signo)) => {
            (s.signo, Some(s.code), Some(s.addr))
        }
        // createdump writes SIGABRT (3.1) or 0 (8.0) into every thread of a
        // process that goes on living, gcore the signal that stopped it for gdb.
        _ if matches!(process.core.producer, Producer::Createdump | Producer::Gcore) => return None,
        _ if notes.first_thread_lost => return None,
        _ => (notes.threads.first().map(|t| i32::from(t.signal)).filter(|&s| s != 0)?, None, None),
    };
    let name =
        SIGNALS.iter().find(|(n, _)| *n == number).map_or_else(|| format!("signal {number}"), |(_, s)| (*s).into());
    let has_address = matches!(name.as_str(), "SIGSEGV" | "SIGBUS" | "SIGILL" | "SIGFPE" | "SIGTRAP");
    // si_code up to 0 means sent by a process: then si_addr is not an address.
    let faulted = has_address && code.is_some_and(|c| c > 0);
    Some(SignalRow { number, name, code, address: addr.filter(|_| faulted) })
}

/// Signals by which gdb stops a process it attaches to: SIGSTOP, SIGTRAP.
const ATTACH_SIGNALS: [i32; 2] = [19, 5];

/// Signal numbers of x86_64 and aarch64 Linux (asm-generic/signal.h).
const SIGNALS: &[(i32, &str)] = &[
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (10, "SIGUSR1"),
    (11, "SIGSEGV"),
    (12, "SIGUSR2"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (19, "SIGSTOP"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (31, "SIGSYS"),
    (34, "SIGRTMIN"),
];

/// What the core proves of the system, each with its evidence. One string found
/// somewhere proves nothing: .NET hosts hold the names of every distribution.
fn os_facts(process: &Process) -> Vec<OsFact> {
    let mut out = Vec::new();
    let mut add = |what, value: String, evidence: String| out.push(OsFact { what, value, evidence });
    match kernel_version(process) {
        Some(version) => add("kernel", format!("Linux {version}"), "the vdso's ELF note \"Linux\"".into()),
        None => add("kernel", "Linux".into(), "the core's notes are those of Linux".into()),
    }
    let is_libc = |m: &&crate::image::Module| {
        let name = m.name();
        ["ld-musl-", "libc.musl-", "libc.so", "libc-2."].iter().any(|start| name.starts_with(start))
    };
    for m in process.modules.iter().filter(is_libc).take(limits::MAX_BANNERS) {
        let name = m.name();
        if name.starts_with("ld-musl-") || name.starts_with("libc.musl-") {
            add("libc", "musl".into(), format!("loaded: {}", printable(&m.path)));
        } else {
            match banner(process, m.range) {
                Some(text) => add("libc", text, format!("the version text inside {}", printable(&m.path))),
                None => add("libc", "glibc".into(), format!("loaded: {}", printable(&m.path))),
            }
            if m.path.contains("-linux-gnu/") {
                add(
                    "distribution",
                    "Debian family (multiarch library paths)".into(),
                    format!("loaded: {}", printable(&m.path)),
                );
            }
        }
    }
    out
}

/// "GNU C Library (Debian GLIBC 2.36-9+deb12u10) stable release version 2.36."
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

/// LINUX_VERSION_CODE in the vdso's note of owner "Linux", type 0
/// (arch/x86/entry/vdso/note.S): 0xMMmmpp.
fn kernel_version(process: &Process) -> Option<String> {
    let base = Addr(process.core.notes.auxv(at::SYSINFO_EHDR)?);
    let vdso = process.memory.bytes(base, process.memory.readable(base, 8192) as usize).ok()?;
    // n_namesz 6, n_descsz 4, n_type 0, "Linux\0", padding
    let note = b"\x06\0\0\0\x04\0\0\0\0\0\0\0Linux\0\0\0";
    let found = memchr::memmem::find(&vdso, note)?;
    let code = bytes::u32_at(&vdso, found + note.len())?;
    Some(format!("{}.{}.{}", code >> 16, (code >> 8) & 0xff, code & 0xff))
}

fn completeness(process: &Process, found: &Findings) -> Completeness {
    let core = &process.core;
    let map = &found.map;
    // Bytes that are not there because the file ends were not left out.
    let cut_off = |range| {
        let pieces = core.pieces.overlapping(range).filter(|p| p.state == PieceState::Truncated);
        pieces.filter_map(|p| p.range.intersect(&range)).map(|r| r.len()).fold(0, u64::saturating_add)
    };
    let missing = |f: &dyn Fn(&crate::map::Region) -> bool| {
        let left_out = |r: &crate::map::Region| (r.range.len() - r.in_core).saturating_sub(cut_off(r.range));
        map.regions.iter().filter(|r| f(r)).map(left_out).fold(0, u64::saturating_add)
    };
    let writable_missing =
        missing(&|r| r.file.is_none() && r.perms.is_some_and(|p| p.write) && r.kind != Kind::NoAccess);
    let file_missing = missing(&|r| r.file.is_some());
    let truncated = core.truncation.map_or(0, |t| t.missing);
    let mut notes = Vec::new();
    if truncated > 0 {
        notes.push(format!(
            "cut off: {} of memory is missing at the end of the file; what lies there can't be read",
            human(truncated)
        ));
    }
    if writable_missing > 0 {
        notes.push(format!(
            "{} of writable memory was left out (a mini, triage or heap-only dump, coredump_filter, or MADV_DONTDUMP); what lay there can't be read",
            human(writable_missing)
        ));
    }
    let unread = process.modules.iter().filter(|m| matches!(m.kind, ModuleKind::NoHeaders)).count();
    if file_missing > 0 {
        notes.push(format!(
            "{} of file mappings was left out, as usual; {}--symbols DIR with the program's files fills it in",
            human(file_missing),
            if unread > 0 { format!("{unread} files lack even their headers; ") } else { String::new() }
        ));
    }
    if !core.notes.files.is_empty() && !core.producer.lists_all_files(&core.notes.files) {
        notes.push(
            "no deleted file or memfd is listed; this createdump may leave them out, and they would count as anonymous"
                .into(),
        );
    }
    if core.notes.files.is_empty() {
        notes.push(
            "no list of mapped files (NT_FILE): modules are known from the dynamic linker and their headers only"
                .into(),
        );
    }
    if core.notes.threads.iter().all(|t| t.thread_pointer.is_none()) {
        notes.push("no thread pointers: stacks are known by their stack pointers only".into());
    }
    Completeness {
        mapped: map.base.size(),
        in_core: core.dumped_total(),
        writable_missing,
        file_missing,
        truncated,
        notes,
    }
}
