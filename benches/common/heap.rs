//! A managed heap for a small real process of .NET 3.1: nodes of 32 bytes in
//! 1,024 linked lists, and to each 20 of them a string and a free gap, in
//! segments of 256 MiB that are hung into the process's segment list. An array
//! that one of its strong handles leads to has the lists' heads. [`Form`] has
//! other numbers: one list of all, an array of all, a gap to each node, thousands of segments.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use coremap::addr::Addr;
use coremap::core::open::Core;
use coremap::internals;
use coremap::layout::{Layout, StructView};
use coremap::progress::Progress;
use coremap::report::HandleKind;
use coremap::runtimes::api::{Selection, stat};
use coremap::runtimes::coreclr::Generation;
use coremap::runtimes::coreclr::heap::{MethodTableInfo, References};
use coremap::session::Session;

use super::{self as common, FREE, Fallible, Load, PAGE, Scratch};

/// What it is to be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) nodes: u64,
    /// Lists: 1 for a chain of all nodes; as many as nodes for an array of all.
    pub(crate) lists: u64,
    /// Nodes to one string and one gap.
    pub(crate) group: u64,
    /// Bytes of one segment (3.1's on 64 bits have 256 MiB).
    pub(crate) segment: u64,
}

impl Form {
    pub(crate) fn of(nodes: u64) -> Form {
        Form { nodes, lists: 1024, group: GROUP, segment: 256 << 20 }
    }

    /// A group is at most this large.
    fn most(&self) -> u64 {
        self.group * NODE + 128 + 24 + 96
    }

    /// Groups of one segment.
    fn a_segment(&self) -> u64 {
        (self.segment / self.most()).max(1)
    }

    fn start(&self, segment: u64) -> u64 {
        FREE + (1 << 32) + segment * 2 * self.segment.next_multiple_of(PAGE).max(8 * PAGE)
    }

    /// Bytes of the array, and of what ends the heap.
    fn array(&self) -> u64 {
        (8 * self.lists + 24).next_multiple_of(PAGE)
    }
}

/// Bytes of a node.
pub(crate) const NODE: u64 = 32;

/// Nodes to one string and one gap.
pub(crate) const GROUP: u64 = 20;

/// Different strings.
const STRINGS: u64 = 100_000;

/// Bytes of the struct that describes a segment.
pub(crate) const STRUCT: u64 = 128;

/// MethodTables of the real process, and where its list of segments ends.
#[derive(Clone, Copy)]
pub(crate) struct Real {
    /// Of objects of 32 bytes with one reference, the first word, and with two.
    pub(crate) node: u64,
    pub(crate) two: u64,
    /// Of 40 bytes with three.
    pub(crate) three: u64,
    pub(crate) string: u64,
    free: u64,
    pub(crate) array: u64,
    pub(crate) last_next: Addr,
    pub(crate) strong: Addr,
}

impl Real {
    /// Find them.
    pub(crate) fn look(session: &Session<'_>) -> Fallible<Real> {
        let process = session.process;
        let clr = internals::coreclr(session).ok_or("no runtime")?;
        let (runtime, types, heap) = (clr.runtime(), clr.types(), clr.object_heap_or_empty());
        let stat = stat(heap, &Selection::default(), &Progress::silent());
        let find = |what, pick: &dyn Fn(&MethodTableInfo) -> bool| {
            stat.types
                .iter()
                .filter_map(|t| heap.method_table(t.kind))
                .find(|i| pick(i))
                .map(|i| i.address.get())
                .ok_or(what)
        };
        let last =
            clr.heaps().segments.iter().filter(|s| matches!(s.generation, Generation::Gen2 | Generation::Ephemeral));
        let last = last.max_by_key(|s| s.start).ok_or("no segment")?;
        let view = StructView::new(&process.memory, &runtime.layout, "dac_heap_segment", last.address);
        if !view.ptr("next")?.is_null() {
            return Err("the list of segments goes on".into());
        }
        // Of which all references stand in a row, from the first word on.
        let holds = |i: &MethodTableInfo, references: u64| {
            let mut offsets = Vec::new();
            if types.contains_references(i.address) {
                let all = References::read(&process.memory, i.address).unwrap_or_default();
                all.visit(&[[1; 8]; 8], u64::from(i.base_size), &mut |offset, _| {
                    offsets.push(offset);
                    true
                });
            }
            !i.counted() && offsets.iter().copied().eq((1..=references).map(|n| 8 * n))
        };
        let node = |size: u64, references: u64| {
            find("no type of such objects", &|i| u64::from(i.base_size) == size && holds(i, references))
        };
        let strong = clr.handles().iter().find(|h| h.kind == HandleKind::Strong).ok_or("no strong handle")?;
        Ok(Real {
            node: node(NODE, 1)?,
            two: node(NODE, 2)?,
            three: node(40, 3)?,
            array: find("no array of objects", &|i| {
                (i.base_size, i.component_size) == (24, 8) && types.contains_references(i.address)
            })?,
            strong: strong.address,
            string: find("no strings", &|i| i.string)?,
            free: find("no free space", &|i| i.free)?,
            last_next: view.addr_of("next")?,
        })
    }
}

/// Segments that are hung into a process, and the array that keeps their objects.
pub(crate) struct Hung {
    /// To be added in this order: the structs that describe the segments, and each segment.
    pub(crate) loads: Vec<Load>,
    /// Where the objects of each begin and end.
    pub(crate) segments: Vec<(u64, u64)>,
    /// The array.
    pub(crate) root: u64,
    pub(crate) last_next: Addr,
    pub(crate) strong: Addr,
}

