use super::*;
use crate::memory::content::{DestinationId, within};

const START: u64 = 0x7f00_0000_0000;

/// Adjacent pages: the given number of each content.
fn pages(of: &[(Content, u64)]) -> (AddrRange, Vec<Filled>) {
    let mut at = Addr::new(START);
    let mut runs = Vec::new();
    for &(content, count) in of {
        let range = AddrRange::sized(at, count * PAGE);
        runs.push(Filled { range, content });
        at = range.end;
    }
    (AddrRange::new(Addr::new(START), at), runs)
}

/// Number of pages and predominant content of each stretch.
fn cut(of: &[(Content, u64)]) -> Vec<(u64, Content)> {
    let (range, runs) = pages(of);
    let out = stretches(range, runs);
    assert_eq!(out.first().map(|s| s.range.start), Some(range.start));
    assert_eq!(out.last().map(|s| s.range.end), Some(range.end));
    assert!(out.windows(2).all(|w| w[0].range.end == w[1].range.start), "{out:?}");
    let seen: u64 = out.iter().map(|s| s.makeup.seen()).sum();
    assert_eq!(seen, range.len());
    out.iter().filter_map(|s| Some((s.range.len() / PAGE, s.makeup.content()?))).collect()
}

const A: Content = Content::Byte(0x14);
const B: Content = Content::Byte(0x16);
const TEXT: Content = Content::Utf8;

#[test]
fn fills_of_merged_mappings_are_told_apart() {
    assert_eq!(cut(&[(A, 100), (B, 7), (A, 30)]), [(100, A), (7, B), (30, A)]);
    assert_eq!(cut(&[(A, 100), (TEXT, 50), (Content::Random, 400)]), [(100, A), (50, TEXT), (400, Content::Random)]);
    // The last page of a block is partly filled.
    assert_eq!(cut(&[(A, 100), (Content::Mixed, 1), (B, 100), (Content::Sparse, 1)]), [(101, A), (101, B)]);
}

#[test]
fn a_few_other_pages_are_no_border() {
    assert_eq!(cut(&[(TEXT, 100), (Content::Mixed, 5), (TEXT, 100)]), [(205, TEXT)]);
    // A head, as allocators and runtimes write one.
    assert_eq!(cut(&[(Content::Structures, 2), (TEXT, 200)]), [(202, TEXT)]);
}

#[test]
fn zeros_go_with_what_stands_before_them() {
    assert_eq!(cut(&[(A, 100), (Content::Zero, 900), (B, 100), (Content::Zero, 1)]), [(1000, A), (101, B)]);
    // Text with gaps is text, even if no run of it is long.
    let sparse: Vec<(Content, u64)> = [(TEXT, 2), (Content::Zero, 3)].repeat(20);
    assert_eq!(cut(&[&[(A, 10)], sparse.as_slice()].concat()), [(10, A), (100, TEXT)]);
    assert_eq!(cut(&[(Content::Zero, 50), (A, 10), (B, 10)]), [(60, A), (10, B)]);
    assert_eq!(cut(&[(Content::Zero, 9)]), [(9, Content::Zero)]);
}

#[test]
fn what_keeps_changing_is_one_stretch() {
    let heap: Vec<(Content, u64)> = [(Content::Structures, 3), (Content::Mixed, 2), (Content::Sparse, 1)].repeat(50);
    assert_eq!(cut(&heap), [(300, Content::Mixed)]);
    let after = [&[(A, 100)], heap.as_slice(), &[(B, 100)]].concat();
    assert_eq!(cut(&after), [(100, A), (300, Content::Mixed), (100, B)]);
}

#[test]
fn pointers_are_parted_by_what_they_lead_into() {
    let (x, y) = (Content::Pointers(Some(DestinationId(1))), Content::Pointers(Some(DestinationId(2))));
    assert_eq!(cut(&[(x, 100), (y, 100)]), [(100, x), (100, y)]);
    // Two destinations that alternate.
    assert_eq!(cut(&[(x, 3), (y, 3)].repeat(20)), [(120, Content::Pointers(None))]);
}

#[test]
fn what_is_not_in_the_core_is_of_no_content() {
    let range = AddrRange::sized(Addr::new(START), 8 * PAGE);
    assert_eq!(stretches(range, []), [Stretch { range, makeup: Makeup::default() }]);
    assert_eq!(Makeup::default().content(), None);
    // A hole between two dumped pieces belongs to the first of them.
    let (_, mut runs) = pages(&[(A, 20), (B, 20)]);
    runs[1].range = AddrRange::sized(runs[1].range.start.saturating_add(5 * PAGE), 20 * PAGE);
    let all = AddrRange::sized(Addr::new(START), 45 * PAGE);
    let sizes: Vec<u64> = stretches(all, runs).iter().map(|s| s.range.len() / PAGE).collect();
    assert_eq!(sizes, [25, 20]);
}

#[test]
fn shares_are_of_what_was_written() {
    let (range, runs) = pages(&[(A, 90), (Content::Mixed, 10), (Content::Zero, 900)]);
    let makeup = Makeup::of(runs);
    assert_eq!((makeup.seen(), makeup.written()), (range.len(), 100 * PAGE));
    assert_eq!((makeup.content(), makeup.percent(A)), (Some(A), 90));
    let (_, runs) = pages(&[(A, 89), (Content::Mixed, 11)]);
    assert_eq!(Makeup::of(runs).content(), Some(Content::Mixed));
}

#[test]
fn runs_of_a_range_are_found_by_address() {
    let (range, runs) = pages(&[(A, 4), (B, 4), (A, 4)]);
    let middle = AddrRange::sized(range.start.saturating_add(4 * PAGE), 4 * PAGE);
    assert_eq!(within(&runs, middle).collect::<Vec<_>>(), runs[1..2]);
    assert_eq!(within(&runs, range).collect::<Vec<_>>(), runs);
    // Cut at both ends.
    let around = AddrRange::sized(range.start.saturating_add(3 * PAGE), 6 * PAGE);
    let pages: Vec<u64> = within(&runs, around).map(|run| run.range.len() / PAGE).collect();
    assert_eq!(pages, [1, 4, 1]);
}
