use clap::Args;
use coremap::commands::{self, Condition};
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::open;
use crate::cli::commands::Command;
use crate::cli::output::{answer, held};
use crate::cli::progress::{progress, watched};
use crate::cli::values::summary_condition;
use crate::cli::{Exit, Failure};

/// Where the memory went: sizes by kind, biggest in the core first
#[derive(Args, Debug)]
pub(super) struct Summary {
    /// Read all pages and count those that are zero
    #[arg(long)]
    zero_fill: bool,
    /// Exit with 1 if this holds, as 'stack.written>1GiB' or 'malloc.size>40%' (repeatable)
    #[arg(long, value_name = "CONDITION", value_parser = summary_condition(), hide_possible_values = true, long_help = CONDITION)]
    fail_if: Vec<Condition>,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Summary {
    const NAME: &'static str = "summary";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        if let Some(c) = self.fail_if.iter().find(|c| c.needs_scan() && !self.zero_fill) {
            return Err(Failure::Usage(format!(
                "--fail-if '{}' needs --zero-fill, which counts written and zero",
                c.text()
            )));
        }
        let progress = progress();
        let process = open(&self.core.core, common, &progress)?;
        if let Some(c) = self.fail_if.iter().find(|c| c.needs_residence() && process.residence().is_none()) {
            return Err(Failure::Usage(format!(
                "--fail-if '{}' needs --smaps, which tells what was resident",
                c.text()
            )));
        }
        let session = Session::new(&process);
        let mut report = watched(&process, &progress, || commands::summary(&session, self.zero_fill, &progress));
        let conditions = commands::judge_summary(&self.fail_if, &report, process.threads().len() as u64);
        report.conditions.clone_from(&conditions);
        let exit = answer(Self::NAME, common, &session, report)?;
        Ok(held(&conditions, exit))
    }
}

const CONDITION: &str = "\
Exit with 1 if this holds, and say so on stderr and in the JSON. Repeatable.

KIND.COLUMN, one of > >= < <= ==, and a limit: 'stack.written>1GiB', 'total.in_core>=2GB',
'malloc.size>40%', 'threads.count>200'.
KIND: a kind in any case of letters, total, or threads.
COLUMN: size, in_core, count, largest; with --zero-fill written and zero; with --smaps, and of a
process that runs, rss, pss, private_dirty and swap; of threads count.
Limit: a number, a size (KiB MiB GiB TiB, KB MB GB TB), or a percentage of the total in the
same column (of the total size for largest).

Or finding=NAME, as finding=stack-overflow: whether there is such a finding.";
