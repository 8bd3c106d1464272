//! A fake HotSpot in a synthetic core: libjvm's exported tables, and a code cache that they lead to. The tables define
//! the offsets of fields, so here each field has eight bytes, in the order of [`TYPES`].

use std::collections::BTreeMap;

use super::builder::{CoreBuilder, Load, R, W, X, image};
use super::notes;

const IMAGE: u64 = 0x7f00_0000_0000;
const DYNAMIC: u64 = 0x1000;
const SYMBOLS: u64 = 0x1100;
const HASH: u64 = 0x1800;
/// Offset of rows, texts, variables and structs, one after the other.
const DATA: u64 = 0x2000;
const IMAGE_LEN: u64 = 0x2_0000;

/// The code cache. Its reserve is twice its committed size.
pub const CODE: u64 = 0x7e00_0000_0000;
pub const CODE_LEN: u64 = 0x8000;
/// Binary logarithm of the segment size.
const LOG2_SEGMENT: u64 = 7;
const SEGMENT: u64 = 1 << LOG2_SEGMENT;

const STACK: u64 = 0x7fff_0000_0000;

/// A C++ type: name, base type, and fields with their types. A field without a name reserves room for another type.
type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const TYPES: &[Row] = &[
    ("JVMFlag", "", &[("_name", "char*"), ("_addr", "void*")]),
    ("oopDesc", "", &[("_mark", "size_t"), ("_metadata._klass", "Klass*")]),
    ("Klass", "", &[("_name", "Symbol*")]),
    ("Symbol", "", &[("_length", "u2"), ("_body", "u1")]),
    ("Method", "", &[("_constMethod", "ConstMethod*"), ("_access_flags", "u2")]),
    (
        "ConstMethod",
        "",
        &[
            ("_constants", "ConstantPool*"),
            ("_name_index", "u2"),
            ("_signature_index", "u2"),
            ("_code_size", "u2"),
            ("_flags", "u2"),
        ],
    ),
    ("ConstantPool", "", &[("_pool_holder", "InstanceKlass*"), ("_source_file_name_index", "u2")]),
    ("GrowableArrayBase", "", &[("_len", "int")]),
    ("GrowableArray<int>", "GrowableArrayBase", &[("_data", "int*")]),
    (
        "VirtualSpace",
        "",
        &[("_low_boundary", "char*"), ("_high_boundary", "char*"), ("_low", "char*"), ("_high", "char*")],
    ),
    (
        "CodeHeap",
        "",
        &[
            ("_memory", "VirtualSpace"),
            ("", ""),
            ("", ""),
            ("", ""),
            ("_segmap", "VirtualSpace"),
            ("", ""),
            ("", ""),
            ("", ""),
            ("_log2_segment_size", "int"),
        ],
    ),
    ("HeapBlock::Header", "", &[("_length", "size_t"), ("_used", "bool")]),
    ("HeapBlock", "", &[("_header", "HeapBlock::Header"), ("", "")]),
    (
        "CodeBlob",
        "",
        &[
            ("_name", "char*"),
            ("_size", "int"),
            ("_frame_size", "int"),
            ("_code_begin", "address"),
            ("_code_end", "address"),
        ],
    ),
    ("CompiledMethod", "CodeBlob", &[("_method", "Method*"), ("_scopes_data_begin", "address")]),
    (
        "nmethod",
        "CompiledMethod",
        &[
            ("_compile_id", "int"),
            ("_comp_level", "int"),
            ("_state", "signed char"),
            ("_entry_bci", "int"),
            ("_scopes_pcs_offset", "int"),
            ("_dependencies_offset", "int"),
            ("_metadata_offset", "int"),
        ],
    ),
    ("PcDesc", "", &[("_pc_offset", "int"), ("_scope_decode_offset", "int")]),
    ("StubQueue", "", &[("_stub_buffer", "address"), ("_buffer_limit", "int"), ("_number_of_stubs", "int")]),
    ("InterpreterCodelet", "", &[("_description", "char*"), ("_size", "int"), ("_bytecode", "int")]),
];

/// Static variables: class, name and type.
const STATICS: &[(&str, &str, &str)] = &[
    ("Abstract_VM_Version", "_s_vm_release", "char*"),
    ("Abstract_VM_Version", "_vm_major_version", "int"),
    ("JVMFlag", "flags", "JVMFlag*"),
    ("JVMFlag", "numFlags", "size_t"),
    ("CodeCache", "_heaps", "GrowableArray<CodeHeap*>*"),
    ("AbstractInterpreter", "_code", "StubQueue*"),
    ("StubRoutines", "_call_stub_return_address", "address"),
    ("StubRoutines", "_jint_arraycopy", "address"),
];

