use clap::Args;
use coremap::commands::{self, RegionOptions};
use coremap::progress::Progress;
use coremap::render::{self, columns};
use coremap::report::RegionRow;

use crate::cli::args::{Common, CoreArg, Format};
use crate::cli::ask::on_core;
use crate::cli::commands::Command;
use crate::cli::list::{ListArgs, Order};
use crate::cli::output::{self, answer, answer_as_text};
use crate::cli::progress::watched;
use crate::cli::{Exit, Failure};

/// Show the memory map as the .NET debugger extension SOS does (maddress)
#[derive(Args, Debug)]
pub(super) struct Maddress {
    /// Print only the sums by kind
    #[arg(long)]
    summary: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Maddress {
    const NAME: &'static str = "maddress";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let core = &self.core.core;
        let order = self.list.among(common, &columns::<RegionRow>())?;
        on_core(common, core, |session, progress| {
            let process = session.process;
            let report = watched(process, progress, || {
                commands::regions(session, &RegionOptions::default(), &Progress::silent())
            });
            // Sums are of all regions.
            let order = if self.summary { Order::default() } else { order };
            let report = order.of(report);
            let listed = if self.summary { 0 } else { order.listed() };
            if self.summary && common.form() == Format::Csv {
                return answer_as_text(Self::NAME, common, process, |mut out| {
                    Ok(commands::maddress::maddress_summary_csv(&report.regions, &mut out)?)
                });
            }
            if common.form() != Format::Table {
                return answer(Self::NAME, common, session, report);
            }
            // SOS has no such line, but a table of half a process must say so first.
            let is_cut = process.facts().truncation.is_some();
            let head = is_cut.then(|| commands::envelope(Self::NAME, session, ()).core);
            answer_as_text(Self::NAME, common, process, |mut out| {
                if let Some(head) = &head {
                    render::write(&render::headline(head), output::look(common), &mut out)?;
                }
                Ok(commands::maddress::maddress(&report.regions, listed, output::look(common).width, &mut out)?)
            })
        })
    }
}
