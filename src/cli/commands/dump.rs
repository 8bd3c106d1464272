use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use coremap::addr::AddrRange;
use coremap::commands::Purpose;
use coremap::commands::dump::DumpReport;
use coremap::commands::dump::{self, Dumped, Keep, Plan};
use coremap::diag::WarningCode;
use coremap::map::Kind;
use coremap::process::{Options, Process};
use coremap::program::limits;
use coremap::program::units::human;
use coremap::progress::Progress;
use coremap::report::Compression;
use coremap::session::Session;
use coremap::targets::Figure;
use coremap::targets::Producer;

use crate::cli::args::Common;
use crate::cli::commands::Command;
use crate::cli::new_file::{NewFile, not_written, refuse_existing};
use crate::cli::output::answer;
use crate::cli::progress::{progress, watched, while_doing};
use crate::cli::{Exit, Failure, address};

/// Write a core of a running process, which continues afterwards
#[derive(Args, Debug)]
pub(super) struct Dump {
    /// Write the core to OUT, a file that does not exist yet. The ending .zst, .gz, .xz or .lz4 compresses it
    #[arg(short, long, value_name = "OUT")]
    out: PathBuf,
    /// Write only the memory that these commands (separated by commas) read, so that their output is the same
    /// as on the process. Without --for, write what a kernel core contains
    #[arg(long = "for", value_enum, value_delimiter = ',', value_name = "COMMANDS")]
    purpose: Vec<Purpose>,
    /// With --for ip2method or object: write only the data for this address (repeatable)
    #[arg(long, value_name = "ADDR")]
    address: Vec<String>,
    /// Also write the mapped pages of executables and libraries
    #[arg(long, conflicts_with = "purpose")]
    files: bool,
    /// Compress the core as FORM, whatever the ending of OUT
    #[arg(long, value_enum, value_name = "FORM")]
    compress: Option<Form>,
    /// PID of the running process; --pid PID is the same
    #[arg(value_name = "PID")]
    process: PathBuf,
}

/// How a core is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// zstd, the best ratio for its speed
    Zstd,
    /// gzip
    Gzip,
    /// xz, the slowest
    Xz,
    /// lz4
    Lz4,
    /// No compression
    None,
}

impl Dump {
    /// The requested compression, by the option or by the name of the file.
    fn form(&self) -> Option<Compression> {
        let by_name = || {
            let ending = self.out.extension()?.to_str()?;
            Compression::ALL.iter().copied().find(|form| form.name() == ending)
        };
        match self.compress {
            None => by_name(),
            Some(Form::None) => None,
            Some(Form::Zstd) => Some(Compression::Zstd),
            Some(Form::Gzip) => Some(Compression::Gzip),
            Some(Form::Xz) => Some(Compression::Xz),
            Some(Form::Lz4) => Some(Compression::Lz4),
        }
    }

    /// Opens and stops the process, and records what is read.
    fn open(&self, common: &Common, progress: &Progress) -> Result<Process, Failure> {
        let options = Options {
            memory: common.memory,
            alone: true,
            handle_sigbus: true,
            stop_at_most: common.stop_at_most,
            to_dump: true,
            record: true,
            ..Options::default()
        };
        let process = while_doing(&|| "opening", progress, || Process::open(&self.process, &options, progress))?;
        if process.producer() != Producer::Live {
            let (out, core) = (self.out.display(), self.process.display());
            let way = format!("to write a smaller core: `coremap shrink -o {out} {core}`");
            return Err(Failure::Usage(format!("'{core}' is a core, and dump needs a running process; {way}")));
        }
        Ok(process)
    }

    /// Purposes whose pages are written, one by one. Empty for a full core. `all` excludes those that would write a
    /// large heap, because the process is stopped until it is copied.
    fn purposes(&self, session: &Session<'_>) -> Vec<Purpose> {
        if !self.purpose.contains(&Purpose::All) {
            return self.purpose.clone();
        }
        let held = |wanted: &dyn Fn(Kind) -> bool| {
            let regions = session.map().regions.iter().filter(|region| wanted(region.kind));
            regions.map(|region| resident(session.process, region.range)).fold(0, u64::saturating_add)
        };
        let (objects, blocks) = (held(&Kind::holds_objects), held(&Kind::holds_blocks));
        let is_large = |purpose: Purpose| {
            purpose.keeps_objects() && objects > limits::MAX_DUMPED_HEAP
                || purpose.keeps_blocks() && blocks > limits::MAX_DUMPED_HEAP
        };
        let (left, kept): (Vec<_>, Vec<_>) =
            Purpose::each().partition(|&purpose| is_large(purpose) && !self.purpose.contains(&purpose));
        if !left.is_empty() {
            let words = words(&left);
            let heap = if left.iter().any(|purpose| purpose.keeps_objects()) { objects } else { 0 };
            let heap = heap + if left.iter().any(|purpose| purpose.keeps_blocks()) { blocks } else { 0 };
            let (names, list, heap) = (words.join(", "), words.join(","), human(heap));
            session.process.diag.note(
                WarningCode::LeftOut,
                format!(
                    "--for all leaves out {names}: the process would stay stopped while {heap} of heap are read; to include \
                     them: --for all,{list}"
                ),
            );
        }
        kept
    }

