//! Bad input: cores that are cut, corrupt or made on purpose. Each gives a
//! one-line error or a result whose sum holds; never a panic, a hang, or memory
//! that grows with a number in the file.

use std::path::Path;
use std::time::Duration;

use crate::support::Rng;
use crate::support::builder::{CoreBuilder, Count, Load, R, W, X, file_with, image, small_core};
use crate::support::cases::names;
use crate::support::commands::{FRAMES, of_cores};
use crate::support::real;
use crate::support::run::{Output, bounded, in_own_process, program, run, shell};
use crate::support::{elf, methods, notes};
use coremap::commands;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::session::Session;

/// Exit 3 and one line that begins with the program's name.
#[track_caller]
fn refused(out: &Output) -> String {
    out.exits(3);
    assert_eq!(out.stdout, "");
    assert_eq!(out.stderr.lines().count(), 1, "{}", out.stderr);
    assert!(out.stderr.starts_with("coremap: "), "{}", out.stderr);
    out.stderr.clone()
}

/// Refused, or an answer in which the kinds sum to the base.
#[track_caller]
fn refused_or_sums(out: &Output) {
    out.is_sound();
    if out.code == Some(3) {
        refused(out);
        return;
    }
    assert!(matches!(out.code, Some(0 | 4)), "code {:?}: {}", out.code, out.stderr);
    let answer = out.json();
    for key in ["size", "in_core"] {
        let kinds = answer["kinds"].as_array().unwrap().iter();
        let sum: u64 = kinds.map(|k| k[key].as_u64().unwrap()).fold(0, u64::saturating_add);
        assert_eq!(answer["total"][key], sum, "{key}");
        assert_eq!(answer["base"][key], sum, "{key}");
    }
    // What is partial is said in words.
    assert!(out.code != Some(4) || !answer["warnings"].as_array().unwrap().is_empty(), "{}", out.stdout);
}

#[track_caller]
fn summary(core: &Path) -> Output {
    let out = bounded(&["summary", "--json"], core).go();
    refused_or_sums(&out);
    out
}

/// Every command ends soundly on this core, in time and in little memory.
#[track_caller]
fn all_commands(core: &Path) {
    refused_or_sums(&bounded(&["summary", "--zero-fill", "--json"], core).go());
    let text =
        file_with(b"x 1 1.0: c:\n\t          400010 [unknown] (/bin/small)\n\t7fffffffffffffff x (/lib/libx.so)\n");
    let text = text.path().to_str().unwrap();
    for command in of_cores().filter(|c| c.hostile && c.name != "summary") {
        let asked = command.asked.iter().map(|&a| if a == FRAMES { text } else { a });
        let args = &[command.name].into_iter().chain(asked).collect::<Vec<_>>();
        let out = bounded(args, core).go();
        out.is_sound();
        assert!(matches!(out.code, Some(0 | 1 | 4)), "{args:?}: code {:?}: {}", out.code, out.stderr);
    }
}

#[test]
fn what_is_no_core_is_named_in_one_line() {
    let small = small_core().build();
    let with = |at: usize, byte: u8| {
        let mut bytes = small.clone();
        bytes[at] = byte;
        bytes
    };
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("not ELF", b"#!/bin/sh\necho hello\n".repeat(20), "not an ELF file"),
        ("four bytes", b"\x7fELF".to_vec(), "fewer than an ELF header"),
        ("empty", Vec::new(), "empty"),
        ("a minidump", b"MDMP\x93\xa7".repeat(40), "minidump"),
        ("an executable", with(16, 2), "not a core"),
        ("an object file", with(16, 1), "not a core"),
        ("32-bit", with(4, 1), "32-bit"),
        ("big-endian", with(5, 2), "big-endian"),
        ("another machine", with(18, 243), "riscv64"),
    ];
    for (what, bytes, says) in cases {
        let file = file_with(&bytes);
        for command in ["summary", "info", "stacks", "check"] {
            let line = refused(&run([command, file.path().to_str().unwrap()]));
            assert!(line.contains(says), "{what}: {line}");
            assert!(line.contains(file.path().to_str().unwrap()), "{what}: {line}");
        }
    }
}

#[test]
fn what_is_no_file_is_named_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    assert!(refused(&run(["summary", dir.path().to_str().unwrap()])).contains("directory"));
    let missing = dir.path().join("nothing\u{1b}[2J-here");
    let line = refused(&run(["summary", missing.to_str().unwrap()]));
    assert!(line.contains("No such file") && !line.contains('\u{1b}'), "{line}");
    assert!(refused(&run(["summary", "/dev/null"])).contains("not a file"));
}

