use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use coremap::commands::report::ReportReport;
use coremap::commands::{self, Page, PageOptions};
use coremap::process::Process;
use coremap::program::stops;
use coremap::progress::Progress;
use coremap::session::Session;

use crate::cli::args::Common;
use crate::cli::ask::open;
use crate::cli::commands::Command;
use crate::cli::new_file::{NewFile, not_written, refuse_existing};
use crate::cli::output::{Origin, answer_with, end};
use crate::cli::progress::{progress, watched};
use crate::cli::{Exit, Failure};

/// Write a self-contained HTML report of a core, or of the difference between two
#[derive(Args, Debug)]
pub(super) struct Report {
    /// Write to OUT.html, a file that does not exist yet; '-' is standard output [default: CORE.html in the
    /// current folder]
    #[arg(short, long, value_name = "OUT.html")]
    out: Option<PathBuf>,
    /// Include strings, command-line arguments and environment values in the report
    #[arg(long)]
    show_data: bool,
    /// Core file (plain or compressed); the older one if you give two
    #[arg(value_name = "CORE")]
    core: PathBuf,
    /// Newer core, to report the difference
    #[arg(value_name = "NEW")]
    new: Option<PathBuf>,
}

impl Command for Report {
    const NAME: &'static str = "report";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let newest = self.new.as_deref().unwrap_or(&self.core);
        if self.new.as_deref() == Some(Path::new("-")) && self.core.as_os_str() == "-" {
            return Err(Failure::Usage("only one of the two cores can come from standard input".into()));
        }
        let out = self.out.clone().unwrap_or_else(|| named_after(newest));
        let to_stdout = out.as_os_str() == "-";
        if !to_stdout {
            let way = format!("`coremap report -o NEW.html {}`", self.core.display());
            refuse_existing(&out, Self::NAME, Some(&way))?;
        }
        let progress = progress();
        let older = match &self.new {
            Some(_) => Some(open(&self.core, common, &progress)?),
            None => None,
        };
        let process = open(newest, common, &progress)?;
        let session = Session::new(&process);
        let page = self.page(older.as_ref(), &session, &progress);
        // The envelope and its warnings are the newer core's.
        let mut sources: Vec<Origin<'_>> = older.iter().map(Origin::Open).collect();
        if to_stdout {
            sources.push(Origin::Open(&process));
            return end(common, Self::NAME, &sources, |out| Ok(out.write_all(page.html.as_bytes())?));
        }
        // The page is complete, so a running process need not wait for the disk.
        stops::release_all();
        write(&out, &page)?;
        let (file, size) = (out.display().to_string(), page.html.len() as u64);
        let report = ReportReport { file, size, parts: page.parts, left_out: page.left_out };
        answer_with(&sources, Self::NAME, common, &session, report)
    }
}

impl Report {
    fn page(&self, older: Option<&Process>, session: &Session<'_>, progress: &Progress) -> Page {
        let options = PageOptions { show_data: self.show_data };
        watched(session.process, progress, || match older {
            Some(older) => commands::report_pair(&Session::new(older), session, options, progress),
            None => commands::report(session, options, progress),
        })
    }
}

/// Returns the default file name: `core.html` for `/var/core`, `pid-4711.html` for `/proc/4711`, `core.html` for
/// standard input.
fn named_after(core: &Path) -> PathBuf {
    let name = core.file_name().and_then(|name| name.to_str()).filter(|name| *name != "-").unwrap_or("core");
    let live = core.parent() == Some(Path::new("/proc")) && name.bytes().all(|b| b.is_ascii_digit());
    PathBuf::from(if live { format!("pid-{name}.html") } else { format!("{name}.html") })
}

fn write(out: &Path, page: &Page) -> Result<(), Failure> {
    let new = NewFile::begin(out)?;
    let written = new.file().write_all(page.html.as_bytes()).and_then(|()| new.keep());
    written.map_err(|e| not_written(out, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_named_after_its_core() {
        let name = |core: &str| named_after(Path::new(core)).display().to_string();
        assert_eq!(name("/var/crash/core.4711"), "core.4711.html");
        assert_eq!(name("/proc/4711"), "pid-4711.html");
        assert_eq!(name("-"), "core.html");
    }
}
