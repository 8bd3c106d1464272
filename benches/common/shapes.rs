//! Heaps of other shapes for the same small real process. Objects of one type each are stored in address order or
//! shuffled, with an optional array of strings.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use coremap::session::Session;

use super::heap::{Hung, Real, STRUCT};
use super::{FREE, Fallible, Load, PAGE};

/// How objects refer to each other. An array refers to all heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Lists: each node refers to the next.
    Chains,
    /// Doubly linked lists.
    Linked,
    /// Lists whose nodes also refer to one shared array, which refers to every tenth of them.
    Hub,
    /// Binary trees.
    Tree,
    /// Binary trees whose nodes also refer to their parent.
    Parents,
    /// Circles of eight nodes. The array refers to one node of each.
    Small,
    /// Lists whose nodes also refer to two random nodes.
    Random,
    /// Only an array of strings.
    Strings,
}

impl Shape {
    pub(crate) fn named(name: &str) -> Fallible<Shape> {
        Ok(match name {
            "chains" => Shape::Chains,
            "linked" => Shape::Linked,
            "hub" => Shape::Hub,
            "tree" => Shape::Tree,
            "parents" => Shape::Parents,
            "small" => Shape::Small,
            "random" => Shape::Random,
            "strings" => Shape::Strings,
            other => return Err(format!("no shape {other}").into()),
        })
    }

    fn references(self) -> usize {
        match self {
            Shape::Chains | Shape::Strings => 1,
            Shape::Linked | Shape::Hub | Shape::Tree | Shape::Small => 2,
            Shape::Parents | Shape::Random => 3,
        }
    }
}

/// Parameters of the heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) shape: Shape,
    pub(crate) nodes: u64,
    /// Number of lists or trees.
    pub(crate) heads: u64,
    /// Number of strings in an additional array.
    pub(crate) strings: u64,
    /// Whether consecutive nodes of a list are at random addresses.
    pub(crate) shuffled: bool,
    /// Size of a segment in bytes.
    pub(crate) segment: u64,
}

/// Size of a string in bytes, and its number of characters.
const STRING: u64 = 40;
const CHARACTERS: u64 = 9;

/// A pseudorandom permutation of the numbers below `len` (a Feistel network of four rounds; results out of range are
/// permuted again).
#[derive(Clone, Copy)]
struct Shuffle {
    len: u64,
    half: u32,
    on: bool,
}

impl Shuffle {
    fn new(len: u64, on: bool) -> Shuffle {
        Shuffle { len, half: (64 - len.max(2).leading_zeros()).div_ceil(2), on }
    }

    fn round(self, value: u64, round: u64) -> u64 {
        let mixed = (value ^ (round << 56)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> (64 - self.half)
    }

    fn once(self, value: u64, back: bool) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (value >> self.half, value & mask);
        for i in 0..4 {
            if back {
                (left, right) = (right ^ self.round(left, 3 - i), left);
            } else {
                (left, right) = (right, left ^ self.round(right, i));
            }
        }
        left << self.half | right
    }

    fn map(self, mut value: u64, back: bool) -> u64 {
        if self.on {
            loop {
                value = self.once(value, back);
                if value < self.len {
                    break;
                }
            }
        }
        value
    }
}

/// A heap to add to a real core.
pub(crate) struct Shaped {
    pub(crate) hung: Hung,
    form: Form,
    shuffle: Shuffle,
    real: Real,
    /// Total number of objects.
    pub(crate) objects: u64,
}

impl Form {
    fn node(&self) -> u64 {
        if self.shape.references() == 3 { 40 } else { 32 }
    }

    fn lists(&self) -> u64 {
        match self.shape {
            Shape::Small => self.nodes.div_ceil(8),
            Shape::Strings => 0,
            _ => self.heads.min(self.nodes),
        }
    }

    fn hub(&self) -> u64 {
        if self.shape == Shape::Hub { self.nodes / 10 } else { 0 }
    }

    /// References of node `k`. `None` is null, `Some(u64::MAX)` the hub.
    fn held(&self, k: u64) -> [Option<u64>; 3] {
        let (n, lists) = (self.nodes, self.lists().max(1));
        let next = Some(k + lists).filter(|&next| next < n);
        let before = k.checked_sub(lists);
        // Tree `k % lists` numbers its nodes from 1 on.
        let (tree, own) = (k % lists, k / lists + 1);
        let child = |own: u64| Some((own - 1) * lists + tree).filter(|&k| k < n);
        let any = |seed: u64| Some((k ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) % n);
        match self.shape {
            Shape::Chains | Shape::Strings => [next, None, None],
            Shape::Linked => [next, before, None],
            Shape::Hub => [next, Some(u64::MAX), None],
            Shape::Tree => [child(2 * own), child(2 * own + 1), None],
            Shape::Parents => [child(2 * own), child(2 * own + 1), (own > 1).then(|| (own / 2 - 1) * lists + tree)],
            Shape::Small => [Some(if k % 8 == 7 || k + 1 == n { k / 8 * 8 } else { k + 1 }), None, None],
            Shape::Random => [next, any(0x5555), any(0xaaaa_0000)],
        }
    }
}

