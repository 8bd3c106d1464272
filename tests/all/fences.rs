//! What the program opens, what it writes, and what it leaves behind: no file outside of
//! `--symbols`, no half core, nothing for others to read.

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::builder::{CoreBuilder, Load, R, W, X, file_with, image, small_core};
use crate::support::notes;
use crate::support::run::{Output, program, run, shell};
use rustix::process::{Pid, Signal, kill_process};

const SECRET: &str = "SECRET-of-another-file";

/// A core that maps three pages of a file whose headers it does not have.
fn core_of_a_library() -> tempfile::NamedTempFile {
    CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(7, 0, 0x7000_0000_0800, 0, 0))
        .note(notes::files(4096, &[(0x5000_0000, 0x5000_3000, 0, "/app/thing.dll")]))
        .load(Load::at(0x5000_0000).memsz(0x3000).flags(R))
        .load(Load::at(0x7000_0000_0000).bytes(vec![1; 0x1000]))
        .write()
}

/// Three pages with a secret.
fn secret() -> Vec<u8> {
    SECRET.as_bytes().iter().copied().cycle().take(0x3000).collect()
}

/// What is shown of the library's memory.
fn shown(core: &Path, symbols: &Path) -> Output {
    let args = ["whatis", "0x50000000", "--bytes", "64", "--symbols"];
    program(args.map(Path::new).into_iter().chain([symbols, core])).go()
}

#[test]
fn a_link_that_leads_out_of_symbols_is_not_followed() {
    let core = core_of_a_library();
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("symbols");
    std::fs::create_dir(&folder).unwrap();
    // A library, so that nothing but the link speaks against it.
    let mut library = image(&[(0, 0x3000, R | X)], 0x3000);
    library[0x1000..0x1000 + SECRET.len()].copy_from_slice(SECRET.as_bytes());
    std::fs::write(outer.path().join("thing.dll"), &library).unwrap();
    for target in ["../thing.dll".into(), outer.path().join("thing.dll")] {
        symlink(target, folder.join("thing.dll")).unwrap();
        let out = shown(core.path(), &folder);
        assert!(out.stderr.contains("symbols-astray") && out.stderr.contains("leads out"), "{}", out.stderr);
        assert!(!out.stdout.contains("ELF"), "{}", out.stdout);
        std::fs::remove_file(folder.join("thing.dll")).unwrap();
    }
    // The same in a folder on the way, as an archive may have it.
    symlink(outer.path(), folder.join("app")).unwrap();
    assert!(!shown(core.path(), &folder).stdout.contains("ELF"));
    std::fs::remove_file(folder.join("app")).unwrap();
    // Links that stay inside lead to it, absolute ones too: the folder is their root.
    std::fs::create_dir(folder.join("app")).unwrap();
    std::fs::write(folder.join("real"), &library).unwrap();
    for target in ["../real", "/real"] {
        symlink(target, folder.join("app/thing.dll")).unwrap();
        assert!(shown(core.path(), &folder).stdout.contains("ELF"), "{target}");
        std::fs::remove_file(folder.join("app/thing.dll")).unwrap();
    }
}

#[test]
fn what_is_no_program_file_is_no_symbol_file() {
    let core = core_of_a_library();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("thing.dll"), secret()).unwrap();
    let out = shown(core.path(), folder.path());
    assert!(!out.stdout.contains("SECRET") && !out.stdout.contains("53 45 43"), "{}", out.stdout);
    assert!(out.stderr.contains("symbols-no-program"), "{}", out.stderr);
    // A pipe is no file, and nobody writes to this one.
    std::fs::remove_file(folder.path().join("thing.dll")).unwrap();
    let made = Command::new("mkfifo").arg(folder.path().join("thing.dll")).status();
    if !made.is_ok_and(|s| s.success()) {
        eprintln!("skipped: no mkfifo to make a pipe with");
        return;
    }
    assert!(!shown(core.path(), folder.path()).is_sound().stdout.contains("SECRET"));
}

/// A core of which `shrink --for summary` keeps 64 MiB: the data of a module, which may hold
/// malloc's arena.
fn core_to_shrink() -> tempfile::NamedTempFile {
    let note = notes::prstatus_x86_64(1, 0, 0, 0, 0);
    CoreBuilder::x86_64().note(note).load(Load::at(0x40_0000).bytes(image(&[(0, 64 << 20, R | W)], 64 << 20))).write()
}

