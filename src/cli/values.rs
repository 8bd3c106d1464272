//! Values of arguments that the library names.

use coremap::dotnet::Generation;
use coremap::map::Kind;
use coremap::units;

/// A kind of region by its name.
pub(super) fn kind(name: &str) -> Result<Kind, String> {
    Kind::from_name(name).ok_or_else(|| {
        let all: Vec<&str> = Kind::ALL.iter().map(|k| k.name()).collect();
        format!("no such kind; there are {}", all.join(", "))
    })
}

/// A generation by its name, or by its number alone.
pub(super) fn generation(name: &str) -> Result<Generation, String> {
    let found = match name {
        "0" => Some(Generation::Gen0),
        "1" => Some(Generation::Gen1),
        "2" => Some(Generation::Gen2),
        _ => Generation::from_name(name),
    };
    found.ok_or_else(|| {
        let all: Vec<&str> = Generation::ALL.iter().map(|g| g.name()).collect();
        format!("no such generation; there are {}", all.join(", "))
    })
}

/// Bytes of a unit; a letter alone is of 1,024, no unit at all is bytes.
fn unit_bytes(unit: &str) -> Option<u64> {
    match unit {
        "" => Some(1),
        letter if letter.len() == 1 && letter != "b" => units::multiple(&format!("{letter}ib")),
        unit => units::multiple(unit),
    }
}

/// A size in bytes: `4GiB`, `1.5G`, `500MB`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let wrong = || "a size is a number with a unit, as 4GiB, 1.5GiB or 500MB".to_owned();
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let bytes = unit_bytes(&unit).ok_or_else(wrong)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let number = |digits: &str| if digits.len() <= 9 { digits.parse::<u64>().ok() } else { None };
    let (Some(whole), Some(part)) = (number(whole), number(fraction)) else { return Err(wrong()) };
    let part = u128::from(part) * u128::from(bytes) / 10u128.pow(fraction.len() as u32);
    let size = u128::from(whole) * u128::from(bytes) + part;
    u64::try_from(size).ok().filter(|&n| n > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let good = [
            ("4GiB", 4 << 30),
            ("4g", 4 << 30),
            ("1.5 GiB", 3 << 29),
            ("500MB", 500_000_000),
            ("123", 123),
            ("2tb", 2_000_000_000_000),
        ];
        for (text, bytes) in good {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "4 pounds", "-1GiB", "1e9", "1.2.3", "0", "99999999999999999999", "4GiBs", ".", "1."] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
