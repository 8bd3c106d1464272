use std::io::{self, Write};

use crate::commands::record::report::{RecordReport, Spread};
use crate::render::document::Document;
use crate::render::{Render, csv_rows};
use crate::report::RecordingEnd;
use crate::units::{count, human, seconds};

impl Render for RecordReport {
    fn document(&self) -> Document<'_> {
        let mut doc = Document::default();
        let file = self.file.as_deref().unwrap_or("standard output");
        let why = match self.ended {
            RecordingEnd::Done => "finished",
            RecordingEnd::ProcessEnded => "the process ended",
            RecordingEnd::Interrupted => "interrupted",
            RecordingEnd::SingleSample => "a core does not change, so one sample is enough",
        };
        let within = if self.looks > 1 { format!(" in {}", seconds(self.seconds)) } else { String::new() };
        doc.titled(
            format!("recorded  {file}: {}{within}, {}; {why}", count(self.looks, "sample"), human(self.bytes)),
            10,
        );
        let times = |what: &str, spread: &Spread| format!("{what} {} ms (max {} ms)", spread.median, spread.most);
        let mut parts = Vec::new();
        if let Some(stopped) = &self.cost.stopped_ms {
            let share =
                self.cost.stopped_share.map_or_else(String::new, |s| format!(", {:.2} % of the time", s * 100.0));
            parts.push(times("stopped", stopped) + &share);
        }
        parts.push(times("took", &self.cost.wall_ms));
        if let Some(processor) = &self.cost.processor_ms {
            parts.push(times("processor", processor));
        }
        if let Some(read) = &self.cost.read {
            parts.push(format!("read {}", human(read.median as u64)));
        }
        doc.titled(format!("a sample  {}", parts.join(" · ")), 10);
        for row in self.parts.iter().filter(|row| row.looks < self.looks) {
            let less = format!("{} in {} of {}", row.part, row.looks, count(self.looks, "sample"));
            doc.titled(format!("skipped   {less}: reading them took more than 10 % of the interval"), 10);
        }
        if let (Some(file), true) = (&self.file, self.looks > 1) {
            doc.unwrapped(format!("          coremap trend {file}"));
        }
        doc
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        csv_rows(&self.parts, out)
    }
}
