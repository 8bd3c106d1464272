//! .NET code that lies: maps that run in circles, lengths and counts that no
//! process has, headers, descriptors and types that lead to themselves. Every
//! command that names code ends in bounded time and memory and says what is
//! wrong; what does not depend on the lie is still told.

use std::time::Duration;

use serde_json::Value;

use crate::support::dotnet_builder::{FREE, Fake, HIDDEN, IMAGE, TABLE};
use crate::support::dotnet_code::{Code, DYNAMIC, PLAIN, READY, SIZE};
use crate::support::run::bounded;

/// Processor time, far above what any of them needs, also in a debug build.
const MOST: Duration = Duration::from_secs(40);

/// What the commands said of one core.
struct Answer {
    /// `ip2method` of the three methods and of one address past each.
    rows: Vec<Value>,
    warnings: String,
    partial: bool,
    /// START SIZE NAME
    map: Vec<String>,
}

/// Every command that names code ends in time and memory.
#[track_caller]
fn of(fake: &Fake) -> Answer {
    let core = fake.core().write();
    let ips: Vec<String> =
        [PLAIN, DYNAMIC, READY].iter().flat_map(|ip| [*ip, ip + SIZE]).map(|ip| format!("{ip:#x}")).collect();
    let args: Vec<&str> = ["ip2method", "--json"].into_iter().chain(ips.iter().map(String::as_str)).collect();
    let out = bounded(&args, core.path()).within(MOST).go();
    out.is_sound();
    assert!(matches!(out.code, Some(0 | 1 | 4)), "{out:?}");
    let answer = out.json();
    let rows = answer["results"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 6);
    for row in &rows {
        // An answer or a reason, never neither.
        assert_eq!(row["found"] == true, row["reason"].is_null(), "{row}");
        let name = row["method"].as_str().unwrap_or_default();
        assert!(name.len() < 32 << 10, "{} bytes of name", name.len());
    }
    let whatis = bounded(&["whatis", &ips[0]], core.path()).within(MOST).go();
    whatis.is_sound();
    let text = bounded(&["symbolicate", "/dev/stdin"], core.path()).input(ips.join("\n").into_bytes()).within(MOST);
    text.go().is_sound();
    let map = bounded(&["perfmap"], core.path()).within(MOST).go();
    map.is_sound();
    assert!(matches!(map.code, Some(0 | 1 | 4)), "{map:?}");
    Answer {
        rows,
        warnings: format!("{} {}", answer["warnings"], map.stderr),
        partial: map.code == Some(4) || out.code == Some(4),
        map: map.stdout.lines().map(str::to_owned).collect(),
    }
}

impl Answer {
    /// The name of one of the three methods, or why there is none.
    fn name(&self, ip: u64) -> &str {
        let row = self.rows.iter().find(|r| r["ip"] == format!("{ip:#x}")).unwrap();
        row["method"].as_str().or(row["reason"].as_str()).unwrap()
    }

    #[track_caller]
    fn found(&self, ip: u64, found: bool) -> &Answer {
        let row = self.rows.iter().find(|r| r["ip"] == format!("{ip:#x}")).unwrap();
        assert_eq!(row["found"], found, "{row}");
        self
    }

    /// A warning, or the reason at one of the addresses, has this in it.
    #[track_caller]
    fn tells(&self, what: &str) -> &Answer {
        let reasons: Vec<_> = self.rows.iter().filter_map(|r| r["reason"].as_str()).collect();
        let told = self.warnings.contains(what) || reasons.iter().any(|r| r.contains(what));
        assert!(told, "no {what:?} in {} {reasons:?}", self.warnings);
        self
    }
}

#[track_caller]
fn bent(bend: impl FnOnce(&mut Fake, &Code)) -> Answer {
    let (mut fake, code) = Fake::with_code();
    bend(&mut fake, &code);
    of(&fake)
}

