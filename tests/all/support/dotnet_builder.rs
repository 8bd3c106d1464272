//! A fake .NET 8 in a synthetic core. It has only the structures that the
//! program reads, laid out by the bundled table.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use super::builder::{CoreBuilder, Load, R, W, X, image};
use super::notes;

/// Addresses of the areas. Each area is a mapping of its own.
pub const IMAGE: u64 = 0x7f00_0000_0000;
pub const DATA: u64 = 0x7e00_0000_0000;
pub const HEAP: u64 = 0x7d00_0000_0000;
pub const BOOK: u64 = 0x7c00_0000_0000;
pub const HANDLES: u64 = 0x7b00_0000_0000;
pub const LOADER: u64 = 0x7a00_0000_0000;
pub const CODE: u64 = 0x7900_0000_0000;
/// Mapped, but not in the dump.
pub const HIDDEN: u64 = 0x7800_0000_0000;
/// For mappings that a test adds.
pub const FREE: u64 = 0x7000_0000_0000;
pub const STACK: u64 = 0x7fff_0000_0000;

/// Offsets of the image's parts.
const TEXT: u64 = 0x1000;
pub const SLOTS: u64 = 0x1100;
pub const GLOBALS: u64 = 0x2000;
pub const VARS: u64 = 0x3000;
const VARIABLES: u64 = 0x3800;
const DYNAMIC: u64 = 0x5000;
const SYMBOLS: u64 = 0x5100;
const DESCRIPTOR: u64 = 0x6000;
/// Offset of the room for a global that is itself a table.
pub const TABLE: u64 = 0x7000;
const IMAGE_LEN: u64 = 0x8000;

const SLOT_COUNT: u64 = 128;
const GENERATION: u64 = 0x108;
const START_SEGMENT: u64 = 0x30;

/// Address space of one region, and its committed bytes.
pub const REGION: u64 = 0x1_0000;
const COMMITTED: u64 = 0x4000;
const PAGE: u64 = 0x1000;

/// The bundled layout, parsed by the tests themselves.
#[derive(Default)]
pub struct Table(Value);

impl Table {
    fn of_dotnet_8() -> Table {
        Table(
            serde_json::from_str(include_str!("../../../crates/coremap-read/src/layout/tables/dotnet-8-x64.json"))
                .unwrap(),
        )
    }

    /// Offset of a field, or value of a constant.
    #[track_caller]
    pub fn at(&self, kind: &str, field: &str) -> u64 {
        let number = self.0["types"][kind][field].as_u64().or_else(|| self.0["constants"][kind][field].as_u64());
        number.unwrap_or_else(|| panic!("the table has no {kind}.{field}"))
    }

    pub fn size(&self, kind: &str) -> u64 {
        self.at(kind, "!")
    }

    pub fn kinds(&self) -> Vec<String> {
        self.0["types"].as_object().unwrap().keys().cloned().collect()
    }

    /// Names of a type's fields, with `!` if it has a size.
    pub fn fields(&self, kind: &str) -> Vec<String> {
        let fields = self.0["types"][kind].as_object().unwrap();
        fields.iter().filter(|(_, v)| v.is_u64()).map(|(name, _)| name.clone()).collect()
    }

    pub fn slot(&self, global: &str) -> u64 {
        self.0["globals"][format!("DacSlot.{global}")].as_u64().unwrap()
    }

    /// Bytes for a struct: more than its last field needs.
    fn room(&self, kind: &str) -> u64 {
        self.fields(kind).iter().map(|f| self.at(kind, f)).max().unwrap() + 16
    }
}

struct Area {
    base: u64,
    flags: u32,
    bytes: Vec<u8>,
    memsz: u64,
}

/// The process under construction, with the addresses of structures that a test
/// may want to change.
#[derive(Default)]
pub struct Fake {
    pub table: Table,
    areas: Vec<Area>,
    next: u64,
    variables: u64,
    /// heap_segment of each generation (gen0, gen1, gen2, LOH, POH).
    pub segments: Vec<u64>,
    pub free_region: u64,
    pub handle_map: u64,
    pub handle_buckets: u64,
    pub handle_tables: u64,
    pub allocator: u64,
    pub app_domain: u64,
    /// LoaderHeapBlocks of the high-frequency heap.
    pub blocks: Vec<u64>,
    /// CodeHeapListNodes of a loader code heap and of a host code heap.
    pub code_nodes: Vec<u64>,
    /// Path of the runtime's library, if not the usual one.
    pub path: Option<&'static str>,
    /// More rows of NT_FILE: start, end, page in the file, path.
    pub files: Vec<(u64, u64, u64, String)>,
    /// Ranges by the label that they must get.
    pub expected: BTreeMap<&'static str, Vec<Range<u64>>>,
}

