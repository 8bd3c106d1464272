use std::time::Duration;

use crate::words::Part;

/// Samples may take one part in `SHARE` of the time, so that the process runs nearly undisturbed.
const SHARE: u32 = 10;

/// Decides when a process is sampled, and which parts. A part that would take more than a tenth of the time is sampled
/// less often.
#[derive(Clone, Debug)]
pub struct Pace {
    every: Duration,
    /// Earliest time of the next sample.
    next: Duration,
    parts: Vec<Paced>,
}

/// An optional part of a sample.
#[derive(Clone, Debug)]
struct Paced {
    part: Part,
    /// Earliest time at which it is included again.
    due: Duration,
}

impl Pace {
    /// A sample every `every`, with `parts`.
    pub fn new(every: Duration, parts: &[Part]) -> Pace {
        let parts = parts.iter().map(|&part| Paced { part, due: Duration::ZERO }).collect();
        Pace { every, next: Duration::ZERO, parts }
    }

    /// Parts that the sample at `now` includes. `now` is the time since the recording began.
    pub fn due(&self, now: Duration) -> Vec<Part> {
        self.parts.iter().filter(|p| p.due <= now).map(|p| p.part).collect()
    }

    /// Time of the next sample.
    pub fn next(&self) -> Duration {
        self.next
    }

    /// Records that the sample due at [`Pace::next`] began at `at` and took `all`, with the durations of its `parts`.
    /// Returns what is sampled less often from now on, with the new interval. `None` means the sample without its
    /// parts.
    pub fn took(&mut self, at: Duration, all: Duration, parts: &[(Part, Duration)]) -> Vec<(Option<Part>, Duration)> {
        let mut slower = Vec::new();
        let mut rest = all;
        for &(part, took) in parts {
            rest = rest.saturating_sub(took);
            let apart = took.saturating_mul(SHARE);
            if let Some(paced) = self.parts.iter_mut().find(|p| p.part == part) {
                paced.due = at.saturating_add(apart);
                if apart > self.every {
                    slower.push((Some(part), apart));
                }
            }
        }
        let apart = rest.saturating_mul(SHARE);
        if apart > self.every {
            slower.push((None, apart));
        }
        // Samples stay on multiples of the interval. Missed ones are skipped.
        let beat = self.next.saturating_add(self.every);
        let late = at.saturating_add(all);
        self.next = match late.saturating_sub(beat).as_nanos().checked_div(self.every.as_nanos()) {
            Some(missed) if late > beat => {
                let beats = u32::try_from(missed + 1).unwrap_or(u32::MAX);
                beat.saturating_add(self.every.saturating_mul(beats))
            }
            _ => beat,
        };
        self.next = self.next.max(at.saturating_add(apart));
        slower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn cheap_looks_keep_to_the_clock() {
        let mut pace = Pace::new(S(10), &[Part::Types, Part::Malloc]);
        for look in 0..5 {
            assert_eq!(pace.next(), S(10 * look));
            assert_eq!(pace.due(pace.next()), [Part::Types, Part::Malloc]);
            // Slightly late, as after a sleep.
            let at = pace.next() + Duration::from_millis(3);
            let parts = [(Part::Types, Duration::from_millis(200)), (Part::Malloc, Duration::from_millis(100))];
            assert!(pace.took(at, Duration::from_millis(500), &parts).is_empty());
        }
    }

    #[test]
    fn what_takes_long_is_taken_less_often() {
        let mut pace = Pace::new(S(10), &[Part::Types, Part::Malloc]);
        let slower = pace.took(S(0), S(4), &[(Part::Types, S(3)), (Part::Malloc, Duration::from_millis(100))]);
        assert_eq!(slower, [(Some(Part::Types), S(30))]);
        assert_eq!((pace.next(), pace.due(S(10))), (S(10), vec![Part::Malloc]));
        pace.took(S(10), Duration::from_millis(100), &[]);
        assert_eq!(pace.due(S(20)), [Part::Malloc]);
        assert_eq!(pace.due(S(30)), [Part::Types, Part::Malloc]);
    }

    #[test]
    fn a_look_that_takes_long_by_itself_delays_the_next() {
        let mut pace = Pace::new(S(10), &[]);
        assert_eq!(pace.took(S(0), S(5), &[]), [(None, S(50))]);
        assert_eq!(pace.next(), S(50));
        // Longer than the interval: the missed samples are skipped.
        let mut pace = Pace::new(S(10), &[Part::Types]);
        pace.took(S(0), S(25), &[(Part::Types, S(25))]);
        assert_eq!(pace.next(), S(30));
        assert!(pace.due(S(30)).is_empty() && pace.due(S(250)) == [Part::Types]);
    }
}
