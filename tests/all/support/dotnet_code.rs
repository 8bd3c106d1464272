//! Code in the fake .NET 8: a map of ranges, a heap with two jitted methods, an
//! image with a precompiled one, and their types, without metadata.

use std::collections::BTreeMap;

use super::dotnet_builder::{CODE, FREE, Fake, HIDDEN, IMAGE, SLOTS, TABLE};

/// Addresses of jitted code: a method of a type, and a dynamic method.
pub const PLAIN: u64 = CODE + 0x100;
pub const DYNAMIC: u64 = CODE + 0x400;
pub const SIZE: u64 = 0x40;

/// Addresses of an image and its precompiled method.
pub const READY_IMAGE: u64 = FREE + (3 << 40);
pub const READY: u64 = READY_IMAGE + 0x1000;

const HEAP_END: u64 = CODE + 0x1000;

/// Number of entries in one level of the map of ranges.
const ENTRIES: u64 = 256;

/// Addresses of the structures that a test may want to change.
#[derive(Default)]
pub struct Code {
    /// Levels of the map of ranges, top level first.
    pub levels: Vec<u64>,
    /// Fragments and sections of the heap, then of the image.
    pub fragments: Vec<u64>,
    pub sections: Vec<u64>,
    pub nibbles: u64,
    /// RealCodeHeaders and MethodDescs of the two jitted methods.
    pub headers: Vec<u64>,
    pub descs: Vec<u64>,
    pub chunk: u64,
    pub method_table: u64,
    pub class: u64,
    pub module: u64,
    pub path: u64,
    pub name: u64,
    /// ReadyToRunInfo, and the buckets of its table of prepared methods.
    pub info: u64,
    pub buckets: u64,
    /// MethodDescVersioningState and NativeCodeVersionNode of the plain method.
    pub state: u64,
    pub node: u64,
}

/// Index of the entry for an address in one level.
fn index(level: usize, address: u64) -> u64 {
    address >> (49 - 8 * level) & 0xff
}

impl Fake {
    /// A valid runtime with code.
    pub fn with_code() -> (Fake, Code) {
        let mut fake = Fake::dotnet_8();
        let mut code = Code::default();
        fake.map(READY_IMAGE, vec![0; 0x2000]);
        fake.types(&mut code);
        fake.jitted(&mut code);
        fake.precompiled(&mut code);
        fake.ranges(&mut code);
        fake.versions(&mut code);
        (fake, code)
    }

    fn small(&mut self, kind: &str, at: u64, field: &str, bytes: &[u8]) {
        self.poke(at + self.table.at(kind, field), bytes);
    }

    fn types(&mut self, code: &mut Code) {
        code.module = self.room_for(0x800);
        let (assembly, image, layout) = (self.make("PEAssembly"), self.make("PEImage"), self.make("PEImageLayout"));
        self.set("Module", code.module, "PEAssembly", assembly);
        self.set("PEAssembly", assembly, "PEImage", image);
        self.set("PEImage", image, "LoadedImageLayout", layout);
        self.set("PEImageLayout", layout, "Base", HIDDEN);
        code.path = FREE + (4 << 40);
        let path: Vec<u8> = "/x/lab.dll\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
        self.map(code.path, [path, vec![0; 0x3000]].concat());
        self.set("PEImage", image, "Path", code.path);
        code.class = self.make("EEClass");
        code.method_table = self.room_for(0x100);
        self.set("MethodTable", code.method_table, "Module", code.module);
        self.set("MethodTable", code.method_table, "EEClassOrCanonMT", code.class);
        self.small("MethodTable", code.method_table, "Token", &2u16.to_le_bytes());
        code.chunk = self.room_for(0x100);
        self.set("MethodDescChunk", code.chunk, "MethodTable", code.method_table);
        let first = code.chunk + self.table.size("MethodDescChunk");
        code.descs = vec![first, first + 16];
        self.small("MethodDesc", first, "Flags3AndTokenRemainder", &7u16.to_le_bytes());
        self.small("MethodDesc", first + 16, "ChunkIndex", &[2]);
        self.small("MethodDesc", first + 16, "Flags", &7u16.to_le_bytes());
        let lcg = self.table.at("DynamicMethodDesc", "IsLCGMethod") as u32;
        self.small("StoredSigMethodDesc", first + 16, "ExtendedFlags", &lcg.to_le_bytes());
        code.name = FREE + (5 << 40);
        self.map(code.name, [b"Emitted\0".to_vec(), vec![0; 0x5000]].concat());
        self.set("DynamicMethodDesc", first + 16, "MethodName", code.name);
    }

