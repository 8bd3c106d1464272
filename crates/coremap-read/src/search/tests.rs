//! Tests of the whole engine, on cores made by hand.

use crate::addr::{Addr, AddrRange};
use crate::core::open::Core;
use crate::progress::Progress;
use crate::search::scan::{SearchResult, Sizes, search_sized};
use crate::search::testcore::{Fallible, core, hole, load};
use crate::search::utf16::encode;
use crate::search::*;
use crate::targets::Target;

const TEXT: PatternOptions = PatternOptions { ignore_case: false, regex: false, hex: false, encoding: Encoding::Both };
const FOLD: PatternOptions = PatternOptions { ignore_case: true, ..TEXT };
const REGEX: PatternOptions = PatternOptions { regex: true, ..TEXT };
const HEX: PatternOptions = PatternOptions { hex: true, ..TEXT };
const NARROW: PatternOptions = PatternOptions { encoding: Encoding::Utf8, ..REGEX };

/// Sizes that put borders everywhere.
const TINY: Sizes = Sizes { task: 48, block: 16, page: 8, chunk: 8, wave: 3 };

fn find(core: &Core, text: &str, options: PatternOptions) -> Fallible<Vec<(u64, u32, &'static str)>> {
    let pattern = Pattern::new(text, options)?;
    let found = search(core, &pattern, None, None, &Progress::silent());
    assert_eq!(found.total, found.hits.len() as u64);
    let tiny = search_sized(core, &pattern, None, None, &Progress::silent(), TINY);
    assert_eq!(found, tiny, "{text}: other sizes, other hits");
    Ok(found.hits.iter().map(|h| (h.address.get(), h.len, h.encoding.name())).collect())
}

fn refused(text: &str, options: PatternOptions) -> String {
    Pattern::new(text, options).err().map(|e| e.to_string()).unwrap_or_default()
}

#[test]
fn a_match_crosses_borders_of_segments_whatever_their_order_in_the_file() -> Fallible {
    let core =
        core(&[load(0x3000, b"tos!"), load(0x1000, b"xxxxcen"), load(0x3004, b"cen"), load(0x1007, b"tos centos")], 1)?;
    assert_eq!(find(&core, "centos", TEXT)?, [(0x1004, 6, "utf8"), (0x100b, 6, "utf8")]);
    assert_eq!(find(&core, "c[a-z]+s", NARROW)?, [(0x1004, 6, "utf8"), (0x100b, 6, "utf8")]);
    assert_eq!(find(&core, "CENTOS", FOLD)?.len(), 2);
    Ok(())
}

#[test]
fn a_match_may_lie_in_many_tiny_segments() -> Fallible {
    let core = core(&[load(0x1006, b"n"), load(0x1005, b"e"), load(0x1000, b"....c"), load(0x1007, b"tos")], 8)?;
    assert_eq!(find(&core, "centos", TEXT)?, [(0x1004, 6, "utf8")]);
    assert_eq!(find(&core, r"\bcen(tos)?\b", NARROW)?, [(0x1004, 6, "utf8")]);
    assert_eq!(find(&core, r"c.nt", NARROW)?, [(0x1004, 4, "utf8")]);
    Ok(())
}

#[test]
fn text_is_found_in_both_forms_and_overlapping() -> Fallible {
    let mut bytes = b"aaaa\0".to_vec();
    bytes.extend(encode("x Grüße 😀 x"));
    let core = core(&[load(0x1000, &bytes)], 1)?;
    assert_eq!(find(&core, "aa", TEXT)?, [(0x1000, 2, "utf8"), (0x1001, 2, "utf8"), (0x1002, 2, "utf8")]);
    assert_eq!(find(&core, "AA", FOLD)?.len(), 3);
    assert_eq!(find(&core, "aa", NARROW)?, [(0x1000, 2, "utf8"), (0x1002, 2, "utf8")]);
    assert_eq!(find(&core, "Grüße", TEXT)?, [(0x1009, 10, "utf16")]);
    assert_eq!(find(&core, "[\u{1f5ff}-\u{1f601}] x", REGEX)?, [(0x1015, 8, "utf16")]);
    assert_eq!(find(&core, r"\w+ \p{Emoji} x", REGEX)?, [(0x1009, 20, "utf16")]);
    assert_eq!(find(&core, r"(?i)gRÜẞe", PatternOptions { encoding: Encoding::Utf16, ..REGEX })?.len(), 1);
    Ok(())
}

