use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use coremap::commands;
use coremap::commands::report::{PageData, read_page, verify};
use coremap::program::limits;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::on_core;
use crate::cli::commands::Command;
use crate::cli::output::answer;
use crate::cli::progress::watched;
use crate::cli::{Exit, Failure};

/// Check that the memory map is consistent: one label per byte, and sizes that add up
#[derive(Args, Debug)]
pub(super) struct Check {
    /// Also compare a page written by `coremap report` with the core
    #[arg(long, value_name = "PAGE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Check {
    const NAME: &'static str = "check";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let page = self.report.as_deref().map(read).transpose()?;
        on_core(common, &self.core.core, |session, progress| {
            let process = session.process;
            let report = watched(process, progress, || {
                let mut report = commands::check(session);
                if let Some(page) = &page {
                    report.invariants.extend(verify(session, page, progress));
                }
                report
            });
            answer(Self::NAME, common, session, report)
        })
    }
}

fn read(page: &Path) -> Result<PageData, Failure> {
    let failed = |what: String| Failure::Beside(format!("{}: {what}", page.display()));
    let file = std::fs::File::open(page).map_err(|e| failed(e.to_string()))?;
    let mut text = Vec::new();
    file.take(limits::MAX_PAGE_READ + 1).read_to_end(&mut text).map_err(|e| failed(e.to_string()))?;
    if text.len() as u64 > limits::MAX_PAGE_READ {
        return Err(failed("the file is too large to be a page of `coremap report`".into()));
    }
    let text = String::from_utf8(text).map_err(|_| failed("the file is not text".into()))?;
    read_page(&text).map_err(|e| failed(e.to_string()))
}
