//! Heaps made by hand, intact and damaged.

use super::find::Reader;
use super::group::resolve_nesting;
use super::shape::{Bits, Shape};
use super::slots::{Slot, SlotState};
use super::*;
use crate::layout::LayoutError;
use crate::native::foreign::testing::{Lab, range};

const SECRET: u64 = 0x1122_3344_5566_7788;
const DATA: u64 = 0x1_0000;
const AREA: u64 = 0x2_0000;
const HEAP: u64 = 0x3_0000;
const META: u64 = AREA + 24;

fn bits(slots: u64, class: u64, pages: u64) -> u64 {
    (slots - 1) | 1 << 5 | class << 6 | pages << 12
}

/// A context with or without a page size, an area, and two groups: one page with 3 slots of 1,152 bytes (class 20, 72
/// units), and in its second slot a group of 2 slots of 32 bytes.
fn lab(with_page_size: bool) -> Lab {
    let mut lab = Lab::default();
    let words: &[u64] = match with_page_size {
        true => &[SECRET, 4096, 1, 0, 0, 0, 0, 0, AREA, AREA],
        false => &[SECRET, 1, 0, 0, 0, 0, 0, AREA, AREA],
    };
    lab.map(DATA, 0x1000).put(DATA + 8, words);
    let used = 0b110_u64;
    lab.map(AREA, 0x1000).put(AREA, &[SECRET, 0, 101]);
    lab.put(META, &[0, 0, HEAP, 0b111 & !used, bits(3, 20, 1)]);
    lab.put(META + 40, &[0, 0, HEAP + 16 + 1152, 0b10 << 32, bits(2, 1, 0)]);
    lab.map(HEAP, 0x1000).put(HEAP, &[META]).put(HEAP + 16 + 1152, &[META + 40]);
    lab
}

fn read(lab: &Lab) -> Result<Option<Mallocng>, LayoutError> {
    let shape = Shape::bundled()?;
    let is_mapped = |r: AddrRange| lab.block(r.start).is_some_and(|b| b.len() as u64 >= r.len());
    let reader = Reader { memory: lab, is_mapped: &is_mapped, shape: &shape };
    Ok(reader.in_data(range(DATA, 0x1000)))
}

#[test]
fn groups_are_found_with_those_in_their_slots() -> Result<(), LayoutError> {
    for with_page_size in [false, true] {
        let found = read(&lab(with_page_size))?.unwrap_or_default();
        assert_eq!(found.areas, [Addr::new(AREA)]);
        let [outer, inner] = &found.groups[..] else { panic!("{:?}", found.groups) };
        assert_eq!((outer.range, outer.stride, outer.slots), (range(HEAP, 0x1000), 1152, 3));
        assert_eq!((outer.used, outer.nested), (0b110, 0b010));
        assert_eq!((inner.range, inner.from), (range(HEAP + 16 + 1152, 16 + 2 * 32), Source::Slot));
        assert_eq!((outer.counts(), inner.counts()), ((1, 1), (1, 1)));
        assert_eq!((found.unproven, found.orphans, found.broken), (0, 0, None));
    }
    Ok(())
}

#[test]
fn what_does_not_lead_back_or_is_not_all_there_is_no_group() -> Result<(), LayoutError> {
    let tries: [(u64, u64); 6] = [
        (HEAP, META + 40),
        (META + 16, HEAP + 8),
        (META + 32, bits(3, 48, 1)),
        (META + 32, bits(32, 47, 1)),
        (META + 32, bits(3, 20, 1 << 40)),
        (META + 32, bits(1, 63, 0)),
    ];
    for (at, word) in tries {
        let mut lab = lab(false);
        lab.put(at, &[word]);
        let found = read(&lab)?.unwrap_or_default();
        assert_eq!((found.groups.len(), found.unproven, found.orphans), (1, 1, 1), "{word:#x} at {at:#x}");
    }
    Ok(())
}

