//! A first-time user's mistakes: each gets one sentence that helps and the exit
//! status that the help promises, never a panic or an empty table.

use std::path::Path;

use crate::support::builder::{CoreBuilder, Load, file_with, small_core};
use crate::support::commands::{CREATEDUMP, GLIBC, THREADS, of_cores, unpacked};
use crate::support::notes;
use crate::support::real;
use crate::support::run::{Output, program};
use coremap::commands::Subject;
use tempfile::TempDir;

const SHRUNK: &str = "dotnet8-shrunk.core";

/// A folder with the core `core` of a native process in it, and other files.
fn desk(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(real::plain("native-glibc-kernel"), dir.path().join("core")).unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

fn at(dir: &Path, args: &[&str]) -> Output {
    let out = program(args).dir(dir).go();
    out.is_sound();
    out
}

/// One sentence of ours on stderr that has all of `words`, nothing on stdout.
#[track_caller]
fn says(dir: &Path, args: &[&str], code: i32, words: &[&str]) {
    let out = at(dir, args);
    out.exits(code);
    assert_eq!(out.stdout, "", "{args:?}");
    assert_eq!(out.stderr.lines().count(), 1, "{args:?}: {}", out.stderr);
    assert!(out.stderr.starts_with("coremap: "), "{args:?}: {}", out.stderr);
    for word in words {
        assert!(out.stderr.contains(word), "{args:?}: no '{word}' in: {}", out.stderr);
    }
}

#[test]
fn a_file_that_is_no_core_is_named_for_what_it_is() {
    let elf = |at: usize, bytes: &[u8]| {
        let mut head = std::fs::read(real::plain("native-glibc-kernel")).unwrap();
        head.truncate(1 << 16);
        head[at..at + bytes.len()].copy_from_slice(bytes);
        head
    };
    let program = std::fs::read(env!("CARGO_BIN_EXE_coremap")).unwrap();
    let padded = |magic: &[u8]| [magic, &[1; 600]].concat();
    // Header, a directory of one stream, and a MINIDUMP_SYSTEM_INFO with this PlatformId.
    let minidump = |platform: u32| {
        let words = [0x504d_444d, 0xa793, 1, 32, 0, 0, 0, 0, 7, 56, 44, 0, 0, 0, 0, 0, platform];
        let mut bytes: Vec<u8> = words.iter().flat_map(|w: &u32| w.to_le_bytes()).collect();
        bytes.resize(600, 0);
        bytes
    };
    // A core with notes of these owners.
    let noted = |owners: &[&str]| {
        let core = CoreBuilder::x86_64().load(Load::at(0x1000).bytes(vec![1; 4096]));
        owners.iter().fold(core, |core, owner| core.note(notes::note(owner, 1, &[0; 336]))).build()
    };
    let mut tar = vec![0; 1024];
    tar[..4].copy_from_slice(b"core");
    tar[257..262].copy_from_slice(b"ustar");
    // Offsets and values by the System V ABI: EI_CLASS, EI_DATA, e_machine; ET_DYN in e_type.
    let cases: &[(&str, Vec<u8>, &[&str])] = &[
        ("empty", Vec::new(), &["empty file"]),
        ("text", b"hello, this is a text\n".to_vec(), &["not an ELF file", "text"]),
        ("json", b"{\"a\": 1}".to_vec(), &["JSON"]),
        ("program", program, &["an ELF program or library, not a core"]),
        ("win.dmp", minidump(2), &["Windows minidump", "Linux cores"]),
        ("breakpad.dmp", minidump(0x8201), &["Breakpad", "minidump of Linux"]),
        ("mac.dmp", minidump(0x8101), &["Breakpad", "macOS"]),
        ("some.dmp", padded(b"MDMP\x93\xa7"), &["a minidump", "not a core"]),
        ("kernel.dmp", padded(b"PAGEDU64"), &["Windows kernel dump", "Linux cores"]),
        ("mac", padded(b"\xcf\xfa\xed\xfe\x07\0\0\x01"), &["Mach-O", "Linux cores"]),
        ("perf.data", padded(b"PERFILE2"), &["perf's own data"]),
        ("a.nettrace", padded(b"Nettrace\x14\0\0\0!FastSerialization.1"), &["dotnet-trace"]),
        ("a.gcdump", padded(b"\x14\0\0\0!FastSerialization.1"), &["dotnet-gcdump"]),
        ("heap.hprof", padded(b"JAVA PROFILE 1.0.2\0"), &["HPROF"]),
        ("core.tar", tar, &["tar archive", "extract"]),
        ("core32", elf(4, &[1]), &["32-bit", "64-bit"]),
        ("corebe", elf(5, &[2]), &["big-endian"]),
        ("riscv", elf(18, &[243, 0]), &["a core of riscv64", "x86_64 and aarch64"]),
        ("ppc", elf(18, &[21, 0]), &["a core of ppc64le", "x86_64 and aarch64"]),
        ("odd", elf(18, &[0, 0x77]), &["unknown machine", "30464"]),
        ("freebsd", elf(7, &[9]), &["a core of FreeBSD", "Linux"]),
        ("freebsd-notes", noted(&["FreeBSD"]), &["a core of FreeBSD", "Linux"]),
        ("netbsd", noted(&["NetBSD-CORE", "NetBSD-CORE@2"]), &["a core of NetBSD", "Linux"]),
        ("vmcore", noted(&["CORE", "VMCOREINFO"]), &["Linux kernel (vmcore)", "Linux processes"]),
        ("qemu", noted(&["CORE", "VMCOREINFO", "QEMU"]), &["virtual machine", "QEMU"]),
        ("kdump", padded(b"KDUMP   \x06\0\0\0"), &["makedumpfile", "kernel"]),
        ("diskdump", padded(b"DISKDUMP"), &["makedumpfile", "kernel"]),
        (
            "flat",
            [&b"makedumpfile\0\0\0\0"[..], &[0, 0, 0, 0, 0, 0, 0, 1].repeat(2), &[0; 4064]].concat(),
            &["flattened"],
        ),
        // inventory.img of CRIU 3: IMG_COMMON_MAGIC, INVENTORY_MAGIC.
        ("inventory.img", [&b"\x19CVT\x16\x31\x31\x58"[..], &[8; 60]].concat(), &["CRIU"]),
        ("noise", (0..=255).rev().cycle().take(700).collect(), &["not an ELF file"]),
    ];
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    for (name, bytes, words) in cases {
        std::fs::write(dir.path().join(name), bytes).unwrap();
        says(dir.path(), &["summary", name], 3, words);
        says(dir.path(), &["info", "--json", name], 3, words);
    }
    let packed = std::fs::read(real::packed("native-glibc-kernel")).unwrap();
    std::fs::write(dir.path().join("cut.gz"), &packed[..20]).unwrap();
    says(dir.path(), &["summary", "cut.gz"], 3, &["cut.gz", "unpacking", "cut off"]);
    says(dir.path(), &["summary", "folder"], 3, &["a directory"]);
    says(dir.path(), &["summary", "/dev/null"], 3, &["device or pipe", "`-`"]);
    says(dir.path(), &["summary", "no-such-core"], 3, &["no-such-core", "No such file"]);
}

#[test]
fn a_core_that_may_not_be_read_is_told_by_its_name() {
    use std::os::unix::fs::PermissionsExt;
    let dir = desk(&[]);
    let core = dir.path().join("core");
    std::fs::set_permissions(&core, std::fs::Permissions::from_mode(0o0)).unwrap();
    if std::fs::File::open(&core).is_ok() {
        eprintln!("skipped: root may read every file");
        return;
    }
    says(dir.path(), &["summary", "core"], 3, &["core", "Permission denied"]);
}

#[test]
fn a_file_for_a_command() {
    let dir = desk(&[]);
    let summary = |core: &str| at(dir.path(), &["summary", core]).exits(0).stdout.clone();
    assert_eq!(at(dir.path(), &["core"]).exits(0).stdout, summary("core"));
    assert_eq!(at(dir.path(), &["./core", "--format", "table"]).exits(0).stdout, summary("./core"));
    // What is no file is left to clap, which knows commands that are spelt alike.
    let out = at(dir.path(), &["sumary", "core"]);
    assert!(out.exits(2).stderr.contains("'summary'"), "{}", out.stderr);
    says(dir.path(), &["summary", "--table", "core"], 2, &["--format table"]);
}

#[test]
fn arguments_in_the_wrong_order() {
    let dir = desk(&[("text", b"0x7fe744a0fdd0\n")]);
    let here = dir.path();
    for (command, what) in
        [("whatis", "0x7fe744a0fdd0"), ("object", "0x7fe744a0fdd0"), ("refs", "0x7fe744a0fdd0"), ("search", "malloc")]
    {
        let (meant, asked) = (at(here, &[command, what, "core"]), at(here, &[command, "core", what]));
        assert!(!meant.stdout.is_empty(), "{command}");
        assert_eq!((asked.code, asked.stdout, asked.stderr), (meant.code, meant.stdout, meant.stderr), "{command}");
    }
    says(here, &["ip2method", "core", "0x7fe744a0fdd0"], 2, &["coremap ip2method ADDR… CORE"]);
    says(here, &["symbolicate", "core", "text"], 2, &["'core' is an ELF file", "coremap symbolicate FILE CORE"]);
    let packed = real::packed("native-glibc-kernel");
    let packed = packed.to_str().unwrap();
    says(here, &["symbolicate", packed, "text"], 2, &["compressed (.gz)", "coremap symbolicate FILE CORE"]);
    std::fs::write(here.join("perf.data"), b"PERFILE2\0\0\0\0").unwrap();
    says(here, &["symbolicate", "perf.data", "core"], 2, &["perf script -i perf.data | coremap symbolicate - core"]);
    says(here, &["symbolicate", "no-such-text", "core"], 3, &["no-such-text", "No such file"]);
    // The right order is no mistake, whatever the text begins with.
    assert!(at(here, &["symbolicate", "text", "core"]).exits(1).stdout.starts_with("0x7fe744a0fdd0"));
}

#[test]
fn addresses_as_people_have_them() {
    let dir = desk(&[]);
    let here = dir.path();
    // The same address as gdb, WinDbg and a script print it.
    for text in ["0x7fe744a0fdd0", "7fe744a0fdd0", "7FE744A0FDD0", "00007fe7`44a0fdd0", "00007fe744a0fdd0"] {
        let out = at(here, &["whatis", text, "core"]);
        assert!(out.exits(0).stdout.contains("0x7fe744a0fdd0 is Stack"), "{text}: {}", out.stdout);
    }
    let decimal = 0x7fe7_44a0_fdd0_u64.to_string();
    for command in ["whatis", "refs", "object", "gcroot", "why", "ip2method"] {
        says(here, &[command, &decimal, "core"], 2, &["hexadecimal", &decimal, "is 0x7fe744a0fdd0"]);
    }
    // Digits that are mapped as hexadecimal, or as neither, are what they are.
    at(here, &["whatis", "0000000000000010", "core"]).exits(1);
    at(here, &["whatis", "10", "core"]).exits(1);
    says(here, &["whatis", "libc+0x10", "core"], 2, &["no module named 'libc'", "there is libc.so.6"]);
    says(here, &["whatis", "nothing+0x10", "core"], 2, &["`coremap info` lists them"]);
    says(here, &["whatis", "libc.so.6", "core"], 2, &["is a module", "libc.so.6+0x0"]);
    says(here, &["whatis", "libc.so.6+zz", "core"], 2, &["'zz' is not a hexadecimal offset"]);
    for text in ["", "0x", "main", "0x1_0000_0000_0000_0000"] {
        says(here, &["whatis", text, "core"], 2, &["is not an address", "0x7f42d256e000"]);
    }
}

#[test]
fn a_name_where_an_address_belongs() {
    let dir = desk(&[]);
    let here = dir.path();
    says(here, &["gcroot", "LeakyCache", "core"], 2, &["coremap gcroot --type 'LeakyCache' core"]);
    says(here, &["gcroot", "core", "Leaky.Cache"], 2, &["coremap gcroot --type 'Leaky.Cache' core"]);
    says(here, &["why", "LeakyCache", "core"], 2, &["coremap why --type 'LeakyCache' core"]);
    says(here, &["why", "core"], 2, &["coremap why ADDR CORE", "coremap why --type RE CORE"]);
    says(here, &["object", "LeakyCache", "core"], 2, &["coremap objects --type 'LeakyCache' core"]);
    says(here, &["gcroot", "core"], 2, &["coremap gcroot ADDR CORE", "coremap gcroot --type RE CORE"]);
}

#[test]
fn two_cores_are_for_diff() {
    let dir = desk(&[("new", b"")]);
    let here = dir.path();
    for command in ["triage", "summary", "threads"] {
        says(here, &[command, "core", "new"], 2, &[command, "reads one core", "`coremap diff core new`"]);
    }
    // Anything else is left to clap.
    assert!(at(here, &["triage", "core", "nothing"]).exits(2).stderr.contains("unexpected argument 'nothing'"));
}

#[test]
fn a_pointer_to_the_null_page_is_named() {
    let dir = desk(&[]);
    for (command, text) in [("whatis", "0x0"), ("whatis", "0x10"), ("ip2method", "10"), ("object", "0x0")] {
        let out = at(dir.path(), &[command, text, "core"]);
        assert!(out.exits(1).stderr.contains("is in the null page"), "{command} {text}: {}", out.stderr);
    }
    assert_eq!(at(dir.path(), &["whatis", "0x7fe744a0fdd0", "core"]).exits(0).stderr, "");
}

#[test]
fn an_address_inside_an_object_names_the_object() {
    let cores = unpacked(&[CREATEDUMP]);
    let object = "0x7f61f606c590";
    let name = at(&cores, &["object", object, CREATEDUMP]).stdout;
    let name = name.lines().nth(1).unwrap().split_once(' ').unwrap().1.to_owned();
    let inside = "0x7f61f606c598";
    let said = format!("coremap: {inside} is inside the {name} at {object}; see it with `coremap object {object}`\n");
    for args in [&["object", inside][..], &["gcroot", inside], &["refs", inside], &["retained", "--object", inside]] {
        let out = at(&cores, &[args, &[CREATEDUMP]].concat());
        assert!(out.stderr.contains(&said), "{args:?}: {}", out.stderr);
        assert!(out.stdout.contains(object), "{args:?}: {}", out.stdout);
    }
    assert!(!at(&cores, &["gcroot", object, CREATEDUMP]).stderr.contains("is inside"));
}

#[test]
fn an_unknown_unit_lists_the_units() {
    let dir = desk(&[]);
    for (args, words) in [
        (&["summary", "--memory", "4 pounds", "core"][..], ["unknown unit 'pounds'", "KiB, MiB, GiB, TiB (1,024)"]),
        (&["summary", "--fail-if", "stack.size>4 pounds", "core"], ["unknown unit 'pounds'", "B or %"]),
        (&["triage", "--budget", "10 years", "core"], ["unknown unit 'years'", "ms, s, m or h"]),
    ] {
        let out = at(dir.path(), args);
        for word in words {
            assert!(out.exits(2).stderr.contains(word), "{args:?}: no '{word}' in: {}", out.stderr);
        }
    }
}

#[test]
fn a_stump_of_a_core_says_what_is_missing() {
    let whole = std::fs::read(real::plain("native-glibc-kernel")).unwrap();
    let stump = |len: usize| file_with(&whole[..len]);
    let short = stump(40);
    let out = program(["summary", short.path().to_str().unwrap()]).go();
    for word in ["40 bytes", "ELF header", "64"] {
        assert!(out.exits(3).stderr.contains(word), "no '{word}' in: {}", out.stderr);
    }
    let headers = u16::from_le_bytes([whole[56], whole[57]]);
    let table = 64 + 56 * u64::from(headers);
    let cut = stump(200);
    let out = program(["summary", "-v", cut.path().to_str().unwrap()]).go();
    for word in
        ["cut off", "200 bytes", "program headers", &format!("2 of {headers}"), &format!("{} bytes", grouped(table))]
    {
        assert!(out.exits(4).stderr.contains(word), "no '{word}' in: {}", out.stderr);
    }
}

/// `4,240`
fn grouped(n: u64) -> String {
    if n < 1000 { n.to_string() } else { format!("{},{:03}", n / 1000, n % 1000) }
}

#[test]
fn names_of_temporary_files_are_not_shown() {
    let dir = desk(&[]);
    let here = dir.path();
    for args in [
        &["report", "-o", "no/such/folder/x", "core"][..],
        &["shrink", "-o", "no/such/folder/x", "core"],
        &["export", "--to", "folded", "-o", "no/such/folder/x", "core"],
    ] {
        let out = at(here, args);
        assert!(out.stderr.contains("no/such/folder/x") && out.stderr.contains("No such file"), "{}", out.stderr);
        assert!(!out.stderr.contains(".part") && !out.stderr.contains("/."), "{}", out.stderr);
    }
    // A core that is unpacked, and one on standard input.
    let packed = std::fs::read(real::packed("native-glibc-kernel")).unwrap();
    std::fs::write(here.join("cut.gz"), &packed[..packed.len() / 2]).unwrap();
    let unpacked = program(["summary", "cut.gz"]).dir(here).env("TMPDIR", "/no/such/folder").go();
    let piped = program(["summary", "-"]).dir(here).env("TMPDIR", "/no/such/folder").input(packed).go();
    for out in [unpacked, piped] {
        assert!(out.exits(3).stderr.contains("TMPDIR"), "{}", out.stderr);
        assert!(!out.stderr.contains(".tmp"), "{}", out.stderr);
    }
}

#[test]
fn names_that_are_not_there() {
    let dir = desk(&[]);
    let here = dir.path();
    let out = at(here, &["regions", "--kind", "gcheep", "core"]);
    assert!(out.exits(2).stderr.contains("GCHeap"), "{}", out.stderr);
    says(here, &["search", "--regex", "(", "core"], 2, &["bad pattern: unclosed group"]);
    says(here, &["search", "", "core"], 2, &["empty"]);
    says(here, &["search", "--hex", "abc", "core"], 2, &["half a byte"]);
    says(here, &["objects", "--type", "(", "core"], 2, &["unclosed group"]);
    let out = at(here, &["threads", "--tid", "7", "core"]);
    assert_eq!(out.exits(1).stderr, "coremap: this core has no thread 7; `coremap stacks` lists its 6 threads\n");
    let cores = unpacked(&[CREATEDUMP]);
    for (args, words) in [
        (&["gcroot", "--type", "No.Such.Type"][..], "no objects match"),
        (&["objects", "--type", "No.Such.Type"], "no objects match"),
        (&["heapstat", "--type", "No.Such.Type"], "no matching objects"),
        (&["retained", "--type", "No.Such.Type"], "no live objects match"),
    ] {
        let out = at(&cores, &[args, &[CREATEDUMP]].concat());
        assert!(out.exits(1).stdout.contains(words), "{args:?}: {}", out.stdout);
        assert!(!out.stdout.contains("100.0 %"), "{args:?}: {}", out.stdout);
    }
}

#[test]
fn a_native_process_has_no_managed_anything() {
    let dir = desk(&[]);
    let here = dir.path();
    let asked = of_cores().filter(|c| c.subject == Subject::Runtime && c.name != "perfmap");
    let asked = asked.map(|c| [&[c.name], c.asked].concat());
    for args in asked.chain([vec!["object", "0x7fe744a0fdd0"], vec!["gcroot", "0x7fe744a0fdd0"]]) {
        let args = [args, vec!["core"]].concat();
        let out = at(here, &args);
        let lines: Vec<&str> = out.exits(1).stdout.lines().collect();
        assert_eq!(lines.len(), 2, "{args:?}: {lines:?}");
        assert_eq!(lines[1], "no managed runtime (.NET, Java, Python) was found in this core", "{args:?}");
        assert_eq!(out.stderr, "", "{args:?}");
    }
    says(here, &["perfmap", "core"], 1, &["no managed runtime (.NET, Java, Python) was found"]);
}

#[test]
fn report_overwrites_nothing() {
    let dir = desk(&[("notes", b"mine")]);
    let here = dir.path();
    std::fs::create_dir(here.join("folder")).unwrap();
    says(here, &["report", "-o", "notes", "core"], 2, &["notes", "exists already", "coremap report -o NEW.html core"]);
    says(here, &["report", "-o", "folder", "core"], 2, &["is a directory"]);
    says(here, &["report", "-o", "no/such/folder/x", "core"], 2, &["no/such/folder/x", "No such file"]);
    says(here, &["report", "-o", "x.html", "-", "-"], 2, &["only one of the two cores"]);
    assert_eq!(std::fs::read_to_string(here.join("notes")).unwrap(), "mine");
    // Named after the core where nobody says otherwise; a second one needs another name.
    // That some stacks of this core end early is a note: its status is 0.
    at(here, &["report", "core"]).exits(0);
    assert!(here.join("core.html").is_file());
    says(here, &["report", "core"], 2, &["core.html", "exists already"]);
    says(here, &["check", "--report", "notes", "core"], 3, &["notes", "no data of `coremap report`"]);
}

#[test]
fn export_overwrites_nothing_and_says_what_it_needs() {
    let dir = desk(&[("notes", b"mine")]);
    let here = dir.path();
    std::fs::create_dir(here.join("folder")).unwrap();
    let asked = |out| ["export", "--to", "gcdump", "-o", out, "core"];
    says(here, &asked("notes"), 2, &["notes", "exists already", "coremap export --to gcdump -o NEW core"]);
    says(here, &asked("folder"), 2, &["is a directory"]);
    assert_eq!(std::fs::read_to_string(here.join("notes")).unwrap(), "mine");
    assert!(at(here, &["export", "-o", "x", "core"]).exits(2).stderr.contains("--to <FORMAT>"));
    assert!(at(here, &["export", "--to", "csv", "-o", "x", "core"]).exits(2).stderr.contains("gcdump"));
    says(here, &["export", "--to", "gcdump", "--of", "malloc", "-o", "x", "core"], 2, &["--of", "gcdump has none"]);
    says(here, &["export", "--to", "folded", "--core-id", "a", "-o", "x", "core"], 2, &["--core-id", "folded is none"]);
    if cfg!(not(feature = "parquet")) {
        says(here, &["export", "--to", "parquet", "-o", "x", "core"], 2, &["without the feature parquet"]);
    }
    // A C program has no heap of objects.
    let refused = at(here, &asked("x.gcdump"));
    assert!(refused.exits(1).stdout.starts_with("nothing was written: "), "{}", refused.stdout);
    assert!(!here.join("x.gcdump").exists());
}

#[test]
fn shrink_overwrites_nothing() {
    let dir = desk(&[("notes", b"mine")]);
    let here = dir.path();
    std::fs::create_dir(here.join("folder")).unwrap();
    std::os::unix::fs::symlink("no-such-file", here.join("link")).unwrap();
    let before = std::fs::read(here.join("core")).unwrap();
    for name in ["notes", "core", "./core", "link"] {
        says(here, &["shrink", "-o", name, "core"], 2, &[name, "exists already", "coremap shrink -o NEW core"]);
    }
    says(here, &["shrink", "-o", "folder", "core"], 2, &["is a directory"]);
    says(here, &["shrink", "-o", "no/such/folder/x", "core"], 2, &["no/such/folder/x", "No such file"]);
    assert_eq!(std::fs::read(here.join("core")).unwrap(), before);
    assert_eq!(std::fs::read(here.join("notes")).unwrap(), b"mine");
    at(here, &["shrink", "-o", "small", "core"]).exits(0);
    // A file that can't be finished is not left there: it would pass for a core.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" shrink -o half core";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_coremap")]).current_dir(here);
    let out = shell.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(
        said.starts_with("coremap: cannot write half: ") && said.ends_with("the incomplete file was removed\n"),
        "{said}"
    );
    assert!(!here.join("half").exists());
    // What was asked for is said before anything else is wrong.
    says(here, &["shrink", "-o", "notes", "no-such-core"], 2, &["exists already"]);
}

#[test]
fn what_a_shrunk_core_lacks_is_told_from_damage() {
    let cores = unpacked(&[GLIBC, THREADS, SHRUNK]);
    // Made for info, summary, regions, stacks and heap: stacks has all its figures,
    // and not what the threads do.
    let out = at(&cores, &["stacks", SHRUNK]);
    let hint = out.exits(4).stderr.lines().last().unwrap().to_owned();
    assert!(hint.contains("this core was shrunk"), "{hint}");
    assert!(at(&cores, &["summary", SHRUNK]).exits(0).stderr.is_empty());
    // What the hint says to do helps.
    let dir = tempfile::tempdir().unwrap();
    for (purpose, told) in [("stacks", false), ("stacks,threads", true)] {
        let small = dir.path().join(purpose);
        let small = small.to_str().unwrap();
        at(&cores, &["shrink", "--for", purpose, "-o", small, THREADS]);
        let out = at(&cores, &["stacks", small]);
        assert_eq!(out.stdout.contains("Thread.Sleep ← Lab.Sleepers.Doze"), told, "{purpose}: {}", out.stdout);
    }
    // A core that is cut, or whole, was not shrunk.
    let cut = file_with(&small_core().build()[..9000]);
    let out = at(&cores, &["stacks", cut.path().to_str().unwrap()]);
    assert!(!out.exits(4).stderr.contains("shrunk"), "{}", out.stderr);
    assert!(!at(&cores, &["threads", GLIBC]).stderr.contains("shrunk"));
}

#[test]
fn what_is_cut_off_was_not_left_out() {
    let notes = |core: &str| -> Vec<String> {
        let json = program(["info", "--json", core]).go().json();
        let notes = json["completeness"]["notes"].as_array().unwrap().iter();
        notes.map(|n| n.as_str().unwrap().to_owned()).collect()
    };
    let whole = real::plain("native-glibc-kernel");
    let bytes = std::fs::read(&whole).unwrap();
    let left_out = |notes: &[String]| -> Vec<String> {
        notes.iter().filter_map(|n| n.split_once(" is not in the core")).map(|(n, _)| n.to_owned()).collect()
    };
    let before = left_out(&notes(whole.to_str().unwrap()));
    assert_eq!(before.len(), 2, "{before:?}");
    for percent in [30, 60, 90] {
        let cut = file_with(&bytes[..bytes.len() * percent / 100]);
        let notes = notes(cut.path().to_str().unwrap());
        assert!(notes.iter().any(|n| n.starts_with("truncated: ")), "{notes:?}");
        assert_eq!(left_out(&notes), before, "{percent} %: {notes:?}");
    }
}
