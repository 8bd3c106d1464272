use clap::Args;
use coremap::commands;
use coremap::commands::ip2method::Short;

use crate::cli::addresses;
use crate::cli::args::Common;
use crate::cli::ask::on_core;
use crate::cli::commands::Command;
use crate::cli::output::answer;
use crate::cli::progress::watched;
use crate::cli::{Exit, Failure};

/// Resolve code addresses to methods and source lines (SOS ip2md)
// A single list, because clap would take an argument before an option for the core.
#[derive(Args, Debug)]
#[command(override_usage = "coremap ip2method [OPTIONS] <ADDR>... <CORE>")]
pub(super) struct Ip2method {
    /// One or more addresses ('-' reads them from standard input), then the core: a file (plain or compressed), '-'
    /// for standard input, or the PID of a running process
    #[arg(required = true, value_name = "ADDR... CORE")]
    words: Vec<String>,
    /// Print one line per address
    #[arg(long)]
    short: bool,
}

impl Command for Ip2method {
    const NAME: &'static str = "ip2method";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let (core, texts) = addresses::split(Self::NAME, &self.words)?;
        let texts = addresses::read(texts)?;
        on_core(common, core, |session, progress| {
            let process = session.process;
            let ips = addresses::parse(&texts, process)?;
            let report = watched(process, progress, || commands::ip2method(session, &ips));
            let nothing = report.results.iter().all(|r| !r.found);
            let exit = if self.short {
                answer(Self::NAME, common, session, Short(report))?
            } else {
                answer(Self::NAME, common, session, report)?
            };
            Ok(exit.or_nothing(nothing))
        })
    }
}
