//! Commands that only pass a report on.

use std::path::Path;

use coremap::analysis::{self, Condition, RegionOptions};
use coremap::map::Kind;
use coremap::session::Session;

use crate::cli::args::{Common, Sort};
use crate::cli::commands::open;
use crate::cli::output::{answer, held};
use crate::cli::progress::{clear, progress};
use crate::cli::{Exit, Failure};

pub(super) fn info(common: &Common, core: &Path, show_data: bool) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let session = Session::new(&process);
    answer("info", common, &session, analysis::info(&session, show_data))
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
    let session = Session::new(&process);
    let mut report = analysis::summary(&session, zero_fill, &progress);
    clear();
    let conditions = analysis::judge_summary(fail_if, &report, process.threads().len() as u64);
    report.conditions.clone_from(&conditions);
    let exit = answer("summary", common, &session, report)?;
    Ok(held(&conditions, exit))
}

pub(super) fn regions(common: &Common, core: &Path, kinds: &[Kind], sort: Sort) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let session = Session::new(&process);
    let options = RegionOptions { kinds: kinds.to_vec(), by_size: sort == Sort::Size };
    answer("regions", common, &session, analysis::regions(&session, &options))
}

pub(super) fn stacks(common: &Common, core: &Path, zero_fill: bool) -> Result<Exit, Failure> {
    let progress = progress();
    let process = open(core, common, &progress)?;
    let session = Session::new(&process);
    let doing = analysis::doing(&session);
    let report = analysis::stacks(&session, &doing, zero_fill, &progress);
    clear();
    answer("stacks", common, &session, report)
}

pub(super) fn check(common: &Common, core: &Path) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let session = Session::new(&process);
    answer("check", common, &session, analysis::check(&session))
}

pub(super) fn heap(common: &Common, core: &Path, loader: bool) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let session = Session::new(&process);
    let report = analysis::heap(&session, loader);
    let nothing = report.gc.is_none();
    let exit = answer("heap", common, &session, report)?;
    Ok(exit.or_nothing(nothing))
}
