//! A strict reader of .gcdump, written after PerfView's reader (microsoft/perfview, src/FastSerialization,
//! src/MemoryGraph/graph.cs, src/HeapDump/GCHeapDump.cs). Any deviation fails.

use std::collections::BTreeMap;

const NULL: u8 = 1;
const REFERENCE: u8 = 2;
const BEGIN: u8 = 4;
const END: u8 = 6;
const BYTE: u8 = 8;
const SKIP: u8 = 12;
const TEXT: u8 = 13;

#[derive(Debug)]
pub struct Type {
    pub name: String,
    pub size: i64,
    pub module: Option<String>,
}

#[derive(Debug)]
pub struct Node {
    pub kind: usize,
    pub size: u64,
    pub address: u64,
    pub children: Vec<usize>,
}

#[derive(Debug)]
pub struct Segment {
    pub start: u64,
    pub end: u64,
    /// Ends of gen0 to gen4.
    pub ends: [u64; 5],
}

impl Segment {
    /// The generation of an address, as PerfView determines it.
    pub fn generation(&self, address: u64) -> Option<usize> {
        (0..5).rev().find(|&generation| address < self.ends[generation])
    }
}

#[derive(Debug)]
pub struct GcDump {
    pub types: Vec<Type>,
    pub nodes: Vec<Node>,
    pub root: usize,
    pub total: u64,
    pub segments: Vec<Segment>,
    pub process: Option<String>,
    pub pid: i32,
    pub tool: String,
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    types: BTreeMap<usize, String>,
}

impl Reader<'_> {
    fn take(&mut self, n: usize) -> &[u8] {
        self.at += n;
        &self.bytes[self.at - n..self.at]
    }

    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn i32(&mut self) -> i32 {
        i32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn text(&mut self) -> Option<String> {
        let units = self.i32();
        if units == -1 {
            return None;
        }
        let units: Vec<u16> = (0..units)
            .map(|_| match self.u8() {
                one @ 0..0x80 => u16::from(one),
                two @ 0xc0..0xe0 => u16::from(two & 0x1f) << 6 | u16::from(self.u8() & 0x3f),
                three => {
                    assert_eq!(three & 0xf0, 0xe0);
                    let middle = u16::from(self.u8() & 0x3f);
                    u16::from(three & 0xf) << 12 | middle << 6 | u16::from(self.u8() & 0x3f)
                }
            })
            .collect();
        Some(String::from_utf16(&units).unwrap())
    }

    fn object(&mut self, name: &str) {
        assert_eq!(self.u8(), BEGIN, "{name}");
        let at = self.at;
        match self.u8() {
            REFERENCE => {
                let place = self.i32() as u32 as usize;
                assert_eq!(self.types[&place], name);
            }
            tag => {
                assert_eq!((tag, self.u8()), (BEGIN, NULL), "{name}");
                let versions = (self.i32(), self.i32());
                let known = [("GCHeapDump", (10, 8)), ("Graphs.MemoryGraph", (1, 0)), ("DotNetHeapInfo", (0, 0))];
                let known = known.into_iter().chain([("GCHeapDumpSegment", (1, 1))]);
                assert_eq!(Some(versions), known.into_iter().find(|k| k.0 == name).map(|k| k.1), "{name}");
                assert_eq!(self.text().as_deref(), Some(name));
                assert_eq!(self.u8(), END);
                self.types.insert(at, name.to_owned());
            }
        }
    }
}

/// Reads a number in groups of seven bits.
fn packed(blob: &[u8], at: &mut usize) -> i64 {
    let mut value = 0_i64;
    for i in 0..5 {
        let byte = blob[*at];
        *at += 1;
        if i == 0 && byte & 0x40 != 0 {
            value = -1;
        }
        value = value << 7 | i64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return i64::from(value as i32);
        }
    }
    panic!("more than five bytes");
}