#[test]
fn case_folds_beyond_ascii() -> Fallible {
    let mut bytes = "straße STRAẞE École éCOLE".as_bytes().to_vec();
    bytes.extend(encode("ÉCOLE ẞ"));
    let core = core(&[load(0x1000, &bytes)], 1)?;
    let lens = |text| {
        Ok::<_, Box<dyn std::error::Error>>(find(&core, text, FOLD)?.iter().map(|h| (h.1, h.2)).collect::<Vec<_>>())
    };
    assert_eq!(lens("STRAßE")?, [(7, "utf8"), (8, "utf8")]);
    assert_eq!(lens("ß")?, [(2, "utf8"), (3, "utf8"), (2, "utf16")]);
    assert_eq!(lens("école")?, [(6, "utf8"), (6, "utf8"), (10, "utf16")]);
    assert_eq!(lens("e.ole")?, []);
    Ok(())
}

#[test]
fn an_address_is_found_where_a_word_begins_whatever_the_borders() -> Fallible {
    let word = 0x7fe7_44a0_fdd0_u64.to_le_bytes();
    // One across two segments, one at an odd address, two adjacent ones.
    let core = core(
        &[load(0x1000, &[&word[..], &word, &[0; 3], &word, &[0; 5], &word[..4]].concat()), load(0x1024, &word[4..])],
        8,
    )?;
    let pattern = Pattern::pointer(Addr::new(0x7fe7_44a0_fdd0));
    for sizes in [TINY, Sizes { task: 4096, block: 4096, page: 4096, chunk: 256, wave: 3 }] {
        let found = search_sized(&core, &pattern, None, None, &Progress::silent(), sizes);
        let places: Vec<u64> = found.hits.iter().map(|h| h.address.get()).collect();
        assert_eq!((places, found.total), (vec![0x1000, 0x1008, 0x1020], 3));
    }
    Ok(())
}

#[test]
fn hex_has_wildcards() -> Fallible {
    let core = core(&[load(0x1000, &[0, 0xde, 0xad, 0x99, 0xbe, 0xde, 0xad, 0, 0xbe, 0x4d, 0x5a])], 1)?;
    assert_eq!(find(&core, "de ad ?? be", HEX)?, [(0x1001, 4, "hex"), (0x1005, 4, "hex")]);
    assert_eq!(find(&core, "dead0?be", HEX)?, [(0x1005, 4, "hex")]);
    assert_eq!(find(&core, "0x4d 0x5a", HEX)?, [(0x1009, 2, "hex")]);
    assert_eq!(find(&core, "?? de", HEX)?, [(0x1000, 2, "hex"), (0x1004, 2, "hex")]);
    assert_eq!(find(&core, "4? 5?", HEX)?, [(0x1009, 2, "hex")]);
    assert_eq!(find(&core, "5a ??", HEX)?, []);
    assert_eq!(find(&core, "00", HEX)?, [(0x1000, 1, "hex"), (0x1007, 1, "hex")]);
    Ok(())
}

#[test]
fn holes_are_zeros_that_need_no_reading() -> Fallible {
    const MIB: usize = 1 << 20;
    let mut data = vec![b'.'; 8192];
    data[..4].copy_from_slice(b"\0ab\0");
    data[8189..].copy_from_slice(b"abc");
    let loads = [hole(0x10_0000, MIB), load(0x20_0000, &data), hole(0x20_2000, MIB), load(0x30_2000, b"end")];
    let core = core(&loads, 4096)?;
    assert!(core.extents().data_bytes() < MIB as u64, "the file system keeps no holes");
    let scanned = (2 * MIB + 8192 + 3) as u64;
    let run = |text, options, ranges| -> Fallible<SearchResult> {
        let found = search(&core, &Pattern::new(text, options)?, ranges, Some(3), &Progress::silent());
        let tiny = Sizes { task: 5000, block: 1024, page: 64, chunk: 32, wave: 7 };
        let tiny = search_sized(&core, &Pattern::new(text, options)?, ranges, Some(3), &Progress::silent(), tiny);
        assert_eq!(found, tiny);
        assert!(ranges.is_some() || found.scanned == scanned);
        Ok(found)
    };
    // In UTF-16, "c" is at the end of the data and its zero in the hole.
    assert_eq!(run("c", TEXT, None)?.hits.iter().map(|h| h.address.get()).collect::<Vec<_>>(), [0x20_1fff, 0x20_1fff]);
    assert_eq!(run("00 00 61 62", HEX, None)?.hits[0].address, Addr::new(0x20_0000 - 1));
    assert_eq!(run("63 00 00", HEX, None)?.hits[0].address, Addr::new(0x20_1fff));
    assert_eq!(run("0065", HEX, None)?.hits[0].address, Addr::new(0x30_1fff));
    let zeros = run("00 00", HEX, None)?;
    // The zero at the start of the data adds a match with the hole before it.
    assert_eq!((zeros.total, zeros.hits[0].address), (2 * MIB as u64 - 1, Addr::new(0x10_0000)));
    assert!(zeros.capped);
    let inside = [AddrRange::sized(Addr::new(0x11_0000), 100)];
    let found = run("00 00", HEX, Some(&inside))?;
    assert_eq!((found.total, found.scanned), (100, 100));
    assert_eq!(run("0? 00 ?0", HEX, Some(&inside))?.total, 100);
    assert_eq!(run(r"\x00{10}", NARROW, Some(&inside))?.total, 10);
    Ok(())
}