/// A compiled method of the fake.
pub struct Compiled<'a> {
    pub method: u64,
    pub level: u64,
    pub name: &'a str,
    /// Offsets in its code, and the offset of the packed scope that is valid up to there.
    pub pcs: &'a [(u32, u32)],
    /// Packed scopes, from offset 1 on.
    pub scopes: &'a [u8],
    /// Methods that they refer to, from index 1 on.
    pub metadata: &'a [u64],
}

pub struct Fake {
    image: Vec<u8>,
    code: Vec<u8>,
    next: u64,
    /// Start of the next block of the code cache.
    pub block: u64,
    texts: BTreeMap<String, u64>,
    statics: BTreeMap<(&'static str, &'static str), u64>,
    /// Addresses of the CodeHeap and the StubQueue.
    pub heap: u64,
    pub queue: u64,
    /// Address of the array of heaps.
    pub heaps: u64,
}

fn row(kind: &str) -> &'static Row {
    TYPES.iter().find(|t| t.0 == kind).unwrap_or_else(|| panic!("no type {kind}"))
}

/// Size of a type in bytes, including its base types.
pub fn size(kind: &str) -> u64 {
    if kind.is_empty() { 0 } else { size(row(kind).1) + 8 * row(kind).2.len() as u64 }
}

/// Offset of a field of a type or of one of its base types.
pub fn at(kind: &str, field: &str) -> u64 {
    let (_, above, fields) = row(kind);
    match fields.iter().position(|f| f.0 == field) {
        Some(i) => size(above) + 8 * i as u64,
        None => at(above, field),
    }
}

impl Fake {
    /// A VM whose code cache has no block yet.
    pub fn new() -> Fake {
        let mut elf = image(&[(0, 0x1000, R), (0x1000, IMAGE_LEN - 0x1000, R | W), (DYNAMIC, 0x100, R | W)], 0x1000);
        // The second PT_LOAD has its own file offset; the third is PT_DYNAMIC.
        elf[64 + 56 + 8..64 + 56 + 16].copy_from_slice(&0x1000u64.to_le_bytes());
        elf[64 + 112] = 2;
        elf.resize(IMAGE_LEN as usize, 0);
        let (texts, statics) = Default::default();
        let (code, next, block) = (vec![0; CODE_LEN as usize], IMAGE + DATA, CODE);
        let mut fake = Fake { image: elf, code, next, block, texts, statics, heap: 0, queue: 0, heaps: 0 };
        fake.tables();
        let release = fake.text("17.0.99+1-fake");
        fake.set_static("Abstract_VM_Version", "_s_vm_release", release);
        fake.set_static("Abstract_VM_Version", "_vm_major_version", 17);
        fake.heap = fake.room(size("CodeHeap"));
        let (array, slot) = (fake.room(size("GrowableArray<int>")), fake.room(8));
        fake.set("GrowableArray<int>", array, "_len", 1);
        fake.set("GrowableArray<int>", array, "_data", slot);
        fake.put(slot, fake.heap);
        fake.set_static("CodeCache", "_heaps", array);
        fake.heaps = array;
        for (field, value) in [
            ("_low_boundary", CODE),
            ("_high_boundary", CODE + 2 * CODE_LEN),
            ("_low", CODE),
            ("_high", CODE + CODE_LEN),
        ] {
            fake.put(fake.heap + at("VirtualSpace", field), value);
        }
        fake.set("CodeHeap", fake.heap, "_log2_segment_size", LOG2_SEGMENT);
        fake.queue = fake.room(size("StubQueue"));
        fake.set_static("AbstractInterpreter", "_code", fake.queue);
        fake
    }