impl Fake {
    /// A valid runtime.
    pub fn dotnet_8() -> Fake {
        let area = |base, flags, dumped: u64, memsz| Area { base, flags, bytes: vec![0; dumped as usize], memsz };
        let mut elf = image(&[(0, TEXT, R), (TEXT, IMAGE_LEN - TEXT, R | W), (DYNAMIC, 0x100, R | W)], 0);
        // The second PT_LOAD has its own file offset; the third is PT_DYNAMIC.
        elf[64 + 56 + 8..64 + 56 + 16].copy_from_slice(&TEXT.to_le_bytes());
        elf[64 + 112] = 2;
        elf.resize(TEXT as usize, 0);
        let mut fake = Fake {
            table: Table::of_dotnet_8(),
            areas: vec![
                Area { base: IMAGE, flags: R, bytes: elf, memsz: TEXT },
                area(IMAGE + TEXT, R | W, IMAGE_LEN - TEXT, IMAGE_LEN - TEXT),
                area(DATA, R | W, 0x4_0000, 0x4_0000),
                area(HEAP, R | W, 0, 0x20_0000),
                area(BOOK, R | W, PAGE, 8 * PAGE),
                area(HANDLES, R | W, 0x2_0000, 0x4_0000),
                area(LOADER, R | W, 0, 0x10_0000),
                area(CODE, R | W | X, 3 * PAGE, 0x10_0000),
                area(HIDDEN, R | W, 0, PAGE),
                area(STACK, R | W, PAGE, PAGE),
            ],
            next: DATA,
            variables: IMAGE + VARIABLES,
            ..Fake::default()
        };
        fake.poke(IMAGE + TEXT, b"@(#)Version 8.0.3326.52219 @Commit: x\0");
        for i in 0..SLOT_COUNT {
            fake.put(IMAGE + SLOTS + 8 * i, IMAGE + GLOBALS + 8 * i);
        }
        fake.gc();
        fake.handle_table();
        fake.loader();
        fake.code();
        fake
    }

    fn gc(&mut self) {
        self.set_global("GcDacGlobals", IMAGE + VARS);
        let vars = |f: &Fake, field: &str| IMAGE + VARS + f.table.at("GcDacVars", field);
        self.poke(vars(self, "major"), &[2]);
        self.set("GcDacVars", IMAGE + VARS, "generation_size", GENERATION);
        self.set("GcDacVars", IMAGE + VARS, "total_generation_count", 5);
        self.poke(vars(self, "count_free_region_kinds"), &3u32.to_le_bytes());
        // generation_field_offsets: a GC with regions has no allocation_start.
        let offsets = self.room_for(64);
        for (field, value) in [("start_segment", START_SEGMENT as u32), ("allocation_start", u32::MAX)] {
            self.poke(offsets + 4 * self.table.at("generation_fields", field), &value.to_le_bytes());
        }
        self.set("GcDacVars", IMAGE + VARS, "generation_field_offsets", offsets);
        let generations = self.room_for(GENERATION * 5);
        self.set("GcDacVars", IMAGE + VARS, "generation_table", generations);
        for i in 0..5 {
            let segment = self.segment(HEAP + i * REGION, "GCHeap");
            self.segments.push(segment);
            self.put(generations + GENERATION * i + START_SEGMENT, segment);
        }
        self.free_region = self.segment(HEAP + 5 * REGION, "GCHeapToBeFreed");
        let lists = self.room_for(3 * self.table.size("region_free_list"));
        self.set("region_free_list", lists, "head_free_region", self.free_region);
        self.set("GcDacVars", IMAGE + VARS, "free_regions", lists);
        self.variable("bookkeeping_start", BOOK);
        self.set("card_table_info", BOOK, "size", 5 * PAGE);
        self.expect("GCBookkeeping", BOOK..BOOK + 5 * PAGE);
        self.set_global("LowestAddress", HEAP);
        self.set_global("HighestAddress", HEAP + 8 * REGION);
        self.expect("GCHeapReserve", HEAP + 6 * REGION..HEAP + 8 * REGION);
    }

