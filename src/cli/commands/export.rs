use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use coremap::commands::export::{ExportedRow, Files};
use coremap::commands::{self, ExportOptions};
use coremap::export::{ExportError, Output};
use coremap::report::ExportFormat;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::open;
use crate::cli::commands::Command;
use crate::cli::new_file::{NewFile, not_written, refuse_existing};
use crate::cli::output::answer;
use crate::cli::progress::{progress, watched};
use crate::cli::{Exit, Failure};

/// Write a file for another viewer: .gcdump for PerfView and Visual Studio
#[derive(Args, Debug)]
pub(super) struct Export {
    /// What to write
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: To,
    /// File to write; must not exist
    #[arg(short, long, value_name = "OUT")]
    out: PathBuf,
    #[command(flatten)]
    core: CoreArg,
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    /// The largest managed heap: types, objects, references, roots; no contents
    Gcdump,
}

impl From<To> for ExportFormat {
    fn from(to: To) -> ExportFormat {
        match to {
            To::Gcdump => ExportFormat::Gcdump,
        }
    }
}

impl Command for Export {
    const NAME: &'static str = "export";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let format = ExportFormat::from(self.to);
        let way = format!("`coremap export --to {format} -o NEW {}`", self.core.core.display());
        refuse_existing(&self.out, Self::NAME, Some(&way))?;
        let progress = progress();
        let process = open(&self.core.core, common, &progress)?;
        let session = Session::new(&process);
        let mut file = OneFile(&self.out);
        let options = ExportOptions { format };
        let report = watched(&process, &progress, || commands::export(&session, options, &mut file, &progress));
        process.target().finish();
        let report = report.map_err(|e| not_written(&self.out, &e))?;
        let nothing = report.files.is_empty();
        Ok(answer(Self::NAME, common, &session, report)?.or_nothing(nothing))
    }
}

/// The file that is asked for.
struct OneFile<'o>(&'o Path);

impl Files for OneFile<'_> {
    fn make(
        &mut self,
        _: Option<&str>,
        fill: &mut dyn FnMut(&mut dyn Output) -> Result<u64, ExportError>,
    ) -> Result<ExportedRow, ExportError> {
        let new = NewFile::create(self.0)?;
        let rows = fill(&mut new.file())?;
        let bytes = new.file().metadata()?.len();
        new.keep()?;
        Ok(ExportedRow { path: self.0.display().to_string(), bytes, rows })
    }
}