impl Hung {
    /// Hang them in: `at` is where in the file the first load is.
    pub(crate) fn link(&self, core: &Scratch, sample: &Core, layout: &Layout, at: u64) -> Fallible {
        // The structs, chained, and the last real one leads to the first of them.
        for (i, &(start, end)) in (0..).zip(&self.segments) {
            let next = if i + 1 < self.segments.len() as u64 { FREE + (i + 1) * STRUCT } else { 0 };
            for (field, value) in
                [("mem", start), ("allocated", end), ("committed", end), ("reserved", end), ("next", next)]
            {
                core.patch(at + i * STRUCT + layout.positive("dac_heap_segment", field)?, &value.to_le_bytes())?;
            }
        }
        core.patch(common::offset_of(sample, self.last_next)?, &FREE.to_le_bytes())?;
        core.patch(common::offset_of(sample, self.strong)?, &self.root.to_le_bytes())
    }
}

/// Words of the heap, as they come.
struct Writer<W> {
    out: W,
    at: u64,
    seed: u64,
    objects: u64,
}

impl<W: Write> Writer<W> {
    fn words(&mut self, words: &[u64]) -> Fallible {
        for word in words {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.at += 8 * words.len() as u64;
        Ok(())
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    /// A group of nodes, a string, a gap.
    fn group(&mut self, real: &Real, nodes: u64, lists: &mut [u64]) -> Fallible {
        for i in 0..nodes {
            let here = self.at;
            let list = (self.objects + i) as usize % lists.len();
            self.words(&[real.node, lists[list], i, 0])?;
            lists[list] = here;
        }
        let number = self.random(STRINGS);
        let text: Vec<u8> = format!("value-{number}-{:>width$}", "x", width = 1 + (number % 30) as usize)
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let mut string = ((text.len() / 2) as u32).to_le_bytes().to_vec();
        string.extend(text);
        string.extend([0, 0]);
        // Up to where the next object may begin, but for its own sync block.
        string.resize((string.len() + 8).next_multiple_of(8) - 8 + 8, 0);
        let size = (22 + (string_len(&string)) * 2).max(24).next_multiple_of(8);
        string.resize(size as usize - 8, 0);
        self.words(&[real.string])?;
        self.out.write_all(&string)?;
        self.at += string.len() as u64;
        let extra = 8 * self.random(12);
        self.words(&[real.free, extra, 0])?;
        for _ in 0..extra / 8 {
            self.words(&[0])?;
        }
        self.objects += nodes + 2;
        Ok(())
    }
}

fn string_len(bytes: &[u8]) -> u64 {
    bytes.first_chunk::<4>().map_or(0, |b| u64::from(u32::from_le_bytes(*b)))
}

/// A heap to add to a real core: its plan, and after writing what is in it.
pub(crate) struct Made {
    real: Real,
    form: Form,
    groups: u64,
    segments: u64,
    /// To be added in this order.
    pub(crate) loads: Vec<Load>,
    ends: Vec<u64>,
    /// Objects written.
    pub(crate) objects: u64,
    array: u64,
}

impl Made {
    /// What it takes.
    pub(crate) fn plan(session: &Session<'_>, form: Form) -> Fallible<Made> {
        let real = Real::look(session)?;
        let groups = form.nodes.div_ceil(form.group);
        let segments = groups.div_ceil(form.a_segment());
        let mut loads = vec![Load::data(FREE, (segments * STRUCT).next_multiple_of(PAGE))];
        loads.extend((0..segments).map(|i| {
            let most = (groups - i * form.a_segment()).min(form.a_segment()) * form.most();
            let array = if i + 1 == segments { form.array() } else { PAGE };
            Load::data(form.start(i), (most + array).next_multiple_of(PAGE))
        }));
        Ok(Made { real, form, groups, segments, loads, ends: Vec::new(), objects: 0, array: 0 })
    }

    /// The node at the far end of the first list.
    pub(crate) fn last(&self) -> Addr {
        Addr::new(self.form.start(0))
    }

    /// Append the bytes of its loads.
    pub(crate) fn write(&mut self, file: &mut File) -> Fallible {
        let mut offset = file.metadata()?.len() + self.loads.first().map_or(0, |l| l.len);
        let form = self.form;
        let mut lists = vec![0; form.lists as usize];
        for (i, load) in (0..self.segments).zip(self.loads.iter().skip(1)) {
            file.seek(SeekFrom::Start(offset))?;
            let mut out = Writer {
                out: BufWriter::with_capacity(1 << 20, &mut *file),
                at: load.addr,
                seed: 88172645463325252 + i,
                objects: 0,
            };
            for g in i * form.a_segment()..((i + 1) * form.a_segment()).min(self.groups) {
                out.group(&self.real, form.group.min(form.nodes - g * form.group), &mut lists)?;
            }
            if i + 1 == self.segments {
                self.array = out.at;
                out.words(&[self.real.array, form.lists])?;
                out.words(&lists)?;
                out.words(&[0])?;
                out.objects += 1;
            }
            // Memory that is committed and not used, as zeros and not as a hole.
            let left = load.len - (out.at - load.addr);
            io::copy(&mut io::repeat(0).take(left), &mut out.out)?;
            out.out.flush()?;
            self.ends.push(out.at);
            self.objects += out.objects;
            offset += load.len;
        }
        Ok(())
    }

    /// Hang the heap into the process: `at` is where in the file its first load is.
    pub(crate) fn link(&self, core: &Scratch, sample: &Core, layout: &Layout, at: u64) -> Fallible {
        let segments = (0..self.segments).zip(&self.ends).map(|(i, &end)| (self.form.start(i), end)).collect();
        let Real { last_next, strong, .. } = self.real;
        Hung { loads: self.loads.clone(), segments, root: self.array, last_next, strong }.link(core, sample, layout, at)
    }
}
