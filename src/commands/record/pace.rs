use std::time::Duration;

use crate::words::Part;

/// Of the time from look to look, what looks may take: a process that is looked at is to go on as if it were not.
const SHARE: u32 = 10;

/// When a process is looked at again, and what of it: what takes more than a tenth of the time is looked at less often.
#[derive(Clone, Debug)]
pub struct Pace {
    every: Duration,
    /// When the next look may be at the earliest.
    next: Duration,
    parts: Vec<Paced>,
}

/// A part of a look.
#[derive(Clone, Debug)]
struct Paced {
    part: Part,
    /// When it is taken in again.
    due: Duration,
}

impl Pace {
    /// A look each `every`, with `parts`.
    pub fn new(every: Duration, parts: &[Part]) -> Pace {
        let parts = parts.iter().map(|&part| Paced { part, due: Duration::ZERO }).collect();
        Pace { every, next: Duration::ZERO, parts }
    }

    /// What the look at this time takes in; times are those since the recording began.
    pub fn due(&self, now: Duration) -> Vec<Part> {
        self.parts.iter().filter(|p| p.due <= now).map(|p| p.part).collect()
    }

    /// When the next look is due.
    pub fn next(&self) -> Duration {
        self.next
    }

    /// A look that was due at [`Pace::next`] began at `at`, took so long, and of that so long for each of these parts. Gives those that
    /// are looked at less often from now on, each with the time until then.
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
        // Looks keep to the beats of the clock; those that are missed are left out.
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
            // A bit late, as sleeping is.
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
        // Longer than from look to look: the beats that were missed are gone.
        let mut pace = Pace::new(S(10), &[Part::Types]);
        pace.took(S(0), S(25), &[(Part::Types, S(25))]);
        assert_eq!(pace.next(), S(30));
        assert!(pace.due(S(30)).is_empty() && pace.due(S(250)) == [Part::Types]);
    }
}
