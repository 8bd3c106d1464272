//! Decides when a running process is sampled next: at the requested interval, or less often if that costs the process
//! too much.

use std::time::{Duration, Instant};

use coremap::program::units::count;

/// The process is stopped for at most one part in `STILL` of the time (5 %).
const STILL: u32 = 20;

/// Samples take at most one part in `WORK` of one processor's time (25 %), so that the screen is not a load.
const WORK: u32 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// Time for which the process was stopped.
    pub(super) stood: Duration,
    pub(super) took: Duration,
}

/// The clock of a screen with repeated samples.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// Requested interval.
    pub(super) every: Duration,
    pub(super) paused: bool,
    /// Whether a sample is being taken.
    pub(super) looking: bool,
    /// Number of samples so far, and the cost of the last one.
    pub(super) looks: u64,
    pub(super) cost: Cost,
    began: Instant,
    ended: Instant,
}

impl Clock {
    /// A clock whose first sample is due at once.
    pub(super) fn new(every: Duration, now: Instant) -> Clock {
        let cost = Cost::default();
        Clock { every, paused: false, looking: false, looks: 0, cost, began: now, ended: now }
    }

    /// Time from the end of one sample to the next.
    pub(super) fn pause(&self) -> Duration {
        let stood = self.cost.stood.saturating_mul(STILL);
        let took = self.cost.took.saturating_mul(WORK);
        self.every.max(stood).max(took)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        let first = self.looks == 0;
        !self.paused && !self.looking && (first || now.saturating_duration_since(self.ended) >= self.pause())
    }

    /// Records that a sample has begun.
    pub(super) fn begin(&mut self) {
        self.looking = true;
    }

    /// Records that the sample has ended. `cost` is `None` if it failed.
    pub(super) fn end(&mut self, cost: Option<Cost>, now: Instant) {
        self.looking = false;
        self.looks += 1;
        self.ended = now;
        self.cost = cost.unwrap_or(self.cost);
    }

    /// Describes the sampling in words.
    pub(super) fn sentence(&self, now: Instant) -> String {
        let pause = self.pause();
        let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64()).replace(".0 s", " s");
        let often = if self.paused {
            "paused (space)".to_owned()
        } else if pause > self.every {
            let why = if self.cost.stood.saturating_mul(STILL) >= pause {
                "sampling faster would stop the process for over 5 % of the time"
            } else {
                "sampling faster would take over 25 % of a processor"
            };
            format!("every {} ({why})", seconds(pause))
        } else {
            format!("every {}", seconds(self.every))
        };
        let since = seconds(Duration::from_secs(now.saturating_duration_since(self.began).as_secs()));
        let stood = self.cost.stood.as_secs_f64() * 1000.0;
        format!("{} in {since} · stopped {stood:.1} ms · {often}", count(self.looks, "sample"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn looked(stood: u64, took: u64) -> (Clock, Instant) {
        let now = Instant::now();
        let mut clock = Clock::new(2 * SECOND, now);
        assert!(clock.is_due(now));
        clock.begin();
        assert!(!clock.is_due(now + 100 * SECOND));
        let cost = Cost { stood: Duration::from_millis(stood), took: Duration::from_millis(took) };
        clock.end(Some(cost), now + SECOND);
        (clock, now + SECOND)
    }

    #[test]
    fn a_cheap_look_is_made_as_often_as_asked() {
        let (clock, ended) = looked(10, 100);
        assert!(!clock.is_due(ended + SECOND));
        assert!(clock.is_due(ended + 2 * SECOND));
        assert_eq!(clock.sentence(ended + SECOND), "1 sample in 2 s · stopped 10.0 ms · every 2 s");
    }

    #[test]
    fn a_process_stands_still_for_a_twentieth_of_the_time_at_most() {
        let (clock, ended) = looked(500, 600);
        assert_eq!(clock.pause(), 10 * SECOND);
        assert!(!clock.is_due(ended + 9 * SECOND));
        assert!(clock.is_due(ended + 10 * SECOND));
        assert!(
            clock.sentence(ended).contains("every 10 s (sampling faster would stop the process for over 5 %"),
            "{}",
            clock.sentence(ended)
        );
    }

    #[test]
    fn looks_that_take_long_are_fewer() {
        let (clock, ended) = looked(10, 1500);
        assert_eq!(clock.pause(), 6 * SECOND);
        assert!(clock.sentence(ended).contains("over 25 % of a processor"), "{}", clock.sentence(ended));
    }

    #[test]
    fn a_clock_that_is_paused_has_nothing_due() {
        let (mut clock, ended) = looked(0, 0);
        clock.paused = true;
        assert!(!clock.is_due(ended + 100 * SECOND));
        // A failed sample does not change the known cost.
        let before = clock.cost;
        clock.end(None, ended);
        assert_eq!(clock.cost, before);
    }
}
