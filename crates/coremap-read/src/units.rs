//! Sizes, counts and times as text, and units as people type them.

/// Units of a size in lower case, with their bytes: `kib` and so on are powers of 1,024 (IEC 80000-13), `kb` and so on
/// powers of 1,000.
const MULTIPLES: [(&str, u64); 9] = [
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
];

/// Bytes in a unit, in any case: 1,024 for `KiB` or `kib`. `None` if the unit is unknown.
pub fn multiple(unit: &str) -> Option<u64> {
    MULTIPLES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|&(_, bytes)| bytes)
}

/// Formats a size in IEC units: `8.00 MiB`, `2.41 GiB`.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    // 1023.999 would be printed as 1024.00 of the smaller unit.
    if value >= 1023.995 && unit > 0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.2} {}", UNITS[unit]) }
}

/// Formats a size like [`human`], without trailing zeros: `8 MiB`, `1.5 MiB`.
pub fn round(bytes: u64) -> String {
    let text = human(bytes);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// Formats a number with its noun: `1 stack`, `8 stacks`, `1,204 entries`.
pub fn count(n: u64, one: &str) -> String {
    format!("{} {}", exact(n), noun(n, one))
}

/// The noun `one` in the form that follows the number `n`: `stack` or `stacks`.
pub fn noun(n: u64, one: &str) -> String {
    if n == 1 {
        return one.to_owned();
    }
    let vowel_before_y = ["ay", "ey", "oy", "uy"].iter().any(|end| one.ends_with(end));
    match one.strip_suffix('y') {
        Some(stem) if !vowel_before_y => format!("{stem}ies"),
        _ if ["s", "x", "ch", "sh"].iter().any(|end| one.ends_with(end)) => format!("{one}es"),
        _ => format!("{one}s"),
    }
}

/// Formats seconds since 1970 as UTC: `2026-11-23T13:02:36Z`.
pub fn moment(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from March, so that leap days are at their end; 400 years have 146,097 days. 1970-01-01 is day
    // 719,468 after 1 March of the year 0.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Formats a number with thousands separators: `2,649,239,552`.
pub fn exact(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Formats a duration in its two largest units: `42 s`, `10 min`, `1 h 20 min`, `3 days 4 h`.
pub fn seconds(time: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(86_400.0, "day"), (3600.0, "h"), (60.0, "min"), (1.0, "s")];
    let whole = time.max(0.0).round();
    if time < 10.0 && time.fract() != 0.0 {
        return format!("{time:.1} s");
    }
    let first = UNITS.iter().position(|(length, _)| whole >= *length).unwrap_or(UNITS.len() - 1);
    let (length, unit) = UNITS[first];
    let said = |number: f64, unit: &str| {
        let number = exact(number as u64);
        if unit == "day" && number != "1" { format!("{number} days") } else { format!("{number} {unit}") }
    };
    let more = UNITS.get(first + 1).map(|(smaller, unit)| ((whole % length) / smaller, *unit));
    let head = said((whole / length).floor(), unit);
    match more.map(|(number, unit)| (number.floor(), unit)) {
        Some((number, unit)) if number > 0.0 => format!("{head} {}", said(number, unit)),
        _ => head,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_words() {
        assert_eq!(human(0), "0 B");
        assert_eq!(human(1023), "1023 B");
        assert_eq!(human(1 << 20), "1.00 MiB");
        assert_eq!(human((1 << 20) - 1), "1.00 MiB");
        assert_eq!(human(u64::MAX), "16.00 EiB");
        assert_eq!(round(3 << 19), "1.5 MiB");
        assert_eq!(round(8 << 20), "8 MiB");
    }

    #[test]
    fn times_in_words() {
        for (time, said) in [
            (0.0, "0 s"),
            (0.3, "0.3 s"),
            (42.0, "42 s"),
            (59.6, "1 min"),
            (600.0, "10 min"),
            (605.0, "10 min 5 s"),
            (4800.0, "1 h 20 min"),
            (90_000.0, "1 day 1 h"),
            (3.0 * 86_400.0, "3 days"),
            (1e9, "11,574 days 1 h"),
        ] {
            assert_eq!(seconds(time), said, "{time}");
        }
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!(count(1, "stack"), "1 stack");
        assert_eq!(count(0, "stack"), "0 stacks");
        assert_eq!(count(1204, "entry"), "1,204 entries");
        assert_eq!((noun(2, "key"), noun(2, "address")), ("keys".into(), "addresses".into()));
    }

    #[test]
    fn moments_are_of_the_calendar() {
        // As printed by date(1).
        assert_eq!(moment(0), "1970-01-01T00:00:00Z");
        assert_eq!(moment(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(moment(1_795_438_956), "2026-11-23T13:02:36Z");
        assert_eq!(moment(4_102_444_799), "2099-12-31T23:59:59Z");
    }

    #[test]
    fn thousands_are_set_off() {
        assert_eq!(exact(0), "0");
        assert_eq!(exact(999), "999");
        assert_eq!(exact(1000), "1,000");
        assert_eq!(exact(u64::MAX), "18,446,744,073,709,551,615");
    }
}