    /// Adds a heap_segment for the region at `start`.
    pub fn segment(&mut self, start: u64, kind: &'static str) -> u64 {
        let at = self.make("dac_heap_segment");
        let end = start + COMMITTED;
        for (field, value) in [("mem", start + 0x20), ("allocated", end), ("committed", end)] {
            self.set("dac_heap_segment", at, field, value);
        }
        self.set("dac_heap_segment", at, "reserved", start + REGION);
        self.expect(kind, start..end);
        self.expect("GCHeapReserve", end..start + REGION);
        at
    }

    fn handle_table(&mut self) {
        let size = self.table.size("TableSegment");
        self.set("TableSegment", HANDLES, "NextSegment", HANDLES + size);
        self.expect("HandleTable", HANDLES..HANDLES + 2 * size);
        let (map, bucket, table) =
            (self.make("HandleTableMap"), self.make("HandleTableBucket"), self.make("HandleTable"));
        (self.handle_map, self.handle_buckets, self.handle_tables) = (map, self.room_for(80), self.room_for(8 * 1024));
        self.set("GcDacVars", IMAGE + VARS, "handle_table_map", map);
        self.set("HandleTableMap", map, "pBuckets", self.handle_buckets);
        self.put(self.handle_buckets, bucket);
        self.set("HandleTableBucket", bucket, "pTable", self.handle_tables);
        self.put(self.handle_tables, table);
        self.set("HandleTable", table, "SegmentList", HANDLES);
    }

    fn loader(&mut self) {
        let domain = self.make("SystemDomain");
        self.allocator = domain + self.table.at("SystemDomain", "GlobalLoaderAllocator");
        self.next = self.allocator + self.table.room("LoaderAllocator");
        self.set_global("SystemDomain", domain);
        self.app_domain = self.make("AppDomain");
        self.room_for(0x1000);
        self.set_global("AppDomain", self.app_domain);
        let second = self.block(LOADER + 2 * PAGE..LOADER + 3 * PAGE, 0, "HighFrequencyHeap");
        self.blocks = vec![self.block(LOADER..LOADER + PAGE, second, "HighFrequencyHeap"), second];
        let heap = self.heap("LoaderHeap", self.blocks[0]);
        self.set("LoaderAllocator", self.allocator, "HighFrequencyHeap", heap);
        let manager = self.make("VirtualCallStubManager");
        self.set("LoaderAllocator", self.allocator, "VirtualCallStubManager", manager);
        let cells = self.block(LOADER + 4 * PAGE..LOADER + 5 * PAGE, 0, "IndirectionCellHeap");
        let heap = self.heap("LoaderHeap", cells);
        self.set("VirtualCallStubManager", manager, "IndcellHeap", heap);
    }

    fn code(&mut self) {
        let manager = self.make("EEJitManager");
        self.set_global("EEJitManager", manager);
        let block = self.block(CODE..CODE + 3 * PAGE, 0, "LoaderCodeHeap");
        let loader = self.heap("LoaderCodeHeap", block);
        let host = self.make("HostCodeHeap");
        let range = CODE + 4 * PAGE..CODE + 6 * PAGE;
        self.set("HostCodeHeap", host, "m_pJitManager", manager);
        self.set("HostCodeHeap", host, "m_pBaseAddr", range.start);
        self.set("HostCodeHeap", host, "m_pLastAvailableCommittedAddr", range.end);
        self.expect("HostCodeHeap", range);
        self.code_nodes = vec![self.make("CodeHeapListNode"), self.make("CodeHeapListNode")];
        self.set("EEJitManager", manager, "AllCodeHeaps", self.code_nodes[0]);
        self.set("CodeHeapListNode", self.code_nodes[0], "Next", self.code_nodes[1]);
        self.set("CodeHeapListNode", self.code_nodes[0], "pHeap", loader);
        self.set("CodeHeapListNode", self.code_nodes[1], "pHeap", host);
    }