#[test]
fn a_ring_of_areas_ends_and_another_secret_is_none() -> Result<(), LayoutError> {
    let mut ring = lab(false);
    ring.put(AREA + 8, &[AREA]);
    let found = read(&ring)?.unwrap_or_default();
    assert!(found.groups.len() == 2 && found.broken.is_some(), "{:?}", found.broken);
    let mut other = lab(false);
    other.put(AREA, &[SECRET + 1]);
    assert!(read(&other)?.is_none());
    Ok(())
}

#[test]
fn of_groups_that_lie_across_each_other_one_stays() {
    let group = |start: u64, slots: u32, mapped: u64| {
        let bits = Bits { slots, freeable: true, class: 1, mapped, stride: 32 };
        let len = 16 + 32 * u64::from(slots);
        Group::new(Addr::new(META), range(start, len.max(mapped)), Addr::new(start + 16), bits, 0)
    };
    // Across two slots, past the end, in a slot that has a group already, a mapping within another one.
    for inner in [group(HEAP + 32, 1, 0), group(HEAP + 0xff0, 1, 0), group(HEAP + 0x800, 1, 0x1000)] {
        let mut heap = Mallocng { groups: vec![group(HEAP, 20, 0x1000), inner], ..Mallocng::default() };
        resolve_nesting(&mut heap);
        assert_eq!((heap.groups.len(), heap.unproven), (1, 1));
    }
}

/// Returns the slots of a group of class 3 (64 bytes). `words` are the headers, each before a block.
fn slots(used: u32, words: &[(u64, u64)]) -> Vec<Slot> {
    let mut bytes = vec![0_u8; 0x1000];
    for &(at, word) in words {
        let at = (at - 8) as usize;
        for (byte, new) in bytes[at..at + 8].iter_mut().zip(word.to_le_bytes()) {
            *byte |= new;
        }
    }
    let windows: Vec<Window<'_>> = Window::new(Addr::new(HEAP), &bytes).into_iter().collect();
    let bits = Bits { slots: 4, freeable: true, class: 3, mapped: 0x1000, stride: 64 };
    let group = Group::new(Addr::new(META), range(HEAP, 0x1000), Addr::new(HEAP + 16), bits, !used);
    let mut out = Vec::new();
    group.each(0, &windows, |slot| out.push(slot));
    out
}

/// Makes the word before a block: bytes -8 to -1.
fn header(units: u64, slot: u64, rest: u64) -> u64 {
    units << 48 | (slot | rest << 5) << 40
}

#[test]
fn headers_tell_where_blocks_begin_and_what_was_asked_for() {
    // The whole slot is requested; 3 bytes are not; 20 bytes from the third unit on, by the slot's last word.
    let out = slots(
        0b0111,
        &[
            (16, header(0, 0, 0)),
            (80, header(4, 1, 3)),
            (144, header(2, 0, 7)),
            (176, header(10, 2, 5)),
            (208, 64 - 32 - 4 - 20),
        ],
    );
    let blocks: Vec<(u64, u64, Option<u64>)> =
        out.iter().map(|s| (s.block.start.since(Addr::new(HEAP)), s.block.len(), s.requested)).collect();
    assert_eq!(blocks[..3], [(16, 60, Some(60)), (80, 57, Some(57)), (176, 20, Some(20))]);
    assert_eq!((out[3].state, out[3].requested, out[3].damaged), (SlotState::Free, None, false));
}

#[test]
fn headers_that_make_no_sense_are_damaged_and_the_slot_stays_in_use() {
    let wrong = [
        header(0, 1, 0),
        header(1, 0, 0),
        header(0, 0, 6),
        header(0xffff, 0, 7),
        header(0, 0, 7),
        header(0, 0, 0) | 1 << 32,
        !0,
    ];
    for word in wrong {
        let out = slots(0b0001, &[(16, word)]);
        assert_eq!((out[0].state, out[0].requested, out[0].damaged), (SlotState::Used, None, true), "{word:#x}");
        assert_eq!(out[0].block, range(HEAP + 16, 60));
    }
    // More bytes not requested than the slot has.
    let out = slots(0b0001, &[(16, header(0, 0, 5)), (80, 61)]);
    assert!(out[0].damaged);
}
