//! Parsers for values of options.

use std::ffi::OsStr;
use std::sync::LazyLock;
use std::time::Duration;

use clap::Arg;
use clap::builder::{PossibleValue, TypedValueParser};
use coremap::commands::{Condition, ConditionError, Scope};
use coremap::map::Kind;
use coremap::program::HotSpotGeneration;
use coremap::program::units;
use coremap::report::Generation;

/// Reasons why the value of an option is invalid. Each message names the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ValueError {
    #[error("unknown kind; use {}", kinds().join(", "))]
    Kind,
    #[error("unknown generation; use {}", generations().join(", "))]
    Generation,
    #[error(transparent)]
    Condition(#[from] ConditionError),
    #[error("a size is a number above 0 with a unit, e.g. 85k, 1MB or 4GiB; without one it is in bytes")]
    Size,
    #[error("unknown unit '{unit}'; use KiB, MiB, GiB, TiB (1,024), KB, MB, GB, TB (1,000) or B")]
    SizeUnit { unit: String },
    #[error("a time is a number with a unit, e.g. 10s or 500ms")]
    Time,
    #[error("unknown unit '{unit}'; use ms, s, m or h")]
    TimeUnit { unit: String },
}

/// A parser with its own error messages, and the names that completions propose.
#[derive(Clone)]
pub(super) struct Named<T> {
    read: fn(&str) -> Result<T, ValueError>,
    names: fn() -> Vec<&'static str>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Named<T> {
    type Value = T;

    fn parse_ref(&self, command: &clap::Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        TypedValueParser::parse_ref(&self.read, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}

/// Parses the name of a kind of region.
pub(super) fn kind() -> Named<Kind> {
    Named { read: read_kind, names: kinds }
}

fn kinds() -> Vec<&'static str> {
    Kind::ALL.iter().map(|k| k.name()).collect()
}

/// Parses the name of a generation of any runtime.
pub(super) fn generation() -> Named<&'static str> {
    Named { read: read_generation, names: generations }
}

/// Names of the generations of all runtimes, .NET's first.
fn generations() -> Vec<&'static str> {
    let of_dotnet = Generation::ALL.iter().map(|g| g.name());
    of_dotnet.chain(HotSpotGeneration::ALL.iter().map(|g| g.name())).collect()
}

/// Parses a condition on the kinds of a summary.
pub(super) fn summary_condition() -> Named<Condition> {
    Named {
        read: |text| Ok(Condition::parse(text, Scope::Summary)?),
        names: || SUMMARY.iter().map(String::as_str).collect(),
    }
}

/// Parses a condition on the differences of a diff.
pub(super) fn diff_condition() -> Named<Condition> {
    Named { read: |text| Ok(Condition::parse(text, Scope::Diff)?), names: || DIFF.iter().map(String::as_str).collect() }
}

static SUMMARY: LazyLock<Vec<String>> = LazyLock::new(|| conditions("in_core", "threads.count"));
static DIFF: LazyLock<Vec<String>> = LazyLock::new(|| conditions("delta", "threads.delta"));

/// Beginnings of conditions: each kind with its most used column.
fn conditions(column: &str, threads: &str) -> Vec<String> {
    let kinds = Kind::ALL.iter().map(|k| k.name().to_lowercase());
    let names = std::iter::once("total".to_owned()).chain(kinds).map(|name| format!("{name}.{column}"));
    names.chain([threads.to_owned()]).collect()
}

fn read_kind(name: &str) -> Result<Kind, ValueError> {
    Kind::from_name(name).ok_or(ValueError::Kind)
}

/// Parses the name of a generation, or the number of one of .NET's.
fn read_generation(name: &str) -> Result<&'static str, ValueError> {
    let numbered = [("0", Generation::Gen0), ("1", Generation::Gen1), ("2", Generation::Gen2)];
    let by_number = numbered.iter().find(|(number, _)| *number == name).map(|(_, generation)| generation.name());
    let by_name = || generations().into_iter().find(|known| known.eq_ignore_ascii_case(name));
    by_number.or_else(by_name).ok_or(ValueError::Generation)
}

/// Returns the bytes of a unit. A single letter is a multiple of 1,024; no unit means bytes.
fn unit_bytes(unit: &str) -> Option<u64> {
    match unit {
        "" => Some(1),
        letter if letter.len() == 1 && letter != "b" => units::multiple(&format!("{letter}ib")),
        unit => units::multiple(unit),
    }
}

/// Maximum number of digits: the product with the largest unit fits in 128 bits.
const MAX_DIGITS: usize = 18;

/// Parses a size in bytes, greater than 0: `4GiB`, `1.5G`, `500MB`.
pub(super) fn size(text: &str) -> Result<u64, ValueError> {
    Some(bytes(text)?).filter(|n| *n > 0).ok_or(ValueError::Size)
}

/// Parses a size in bytes, which may be 0: `85000`, `85k`, `1MB`.
pub(super) fn bytes(text: &str) -> Result<u64, ValueError> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let number = |digits: &str| if digits.len() <= MAX_DIGITS { digits.parse::<u64>().ok() } else { None };
    let (Some(whole), Some(part)) = (number(whole), number(fraction)) else { return Err(ValueError::Size) };
    let of_unit = unit_bytes(&unit).ok_or(ValueError::SizeUnit { unit })?;
    let part = u128::from(part) * u128::from(of_unit) / 10u128.pow(fraction.len() as u32);
    let size = u128::from(whole) * u128::from(of_unit) + part;
    u64::try_from(size).map_err(|_| ValueError::Size)
}

/// Parses a duration: `10s`, `500ms`, `2m`, `1h`. Without a unit it is in seconds.
pub(super) fn duration(text: &str) -> Result<Duration, ValueError> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit.trim() {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => f64::NAN,
    };
    let number: f64 = number.parse().unwrap_or(f64::NAN);
    if seconds.is_nan() && !number.is_nan() {
        return Err(ValueError::TimeUnit { unit: unit.trim().to_owned() });
    }
    Duration::try_from_secs_f64(number * seconds).map_err(|_| ValueError::Time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, millis) in [("10s", 10_000), ("500ms", 500), ("1.5", 1500), ("2m", 120_000), ("1h", 3_600_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "-1s", "10 years", "1e99"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_units() {
        let good = [
            ("4GiB", 4 << 30),
            ("4g", 4 << 30),
            ("1.5 GiB", 3 << 29),
            ("500MB", 500_000_000),
            ("123", 123),
            ("85k", 87_040),
            ("1MB", 1_000_000),
            ("10000000000", 10_000_000_000),
            ("2tb", 2_000_000_000_000),
        ];
        for (text, bytes) in good {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        assert_eq!(bytes("0"), Ok(0));
        for text in ["", "GiB", "4 pounds", "-1GiB", "1e9", "1.2.3", "0", "99999999999999999999", "4GiBs", ".", "1."] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
