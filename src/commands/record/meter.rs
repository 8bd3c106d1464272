use std::time::{Duration, Instant};

use crate::machine;
use crate::series::Cost;
use crate::targets::StopReport;

/// Measures the cost of a sample.
#[derive(Debug)]
pub struct Meter {
    begun: Instant,
    processor: Option<Duration>,
}

impl Meter {
    /// Starts measuring.
    pub fn start() -> Meter {
        Meter { begun: Instant::now(), processor: machine::processor_time() }
    }

    /// Ends measuring and returns the duration of the sample. `stop` describes how a running process was read.
    pub fn read(&self, cost: &mut Cost, stop: Option<StopReport>) -> Duration {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let took = self.begun.elapsed();
        cost.wall_ms = ms(took);
        let processor = machine::processor_time().zip(self.processor);
        cost.processor_ms = processor.map(|(now, before)| ms(now.saturating_sub(before)));
        cost.stopped_ms = stop.map(|stop| ms(stop.lasted));
        cost.read = stop.map(|stop| stop.fetched);
        took
    }
}
