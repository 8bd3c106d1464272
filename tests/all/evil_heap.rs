//! Managed heaps that lie: MethodTables that are none, sizes that no object
//! has, lists and names that run in circles. Each ends in bounded time and
//! memory, counts what is sound, and says what it could not walk.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::support::dotnet_builder::{FREE, Fake, HIDDEN};
use crate::support::run::bounded;

/// Processor time, far above what any of them needs, also in a debug build.
const MOST: Duration = Duration::from_secs(60);

const PLAIN: u64 = 32;

/// A runtime whose second generation is at FREE; the others are empty.
struct Heap {
    fake: Fake,
    free: u64,
    plain: u64,
    array: u64,
    string: u64,
    words: Vec<u64>,
}

impl Heap {
    fn new() -> Heap {
        let mut fake = Fake::dotnet_8();
        let store = fake.make("ThreadStore");
        fake.set_global("ThreadStore", store);
        for i in 0..fake.segments.len() {
            fake.place(i, FREE, FREE);
        }
        let free = fake.method_table(0x8000_0001, 24, &[]);
        fake.set("MethodTable", free, "EEClassOrCanonMT", 0);
        fake.set_global("FreeObjectMethodTable", free);
        let plain = fake.method_table(0, PLAIN as u32, &[]);
        let array = fake.method_table(0x8008_0008, 24, &[]);
        let string = fake.method_table(0x8000_0002, 22, &[]);
        Heap { fake, free, plain, array, string, words: Vec::new() }
    }

    fn here(&self) -> u64 {
        FREE + 8 * self.words.len() as u64
    }

    fn plain(&mut self, n: usize) {
        for _ in 0..n {
            self.words.extend([self.plain, 1, 2, 0]);
        }
    }

    fn string(&mut self, text: &str) {
        let units: Vec<u16> = text.encode_utf16().collect();
        let mut bytes = (units.len() as u32).to_le_bytes().to_vec();
        bytes.extend(units.into_iter().flat_map(u16::to_le_bytes));
        let size = (22 + bytes.len() as u64 - 4).max(24).next_multiple_of(8);
        bytes.resize(size as usize - 8, 0);
        self.words.push(self.string);
        self.words.extend(bytes.as_chunks::<8>().0.iter().map(|c| u64::from_le_bytes(*c)));
    }

    /// Map the words, and let generation 2 reach to their end.
    fn close(mut self) -> Fake {
        let end = self.here();
        self.fake.place(2, FREE, end);
        let bytes: Vec<u8> = self.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.fake.map(FREE, bytes);
        self.fake
    }
}

struct Answer {
    code: i32,
    json: Value,
}

#[track_caller]
fn heapstat_with(fake: &Fake, args: &[&str]) -> Answer {
    let file = fake.core().write();
    let args: Vec<&str> = ["heapstat", "--json"].iter().chain(args).copied().collect();
    let out = bounded(&args, file.path()).within(MOST).go();
    out.is_sound();
    let code = out.code.unwrap();
    assert!(matches!(code, 0 | 1 | 4), "{code}: {}", out.stderr);
    Answer { code, json: out.json() }
}

#[track_caller]
fn heapstat(fake: &Fake) -> Answer {
    heapstat_with(fake, &[])
}

