use super::*;

const HEAPTRACK: &str = "\
reading file \"heaptrack.zst\" - please wait, this might take some time...
Debuggee command was: /tmp/lab/rt/dotnet exec seedleak.dll malloc
finished reading file, now analyzing data:

MOST CALLS TO ALLOCATION FUNCTIONS
27342 calls to allocation functions with 2.44M peak consumption from
0x7fa50a3aa3ea
  in /tmp/lab/rt/libcoreclr.so
625 calls with 19.97K peak consumption from:
    start_thread
      at ./nptl/pthread_create.c:442
      in /lib/x86_64-linux-gnu/libc.so.6

PEAK MEMORY CONSUMERS
2.64M peak memory consumed over 290 calls from
inner_alloc
  at /src/libmyleak.c:15
  in /tmp/lab/libmyleak.so
348.16K consumed over 20 calls from:
    leak_n
      at /src/libmyleak.c:16
      in /tmp/lab/libmyleak.so
    0x7fa48c032b20
      in ??
    0x7fa50a69ee56
      in /tmp/lab/rt/libcoreclr.so
  and 1.19M from 9 other places

MEMORY LEAKS
400B leaked over 1 calls from
__strdup
  in /lib/x86_64-linux-gnu/libc.so.6
400B leaked over 1 calls from:
    0x7fa48c032b20
      in ??

total runtime: 2.95s.
total memory leaked: 139.24M
";

fn leak() -> Fake {
    Fake::managed(&[(0x7fa48c032ab0, 0x7fa48c032b21, "Program.Leak(Int32, Int32)")])
}

#[test]
fn heaptrack_addresses_are_inside_the_call() {
    let (text, summary) = named(HEAPTRACK, &leak(), &[]);
    let want = HEAPTRACK.replace("0x7fa48c032b20\n      in ??", "Program.Leak(Int32, Int32)\n      in lab.dll");
    assert_eq!(text, want);
    assert_eq!(summary.format, Format::Heaptrack);
    assert_eq!((summary.addresses, summary.named), (4, 2));
    let frame = row(&summary, 0x7fa48c032b20);
    assert_eq!((frame.resolved, frame.count), (Some(Addr::new(0x7fa48c032b20)), 2));
    assert_eq!(row(&summary, 0x7fa50a3aa3ea).module.as_deref(), Some("/tmp/lab/rt/libcoreclr.so"));
}

#[test]
fn heaptrack_stacks_weigh_what_was_asked_for() {
    let by = |cost| folded(HEAPTRACK, &leak(), &[], &Options { cost, ..Options::default() });
    assert_eq!(
        by(Cost::Peak),
        "dotnet;[libcoreclr.so];Program.Leak(Int32, Int32);leak_n;inner_alloc 348160\n\
         dotnet;[other places];inner_alloc 1190000\n"
    );
    assert_eq!(by(Cost::Leaked), "dotnet;Program.Leak(Int32, Int32);__strdup 400\n");
    assert_eq!(by(Cost::Calls), "dotnet;start_thread;[libcoreclr.so] 625\n");
    let none = Options { cost: Cost::Temporary, ..Options::default() };
    let error = fold(&mut HEAPTRACK.as_bytes(), &mut Vec::new(), &leak(), &[], &none);
    assert!(matches!(error, Err(SymbolicateError::NoCost)));
}

#[test]
fn folded_stacks_keep_all_but_the_addresses() {
    let text = "0x559c9d41cbd9;main (x.c);0x7fa48c032b20;malloc (rtld-malloc.h); 3\n\
                0x559c9d41cbd9;main (x.c);0x7fa48c032b10 (a.cs);malloc (rtld-malloc.h); 4\n";
    let (out, summary) = named(text, &leak(), &[]);
    let want = text.replace("0x7fa48c032b20", "Program.Leak(Int32, Int32)");
    assert_eq!(out, want.replace("0x7fa48c032b10 (", "Program.Leak(Int32, Int32) ("));
    assert_eq!((summary.format, summary.addresses), (Format::Folded, 4));
    let same = text.replace("0x7fa48c032b10 (a.cs)", "0x7fa48c032b11");
    let stacks = folded(&same, &leak(), &[], &Options::default());
    assert_eq!(stacks, "0x559c9d41cbd9;main (x.c);Program.Leak(Int32, Int32);malloc (rtld-malloc.h) 7\n");
}

const MEMLEAK: &str = "\
Attaching to pid 2842, Ctrl+C to quit.
[08:13:01] Top 30 stacks with outstanding allocations:
\taddr = 29ff2e90 size = 65537
\t65536 bytes in 1 allocations from stack
\t\t0x00007ff7023df089\t[unknown] [libcoreclr.so]
\t\t0x00007fa48c032b21\t[unknown] [8]
\t\t0x00007f2b6a5464dd\t[unknown]
\t\t0x00007ff7026a71f5\tstart_thread+0x305 [libc.so.6]
";

