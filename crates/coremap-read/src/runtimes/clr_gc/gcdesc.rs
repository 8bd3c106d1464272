//! GCDesc: the offsets of references in the objects of a type. It ends right before the MethodTable and grows
//! downwards.
//!
//! Source: src/coreclr/gc/gcdesc.h: CGCDesc (the number of series, right before the MethodTable), CGCDescSeries
//! (seriessize, startoffset), val_serie_item (nptrs, skip), go_through_object.

use crate::addr::{Addr, WORD};
use crate::limits;
use crate::memory::Memory;

/// Size in bytes of the ObjHeader before an object. The object's size includes it. So from the MethodTable on, an
/// object has this many bytes less than its size.
const HEADER: u64 = 8;

/// A run of adjacent references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// Offset of the first reference from the object's start, in bytes.
    pub start: u64,
    /// Length in bytes, minus the object's size.
    pub size_delta: i64,
}

/// A run of adjacent references and the gap after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunAndGap {
    /// Number of references.
    pub count: u32,
    /// Bytes without references that follow them.
    pub skip: u32,
}

/// Offsets of the references in the objects of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum References {
    /// The type has no references.
    #[default]
    None,
    /// At fixed offsets. An array of references has one series, which grows with the array.
    Series(Box<[Series]>),
    /// At fixed offsets of each element, in an array of value types.
    Elements {
        /// Offset of the first element from the object's start.
        start: u64,
        /// Runs and gaps that make up one element.
        items: Box<[RunAndGap]>,
    },
}

impl References {
    /// Reads the GCDesc of the MethodTable at `at`, whose type must have references. `None` if the GCDesc is not in the
    /// core or implausible.
    pub fn read(memory: &dyn Memory, at: Addr) -> Option<References> {
        let word = |back: u64| memory.u64(at.checked_sub(back)?).ok();
        let count = word(WORD)? as i64;
        let many = usize::try_from(count.unsigned_abs()).ok().filter(|&n| n <= limits::MAX_GC_SERIES)?;
        if count >= 0 {
            let series: Option<Vec<Series>> = (1..=many as u64)
                .map(|i| {
                    let back = WORD + 2 * WORD * i;
                    Some(Series { size_delta: word(back)? as i64, start: word(back - WORD)? })
                })
                .collect();
            let mut series = series?;
            series.sort_by_key(|s| s.start);
            return Some(if series.is_empty() { References::None } else { References::Series(series.into()) });
        }
        let start = word(2 * WORD)?;
        let items: Option<Vec<RunAndGap>> = (0..many as u64)
            .map(|i| {
                let item = word(3 * WORD + WORD * i)?;
                Some(RunAndGap { count: item as u32, skip: (item >> 32) as u32 })
            })
            .collect();
        let mut items = items?;
        // An item of length 0 has no effect, and a stride of 0 would never end.
        items.retain(|r| r.count > 0 || r.skip > 0);
        let stride = items.iter().map(|r| u64::from(r.count) * WORD + u64::from(r.skip)).fold(0, u64::saturating_add);
        (stride > 0 && stride.is_multiple_of(WORD)).then(|| References::Elements { start, items: items.into() })
    }

    /// Visits the references that are not null in an object of `size` bytes. `words` are the object's words from its
    /// MethodTable on, as far as they were read. `visit` gets offset and value, and returns whether to continue.
    #[inline(always)]
    pub fn visit(&self, words: &[[u8; 8]], size: u64, visit: &mut impl FnMut(u64, u64) -> bool) -> bool {
        self.visit_from(0, words, size, visit)
    }