impl Answer {
    fn counts(&self) -> BTreeMap<u64, u64> {
        let address = |v: &Value| u64::from_str_radix(v.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
        let types = self.json["types"].as_array().unwrap();
        types.iter().map(|t| (address(&t["method_table"]), t["count"].as_u64().unwrap())).collect()
    }

    fn lost(&self) -> u64 {
        self.json["lost"]["bytes"].as_u64().unwrap()
    }

    fn warnings(&self) -> String {
        self.json["warnings"].to_string()
    }

    /// Objects that were counted, and that nothing is missing.
    #[track_caller]
    fn is_whole(&self, counts: &[(u64, u64)]) {
        assert_eq!((self.code, self.lost()), (0, 0), "{}", self.json);
        assert_eq!(self.counts(), counts.iter().copied().collect());
    }

    /// Objects that were counted, bytes that were not, and that it says so.
    #[track_caller]
    fn misses(&self, bytes: u64, counts: &[(u64, u64)]) {
        assert_eq!((self.code, self.lost()), (4, bytes), "{}", self.json);
        assert_eq!(self.counts(), counts.iter().copied().collect(), "{}", self.json);
        assert!(self.warnings().contains("could not be walked"), "{}", self.warnings());
    }
}

#[test]
fn a_sane_heap_is_whole() {
    let mut heap = Heap::new();
    heap.plain(100);
    heap.string("same");
    heap.string("");
    heap.string("same");
    heap.words.extend([heap.free, 16, 0, 0, 0]);
    heap.words.extend([heap.array, 2, 0, 0, 0]);
    // Marked by a collection that is over.
    heap.words.extend([heap.plain | 1, 0, 0, 0]);
    let (plain, string, free, array) = (heap.plain, heap.string, heap.free, heap.array);
    let answer = heapstat_with(&heap.close(), &["--strings"]);
    answer.is_whole(&[(plain, 101), (string, 3), (free, 1), (array, 1)]);
    // 22 bytes and 2 a character, but never less than 24.
    let size = 101 * PLAIN + 2 * 30 + 24 + 40 + 40;
    assert_eq!(answer.json["total"]["size"], size);
    let strings = &answer.json["strings"];
    // One of two strings of 30 bytes: as they are counted in the total, without padding.
    assert_eq!((strings["distinct"].as_u64(), strings["wasted"].as_u64()), (Some(2), Some(30)));
    assert_eq!(strings["duplicates"][0]["value"], "same");
    assert_eq!(strings["duplicates"][0]["count"], 2);
}

/// Sizes that are no multiple of 8 are padded in memory. The waste is a part of the total.
#[test]
fn the_waste_of_equal_strings_is_less_than_all_of_them() {
    let mut heap = Heap::new();
    (0..1000).for_each(|_| heap.string("a"));
    let answer = heapstat_with(&heap.close(), &["--strings"]);
    let strings = &answer.json["strings"];
    // 22 bytes and 2 for the character: 24 each.
    assert_eq!((&strings["total"]["size"], &strings["wasted"]), (&24_000.into(), &(999 * 24).into()));
    let mut heap = Heap::new();
    (0..1000).for_each(|_| heap.string("ab"));
    let strings = heapstat_with(&heap.close(), &["--strings"]).json["strings"].take();
    assert_eq!((&strings["total"]["size"], &strings["wasted"]), (&26_000.into(), &(999 * 26).into()));
}

#[test]
fn an_object_that_is_its_own_method_table() {
    let mut heap = Heap::new();
    heap.plain(10);
    let here = heap.here();
    // The last word is the header of the next object.
    heap.words.extend([here, here, here, here, here, here, here, 0]);
    heap.plain(10);
    let plain = heap.plain;
    heapstat(&heap.close()).misses(64, &[(plain, 20)]);
}

#[test]
fn a_method_table_whose_class_is_itself() {
    let mut heap = Heap::new();
    let strange = heap.fake.method_table(0, 32, &[]);
    heap.fake.set("MethodTable", strange, "EEClassOrCanonMT", strange);
    heap.fake.set("MethodTable", strange, "ParentMethodTable", strange);
    heap.plain(4);
    heap.words.extend([strange, 0, 0, 0]);
    heap.plain(4);
    let plain = heap.plain;
    // Its "class" does lead back to it, or not: either way it ends.
    let answer = heapstat(&heap.close());
    assert_eq!(answer.counts()[&plain], 8);
}

#[test]
fn counts_that_reach_past_the_segment_and_past_the_address_space() {
    for count in [1000, 0x7fff_ffff, 0xffff_ffff] {
        let mut heap = Heap::new();
        let wide = heap.fake.method_table(0x8008_ffff, 24, &[]);
        heap.plain(10);
        heap.words.extend([wide, count, 0, 0]);
        heap.plain(10);
        let plain = heap.plain;
        heapstat(&heap.close()).misses(32, &[(plain, 20)]);
    }
}

#[test]
fn the_last_object_reaches_past_its_segment() {
    let mut heap = Heap::new();
    heap.plain(10);
    heap.words.extend([heap.plain, 0]);
    let plain = heap.plain;
    heapstat(&heap.close()).misses(16, &[(plain, 10)]);
}

#[test]
fn sizes_that_no_object_has() {
    for (flags, base) in [(0, 0), (0, 8), (0, 16), (0, 20), (0, u32::MAX), (0x8008_0000, 0), (0x8008_0000, 8)] {
        let mut heap = Heap::new();
        let strange = heap.fake.method_table(flags, base, &[]);
        heap.plain(4);
        heap.words.extend([strange, 0, 0, 0]);
        heap.plain(4);
        let plain = heap.plain;
        heapstat(&heap.close()).misses(32, &[(plain, 8)]);
    }
}

#[test]
fn nothing_but_zeros() {
    let mut heap = Heap::new();
    heap.words = vec![0; 1 << 20];
    heapstat(&heap.close()).misses(8 << 20, &[]);
}

#[test]
fn a_segment_of_four_terabytes_that_is_not_in_the_dump() {
    let mut heap = Heap::new();
    heap.plain(10);
    let plain = heap.plain;
    let mut fake = heap.close();
    fake.place(2, FREE, FREE + (1 << 41));
    let answer = heapstat(&fake);
    assert_eq!(answer.code, 4);
    assert_eq!(answer.counts(), [(plain, 10)].into());
    // What the mapping's last page holds past the objects is zero.
    assert_eq!(answer.lost(), (1 << 41) - 10 * PLAIN);
}

#[test]
fn segments_over_the_same_memory_count_once() {
    let mut heap = Heap::new();
    heap.plain(10);
    let (plain, end) = (heap.plain, heap.here());
    let mut fake = heap.close();
    for i in [0, 1, 3, 4] {
        fake.place(i, FREE, end);
    }
    let answer = heapstat(&fake);
    assert_eq!((answer.code, answer.counts()), (4, [(plain, 10)].into()));
    assert!(answer.warnings().contains("overlap"), "{}", answer.warnings());
}

/// A thread that allocates from this piece.
fn thread(heap: &mut Heap, pointer: u64, limit: u64) -> u64 {
    let thread = heap.fake.make("Thread");
    heap.fake.room_for(0x100);
    let context = thread + heap.fake.table.at("Thread", "m_alloc_context");
    heap.fake.set("GCAllocContext", context, "Pointer", pointer);
    heap.fake.set("GCAllocContext", context, "Limit", limit);
    let link = thread + heap.fake.table.at("Thread", "LinkNext");
    let store = heap.fake.make("ThreadStore");
    heap.fake.set("ThreadStore", store, "FirstThreadLink", link);
    heap.fake.set_global("ThreadStore", store);
    thread
}

#[test]
fn allocation_contexts_leave_their_room() {
    for used_up in [false, true] {
        let mut heap = Heap::new();
        heap.plain(10);
        let pointer = heap.here();
        let limit = if used_up { pointer } else { pointer + 64 };
        heap.words.resize(heap.words.len() + (limit - pointer) as usize / 8 + 3, 0);
        heap.plain(10);
        thread(&mut heap, pointer, limit);
        let plain = heap.plain;
        let answer = heapstat(&heap.close());
        answer.is_whole(&[(plain, 20)]);
        assert_eq!(answer.json["unused"], limit - pointer + 24);
    }
}

#[test]
fn an_allocation_context_that_was_given_back() {
    let mut heap = Heap::new();
    heap.plain(10);
    let here = heap.here();
    heap.plain(10);
    thread(&mut heap, here, here);
    let plain = heap.plain;
    heapstat(&heap.close()).is_whole(&[(plain, 20)]);
}

#[test]
fn an_object_under_construction_before_a_context() {
    // Its room is taken, its MethodTable not yet written.
    let mut heap = Heap::new();
    heap.plain(10);
    heap.words.extend([0; 4]);
    let pointer = heap.here();
    heap.words.extend([0; 8]);
    heap.plain(10);
    thread(&mut heap, pointer, pointer + 40);
    let plain = heap.plain;
    heapstat(&heap.close()).misses(32, &[(plain, 20)]);
}

#[test]
fn an_allocation_context_that_reaches_out_of_its_segment() {
    let mut heap = Heap::new();
    heap.plain(10);
    let here = heap.here();
    heap.plain(10);
    thread(&mut heap, here, u64::MAX);
    let plain = heap.plain;
    heapstat(&heap.close()).is_whole(&[(plain, 20)]);
}

#[test]
fn a_list_of_threads_that_runs_in_a_circle() {
    let mut heap = Heap::new();
    heap.plain(10);
    let thread = thread(&mut heap, 0, 0);
    let link = thread + heap.fake.table.at("Thread", "LinkNext");
    heap.fake.put(link, link);
    let plain = heap.plain;
    let answer = heapstat(&heap.close());
    assert_eq!((answer.code, answer.counts()), (4, [(plain, 10)].into()));
    assert!(answer.warnings().contains("cycle"), "{}", answer.warnings());
}

#[test]
fn a_list_of_threads_that_is_not_in_the_dump() {
    let mut heap = Heap::new();
    heap.plain(10);
    heap.fake.set_global("ThreadStore", HIDDEN);
    let answer = heapstat(&heap.close());
    assert_eq!(answer.code, 4);
    assert!(answer.warnings().contains("ThreadStore"), "{}", answer.warnings());
}

#[test]
fn without_the_free_types_global_free_space_is_told_by_its_shape() {
    // It is not there, or its slot is another global's.
    for other in [false, true] {
        let mut heap = Heap::new();
        heap.plain(1);
        heap.words.extend([heap.free, 16, 0, 0, 0]);
        heap.plain(1);
        let (plain, free) = (heap.plain, heap.free);
        heap.fake.set_global("FreeObjectMethodTable", if other { plain } else { 0 });
        heapstat(&heap.close()).is_whole(&[(plain, 2), (free, 1)]);
    }
}

#[test]
fn an_array_of_itself_and_a_generic_of_itself_have_an_end() {
    let mut heap = Heap::new();
    let array = heap.fake.method_table(0x800a_0008, 24, &[]);
    heap.fake.set("MethodTable", array, "PerInstInfo", array);
    // A thousand arguments, each the type itself.
    let generic = heap.fake.method_table(0x10, 32, &[]);
    let info = heap.fake.room_for(8);
    let at = heap.fake.table.at("GenericsDictInfo", "NumDicts");
    heap.fake.poke(info + at, &1u16.to_le_bytes());
    let at = heap.fake.table.at("GenericsDictInfo", "NumTypeArgs");
    heap.fake.poke(info + at, &1000u16.to_le_bytes());
    let dictionaries = heap.fake.room_for(16);
    let arguments = heap.fake.room_for(8000);
    heap.fake.put(dictionaries, arguments);
    for i in 0..1000 {
        heap.fake.put(arguments + 8 * i, generic);
    }
    heap.fake.put(dictionaries - heap.fake.table.size("GenericsDictInfo"), 1 << 32 | 1000 << 48);
    heap.fake.set("MethodTable", generic, "PerInstInfo", dictionaries);
    heap.fake.poke(generic + heap.fake.table.at("MethodTable", "Token"), &7u16.to_le_bytes());
    heap.words.extend([array, 0, 0]);
    heap.words.extend([generic, 0, 0, 0]);
    heapstat(&heap.close()).is_whole(&[(array, 1), (generic, 1)]);
}

#[test]
fn a_million_types() {
    // Each object brings a MethodTable and a class of its own, that agree.
    let mut heap = Heap::new();
    let tables = FREE + (1 << 32);
    let table = &heap.fake.table;
    let word = |kind: &str, field: &str| (table.at(kind, field) / 8) as usize;
    let (class_of, back) = (word("MethodTable", "EEClassOrCanonMT"), word("EEClass", "MethodTable"));
    let n = 1_000_000u64;
    let mut types = vec![0u64; 16 * n as usize];
    for i in 0..n {
        let (at, first) = (tables + 128 * i, 16 * i as usize);
        types[first] = PLAIN << 32;
        types[first + class_of] = at + 64;
        types[first + 8 + back] = at;
        heap.words.extend([at, 0, 0, 0]);
    }
    heap.fake.map(tables, types.into_iter().flat_map(u64::to_le_bytes).collect());
    let answer = heapstat(&heap.close());
    let counted: u64 = answer.counts().values().sum();
    assert_eq!(counted * PLAIN + answer.lost(), n * PLAIN, "{}", answer.warnings());
}

#[test]
fn large_free_blocks_are_listed_with_what_follows() {
    let mut heap = Heap::new();
    heap.plain(1);
    let block = heap.here();
    heap.words.extend([heap.free, (1 << 20) - 24]);
    heap.words.resize(heap.words.len() + (1 << 17) - 2, 0);
    let next = heap.here();
    heap.plain(1);
    let answer = heapstat(&heap.close());
    let blocks = answer.json["fragmentation"].as_array().unwrap();
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0]["address"], format!("0x{block:x}"));
    assert_eq!(blocks[0]["size"], 1 << 20);
    assert_eq!(blocks[0]["next"], format!("0x{next:x}"));
}

#[test]
fn filters_take_what_they_say() {
    let mut heap = Heap::new();
    heap.plain(10);
    heap.string("a longer string than a plain object");
    let string = heap.string;
    let fake = heap.close();
    assert_eq!(heapstat_with(&fake, &["--min", "33"]).counts(), [(string, 1)].into());
    assert_eq!(heapstat_with(&fake, &["--generation", "gen0"]).code, 1);
    assert_eq!(heapstat_with(&fake, &["--heap", "1"]).code, 1);
    assert_eq!(heapstat_with(&fake, &["--heap", "0", "--generation", "2", "--max", "32"]).counts().len(), 1);
    assert_eq!(heapstat_with(&fake, &["--type", "no such type"]).code, 1);
}
