//! `symbolicate` as people run it: texts as the tools print them, with
//! addresses of methods that exist in a real .NET 8 core. The names are those
//! that the official data-access library gave.

use std::process::{Command, Stdio};

use crate::support::builder::file_with;
use crate::support::real::{self, hex};
use crate::support::run::{Output, program, run};
use crate::support::{elf, methods};
use serde_json::Value;

const NAME: &str = "dotnet8-methods";

/// An IL stub for P/Invoke, a plain method, precompiled code.
const STUB: u64 = 0x7f8e_3e83_17b9;
const PLAIN: u64 = 0x7f8e_3e85_08d7;
const READY: u64 = 0x7f8e_3dba_9956;

/// The official name of the method that an address is in.
fn name(ip: u64) -> String {
    methods::row(NAME, &format!("{ip:#x}"))["method"].as_str().unwrap().to_owned()
}

/// The same with the distance from the start of the method.
fn at(ip: u64) -> String {
    let row = methods::row(NAME, &format!("{ip:#x}"));
    format!("{}+{:#x}", row["method"].as_str().unwrap(), ip - hex(&row["code_start"]))
}

fn symbolicate(options: &[&str], text: &str) -> Output {
    let file = file_with(text.as_bytes());
    let core = methods::core(NAME);
    let out = run(["symbolicate"].iter().chain(options).copied().chain([file.path().to_str().unwrap(), &core]));
    out.is_sound();
    out
}

#[track_caller]
fn rewritten(text: &str) -> (String, String) {
    let out = symbolicate(&[], text);
    out.exits(0);
    (out.stdout, out.stderr)
}

#[track_caller]
fn folded(text: &str) -> String {
    let out = symbolicate(&["--fold"], text);
    out.exits(0);
    out.stdout
}

#[track_caller]
fn frames(text: &str) -> Value {
    symbolicate(&["--json"], text).exits(0).json()
}

#[track_caller]
fn frame(answer: &Value, address: u64) -> Value {
    let list = answer["frames"].as_array().unwrap();
    let found = list.iter().find(|f| hex(&f["address"]) == address);
    found.unwrap_or_else(|| panic!("{address:#x} is not listed: {list:?}")).clone()
}

/// Where in its file an address is mapped from, and the file: NT_FILE, read by
/// the tests themselves.
fn file_offset(ip: u64) -> (u64, String) {
    let headers = elf::read(&real::bytes(NAME));
    let at = headers.files.iter().position(|&(start, end)| (start..end).contains(&ip)).unwrap();
    let (offset, path) = headers.names[at].clone();
    (offset + ip - headers.files[at].0, path)
}