#[test]
fn memleak_prints_return_addresses() {
    let (text, summary) = named(MEMLEAK, &leak(), &[]);
    assert_eq!(text, MEMLEAK.replace("b21\t[unknown]", "b21\tProgram.Leak(Int32, Int32)+0x71"));
    assert_eq!(summary.format, Format::Memleak);
    assert_eq!(row(&summary, 0x7ff7023df089).module.as_deref(), Some("libcoreclr.so"));
    let native = row(&summary, 0x7ff7026a71f5);
    assert_eq!((native.symbol.as_deref(), native.kind), (Some("start_thread"), Kind::Native));
    // Each list has everything outstanding, so the last one counts.
    let twice = MEMLEAK.to_owned() + &MEMLEAK.replace("65536 bytes", "70000 bytes");
    let stacks = folded(&twice, &leak(), &[], &Options::default());
    assert_eq!(stacks, "start_thread;[unknown];Program.Leak(Int32, Int32);[libcoreclr.so] 70000\n");
}

/// A namer with two methods inlined everywhere, and owners of blocks at even addresses.
struct Nested;

impl Namer for Nested {
    fn name(&self, ip: Addr) -> Option<Resolved> {
        let inlined = |symbol: &str, line| Inlined { symbol: symbol.into(), line };
        let inlined = vec![inlined("Inner;1", Some(3)), inlined("Middle", None)];
        let (symbol, offset, note) = ("Outer".to_owned(), Some(ip.get() & 0xff), Some("a note"));
        Some(Resolved { symbol, offset, kind: Kind::Managed, line: Some(9), inlined, note, ..Resolved::default() })
    }

    fn owner(&self, address: Addr) -> Option<String> {
        address.get().is_multiple_of(2).then(|| "its;owner\n".to_owned())
    }
}

#[test]
fn inlined_methods_share_a_line_and_have_a_frame_each_in_folded_stacks() {
    let (text, summary) = named("at 0x7fa48c032b21 and 7fa48c032b22", &Nested, &[]);
    let name = |offset: &str| format!("Inner:1:3 <- Middle <- Outer+{offset}");
    assert_eq!(text, format!("at 0x7fa48c032b21 <{}> and 7fa48c032b22 <{}>", name("0x21"), name("0x22")));
    let frame = row(&summary, 0x7fa48c032b21);
    assert_eq!((frame.symbol.as_deref(), frame.line, frame.note), (Some("Outer"), Some(9), Some("a note")));
    assert_eq!(frame.inlined.len(), 2);
    let stack = "main;0x7fa48c032b21;malloc 3\n";
    assert_eq!(folded(stack, &Nested, &[], &Options::default()), "main;Outer;Middle;Inner:1;malloc 3\n");
    // A leaf that is a return address: the same in reverse order.
    let stack = "64 bytes in 1 allocations from stack\n\t\t0x00007fa48c032b21\t[unknown]\n";
    assert_eq!(folded(stack, &Nested, &[], &Options::default()), "Outer;Middle;Inner:1 64\n");
}

#[test]
fn memleaks_blocks_get_their_owners_and_are_listed_once() {
    let (_, summary) = named(MEMLEAK, &leak(), &[]);
    let block = |address, size, owner: Option<&str>| BlockRow {
        address: Addr::new(address),
        size,
        owner: owner.map(str::to_owned),
    };
    assert_eq!(summary.blocks, [block(0x29ff2e90, Some(65537), None)]);
    let libbpf = MEMLEAK.replace("addr = 29ff2e90 size = 65537", "addr = 0x29ff2e91 size = ?");
    let text = MEMLEAK.to_owned() + MEMLEAK + &libbpf + "\taddr = zz size = 3\n\taddr = 12\n";
    let (out, summary) = named(&text, &Nested, &[]);
    assert_eq!(out.matches("addr = 29ff2e90 size = 65537 <its:owner").count(), 2);
    assert!(out.contains("\taddr = 0x29ff2e91 size = ?\n") && out.contains("\taddr = 12\n"), "{out}");
    let owner = summary.blocks[0].owner.clone();
    assert_eq!(summary.blocks, [block(0x29ff2e90, Some(65537), owner.as_deref()), block(0x29ff2e91, None, None)]);
    assert!(owner.is_some_and(|owner| owner.starts_with("its:owner") && !owner.contains('\n')));
}