#[test]
fn a_sane_runtime_has_the_methods_it_was_built_with() {
    let (fake, code) = Fake::with_code();
    let answer = of(&fake);
    // Modules without metadata are told; nothing else is wrong.
    assert_eq!(answer.warnings.matches("dotnet: ").count(), 0, "{}", answer.warnings);
    let [plain, past, dynamic, _, ready, past_ready] = &answer.rows[..] else { panic!() };
    assert_eq!(plain["method"], "lab.dll!0x02000002.(method 0x06000007)");
    assert_eq!((&plain["code_size"], &plain["jitted"]), (&SIZE.into(), &true.into()));
    assert_eq!(plain["method_desc"], format!("{:#x}", code.descs[0]));
    assert_eq!(plain["tier"], "OptimizedTier1");
    assert_eq!(dynamic["method"], "DynamicClass.Emitted");
    assert_eq!((&ready["method"], &ready["jitted"]), (&plain["method"], &false.into()));
    assert!(past["reason"].as_str().unwrap().contains("between two methods"), "{past}");
    assert!(past_ready["reason"].as_str().unwrap().contains("in none of its methods"), "{past_ready}");
    assert_eq!(answer.map.len(), 3, "{:?}", answer.map);
}

// The map of ranges.

#[test]
fn a_level_of_the_map_that_points_at_itself() {
    for level in 0..4 {
        let answer = bent(|f, c| f.put(c.levels[level] + 8 * 200, c.levels[level]));
        answer.tells("has a cycle").found(PLAIN, true).found(READY, true);
        assert!(answer.partial);
    }
}

#[test]
fn a_map_of_overlapping_levels_that_all_lead_to_each_other() {
    // Each of these words is a level of 256 entries, and each entry a level.
    let n = 200_000u64;
    let (mut fake, _) = Fake::with_code();
    fake.map(FREE, (0..n + 256).flat_map(|i| (FREE + 8 * (i * 7919 % n)).to_le_bytes()).collect());
    fake.put(IMAGE + TABLE + 8 * 200, FREE);
    of(&fake).tells("has a cycle").found(PLAIN, true);
}

#[test]
fn a_list_of_fragments_that_runs_in_a_circle() {
    let answer = bent(|f, c| f.set("RangeSectionFragment", c.fragments[0], "Next", c.fragments[0]));
    answer.tells("has a cycle").found(PLAIN, true).found(READY, true);
    let answer = bent(|f, c| {
        f.set("RangeSectionFragment", c.fragments[0], "Next", c.fragments[1]);
        f.set("RangeSectionFragment", c.fragments[1], "Next", c.fragments[0]);
    });
    answer.tells("has a cycle").found(PLAIN, true).found(READY, true);
}

#[test]
fn fragments_and_sections_that_are_not_in_the_dump() {
    let answer = bent(|f, c| f.set("RangeSectionFragment", c.fragments[0], "RangeSection", HIDDEN));
    answer.tells("not in the dump").found(PLAIN, false).found(READY, true);
    let answer = bent(|f, c| f.set("RangeSectionFragment", c.fragments[0], "Next", HIDDEN));
    answer.tells("not in the dump").found(PLAIN, true).found(READY, true);
}

#[test]
fn ranges_that_overlap_or_end_before_they_begin() {
    let answer = bent(|f, c| f.set("RangeSectionFragment", c.fragments[0], "RangeEndOpen", u64::MAX));
    answer.found(PLAIN, true);
    let answer = bent(|f, c| f.set("RangeSectionFragment", c.fragments[0], "RangeEndOpen", 0));
    answer.found(PLAIN, false).found(READY, true);
    let answer = bent(|f, c| f.set("RangeSectionFragment", c.fragments[0], "RangeBegin", 0));
    answer.tells("overlap").found(PLAIN, true);
}

// Code heaps.

#[test]
fn a_nibble_map_that_is_longer_than_memory() {
    for end in [u64::MAX, PLAIN + (1 << 40), PLAIN + (1 << 31)] {
        let answer = bent(|f, _| f.set("CodeHeapListNode", f.code_nodes[0], "EndAddress", end));
        answer.tells("HeaderMap").found(PLAIN, false).found(READY, true);
    }
    let answer = bent(|f, _| f.set("CodeHeapListNode", f.code_nodes[0], "EndAddress", 0));
    answer.found(PLAIN, false).found(READY, true);
}

#[test]
fn nibble_maps_of_nothing_but_starts() {
    // Each of 16 Mi nibbles is a block, and every header kind 0x11…: memory that
    // is not there. A second heap has the same.
    let (mut fake, code) = Fake::with_code();
    fake.map(FREE, vec![0x11; 8 << 20]);
    let node = fake.code_nodes[0];
    fake.set("CodeHeapListNode", node, "HeaderMap", FREE);
    fake.set("CodeHeapListNode", node, "EndAddress", PLAIN + (1 << 29));
    fake.set("CodeHeapListNode", node, "MapBase", PLAIN);
    fake.set("RangeSectionFragment", code.fragments[0], "RangeEndOpen", PLAIN + (1 << 29));
    of(&fake).found(READY, true).tells("heaps, images or blocks of code can't be read");
}

