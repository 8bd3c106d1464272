//! What a verdict rests on, in words.

use crate::report::Measure;
use crate::series::shape::{LEAST_POINTS, Shape, Why};
use crate::units::{count, exact, human, seconds};

/// Why it is that; `rated`: whether times are times, and no numbers of cores.
pub(super) fn why(shape: &Shape, measure: Measure, rated: bool) -> String {
    let said = |value: f64| amount(value.abs(), measure);
    let signed = |value: f64| format!("{}{}", if value < 0.0 { "-" } else { "+" }, said(value));
    let time = |at: f64| if rated { seconds(at.round()) } else { format!("look {}", exact(at.max(0.0) as u64 + 1)) };
    match shape.why {
        Why::Few => format!("too few looks to tell growth from noise: {LEAST_POINTS} at least"),
        Why::Within => "hardly changes".to_owned(),
        Why::Noise => "varies, and about the same value".to_owned(),
        Why::UpAndDown { lows, low, high } => {
            format!(
                "up and down, and back to {} each of {}; up to {}",
                said(low),
                count(lows as u64, "time"),
                said(high)
            )
        }
        Why::Always => "all the time, in the last half as in the first".to_owned(),
        Why::Since(at) => format!("since {}, at another pace than before", time(at)),
        Why::Lows(lows) => format!("up and down, and its {} move", count(lows as u64, "low")),
        Why::Step { at, by } => format!("one step of {} at {}, flat before and after", signed(by), time(at)),
        Why::BesideStep { at, by } => format!("all the time but for one step of {} at {}", signed(by), time(at)),
        Why::LevelsOff { first, last } => {
            format!("{} in the first half of the time, {} in the last", signed(first), signed(last))
        }
        Why::Slows { first, last } => format!(
            "slows down: {} in the first half of the time, {} in the last; record longer",
            signed(first),
            signed(last)
        ),
        Why::Wanders => "this way and that, as chance would take it".to_owned(),
        Why::Turned => "another way than before: it may turn again; record longer".to_owned(),
        Why::Uncollected => {
            "rises, and hardly a collection was seen: garbage that is not collected yet looks the same; record longer"
                .to_owned()
        }
    }
}

/// So many bytes, or things.
pub(super) fn amount(value: f64, measure: Measure) -> String {
    if measure != Measure::Count {
        return human(value.abs() as u64);
    }
    if value.abs() < 100.0 && value.fract() != 0.0 { format!("{:.1}", value.abs()) } else { exact(value.abs() as u64) }
}