#[test]
fn memleak_of_libbpf() {
    let text = "\
[08:13:01] Top 10 stacks with outstanding allocations:
65536 bytes in 1 allocations from stack
\t0 [<00007ff7023df089>] malloc+0x10 [/lib/libc.so.6]
\t1 [<00007fa48c032b21>] <null sym>
\t2 [<00007fa48c032b21>] [/memfd:doublemapper (deleted)]
\t3 [<00007fa48c032b21>]
";
    let name = "Program.Leak(Int32, Int32)+0x71";
    let (out, _) = named(text, &leak(), &[]);
    let lines: Vec<&str> = out.lines().skip(2).collect();
    assert_eq!(
        lines,
        [
            "\t0 [<00007ff7023df089>] malloc+0x10 [/lib/libc.so.6]".to_owned(),
            format!("\t1 [<00007fa48c032b21>] {name}"),
            format!("\t2 [<00007fa48c032b21>] {name} [/memfd:doublemapper (deleted)]"),
            format!("\t3 [<00007fa48c032b21>] {name}"),
        ]
    );
}

const GDB: &str = "\
#0  __futex_abstimed_wait_common64 (private=0, futex_word=0x559767ac7874) at ./nptl/futex-internal.c:57
57\t./nptl/futex-internal.c: No such file or directory.

Thread 43 (Thread 0x7f4d4bff26c0 (LWP 21075)):
#0  0x00007fa48c032b21 in ?? ()
#1  0x00007fa48c032b21 in ?? ()
#2  <signal handler called>
#3  0x00007fa48c032ab0 in ?? ()
#4  0x00007f8ebd4278ec in clone3 () at ../sysdeps/unix/sysv/linux/x86_64/clone3.S:81

Thread 42 (Thread 0x7f4d4c7f36c0 (LWP 21038)):
#0  0x00007f8ebd00b795 in ?? () from /tmp/lab/rt/libcoreclr.so
";

#[test]
fn gdb_frames() {
    let (text, summary) = named(GDB, &leak(), &[]);
    let want = GDB
        .replace("#1  0x00007fa48c032b21 in ??", "#1  0x00007fa48c032b21 in Program.Leak(Int32, Int32)")
        .replace("#3  0x00007fa48c032ab0 in ??", "#3  0x00007fa48c032ab0 in Program.Leak(Int32, Int32)");
    assert_eq!(text, want);
    assert_eq!(summary.format, Format::Gdb);
    assert_eq!(row(&summary, 0x7f8ebd00b795).module.as_deref(), Some("/tmp/lab/rt/libcoreclr.so"));
    assert_eq!(
        folded(GDB, &leak(), &[], &Options::default()),
        "[libcoreclr.so] 1\n\
         clone3;Program.Leak(Int32, Int32);<signal handler called>;Program.Leak(Int32, Int32);[unknown] 1\n"
    );
}

#[test]
fn any_text_gets_names_after_its_addresses() {
    let text = "fault at 0x7fa48c032b20, 00007FA48C032B20 and 7fa48c032b20 <x>; not 7fa48c032b20-7fa48c033000, \
                x0x7fa48c032b20, 0x7fa48c032b20z, 0x0000007fa48c032b20 or 32b20\n";
    let (out, summary) = named(text, &leak(), &[]);
    let name = " <Program.Leak(Int32, Int32)+0x70>";
    let want = text.replacen("b20,", &format!("b20{name},"), 1).replacen("B20 ", &format!("B20{name} "), 1);
    assert_eq!(out, want);
    assert_eq!((summary.format, summary.named), (Format::Plain, 2));
    let error = fold(&mut text.as_bytes(), &mut Vec::new(), &leak(), &[], &Options::default());
    assert!(matches!(error, Err(SymbolicateError::NoStacks)));
}

#[test]
fn text_that_only_looks_like_a_tools_is_any_text() {
    for text in [
        "\tadd foo 0x7fa48c032b20 x\n",
        "\t0x7fa48c032b20\tcrash\n",
        "#1 fix (x) 0x7fa48c032b20\n",
        "a\nb\nc 0x7fa48c032b20; 1\n",
    ] {
        let (out, summary) = named(text, &leak(), &[]);
        assert_eq!(summary.format, Format::Plain, "{text}");
        assert_eq!(out, text.replace("b20", "b20 <Program.Leak(Int32, Int32)+0x70>"));
    }
}

#[test]
fn the_mappings_of_a_core() -> Result<(), crate::core::open::OpenError> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cores/native-glibc-kernel/core.gz");
    let diag = crate::diag::Diagnostics::default();
    let core = crate::core::open::Core::open(&path, &diag, &crate::progress::Progress::silent())?;
    let maps = mappings(&core.facts, &crate::map::Base::of(&core.facts));
    let code = |m: &&Mapping| m.path.ends_with("/libc.so.6") && m.executable == Some(true);
    assert_eq!(maps.iter().filter(code).count(), 1);
    assert_eq!(maps.iter().filter(|m| m.path == "[vdso]" && m.file_offset == 0).count(), 1);
    assert!(maps.iter().any(|m| m.executable == Some(false)));
    Ok(())
}
