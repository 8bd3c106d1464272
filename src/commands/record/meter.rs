use std::time::{Duration, Instant};

use crate::machine;
use crate::series::Cost;
use crate::targets::Stood;

/// What a look costs, from here on.
#[derive(Debug)]
pub struct Meter {
    begun: Instant,
    processor: Option<Duration>,
}

impl Meter {
    /// The look begins.
    pub fn start() -> Meter {
        Meter { begun: Instant::now(), processor: machine::processor_time() }
    }

    /// The look is over; `stood`: how the process was read, if it is one that runs. Gives how long all of it took.
    pub fn read(&self, cost: &mut Cost, stood: Option<Stood>) -> Duration {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let took = self.begun.elapsed();
        cost.wall_ms = ms(took);
        let processor = machine::processor_time().zip(self.processor);
        cost.processor_ms = processor.map(|(now, before)| ms(now.saturating_sub(before)));
        cost.stopped_ms = stood.map(|stood| ms(stood.lasted));
        cost.read = stood.map(|stood| stood.fetched);
        took
    }
}