#[test]
fn the_lowest_hits_are_kept_and_all_are_counted() -> Fallible {
    let bytes: Vec<u8> = b"ab".repeat(1000);
    let core = core(&[load(0x1000, &bytes)], 1)?;
    for (text, options) in [("a", TEXT), ("a.", NARROW)] {
        let pattern = Pattern::new(text, options)?;
        for limit in [0, 1, 7, 24, 25, 999, 1000, 5000] {
            let found = search_sized(&core, &pattern, None, Some(limit), &Progress::silent(), TINY);
            let kept: Vec<u64> = found.hits.iter().map(|h| h.address.get()).collect();
            let want: Vec<u64> = (0..limit.min(1000) as u64).map(|i| 0x1000 + 2 * i).collect();
            assert_eq!((kept, found.total, found.capped), (want, 1000, limit < 1000), "{text} {limit}");
        }
    }
    Ok(())
}

#[test]
fn a_filter_is_about_where_a_match_starts() -> Fallible {
    let core = core(&[load(0x1000, b"needle needle needle")], 1)?;
    let pattern = Pattern::new("needle", TEXT)?;
    let starts = |ranges: &[(u64, u64)]| {
        let ranges: Vec<_> = ranges.iter().map(|&(a, b)| AddrRange::new(Addr::new(a), Addr::new(b))).collect();
        let found = search_sized(&core, &pattern, Some(&ranges), None, &Progress::silent(), TINY);
        (found.hits.iter().map(|h| h.address.get() - 0x1000).collect::<Vec<_>>(), found.scanned)
    };
    assert_eq!(starts(&[(0, u64::MAX)]), (vec![0, 7, 14], 20));
    assert_eq!(starts(&[(0x1007, 0x1008)]), (vec![7], 1));
    assert_eq!(starts(&[(0x1001, 0x1007), (0x1008, 0x100e)]), (vec![], 12));
    assert_eq!(starts(&[(0x0, 0x1001), (0x100e, 0x2000)]), (vec![0, 14], 7));
    assert_eq!(starts(&[]), (vec![], 0));
    Ok(())
}

#[test]
fn what_makes_no_sense_is_refused_in_words() -> Fallible {
    assert!(refused("a*", REGEX).contains("empty string"));
    assert!(refused("", TEXT).contains("empty"));
    assert!(refused(r"[^\s\S]", REGEX).contains("can't match"));
    assert!(refused(r"\Aab", REGEX).contains("start and end of a text"));
    assert!(refused("a(b", REGEX).contains("unclosed"));
    assert!(refused(r"(\w{1000}){1000}", REGEX).contains("too big"));
    assert!(refused(&"a".repeat(1 << 20), TEXT).contains("maximum"));
    assert!(refused("ab", PatternOptions { regex: true, ..HEX }).contains("--regex"));
    assert!(refused("a$", PatternOptions { encoding: Encoding::Utf16, ..REGEX }).contains("look-around"));
    let half = Pattern::new("a$", REGEX)?;
    assert!(half.note().is_some_and(|n| n.contains("UTF-8 only") && n.contains("look-around")));
    assert_eq!(Pattern::new("a", REGEX)?.note(), None);
    let core = core(&[load(0x1000, b"a\nb a\0a")], 1)?;
    assert_eq!(find(&core, "a$", REGEX)?, [(0x1000, 1, "utf8"), (0x1006, 1, "utf8")]);
    assert_eq!(find(&core, "^.", NARROW)?, [(0x1000, 1, "utf8"), (0x1002, 1, "utf8")]);
    Ok(())
}
