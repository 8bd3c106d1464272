use std::path::{Path, PathBuf};
use std::{fs, io};

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

/// Write a file for another viewer: .gcdump for PerfView and Visual Studio, .hprof for VisualVM and MAT, stacks for speedscope, Firefox and pprof, tables for SQL
#[derive(Args, Debug)]
pub(super) struct Export {
    /// What to write
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: To,
    /// File to write, of tables the folder; must not exist
    #[arg(short, long, value_name = "OUT")]
    out: PathBuf,
    /// Of stacks: what they are of
    #[arg(long, value_enum, value_name = "SUBJECT")]
    of: Option<Of>,
    /// Of tables: what the column "core" says in every row; the path of the core where it is not given
    #[arg(long, value_name = "ID")]
    core_id: Option<String>,
    /// Of tables: texts of strings too, and not their lengths and hashes alone
    #[arg(long)]
    show_data: bool,
    #[command(flatten)]
    core: CoreArg,
}

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    /// The managed heaps: types, objects, references, roots; no contents
    Gcdump,
    /// The heap of Java, or .NET's in Java's terms, for VisualVM and Eclipse MAT; with its contents, texts and numbers
    Hprof,
    /// Stacks for speedscope: each weight is a profile of one file
    Speedscope,
    /// Stacks for the Firefox Profiler: a track for each thread
    Firefox,
    /// Stacks for pprof, with all weights
    Pprof,
    /// Collapsed stacks: text, a line each
    Folded,
    /// Tables for SQL: a folder of Parquet files
    Parquet,
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
            return Err(Failure::Usage(format!("--of is what stacks are of, and {format} has none")));
        }
        if format == ExportFormat::Parquet && cfg!(not(feature = "parquet")) {
            return Err(Failure::Usage(
                "this coremap was built without the feature parquet: it writes no tables".into(),
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
        process.target().finish();
        let report = report.map_err(|e| not_written(&self.out, &e))?;
        let nothing = report.files.is_empty();
        Ok(answer(Self::NAME, common, &session, report)?.or_nothing(nothing))
    }
}

impl Export {
    fn options(&self, format: ExportFormat) -> Result<ExportOptions, Failure> {
        if format != ExportFormat::Parquet && (self.core_id.is_some() || self.show_data) {
            return Err(Failure::Usage(format!("--core-id and --show-data are of tables, and {format} is none")));
        }
        let subject = self.of.map(Into::into).unwrap_or_default();
        Ok(ExportOptions { format, subject, core_id: self.core_id.clone(), show_data: self.show_data })
    }
}

/// The file that is asked for, or the folder of files.
struct Place<'o> {
    out: &'o Path,
    /// Files in the folder.
    made: Vec<PathBuf>,
}

impl Place<'_> {
    /// Where `name` goes: it makes the folder, for its owner alone.
    fn path(&self, name: Option<&str>) -> io::Result<PathBuf> {
        let Some(name) = name else { return Ok(self.out.to_owned()) };
        if self.made.is_empty() {
            folder(self.out)?;
        }
        Ok(self.out.join(name))
    }

    /// Nothing is left of a folder that did not become whole.
    fn remove(&self) {
        if !self.made.is_empty() {
            self.made.iter().for_each(|file| drop(fs::remove_file(file)));
            drop(fs::remove_dir(self.out));
        }
    }
}

/// Make a folder that nobody else looks into.
#[cfg(unix)]
fn folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;

    fs::DirBuilder::new().mode(0o700).create(path)
}

/// On Windows the folder above says who may.
#[cfg(not(unix))]
fn folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

impl Files for Place<'_> {
    fn make(
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
