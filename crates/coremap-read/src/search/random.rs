//! Compares the engine with a naive scan of every address, on random memory.

use crate::addr::{Addr, AddrRange};
use crate::limits;
use crate::progress::Progress;
use crate::search::hex;
use crate::search::scan::{Sizes, search_sized};
use crate::search::testcore::{Fallible, Load, core, hole, load};
use crate::search::utf16::encode;
use crate::search::*;

/// Seeded xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A pattern, and its naive scan.
struct Case {
    text: &'static str,
    pattern: Pattern,
    naive: Vec<(HitEncoding, Naive)>,
}

enum Naive {
    Everywhere(hex::Masked),
    Leftmost(regex::bytes::Regex),
}

fn cases() -> Fallible<Vec<Case>> {
    let texts = ["a", "aa", "ab", "aba", "abab", "a\nb"];
    let hexes = ["00", "0000", "61 ?? 62", "6? ?0 61", "?? 00 61", "6? 6?", "00 00 ?? 00 00 00 62"];
    // Each with its form over UTF-16, written by hand.
    let regexes = [
        ("a{3}", r"(?:a\x00){3}"),
        ("[ab]+", r"(?:[ab]\x00)+"),
        (
            "(?s)aa|ab.",
            r"a\x00a\x00|a\x00b\x00(?:[\x00-\xff][\x00-\xd7\xe0-\xff]|[\x00-\xff][\xd8-\xdb][\x00-\xff][\xdc-\xdf])",
        ),
        ("a[^b]*b", ""),
        (r"^a+", ""),
        (r"\bab*\b", ""),
        ("b$", ""),
        (r"\x00{2}", ""),
        (r"\x00*a", ""),
        ("ab|ba", r"a\x00b\x00|b\x00a\x00"),
    ];
    let mut out = Vec::new();
    for text in texts {
        for ignore_case in [false, true] {
            let pattern = Pattern::new(text, PatternOptions { ignore_case, ..Default::default() })?;
            let exact = |bytes| Naive::Everywhere(hex::Masked::exact(bytes));
            let naive =
                vec![(HitEncoding::Utf8, exact(text.as_bytes().to_vec())), (HitEncoding::Utf16, exact(encode(text)))];
            out.push(Case { text, pattern, naive });
        }
    }
    for text in hexes {
        let pattern = Pattern::new(text, PatternOptions { hex: true, ..Default::default() })?;
        out.push(Case { text, pattern, naive: vec![(HitEncoding::Hex, Naive::Everywhere(hex::parse(text)?))] });
    }
    for (text, wide) in regexes {
        let build = |pattern, unicode| {
            regex::bytes::RegexBuilder::new(pattern).multi_line(true).unicode(unicode).build().map(Naive::Leftmost)
        };
        let mut naive = vec![(HitEncoding::Utf8, build(text, true)?)];
        let mut encoding = Encoding::Utf8;
        if !wide.is_empty() {
            encoding = Encoding::Both;
            naive.push((HitEncoding::Utf16, build(&format!("(?s-u){wide}"), false)?));
        }
        let pattern = Pattern::new(text, PatternOptions { regex: true, encoding, ..Default::default() })?;
        out.push(Case { text, pattern, naive });
    }
    Ok(out)
}

impl Case {
    fn hits(&self, spans: &[(u64, Vec<u8>)]) -> Vec<Hit> {
        let mut out = Vec::new();
        for (base, bytes) in spans {
            for (encoding, naive) in &self.naive {
                let mut hit = |at: usize, len: usize| {
                    out.push(Hit { address: Addr::new(base + at as u64), len: len as u32, encoding: *encoding });
                };
                match naive {
                    Naive::Everywhere(masked) => {
                        let len = masked.value.len();
                        let at = bytes.windows(len).enumerate().filter(|(_, window)| masked.matches(window));
                        at.for_each(|(at, _)| hit(at, len));
                    }
                    Naive::Leftmost(regex) => regex.find_iter(bytes).for_each(|m| hit(m.start(), m.len())),
                }
            }
        }
        out.sort_by_key(|h| (h.address, h.encoding));
        out
    }

