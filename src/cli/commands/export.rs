use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use coremap::commands::export::{ExportedRow, Files};
use coremap::commands::{self, ExportOptions};
use coremap::export::{ExportError, Output};
use coremap::report::{ExportFormat, ExportSubject};
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::open;
use crate::cli::commands::Command;
use crate::cli::new_file::{NewFile, not_written, refuse_existing};
use crate::cli::output::answer;
use crate::cli::progress::{progress, watched};
use crate::cli::{Exit, Failure};

/// Write a file for another viewer: .gcdump for PerfView and Visual Studio, stacks for speedscope, Firefox and pprof
#[derive(Args, Debug)]
pub(super) struct Export {
    /// What to write
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: To,
    /// File to write; must not exist
    #[arg(short, long, value_name = "OUT")]
    out: PathBuf,
    /// Of stacks: what they are of
    #[arg(long, value_enum, value_name = "SUBJECT")]
    of: Option<Of>,
    #[command(flatten)]
    core: CoreArg,
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    /// The largest managed heap: types, objects, references, roots; no contents
    Gcdump,
    /// Stacks for speedscope: each weight is a profile of one file
    Speedscope,
    /// Stacks for the Firefox Profiler: a track for each thread
    Firefox,
    /// Stacks for pprof, with all weights
    Pprof,
    /// Collapsed stacks: text, a line each
    Folded,
}

/// What stacks are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Of {
    /// What threads do, by threads and by bytes of their stacks (usual)
    Threads,
    /// What keeps the managed heap: types by what dominates them, by bytes and objects
    Retained,
    /// Blocks of malloc that are alike
    Malloc,
    /// Native memory by the types and fields that point at it
    Holders,
}

impl From<Of> for ExportSubject {
    fn from(of: Of) -> ExportSubject {
        match of {
            Of::Threads => ExportSubject::Threads,
            Of::Retained => ExportSubject::Retained,
            Of::Malloc => ExportSubject::Malloc,
            Of::Holders => ExportSubject::Holders,
        }
    }
}

impl From<To> for ExportFormat {
    fn from(to: To) -> ExportFormat {
        match to {
            To::Gcdump => ExportFormat::Gcdump,
            To::Speedscope => ExportFormat::Speedscope,
            To::Firefox => ExportFormat::Firefox,
            To::Pprof => ExportFormat::Pprof,
            To::Folded => ExportFormat::Folded,
        }
    }
}

impl Command for Export {
    const NAME: &'static str = "export";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let format = ExportFormat::from(self.to);
        if self.of.is_some() && format == ExportFormat::Gcdump {
            return Err(Failure::Usage(
                "--of is what stacks are of, and a .gcdump has the managed heap alone".to_owned(),
            ));
        }
        let way = format!("`coremap export --to {format} -o NEW {}`", self.core.core.display());
        refuse_existing(&self.out, Self::NAME, Some(&way))?;
        let progress = progress();
        let process = open(&self.core.core, common, &progress)?;
        let session = Session::new(&process);
        let mut file = OneFile(&self.out);
        let options = ExportOptions { format, subject: self.of.map(Into::into).unwrap_or_default() };
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
