use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::*;
use crate::report::Name;
use crate::targets::{Arch, Producer};
use crate::words::Part;

fn recording(looks: u64) -> Recording {
    let subject = Subject {
        path: "/proc/4711".into(),
        pid: Some(4711),
        name: "a \"name\"".into(),
        start_ticks: Some(8812),
        arch: Arch::X86_64,
        producer: Producer::Live,
        runtimes: vec![(".NET".into(), Some("10.0.14".into())), ("CPython".into(), None)],
        collected: true,
    };
    Recording {
        subject,
        coremap: "0.1.0".into(),
        every: Some(10.0),
        parts: vec![Part::Types, Part::Malloc],
        moments: (1..=looks).map(moment).collect(),
    }
}

fn moment(look: u64) -> Moment {
    let type_of = |i: u64| (Name::from(format!("Lab.Type<{i}>").as_str()), Sum { count: i, bytes: i * 24 + look });
    let types: BTreeMap<Name, Sum> = (1..=look + 3).map(type_of).collect();
    let total = types.values().fold(Sum::default(), |a, b| a.plus(*b));
    let size = |size, mmapped, count| (BlockSize { size, mmapped }, Sum { count, bytes: size * count });
    Moment {
        look,
        time: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_123 + look * 10_000)),
        seconds: look as f64 * 10.0,
        threads: 5 + look,
        kernel: KernelFigures { rss: Some(look << 20), limit: Some(1 << 30), ..KernelFigures::default() },
        kinds: [
            (
                "Malloc".into(),
                KindFigures { count: 3, size: 1 << 20, readable: 1 << 19, rss: Some(4096), ..KindFigures::default() },
            ),
            (
                "Stack".into(),
                KindFigures {
                    count: look,
                    size: 8 << 20,
                    readable: 1 << 20,
                    written: Some(0),
                    ..KindFigures::default()
                },
            ),
        ]
        .into(),
        findings: [("malloc".into(), Some(1 << 20)), ("deadlock".into(), None)].into(),
        types: (!look.is_multiple_of(3)).then_some(Objects { total, types, rest: Rest::default() }),
        malloc: Some(Blocks {
            allocator: "glibc".into(),
            used: Sum { count: 9, bytes: 900 },
            free: Sum { count: 1, bytes: 100 },
            classes: [(64, Sum { count: 9, bytes: 500 })].into(),
            sizes: [size(48, false, look), size(401_408, true, 2), size(401_408, false, 1)].into(),
            rest: Rest::default(),
        }),
        cost: Cost {
            stopped_ms: Some(1.2),
            wall_ms: 30.5,
            types_ms: 10.0,
            processor_ms: Some(29.9),
            read: Some(1 << 20),
            ..Cost::default()
        },
        warnings: vec!["malloc-walk".into()],
    }
}

fn written(of: &Recording) -> Vec<u8> {
    let mut out = Vec::new();
    let written = RecordingWriter::begin(&mut out, of).and_then(|mut writer| {
        of.moments.iter().try_for_each(|moment| writer.add(moment.clone())).map(|()| writer.written())
    });
    assert!(written.is_ok_and(|bytes| bytes == out.len() as u64));
    out
}

