use clap::Args;
use coremap::commands;
use coremap::commands::dotnet::heap::SegmentRow;
use coremap::render::columns;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::on_core;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::output::answer_or_nothing;
use crate::cli::progress::watched;
use crate::cli::{Exit, Failure};

/// Show the segments or regions of the managed heap, by GC heap and generation
#[derive(Args, Debug)]
pub(super) struct Heap {
    /// Also show loader heaps: blocks, committed and wasted bytes
    #[arg(long)]
    loader: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Heap {
    const NAME: &'static str = "heap";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &columns::<SegmentRow>())?;
        on_core(common, &self.core.core, |session, progress| {
            let process = session.process;
            let report = watched(process, progress, || commands::heap(session, self.loader));
            let nothing = report.gc.is_none() && report.stats.is_none();
            answer_or_nothing(Self::NAME, common, session, order.of(report), nothing)
        })
    }
}
