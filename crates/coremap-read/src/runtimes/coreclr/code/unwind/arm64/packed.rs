//! Unwind data packed into the RUNTIME_FUNCTION, for functions with a canonical prolog. It is expanded to the codes
//! that such a prolog and its epilog would have.
//!
//! Source: Microsoft, "ARM64 exception handling", packed unwind data and its canonical prologs. The JIT and crossgen
//! write none.

use super::{FIRST_SAVED, LR, Record};

/// Bit offset and mask of the fields.
mod field {
    pub(super) const LENGTH: (u32, u32) = (2, 0x7ff);
    /// Number of floating-point registers minus one; 0 is none.
    pub(super) const FLOATS: (u32, u32) = (13, 7);
    /// Number of registers from x19 on.
    pub(super) const INTEGERS: (u32, u32) = (16, 0xf);
    /// Whether x0 to x7 were stored.
    pub(super) const HOMES: (u32, u32) = (20, 1);
    pub(super) const LINK: (u32, u32) = (21, 3);
    /// Frame size in units of 16 bytes.
    pub(super) const FRAME: (u32, u32) = (23, 0x1ff);
}

/// Value of the low bits: part of a function, without a prolog.
const PART: u32 = 2;
const RESERVED: u32 = 3;

/// How the link register was saved: with the other registers, or with the frame pointer, signed or unsigned.
const SAVED: u32 = 1;
const CHAINED_SIGNED: u32 = 2;
const CHAINED: u32 = 3;

/// Codes without an operand.
mod code {
    pub(super) const SET_FP: u8 = 0xe1;
    pub(super) const NOP: u8 = 0xe3;
    pub(super) const END: u8 = 0xe4;
    pub(super) const END_OF_PART: u8 = 0xe5;
    pub(super) const SIGN: u8 = 0xfc;
}

fn get(data: u32, (shift, mask): (u32, u32)) -> u32 {
    data >> shift & mask
}

/// Number of instructions of the function.
pub(super) fn length(data: u32) -> u32 {
    get(data, field::LENGTH)
}

/// The equivalent .xdata record. `None` if the fields describe no canonical prolog.
pub(super) fn record(data: u32) -> Option<Record> {
    let (floats, integers) = (get(data, field::FLOATS), get(data, field::INTEGERS) as u16);
    let (homes, link) = (get(data, field::HOMES) != 0, get(data, field::LINK));
    if integers > LR - FIRST_SAVED - 1 || data & 3 == RESERVED {
        return None;
    }
    let own_link = link == SAVED;
    let integer_size = u32::from(integers) * 8 + if own_link { 8 } else { 0 };
    let float_size = if floats == 0 { 0 } else { (floats + 1) * 8 };
    let saved = (integer_size + float_size + if homes { 64 } else { 0 }).next_multiple_of(16);
    let locals = (get(data, field::FRAME) * 16).checked_sub(saved)?;
    // In the order of the prolog. The first instruction also moves the stack pointer.
    let (mut prolog, mut down) = (Vec::<Vec<u8>>::new(), saved);
    let mut save = |first: u16, second: Option<u16>, at: u32| {
        let down = std::mem::take(&mut down);
        prolog.push(saving(first, second, at, down));
    };
    let mut number = 0;
    while number < integers {
        let (first, at) = (FIRST_SAVED + number, u32::from(number) * 8);
        let pair = if number + 1 < integers { Some(first + 1) } else { own_link.then_some(LR) };
        save(first, pair, at);
        number += 2;
    }
    if own_link && integers.is_multiple_of(2) {
        save(LR, None, integer_size - 8);
    }
    let pairs = if floats == 0 { 0 } else { (floats + 1).div_ceil(2) };
    // Their values are not tracked. They count as instructions, and for their space.
    for _ in 0..pairs {
        prolog.push(plain(std::mem::take(&mut down)));
    }
    if homes {
        prolog.extend((0..4).map(|_| plain(std::mem::take(&mut down))));
    }
    let homes = if homes { prolog.len() - 4..prolog.len() } else { 0..0 };
    let chained = matches!(link, CHAINED | CHAINED_SIGNED);
    if chained && locals <= 512 {
        prolog.push(vec![0x80 | (locals / 8).checked_sub(1)? as u8]);
    } else {
        for part in [locals.min(4080), locals.saturating_sub(4080)].into_iter().filter(|&n| n > 0) {
            prolog.push(vec![0xc0 | (part >> 12) as u8, (part / 16) as u8]);
        }
        prolog.extend(chained.then(|| vec![0x40]));
    }
    let epilog: Vec<&Vec<u8>> =
        prolog.iter().enumerate().filter(|(i, _)| !homes.contains(i)).map(|(_, code)| code).collect();
    let signed = (link == CHAINED_SIGNED).then_some(code::SIGN);
    let mut codes: Vec<u8> = (data & 3 == PART).then_some(code::END_OF_PART).into_iter().collect();
    codes.extend(chained.then_some(code::SET_FP));
    codes.extend(prolog.iter().rev().flatten().copied().chain(signed).chain([code::END]));
    let index = codes.len();
    let instructions = epilog.len() + usize::from(signed.is_some()) + 1;
    codes.extend(epilog.into_iter().rev().flatten().copied().chain(signed).chain([code::END]));
    let length = length(data);
    Some(Record { length, epilogs: vec![(length.saturating_sub(instructions as u32), index)], codes })
}

/// Code of an instruction that stores only untracked registers.
fn plain(down: u32) -> Vec<u8> {
    vec![if down == 0 { code::NOP } else { (down / 16) as u8 }]
}

/// Code of a store of one or two registers.
fn saving(first: u16, second: Option<u16>, at: u32, down: u32) -> Vec<u8> {
    let (number, at, moved) = (first - FIRST_SAVED, (at / 8) as u16, (down / 8).saturating_sub(1) as u16);
    let word = match (second, down) {
        (Some(LR), 0) if first != LR - 1 => 0xd600 | (number / 2) << 6 | at,
        // This pair has no code with writeback, so it takes two: allocate, then store.
        (Some(LR), _) if first != LR - 1 => {
            let [high, low] = (0xd600 | (number / 2) << 6).to_be_bytes();
            return vec![high, low, (down / 16) as u8];
        }
        (Some(_), 0) => 0xc800 | number << 6 | at,
        (Some(_), _) => 0xcc00 | number << 6 | moved,
        (None, 0) => 0xd000 | number << 6 | at,
        (None, _) => 0xd400 | number << 5 | moved,
    };
    word.to_be_bytes().to_vec()
}