/// Reads the whole file and checks that everything adds up.
pub fn read(bytes: &[u8]) -> GcDump {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let trailer = word(bytes.len() - 4);
    assert_eq!(trailer, bytes.len() - 8);
    let table = word(trailer);
    let places: Vec<usize> = (0..word(table)).map(|i| word(table + 4 + 4 * i)).collect();
    assert_eq!(table + 4 + 4 * places.len(), trailer);
    let mut r = Reader { bytes, at: 0, types: BTreeMap::new() };
    assert_eq!(r.text().as_deref(), Some("!FastSerialization.1"));
    r.object("GCHeapDump");
    r.object("Graphs.MemoryGraph");
    let total = r.u64();
    let root = r.i32() as usize;
    let count = r.i32();
    let types: Vec<Type> =
        (0..count).map(|_| Type { name: r.text().unwrap(), size: i64::from(r.i32()), module: r.text() }).collect();
    let count = r.i32() as usize;
    let starts: Vec<usize> = (0..count).map(|_| r.i32() as usize).collect();
    let length = r.i32() as usize;
    let blob = r.take(length).to_vec();
    assert_eq!((blob[..2].to_vec(), types[0].name.as_str()), (vec![0, 0], "UNDEFINED"));
    assert_eq!(r.i32() as usize, count);
    let addresses: Vec<u64> = (0..count).map(|_| r.u64()).collect();
    assert_eq!((r.u8(), r.u8(), r.u8()), (BYTE, 1, END));
    // The data after the graph.
    assert_eq!(r.u8(), 1);
    assert_eq!(r.take(8), [1.0_f32.to_le_bytes(), 1.0_f32.to_le_bytes()].concat());
    assert_eq!(r.u8(), NULL);
    let mut segments = Vec::new();
    if r.bytes[r.at] == NULL {
        r.at += 1;
    } else {
        r.object("DotNetHeapInfo");
        let size = r.u64();
        for _ in 0..r.i32() {
            r.object("GCHeapDumpSegment");
            let (start, end) = (r.u64(), r.u64());
            segments.push(Segment { start, end, ends: std::array::from_fn(|_| r.u64()) });
            assert_eq!(r.u8(), END);
        }
        assert_eq!(r.u8(), END);
        assert_eq!(size, segments.iter().map(|s| s.end - s.start).sum::<u64>());
    }
    r.text().unwrap();
    assert_eq!((r.u64(), r.text()), (0, None));
    let (process, pid) = (r.text(), r.i32());
    assert_eq!((r.u64(), r.u64(), r.i32()), (0, 0, 0));
    assert_eq!((r.u8(), r.i32(), r.u8()), (SKIP, 0, NULL));
    assert_eq!(places, [r.at]);
    assert_eq!(r.u8(), TEXT);
    let tool = r.text().unwrap();
    assert_eq!((r.u8(), r.u8(), r.at), (END, END, table));
    let nodes = nodes(&blob, &starts, &types, &addresses);
    assert_eq!(nodes.iter().map(|n| n.size).sum::<u64>(), total);
    GcDump { types, nodes, root, total, segments, process, pid, tool }
}

fn nodes(blob: &[u8], starts: &[usize], types: &[Type], addresses: &[u64]) -> Vec<Node> {
    let mut covered = vec![(0, 2)];
    let nodes: Vec<Node> = (0..)
        .zip(starts)
        .map(|(number, &start): (i64, _)| {
            let mut at = start;
            let first = packed(blob, &mut at);
            let kind = (first >> 1) as usize;
            let size = if first & 1 != 0 { packed(blob, &mut at) } else { types[kind].size };
            let count = packed(blob, &mut at);
            let children = (0..count).map(|_| (number + packed(blob, &mut at)) as usize).collect::<Vec<_>>();
            assert!(children.iter().all(|&child| child < starts.len()), "{number}: {children:?}");
            covered.push((start, at));
            Node { kind, size: size.try_into().unwrap(), address: addresses[number as usize], children }
        })
        .collect();
    covered.sort_unstable();
    assert!(covered.windows(2).all(|pair| pair[0].1 == pair[1].0));
    assert_eq!(covered.last().unwrap().1, blob.len());
    nodes
}

impl GcDump {
    pub fn is_root(&self, node: &Node) -> bool {
        node.address == 0
    }

    pub fn name(&self, node: usize) -> &str {
        &self.types[self.nodes[node].kind].name
    }

    /// Number and bytes of the objects, by type name.
    pub fn by_type(&self) -> BTreeMap<&str, (u64, u64)> {
        let mut out: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for node in self.nodes.iter().filter(|node| !self.is_root(node)) {
            let sum = out.entry(&self.types[node.kind].name).or_default();
            *sum = (sum.0 + 1, sum.1 + node.size);
        }
        out
    }

    /// Number and bytes of the objects reachable from the root.
    pub fn reached(&self) -> (u64, u64) {
        let mut seen = vec![false; self.nodes.len()];
        let (mut left, mut sum) = (vec![self.root], (0, 0));
        while let Some(at) = left.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let node = &self.nodes[at];
            if !self.is_root(node) {
                sum = (sum.0 + 1, sum.1 + node.size);
            }
            left.extend(&node.children);
        }
        sum
    }
}
