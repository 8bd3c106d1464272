//! Handmade GC info, bit by bit.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::targets::Arch;

fn x64(version: u64) -> Encoding {
    Encoding::of(Arch::X86_64, version).unwrap()
}

/// A counter for tests that don't check how far the info was read.
fn nobody() -> &'static Cell<u64> {
    Box::leak(Box::default())
}

/// Writes what `Bits` reads.
#[derive(Clone, Default)]
struct Writer(Vec<bool>);

impl Writer {
    fn put(mut self, value: u64, count: u32) -> Writer {
        self.0.extend((0..count).map(|i| value >> i & 1 != 0));
        self
    }

    fn unsigned(mut self, mut value: u64, base: u32) -> Writer {
        loop {
            let (chunk, rest) = (value & ((1 << base) - 1), value >> base);
            self = self.put(chunk, base).put(u64::from(rest != 0), 1);
            if rest == 0 {
                return self;
            }
            value = rest;
        }
    }

    /// Writes a signed number of one chunk.
    fn signed(self, value: i64, base: u32) -> Writer {
        assert!(value >= -(1 << (base - 1)) && value < 1 << (base - 1), "{value} fits one chunk");
        self.put(value.cast_unsigned() & ((1 << base) - 1), base).put(0, 1)
    }

    fn align(mut self) -> Writer {
        self.0.resize(self.0.len().next_multiple_of(8), false);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let byte = |bits: &[bool]| bits.iter().enumerate().fold(0, |b, (i, &bit)| b | u8::from(bit) << i);
        self.0.chunks(8).map(byte).collect()
    }
}

/// A slim header with 100 bytes of code, frames by rbp, and calls that return to 11 and 51. Slots: rbx, r10, `rsp+8`
/// pinned, and untracked `rbp-16`.
fn two_calls(version: u64) -> Writer {
    let w = Writer::default().put(0, 1).put(1, 1);
    let w = if version < 4 { w.put(1, 2) } else { w };
    let w = w.unsigned(100, 8).unsigned(2, 2);
    let back = u64::from(version < 4);
    // Offsets below 100 take 7 bits.
    let w = w.put(11 - back, 7).put(51 - back, 7);
    let w = w.put(1, 1).unsigned(2, 2).put(1, 1).unsigned(1, 2).unsigned(1, 1);
    // rbx has no flags, so r10 is stored as a delta minus one.
    let w = w.unsigned(3, 3).put(0, 2).unsigned(10 - 3 - 1, 2);
    let w = w.put(1, 2).signed(1, 6).put(2, 2);
    w.put(2, 2).signed(-2, 6).put(0, 2)
}

fn rbx() -> Slot {
    Slot { place: SlotLocation::Register(3), interior: false, pinned: false }
}

fn r10() -> Slot {
    Slot { place: SlotLocation::Register(10), interior: false, pinned: false }
}

fn on_stack() -> Slot {
    Slot { place: SlotLocation::Stack(StackBase::Sp, 8), interior: false, pinned: true }
}

fn untracked() -> Slot {
    Slot { place: SlotLocation::Stack(StackBase::Register, -16), interior: false, pinned: false }
}

#[test]
fn a_call_has_its_live_slots() {
    for version in [2, 3, 4] {
        // Sets not shared. First call: rbx and r10; second call: the stack slot.
        let bytes = two_calls(version).put(0, 1).put(0b011, 3).put(0b100, 3).bytes();
        let info = GcInfo::read(&bytes, x64(version), nobody()).unwrap();
        assert_eq!((info.header.code_length, info.header.base_register), (100, Some(5)));
        let live = info.live(11, StopKind::Call).unwrap();
        // A callee may overwrite r10, so it is not live in a call.
        assert_eq!((live.tracked, live.untracked, live.safe), (vec![rbx()], vec![untracked()], true));
        assert_eq!(info.live(51, StopKind::Call).unwrap().tracked, [on_stack()]);
        let between = info.live(30, StopKind::Call).unwrap();
        assert_eq!((between.tracked.len(), between.untracked.len(), between.safe), (0, 1, false));
        assert_eq!(info.check(), Ok(2));
    }
}

#[test]
fn the_return_address_counts_from_version_4_on() {
    let bytes = |version| two_calls(version).put(0, 1).put(0b001, 3).put(0b100, 3).bytes();
    let (old, new) = (bytes(3), bytes(4));
    let old = GcInfo::read(&old, x64(3), nobody()).unwrap();
    let new = GcInfo::read(&new, x64(4), nobody()).unwrap();
    assert!(old.live(11, StopKind::Call).unwrap().safe && !old.live(10, StopKind::Call).unwrap().safe);
    assert!(new.live(11, StopKind::Call).unwrap().safe && !new.live(12, StopKind::Call).unwrap().safe);
    // Up to 8, threads are not stopped right after a call.
    let older = bytes(2);
    let older = GcInfo::read(&older, x64(2), nobody()).unwrap();
    assert!(!older.live(11, StopKind::Interrupted).unwrap().safe);
    assert!(old.live(11, StopKind::Interrupted).unwrap().safe && new.live(11, StopKind::Interrupted).unwrap().safe);
}

#[test]
fn calls_share_sets_of_live_slots() {
    // Pointers of 4 bits: the first call's set is at bit 0, the second call's at bit 4. The first has three bits, the
    // second is encoded as runs: skip two, take one.
    let head = two_calls(4).put(1, 1).unsigned(3, 3).put(0, 4).put(4, 4).align();
    let sets = head.put(0, 1).put(0b001, 3);
    let sets = sets.put(1, 1).put(0, 1).unsigned(2, 4).unsigned(0, 2);
    let bytes = sets.bytes();
    let info = GcInfo::read(&bytes, x64(4), nobody()).unwrap();
    assert_eq!(info.live(11, StopKind::Call).unwrap().tracked, [rbx()]);
    assert_eq!(info.live(51, StopKind::Call).unwrap().tracked, [on_stack()]);
}