impl Shaped {
    pub(crate) fn plan(session: &Session<'_>, form: Form) -> Fallible<Shaped> {
        let real = Real::look(session)?;
        let nodes = if form.shape == Shape::Strings { 0 } else { form.nodes };
        let form = Form { nodes, ..form };
        let step = 2 * form.segment.next_multiple_of(PAGE).max(8 * PAGE);
        let start = |i: u64| FREE + (1 << 32) + i * step;
        // The arrays come first: of the arrays themselves, of the heads, of the hub, of the strings.
        let arrays: u64 = [4, form.lists(), form.hub(), form.strings].iter().map(|n| 24 + 8 * n).sum();
        let mut parts = vec![(FREE + (3 << 40), arrays)];
        let per = |size: u64| form.segment / size;
        let split = |count: u64, size: u64| {
            (0..count.div_ceil(per(size))).map(move |i| (count - i * per(size)).min(per(size)) * size)
        };
        for (i, bytes) in (0..).zip(split(nodes, form.node()).chain(split(form.strings, STRING))) {
            parts.push((start(i), bytes));
        }
        let mut loads = vec![Load::data(FREE, (parts.len() as u64 * STRUCT).next_multiple_of(PAGE))];
        loads.extend(parts.iter().map(|&(at, bytes)| Load::data(at, (bytes + 8).next_multiple_of(PAGE))));
        let segments = parts.iter().map(|&(at, bytes)| (at, at + bytes)).collect();
        let root = parts[0].0;
        let hung = Hung { loads, segments, root, last_next: real.last_next, strong: real.strong };
        let objects = nodes + form.strings + 4;
        Ok(Shaped { hung, form, shuffle: Shuffle::new(nodes, form.shuffled), real, objects })
    }

    /// Address of the node, or string, with this number.
    fn slot(&self, number: u64, size: u64, first: usize) -> u64 {
        let per = self.form.segment / size;
        self.hung.segments[first + (number / per) as usize].0 + number % per * size
    }

    fn node(&self, k: u64) -> u64 {
        self.slot(self.shuffle.map(k, false), self.form.node(), 1)
    }

    fn string(&self, k: u64) -> u64 {
        let before = self.form.nodes.div_ceil(self.form.segment / self.form.node());
        self.slot(k, STRING, 1 + before as usize)
    }

    /// Address of the node that is farthest from the roots, approximately.
    pub(crate) fn last(&self) -> u64 {
        match self.form.nodes.checked_sub(1) {
            Some(last) if self.form.shape == Shape::Small => self.node(last / 8 * 8),
            Some(last) => self.node(last),
            None => self.string(self.form.strings - 1),
        }
    }

    /// Appends the bytes of its loads.
    pub(crate) fn write(&self, file: &mut File) -> Fallible {
        let Shaped { form, real, .. } = self;
        let offset = file.metadata()?.len() + self.hung.loads[0].len;
        file.seek(SeekFrom::Start(offset))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let mut words = |words: &[u64]| -> Fallible {
            for word in words {
                out.write_all(&word.to_le_bytes())?;
            }
            Ok(())
        };
        let at = |n: u64| 24 + 8 * n;
        let root = self.hung.root;
        let arrays = [root + at(4), root + at(4) + at(form.lists()), root + at(4) + at(form.lists()) + at(form.hub())];
        words(&[real.array, 4, arrays[0], arrays[1], arrays[2], 0, 0])?;
        words(&[real.array, form.lists()])?;
        for i in 0..form.lists() {
            words(&[self.node(if form.shape == Shape::Small { 8 * i } else { i })])?;
        }
        words(&[0, real.array, form.hub()])?;
        for i in 0..form.hub() {
            words(&[self.node(10 * i)])?;
        }
        words(&[0, real.array, form.strings])?;
        for i in 0..form.strings {
            words(&[self.string(i)])?;
        }
        words(&[0])?;
        // Pads each segment to the end of its load.
        let pad = |number: usize| {
            let (start, end) = self.hung.segments[number];
            (self.hung.loads[number + 1].len - (end - start)) as usize / 8
        };
        words(&vec![0; pad(0)])?;
        let mut number = 1;
        let (per, references) = (form.segment / form.node(), form.shape.references());
        for slot in 0..form.nodes {
            let held = form.held(self.shuffle.map(slot, true));
            let value = |held: Option<u64>| held.map_or(0, |k| if k == u64::MAX { arrays[1] } else { self.node(k) });
            match references {
                1 => words(&[real.node, value(held[0]), slot, 0])?,
                2 => words(&[real.two, value(held[0]), value(held[1]), 0])?,
                _ => words(&[real.three, value(held[0]), value(held[1]), value(held[2]), 0])?,
            }
            if (slot + 1) % per == 0 || slot + 1 == form.nodes {
                words(&vec![0; pad(number)])?;
                number += 1;
            }
        }
        let per = form.segment / STRING;
        for slot in 0..form.strings {
            let digits =
                format!("{slot:09}").encode_utf16().fold(0_u128, |all, unit| all >> 16 | u128::from(unit) << 112);
            let first = u64::from(b'#') << 32 | CHARACTERS | (digits as u64 & 0xffff) << 48;
            words(&[real.string, first, (digits >> 16) as u64, (digits >> 80) as u64 & 0xffff_ffff, 0])?;
            if (slot + 1) % per == 0 || slot + 1 == form.strings {
                words(&vec![0; pad(number)])?;
                number += 1;
            }
        }
        out.flush()?;
        let _ = io::empty().read(&mut [0])?;
        Ok(())
    }
}