/// perf 6.12: addresses.
fn perf() -> String {
    format!(
        "\
dotnet 20986 [000]  3719.278421: syscalls:sys_enter_mmap: addr: 0x00000000, len: 0x00020000, prot: 0x00000003
\t    7f8ebd41f9b3 __mmap+0x13 (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t    {STUB:x} [unknown] (/memfd:doublemapper (deleted))
\t    {PLAIN:x} [unknown] (/memfd:doublemapper (deleted))
\t    {READY:x} [unknown] (/rt/System.Private.CoreLib.dll)
\t    7f8ebcd9de57 [unknown] (/rt/libcoreclr.so)
\t               0 [unknown] ([unknown])

"
    )
}

fn perf_named(text: &str) -> String {
    [STUB, PLAIN, READY].iter().fold(text.to_owned(), |text, &ip| {
        let from = format!("{ip:x} [unknown]");
        assert!(text.contains(&from));
        text.replace(&from, &format!("{ip:x} {}", at(ip)))
    })
}

#[test]
fn perf_script_is_rewritten_in_place() {
    let text = perf();
    let (out, stderr) = rewritten(&text);
    // Nothing but the names changed: the frames of native code stand as they were.
    assert_eq!(out, perf_named(&text));
    assert_eq!(stderr, "coremap: 3 of 6 addresses named (perf text)\n");
}

#[test]
fn offsets_of_perf_6_1_are_found_through_the_files_of_the_core() {
    // `164393 [unknown] (/memfd:doublemapper (deleted))`
    let ((stub, file), (plain, _), (ready, dll)) = (file_offset(STUB), file_offset(PLAIN), file_offset(READY));
    assert_eq!(file, "/memfd:doublemapper (deleted)");
    assert!(dll.ends_with("/System.Private.CoreLib.dll") && stub < 1 << 32);
    let text = format!(
        "dotnet 20986 [000]  3719.278421: syscalls:sys_enter_mmap: addr: 0x00000000\n\
         \t          1019b3 __mmap+0x13 (/usr/lib/x86_64-linux-gnu/libc.so.6)\n\
         \t{stub:16x} [unknown] ({file})\n\
         \t{plain:16x} [unknown] ({file})\n\
         \t{ready:16x} [unknown] ({dll})\n\
         \t          ffffff [unknown] ({file})\n\n"
    );
    let mut want = text.clone();
    for (offset, ip) in [(stub, STUB), (plain, PLAIN), (ready, READY)] {
        want = want.replace(&format!("{offset:16x} [unknown]"), &format!("{offset:16x} {}", at(ip)));
    }
    assert_eq!(rewritten(&text).0, want);
    let answer = frames(&text);
    let stub = frame(&answer, stub);
    assert_eq!((hex(&stub["resolved"]), stub["kind"].as_str()), (STUB, Some("managed")));
    assert_eq!(stub["symbol"], name(STUB));
    let outside = frame(&answer, 0xff_ffff);
    assert!(outside["resolved"].is_null() && outside["note"].is_string(), "{outside}");
}

#[test]
fn heaptrack_prints_addresses_alone() {
    let text = format!(
        "\
Debuggee command was: /rt/dotnet exec lab.dll
PEAK MEMORY CONSUMERS
2.64M peak memory consumed over 290 calls from
inner_alloc
  at /src/libmyleak.c:15
  in /tmp/lab/libmyleak.so
348.16K consumed over 20 calls from:
    {STUB:#x}
      in ??
    {PLAIN:#x}
      in ??
    0x7f8ebcd9de56
      in /rt/libcoreclr.so
"
    );
    let mut want = text.clone();
    for ip in [STUB, PLAIN] {
        let row = methods::row(NAME, &format!("{ip:#x}"));
        want = want.replace(
            &format!("{ip:#x}\n      in ??"),
            &format!("{}\n      in {}", name(ip), row["module"].as_str().unwrap()),
        );
    }
    assert!(!want.contains("??"));
    assert_eq!(rewritten(&text).0, want);
    let stack = format!("dotnet;[libcoreclr.so];{};{};inner_alloc 348160\n", name(PLAIN), name(STUB));
    assert!(folded(&text).contains(&stack), "{}", folded(&text));
}

#[test]
fn memleak_prints_return_addresses_and_modules() {
    let text = format!(
        "\
Attaching to pid 20986, Ctrl+C to quit.
[08:13:01] Top 30 stacks with outstanding allocations:
\t65536 bytes in 1 allocations from stack
\t\t0x00007f8ebcddf089\t[unknown] [libcoreclr.so]
\t\t0x{STUB:016x}\t[unknown]
\t\t0x{PLAIN:016x}\t[unknown] [8]
\t\t0x{READY:016x}\t[unknown] [System.Private.CoreLib.dll]
\t\t0x00007f8ebd3a71f5\tstart_thread+0x305 [libc.so.6]
"
    );
    let mut want = text.clone();
    for ip in [STUB, PLAIN, READY] {
        want = want.replace(&format!("{ip:016x}\t[unknown]"), &format!("{ip:016x}\t{}", at(ip)));
    }
    assert_eq!(rewritten(&text).0, want);
    let stack = format!("start_thread;{};{};{};[libcoreclr.so] 65536\n", name(READY), name(PLAIN), name(STUB));
    assert_eq!(folded(&text), stack);
}

#[test]
fn gdb_prints_question_marks() {
    let text = format!(
        "\
Thread 2 (Thread 0x7f8dbbfff6c0 (LWP 21075)):
#0  0x{STUB:016x} in ?? ()
#1  0x{PLAIN:016x} in ?? ()
#2  0x00007f8ebd4278ec in clone3 () at ../sysdeps/unix/sysv/linux/x86_64/clone3.S:81
"
    );
    let (out, _) = rewritten(&text);
    let want = text
        .replace(&format!("{STUB:016x} in ??"), &format!("{STUB:016x} in {}", name(STUB)))
        .replace(&format!("{PLAIN:016x} in ??"), &format!("{PLAIN:016x} in {}", name(PLAIN)));
    assert_eq!(out, want);
    assert_eq!(folded(&text), format!("clone3;{};{} 1\n", name(PLAIN), name(STUB)));
}

#[test]
fn in_any_text_names_follow_the_addresses() {
    let text = format!("at {STUB:#x} and {PLAIN:016X}; pid 20986, 0x7f8dbbfff6c0\n");
    let want = text
        .replace(&format!("{STUB:#x}"), &format!("{STUB:#x} <{}>", at(STUB)))
        .replace(&format!("{PLAIN:016X}"), &format!("{PLAIN:016X} <{}>", at(PLAIN)));
    assert_eq!(rewritten(&text).0, want);
    let out = symbolicate(&["--fold"], &text);
    assert!(out.exits(2).stderr.contains("no stacks to fold"), "{}", out.stderr);
}

#[test]
fn stacks_are_folded_with_their_weights() {
    let other = perf().replace(&format!("\t    {STUB:x} [unknown] (/memfd:doublemapper (deleted))\n"), "");
    let text = perf() + &other + &perf();
    let outer = format!("dotnet;[unknown];[libcoreclr.so];{};{}", name(READY), name(PLAIN));
    let mut want = [format!("{outer};{};__mmap 2\n", name(STUB)), format!("{outer};__mmap 1\n")];
    want.sort();
    assert_eq!(folded(&text), want.concat());
}

#[test]
fn json_lists_each_address_once() {
    let text = perf() + &perf();
    let answer = frames(&text);
    assert_eq!((&answer["format"], &answer["addresses"], &answer["named"]), (&"perf".into(), &12.into(), &6.into()));
    assert_eq!(answer["frames"].as_array().unwrap().len(), 6);
    let plain = frame(&answer, PLAIN);
    assert_eq!((&plain["symbol"], &plain["count"]), (&name(PLAIN).into(), &2.into()));
    assert_eq!((&plain["kind"], &plain["module"]), (&"managed".into(), &"lab.dll".into()));
    assert_eq!(hex(&plain["resolved"]), PLAIN);
    let native = frame(&answer, 0x7f8e_bcd9_de57);
    assert_eq!((&native["kind"], &native["symbol"]), (&"unknown".into(), &Value::Null));
    let known = frame(&answer, 0x7f8e_bd41_f9b3);
    assert_eq!(known["symbol"], "__mmap");
    let out = symbolicate(&["--format", "csv"], &text);
    assert_eq!(out.exits(0).stdout.lines().count(), 7);
}

#[test]
fn half_written_texts_pass() {
    // Cut anywhere, what is whole is named and the rest comes back as it was.
    let text = perf() + "\nThread 1 (\n#0 0x";
    let named = perf_named(&perf());
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for cut in (0..text.len()).step_by(41) {
        let out = symbolicate(&[], &text[..cut]);
        assert!(matches!(out.code, Some(0 | 1)), "cut at {cut}: {out:?}");
        let (got, want) = (lines(&out.stdout), lines(&named));
        let whole = text[..cut].matches('\n').count().min(want.len());
        assert_eq!(got[..whole], want[..whole], "cut at {cut}");
        assert_eq!(out.stdout.ends_with('\n'), text[..cut].ends_with('\n'), "cut at {cut}");
    }
    let out = symbolicate(&[], "");
    assert_eq!(out.exits(1).stdout, "");
    let noise: Vec<u8> = (0..20_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = file_with(&noise);
    run(["symbolicate", file.path().to_str().unwrap(), &methods::core(NAME)]).exits(1);
}

#[test]
fn a_text_without_names_comes_back_with_status_1() {
    let text = "x 1 1.0: c:\n\t    7f8ebcd9de57 [unknown] (/rt/libcoreclr.so)\n";
    let out = symbolicate(&[], text);
    assert_eq!(out.exits(1).stdout, text);
    assert_eq!(out.stderr, "coremap: 0 of 1 addresses named (perf text)\n");
}

#[test]
fn standard_input_is_the_text_or_the_core() {
    let (text, core) = (perf(), methods::core(NAME));
    let out = program(["symbolicate", "-", &core]).input(text.clone().into_bytes()).go();
    assert_eq!(out.exits(0).stdout, perf_named(&text));
    let file = file_with(text.as_bytes());
    let packed = std::fs::read(&core).unwrap();
    let out = program(["symbolicate", file.path().to_str().unwrap(), "-"]).input(packed).go();
    assert_eq!(out.exits(0).stdout, perf_named(&text));
    let out = program(["symbolicate", "-", "-"]).input(Vec::new()).go();
    assert_eq!(out.exits(2).stdout, "");
    assert!(out.stderr.contains("cannot both come from standard input"), "{}", out.stderr);
}

#[test]
fn files_that_are_not_there() {
    let core = methods::core(NAME);
    let out = run(["symbolicate", "/does/not/exist.txt", &core]);
    assert_eq!((out.code, out.stdout.as_str()), (Some(3), ""));
    assert!(out.stderr.contains("/does/not/exist.txt"), "{}", out.stderr);
    let text = file_with(perf().as_bytes());
    let out = run(["symbolicate", text.path().to_str().unwrap(), "/does/not/exist.core"]);
    assert_eq!((out.exits(3).stdout.as_str(), out.stderr.lines().count()), ("", 1));
    // A folder can be opened, but not read.
    run(["symbolicate", "/", &core]).exits(3);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let file = file_with(perf().repeat(20_000).as_bytes());
    for command in ["symbolicate \"$2\"", "symbolicate --json \"$2\"", "perfmap", "perfmap --json"] {
        for reader in ["true", "head -n 1"] {
            let script = format!("( sleep 0.1; \"$0\" {command} \"$1\"; echo \"exit $?\" >&2 ) | {reader}");
            let mut run = Command::new("sh");
            run.args(["-c", &script, env!("CARGO_BIN_EXE_coremap"), &methods::core(NAME)]).arg(file.path());
            let out = run.stdin(Stdio::null()).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&out.stderr), "exit 0\n", "{command} | {reader}");
        }
    }
}
