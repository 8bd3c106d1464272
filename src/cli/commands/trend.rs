use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use coremap::commands;
use coremap::commands::trend::{SeriesRow, Source, TrendError};
use coremap::diag::Warning;
use coremap::render::columns;
use coremap::report::{CoreRow, Envelope, Verdict};

use crate::cli::args::Common;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::moments::row;
use crate::cli::output::{Origin, answer_of, merge};
use crate::cli::values::duration;
use crate::cli::{Exit, Failure};

/// Find what grows over time, from recordings or a series of cores
#[derive(Args, Debug)]
pub(super) struct Trend {
    /// For cores: set the time between two cores, e.g. 10m [default: by the modification times of the files]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    every: Option<Duration>,
    #[command(flatten)]
    list: ListArgs,
    /// Recordings of one process, or cores in the order they were taken
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

impl Command for Trend {
    const NAME: &'static str = "trend";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<SeriesRow>())?;
        if self.every.is_some_and(|every| every.is_zero()) {
            return Err(Failure::Usage("--every must be more than 0".into()));
        }
        let mut sources = Vec::new();
        let mut warnings: Vec<Warning> = Vec::new();
        let mut last: Option<CoreRow> = None;
        for path in &self.files {
            let row = row(path, common)?;
            merge(&mut warnings, row.warnings);
            let path = path.display().to_string();
            sources.push(Source { path, is_recording: row.is_recording, recording: row.recording });
            last = Some(row.core);
        }
        let Some(core) = last else { return Err(Failure::Usage("no FILE is given".into())) };
        let report = commands::trend(&sources, self.every.map(|every| every.as_secs_f64())).map_err(|e| match e {
            TrendError::Empty(_) => Failure::Beside(e.to_string()),
            _ => Failure::Usage(e.to_string()),
        })?;
        let nothing = !report.series.iter().any(|row| row.verdict == Verdict::Grows);
        let report = Envelope::new(Self::NAME, core, warnings, order.of(report));
        Ok(answer_of(common, &report, &[Origin::Read(&report.warnings)])?.or_nothing(nothing))
    }
}