    /// Like [`References::visit`], but skips the references before offset `least` without reading them.
    #[inline(always)]
    pub fn visit_from(
        &self,
        least: u64,
        words: &[[u8; 8]],
        size: u64,
        visit: &mut impl FnMut(u64, u64) -> bool,
    ) -> bool {
        // The claimed size may exceed the words that were read.
        let room = size.saturating_sub(HEADER).min((words.len() as u64).saturating_mul(WORD));
        let mut row = |start: u64, len: u64| {
            // Cut at the end of the object: what follows belongs to the next one.
            let end = start.saturating_add(len).min(room);
            let (from, to) = ((start.max(least) / WORD) as usize, (end / WORD) as usize);
            let have = words.get(from..to).unwrap_or_default();
            for (i, word) in have.iter().enumerate() {
                let value = u64::from_le_bytes(*word);
                if value != 0 && !visit((from + i) as u64 * WORD, value) {
                    return false;
                }
            }
            true
        };
        match self {
            References::None => true,
            References::Series(all) => all.iter().all(|s| {
                let len = (size as i64).saturating_add(s.size_delta);
                row(s.start, u64::try_from(len).unwrap_or(0))
            }),
            References::Elements { start, items } => {
                let stride =
                    items.iter().map(|r| u64::from(r.count) * WORD + u64::from(r.skip)).fold(0, u64::saturating_add);
                let before = least.saturating_sub(*start).checked_div(stride).unwrap_or(0);
                let mut at = start.saturating_add(before.saturating_mul(stride));
                while at < room {
                    for item in items {
                        let len = u64::from(item.count) * WORD;
                        if !row(at, len) {
                            return false;
                        }
                        at = at.saturating_add(len).saturating_add(u64::from(item.skip));
                    }
                }
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Fault, FaultKind};

    /// Words that end at 0x1000, the address of the MethodTable.
    struct Before(Vec<u64>);

    impl Memory for Before {
        fn read(&self, addr: Addr, buf: &mut [u8]) -> Result<(), Fault> {
            let fault = Fault { addr, kind: FaultKind::Unmapped };
            let bytes: Vec<u8> = self.0.iter().flat_map(|w| w.to_le_bytes()).collect();
            let from = addr.get().checked_sub(0x1000 - bytes.len() as u64).ok_or(fault)? as usize;
            buf.copy_from_slice(bytes.get(from..from.saturating_add(buf.len())).ok_or(fault)?);
            Ok(())
        }

        fn readable(&self, _: Addr, max: u64) -> u64 {
            max
        }
    }

    fn read(words: &[i64]) -> Option<References> {
        References::read(&Before(words.iter().map(|&w| w as u64).collect()), Addr::new(0x1000))
    }

    fn visited(references: &References, words: &[u64], size: u64) -> Vec<(u64, u64)> {
        let bytes: Vec<[u8; 8]> = words.iter().map(|w| w.to_le_bytes()).collect();
        let mut out = Vec::new();
        assert!(references.visit(&bytes, size, &mut |offset, value| {
            out.push((offset, value));
            true
        }));
        out
    }

    #[test]
    fn series_of_an_object() {
        // Objects of 0x30 bytes with one reference at 8 and two at 0x18. The series with the higher offset is nearer to
        // the MethodTable.
        let found = read(&[8 - 0x30, 8, 16 - 0x30, 0x18, 2]);
        let Some(references) = found else { panic!("no GCDesc") };
        assert_eq!(visited(&references, &[1, 2, 3, 4, 0, 6], 0x30), [(8, 2), (0x18, 4)]);
    }

    #[test]
    fn an_array_of_references_is_one_series() {
        let Some(references) = read(&[-0x18, 0x10, 1]) else { panic!("no GCDesc") };
        // Three elements: 0x18 bytes and 3 words.
        assert_eq!(visited(&references, &[9, 3, 10, 11, 12, 13], 0x30), [(0x10, 10), (0x18, 11), (0x20, 12)]);
    }

    #[test]
    fn an_array_of_value_types_repeats() {
        // Elements of a reference and a number, from 0x10 on.
        let Some(references) = read(&[1 | 8 << 32, 0x10, -1]) else { panic!("no GCDesc") };
        let words = [9, 2, 21, 22, 23, 24, 25];
        assert_eq!(visited(&references, &words, 0x18 + 2 * 16), [(0x10, 21), (0x20, 23)]);
    }

    #[test]
    fn a_visit_goes_on_where_it_was_left() {
        let words: Vec<[u8; 8]> = (0..40_u64).map(|i| (100 + i).to_le_bytes()).collect();
        let size = 8 * words.len() as u64;
        for gc_desc in
            [&[8 - 0x140, 8, 16 - 0x140, 0x18, 2][..], &[-0x18, 0x10, 1], &[2 | 16 << 32, 1 | 8 << 32, 0x10, -2]]
        {
            let Some(references) = read(gc_desc) else { panic!("no GCDesc") };
            let from = |least| {
                let mut out = Vec::new();
                references.visit_from(least, &words, size, &mut |offset, value| {
                    out.push((offset, value));
                    true
                });
                out
            };
            let all = from(0);
            assert!(all.len() > 2);
            for (i, &(offset, _)) in all.iter().enumerate() {
                assert_eq!(from(offset), all[i..]);
                assert_eq!(from(offset + 8), all[i + 1..]);
            }
        }
    }

    #[test]
    fn series_that_lie_stay_in_the_object() {
        let Some(references) = read(&[i64::MAX, 8, i64::MIN, 0x10, 2]) else { panic!("no GCDesc") };
        assert_eq!(visited(&references, &[1, 2, 3, 4], 0x18), [(8, 2)]);
        let Some(references) = read(&[0x7fff_ffff, -8, 1]) else { panic!("no GCDesc") };
        assert_eq!(visited(&references, &[1, 2, 3, 4], 0x18), []);
    }

    /// Processor time of this thread, in whole seconds.
    fn processor_time() -> i64 {
        rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec
    }

    #[test]
    fn a_claimed_size_costs_no_more_than_the_words_that_are_there() {
        // Elements of one reference and no gap; then a GCDesc with items of length 0.
        let Some(references) = read(&[1, 0x10, -1]) else { panic!("no GCDesc") };
        let begun = processor_time();
        assert_eq!(visited(&references, &[9, 2, 21, 22], 1 << 36), [(0x10, 21), (0x18, 22)]);
        let mut words = vec![0; 400];
        words.extend([1, 0x10, -401]);
        let Some(references) = read(&words) else { panic!("no GCDesc") };
        let objects = vec![7_u64; 4096];
        assert_eq!(visited(&references, &objects, 1 << 36).len(), objects.len() - 2);
        assert!(processor_time() - begun < 1, "the claimed size was walked");
    }

    #[test]
    fn what_has_no_end_is_refused() {
        assert_eq!(read(&[0, 0x10, -1]), None);
        assert_eq!(read(&[0, 0x10, i64::MIN]), None);
        assert_eq!(read(&[i64::MAX]), None);
        assert_eq!(read(&[5 << 32, 0x10, -1]), None);
    }
}
