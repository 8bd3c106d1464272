use super::*;

const MEMFD: &str = "/memfd:doublemapper (deleted)";

/// perf 6.1 of p8-seed-mmap, shortened.
const OLD: &str = "\
dotnet 26872 [000]  3719.278421: syscalls:sys_enter_mmap: addr: 0x00000000, len: 0x00020000, off: 0x00000000
\t          1019b3 __mmap+0x13 (/usr/lib/x86_64-linux-gnu/libc.so.6)
\t          164393 [unknown] (/memfd:doublemapper (deleted))
\t          1642b2 [unknown] (/memfd:doublemapper (deleted))
\t          49de57 [unknown] (/tmp/lab/libcoreclr.so)
\t    7f0ef18908a8 [unknown] ([unknown])
\t               0 [unknown] ([unknown])

";

/// The same from perf 6.12 with `-F +dsoff`.
const NEW: &str = "\
.NET TP Worker   26872/26883    3719.278421: syscalls:sys_enter_mmap: addr: 0x00000000, len: 0x00020000
\t    7f0ef16019b3 __mmap+0x13 (/usr/lib/x86_64-linux-gnu/libc.so.6+0x1019b3)
\t    7f0e72803393 [unknown] (/memfd:doublemapper (deleted)+0x164393)
\t    7f0e728032b2 [unknown] (/memfd:doublemapper (deleted)+0x1642b2)

";

fn program() -> Fake {
    Fake::managed(&[
        (0x7f0e728032e0, 0x7f0e72803393, "ILStubClass.IL_STUB_PInvoke(Int32, Int32)"),
        (0x7f0e72803250, 0x7f0e728032d0, "Program.Leak(Int32, Int32)"),
    ])
}

fn maps() -> Vec<Mapping> {
    vec![
        mapping(0x7f0e70001000, 0x4000, 0x162000, MEMFD, Some(false)),
        mapping(0x7f0e72800000, 0x7000, 0x161000, MEMFD, Some(true)),
        mapping(0x7f0ef1500000, 0x180000, 0, "/usr/lib/x86_64-linux-gnu/libc.so.6", Some(true)),
    ]
}

#[test]
fn offsets_of_old_perf_become_addresses_of_the_code() {
    let (text, summary) = named(OLD, &program(), &maps());
    let want = OLD
        .replace("164393 [unknown]", "164393 ILStubClass.IL_STUB_PInvoke(Int32, Int32)+0xb3")
        .replace("1642b2 [unknown]", "1642b2 Program.Leak(Int32, Int32)+0x62");
    assert_eq!(text, want);
    assert_eq!(summary.format, Format::Perf);
    assert_eq!((summary.addresses, summary.named, summary.lines), (6, 2, 8));
    // The return address is the first byte after the stub. The call is in the stub.
    let stub = row(&summary, 0x164393);
    assert_eq!(stub.resolved, Some(Addr::new(0x7f0e72803393)));
    assert_eq!((stub.kind, stub.module.as_deref(), stub.count), (Kind::Managed, Some("lab.dll"), 1));
    let printed = row(&summary, 0x1019b3);
    assert_eq!((printed.symbol.as_deref(), printed.kind), (Some("__mmap"), Kind::Native));
    assert_eq!(printed.resolved, Some(Addr::new(0x7f0ef16019b3)));
    let unmapped = row(&summary, 0x49de57);
    assert!(unmapped.resolved.is_none() && unmapped.note.is_some());
    assert_eq!(row(&summary, 0x7f0ef18908a8).resolved, Some(Addr::new(0x7f0ef18908a8)));
}

#[test]
fn addresses_of_new_perf_stay_addresses() {
    let (text, summary) = named(NEW, &program(), &maps());
    let want = NEW
        .replace("7f0e72803393 [unknown]", "7f0e72803393 ILStubClass.IL_STUB_PInvoke(Int32, Int32)+0xb3")
        .replace("7f0e728032b2 [unknown]", "7f0e728032b2 Program.Leak(Int32, Int32)+0x62");
    assert_eq!(text, want);
    assert_eq!(row(&summary, 0x7f0e728032b2).dso.as_deref(), Some(MEMFD));
}

#[test]
fn the_innermost_user_frame_is_exact() {
    let namer = Fake::native(&[(0x1000, 0x2000, "before"), (0x2000, 0x3000, "here")]);
    let text = "x 1 1.0: cycles:\n\tffffffff81000000 do_syscall_64+0x1 ([kernel.kallsyms])\n\t2000 inl (inlined)\n\t2000 [unknown] ([unknown])\n\t2000 [unknown] ([unknown])\n";
    let (out, summary) = named(text, &namer, &[]);
    let frames: Vec<&str> = out.lines().skip(2).collect();
    assert_eq!(frames, ["\t2000 inl (inlined)", "\t2000 here+0x0 ([unknown])", "\t2000 before+0x1000 ([unknown])"]);
    assert_eq!(row(&summary, 0xffff_ffff_8100_0000).resolved, None);
}