    /// Runs the commands whose reads are kept, and returns what to write.
    fn plan(&self, session: &Session<'_>, kept_for: &[Purpose], progress: &Progress) -> Result<Plan, Failure> {
        let process = session.process;
        let ips = self.address.iter().map(|a| address::parse(a, process)).collect::<Result<Vec<_>, _>>()?;
        let read = if kept_for.is_empty() { &Purpose::STRUCTURES } else { kept_for };
        watched(process, progress, || read.iter().for_each(|purpose| purpose.read(session, &ips, progress)));
        // Every answer begins with them.
        session.runtimes();
        dump::for_debugger(process);
        let read = process.reads().ranges();
        if kept_for.is_empty() {
            return Ok(Plan::new(process, Keep::Full { and: &read, files: self.files }, &[]));
        }
        let words = words(kept_for);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(Plan::new(process, Keep::Only(&read), &words))
    }

    /// Writes the core to a file without a name. Fails early if there is not enough room.
    fn write(&self, process: &Process, plan: &Plan, new: &NewFile, progress: &Progress) -> io::Result<Dumped> {
        let Some(form) = self.form() else {
            if let Some(room) = room(new.file()).filter(|&room| room < plan.bytes()) {
                let (needs, room) = (human(plan.bytes()), human(room));
                let why = format!(
                    "the core may need {needs}, and only {room} are free; write less with --for COMMANDS, or compress with \
                     -o NAME.zst"
                );
                return Err(io::Error::new(ErrorKind::StorageFull, why));
            }
            return dump::write(process, plan, new.file(), progress);
        };
        // A small core is copied first, and compressed after the process has resumed.
        let scratch = if self.purpose.is_empty() { None } else { Some(tempfile::tempfile_in(folder(&self.out))?) };
        let mut out = BufWriter::new(new.file());
        dump::write_packed(process, plan, form, scratch.as_ref(), &mut out, progress)
    }
}

fn words(purposes: &[Purpose]) -> Vec<String> {
    purposes.iter().map(|purpose| purpose.name().to_owned()).collect()
}

/// Bytes of `range` that are resident or swapped, estimated from its mapping's figures.
fn resident(process: &Process, range: AddrRange) -> u64 {
    let known = process.facts().residence.as_ref().and_then(|residence| residence.mapping_at(range.start).copied());
    let held = known.map(|known| known.figures.get(Figure::Rss).saturating_add(known.figures.get(Figure::Swap)));
    range.len().min(held.unwrap_or(u64::MAX))
}

/// Bytes available to unprivileged users where the file is.
#[cfg(unix)]
fn room(file: &File) -> Option<u64> {
    let stats = rustix::fs::fstatvfs(file).ok()?;
    stats.f_bavail.checked_mul(stats.f_frsize)
}

#[cfg(not(unix))]
fn room(_: &File) -> Option<u64> {
    None
}

/// Bytes that a file takes on disk.
#[cfg(unix)]
fn on_disk(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;

    Some(path.metadata().ok()?.blocks() * 512)
}

#[cfg(not(unix))]
fn on_disk(_: &Path) -> Option<u64> {
    None
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Command for Dump {
    const NAME: &'static str = "dump";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let out = self.out.as_path();
        if common.no_stop {
            return Err(Failure::Usage(
                "dump cannot use --no-stop, since the core would be inconsistent; --stop-at-most TIME limits the stop"
                    .into(),
            ));
        }
        // Checked before the process is stopped.
        refuse_existing(out, Self::NAME, None)?;
        let new = NewFile::begin(out)?;
        let progress = progress();
        let process = self.open(common, &progress)?;
        let session = Session::new(&process);
        let kept_for = self.purposes(&session);
        let plan = self.plan(&session, &kept_for, &progress)?;
        let written = watched(&process, &progress, || self.write(&process, &plan, &new, &progress));
        // The process resumes in any case.
        process.target().finish();
        let written = written.and_then(|dumped| {
            let size = (&mut new.file()).seek(SeekFrom::End(0))?;
            while_doing(&|| "waiting for the disk", &progress, || new.keep()).map(|()| (dumped, size))
        });
        let (dumped, size) = written.map_err(|e| not_written(out, &e))?;
        let report = DumpReport {
            file: out.display().to_string(),
            size,
            on_disk: on_disk(out),
            packed: self.form(),
            unpacked: dumped.size,
            kept_for: (!kept_for.is_empty()).then(|| words(&kept_for).join(",")),
            kept: dumped.kept,
            in_core: dumped.of,
            segments: dumped.segments,
        };
        answer(Self::NAME, common, &session, report)
    }
}
