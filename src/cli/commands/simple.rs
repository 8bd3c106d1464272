//! Commands that only pass a report on.

use std::path::Path;

use coremap::analysis::{self, Condition, Names, RegionOptions};
use coremap::introspect::introspect;
use coremap::map::Kind;

use crate::cli::args::{Common, Sort};
use crate::cli::commands::open;
use crate::cli::output::{answer, held};
use crate::cli::progress::{clear, progress};
use crate::cli::{Exit, Failure};

pub(super) fn info(common: &Common, core: &Path, show_data: bool) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let found = introspect(&process);
    answer("info", common, &process, &found, analysis::info(&process, &found, show_data))
}

pub(super) fn summary(common: &Common, core: &Path, zero_fill: bool, fail_if: &[Condition]) -> Result<Exit, Failure> {
    if let Some(c) = fail_if.iter().find(|c| c.needs_scan() && !zero_fill) {
        return Err(Failure::Usage(format!(
            "--fail-if '{}' needs --zero-fill, which counts written and zero",
            c.text()
        )));
    }
    let progress = progress();
    let process = open(core, common, &progress)?;
    let found = introspect(&process);
    let mut report = analysis::summary(&process, &found, zero_fill, &progress);
    clear();
    let conditions = analysis::judge_summary(fail_if, &report, process.threads().len() as u64);
    report.conditions.clone_from(&conditions);
    let exit = answer("summary", common, &process, &found, report)?;
    Ok(held(&conditions, exit))
}

pub(super) fn regions(common: &Common, core: &Path, kinds: &[Kind], sort: Sort) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let found = introspect(&process);
    let options = RegionOptions { kinds: kinds.to_vec(), by_size: sort == Sort::Size };
    answer("regions", common, &process, &found, analysis::regions(&found, &options))
}

pub(super) fn stacks(common: &Common, core: &Path, zero_fill: bool) -> Result<Exit, Failure> {
    let progress = progress();
    let process = open(core, common, &progress)?;
    let found = introspect(&process);
    let names = Names::new(&process, &found);
    let doing = analysis::doing(&process, &names, &found.stacks);
    let report = analysis::stacks(&process, &found, &doing, zero_fill, &progress);
    clear();
    answer("stacks", common, &process, &found, report)
}

pub(super) fn check(common: &Common, core: &Path) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let found = introspect(&process);
    answer("check", common, &process, &found, analysis::check(&process, &found))
}

pub(super) fn heap(common: &Common, core: &Path, loader: bool) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let found = introspect(&process);
    let report = analysis::heap(&found, loader);
    let nothing = report.gc.is_none();
    let exit = answer("heap", common, &process, &found, report)?;
    Ok(exit.or_nothing(nothing))
}
