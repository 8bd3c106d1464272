use clap::Args;
use coremap::commands::{self, Condition};

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::on_core;
use crate::cli::commands::Command;
use crate::cli::output::{answer, held};
use crate::cli::progress::watched;
use crate::cli::values::summary_condition;
use crate::cli::{Exit, Failure};

/// Show memory by kind, sorted by bytes in the core
#[derive(Args, Debug)]
pub(super) struct Summary {
    /// Read all pages, to count zero and written bytes
    #[arg(long)]
    zero_fill: bool,
    /// Exit with 1 if CONDITION is true, e.g. 'stack.written>1GiB' or 'malloc.size>40%' (repeatable: one true
    /// condition is enough)
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
                "--fail-if '{}' needs --zero-fill, which counts written and zero bytes",
                c.text()
            )));
        }
        on_core(common, &self.core.core, |session, progress| {
            let process = session.process;
            if let Some(c) = self.fail_if.iter().find(|c| c.needs_residence() && process.residence().is_none()) {
                return Err(Failure::Usage(format!(
                    "--fail-if '{}' needs --smaps FILE, since a core does not contain resident sizes",
                    c.text()
                )));
            }
            let mut report = watched(process, progress, || commands::summary(session, self.zero_fill, progress));
            let conditions = commands::judge_summary(&self.fail_if, &report, process.threads().len() as u64);
            report.conditions.clone_from(&conditions);
            let exit = answer(Self::NAME, common, session, report)?;
            Ok(held(&conditions, exit))
        })
    }
}

const CONDITION: &str = "\
Exit with 1 if CONDITION is true, and report it on stderr and in the JSON. Repeatable: one true condition is \
enough.

A condition is KIND.COLUMN, an operator (> >= < <= ==) and a limit, e.g. 'stack.written>1GiB', \
'total.in_core>=2GB', 'malloc.size>40%' or 'threads.count>200'.

KIND is a kind of region, such as stack (upper and lower case are the same), or 'total', or 'threads'.

COLUMN is size, in_core, count (of regions) or largest (the largest region; not for total). --zero-fill adds \
written and zero; --smaps and a running process add rss, pss, private_dirty and swap. threads has only count.

The limit is a number, a size (KiB MiB GiB TiB, KB MB GB TB), or a percentage of the column's total. For \
largest, a percentage is of the total size.

finding=NAME is true if there is a finding with that name, e.g. finding=stack-overflow. docs/causes.md lists the \
names. The summary command never has a finding that needs an analysis of heaps or threads, such as deadlock or \
retained; use triage for these.";