    fn jitted(&mut self, code: &mut Code) {
        let node = self.code_nodes[0];
        code.nibbles = self.room_for(0x1000 / 256 * 4);
        for (field, value) in [("EndAddress", HEAP_END), ("MapBase", CODE)] {
            self.set("CodeHeapListNode", node, field, value);
        }
        self.set("CodeHeapListNode", node, "HeaderMap", code.nibbles);
        for (start, desc) in [(PLAIN, code.descs[0]), (DYNAMIC, code.descs[1])] {
            let header = self.room_for(0x60);
            self.put(start - 8, header);
            self.set("RealCodeHeader", header, "MethodDesc", desc);
            self.small("RealCodeHeader", header, "NumUnwindInfos", &1u32.to_le_bytes());
            let unwind = header + self.table.at("RealCodeHeader", "UnwindInfos");
            self.small("RuntimeFunction", unwind, "BeginAddress", &((start - CODE) as u32).to_le_bytes());
            self.small("RuntimeFunction", unwind, "EndAddress", &((start - CODE + SIZE) as u32).to_le_bytes());
            // The first nibble of its word: the block begins at its first byte.
            self.poke(code.nibbles + (start - CODE) / 256 * 4, &0x1000_0000u32.to_le_bytes());
            code.headers.push(header);
        }
    }

    fn precompiled(&mut self, code: &mut Code) {
        code.info = self.room_for(0x200);
        self.set("Module", code.module, "ReadyToRunInfo", code.info);
        self.set("ReadyToRunInfo", code.info, "ReadyToRunHeader", READY_IMAGE);
        let functions = self.room_for(16);
        self.poke(functions, &[0x1000u32, 0x1000 + SIZE as u32].map(u32::to_le_bytes).concat());
        self.set("ReadyToRunInfo", code.info, "RuntimeFunctions", functions);
        self.small("ReadyToRunInfo", code.info, "NumRuntimeFunctions", &1u32.to_le_bytes());
        // A header that counts one bucket, then that bucket.
        code.buckets = self.room_for(2 * self.table.size("Bucket"));
        self.poke(code.buckets, &1u32.to_le_bytes());
        let bucket = code.buckets + self.table.size("Bucket");
        self.set("Bucket", bucket, "Keys", READY);
        self.set("Bucket", bucket, "Values", code.descs[0] >> 1);
        let map = code.info + self.table.at("ReadyToRunInfo", "EntryPointToMethodDescMap");
        self.set("HashMap", map, "Buckets", code.buckets);
    }

    fn ranges(&mut self, code: &mut Code) {
        // The global is itself the top level.
        self.put(IMAGE + SLOTS + 8 * self.table.slot("CodeRangeMap"), IMAGE + TABLE);
        let heap_list = self.code_nodes[0];
        let mut known = BTreeMap::new();
        for (begin, end, field, value) in
            [(CODE, HEAP_END, "HeapList", heap_list), (READY_IMAGE, READY_IMAGE + 0x2000, "R2RModule", code.module)]
        {
            let (section, fragment) = (self.make("RangeSection"), self.make("RangeSectionFragment"));
            self.set("RangeSection", section, field, value);
            let flags = if field == "HeapList" { self.table.at("RangeSectionFlags", "CodeHeap") } else { 0 };
            self.small("RangeSection", section, "Flags", &(flags as u32).to_le_bytes());
            for (kind, at) in [("RangeSection", section), ("RangeSectionFragment", fragment)] {
                self.set(kind, at, "RangeBegin", begin);
                self.set(kind, at, "RangeEndOpen", end);
            }
            self.set("RangeSectionFragment", fragment, "RangeSection", section);
            let mut at = IMAGE + TABLE;
            let mut levels = vec![at];
            for level in 0..4 {
                let entry = at + 8 * index(level, begin);
                at = *known.entry(entry).or_insert_with(|| self.room_for(ENTRIES * 8));
                self.put(entry, at);
                levels.push(at);
            }
            self.put(at + 8 * index(4, begin), fragment);
            code.levels = levels;
            code.sections.push(section);
            code.fragments.push(fragment);
        }
    }

    fn versions(&mut self, code: &mut Code) {
        let map = self.app_domain + self.table.at("AppDomain", "MethodDescVersioningStateMap");
        code.state = self.make("MethodDescVersioningState");
        code.node = self.make("NativeCodeVersionNode");
        let slots = self.room_for(8 * 8);
        self.set("SHash", map, "m_table", slots);
        self.small("SHash", map, "m_tableSize", &8u32.to_le_bytes());
        self.put(slots + 24, code.state);
        self.set("MethodDescVersioningState", code.state, "MethodDesc", code.descs[0]);
        self.set("MethodDescVersioningState", code.state, "NativeCodeVersionNode", code.node);
        self.set("NativeCodeVersionNode", code.node, "NativeCode", PLAIN);
        self.small("NativeCodeVersionNode", code.node, "OptimizationTier", &1u32.to_le_bytes());
    }
}