#[test]
fn a_core_that_may_not_be_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let file = small_core().write();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(file.path()).is_ok() {
        eprintln!("skipped: this user may read every file");
        return;
    }
    assert!(refused(&run(["summary", file.path().to_str().unwrap()])).contains("ermission"));
}

/// The sums hold in a core that is cut, or it is no core; told as truncated where it is `partial`.
fn summed_up(path: &Path, cut: usize, partial: bool) {
    let silent = Progress::silent();
    let Ok(process) = Process::open(path, &Options::default(), &silent) else {
        assert!(!partial, "refused, cut at {cut}");
        return;
    };
    let session = Session::new(&process);
    let sum = commands::summary(&session, false, &silent);
    assert_eq!((sum.total.size, sum.total.in_core), (sum.base.size, sum.base.in_core), "cut at {cut}");
    let kinds = sum.kinds.iter().fold((0, 0), |all, k| (all.0 + k.size, all.1 + k.in_core));
    assert_eq!(kinds, (sum.base.size, sum.base.in_core), "cut at {cut}");
    let answer = commands::envelope("summary", &session, sum);
    assert!(!partial || answer.core.truncated, "cut at {cut}");
    assert_eq!(process.diag.is_partial(), partial, "cut at {cut}: {:?}", answer.warnings);
}

#[test]
fn cut_at_every_byte_of_headers_and_notes() {
    for core in [small_core(), small_core().notes_last()] {
        let bytes = core.build();
        let end = core.notes_range().end.max(core.data_offset());
        // Where the notes are last, the bytes between tell nothing new.
        let headers = 0..bytes.len().min(64 + 56 * 7);
        let cuts = headers.chain(core.notes_range()).chain([end]);
        for (i, cut) in cuts.enumerate() {
            let file = file_with(&bytes[..cut.min(bytes.len())]);
            let partial = cut >= 64 && cut < bytes.len();
            summed_up(file.path(), cut, partial);
            // What the program makes of it is the same for all, but for the place.
            if i % 16 == 0 {
                let out = run(["summary", "--json", file.path().to_str().unwrap()]);
                refused_or_sums(&out);
                if partial {
                    out.exits(4);
                    assert_eq!(out.json()["core"]["truncated"], true, "cut at {cut}");
                }
            }
        }
    }
}

#[test]
fn real_cores_cut_at_random_places() {
    let mut rng = Rng(0x5eed_0001);
    for name in names("process") {
        let whole = real::plain(name);
        let (headers, len) = real::headers(name);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::copy(&whole, file.path()).unwrap();
        // From the longest to the shortest, so that one copy serves all.
        let mut cuts: Vec<u64> =
            (0..50).map(|i| if i < 8 { rng.below(headers.len as u64) } else { rng.below(len) }).collect();
        cuts.sort_unstable_by(|a, b| b.cmp(a));
        for cut in cuts {
            file.as_file().set_len(cut).unwrap();
            let out = summary(file.path());
            if cut > headers.len as u64 {
                out.exits(4);
                let answer = out.json();
                assert_eq!(answer["core"]["truncated"], true, "{name} cut at {cut}");
                let missing = headers.in_core(len) - headers.in_core(cut);
                assert_eq!(answer["core"]["truncation"]["missing"], missing, "{name} cut at {cut}");
            }
        }
    }
}

#[test]
fn cores_with_code_cut_at_random_places() {
    let mut rng = Rng(0x5eed_0006);
    for name in names("methods") {
        let bytes = real::bytes(name);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        real::write_sparse(file.as_file_mut(), &bytes);
        let ips = methods::ips(&methods::official(name));
        let args: Vec<&str> = ["ip2method", "--json"].into_iter().chain(ips.iter().map(String::as_str)).collect();
        let mut cuts: Vec<u64> = (0..8).map(|_| rng.below(bytes.len() as u64)).collect();
        cuts.sort_unstable_by(|a, b| b.cmp(a));
        for cut in cuts {
            file.as_file().set_len(cut).unwrap();
            let out = bounded(&args, file.path()).go();
            out.is_sound();
            if cut > elf::read(&bytes).len as u64 {
                out.exits(4);
                for row in out.json()["results"].as_array().unwrap() {
                    assert_eq!(row["found"] == true, row["reason"].is_null(), "{name} cut at {cut}: {row}");
                }
            }
            bounded(&["perfmap"], file.path()).go().is_sound();
        }
    }
}

