use std::time::Duration;

use clap::Args;
use coremap::commands::{self, Condition, ConditionError, Scope, TriageOptions};

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::on_core;
use crate::cli::commands::Command;
use crate::cli::output::{answer, held};
use crate::cli::progress::watched;
use crate::cli::values::duration;
use crate::cli::{Exit, Failure};

/// Explain where the memory went, most important cause first
#[derive(Args, Debug)]
pub(super) struct Triage {
    /// Skip analyses that would exceed this total time, and list them; e.g. 10s or 500ms
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    budget: Duration,
    /// finding=NAME, such as finding=deadlock: exit with 1 if there is a finding NAME. Repeatable: one of the
    /// findings is enough. docs/causes.md lists the names
    #[arg(long, value_name = "CONDITION", value_parser = condition)]
    fail_if: Vec<Condition>,
    /// Also print the program's data: messages of handled exceptions, URL paths and peer addresses of requests,
    /// more text of malloc blocks
    #[arg(long)]
    show_data: bool,
    /// Show all notes. By default, notes on less than 5 % of the bytes are left out
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Triage {
    const NAME: &'static str = "triage";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        on_core(common, &self.core.core, |session, progress| {
            let process = session.process;
            let options = TriageOptions { budget: Some(self.budget), show_data: self.show_data };
            let mut report = watched(process, progress, || commands::triage(session, &options, progress));
            let conditions = commands::judge_findings(&self.fail_if, &report.findings);
            report.conditions.clone_from(&conditions);
            report.all = self.all;
            let exit = answer(Self::NAME, common, session, report)?;
            Ok(held(&conditions, exit))
        })
    }
}

fn condition(text: &str) -> Result<Condition, ConditionError> {
    Condition::parse(text, Scope::Triage)
}