fn names(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

/// With /proc hidden there is no giving a name to a file without one: as on a file system
/// that knows none of those. `None` where that can't be done.
const HIDDEN: &str = "unshare -Urm sh -c 'mount -t tmpfs none /proc && exec \"$@\"' sh";

fn can_hide() -> bool {
    let script = format!("{HIDDEN} true");
    let can = Command::new("sh").args(["-c", &script]).output().is_ok_and(|o| o.status.success());
    if !can {
        eprintln!("skipped in part: unshare can't hide /proc here");
    }
    can
}

#[test]
fn a_written_core_is_for_its_owner_alone() {
    let core = small_core().write();
    for (way, can) in [("", true), (HIDDEN, can_hide())] {
        for umask in ["000", "022", "277", "777"].into_iter().filter(|_| can) {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("out");
            let script = format!("umask {umask}; exec {way} \"$0\" shrink --for info -o \"$1\" \"$2\"");
            let done = shell(&script, [&out, core.path()]).go();
            assert!(matches!(done.is_sound().code, Some(0 | 4)), "{}", done.stderr);
            assert_eq!(out.metadata().unwrap().permissions().mode() & 0o7777, 0o600, "umask {umask}");
            assert_eq!(names(folder.path()), ["out"]);
        }
    }
}

#[test]
fn nothing_is_written_over_or_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("core"), small_core().build()).unwrap();
    std::fs::write(at("mine"), "mine").unwrap();
    symlink("mine", at("link")).unwrap();
    symlink("nothing", at("dangling")).unwrap();
    std::fs::hard_link(at("core"), at("same")).unwrap();
    let before = std::fs::read(at("core")).unwrap();
    for out in ["core", "./core", "mine", "link", "dangling", "same"] {
        let done = program(["shrink", "-o", out, "core"]).dir(folder.path()).go();
        assert!(done.exits(2).stderr.contains("exists already"), "{out}: {}", done.stderr);
    }
    assert_eq!(std::fs::read(at("core")).unwrap(), before);
    assert_eq!(std::fs::read(at("mine")).unwrap(), b"mine");
    assert!(!at("nothing").exists());
}

#[test]
fn a_core_that_is_too_large_for_a_limit_leaves_nothing() {
    let core = core_to_shrink();
    for (way, can) in [("", true), (HIDDEN, can_hide())] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        // Not ignored, as a user's shell has it: the signal would end the program.
        let script = format!("ulimit -f 1000; exec {way} \"$0\" shrink --for summary -o \"$1\" \"$2\"");
        let done = can.then(|| shell(&script, [&out, core.path()]).go());
        let Some(done) = done else { continue };
        done.exits(3);
        assert!(
            done.stderr.contains("ulimit -f") && done.stderr.contains("the incomplete file was removed"),
            "{}",
            done.stderr
        );
        assert_eq!(names(folder.path()), [""; 0]);
    }
}

/// Start `shrink`, and wait until it has the new file open.
fn writing(way: &str, out: &Path, core: &Path) -> Option<Child> {
    let script = format!("exec {way} \"$0\" shrink --for summary -o \"$1\" \"$2\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_coremap")]).args([out, core]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let fds = format!("/proc/{}/fd", child.id());
    let folder = out.parent().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(600), "it writes nothing");
        let Ok(open) = std::fs::read_dir(&fds) else { continue };
        let targets = open.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
        if targets.into_iter().any(|path| path.starts_with(folder) && path != core) {
            return Some(child);
        }
    }
    None
}

#[test]
fn signals_leave_nothing_behind() {
    let core = core_to_shrink();
    for (way, can) in [("", true), (HIDDEN, can_hide())] {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP].into_iter().filter(|s| can && !is_ignored(*s)) {
            // It may be done before the signal comes.
            let ended = (0..100).find_map(|_| {
                let folder = tempfile::tempdir().unwrap();
                let out = folder.path().join("out");
                let mut child = writing(way, &out, core.path())?;
                let _ = kill_process(Pid::from_child(&child), signal);
                let status = child.wait().unwrap();
                let left = names(folder.path());
                assert!(left.iter().all(|name| name == "out"), "{left:?}");
                // Whole, or not there.
                assert_eq!(left.len(), usize::from(status.success()), "{status:?}");
                (!status.success()).then_some(status)
            });
            let ended = ended.expect("a hundred were faster than their signal");
            assert_eq!(ended.signal(), Some(signal.as_raw()), "{ended:?}");
        }
    }
}