#[test]
fn a_truncated_core_says_so_first() {
    let core = file_with(&small_core().build()[..12_000]);
    for command in ["summary", "info", "stacks", "regions", "maddress"] {
        let out = run([command, core.path().to_str().unwrap()]);
        out.exits(4);
        let first = out.stdout.lines().next().unwrap();
        assert!(first.contains("TRUNCATED") && first.contains("missing"), "{command}: {first}");
    }
}

#[test]
fn packed_streams_that_break_off_or_lie() {
    let packed = std::fs::read(real::packed("native-aarch64-qemu")).unwrap();
    let mut rng = Rng(0x5eed_0002);
    for i in 0..40 {
        let mut bytes = packed.clone();
        if i % 2 == 0 {
            bytes.truncate(rng.below(packed.len() as u64) as usize);
        } else {
            let at = rng.below(packed.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        summary(file_with(&bytes).path());
    }
}

#[test]
fn notes_with_lying_sizes() {
    for lie in [0, 1, 3, 11, 335, 337, 0x7fff_fff0, u32::MAX - 3, u32::MAX] {
        let prstatus = notes::prstatus_x86_64(1, 0, 0, 0, 0);
        let core = small_core().note(notes::sized(5, lie, "CORE", 1, &prstatus[20..]));
        all_commands(core.write().path());
        let core = small_core().note(notes::sized(lie, 336, "CORE", 1, &prstatus[20..]));
        all_commands(core.write().path());
    }
    for size in [0, 1, 20, 1 << 40, u64::MAX] {
        summary(small_core().note_size(size).write().path());
    }
}

#[test]
fn file_lists_with_lying_counts() {
    let list = [(0x40_0000, 0x40_1000, 0, "/bin/x"), (0x50_0000, 0x4f_0000, u64::MAX, "/backwards")];
    for count in [0, 1, 2, 3, 1 << 20, 1 << 32, u64::MAX / 24 + 1, u64::MAX] {
        for page in [0, 1, 4096, u64::MAX] {
            let core = small_core().note(notes::files_counted(count, page, &list));
            summary(core.write().path());
        }
    }
}

#[test]
fn short_notes_of_every_known_type() {
    for kind in [1, 3, 6, 0x401, 0x4649_4c45, 0x5349_4749] {
        for len in 0..40 {
            let core = CoreBuilder::x86_64()
                .note(notes::prstatus_x86_64(1, 0, 0x1000, 0, 0))
                .note(notes::note("CORE", kind, &vec![0xff; len]))
                .note(notes::note("LINUX", kind, &vec![0xff; len]))
                .load(Load::at(0x1000).bytes(vec![1; 64]));
            let out = run(["info", core.write().path().to_str().unwrap()]);
            out.is_sound();
        }
    }
}

fn many(n: u64, step: u64, len: u64) -> impl Iterator<Item = Load> {
    // Unlike neighbours, so that nothing is joined.
    (0..n).map(move |i| Load::at(0x10_0000 + i * step).memsz(len).flags(if i % 2 == 0 { R } else { R | W }))
}

#[test]
fn a_hundred_thousand_segments() {
    let core = small_core().loads(many(100_000, 0x1000, 0x1000)).count(Count::Extended).write();
    let out = summary(core.path());
    assert!(out.json()["total"]["count"].as_u64().unwrap() > 90_000);
    all_commands(core.path());
}

#[test]
fn a_lying_count_of_segments() {
    for n in [0, 1, 100, u32::MAX] {
        summary(small_core().count(Count::ExtendedLying(n)).write().path());
    }
    // PN_XNUM without the section header that has the number.
    summary(small_core().count(Count::Extended).patch(40, &[0; 8]).write().path());
    summary(small_core().count(Count::Extended).patch(40, &[0xff; 8]).write().path());
}

#[test]
fn a_hundred_thousand_overlapping_unsorted_segments() {
    let mut rng = Rng(0x5eed_0003);
    let loads: Vec<_> = (0..100_000u64)
        .map(|i| Load::at(0x10_0000 + 0x1000 * rng.below(50_000)).memsz(0x1000 * (1 + rng.below(1 << (i % 16)))))
        .collect();
    let core = small_core().loads(loads).count(Count::Extended).write();
    assert!(summary(core.path()).stderr.contains("overlap"));
    all_commands(core.path());
}

#[test]
fn nested_segments_over_the_same_bytes() {
    let n = 50_000;
    let data = small_core().loads(many(n, 1, 1)).data_offset() as u64;
    let loads = (0..n).map(|i| Load::at(0x10_0000 + i).offset(data).filesz(0x800).memsz(2 * (n - i)));
    let core = small_core().loads(loads).count(Count::Extended).write();
    all_commands(core.path());
}

#[test]
fn unsorted_segments_give_the_map_that_sorted_ones_give() {
    let loads =
        [(0x50_0000, 0x2000), (0x10_0000, 0x1000), (0x30_0000, 0x3000)].map(|(at, len)| Load::at(at).memsz(len));
    let mut sorted = loads.to_vec();
    sorted.rotate_left(1);
    sorted.swap(1, 2);
    let regions = |loads: Vec<Load>| {
        let core = CoreBuilder::x86_64().note(notes::prstatus_x86_64(1, 0, 0, 0, 0)).loads(loads).write();
        run(["regions", "--json", core.path().to_str().unwrap()]).exits(4).json()["regions"].clone()
    };
    assert_eq!(regions(loads.to_vec()), regions(sorted));
}

#[test]
fn the_top_of_the_address_space() {
    for (at, len) in [
        (u64::MAX, 1),
        (u64::MAX - 0xfff, 0x1000),
        (u64::MAX - 0xfff, u64::MAX),
        (0, u64::MAX),
        (1 << 63, 1 << 63),
        (0xffff_ffff_ff60_0000, 0x1000),
    ] {
        for file in [0, 0x1000, u64::MAX] {
            let load = Load::at(at).memsz(len).filesz(file).flags(R | W | X);
            let core = small_core()
                .load(load)
                .note(notes::files(4096, &[(at, at.saturating_add(len), u64::MAX, "/top.so")]))
                .note(notes::prstatus_x86_64(9, 0, at, at, at))
                .note(notes::auxv(&[(25, at), (31, at), (33, at), (3, at), (7, at), (9, at)]));
            all_commands(core.write().path());
        }
    }
}

#[test]
fn more_bytes_in_the_file_than_in_memory() {
    let core = small_core().load(Load::at(0x90_0000).bytes(vec![1; 0x3000]).memsz(0x1000)).write();
    let out = summary(core.path());
    assert_eq!(out.code, Some(4));
    let bytes = std::fs::read(core.path()).unwrap();
    assert_eq!(out.json()["base"]["in_core"], elf::read(&bytes).in_core(bytes.len() as u64));
}

#[test]
fn promised_sizes_that_overflow_when_added() {
    let huge = |i: u64| Load::at(0x1000 * i).memsz(u64::MAX / 2).filesz(u64::MAX / 2);
    let core = small_core().loads((1..6).map(huge)).write();
    all_commands(core.path());
}

#[test]
fn control_characters_never_reach_the_terminal() {
    // ESC, newline, CR, BEL, DEL, C1 CSI, the bidirectional controls, what has no width.
    let evil = "e\u{1b}[31m\nv\r\u{7}\u{7f}\u{9b}2J\u{202e}\u{2066}\u{200f}\u{61c}\u{200b}\u{feff}\u{e0041}il";
    let stack = 0x7fff_0000_0000u64;
    let mut bytes = vec![0u8; 0x1000];
    let mut put = |at: usize, b: &[u8]| bytes[at..at + b.len()].copy_from_slice(b);
    let auxv = [(6u64, 4096u64), (25, stack + 0xf00), (3, 0x40_0040)];
    // argc, argv, NULL, envp, NULL, auxiliary vector: as execve leaves it.
    let words = [1, stack + 0x800, 0, stack + 0x900, 0];
    put(0x100, &words.map(u64::to_le_bytes).concat());
    put(0x100 + 40, &auxv.map(|(k, v)| [k.to_le_bytes(), v.to_le_bytes()].concat()).concat());
    put(0x800, evil.as_bytes());
    put(0x900, format!("NAME{evil}=VALUE{evil}").as_bytes());
    put(0xa00, format!("marker{evil}marker").as_bytes());
    let file = format!("/lib/{evil}.so");
    let core = CoreBuilder::x86_64()
        .note(notes::prstatus_x86_64(7, 11, stack + 0x80, 0, 0))
        .note(notes::prpsinfo(7, evil, evil))
        .note(notes::siginfo(11, 1, 0))
        .note(notes::auxv(&auxv))
        .note(notes::files(4096, &[(0x40_0000, 0x40_2000, 0, &file), (0x60_0000, 0x60_1000, 0, &format!("/d/{evil}"))]))
        .note(notes::note(evil, 77, evil.as_bytes()))
        .load(Load::at(0x40_0000).flags(R | X).bytes(image(&[(0, 0x2000, R | X)], 0x2000)))
        .load(Load::at(stack).bytes(bytes))
        .write();
    let path = core.path().to_str().unwrap();
    let info = run(["info", "--show-data", "--json", path]).json();
    assert!(info["process"]["command_line"][0].as_str().unwrap().starts_with('e'), "the bait was not taken: {info}");
    let whatis = format!("{:#x}", stack + 0x100);
    let commands: &[&[&str]] = &[
        &["info"],
        &["info", "--show-data"],
        &["summary"],
        &["regions"],
        &["maddress"],
        &["stacks", "--zero-fill"],
        &["whatis", "0x400010"],
        &["whatis", "0x600000"],
        &["whatis", &whatis, "--bytes", "256"],
        &["ip2method", "0x400010", "0x600000"],
        &["ip2method", "--short", "0x600000"],
        &["perfmap"],
        &["check"],
        &["threads"],
        &["search", "--context", "marker"],
        &["-vv", "summary"],
    ];
    for args in commands {
        for form in ["table", "csv", "json"] {
            let out = run(args.iter().copied().chain(["--format", form, path]));
            out.is_sound();
            for (name, text) in [("stdout", &out.stdout), ("stderr", &out.stderr)] {
                let bad = |c: char| {
                    (c.is_control() && c != '\n')
                        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
                        || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e007f}')
                };
                let found = text.find(bad).map(|i| text[i..].chars().take(20).collect::<String>());
                assert_eq!(found, None, "{args:?} {form} {name}");
                // The newline inside the name must not start a line of its own.
                assert!(!text.lines().any(|l| l.starts_with('v')), "{args:?} {form} {name}: {text}");
            }
        }
    }
}

#[test]
fn text_at_the_ends_of_the_address_space_is_shown_with_context() {
    // Context is cut at address 0 and at the top, not reckoned past them.
    for at in [0, u64::MAX - 0x40] {
        let load = Load::at(at).bytes(b"...marker...marker.".to_vec());
        let core = CoreBuilder::x86_64().note(notes::prstatus_x86_64(1, 0, 0, 0, 0)).load(load).write();
        let out = run(["search", "--context", "--json", "marker", core.path().to_str().unwrap()]);
        assert_eq!(out.is_sound().json()["total"], 2, "at {at:#x}");
    }
}

#[test]
fn a_core_that_shrinks_while_it_is_mapped_is_no_crash() {
    // Losses are told of all that a process has mapped.
    in_own_process("hostile::a_core_that_shrinks_while_it_is_mapped_is_no_crash", shrinks_while_it_is_mapped);
}

fn shrinks_while_it_is_mapped() {
    let core = small_core().load(Load::at(0x9000_0000).bytes(vec![5; 1 << 20])).write();
    let silent = Progress::silent();
    let process = Process::open(core.path(), &Options { handle_sigbus: true, ..Options::default() }, &silent).unwrap();
    core.as_file().set_len(4096).unwrap();
    let session = Session::new(&process);
    let report = commands::summary(&session, true, &silent);
    assert_eq!(report.total.size, report.base.size);
    let answer = commands::envelope("summary", &session, report);
    assert!(answer.warnings.iter().any(|w| w.code == coremap::diag::WarningCode::Shrank), "{:?}", answer.warnings);
    assert!(process.diag.is_partial());
}

#[test]
fn the_slowest_honest_core_is_far_from_the_bound() {
    // Guards the bound itself: were it too tight, every other one here would be luck.
    let out = program(["summary", "--zero-fill", real::plain("dotnet31-gcore").to_str().unwrap()])
        .within(Duration::from_secs(60))
        .go();
    out.exits(0);
    assert!(out.took < Duration::from_secs(20), "{:?}", out.took);
}

#[test]
#[should_panic(expected = "of processor time, of at most 1s")]
fn what_does_not_end_is_ended_by_the_bound() {
    shell("while :; do :; done", [""; 0]).within(Duration::from_secs(1)).go();
}

#[test]
fn to_wait_takes_no_processor_time() {
    let out = shell("sleep 2", [""; 0]).within(Duration::from_secs(1)).go();
    out.exits(0);
    assert!(out.took < Duration::from_millis(500), "{:?}", out.took);
}
