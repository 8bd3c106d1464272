//! Damage to bytes, by a seed.

use crate::support::Rng;

/// Numbers at which something ends or overflows.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    7,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    i64::MAX as u64,
    u64::MAX,
];

/// Bytes beyond which no input grows.
const LONGEST: usize = 1 << 20;

/// One of the samples with one to eight things done to it; or noise, now and then.
pub(crate) fn damaged(samples: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    if rng.below(50) == 0 {
        return (0..rng.below(4096)).map(|_| rng.next() as u8).collect();
    }
    let one = |rng: &mut Rng| &samples[rng.below(samples.len() as u64) as usize];
    let mut bytes = one(rng).clone();
    for _ in 0..=rng.below(8) {
        change(&mut bytes, one(rng), rng);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    // Headers are at the start, and say most.
    let near = |len: usize, rng: &mut Rng| {
        let range = [64, 512, 4096, len as u64][rng.below(4) as usize].min(len as u64);
        rng.below(range) as usize
    };
    let at = near(bytes.len(), rng);
    let run = |rng: &mut Rng| 1 << rng.below(12);
    match rng.below(10) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << rng.below(8),
        1 if !bytes.is_empty() => bytes[at] = rng.next() as u8,
        // A number of 1 to 8 bytes, mostly where numbers are.
        2 | 3 => {
            let width = 1usize << rng.below(4);
            let at = if rng.below(4) == 0 { at } else { at / width * width };
            let edge = EDGES[rng.below(EDGES.len() as u64) as usize];
            let value = [edge, bytes.len() as u64, rng.next()][rng.below(3) as usize].to_le_bytes();
            if let Some(place) = bytes.get_mut(at..at + width) {
                place.copy_from_slice(&value[..width]);
            }
        }
        // One a little more or less: counts and lengths that are nearly right.
        4 => {
            let width = 1usize << rng.below(4);
            let by = rng.below(9).wrapping_sub(4);
            if let Some(place) = bytes.get_mut(at / width * width..at / width * width + width) {
                let mut value = [0; 8];
                value[..width].copy_from_slice(place);
                let value = u64::from_le_bytes(value).wrapping_add(by).to_le_bytes();
                place.copy_from_slice(&value[..width]);
            }
        }
        5 => bytes.truncate(at.max(rng.below(bytes.len() as u64 + 1) as usize)),
        6 => {
            let end = (at + run(rng)).min(bytes.len());
            bytes[at.min(end)..end].fill([0, 0xff, b'0', b'\n'][rng.below(4) as usize]);
        }
        // A part of another sample, or of this one again.
        7 | 8 => {
            let from = near(other.len(), rng);
            let part = other[from..(from + run(rng)).min(other.len())].to_vec();
            let to = if rng.below(2) == 0 { at + part.len() } else { at };
            bytes.splice(at..to.min(bytes.len()), part);
        }
        _ => {
            let end = (at + run(rng)).min(bytes.len());
            let part = bytes[at.min(end)..end].to_vec();
            let times = rng.below(16);
            bytes.splice(at..at, (0..times).flat_map(|_| part.clone()));
        }
    }
}