#[test]
fn code_headers_that_point_at_themselves_or_at_nothing() {
    for header in [PLAIN - 8, PLAIN, HIDDEN, u64::MAX, 1 << 63, 0x10] {
        let answer = bent(|f, _| f.put(PLAIN - 8, header));
        assert!(!answer.name(PLAIN).starts_with("lab.dll!"), "{header:#x}: {}", answer.name(PLAIN));
        answer.found(DYNAMIC, true).found(READY, true);
    }
    // Kinds of stubs, which are no pointers.
    for kind in 0..16 {
        let answer = bent(|f, _| f.put(PLAIN - 8, kind));
        answer.found(PLAIN, false).tells("stubs").found(DYNAMIC, true);
    }
}

#[test]
fn four_billion_funclets() {
    let at = |f: &Fake, c: &Code| c.headers[0] + f.table.at("RealCodeHeader", "NumUnwindInfos");
    let answer = bent(|f, c| f.poke(at(f, c), &u32::MAX.to_le_bytes()));
    answer.found(DYNAMIC, true).found(READY, true);
    // None at all: nothing says how long the method is.
    let answer = bent(|f, c| f.poke(at(f, c), &[0; 4]));
    answer.found(PLAIN, false).found(DYNAMIC, true);
    // An end that lies before the start, or behind the heap.
    for end in [0u32, 1, u32::MAX] {
        let answer = bent(|f, c| {
            let unwind = c.headers[0] + f.table.at("RealCodeHeader", "UnwindInfos");
            f.poke(unwind + f.table.at("RuntimeFunction", "EndAddress"), &end.to_le_bytes());
        });
        answer.found(DYNAMIC, true);
        let size = answer.rows[0]["code_size"].as_u64().unwrap_or(0);
        assert!(size <= 0x1000, "{end:#x}: {size:#x}");
    }
}

// Methods and types.

#[test]
fn descriptors_of_garbage() {
    // All sixteen bytes of a descriptor and the head of its chunk, at random.
    let mut rng = crate::support::Rng(0x5eed_0005);
    for _ in 0..24 {
        let answer = bent(|f, c| {
            for word in [c.chunk, c.chunk + 8, c.chunk + 16, c.descs[0], c.descs[0] + 8].iter().filter(|w| **w % 3 < 2)
            {
                f.put(*word, rng.next());
            }
        });
        answer.found(READY, answer.name(PLAIN) == answer.name(READY));
    }
    for desc in [0, 8, HIDDEN, u64::MAX, PLAIN] {
        let answer = bent(|f, c| f.set("RealCodeHeader", c.headers[0], "MethodDesc", desc));
        answer.found(DYNAMIC, true).found(READY, true);
    }
}

#[test]
fn a_type_that_is_its_own_argument() {
    let answer = bent(|f, c| {
        let (dictionaries, dictionary) = (f.room_for(32) + 16, f.room_for(8 * 1024));
        f.poke(c.method_table, &0x10u32.to_le_bytes());
        f.set("MethodTable", c.method_table, "PerInstInfo", dictionaries);
        let head = dictionaries - f.table.size("GenericsDictInfo");
        f.poke(head + f.table.at("GenericsDictInfo", "NumDicts"), &1u16.to_le_bytes());
        f.poke(head + f.table.at("GenericsDictInfo", "NumTypeArgs"), &u16::MAX.to_le_bytes());
        f.put(dictionaries, dictionary);
        for i in 0..1024 {
            f.put(dictionary + 8 * i, c.method_table);
        }
    });
    answer.found(PLAIN, true);
    let name = answer.name(PLAIN);
    assert!(name.starts_with("lab.dll!0x02000002[[lab.dll!0x02000002[[") && name.contains('…'), "{}", &name[..99]);
}

#[test]
fn an_array_of_itself_and_a_class_that_is_its_own_canon() {
    let answer = bent(|f, c| {
        f.poke(c.method_table, &0x000a_0000u32.to_le_bytes());
        f.set("MethodTable", c.method_table, "PerInstInfo", c.method_table);
    });
    assert!(answer.name(PLAIN).len() < 4096, "{}", answer.name(PLAIN));
    let answer = bent(|f, c| f.set("MethodTable", c.method_table, "EEClassOrCanonMT", c.method_table | 1));
    answer.found(PLAIN, true);
}

