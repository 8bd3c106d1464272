use clap::Args;
use coremap::commands;
use coremap::commands::perfmap::{PerfMapRow, perf_map};
use coremap::program::no_runtime;
use coremap::render::columns;

use crate::cli::args::{Common, CoreArg, Format};
use crate::cli::ask::on_core;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::output::{answer, answer_as_text, message};
use crate::cli::progress::watched;
use crate::cli::{Exit, Failure};

/// Print a symbol map of JIT code; save it as /tmp/perf-PID.map for perf
#[derive(Args, Debug)]
pub(super) struct Perfmap {
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Perfmap {
    const NAME: &'static str = "perfmap";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<PerfMapRow>())?;
        on_core(common, &self.core.core, |session, progress| {
            let process = session.process;
            let report = watched(process, progress, || commands::perfmap(session));
            let nothing = report.entries.is_empty();
            // In CSV the answer itself says that there is no runtime.
            let said = session.runtimes().is_empty() && common.form() == Format::Csv;
            if nothing && !said {
                let why = if session.runtimes().is_empty() {
                    no_runtime(session)
                } else {
                    "no managed code was found in this core".to_owned()
                };
                message(&why);
            }
            let report = order.cut(report);
            let exit = if common.form() == Format::Table {
                answer_as_text(Self::NAME, common, process, |mut out| Ok(perf_map(&report, &mut out)?))?
            } else {
                answer(Self::NAME, common, session, report)?
            };
            Ok(exit.or_nothing(nothing))
        })
    }
}
