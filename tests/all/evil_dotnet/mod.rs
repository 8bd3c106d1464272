//! .NET runtimes that lie: lists that run in circles, counts and sizes that no
//! process has, structures that are not in the dump, descriptors made to hurt.
//! Each ends in bounded time and memory with the sums intact, and what was read
//! before the lie keeps its label.

mod descriptors;

use std::collections::BTreeMap;
use std::iter::once;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::support::builder::{CoreBuilder, Count, Load, R, W, image};
use crate::support::dotnet_builder::{
    BOOK, DATA, FREE, Fake, HANDLES, HEAP, HIDDEN, IMAGE, LOADER, REGION, STACK, VARS,
};
use crate::support::run::bounded;
use crate::support::{elf, notes};

/// Processor time, far above what any of them needs, also in a debug build.
const MOST: Duration = Duration::from_secs(40);

type Labels = BTreeMap<String, Vec<Range<u64>>>;

/// What `regions`, `summary` and `check` said of one core.
struct Answer {
    code: i32,
    labels: Labels,
    warnings: String,
}

/// Ranges sorted, those that touch joined.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|r| r.start);
    let mut out: Vec<Range<u64>> = Vec::new();
    for r in ranges {
        match out.last_mut() {
            Some(last) if last.end >= r.start => last.end = last.end.max(r.end),
            _ => out.push(r),
        }
    }
    out
}

