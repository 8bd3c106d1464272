use proptest::prelude::*;

use super::*;
use crate::limits;

/// A namer that names every address.
struct All;

impl Namer for All {
    fn name(&self, ip: Addr) -> Option<Resolved> {
        Some(Resolved {
            symbol: "a;b\nc\u{1b}".into(),
            offset: Some(ip.get()),
            kind: Kind::Managed,
            ..Resolved::default()
        })
    }
}

const FORMATS: [Option<Format>; 7] = [
    None,
    Some(Format::Perf),
    Some(Format::Heaptrack),
    Some(Format::Memleak),
    Some(Format::Gdb),
    Some(Format::Folded),
    Some(Format::Plain),
];

/// Rewrites and folds in every format. Without names the text must not change.
fn survive(text: &[u8]) {
    let maps = [mapping(0x1000, 0x1000, 0, "/a", Some(true)), mapping(u64::MAX - 10, 10, u64::MAX, "/b", None)];
    for format in FORMATS {
        for cost in [Cost::Peak, Cost::Calls] {
            let options = Options { format, cost, pid: Some(1) };
            assert_eq!(rewritten(text, &Fake::default(), &maps, &options).0, text, "{format:?}");
            let (out, _) = rewritten(text, &All, &maps, &options);
            assert_eq!(memchr::memchr_iter(b'\n', &out).count(), memchr::memchr_iter(b'\n', text).count());
            let _ = fold(&mut &text[..], &mut Vec::new(), &All, &maps, &options);
        }
    }
}

#[test]
fn names_break_no_line_and_no_stack() {
    let (out, _) = named("\t    7f0e728032b2 [unknown] ([unknown])\n", &All, &[]);
    assert_eq!(out, "\t    7f0e728032b2 a:b\\x0ac\\x1b+0x7f0e728032b2 ([unknown])\n");
}

#[test]
fn half_lines_and_numbers_that_are_none() {
    for text in [
        "",
        "\n",
        "\r\n",
        "0x",
        "\t0x",
        "0x\n",
        "\t",
        "\t ",
        "\t1 (",
        "\t1 )",
        "\t1 ()",
        "\t1 (+0x)",
        "#",
        "#1",
        "#1 ",
        "#1 0x1 in ",
        "#1  0x12 in ??",
        "#99999999999999999999999 x ()",
        ";",
        "; 1",
        "a;0x; 1",
        "0xffffffffffffffffff",
        "\tffffffffffffffffff [unknown] (/a)",
        "\t1 [<",
        "\t1 [<12>",
        "\t\t0x12\t[",
        "\t\t0x12\t]",
        "\t\t0x12",
        "1 bytes in  allocations from stack",
        "and  from  other places",
        "-1.B leaked over 1 calls from:",
        ". leaked from",
        "PERF_RECORD_MMAP2 ",
        "PERF_RECORD_MMAP2 1/1: [",
        "x: PERF_RECORD_MMAP2 1/1: [0x1(0x2) @ ",
        "x: PERF_RECORD_MMAP2 1/1: [0xfffffffffffff000(0xffffffffffffffff) @ 0xffffffffffffffff a]: r-xp /a",
        "x: PERF_RECORD_MMAP2 1/1: [0x1000(0xffffffffffffffff) @ 0xffffffffffffffff a]: r-xp /c\n\t ffffffffffffffff x (/c)\n\t 7fffffffffffffff x (/c)",
        "in ??",
        "  in ",
        "at ",
        "Debuggee command was: ",
        "Thread (",
        "Thread 1 (",
        "a\0b 0x7fa48c032b20\0\n",
        "\u{feff}0x7fa48c032b20",
    ] {
        survive(text.as_bytes());
    }
    survive(b"\xff\xfe\t7f0e728032b2 \xff (\xff)\n0x7f0e728032b2\xff\n");
}

#[test]
fn line_ends_stay_as_they_are() {
    let text = "x 1 1.0: c:\r\n\t  2000 [unknown] ([unknown])\r\n\r\n\t2000 [unknown] ([unknown])";
    let namer = Fake::native(&[(0x2000, 0x3000, "f")]);
    let (out, summary) = named(text, &namer, &[]);
    assert_eq!(out, text.replace("2000 [unknown]", "2000 f+0x0"));
    assert_eq!(summary.lines, 4);
}

#[test]
fn long_lines_pass() {
    let frame = "\t7f0e728032b2 [unknown] ([unknown])\n";
    let exact = "y".repeat(limits::MAX_TEXT_LINE - 1) + "\n";
    let long = " 0x7f0e728032b2".repeat(limits::MAX_TEXT_LINE / 15 + 20_000) + "\n";
    let text = frame.to_owned() + &exact + &long + &long + frame + &"y".repeat(limits::MAX_TEXT_LINE);
    let (out, summary) = named(&text, &All, &[]);
    assert_eq!((summary.lines, summary.long_lines, summary.addresses), (6, 3, 2));
    assert!(out.contains(&long));
    assert_eq!(rewritten(text.as_bytes(), &Fake::default(), &[], &Options::default()).0, text.as_bytes());
    // A line of brackets must not take quadratic time.
    survive((": 1 (".repeat(180_000) + ")").as_bytes());
    survive((";0x1".repeat(200_000) + " 1").as_bytes());
    survive(("\t1 ".to_owned() + &")".repeat(500_000)).as_bytes());
}

#[test]
fn weights_and_depth_have_an_end() {
    let deep =
        "x 1 1.0: c:\n".to_owned() + &"\t7f0e728032b2 [unknown] ([unknown])\n".repeat(limits::MAX_TEXT_DEPTH + 9);
    let stacks = folded(&deep, &Fake::default(), &[], &Options::default());
    assert_eq!(stacks.matches("[unknown]").count(), limits::MAX_TEXT_DEPTH);
    let text = "a;b 18446744073709551615\na;b 18446744073709551615\n";
    assert_eq!(folded(text, &All, &[], &Options::default()), "a;b 18446744073709551615\n");
}

/// Random lines that look like those of the tools.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just("\t".to_owned()),
        Just("    ".to_owned()),
        Just("0x".to_owned()),
        Just("[unknown]".to_owned()),
        Just(" (/a)".to_owned()),
        Just("in ??".to_owned()),
        Just(" [m]".to_owned()),
        Just("#1  ".to_owned()),
        Just(";".to_owned()),
        Just(" 12".to_owned()),
        Just("+0x1f".to_owned()),
        Just("65536 bytes in 1 allocations from stack".to_owned()),
        Just("2.64M peak memory consumed over 290 calls from".to_owned()),
        Just("x: PERF_RECORD_MMAP2 1/1: [0x1000(0x1000) @ 0 00:01 1 1]: r-xp /a".to_owned()),
        "[0-9a-f]{1,18}",
        "[ -~]{0,6}",
    ];
    proptest::collection::vec(part, 0..8).prop_map(|p| p.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn without_names_a_text_comes_back(lines in proptest::collection::vec(line(), 0..12), crlf: bool) {
        survive(&lines.join(if crlf { &b"\r\n"[..] } else { &b"\n"[..] }));
    }

    #[test]
    fn any_bytes_come_back(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        survive(&text);
    }
}
