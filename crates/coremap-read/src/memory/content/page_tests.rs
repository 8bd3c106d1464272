use super::*;

const NONE: fn(u64) -> Option<DestinationId> = |_| None;

fn of(bytes: impl IntoIterator<Item = u8>) -> Content {
    let page: Vec<u8> = bytes.into_iter().take(4096).collect();
    assert_eq!(page.len(), 4096);
    Content::of_page(&page, &NONE)
}

/// Pseudo-random numbers (xorshift), the same in every run.
fn random() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(0x2545_f491_4f6c_dd1du64), |&x| {
        let x = x ^ (x << 13);
        let x = x ^ (x >> 7);
        Some(x ^ (x << 17))
    })
}

#[test]
fn what_is_filled_is_told_with_what() {
    assert_eq!(of([0; 4096]), Content::Zero);
    assert_eq!(of([0x16; 4096]), Content::Byte(0x16));
    assert_eq!(of([1, 2, 3, 4, 5, 6, 7, 8].into_iter().cycle()), Content::Word(0x0807_0605_0403_0201));
    let mut almost = [0x16; 4096];
    almost[4095] = 0x17;
    assert_eq!(of(almost), Content::Mixed);
}

#[test]
fn what_stands_for_values_that_went_is_no_content() {
    let (gone, kept) = (OVERWRITTEN.to_le_bytes(), 0x7f12_3456_7890_u64.to_le_bytes());
    let page = |words: &[[u8; 8]]| of(words.concat().into_iter().cycle());
    assert_eq!(page(&[gone]), Content::Overwritten);
    assert_eq!(page(&[gone, [0; 8], kept, [0; 8]]), Content::Overwritten);
    assert_ne!(page(&[gone, kept, kept, [0; 8]]), Content::Overwritten);
}

#[test]
fn text_is_told_in_its_encodings() {
    let english = "The quick brown fox jumps over the lazy dog.\n";
    assert_eq!(of(english.bytes().cycle()), Content::Utf8);
    assert_eq!(of("Съешь ещё этих мягких булок. ".bytes().cycle()), Content::Utf8);
    assert_eq!(of("敏捷的棕色狐狸跳过懒狗。".bytes().cycle()), Content::Utf8);
    assert_eq!(of(english.encode_utf16().flat_map(u16::to_le_bytes).cycle()), Content::Utf16);
}

#[test]
fn numbers_with_a_fraction_are_none_that_count() {
    assert_eq!(of((1..).flat_map(|n| (f64::from(n) * 0.37).sin().to_le_bytes())), Content::Float);
    assert_eq!(of((1u16..).flat_map(|n| (f32::from(n) * 0.37).to_le_bytes())), Content::Float);
    assert_eq!(of((1u64..).flat_map(u64::to_le_bytes)), Content::Mixed);
    assert_eq!(of((1u32..).flat_map(u32::to_le_bytes)), Content::Mixed);
}

/// Each byte value is as frequent as the others.
#[test]
fn ramps_are_not_random() {
    for step in [1, 3, 7, 255] {
        assert_eq!(of((0..).map(|n: u32| (n * step) as u8)), Content::Mixed, "{step}");
    }
    // Each line of a picture begins a little later. Some lines are longer.
    assert_eq!(of((0..).map(|n: u32| (n + n / 300 * 7) as u8)), Content::Mixed);
    assert_eq!(of((0..).map(|n: u32| (n * n / 64) as u8)), Content::Mixed);
}

#[test]
fn random_bytes_and_flags() {
    assert_eq!(of(random().flat_map(u64::to_le_bytes)), Content::Random);
    assert_eq!(of(random().map(|n| if n % 5 == 0 { 0xff } else { 0 })), Content::Bitmap);
    // Mostly zeros with a few other words are no bitmap.
    let word = |n: u64| if n.is_multiple_of(50) { n } else { 0 };
    assert_eq!(of(random().flat_map(|n| word(n).to_le_bytes())), Content::Sparse);
}

/// A page filled with `words`.
fn page(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_le_bytes).take(4096).collect()
}

#[test]
fn pointers_are_what_is_mapped() {
    let mapped = |word: u64| (0x7f00_0000_0000..0x7f00_1000_0000).contains(&word).then_some(DestinationId(7));
    let nodes = page((0..).flat_map(|n: u64| [0x7f00_0000_1000 + n * 64, n, 3, 0]));
    assert_eq!(Content::of_page(&nodes, &mapped), Content::Pointers(Some(DestinationId(7))));
    assert_eq!(Content::of_page(&nodes, &NONE), Content::Mixed);
    let records = page((0..).flat_map(|n: u64| [0x7f00_0000_1000 + n * 64, n, 3, 0, 0, n * 7, 1, 1, 1, 1]));
    assert_eq!(Content::of_page(&records, &mapped), Content::Structures);
}

#[test]
fn pointers_lead_into_what_most_of_them_do() {
    // One destination per 16 MiB.
    let parts = |word: u64| (word >> 32 == 0x7f00).then_some(DestinationId((word as u32 >> 24) as u16));
    let of = |share: u64, other: u64| {
        let to = move |n: u64| if n % 100 < share { 2 } else { other };
        let words = (0..).map(move |n: u64| 0x7f00_0000_0000 + (to(n) << 24) + n * 16);
        Content::of_page(&page(words), &parts)
    };
    assert_eq!(of(100, 0), Content::Pointers(Some(DestinationId(2))));
    assert_eq!(of(80, 3), Content::Pointers(Some(DestinationId(2))));
    assert_eq!(of(60, 3), Content::Pointers(None));
    assert_eq!(of(20, 9), Content::Pointers(Some(DestinationId(9))));
}

#[test]
fn less_than_a_word_is_no_error() {
    assert_eq!(Content::of_page(&[], &NONE), Content::Zero);
    assert_eq!(Content::of_page(&[1, 2, 3], &NONE), Content::Mixed);
}
