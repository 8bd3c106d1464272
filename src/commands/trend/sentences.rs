//! The evidence for a verdict, in words.

use crate::report::Measure;
use crate::series::shape::{Evidence, MIN_POINTS, Shape};
use crate::units::{count, exact, human, seconds};

/// The reason for a verdict. `rated`: times are real times, not numbers of cores.
pub(super) fn why(shape: &Shape, measure: Measure, rated: bool) -> String {
    let said = |value: f64| amount(value.abs(), measure);
    let signed = |value: f64| format!("{}{}", if value < 0.0 { "-" } else { "+" }, said(value));
    let time = |at: f64| if rated { seconds(at.round()) } else { format!("sample {}", exact(at.max(0.0) as u64 + 1)) };
    match shape.evidence {
        Evidence::Few => format!("too few samples to separate growth from noise (at least {MIN_POINTS})"),
        Evidence::Within => "hardly changes".to_owned(),
        Evidence::Noise => "varies around a constant value".to_owned(),
        Evidence::UpAndDown { lows, low, high } => {
            format!("saw tooth: returns to {} ({}), peaks at {}", said(low), count(lows as u64, "time"), said(high))
        }
        Evidence::Always => "steadily, in both halves of the time".to_owned(),
        Evidence::InOrder(points) => {
            format!("all {} are in order, too few to say whether it slows down", count(points as u64, "value"))
        }
        Evidence::Since(at) => format!("since {}, at a different rate than before", time(at)),
        Evidence::Lows(lows) => format!("saw tooth: its {} rise or fall", count(lows as u64, "low")),
        Evidence::Step { at, by } => format!("one step of {} at {}, flat before and after", signed(by), time(at)),
        Evidence::BesideStep { at, by } => format!("all the time but for one step of {} at {}", signed(by), time(at)),
        Evidence::LevelsOff { first, last } => {
            format!("{} in the first half of the time, {} in the second", signed(first), signed(last))
        }
        Evidence::Slows { first, last } => format!(
            "slows down: {} in the first half of the time, {} in the second; record longer",
            signed(first),
            signed(last)
        ),
        Evidence::Wanders => "moves like a random walk".to_owned(),
        Evidence::Turned => "changed direction and may turn again; record longer".to_owned(),
        Evidence::Uncollected => {
            "rises, but hardly any collection was seen: uncollected garbage looks the same; record longer".to_owned()
        }
    }
}

/// Formats bytes or a count.
pub(super) fn amount(value: f64, measure: Measure) -> String {
    if measure != Measure::Count {
        return human(value.abs() as u64);
    }
    if value.abs() < 100.0 && value.fract() != 0.0 { format!("{:.1}", value.abs()) } else { exact(value.abs() as u64) }
}