    fn block(&mut self, range: Range<u64>, next: u64, kind: &'static str) -> u64 {
        let at = self.make("LoaderHeapBlock");
        self.set("LoaderHeapBlock", at, "pNext", next);
        self.set("LoaderHeapBlock", at, "pVirtualAddress", range.start);
        self.set("LoaderHeapBlock", at, "dwVirtualSize", range.end - range.start);
        self.expect(kind, range);
        at
    }

    /// Adds a heap with blocks. The table has its type.
    pub fn heap(&mut self, kind: &str, first: u64) -> u64 {
        let at = self.make(kind);
        self.room_for(64);
        self.set(kind, at, "FirstBlock", first);
        at
    }

    /// Adds the contract descriptor, exported through a DT_HASH. `json` gets
    /// its own mapping; `size` and `pointers` are what the descriptor claims.
    pub fn descriptor(&mut self, json: &[u8], size: u32, pointers: u32) {
        let (names, hash, json_at) = (IMAGE + SYMBOLS + 0x100, IMAGE + SYMBOLS + 0x200, FREE + (1 << 40));
        for (i, (tag, value)) in [(4, hash), (5, names), (6, IMAGE + SYMBOLS)].into_iter().enumerate() {
            self.put(IMAGE + DYNAMIC + 16 * i as u64, tag);
            self.put(IMAGE + DYNAMIC + 16 * i as u64 + 8, value);
        }
        self.poke(names, b"\0DotNetRuntimeContractDescriptor\0");
        // One bucket with symbol 1: name 1, a global object in section 1.
        let words: Vec<u8> = [1u32, 2, 1, 0, 0].into_iter().flat_map(u32::to_le_bytes).collect();
        self.poke(hash, &words);
        self.poke(IMAGE + SYMBOLS + 24, &[1, 0, 0, 0, 0x11, 0, 1, 0]);
        self.put(IMAGE + SYMBOLS + 32, DESCRIPTOR);
        self.put(IMAGE + SYMBOLS + 40, 40);
        self.poke(IMAGE + DESCRIPTOR, b"DNCCDAC\0");
        self.poke(IMAGE + DESCRIPTOR + 12, &size.to_le_bytes());
        self.put(IMAGE + DESCRIPTOR + 16, json_at);
        self.poke(IMAGE + DESCRIPTOR + 24, &pointers.to_le_bytes());
        self.put(IMAGE + DESCRIPTOR + 32, IMAGE + GLOBALS);
        self.map(json_at, json.to_vec());
    }