#[test]
fn mappings_that_the_text_tells_are_enough() {
    let record = |len: u64, at: u64| {
        format!(
            ".NET TP Gate 26884 [001]  3719.31: PERF_RECORD_MMAP2 26872/26884: [{at:#x}({len:#x}) @ 0x161000 00:01 4766 3541711224]: r-xs /memfd:doublemapper (deleted)\n"
        )
    };
    let text =
        record(0x1000, 0x7f0e72800000) + &record(0x7000, 0x7f0e72800000) + OLD + &record(0x7000, 0x7f0e90000000) + OLD;
    let (out, summary) = named(&text, &program(), &[]);
    assert_eq!(out.matches("Program.Leak(Int32, Int32)+0x62").count(), 1);
    let leak = row(&summary, 0x1642b2);
    assert_eq!((leak.resolved, leak.count), (Some(Addr::new(0x7f0e900032b2)), 2));
    let other = Options { pid: Some(1), ..Options::default() };
    let (out, _) = rewritten(text.as_bytes(), &program(), &[], &other);
    assert_eq!(out, text.as_bytes());
}

#[test]
fn samples_of_other_processes_are_left_alone_where_told_apart() {
    let text = NEW.replace("26872/26883", "7/8") + NEW;
    let options = Options { pid: Some(26872), ..Options::default() };
    let (out, summary) = rewritten(text.as_bytes(), &program(), &maps(), &options);
    assert_eq!(String::from_utf8_lossy(&out).matches("Program.Leak").count(), 1);
    assert_eq!(summary.addresses, 3);
}

#[test]
fn fields_in_any_choice() {
    let namer = Fake::native(&[(0x7f0e72803250, 0x7f0e728032d0, "leak")]);
    let check = |line: &str, want: &str| {
        let options = Options { format: Some(Format::Perf), ..Options::default() };
        let (out, _) = rewritten(line.as_bytes(), &namer, &[], &options);
        assert_eq!(String::from_utf8_lossy(&out), want);
    };
    check("\t    7f0e728032b2 [unknown]\n", "\t    7f0e728032b2 leak+0x62\n");
    check("\t    7f0e728032b2 (/tmp/perf-1.map)\n", "\t    7f0e728032b2 leak+0x62 (/tmp/perf-1.map)\n");
    check("\t    7f0e728032b2\n", "\t    7f0e728032b2 leak+0x62\n");
    let single =
        "          dotnet 26872 [000]  3719.1:          1 cycles:      7f0e728032b2 [unknown] (/tmp/perf-1.map)\n";
    check(single, &single.replace("[unknown]", "leak+0x62"));
    // A command that looks like a number.
    let dd = single.replace("dotnet", "    dd");
    check(&dd, &dd.replace("[unknown]", "leak+0x62"));
    // The tool's name stays, unless it is managed code.
    check("\t    7f0e728032b2 other+0x2 (/lib/x.so)\n", "\t    7f0e728032b2 other+0x2 (/lib/x.so)\n");
}

#[test]
fn a_file_is_found_by_its_name_where_paths_differ() {
    let elsewhere = [mapping(0x7f0e72800000, 0x7000, 0x161000, "/host/root/app/lib.so", Some(true))];
    let text = "\t          1642b2 [unknown] (/app/lib.so)\n";
    assert_eq!(named(text, &program(), &elsewhere).1.named, 1);
    let two = [elsewhere[0].clone(), mapping(0x1000, 0x7000, 0x161000, "/other/lib.so", Some(true))];
    assert_eq!(named(text, &program(), &two).1.frames[0].resolved, None);
}

#[test]
fn a_program_at_a_fixed_low_address_follows_the_rest_of_the_text() {
    let python = "/usr/bin/python3.11";
    let maps = [
        mapping(0x400000, 0x20000, 0, python, Some(false)),
        mapping(0x420000, 0x280000, 0x20000, python, Some(true)),
        maps()[2].clone(),
    ];
    let namer = Fake::native(&[(0x4fb500, 0x4fb600, "by_address"), (0x4fb500 + 0x400000, 0x8fb600, "by_offset")]);
    let frame = "\t          4fb51c [unknown] (/usr/bin/python3.11)\n";
    let libc = "(/usr/lib/x86_64-linux-gnu/libc.so.6)\n";
    let (out, _) = named(&format!("x 1 1.0: c:\n\t 7f0ef16019b3 a {libc}{frame}"), &namer, &maps);
    assert!(out.contains("by_address+0x1c"));
    let (_, summary) = named(&format!("x 1 1.0: c:\n\t 1019b3 a {libc}{frame}"), &namer, &maps[1..]);
    assert_eq!(row(&summary, 0x4fb51c).resolved, Some(Addr::new(0x4fb51c)));
}

#[test]
fn samples_are_folded_with_their_command() {
    let text = OLD.to_owned() + OLD + NEW;
    let leak = "__mmap 1\n";
    let stacks = folded(&text, &program(), &maps(), &Options::default());
    let want = format!(
        ".NET_TP_Worker;Program.Leak(Int32, Int32);ILStubClass.IL_STUB_PInvoke(Int32, Int32);{leak}\
         dotnet;[unknown];[unknown];[libcoreclr.so];Program.Leak(Int32, Int32);ILStubClass.IL_STUB_PInvoke(Int32, Int32);{}",
        leak.replace('1', "2")
    );
    assert_eq!(stacks, want);
    let bare = "\t1642b2 [unknown] (/memfd:doublemapper (deleted))\n\n";
    assert_eq!(folded(bare, &program(), &maps(), &Options::default()), "Program.Leak(Int32, Int32) 1\n");
}