    fn is_regex(&self) -> bool {
        self.naive.iter().any(|(_, naive)| matches!(naive, Naive::Leftmost(_)))
    }
}

/// Returns segments with some gaps, shuffled in the file, and the contiguous memory that
/// they form. If `pages`, they are whole pages and some are holes.
fn memory(random: &mut Random, pages: bool) -> (Vec<Load>, Vec<(u64, Vec<u8>)>) {
    let (mut loads, mut spans) = (Vec::new(), Vec::<(u64, Vec<u8>)>::new());
    let mut at = 0x1000;
    for _ in 0..1 + random.below(12) {
        let gap = random.one_in(3);
        at += u64::from(gap);
        let zeros = if pages { 200 } else { 1 + 9 * random.below(3) };
        let most = if random.one_in(2) { 4 } else { 90 };
        let len = if pages { 4096 } else { 1 + random.below(most) };
        let is_hole = pages && random.one_in(3);
        let mut byte = || if is_hole || !random.one_in(zeros) { 0 } else { b"ab\0\n"[random.below(4) as usize] };
        let mut bytes: Vec<u8> = (0..len).map(|_| byte()).collect();
        if !is_hole && pages {
            // Matches should cross the borders of holes.
            for at in [0, 1, 4092, 4093, 4094, 4095] {
                bytes[at] = b"ab\0"[random.below(3) as usize];
            }
        }
        match spans.last_mut() {
            Some((_, span)) if !gap => span.extend(&bytes),
            _ => spans.push((at, bytes.clone())),
        }
        let position = random.below(loads.len() as u64 + 1) as usize;
        loads.insert(position, if is_hole { hole(at, bytes.len()) } else { load(at, &bytes) });
        at += len;
    }
    (loads, spans)
}

#[test]
fn random_memory_agrees_with_a_naive_scan() -> Fallible {
    let mut random = Random(0x5eed);
    let cases = cases()?;
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pools = [pool(1)?, pool(4)?];
    let mut found_in_all = 0;
    for round in 0..120 {
        let pages = round % 10 == 0;
        let (loads, spans) = memory(&mut random, pages);
        let core = core(&loads, if pages { 4096 } else { 1 + random.below(9) })?;
        let scale = if pages { 100 } else { 1 };
        let low = 0x1000 + random.below(200) * scale;
        let range = |a, b| AddrRange::new(Addr::new(a), Addr::new(b));
        let filter = [range(low, low + random.below(100)), range(low + 120, low + 300 * scale)];
        let limit = random.below(20) as usize;
        let sizes = Sizes {
            task: (1 + random.below(60)) * scale,
            block: ((1 + random.below(40)) * scale) as usize,
            page: 1 + random.below(16 * scale) as usize,
            chunk: 1 + random.below(16) as usize,
            wave: 1 + random.below(4) as usize,
        };
        for (i, case) in cases.iter().enumerate() {
            let text = case.text;
            let naive = case.hits(&spans);
            if naive.iter().any(|h| h.len as usize > limits::MAX_MATCH) {
                continue;
            }
            found_in_all += naive.len();
            let run = |ranges, limit| search_sized(&core, &case.pattern, ranges, limit, &Progress::silent(), sizes);
            let found = pools[(round + i) % 2].install(|| run(None, None));
            assert_eq!(found.hits, naive, "round {round}: {text:?}");
            let first = pools[(round + i + 1) % 2].install(|| run(None, Some(limit)));
            assert_eq!(first.hits[..], naive[..limit.min(naive.len())], "round {round}: {text:?} limit {limit}");
            assert_eq!(first.total, naive.len() as u64);
            if !case.is_regex() {
                let filtered = run(Some(&filter), None);
                let inside = |h: &&Hit| filter.iter().any(|r| r.contains(h.address));
                let want: Vec<Hit> = naive.iter().filter(inside).copied().collect();
                assert_eq!(filtered.hits, want, "round {round}: {text:?} in {filter:?}");
            }
        }
    }
    assert!(found_in_all > 40_000, "{found_in_all} hits are no test");
    Ok(())
}