/// Whether whoever started the tests has a signal ignored, as a shell does of what it runs
/// in the background: the program leaves it so.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(mask.trim(), 16).unwrap() & 1 << (signal.as_raw() - 1) != 0;
    if ignored {
        eprintln!("skipped: the tests run with {signal:?} ignored, and so does the program");
    }
    ignored
}

#[test]
fn a_signal_that_nohup_ignores_ends_nothing() {
    let core = small_core().build();
    if is_ignored(Signal::HUP) {
        return;
    }
    for (shell, ends) in [("trap '' HUP; exec \"$0\" summary -", false), ("exec \"$0\" summary -", true)] {
        let mut command = Command::new("sh");
        command.args(["-c", shell, env!("CARGO_BIN_EXE_coremap")]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        // It waits for its input with all its threads there.
        let ready = || std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().count() > 1;
        let begun = Instant::now();
        while !ready() {
            assert!(begun.elapsed() < Duration::from_secs(600), "it never starts");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        kill_process(pid, Signal::HUP).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let _ = child.stdin.take().unwrap().write_all(&core);
        let out = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&out.stdout).contains("[TOTAL]");
        assert_eq!((told, out.status.signal()), (!ends, ends.then_some(Signal::HUP.as_raw())), "{shell}");
    }
}

#[test]
fn a_limit_on_threads_is_a_sentence() {
    let core = small_core().load(Load::at(0x9000_0000).bytes(vec![5; 8 << 20])).write();
    std::fs::set_permissions(core.path(), PermissionsExt::from_mode(0o644)).unwrap();
    // root has no such limit.
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    let way = if rustix::process::getuid().is_root() { nobody } else { "" };
    let limited = |command: &str| {
        let script = format!(
            "ulimit -t 60; ulimit -c 0; exec {way} sh -c '(ulimit -p 1 || ulimit -u 1) 2>/dev/null; ulimit -p 1 2>/dev/null || ulimit -u 1; {command}' \"$0\" \"$1\""
        );
        shell(&script, [core.path()]).env("RAYON_NUM_THREADS", "8").go()
    };
    // Where the shell can fork still, there is no such limit here.
    let can = limited("test -r \"$1\" && test -x \"$0\" || echo unreadable; (true) & wait");
    if can.code == Some(0) || !can.stdout.is_empty() {
        eprintln!("skipped: processes can't be limited here: {} {}", can.stdout, can.stderr);
        return;
    }
    for command in ["summary --zero-fill", "search zzz", "anon"] {
        let out = limited(&format!("exec \"$0\" {command} \"$1\""));
        assert!(matches!(out.is_sound().code, Some(0 | 1 | 4)), "{command}: {}", out.stderr);
        assert!(out.stderr.contains("threads could be started"), "{command}: {}", out.stderr);
    }
}

#[test]
fn arguments_do_not_reach_the_terminal_as_they_are() {
    let evil = "x\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\u{200b}\u{e0041}\nfake";
    let folder = tempfile::tempdir().unwrap();
    let core = folder.path().join(evil);
    std::fs::write(&core, small_core().build()).unwrap();
    let core = core.to_str().unwrap();
    let runs: &[&[&str]] = &[
        &[evil],
        &["summary", "--format", evil, "core"],
        &[&format!("--format={evil}"), "summary", "core"],
        &["regions", "--kind", evil, "core"],
        &["summary", "a", evil],
        &[&format!("--{evil}")],
        &["whatis", evil, core],
        &["summary", evil],
        &["summary", core],
        &["-vv", "summary", core],
        &["summary", "--symbols", evil, core],
        &["summary", "--symbols", core, core],
        &["diff", evil, core],
        &["symbolicate", evil, core],
        &["heapstat", "--type", &format!("({evil}"), core],
        &["summary", "--fail-if", evil, core],
        &["shrink", "-o", core, core],
        &["search", evil, core],
        &[core],
    ];
    for args in runs {
        for form in [None, Some(["--format", "json"]), Some(["--format", "csv"])] {
            let out = run(args.iter().copied().chain(form.into_iter().flatten()));
            out.is_sound();
            for text in [&out.stdout, &out.stderr] {
                let harmful = |c: char| c != '\n' && coremap::bytes::is_harmful(c);
                let found = text.find(harmful).map(|i| text[i..].chars().take(20).collect::<String>());
                assert_eq!(found, None, "{args:?} {form:?}");
                assert!(!text.lines().any(|l| l.starts_with("fake")), "{args:?} {form:?}: {text}");
            }
        }
    }
}

/// argv and envp as execve leaves them, with secrets in all places that are not names.
fn core_with_secrets() -> tempfile::NamedTempFile {
    let stack = 0x7fff_0000_0000u64;
    let mut bytes = vec![0u8; 0x2000];
    let texts = [
        "/opt/x/server",
        "--password=hunter2",
        "hunter2",
        "PATH=/bin",
        "hunter2-without-equals",
        "TOKEN=hunter2",
        "hunter2 with=spaces",
        "DOTNET_DefaultStackSize=hunter2",
    ];
    let mut at = 0x1000;
    let mut pointers = Vec::new();
    for text in texts {
        bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
        pointers.push(stack + at as u64);
        at += text.len() + 1;
    }
    let mut words = vec![3];
    words.extend(&pointers[..3]);
    words.push(0);
    words.extend(&pointers[3..]);
    words.push(0);
    let auxv = [(6u64, 4096u64), (25, stack + 0x1f00), (3, 0x40_0040)];
    words.extend(auxv.iter().flat_map(|&(k, v)| [k, v]));
    for (i, word) in words.iter().enumerate() {
        bytes[0x100 + 8 * i..0x108 + 8 * i].copy_from_slice(&word.to_le_bytes());
    }
    let mut core = CoreBuilder::x86_64().note(notes::prpsinfo(7, "server", "/opt/x/server --password=hunter2"));
    // Enough threads that a word is said on the size of their stacks.
    for tid in 7..60u32 {
        let low = 0x7000_0000_0000 + u64::from(tid) * 0x10_0000;
        core = core.note(notes::prstatus_x86_64(tid, 0, low + 0x800, 0, 0)).load(Load::at(low).bytes(vec![1; 0x1000]));
    }
    core.note(notes::auxv(&auxv)).load(Load::at(stack).bytes(bytes)).write()
}

#[test]
fn what_a_process_was_told_is_shown_only_where_asked_for() {
    let core = core_with_secrets();
    let path = core.path().to_str().unwrap();
    for command in ["info", "summary", "stacks", "threads", "regions", "check"] {
        for form in ["table", "json", "csv"] {
            let out = run([command, "--format", form, path]);
            assert!(!out.is_sound().stdout.contains("hunter2"), "{command} {form}: {}", out.stdout);
            assert!(!out.stderr.contains("hunter2"), "{command} {form}: {}", out.stderr);
        }
    }
    let process = &run(["info", "--json", path]).json()["process"];
    assert!(process["command_line"].is_null());
    assert_eq!(process["command_line_withheld"], true);
    assert_eq!((&process["program"], &process["arguments"]), (&"server".into(), &2.into()));
    assert_eq!(process["environment"], serde_json::json!(["PATH", "TOKEN", "DOTNET_DefaultStackSize"]));
    assert_eq!(process["environment_withheld"], 5);
    let table = run(["info", path]).stdout;
    assert!(table.contains("server and 2 arguments (--show-data shows them)"), "{table}");
    assert!(table.contains("DOTNET_DefaultStackSize (and 2 entries without names)"), "{table}");
    let stacks = run(["stacks", path]).stdout;
    assert!(stacks.contains("DOTNET_DefaultStackSize is set, but its value is not a hexadecimal number"), "{stacks}");
    let all = &run(["info", "--json", "--show-data", path]).json()["process"];
    assert_eq!(all["command_line"], serde_json::json!(["/opt/x/server", "--password=hunter2", "hunter2"]));
    assert_eq!(all["environment"].as_array().unwrap().len(), 5);
    assert_eq!((&all["command_line_withheld"], &all["environment_withheld"]), (&false.into(), &0.into()));
    // Only the kernel's copy of the command line is there.
    let bare = CoreBuilder::x86_64().note(notes::prpsinfo(7, "server", "/opt/x/server --password=hunter2"));
    let bare = file_with(&bare.load(Load::at(0x1000).bytes(vec![1; 64])).build());
    let out = run(["info", bare.path().to_str().unwrap()]).stdout;
    assert!(out.contains("server and its arguments (--show-data shows them)") && !out.contains("hunter2"), "{out}");
}
