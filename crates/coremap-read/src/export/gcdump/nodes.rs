//! Encodes nodes of a .gcdump: type, size unless the type has it, and the distances to the numbers of the children.

use crate::export::gcdump::NumberedHeap;
use crate::sums::SaturatingAdd;

/// Number of an object's references that are read at once.
const REFERENCE_BATCH: usize = 256;

/// Appends a number in groups of seven bits, the highest first. All groups but the last have bit 7 set. The sign is
/// bit 6 of the first.
pub(super) fn put(out: &mut Vec<u8>, value: i32) {
    let fits = |bytes: u32| (-(1_i64 << (7 * bytes - 1))..1 << (7 * bytes - 1)).contains(&i64::from(value));
    let bytes = (1..5).find(|&bytes| fits(bytes)).unwrap_or(5);
    for group in (0..bytes).rev() {
        let more = if group > 0 { 0x80 } else { 0 };
        out.push((value >> (7 * group)) as u8 & 0x7f | more);
    }
}

/// A type in the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FileType {
    /// Number of the type in the file. 0 is UNDEFINED.
    pub(super) number: i32,
    /// Size of objects of the type, unless an object has a size of its own.
    pub(super) size: i32,
}

/// A part of the nodes.
#[derive(Debug, Default)]
pub(super) struct NodeBatch {
    pub(super) bytes: Vec<u8>,
    /// Offset of each node in `bytes`.
    pub(super) starts: Vec<u32>,
    /// Sums of the nodes, and of what had to be changed.
    pub(super) sums: Sums,
}

/// Sums over nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Sizes of the objects, as in the file.
    pub(super) size: u64,
    pub(super) references: u64,
    /// Number of references that point to no object.
    pub(super) strays: u64,
    /// Number of objects above the maximum size.
    pub(super) clipped: u64,
    /// Bytes by which the sizes of these objects were reduced.
    pub(super) clipped_bytes: u64,
}

impl Sums {
    pub(super) fn plus(self, other: Sums) -> Sums {
        Sums {
            size: self.size.saturating_add(other.size),
            references: self.references + other.references,
            strays: self.strays + other.strays,
            clipped: self.clipped + other.clipped,
            clipped_bytes: self.clipped_bytes.saturating_add(other.clipped_bytes),
        }
    }
}

/// Encodes the objects of a page of `heap`. Their numbers in the file are `before` above their numbers over all
/// objects. Stops after `most` bytes.
pub(super) fn of_page(heap: &NumberedHeap<'_>, page: usize, before: u32, most: usize) -> NodeBatch {
    let (objects, before) = (&heap.objects, before + heap.first);
    let mut piece = NodeBatch::default();
    let mut reader = heap.source.heap.reader();
    let (mut held, mut children) = (Vec::new(), Vec::new());
    let (first, addrs) = objects.page(page);
    for (number, addr) in (first..).zip(addrs) {
        if piece.bytes.len() > most {
            break;
        }
        piece.starts.push(piece.bytes.len() as u32);
        children.clear();
        let mut from = Some(0);
        while let Some(start) = from {
            from = reader.targets(addr.get(), start, REFERENCE_BATCH, &mut held);
            for &(_, value) in &held {
                match objects.number(value) {
                    Some(child) => children.push(child),
                    None => piece.sums.strays += u64::from(value != 0),
                }
            }
            if children.len() > most {
                break;
            }
        }
        let node = reader.node(addr.get());
        let of = node.and_then(|node| heap.types.get(node.kind.0 as usize)).copied().unwrap_or_default();
        let size = node.map_or(0, |node| node.counted_size);
        let written = i32::try_from(size).unwrap_or(i32::MAX);
        if written as u64 != size {
            piece.sums.clipped += 1;
            piece.sums.clipped_bytes.add_saturating(size - written as u64);
        }
        piece.sums.size.add_saturating(written as u64);
        piece.sums.references.add_saturating(children.len() as u64);
        put_node(&mut piece.bytes, of, written, number + before, children.iter().map(|child| child + before));
    }
    piece
}

/// Appends a node with its children, given by their numbers in the file.
pub(super) fn put_node(
    out: &mut Vec<u8>,
    of: FileType,
    size: i32,
    number: u32,
    children: impl ExactSizeIterator<Item = u32>,
) {
    let explicit = size != of.size;
    put(out, of.number << 1 | i32::from(explicit));
    if explicit {
        put(out, size);
    }
    put(out, children.len() as i32);
    children.for_each(|child| put(out, child.wrapping_sub(number) as i32));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_as_many_bytes_as_they_need() {
        // Smallest and largest numbers of one to five bytes: 7n bits with a sign.
        let cases: [(i32, &[u8]); 12] = [
            (0, &[0]),
            (63, &[0x3f]),
            (-64, &[0x40]),
            (64, &[0x80, 0x40]),
            (-65, &[0xff, 0x3f]),
            (8191, &[0xbf, 0x7f]),
            (8192, &[0x80, 0xc0, 0x00]),
            (-8192, &[0xc0, 0x00]),
            (1 << 20, &[0x80, 0xc0, 0x80, 0x00]),
            (1 << 27, &[0x80, 0xc0, 0x80, 0x80, 0x00]),
            (i32::MAX, &[0x87, 0xff, 0xff, 0xff, 0x7f]),
            (i32::MIN, &[0xf8, 0x80, 0x80, 0x80, 0x00]),
        ];
        for (value, bytes) in cases {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out, bytes, "{value}");
        }
    }

    #[test]
    fn a_node_tells_its_size_where_the_type_has_another() {
        let of = FileType { number: 5, size: 24 };
        let mut out = Vec::new();
        put_node(&mut out, of, 24, 10, [11, 9, 10].into_iter());
        assert_eq!(out, [10, 3, 1, 0x7f, 0]);
        out.clear();
        put_node(&mut out, of, 32, 10, [].into_iter());
        assert_eq!(out, [11, 32, 0]);
    }
}
