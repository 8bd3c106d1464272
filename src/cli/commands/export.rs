use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, ValueEnum};
use coremap::commands::export::{ExportError, ExportedRow, Output, OutputFiles};
use coremap::commands::{self, ExportOptions};
use coremap::report::{ExportFormat, ExportSubject};
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::open;
use crate::cli::commands::Command;
use crate::cli::new_file::{NewFile, not_written, refuse_existing};
use crate::cli::output::answer;
use crate::cli::progress::{progress, watched};
use crate::cli::{Exit, Failure};

/// Export heaps, stacks or tables to files for other tools: PerfView, VisualVM, speedscope, pprof, SQL
#[derive(Args, Debug)]
pub(super) struct Export {
    /// Set the file format
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: To,
    /// Write to OUT, a file (for parquet, a folder) that does not exist yet
    #[arg(short, long, value_name = "OUT")]
    out: PathBuf,
    /// For stack formats: choose what the stacks show
    #[arg(long, value_enum, value_name = "SUBJECT")]
    of: Option<Of>,
    /// For parquet: set the column "core" to ID in every row [default: the path of the core]
    #[arg(long, value_name = "ID")]
    core_id: Option<String>,
    /// For parquet: include the text of strings, not only lengths and hashes
    #[arg(long)]
    show_data: bool,
    #[command(flatten)]
    core: CoreArg,
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    /// Managed heaps for PerfView and Visual Studio: types, objects, references and roots, but no contents
    Gcdump,
    /// Java heap, or .NET heap as Java objects, for VisualVM and Eclipse MAT. Contains strings and numbers
    Hprof,
    /// Stacks for speedscope, one profile for each weight
    Speedscope,
    /// Stacks for the Firefox Profiler, one track for each thread
    Firefox,
    /// Stacks for pprof, with all weights
    Pprof,
    /// Stacks as text, one collapsed stack per line
    Folded,
    /// Tables for SQL, as a folder of Parquet files
    Parquet,
}

/// What exported stacks show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Of {
    /// Thread stacks, weighted by threads and by stack bytes (default)
    Threads,
    /// Managed heap as a dominator tree of types, weighted by bytes and objects
    Retained,
    /// Groups of similar malloc blocks
    Malloc,
    /// Native memory by the managed types and fields that point at it
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
            To::Hprof => ExportFormat::Hprof,
            To::Speedscope => ExportFormat::Speedscope,
            To::Firefox => ExportFormat::Firefox,
            To::Pprof => ExportFormat::Pprof,
            To::Folded => ExportFormat::Folded,
            To::Parquet => ExportFormat::Parquet,
        }
    }
}

impl Command for Export {
    const NAME: &'static str = "export";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let format = ExportFormat::from(self.to);
        if self.of.is_some() && !format.has_subject() {
            return Err(Failure::Usage(format!("--of is only for stack formats, and {format} has none")));
        }
        if format == ExportFormat::Parquet && cfg!(not(feature = "parquet")) {
            return Err(Failure::Usage(
                "this coremap cannot write Parquet: it was built without the feature parquet".into(),
            ));
        }
        let way = format!("`coremap export --to {format} -o NEW {}`", self.core.core.display());
        refuse_existing(&self.out, Self::NAME, Some(&way))?;
        let options = self.options(format)?;
        let progress = progress();
        let process = open(&self.core.core, common, &progress)?;
        let session = Session::new(&process);
        let mut files = Place { out: &self.out, made: Vec::new() };
        let report = watched(&process, &progress, || commands::export(&session, options, &mut files, &progress));
        if report.is_err() {
            files.remove();
        }
        let report = report.map_err(|e| not_written(&self.out, &e))?;
        let nothing = report.files.is_empty();
        Ok(answer(Self::NAME, common, &session, report)?.or_nothing(nothing))
    }
}

impl Export {
    fn options(&self, format: ExportFormat) -> Result<ExportOptions, Failure> {
        if format != ExportFormat::Parquet && (self.core_id.is_some() || self.show_data) {
            return Err(Failure::Usage(format!(
                "--core-id and --show-data are only for parquet, and {format} is none"
            )));
        }
        let subject = self.of.map(Into::into).unwrap_or_default();
        Ok(ExportOptions { format, subject, core_id: self.core_id.clone(), show_data: self.show_data })
    }
}

/// The requested file, or the folder of files.
struct Place<'o> {
    out: &'o Path,
    /// Files created in the folder.
    made: Vec<PathBuf>,
}

impl Place<'_> {
    /// Path for the file `name`. Creates the folder, accessible only to its owner.
    fn path(&self, name: Option<&str>) -> io::Result<PathBuf> {
        let Some(name) = name else { return Ok(self.out.to_owned()) };
        if self.made.is_empty() {
            folder(self.out)?;
        }
        Ok(self.out.join(name))
    }

    /// Removes an incomplete folder.
    fn remove(&self) {
        if !self.made.is_empty() {
            self.made.iter().for_each(|file| drop(fs::remove_file(file)));
            drop(fs::remove_dir(self.out));
        }
    }
}

/// Creates a folder that only its owner can access.
#[cfg(unix)]
fn folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;

    fs::DirBuilder::new().mode(0o700).create(path)
}

/// On Windows the parent folder determines who has access.
#[cfg(not(unix))]
fn folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

impl OutputFiles for Place<'_> {
    fn create(
        &mut self,
        name: Option<&str>,
        fill: &mut dyn FnMut(&mut dyn Output) -> Result<u64, ExportError>,
    ) -> Result<ExportedRow, ExportError> {
        let path = self.path(name)?;
        if name.is_some() {
            self.made.push(path.clone());
        }
        let new = NewFile::create(&path)?;
        let rows = fill(&mut new.file())?;
        let bytes = new.file().metadata()?.len();
        new.keep()?;
        Ok(ExportedRow { path: path.display().to_string(), bytes, rows })
    }
}