#[track_caller]
fn read(text: &[u8]) -> ReadRecording {
    match read_recording(text) {
        Ok(read) => read,
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn what_is_written_is_read() {
    let of = recording(7);
    let text = written(&of);
    assert!(is_recording(&text));
    let back = read(&text);
    assert_eq!(back.lacks, None);
    // Plain data, so equal texts mean equal recordings.
    assert_eq!(format!("{:?}", back.recording), format!("{of:?}"));
    // A name is written once, however many samples there are.
    assert_eq!(String::from_utf8_lossy(&text).matches("Lab.Type<2>").count(), 1);
}

#[test]
fn what_a_terminal_would_obey_is_escaped() {
    let mut of = recording(1);
    let evil = Name::from("\u{1b}[2J\u{202e}\u{1f600}\u{7f}\u{e0041}");
    let types = [(evil.clone(), Sum { count: 1, bytes: 8 })].into();
    of.moments[0].types = Some(Objects { total: Sum { count: 1, bytes: 8 }, types, rest: Rest::default() });
    let text = written(&of);
    assert!(!String::from_utf8_lossy(&text).chars().any(|c| c != '\n' && crate::bytes::is_harmful(c)));
    let back = read(&text).recording.moments.remove(0).types.unwrap_or_default();
    assert_eq!(back.types.keys().collect::<Vec<_>>(), [&evil]);
}

#[test]
fn long_lists_are_cut_and_their_sums_kept() {
    let mut of = recording(1);
    let types: BTreeMap<Name, Sum> =
        (0..5000u64).map(|i| (Name::from(format!("T{i}").as_str()), Sum { count: 1, bytes: i })).collect();
    let total = types.values().fold(Sum::default(), |a, b| a.plus(*b));
    of.moments[0].types = Some(Objects { total, types, rest: Rest::default() });
    let back = read(&written(&of)).recording.moments.remove(0).types.unwrap_or_default();
    assert_eq!((back.types.len(), back.rest.rows), (150, 4850));
    let listed = back.types.values().fold(Sum::default(), |a, b| a.plus(*b));
    assert_eq!(listed.plus(back.rest.sum), total);
    assert_eq!(back.rest.largest, 4849);
}

#[test]
fn a_line_that_was_just_being_written_is_left_out() {
    let text = written(&recording(5));
    for cut in 1..40 {
        let back = read(&text[..text.len() - cut]);
        assert_eq!(back.recording.moments.len(), 4);
        assert!(
            back.lacks
                .is_some_and(|why| why.contains("line 6") && why.contains("truncated") && why.contains("4 samples"))
        );
    }
    // No sample at all.
    let header = text.iter().position(|&b| b == b'\n').unwrap_or(0);
    assert!(read(&text[..=header]).recording.moments.is_empty());
    assert!(read_recording(&text[..header]).is_err());
}

#[test]
fn another_form_gets_a_sentence() {
    let text = String::from_utf8_lossy(&written(&recording(1))).into_owned();
    let why = |text: &str| read_recording(text.as_bytes()).map_or_else(|e| e.to_string(), |_| "taken".into());
    assert!(why(&text.replace("\"coremap_recording\":1", "\"coremap_recording\":2")).contains("newer coremap"));
    assert!(why("{\"coremap_recording\":7,\"all\":\"else\"}\n").contains("version 7"));
    for other in ["", "\n", "{}\n", "{\"schema_version\":1}\n", "\u{7f}ELF", "{\"coremap_recording\":1}\n"] {
        assert!(why(other).contains("not a recording"), "{other}: {}", why(other));
    }
    let more = text.replacen("\"coremap\":", "\"hello\":\"new field\",\"coremap\":", 1);
    assert_eq!(read(more.as_bytes()).recording.moments.len(), 1);
}

#[test]
fn what_makes_no_sense_ends_the_reading() {
    let lines: Vec<String> =
        String::from_utf8_lossy(&written(&recording(4))).split_inclusive('\n').map(str::to_owned).collect();
    let with = |at: usize, line: String| {
        let mut lines = lines.clone();
        lines[at] = line;
        let back = read(lines.concat().as_bytes());
        (back.recording.moments.len(), back.lacks.unwrap_or_default())
    };
    for (broken, word) in [
        (lines[2].replace("\"s\":20", "\"s\":10"), "not later"),
        (lines[2].replace("\"rows\":[[0", "\"rows\":[[999999"), "an unknown name"),
        (lines[2].replace("\"threads\":7", "\"threads\":-7"), "cannot be read"),
        (lines[2].replace("\"s\":20", "\"s\":1e999"), "cannot be read"),
        ("[]\n".into(), "cannot be read"),
        ("\u{1b}[2J\n".into(), "cannot be read"),
    ] {
        let (looks, lacks) = with(2, broken);
        assert_eq!(looks, 1, "{word}: {lacks}");
        assert!(lacks.contains(word) && !lacks.contains('\u{1b}'), "{lacks}");
    }
}

proptest! {
    /// Any damage: no panic, and never more samples than lines.
    #[test]
    fn any_damage_is_survived(flips in proptest::collection::vec((0..4000usize, any::<u8>()), 1..20)) {
        let mut text = written(&recording(4));
        for (at, byte) in flips {
            let len = text.len();
            text[at % len] = byte;
        }
        if let Ok(back) = read_recording(text.as_slice()) {
            let lines = text.split(|&b| b == b'\n').count();
            prop_assert!(back.recording.moments.len() < lines);
            prop_assert!(back.recording.moments.windows(2).all(|w| w[0].seconds < w[1].seconds));
        }
    }
}
