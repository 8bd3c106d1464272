use std::io::{BufWriter, Write};
use std::path::Path;

use coremap::analysis::{self, RegionOptions};
use coremap::introspect::introspect;
use coremap::render;

use crate::cli::args::{Common, Format};
use crate::cli::commands::open;
use crate::cli::output::{self, answer, finish};
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path, summary: bool) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let found = introspect(&process);
    let report = analysis::regions(&found, &RegionOptions::default());
    if summary && common.form() == Format::Csv {
        let mut out = BufWriter::new(std::io::stdout().lock());
        render::maddress_summary_csv(&report.regions, &mut out)?;
        out.flush()?;
        return Ok(finish(&process));
    }
    if common.form() != Format::Table {
        return answer("maddress", common, &process, &found, report);
    }
    if process.facts().truncation.is_some() {
        // SOS has no such line, but a table of half a process must say so first.
        let head = analysis::envelope("maddress", &process, &found, ()).core;
        let mut out = std::io::stdout().lock();
        render::write(&render::headline(&head), output::look(), &mut out)?;
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    render::maddress(&report.regions, summary, output::look().width, &mut out)?;
    out.flush()?;
    Ok(finish(&process))
}