#[test]
fn paths_and_names_without_an_end() {
    let answer = bent(|f, c| f.poke(c.path, &[b'a', 0].repeat(0x1800)));
    answer.found(PLAIN, true);
    assert!(answer.name(PLAIN).ends_with("!0x02000002.(method 0x06000007)"), "{}", answer.name(PLAIN));
    assert!(answer.name(PLAIN).starts_with("module_0x"), "{}", answer.name(PLAIN));
    let answer = bent(|f, c| f.poke(c.name, &b"e".repeat(0x5008)));
    assert!(answer.name(DYNAMIC).starts_with("DynamicClass.eeee"));
    // Control characters stay out of the map: one line an entry.
    let answer = bent(|f, c| f.poke(c.name, b"a\n7 7 b\x1b[2J\0"));
    assert_eq!(answer.map.len(), 3, "{:?}", answer.map);
    assert!(answer.map.iter().any(|l| l.contains(r"DynamicClass.a\x0a7 7 b\x1b[2J")), "{:?}", answer.map);
    for at in [0, HIDDEN, u64::MAX] {
        let answer = bent(|f, c| f.set("DynamicMethodDesc", c.descs[1], "MethodName", at));
        assert_eq!(answer.name(DYNAMIC), "DynamicClass.(no name)");
    }
}

// Precompiled code.

#[test]
fn counts_of_runtime_functions_that_no_image_has() {
    for count in [2u32, 1 << 20, u32::MAX] {
        let answer = bent(|f, c| {
            f.poke(c.info + f.table.at("ReadyToRunInfo", "NumRuntimeFunctions"), &count.to_le_bytes());
            f.set("ReadyToRunInfo", c.info, "RuntimeFunctions", FREE - 8);
        });
        answer.found(PLAIN, true).found(READY, false).tells("RuntimeFunctions");
    }
}

#[test]
fn counts_of_buckets_that_no_table_has() {
    for count in [0u32, 2, 1 << 20, u32::MAX] {
        let answer = bent(|f, c| f.poke(c.buckets, &count.to_le_bytes()));
        answer.found(PLAIN, true).found(READY, count > 0);
    }
}

#[test]
fn an_image_whose_tables_lie() {
    // "RTR\0", and a thousand sections of each table, all of the image.
    for (rva, size) in [(0u32, u32::MAX), (0x1800, 0x800), (u32::MAX, 16), (0x1fff, 1)] {
        let answer = bent(|f, _| {
            let image = crate::support::dotnet_code::READY_IMAGE;
            f.poke(image, &[0x0052_5452u32, 9, 0, u32::MAX].map(u32::to_le_bytes).concat());
            for i in 0..300u64 {
                let kind = [103u32, 105, 109][i as usize % 3];
                f.poke(image + 16 + 12 * i, &[kind, rva, size].map(u32::to_le_bytes).concat());
            }
            f.poke(image + 0x1800, &[0xff, 0xff, 0x7f, 0x01].repeat(0x200));
        });
        answer.found(PLAIN, true).found(READY, true);
    }
}

// Versions.

#[test]
fn code_versions_that_run_in_a_circle() {
    let answer = bent(|f, c| f.set("NativeCodeVersionNode", c.node, "Next", c.node));
    answer.found(PLAIN, true).tells("has a cycle");
    assert!(answer.partial);
    assert_eq!(answer.rows[0]["versions"].as_array().unwrap().len(), 1, "{}", answer.rows[0]);
    let answer = bent(|f, c| f.set("NativeCodeVersionNode", c.node, "Next", HIDDEN));
    answer.found(PLAIN, true);
}

#[test]
fn tables_of_versions_that_are_longer_than_memory() {
    for size in [u32::MAX, 1 << 22, 0] {
        let answer = bent(|f, _| {
            let map = f.app_domain + f.table.at("AppDomain", "MethodDescVersioningStateMap");
            f.poke(map + f.table.at("SHash", "m_tableSize"), &size.to_le_bytes());
        });
        answer.found(PLAIN, true);
        assert_eq!(answer.partial && answer.warnings.contains("code versions"), size != 0, "{}", answer.warnings);
    }
}
