//! Text of values: numbers, and structs of the core library that represent one value.
//!
//! Sources: System.Private.CoreLib: Decimal.cs, DateTime.cs, TimeSpan.cs, Guid.cs. Their bytes are the same from .NET
//! Core 3.1 to 10. Text is as ToString returns it in the invariant culture (times in ISO 8601).

use crate::addr::Addr;
use crate::memory::Memory;

/// CorElementType (ECMA-335 II.23.1.16).
pub(super) mod cor {
    pub(in crate::runtimes::coreclr::object) const BOOLEAN: u8 = 0x02;
    pub(in crate::runtimes::coreclr::object) const CHAR: u8 = 0x03;
    pub(in crate::runtimes::coreclr::object) const I1: u8 = 0x04;
    pub(in crate::runtimes::coreclr::object) const U1: u8 = 0x05;
    pub(in crate::runtimes::coreclr::object) const I2: u8 = 0x06;
    pub(in crate::runtimes::coreclr::object) const U2: u8 = 0x07;
    pub(in crate::runtimes::coreclr::object) const I4: u8 = 0x08;
    pub(in crate::runtimes::coreclr::object) const U4: u8 = 0x09;
    pub(in crate::runtimes::coreclr::object) const I8: u8 = 0x0a;
    pub(in crate::runtimes::coreclr::object) const U8: u8 = 0x0b;
    pub(in crate::runtimes::coreclr::object) const R4: u8 = 0x0c;
    pub(in crate::runtimes::coreclr::object) const R8: u8 = 0x0d;
    pub(in crate::runtimes::coreclr::object) const PTR: u8 = 0x0f;
    pub(in crate::runtimes::coreclr::object) const BYREF: u8 = 0x10;
    pub(in crate::runtimes::coreclr::object) const I: u8 = 0x18;
    pub(in crate::runtimes::coreclr::object) const U: u8 = 0x19;
    pub(in crate::runtimes::coreclr::object) const FNPTR: u8 = 0x1b;
}

/// A tick is 100 ns.
const TICKS_PER_SECOND: u64 = 10_000_000;
const TICKS_PER_MINUTE: u64 = 60 * TICKS_PER_SECOND;
const SECONDS_PER_DAY: u64 = 86_400;

/// Mask of a DateTime's ticks. The two bits above are its kind.
const TICKS: u64 = (1 << 62) - 1;

/// 9999-12-31T23:59:59.9999999
const MAX_TICKS: u64 = 3_155_378_975_999_999_999;

/// Maximum number of digits after a decimal's point.
const MAX_SCALE: u32 = 28;

/// A struct of the core library that represents one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CoreStruct {
    Decimal,
    DateTime,
    DateTimeOffset,
    DateOnly,
    TimeOnly,
    TimeSpan,
    Guid,
    Int128,
    UInt128,
    Nullable,
}

impl CoreStruct {
    /// Returns the struct with this full name, for a type of the core library.
    pub(super) fn of(name: &str) -> Option<CoreStruct> {
        Some(match name {
            "System.Decimal" => CoreStruct::Decimal,
            "System.DateTime" => CoreStruct::DateTime,
            "System.DateTimeOffset" => CoreStruct::DateTimeOffset,
            "System.DateOnly" => CoreStruct::DateOnly,
            "System.TimeOnly" => CoreStruct::TimeOnly,
            "System.TimeSpan" => CoreStruct::TimeSpan,
            "System.Guid" => CoreStruct::Guid,
            "System.Int128" => CoreStruct::Int128,
            "System.UInt128" => CoreStruct::UInt128,
            _ if name.starts_with("System.Nullable<") => CoreStruct::Nullable,
            _ => return None,
        })
    }

    /// Text of the value at `addr`. `None` if the struct is described by its fields, or if the bytes are no valid
    /// value.
    pub(super) fn text(self, memory: &dyn Memory, addr: Addr) -> Option<String> {
        match self {
            CoreStruct::Decimal => decimal(le(memory, addr)?),
            CoreStruct::DateTime => date_time(u64::from_le_bytes(le(memory, addr)?)),
            CoreStruct::DateOnly => {
                let days = u32::from_le_bytes(le(memory, addr)?);
                (u64::from(days) <= MAX_TICKS / TICKS_PER_SECOND / SECONDS_PER_DAY).then(|| date(u64::from(days)))
            }
            CoreStruct::TimeOnly => {
                let ticks = u64::from_le_bytes(le(memory, addr)?);
                (ticks < SECONDS_PER_DAY * TICKS_PER_SECOND).then(|| time(ticks))
            }
            CoreStruct::TimeSpan => Some(time_span(i64::from_le_bytes(le(memory, addr)?))),
            CoreStruct::Guid => Some(guid(le(memory, addr)?)),
            CoreStruct::Int128 => Some(i128::from_le_bytes(le(memory, addr)?).to_string()),
            CoreStruct::UInt128 => Some(u128::from_le_bytes(le(memory, addr)?).to_string()),
            CoreStruct::DateTimeOffset | CoreStruct::Nullable => None,
        }
    }
}