/// A fat header without calls: 300 bytes of code, interruptible from 10 to 210.
fn interruptible(version: u64) -> Writer {
    let w = Writer::default().put(1, 1).put(u64::from(encoding::flags::ONLY_LEAF), 10);
    let w = if version < 4 { w.put(0, 4) } else { w };
    let w = w.unsigned(300, 8).unsigned(4, 3).unsigned(0, 2).unsigned(1, 1);
    let w = w.unsigned(10, 6).unsigned(199, 6);
    // Slots: rbx, r10.
    w.put(1, 1).unsigned(2, 2).put(0, 1).unsigned(3, 3).put(0, 2).unsigned(6, 2)
}

#[test]
fn what_is_live_changes_within_a_range() {
    for version in [2, 4] {
        // 200 offsets are 4 chunks. Only the first has changes: both slots may be live in it. rbx becomes live at 5 and
        // is live at the end. r10 is dead from 40 on.
        let chunks = interruptible(version).unsigned(1, 3).put(1, 1).put(0, 3).align();
        let chunk = chunks.put(0, 1).put(0b11, 2).put(0b01, 2);
        let chunk = chunk.put(1, 1).put(5, 6).put(0, 1).put(1, 1).put(40, 6).put(0, 1);
        let bytes = chunk.bytes();
        let info = GcInfo::read(&bytes, x64(version), nobody()).unwrap();
        assert!(info.header.only_leaf);
        assert_eq!(info.header.outgoing, 32);
        let at = |offset| info.live(offset, StopKind::Interrupted).unwrap();
        assert_eq!(at(10).tracked, [r10()]);
        assert_eq!(at(10 + 5).tracked, [rbx(), r10()]);
        assert_eq!(at(10 + 39).tracked, [rbx(), r10()]);
        assert_eq!(at(10 + 40).tracked, [rbx()]);
        // A chunk without changes has the final state of the previous one.
        assert_eq!(at(209).tracked, [rbx()]);
        assert!(at(209).safe && !at(9).safe && !at(210).safe);
        // In a call r10 belongs to the callee.
        let called = 10 + 5 + u32::from(version < 4);
        assert_eq!(info.live(called, StopKind::Call).unwrap().tracked, [rbx()]);
        assert_eq!(info.check(), Ok(2));
    }
}

#[test]
fn unknown_versions_are_not_guessed() {
    assert!(Encoding::of(Arch::X86_64, 1).is_none() && Encoding::of(Arch::X86_64, 6).is_none());
    assert!(Encoding::of(Arch::Aarch64, 3).is_none() && Encoding::of(Arch::Aarch64, 4).is_some());
}

#[test]
fn aarch64_counts_instructions() {
    let w = Writer::default().put(0, 1).put(1, 1).unsigned(25, 8).unsigned(1, 3);
    // 25 instructions; the call returns to the third one.
    let w = w.put(3, 5).put(1, 1).unsigned(1, 3).put(0, 1).unsigned(19, 3).put(1, 2);
    let bytes = w.put(0, 1).put(1, 1).bytes();
    let info = GcInfo::read(&bytes, Encoding::of(Arch::Aarch64, 4).unwrap(), nobody()).unwrap();
    assert_eq!((info.header.code_length, info.header.base_register), (100, Some(29)));
    let live = info.live(12, StopKind::Call).unwrap();
    assert_eq!(live.tracked, [Slot { place: SlotLocation::Register(19), interior: true, pinned: false }]);
}

#[test]
fn where_it_ends_is_told_by_what_was_read() {
    let head = two_calls(4).put(0, 1);
    // The second call's set follows the first call's.
    let all = head.clone().put(0b011, 3).put(0b100, 3).bytes();
    let behind = [all.as_slice(), &[0xff; 16]].concat();
    let read_to = Cell::new(0);
    let info = GcInfo::read(&behind, x64(4), &read_to).unwrap();
    assert_eq!(read_to.get(), head.0.len() as u64 - 1, "all but whether calls share sets");
    info.live(51, StopKind::Call).unwrap();
    info.live(11, StopKind::Call).unwrap();
    assert_eq!(read_to.get(), head.0.len() as u64 + 6);
}

#[test]
fn what_is_cut_off_is_told() {
    let bytes = two_calls(4).put(0, 1).put(0b011, 3).put(0b100, 3).bytes();
    for len in 0..bytes.len() {
        let cut = GcInfo::read(&bytes[..len], x64(4), nobody()).and_then(|info| info.check());
        assert!(cut.is_err(), "{len} of {} bytes", bytes.len());
    }
}

/// Reads random bytes. They must be parsed or rejected in time bounded by their length.
#[test]
fn noise_is_bounded() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut read = 0;
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..16).flat_map(|_| (next() & next()).to_le_bytes()).collect();
        for version in [2, 4] {
            if let Ok(info) = GcInfo::read(&bytes, x64(version), nobody()) {
                read += 1;
                assert!(info.slots.all.len() < 8 * bytes.len());
                let _ = info.check();
                let _ = info.live(u32::MAX, StopKind::Call);
                let _ = info.live(0, StopKind::Interrupted);
            }
        }
    }
    assert!(read > 100, "some noise passes as GC info: {read}");
}