    /// Sets the version text of the runtime's library (up to 48 bytes, which
    /// overwrite any earlier text).
    pub fn version(&mut self, text: &str) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(48, 0);
        self.poke(IMAGE + TEXT, &bytes);
    }

    /// Adds a program (with an interpreter) of two pages at `base`. The second
    /// page is writable and begins with `data`.
    pub fn program(&mut self, base: u64, path: &str, data: &[u8]) {
        let mut elf = image(&[(0, PAGE, R), (PAGE, PAGE, R | W), (0, 0, R)], 0);
        elf[64 + 56 + 8..64 + 56 + 16].copy_from_slice(&PAGE.to_le_bytes());
        // PT_INTERP
        elf[64 + 112] = 3;
        elf.resize(PAGE as usize, 0);
        elf.extend(data);
        elf.resize(2 * PAGE as usize, 0);
        self.map(base, elf);
        self.files.push((base, base + PAGE, 0, path.to_owned()));
        self.files.push((base + PAGE, base + 2 * PAGE, 1, path.to_owned()));
    }

    /// Like [`Fake::map`], but executable and not writable.
    pub fn map_code(&mut self, base: u64, bytes: Vec<u8>) {
        self.map(base, bytes);
        self.areas.last_mut().unwrap().flags = R | X;
    }

    pub fn map(&mut self, base: u64, bytes: Vec<u8>) {
        let memsz = (bytes.len() as u64).next_multiple_of(PAGE);
        self.areas.push(Area { base, flags: R | W, bytes, memsz });
    }

    pub fn room_for(&mut self, size: u64) -> u64 {
        self.next = self.next.next_multiple_of(16) + size;
        self.next - size
    }

    pub fn make(&mut self, kind: &str) -> u64 {
        self.room_for(self.table.room(kind))
    }

    #[track_caller]
    pub fn set(&mut self, kind: &str, at: u64, field: &str, value: u64) {
        self.put(at + self.table.at(kind, field), value);
    }

    /// Adds a MethodTable whose class points back to it. A GCDesc precedes it,
    /// last word first.
    pub fn method_table(&mut self, flags: u32, base_size: u32, gc_desc: &[i64]) -> u64 {
        let front = self.room_for(8 * gc_desc.len() as u64 + 16);
        let (table, class) = (self.make("MethodTable"), self.make("EEClass"));
        assert!(table - front >= 8 * gc_desc.len() as u64);
        for (i, word) in gc_desc.iter().rev().enumerate() {
            self.put(table - 8 * (i as u64 + 1), *word as u64);
        }
        self.poke(table + self.table.at("MethodTable", "MTFlags"), &flags.to_le_bytes());
        self.poke(table + self.table.at("MethodTable", "BaseSize"), &base_size.to_le_bytes());
        self.set("MethodTable", table, "EEClassOrCanonMT", class);
        self.set("EEClass", class, "MethodTable", table);
        table
    }

    /// Makes a segment extend from `start` to `end`.
    pub fn place(&mut self, segment: usize, start: u64, end: u64) {
        let at = self.segments[segment];
        for (field, value) in [("mem", start), ("allocated", end), ("committed", end), ("reserved", end)] {
            self.set("dac_heap_segment", at, field, value);
        }
    }

    /// Sets a global of g_dacTable.
    pub fn set_global(&mut self, name: &str, value: u64) {
        self.put(IMAGE + GLOBALS + 8 * self.table.slot(name), value);
    }

    /// Sets a variable of the GC that GcDacVars points to.
    pub fn variable(&mut self, field: &str, value: u64) {
        self.put(self.variables, value);
        self.set("GcDacVars", IMAGE + VARS, field, self.variables);
        self.variables += 8;
    }

    #[track_caller]
    pub fn put(&mut self, at: u64, value: u64) {
        self.poke(at, &value.to_le_bytes());
    }

    #[track_caller]
    pub fn poke(&mut self, at: u64, bytes: &[u8]) {
        let holds = |a: &&mut Area| a.base <= at && at + bytes.len() as u64 <= a.base + a.bytes.len() as u64;
        let area = self.areas.iter_mut().find(holds).unwrap_or_else(|| panic!("{at:#x} is in no area"));
        area.bytes[(at - area.base) as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn expect(&mut self, kind: &'static str, range: Range<u64>) {
        self.expected.entry(kind).or_default().push(range);
    }

    /// The segments of an area. What the GC only reserved has no access.
    fn loads(&self, area: &Area) -> Vec<Load> {
        if area.base != HEAP || !area.bytes.is_empty() {
            return vec![Load::at(area.base).flags(area.flags).bytes(area.bytes.clone()).memsz(area.memsz)];
        }
        let mut reserved = self.expected.get("GCHeapReserve").cloned().unwrap_or_default();
        reserved.sort_unstable_by_key(|range| range.start);
        let (mut loads, mut at) = (Vec::new(), area.base);
        let mut add = |to: u64, flags: u32| {
            if at < to {
                loads.push(Load::at(at).flags(flags).memsz(to - at));
                at = to;
            }
        };
        for range in reserved {
            add(range.start, area.flags);
            add(range.end, 0);
        }
        add(area.base + area.memsz, area.flags);
        loads
    }

    pub fn core(&self) -> CoreBuilder {
        let path = self.path.unwrap_or("/x/8.0.33/libcoreclr.so");
        let mut files = vec![(IMAGE, IMAGE + TEXT, 0, path), (IMAGE + TEXT, IMAGE + IMAGE_LEN, TEXT / PAGE, path)];
        files.extend(self.files.iter().map(|(start, end, page, path)| (*start, *end, *page, path.as_str())));
        let loads = self.areas.iter().flat_map(|a| self.loads(a));
        CoreBuilder::x86_64()
            .note(notes::prstatus_x86_64(1, 0, STACK + 0x800, IMAGE, 0))
            .note(notes::prpsinfo(1, "fake", "fake"))
            .note(notes::files(PAGE, &files))
            .loads(loads)
    }
}
