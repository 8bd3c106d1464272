//! Heaps of other shapes than lists in a row, for the same small real process: objects of one type each, in the order
//! of their addresses or in none, and beside them an array of strings.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use coremap::session::Session;

use super::heap::{Hung, Real, STRUCT};
use super::{FREE, Fallible, Load, PAGE};

/// How objects hold each other. Of all, the heads are held by an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Lists, each node of which holds the next.
    Chains,
    /// The same, and each node holds the one before it too.
    Linked,
    /// Lists, each node of which holds one array too, which holds every tenth of them.
    Hub,
    /// Trees of two.
    Tree,
    /// The same, and each node holds its parent.
    Parents,
    /// Circles of eight, one of whose members an array holds.
    Small,
    /// Lists, each node of which holds two others too, anywhere.
    Random,
    /// An array of strings, and nothing else.
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

    /// References of a node.
    fn references(self) -> usize {
        match self {
            Shape::Chains | Shape::Strings => 1,
            Shape::Linked | Shape::Hub | Shape::Tree | Shape::Small => 2,
            Shape::Parents | Shape::Random => 3,
        }
    }
}

/// What it is to be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) shape: Shape,
    pub(crate) nodes: u64,
    /// Lists or trees.
    pub(crate) heads: u64,
    /// Strings in an array of their own.
    pub(crate) strings: u64,
    /// Whether what follows in a list lies anywhere.
    pub(crate) shuffled: bool,
    /// Bytes of one segment.
    pub(crate) segment: u64,
}

/// Bytes of a string, and its characters.
const STRING: u64 = 40;
const CHARACTERS: u64 = 9;

/// A one-to-one map of the numbers below some other onto themselves, in no order (a Feistel network of four rounds; what leads
/// beyond is mapped again).
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
    /// Objects in all.
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

    /// What node `k` holds; `None` is nothing, `Some(u64::MAX)` the hub.
    fn held(&self, k: u64) -> [Option<u64>; 3] {
        let (n, lists) = (self.nodes, self.lists().max(1));
        let next = Some(k + lists).filter(|&next| next < n);
        let before = k.checked_sub(lists);
        // Tree `k % lists` has its own numbers from 1 on.
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
    /// What it takes.
    pub(crate) fn plan(session: &Session<'_>, form: Form) -> Fallible<Shaped> {
        let real = Real::look(session)?;
        let nodes = if form.shape == Shape::Strings { 0 } else { form.nodes };
        let form = Form { nodes, ..form };
        let step = 2 * form.segment.next_multiple_of(PAGE).max(8 * PAGE);
        let start = |i: u64| FREE + (1 << 32) + i * step;
        // The arrays come first: of the arrays themselves, the heads, the hub, the strings.
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

    /// Where the node in that place of all lies, and the string.
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

    /// The node that is farthest from the roots, or about so.
    pub(crate) fn last(&self) -> u64 {
        match self.form.nodes.checked_sub(1) {
            Some(last) if self.form.shape == Shape::Small => self.node(last / 8 * 8),
            Some(last) => self.node(last),
            None => self.string(self.form.strings - 1),
        }
    }

    /// Append the bytes of its loads.
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
        // Each part up to the end of its load.
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