    fn tables(&mut self) {
        for &(kind, field, _) in STATICS {
            let place = self.room(8);
            self.statics.insert((kind, field), place);
        }
        let kinds = TYPES.iter().map(|t| (t.0, t.1, size(t.0)));
        let kinds: Vec<[u64; 3]> = kinds.map(|(name, above, size)| [self.text(name), self.text(above), size]).collect();
        let mut fields = Vec::new();
        for &(kind, _, own) in TYPES {
            for &(field, type_name) in own.iter().filter(|f| !f.0.is_empty()) {
                let names = [self.text(kind), self.text(field), self.text(type_name)];
                fields.push([names[0], names[1], names[2], 0, at(kind, field), 0]);
            }
        }
        for &(kind, field, type_name) in STATICS {
            let names = [self.text(kind), self.text(field), self.text(type_name)];
            fields.push([names[0], names[1], names[2], 1, 0, self.statics[&(kind, field)]]);
        }
        let mut exports = Vec::new();
        let mut array = |fake: &mut Fake, name: &str, entry: &str, columns: &[&str], rows: &[Vec<u64>]| {
            let words = columns.len() as u64;
            let start = fake.room(8 * words * (rows.len() as u64 + 1));
            for (i, word) in rows.iter().flatten().enumerate() {
                fake.put(start + 8 * i as u64, *word);
            }
            exports.push((format!("gHotSpotVM{name}"), start));
            exports.push((format!("gHotSpotVM{entry}EntryArrayStride"), 8 * words));
            for (i, column) in columns.iter().enumerate() {
                exports.push((format!("gHotSpotVM{entry}Entry{column}Offset"), 8 * i as u64));
            }
        };
        let rows = |rows: &[[u64; 3]]| rows.iter().map(|r| r.to_vec()).collect::<Vec<_>>();
        array(self, "Types", "Type", &["TypeName", "SuperclassName", "Size"], &rows(&kinds));
        let columns = ["TypeName", "FieldName", "TypeString", "IsStatic", "Offset", "Address"];
        let fields: Vec<Vec<u64>> = fields.iter().map(|f| f.to_vec()).collect();
        array(self, "Structs", "Struct", &columns, &fields);
        array(self, "IntConstants", "IntConstant", &["Name", "Value"], &[]);
        array(self, "LongConstants", "LongConstant", &["Name", "Value"], &[]);
        self.export(&exports);
    }

    /// Adds variables with a symbol each, in one bucket of a DT_HASH.
    fn export(&mut self, variables: &[(String, u64)]) {
        let names = self.room(0x1000);
        for (i, (tag, value)) in [(4, HASH), (5, names - IMAGE), (6, SYMBOLS)].into_iter().enumerate() {
            self.put(IMAGE + DYNAMIC + 16 * i as u64, tag);
            self.put(IMAGE + DYNAMIC + 16 * i as u64 + 8, IMAGE + value);
        }
        let count = variables.len() as u32;
        let chains = (0..=count).map(|i| if i == 0 || i == count { 0 } else { i + 1 });
        let words: Vec<u8> = [1, count + 1, 1].into_iter().chain(chains).flat_map(u32::to_le_bytes).collect();
        self.poke(IMAGE + HASH, &words);
        let mut name_at = 1;
        for (i, (name, value)) in variables.iter().enumerate() {
            let place = self.room(8);
            self.put(place, *value);
            self.poke(names + name_at, name.as_bytes());
            let symbol = IMAGE + SYMBOLS + 24 * (i as u64 + 1);
            self.poke(symbol, &(name_at as u32).to_le_bytes());
            // A global object in section 1.
            self.poke(symbol + 4, &[0x11, 0, 1, 0]);
            self.put(symbol + 8, place - IMAGE);
            self.put(symbol + 16, 8);
            name_at += name.len() as u64 + 1;
        }
    }

    /// Reserves bytes in libjvm's data.
    pub fn room(&mut self, size: u64) -> u64 {
        self.next = self.next.next_multiple_of(8) + size;
        assert!(self.next < IMAGE + IMAGE_LEN);
        self.next - size
    }

    pub fn text(&mut self, text: &str) -> u64 {
        if let Some(&known) = self.texts.get(text) {
            return known;
        }
        let place = self.room(text.len() as u64 + 1);
        self.poke(place, text.as_bytes());
        self.texts.insert(text.to_owned(), place);
        place
    }

    #[track_caller]
    pub fn put(&mut self, at: u64, value: u64) {
        self.poke(at, &value.to_le_bytes());
    }