fn labels(answer: &Value) -> Labels {
    let address = |v: &Value| u64::from_str_radix(v.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
    let mut out = Labels::new();
    for r in answer["regions"].as_array().unwrap() {
        let range = address(&r["start"])..address(&r["end"]);
        out.entry(r["kind"].as_str().unwrap().to_owned()).or_default().push(range);
    }
    out.into_iter().map(|(kind, list)| (kind, joined(list))).collect()
}

/// The program ends in time and memory, and every byte of the base (counted
/// here, from the headers) has one label.
#[track_caller]
fn survives(core: &CoreBuilder) -> Answer {
    let file = core.write();
    let summary = bounded(&["summary", "--json"], file.path()).within(MOST).go();
    summary.is_sound();
    let code = summary.code.unwrap();
    assert!(matches!(code, 0 | 4), "{code}: {}", summary.stderr);
    let summary = summary.json();
    let (base, warnings) = (elf::read(&core.build()).base(), summary["warnings"].clone());
    let kinds = summary["kinds"].as_array().unwrap().iter().map(|k| k["size"].as_u64().unwrap()).sum::<u64>();
    assert_eq!((kinds, summary["total"]["size"].as_u64().unwrap()), (base, base));
    assert!(code == 0 || !warnings.as_array().unwrap().is_empty(), "{warnings}");
    let check = bounded(&["check", "--json"], file.path()).within(MOST).go();
    check.is_sound();
    assert!(check.json()["invariants"].as_array().unwrap().iter().all(|i| i["ok"] == true), "{}", check.stdout);
    let regions = bounded(&["regions", "--json"], file.path()).within(MOST).go();
    regions.exits(code);
    Answer { code, labels: labels(&regions.json()), warnings: warnings.to_string() }
}

/// Every command that reads the whole map ends in time and memory.
#[track_caller]
fn ends(core: &Path, command: &str) {
    let out = bounded(&[command], core).within(MOST).go();
    out.is_sound();
    assert!(matches!(out.code, Some(0 | 4)), "{:?}: {}", out.code, out.stderr);
}

impl Answer {
    /// Exactly these ranges have this label.
    #[track_caller]
    fn labels_exactly(&self, kind: &str, ranges: impl IntoIterator<Item = Range<u64>>) -> &Answer {
        let have = self.labels.get(kind).cloned().unwrap_or_default();
        assert_eq!(have, joined(ranges.into_iter().collect()), "{kind}; {}", self.warnings);
        self
    }

    /// All that the sane runtime has of these kinds.
    #[track_caller]
    fn keeps(&self, fake: &Fake, kinds: &[&str]) -> &Answer {
        for kind in kinds {
            self.labels_exactly(kind, fake.expected[kind].clone());
        }
        self
    }

    /// Exit status 4, and a warning that has this in it.
    #[track_caller]
    fn tells(&self, what: &str) -> &Answer {
        assert_eq!(self.code, 4, "{}", self.warnings);
        assert!(self.warnings.contains(what), "no {what:?} in {}", self.warnings);
        self
    }
}

const OUTSIDE_GC: &[&str] =
    &["HandleTable", "HighFrequencyHeap", "IndirectionCellHeap", "LoaderCodeHeap", "HostCodeHeap"];
const GC: &[&str] = &["GCHeap", "GCHeapReserve", "GCHeapToBeFreed", "GCBookkeeping"];

#[track_caller]
fn of(fake: &Fake) -> Answer {
    survives(&fake.core())
}

/// Bytes of these words.
fn words(list: impl IntoIterator<Item = u64>) -> Vec<u8> {
    list.into_iter().flat_map(u64::to_le_bytes).collect()
}

#[test]
fn a_sane_runtime_gets_exactly_the_labels_it_was_built_with() {
    let fake = Fake::dotnet_8();
    let answer = of(&fake);
    assert_eq!(answer.code, 0, "{}", answer.warnings);
    assert_eq!(fake.expected.len(), 9);
    answer.keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

// The GC's lists.

#[test]
fn a_segment_list_that_runs_in_a_circle() {
    let mut fake = Fake::dotnet_8();
    // Generation 0 leads to 1, which leads back to 0.
    fake.set("dac_heap_segment", fake.segments[0], "next", fake.segments[1]);
    fake.set("dac_heap_segment", fake.segments[1], "next", fake.segments[0]);
    of(&fake).tells("cycle").keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_segment_that_points_at_itself() {
    let mut fake = Fake::dotnet_8();
    fake.set("dac_heap_segment", fake.segments[4], "next", fake.segments[4]);
    of(&fake).tells("cycle").keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_free_list_that_runs_in_a_circle() {
    let mut fake = Fake::dotnet_8();
    fake.set("dac_heap_segment", fake.free_region, "next", fake.free_region);
    of(&fake).tells("cycle").keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_free_list_that_leads_into_the_segments_in_use() {
    let mut fake = Fake::dotnet_8();
    fake.set("dac_heap_segment", fake.free_region, "next", fake.segments[2]);
    of(&fake).tells("another list").keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn counts_of_heaps_that_no_machine_has() {
    for count in [5000, 1 << 31, u64::from(u32::MAX)] {
        let mut fake = Fake::dotnet_8();
        fake.variable("n_heaps", count);
        fake.variable("g_heaps", DATA);
        of(&fake).tells(&format!("number of heaps: {count}")).keeps(&fake, &OUTSIDE_GC[1..]);
    }
}

#[test]
fn a_thousand_heaps_that_are_not_in_the_dump() {
    let mut fake = Fake::dotnet_8();
    fake.variable("n_heaps", 1024);
    fake.variable("g_heaps", HIDDEN);
    of(&fake).tells("heap 0 is not in the core").keeps(&fake, &OUTSIDE_GC[1..]);
}

#[test]
fn more_kinds_of_free_regions_than_there_is_memory() {
    let mut fake = Fake::dotnet_8();
    let at = VARS + fake.table.at("GcDacVars", "count_free_region_kinds");
    fake.poke(IMAGE + at, &u32::MAX.to_le_bytes());
    of(&fake).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_segment_whose_end_lies_below_its_start() {
    let mut fake = Fake::dotnet_8();
    for field in ["committed", "allocated", "reserved"] {
        fake.set("dac_heap_segment", fake.segments[2], field, 1);
    }
    let answer = of(&fake);
    let mut rest = fake.expected["GCHeap"].clone();
    rest.remove(2);
    answer.labels_exactly("GCHeap", rest).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn bookkeeping_of_all_the_address_space() {
    let mut fake = Fake::dotnet_8();
    fake.set("card_table_info", BOOK, "size", u64::MAX);
    of(&fake).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn bookkeeping_of_all_the_address_space_takes_no_stack_and_no_image() {
    let mut fake = Fake::dotnet_8();
    fake.set("card_table_info", BOOK, "size", u64::MAX);
    of(&fake).labels_exactly("Stack", once(STACK..STACK + 0x1000));
}

#[test]
fn a_segment_of_all_the_address_space_takes_no_stack_and_no_image() {
    let mut fake = Fake::dotnet_8();
    fake.set("dac_heap_segment", fake.segments[0], "committed", u64::MAX);
    of(&fake).labels_exactly("Stack", once(STACK..STACK + 0x1000));
}

#[test]
fn a_million_segments_that_overlap_in_memory() {
    // Word i is the `next` of the segment at word i-6.
    let mut fake = Fake::dotnet_8();
    let step = fake.table.at("dac_heap_segment", "next") / 8;
    let n = 1_000_000u64;
    fake.map(FREE, words((0..n).map(|i| if i + 8 > n { 0 } else { FREE + 8 * (i + 1).saturating_sub(step) })));
    fake.set("dac_heap_segment", fake.segments[0], "next", FREE);
    ends(fake.core().write().path(), "summary");
}

// The handle table.

#[test]
fn a_handle_table_map_that_leads_back_to_itself() {
    let mut fake = Fake::dotnet_8();
    fake.set("HandleTableMap", fake.handle_map, "pNext", fake.handle_map);
    of(&fake).keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_list_of_handle_segments_that_runs_in_a_circle() {
    let mut fake = Fake::dotnet_8();
    fake.set("TableSegment", HANDLES + fake.table.size("TableSegment"), "NextSegment", HANDLES);
    of(&fake).keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_hundred_thousand_maps_that_share_ten_thousand_handle_tables() {
    let mut fake = Fake::dotnet_8();
    fake.variable("n_heaps", 1024);
    fake.variable("g_heaps", HIDDEN);
    for t in 0..1024 {
        fake.put(fake.handle_tables + 8 * t, HANDLES);
    }
    let bucket = fake.make("HandleTableBucket");
    fake.set("HandleTableBucket", bucket, "pTable", fake.handle_tables);
    for b in 0..10 {
        fake.put(fake.handle_buckets + 8 * b, bucket);
    }
    // Maps of three words: buckets, next, highest index.
    let n = 100_000u64;
    let list = (0..n).flat_map(|i| [fake.handle_buckets, if i + 1 == n { 0 } else { FREE + 24 * (i + 1) }, 0]);
    let bytes = words(list);
    fake.map(FREE, bytes);
    fake.set("HandleTableMap", fake.handle_map, "pNext", FREE);
    ends(fake.core().write().path(), "summary");
}

// Loader heaps and code heaps.

#[test]
fn a_list_of_loader_blocks_that_runs_in_a_circle() {
    let mut fake = Fake::dotnet_8();
    fake.set("LoaderHeapBlock", fake.blocks[1], "pNext", fake.blocks[0]);
    of(&fake).keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_loader_block_of_half_the_address_space() {
    let mut fake = Fake::dotnet_8();
    fake.set("LoaderHeapBlock", fake.blocks[1], "dwVirtualSize", 1 << 63);
    let answer = of(&fake);
    answer.labels_exactly("HighFrequencyHeap", once(LOADER..LOADER + 0x1000));
    answer.keeps(&fake, GC).keeps(&fake, &["HandleTable", "IndirectionCellHeap", "LoaderCodeHeap", "HostCodeHeap"]);
}

#[test]
fn a_list_of_code_heaps_that_runs_in_a_circle() {
    let mut fake = Fake::dotnet_8();
    fake.set("CodeHeapListNode", fake.code_nodes[1], "Next", fake.code_nodes[0]);
    of(&fake).keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn an_array_list_in_a_circle_that_counts_four_billion_assemblies() {
    let mut fake = Fake::dotnet_8();
    let list = fake.app_domain + fake.table.at("AppDomain", "DomainAssemblyList");
    let block = list + fake.table.at("ArrayListBase", "FirstBlock");
    fake.poke(list + fake.table.at("ArrayListBase", "Count"), &u32::MAX.to_le_bytes());
    fake.poke(block + fake.table.at("ArrayListBlock", "Size"), &u32::MAX.to_le_bytes());
    fake.set("ArrayListBlock", block, "Next", block);
    // Each element is an assembly that is not in the dump, or nonsense.
    fake.put(block + fake.table.at("ArrayListBlock", "ArrayStart"), HIDDEN);
    of(&fake).keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
    // A block without elements never lessens the count.
    fake.poke(block + fake.table.at("ArrayListBlock", "Size"), &[0; 4]);
    of(&fake).keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_long_list_of_blocks_that_a_thousand_loader_heaps_share() {
    let mut fake = Fake::dotnet_8();
    let first = shared_blocks(&mut fake, 20_000);
    // 1,000 loader allocators of 1,000 assemblies, each heap of each its own.
    let (la, heap, n) = (FREE + (1 << 32), FREE + (2 << 32), 1000);
    let stride = fake.table.at("LoaderAllocator", "VirtualCallStubManager") + 16;
    let (high, low) =
        (fake.table.at("LoaderAllocator", "HighFrequencyHeap"), fake.table.at("LoaderAllocator", "LowFrequencyHeap"));
    let mut allocators = vec![0; (n * stride) as usize];
    let mut put = |at: u64, v: u64| allocators[at as usize..at as usize + 8].copy_from_slice(&v.to_le_bytes());
    for i in 0..n {
        put(i * stride + high, heap + 32 * i);
        put(i * stride + low, heap + 32 * i + 16);
    }
    let heaps = words((0..2 * n).flat_map(|_| [0, first]));
    fake.map(la, allocators);
    fake.map(heap, heaps);
    let field = fake.table.at("DomainAssembly", "LoaderAllocator");
    let assemblies = FREE + (3 << 32);
    fake.map(assemblies, words((0..n * 8).map(|i| la + stride * (i / 8)).chain([0; 8])));
    let list = fake.app_domain + fake.table.at("AppDomain", "DomainAssemblyList");
    fake.poke(list + fake.table.at("ArrayListBase", "Count"), &(n as u32).to_le_bytes());
    let block = list + fake.table.at("ArrayListBase", "FirstBlock");
    // The inline block is empty, the next has them all.
    let next = FREE + (4 << 32);
    fake.set("ArrayListBlock", block, "Next", next);
    let elements = (0..n).map(|i| assemblies + 64 * (i + 1) - field);
    fake.map(next, words([0, n].into_iter().chain(elements)));
    ends(fake.core().write().path(), "summary");
}

#[test]
fn a_long_list_of_blocks_that_a_thousand_code_heaps_share() {
    let mut fake = Fake::dotnet_8();
    let first = shared_blocks(&mut fake, 20_000);
    let heap = fake.heap("LoaderCodeHeap", first);
    let stride = fake.make("CodeHeapListNode").abs_diff(fake.make("CodeHeapListNode"));
    let (nodes, next, heap_at) = (
        FREE + (1 << 32),
        fake.table.at("CodeHeapListNode", "Next") as usize,
        fake.table.at("CodeHeapListNode", "pHeap") as usize,
    );
    let mut bytes = Vec::new();
    for i in 0..1000u64 {
        let mut node = vec![0; stride as usize];
        node[next..next + 8].copy_from_slice(&(nodes + stride * (i + 1)).to_le_bytes());
        node[heap_at..heap_at + 8].copy_from_slice(&heap.to_le_bytes());
        bytes.extend(node);
    }
    bytes.extend(vec![0; stride as usize]);
    fake.map(nodes, bytes);
    fake.set("CodeHeapListNode", fake.code_nodes[1], "Next", nodes);
    ends(fake.core().write().path(), "summary");
}

/// A chain of blocks, all of the same page.
fn shared_blocks(fake: &mut Fake, n: u64) -> u64 {
    let list = (0..n).flat_map(|i| [if i + 1 == n { 0 } else { FREE + 24 * (i + 1) }, LOADER, 0x1000]);
    fake.map(FREE, words(list));
    FREE
}

// What is not in the dump.

#[test]
fn a_segment_that_is_not_in_the_dump() {
    let mut fake = Fake::dotnet_8();
    fake.set("dac_heap_segment", fake.segments[3], "next", HIDDEN);
    of(&fake).tells("not in the dump").keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_free_region_that_is_not_in_the_dump() {
    let mut fake = Fake::dotnet_8();
    fake.set("dac_heap_segment", fake.free_region, "next", HIDDEN);
    of(&fake).tells("not in the dump").keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_list_of_free_regions_that_is_not_in_the_dump_leaves_the_segments() {
    let mut fake = Fake::dotnet_8();
    fake.set("GcDacVars", IMAGE + VARS, "free_regions", HIDDEN);
    of(&fake).tells("not in the dump").keeps(&fake, &["GCHeap", "GCBookkeeping"]).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_generation_table_that_is_not_in_the_dump_leaves_bookkeeping() {
    let mut fake = Fake::dotnet_8();
    fake.set("GcDacVars", IMAGE + VARS, "generation_table", HIDDEN);
    of(&fake).tells("not in the dump").keeps(&fake, &["GCBookkeeping"]).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn bookkeeping_that_is_not_in_the_dump() {
    let mut fake = Fake::dotnet_8();
    fake.variable("bookkeeping_start", HIDDEN);
    of(&fake).tells("bookkeeping").keeps(&fake, &GC[..3]).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_loader_block_that_is_not_in_the_dump_leaves_those_before_it() {
    let mut fake = Fake::dotnet_8();
    fake.set("LoaderHeapBlock", fake.blocks[1], "pNext", HIDDEN);
    of(&fake).tells("not in the dump").keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_code_heap_that_is_not_in_the_dump_leaves_the_others() {
    let mut fake = Fake::dotnet_8();
    fake.set("CodeHeapListNode", fake.code_nodes[1], "Next", HIDDEN);
    of(&fake).tells("not in the dump").keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_handle_table_that_is_not_in_the_dump_leaves_the_others() {
    let mut fake = Fake::dotnet_8();
    fake.set("HandleTableMap", fake.handle_map, "pNext", HIDDEN);
    of(&fake).tells("not in the dump").keeps(&fake, GC).keeps(&fake, OUTSIDE_GC);
}

#[test]
fn a_loader_allocator_that_is_not_in_the_dump() {
    let mut fake = Fake::dotnet_8();
    fake.set_global("SystemDomain", HIDDEN);
    of(&fake).tells("loader heaps").keeps(&fake, GC).keeps(&fake, &["HandleTable", "LoaderCodeHeap", "HostCodeHeap"]);
}

#[test]
fn every_global_leads_out_of_the_address_space() {
    for value in [u64::MAX, u64::MAX - 7, 1 << 63, 1] {
        let mut fake = Fake::dotnet_8();
        for name in ["SystemDomain", "AppDomain", "EEJitManager", "LowestAddress", "HighestAddress"] {
            fake.set_global(name, value);
        }
        of(&fake).tells("loader heaps").keeps(&fake, &["GCHeap", "GCHeapToBeFreed", "GCBookkeeping", "HandleTable"]);
    }
}

// Circles and lies that the answer must own up to.

#[test]
fn circles_outside_the_gc_are_told() {
    let bend: [fn(&mut Fake); 4] = [
        |f| f.set("HandleTableMap", f.handle_map, "pNext", f.handle_map),
        |f| f.set("TableSegment", HANDLES, "NextSegment", HANDLES),
        |f| f.set("LoaderHeapBlock", f.blocks[1], "pNext", f.blocks[0]),
        |f| f.set("CodeHeapListNode", f.code_nodes[1], "Next", f.code_nodes[0]),
    ];
    for (i, bend) in bend.into_iter().enumerate() {
        let mut fake = Fake::dotnet_8();
        bend(&mut fake);
        let answer = of(&fake);
        assert_eq!(answer.code, 4, "case {i}: {}", answer.warnings);
    }
}

#[test]
fn a_block_of_impossible_size_is_told() {
    let mut fake = Fake::dotnet_8();
    fake.set("LoaderHeapBlock", fake.blocks[1], "dwVirtualSize", 1 << 63);
    assert_eq!(of(&fake).code, 4);
}

// The image.

#[test]
fn a_runtime_whose_data_is_gigabytes_of_the_same_bytes() {
    // 4 GiB of address space from one MiB of the file.
    let (step, n) = (1u64 << 20, 4096u64);
    let mut elf = image(&[(0, 0x1000, R), (0x1000, n * step, R | W)], 0x1000);
    elf[128..136].copy_from_slice(&0x1000u64.to_le_bytes());
    let mut data = b"@(#)Version 8.0.3326.52219 @Commit: x\0".to_vec();
    data.resize(step as usize, 0);
    let files = [(IMAGE, IMAGE + 0x1000, 0, "/x/8.0.33/libcoreclr.so")];
    let core = CoreBuilder::x86_64().note(notes::files(4096, &files)).load(Load::at(IMAGE).flags(R).bytes(elf));
    let all = |offset: u64| {
        let at = |i: u64| Load::at(IMAGE + 0x1000 + i * step);
        let rest = (1..n).map(move |i| at(i).offset(offset).filesz(step).memsz(step));
        core.clone().load(at(0).bytes(data.clone())).loads(rest).count(Count::Extended)
    };
    let offset = all(0).data_offset() as u64 + 0x1000;
    ends(all(offset).write().path(), "summary");
}

#[test]
fn one_runtime_listed_at_five_thousand_addresses() {
    // Each has 8 MiB of data, the same bytes for all, and no table in it.
    let (size, n, step) = (8u64 << 20, 5000u64, 1u64 << 32);
    let mut elf = image(&[(0, 0x1000, R), (0x1000, size, R | W)], 0x1000);
    elf[128..136].copy_from_slice(&0x1000u64.to_le_bytes());
    elf.resize(0x1000 + size as usize, 0);
    let len = elf.len() as u64;
    elf[0x1000 + size as usize - 64..][..37].copy_from_slice(b"@(#)Version 8.0.3326.52219 @Commit: x");
    let at = |i: u64| 0x10_0000_0000 + i * step;
    let list: Vec<_> = (0..n).map(|i| (at(i), at(i) + 0x1000, 0, "/x/8.0.33/libcoreclr.so")).collect();
    let core = CoreBuilder::x86_64().note(notes::files(4096, &list)).load(Load::at(at(0)).bytes(elf));
    let all = |offset: u64| core.clone().loads((1..n).map(|i| Load::at(at(i)).offset(offset).filesz(len).memsz(len)));
    let offset = all(0).data_offset() as u64;
    ends(all(offset).write().path(), "summary");
}