fn le<const N: usize>(memory: &dyn Memory, addr: Addr) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    memory.read(addr, &mut bytes).ok().map(|()| bytes)
}

/// Bytes: flags (scale in bits 16 to 23, sign in bit 31), then the high, low and middle 32 bits of the number.
fn decimal(bytes: [u8; 16]) -> Option<String> {
    let word = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
    let (flags, high, low, middle) = (word(0), word(4), word(8), word(12));
    let scale = flags >> 16 & 0xff;
    if scale > MAX_SCALE || flags & 0x7f00_ffff != 0 {
        return None;
    }
    let number = u128::from(high) << 64 | u128::from(middle) << 32 | u128::from(low);
    let digits = format!("{number:0width$}", width = scale as usize + 1);
    let (whole, fraction) = digits.split_at_checked(digits.len() - scale as usize)?;
    let sign = if flags >> 31 != 0 && number != 0 { "-" } else { "" };
    Some(if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

fn date_time(data: u64) -> Option<String> {
    let ticks = data & TICKS;
    let kind = match data >> 62 {
        0 => "",
        1 => "Z",
        _ => " (local time)",
    };
    Some(format!("{}{kind}", moment(ticks)?))
}

/// Date and time for ticks since 0001-01-01. `None` if out of range.
fn moment(ticks: u64) -> Option<String> {
    let day = SECONDS_PER_DAY * TICKS_PER_SECOND;
    (ticks <= MAX_TICKS).then(|| format!("{}T{}", date(ticks / day), time(ticks % day)))
}

/// Text of a DateTimeOffset. `data`: the moment in UTC; `minutes`: offset of its clock from UTC.
pub(super) fn date_time_offset(data: u64, minutes: i64) -> Option<String> {
    let ticks = (data & TICKS).checked_add_signed(minutes.checked_mul(TICKS_PER_MINUTE.cast_signed())?)?;
    let sign = if minutes < 0 { '-' } else { '+' };
    let ahead = minutes.unsigned_abs();
    (ahead <= 14 * 60).then_some(())?;
    Some(format!("{}{sign}{:02}:{:02}", moment(ticks)?, ahead / 60, ahead % 60))
}

/// Date for a number of days since 0001-01-01, in the proleptic Gregorian calendar.
fn date(days: u64) -> String {
    let (centuries, rest) = (days / 146_097, days % 146_097);
    // The last day of 400 years, and of 4 years, belongs to the previous year.
    let century = (rest / 36_524).min(3);
    let rest = rest - century * 36_524;
    let (fours, rest) = (rest / 1461, rest % 1461);
    let year_of_four = (rest / 365).min(3);
    let mut day = rest - year_of_four * 365;
    let year = centuries * 400 + century * 100 + fours * 4 + year_of_four + 1;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", day + 1)
}

/// Time for the ticks of a day.
fn time(ticks: u64) -> String {
    let seconds = ticks / TICKS_PER_SECOND;
    let mut out = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = ticks % TICKS_PER_SECOND;
    if fraction != 0 {
        out.push_str(format!(".{fraction:07}").trim_end_matches('0'));
    }
    out
}

/// Same as TimeSpan.ToString("c"): `[-][d.]hh:mm:ss[.fffffff]`.
fn time_span(ticks: i64) -> String {
    let (sign, all) = (if ticks < 0 { "-" } else { "" }, ticks.unsigned_abs());
    let day = SECONDS_PER_DAY * TICKS_PER_SECOND;
    let days = if all >= day { format!("{}.", all / day) } else { String::new() };
    let seconds = all % day / TICKS_PER_SECOND;
    let fraction = match all % TICKS_PER_SECOND {
        0 => String::new(),
        fraction => format!(".{fraction:07}"),
    };
    format!("{sign}{days}{:02}:{:02}:{:02}{fraction}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Bytes: a 32-bit number, two 16-bit numbers, then bytes in the order of the text.
fn guid(bytes: [u8; 16]) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    let rest: Vec<String> = rest.iter().map(|b| format!("{b:02x}")).collect();
    let (first, second) = rest.split_at(2);
    format!(
        "{:08x}-{:04x}-{:04x}-{}-{}",
        u32::from_le_bytes([a, b, c, d]),
        u16::from_le_bytes([e, f]),
        u16::from_le_bytes([g, h]),
        first.concat(),
        second.concat()
    )
}

/// Whether fields of this element type are numbers, characters or pointers.
pub(super) fn is_plain(element: u8) -> bool {
    use cor as e;
    matches!(element, e::BOOLEAN..=e::R8 | e::PTR | e::BYREF | e::I | e::U | e::FNPTR)
}

/// Text of a number, character or pointer.
pub(super) fn number(memory: &dyn Memory, element: u8, addr: Addr) -> Option<String> {
    use cor as e;
    Some(match element {
        e::BOOLEAN => (le::<1>(memory, addr)? != [0]).to_string(),
        e::CHAR => {
            let unit = u16::from_le_bytes(le(memory, addr)?);
            char::from_u32(u32::from(unit))
                .filter(|c| !c.is_control())
                .map_or_else(|| format!("{unit:#x}"), |c| format!("'{c}'"))
        }
        e::I1 => i8::from_le_bytes(le(memory, addr)?).to_string(),
        e::U1 => u8::from_le_bytes(le(memory, addr)?).to_string(),
        e::I2 => i16::from_le_bytes(le(memory, addr)?).to_string(),
        e::U2 => u16::from_le_bytes(le(memory, addr)?).to_string(),
        e::I4 => i32::from_le_bytes(le(memory, addr)?).to_string(),
        e::U4 => u32::from_le_bytes(le(memory, addr)?).to_string(),
        e::I8 => i64::from_le_bytes(le(memory, addr)?).to_string(),
        e::U8 => u64::from_le_bytes(le(memory, addr)?).to_string(),
        e::R4 => float(f32::from_le_bytes(le(memory, addr)?)),
        e::R8 => float(f64::from_le_bytes(le(memory, addr)?)),
        _ => format!("{:#x}", u64::from_le_bytes(le(memory, addr)?)),
    })
}

/// The shortest text that reads back as the same number. Uses an exponent where there would be many zeros.
fn float<F: Into<f64> + Copy + std::fmt::Display + std::fmt::LowerExp>(value: F) -> String {
    let size = value.into().abs();
    if size == 0.0 || !size.is_finite() || (1e-5..1e15).contains(&size) {
        value.to_string()
    } else {
        format!("{value:e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        let of = |flags: u32, high: u32, low: u32, middle: u32| {
            let mut bytes = [0; 16];
            for (chunk, word) in bytes.chunks_exact_mut(4).zip([flags, high, low, middle]) {
                chunk.copy_from_slice(&word.to_le_bytes());
            }
            decimal(bytes)
        };
        // Decimal.GetBits gives low, middle, high, flags.
        assert_eq!(of(4 << 16, 0, 123_456_789, 0).as_deref(), Some("12345.6789"));
        assert_eq!(of(0x8000_0000 | 2 << 16, 0, 5, 0).as_deref(), Some("-0.05"));
        assert_eq!(of(0x8000_0000, 0, 0, 0).as_deref(), Some("0"));
        assert_eq!(of(0, u32::MAX, u32::MAX, u32::MAX).as_deref(), Some("79228162514264337593543950335"));
        assert_eq!(of(1, 0, 0, 0), None);
        assert_eq!(of(29 << 16, 0, 0, 0), None);
    }

    #[test]
    fn moments() {
        // new DateTime(2024, 2, 29, 12, 34, 56, DateTimeKind.Utc).Ticks is 638448068960000000.
        assert_eq!(date_time(638_448_068_960_000_000 | 1 << 62).as_deref(), Some("2024-02-29T12:34:56Z"));
        assert_eq!(date_time(0).as_deref(), Some("0001-01-01T00:00:00"));
        assert_eq!(date_time(MAX_TICKS).as_deref(), Some("9999-12-31T23:59:59.9999999"));
        assert_eq!(date_time(MAX_TICKS + 1), None);
        // DateTime.UnixEpoch.
        assert_eq!(date_time(621_355_968_000_000_000).as_deref(), Some("1970-01-01T00:00:00"));
        assert_eq!(date_time_offset(621_355_968_000_000_000, -90).as_deref(), Some("1969-12-31T22:30:00-01:30"));
        assert_eq!(date_time_offset(0, -1), None);
        // Python: date(y, 1, 1) - date(1, 1, 1).
        for (year, days) in [(1999, 729_754), (2000, 730_119), (2001, 730_485)] {
            assert_eq!(date(days), format!("{year}-01-01"));
            assert_eq!(date(days - 1), format!("{}-12-31", year - 1));
        }
    }

    #[test]
    fn spans_and_guids() {
        assert_eq!(time_span(900_000_000), "00:01:30");
        assert_eq!(time_span(-1), "-00:00:00.0000001");
        assert_eq!(time_span(i64::MIN), "-10675199.02:48:05.4775808");
        let bytes = [0x33, 0x22, 0x11, 0, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
        assert_eq!(guid(bytes), "00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn floats() {
        assert_eq!(float(1.5_f32), "1.5");
        assert_eq!(float(-2.25_f64), "-2.25");
        assert_eq!(float(f64::MAX), "1.7976931348623157e308");
        assert_eq!(float(1e-300), "1e-300");
        assert_eq!(float(f64::NAN), "NaN");
    }
}