    #[track_caller]
    pub fn poke(&mut self, at: u64, bytes: &[u8]) {
        let (area, from) = if at < IMAGE { (&mut self.code, CODE) } else { (&mut self.image, IMAGE) };
        area[(at - from) as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    #[track_caller]
    pub fn set(&mut self, kind: &str, place: u64, field: &str, value: u64) {
        self.put(place + at(kind, field), value);
    }

    pub fn set_static(&mut self, kind: &'static str, field: &'static str, value: u64) {
        self.put(self.statics[&(kind, field)], value);
    }

    fn symbol(&mut self, text: &str) -> u64 {
        let place = self.room(size("Symbol") + text.len() as u64);
        self.set("Symbol", place, "_length", text.len() as u64);
        self.poke(place + at("Symbol", "_body"), text.as_bytes());
        place
    }

    pub fn method(&mut self, class: &str, name: &str, descriptor: &str) -> u64 {
        let (klass, pool) = (self.room(size("Klass")), self.room(size("ConstantPool") + 24));
        let (constant, method) = (self.room(size("ConstMethod") + 16), self.room(size("Method")));
        for (i, text) in [class, name, descriptor].into_iter().enumerate() {
            let symbol = self.symbol(text);
            self.put(pool + size("ConstantPool") + 8 * i as u64, symbol);
            if i == 0 {
                self.set("Klass", klass, "_name", symbol);
            }
        }
        self.set("ConstantPool", pool, "_pool_holder", klass);
        self.set("ConstMethod", constant, "_constants", pool);
        self.set("ConstMethod", constant, "_name_index", 1);
        self.set("ConstMethod", constant, "_signature_index", 2);
        self.set("ConstMethod", constant, "_code_size", 16);
        self.set("Method", method, "_constMethod", constant);
        method
    }

    /// Adds a used or free block of the code cache with this number of bytes after its header. Returns the address of
    /// these bytes.
    pub fn block(&mut self, bytes: u64, used: bool) -> u64 {
        let segments = (size("HeapBlock") + bytes).div_ceil(SEGMENT);
        let head = self.block;
        self.set("HeapBlock::Header", head, "_length", segments);
        self.set("HeapBlock::Header", head, "_used", used.into());
        self.block += segments * SEGMENT;
        head + size("HeapBlock")
    }

    /// Adds a blob with `code` bytes of code and `more` bytes after it. Returns its address; its code begins after its
    /// header.
    pub fn blob(&mut self, kind: &str, name: &str, code: u64, more: u64) -> u64 {
        let all = size(kind) + code + more;
        let blob = self.block(all, true);
        let name = self.text(name);
        let begin = blob + size(kind);
        for (field, value) in
            [("_name", name), ("_size", all), ("_frame_size", 4), ("_code_begin", begin), ("_code_end", begin + code)]
        {
            self.set("CodeBlob", blob, field, value);
        }
        blob
    }

    /// Adds a compiled method with 256 bytes of code.
    pub fn nmethod(&mut self, of: &Compiled<'_>) -> u64 {
        let blob = self.blob("nmethod", of.name, 256, 512);
        let (metadata, scopes, pcs) = (size("nmethod") + 256, size("nmethod") + 384, size("nmethod") + 512);
        let end = pcs + size("PcDesc") * of.pcs.len() as u64;
        for (field, value) in [
            ("_method", of.method),
            ("_scopes_data_begin", blob + scopes),
            ("_compile_id", 7),
            ("_comp_level", of.level),
            ("_entry_bci", u64::MAX),
            ("_scopes_pcs_offset", pcs),
            ("_dependencies_offset", end),
            ("_metadata_offset", metadata),
        ] {
            self.set("nmethod", blob, field, value);
        }
        for (i, &word) in of.metadata.iter().enumerate() {
            self.put(blob + metadata + 8 * i as u64, word);
        }
        self.poke(blob + scopes + 1, of.scopes);
        for (i, &(pc, scope)) in of.pcs.iter().enumerate() {
            let desc = blob + pcs + size("PcDesc") * i as u64;
            self.set("PcDesc", desc, "_pc_offset", pc.into());
            self.set("PcDesc", desc, "_scope_decode_offset", scope.into());
        }
        blob
    }

    /// Adds the interpreter, with a codelet of 64 bytes for each name. Returns the start of its code.
    pub fn interpreter(&mut self, names: &[&str]) -> u64 {
        let blob = self.blob("CodeBlob", "Interpreter", 64 * names.len() as u64, 0);
        let start = blob + size("CodeBlob");
        self.set("StubQueue", self.queue, "_stub_buffer", start);
        self.set("StubQueue", self.queue, "_buffer_limit", 64 * names.len() as u64);
        self.set("StubQueue", self.queue, "_number_of_stubs", names.len() as u64);
        for (i, name) in names.iter().enumerate() {
            let (codelet, name) = (start + 64 * i as u64, self.text(name));
            self.set("InterpreterCodelet", codelet, "_description", name);
            self.set("InterpreterCodelet", codelet, "_size", 64);
            self.set("InterpreterCodelet", codelet, "_bytecode", u64::MAX);
        }
        start
    }

    pub fn core(&self) -> CoreBuilder {
        let path = "/x/libjvm.so";
        let files = [(IMAGE, IMAGE + 0x1000, 0, path), (IMAGE + 0x1000, IMAGE + IMAGE_LEN, 1, path)];
        let (head, data) = self.image.split_at(0x1000);
        CoreBuilder::x86_64()
            .note(notes::prstatus_x86_64(1, 0, STACK + 0x800, CODE, 0))
            .note(notes::prpsinfo(1, "java", "java"))
            .note(notes::files(0x1000, &files))
            .load(Load::at(CODE).flags(R | W | X).bytes(self.code.clone()))
            .load(Load::at(IMAGE).flags(R).bytes(head))
            .load(Load::at(IMAGE + 0x1000).flags(R | W).bytes(data))
            .load(Load::at(STACK).flags(R | W).bytes(vec![0; 0x1000]))
    }
}
