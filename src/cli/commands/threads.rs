use clap::Args;
use coremap::commands::threads::{GroupRow, folded};
use coremap::commands::{self, ThreadOptions};
use coremap::render::columns;
use coremap::report::ThreadRow;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::on_core;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::output::{answer, answer_as_text, message};
use crate::cli::progress::watched;
use crate::cli::{Exit, Failure};

/// Show what every thread is doing, native and managed frames in one stack
#[derive(Args, Debug)]
pub(super) struct Threads {
    /// Show only managed frames and, in square brackets, the .NET runtime's own frames, as SOS clrstack does
    #[arg(long, conflicts_with = "native")]
    managed: bool,
    /// Show only native frames
    #[arg(long)]
    native: bool,
    /// Show only the thread TID
    #[arg(long, value_name = "TID")]
    tid: Option<u32>,
    /// Merge identical stacks, most threads first
    #[arg(long)]
    group: bool,
    /// Also show Java virtual threads and goroutines: identical stacks merged, with a count and where they wait.
    /// Slower for Java, because it reads the whole heap
    #[arg(long = "virtual", visible_alias = "goroutines", conflicts_with_all = ["native", "tid", "fold"])]
    virtual_threads: bool,
    /// Print folded stacks, for flame graphs
    #[arg(long, conflicts_with_all = ["format", "json", "csv"])]
    fold: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Threads {
    const NAME: &'static str = "threads";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let mut names = columns::<ThreadRow>();
        names.extend(columns::<GroupRow>());
        let order = self.list.among(common, &names)?;
        on_core(common, &self.core.core, |session, progress| {
            let process = session.process;
            let options = ThreadOptions {
                managed: self.managed,
                native: self.native,
                tid: self.tid,
                group: self.group || self.fold,
                virtual_threads: self.virtual_threads,
            };
            let report = watched(process, progress, || commands::threads(session, options));
            let nothing = report.threads.is_empty();
            if let (true, Some(tid)) = (nothing, self.tid) {
                let all = process.threads().len();
                message(&format!("this core has no thread {tid}; `coremap stacks` lists its {all} threads"));
            }
            let exit = if self.fold {
                answer_as_text(Self::NAME, common, process, |mut out| Ok(folded(&report, &mut out)?))?
            } else {
                answer(Self::NAME, common, session, order.cut(report))?
            };
            Ok(exit.or_nothing(nothing))
        })
    }
}
