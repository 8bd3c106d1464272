use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use clap::{Args, ValueEnum};
use coremap::commands::record::{self, Meter, Pace, PartRow, RecordCost, RecordReport};
use coremap::commands::record::{Cost, Moment, Recording, RecordingWriter, start_ticks};
use coremap::commands::{self};
use coremap::diag::Warning;
use coremap::program::units::{human, seconds};
use coremap::progress::Progress;
use coremap::report::{CoreRow, Envelope, Part, RecordingEnd};
use coremap::session::Session;
use coremap::targets::Producer;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::open;
use crate::cli::commands::Command;
use crate::cli::output::{Origin, answer_of, end, merge, message};
use crate::cli::progress::{progress, watched};
use crate::cli::values::duration;
use crate::cli::{Exit, Failure, console, interrupt};

/// Data of a sample beside the kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum With {
    /// Objects on managed heaps, by type
    Types,
    /// Blocks of malloc, by size
    Malloc,
    /// Bytes in pages that are not all zero, by kind; reads all resident memory
    Written,
    /// Only kinds and findings, which every sample contains
    Summary,
}

/// Sample the memory of a running process at intervals, into a small file
#[derive(Args, Debug)]
pub(super) struct Record {
    /// Write to FILE, a file that does not exist yet, one line per sample; '-' is standard output [default:
    /// coremap-PID-TIME.jsonl]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Take a sample every TIME, e.g. 10s, 500ms or 1m
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    every: Duration,
    /// Stop after TIME, e.g. 1h
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
    /// Stop after N samples (the output calls a sample a look)
    #[arg(long, value_name = "N")]
    looks: Option<u64>,
    /// Choose the data to sample in addition to kinds and findings. Data that takes more than a tenth of the
    /// interval to read is sampled less often
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PARTS", default_value = "types,malloc")]
    with: Vec<With>,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Record {
    const NAME: &'static str = "record";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        if self.every < LEAST {
            return Err(Failure::Usage(format!("--every {:?}: the minimum is {LEAST:?}", self.every)));
        }
        if self.looks == Some(0) {
            return Err(Failure::Usage("--looks 0: a recording needs at least one look".into()));
        }
        if let Some(path) = self.out.as_deref().filter(|path| path.symlink_metadata().is_ok()) {
            return Err(Failure::Usage(format!(
                "'{}' exists already, and record never overwrites a file",
                path.display()
            )));
        }
        interrupt::end_by_myself();
        let begun = Instant::now();
        let mut looker = Looker { common, path: &self.core.core, parts: self.parts(), warnings: Vec::new() };
        let meter = Meter::start();
        let first = looker.look(&looker.parts.clone(), &meter)?;
        let (out, file) = self.output(&first)?;
        let recording = Recording {
            subject: first.recorded.clone(),
            coremap: env!("CARGO_PKG_VERSION").to_owned(),
            every: first.is_live.then_some(self.every.as_secs_f64()),
            parts: looker.parts.clone(),
            moments: Vec::new(),
        };
        let name = file.as_ref().map_or_else(|| "standard output".to_owned(), |file| file.display().to_string());
        let failed = |e: io::Error, looks: usize| match (&file, e.kind()) {
            (None, io::ErrorKind::BrokenPipe) => Failure::Output(e),
            _ => Failure::Beside(format!("cannot write {name}: {e}; the file contains {looks} looks")),
        };
        let mut writer = RecordingWriter::begin(out, &recording).map_err(|e| failed(e, 0))?;
        let mut row = Row::new();
        let mut notices = Told::default();
        let mut pace = Pace::new(self.every, &looker.parts);
        let mut costs: Vec<Cost> = Vec::new();
        let (core, is_live) = (first.core, first.is_live);
        let mut next = Some((first.moment, Duration::ZERO));
        let mut misses = 0;
        let mut last = 0.0;
        let ended = loop {
            if let Some((mut moment, at)) = next.take() {
                moment.look = costs.len() as u64 + 1;
                moment.seconds = at.as_secs_f64();
                last = moment.seconds;
                row.show(&moment);
                notices.slower(&pace.took(at, ms(moment.cost.wall_ms), &parts_of(&moment)), self.every);
                costs.push(moment.cost);
                writer.add(moment).map_err(|e| failed(e, costs.len() - 1))?;
            }
            if !is_live {
                break RecordingEnd::SingleSample;
            }
            if self.looks.is_some_and(|looks| costs.len() as u64 >= looks)
                || self.length.is_some_and(|length| pace.next() > length)
            {
                break RecordingEnd::Done;
            }
            if !wait(begun, pace.next()) {
                break RecordingEnd::Interrupted;
            }
            let at = begun.elapsed();
            let meter = Meter::start();
            let still = || start_ticks(&self.core.core) == recording.subject.start_ticks;
            match looker.look(&pace.due(at), &meter) {
                // If the process ended meanwhile, the sample may be incomplete.
                Ok(_) | Err(_) if !still() => break RecordingEnd::ProcessEnded,
                Ok(look) => {
                    misses = 0;
                    next = Some((look.moment, at));
                }
                Err(why) => {
                    misses += 1;
                    if misses == MISSES {
                        return Err(why);
                    }
                    message(&format!("warning: the look after {} failed: {why}", seconds(at.as_secs_f64())));
                    pace.took(at, Duration::ZERO, &[]);
                }
            }
        };
        if ended == RecordingEnd::ProcessEnded {
            message(&format!("the process ended after {}", coremap::program::units::count(costs.len() as u64, "look")));
        }
        let report = RecordReport {
            file: file.map(|file| file.display().to_string()),
            bytes: writer.written(),
            looks: costs.len() as u64,
            seconds: (last * 10.0).round() / 10.0,
            every: self.every.as_secs_f64(),
            ended,
            cost: RecordCost::of(costs.iter(), last),
            parts: parts_taken(&looker.parts, &costs),
        };
        let report = Envelope::new(Self::NAME, core, looker.warnings, report);
        let sources = [Origin::Read(&report.warnings)];
        match report.body.file {
            Some(_) => answer_of(common, &report, &sources),
            // The looks are on stdout.
            None => end(common, Self::NAME, &sources, |_| Ok(())),
        }
    }
}

/// Minimum interval between samples. A shorter one shows no change and slows the process down.
const LEAST: Duration = Duration::from_millis(20);

/// Number of consecutive failed samples after which recording ends.
const MISSES: u32 = 3;

impl Record {
    fn parts(&self) -> Vec<Part> {
        let known = [(With::Types, Part::Types), (With::Malloc, Part::Malloc), (With::Written, Part::Written)];
        known.into_iter().filter(|(with, _)| self.with.contains(with)).map(|(_, part)| part).collect()
    }

    /// Destination of the lines, and its path if it is a file.
    fn output(&self, first: &Look) -> Result<(Box<dyn Write>, Option<PathBuf>), Failure> {
        let path = match &self.out {
            Some(path) if path.as_os_str() == "-" => return Ok((Box::new(io::stdout()), None)),
            Some(path) => path.clone(),
            None => {
                let time = first.moment.time.unwrap_or_else(SystemTime::now);
                let time = humantime::format_rfc3339_seconds(time).to_string().replace(['-', ':'], "");
                let pid = first.recorded.pid.map_or_else(|| "core".to_owned(), |pid| pid.to_string());
                PathBuf::from(format!("coremap-{pid}-{time}.jsonl"))
            }
        };
        let file = for_its_owner_alone(&path).map_err(|e| {
            let why = if e.kind() == io::ErrorKind::AlreadyExists { "it exists".to_owned() } else { e.to_string() };
            Failure::Beside(format!("cannot write {}: {why}", path.display()))
        })?;
        Ok((Box::new(file), Some(path)))
    }
}

/// Creates a file that only its owner may read, because it contains names of a program's types.
fn for_its_owner_alone(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

struct Look {
    moment: Moment,
    core: CoreRow,
    recorded: coremap::commands::record::Subject,
    is_live: bool,
}

/// Opens the process again for each sample.
struct Looker<'a> {
    common: &'a Common,
    path: &'a Path,
    parts: Vec<Part>,
    /// Warnings of all samples, each code once.
    warnings: Vec<Warning>,
}

impl Looker<'_> {
    fn look(&mut self, parts: &[Part], meter: &Meter) -> Result<Look, Failure> {
        let progress: Progress = progress();
        // Before it is opened: the number may be another process's by the end.
        let start_ticks = start_ticks(self.path);
        let time = SystemTime::now();
        let process = open(self.path, self.common, &progress)?;
        let session = Session::new(&process);
        let mut moment = watched(&process, &progress, || record::moment(&session, parts, &progress));
        let stood = process.target().finish();
        meter.read(&mut moment.cost, stood);
        let report = commands::envelope(Record::NAME, &session, ());
        moment.warnings = report.warnings.iter().map(|w| w.code.name().into()).collect();
        moment.warnings.dedup();
        merge(&mut self.warnings, report.warnings);
        let is_live = process.producer() == Producer::Live;
        moment.time = if is_live { Some(time) } else { modified(self.path) };
        let recorded = coremap::commands::record::Subject { start_ticks, ..record::subject(&session) };
        Ok(Look { moment, core: report.core, recorded, is_live })
    }
}

/// Time of a file's last modification.
fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().ok().filter(std::fs::Metadata::is_file)?.modified().ok()
}

/// Waits until `until` after `begun`. Returns false if the program is to end.
fn wait(begun: Instant, until: Duration) -> bool {
    loop {
        if interrupt::is_ending() {
            return false;
        }
        match until.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
            Some(left) => std::thread::park_timeout(left),
            None => return true,
        }
    }
}

fn ms(number: f64) -> Duration {
    Duration::try_from_secs_f64(number / 1e3).unwrap_or_default()
}

/// Durations of a sample's parts.
fn parts_of(moment: &Moment) -> Vec<(Part, Duration)> {
    let cost = &moment.cost;
    [(Part::Types, cost.types_ms), (Part::Malloc, cost.malloc_ms)]
        .into_iter()
        .filter(|(_, took)| *took > 0.0)
        .map(|(part, took)| (part, ms(took)))
        .collect()
}

fn parts_taken(parts: &[Part], costs: &[Cost]) -> Vec<PartRow> {
    let looks = |part: &Part| match part {
        Part::Types => costs.iter().filter(|cost| cost.types_ms > 0.0).count(),
        Part::Malloc => costs.iter().filter(|cost| cost.malloc_ms > 0.0).count(),
        Part::Written => costs.len(),
    };
    parts.iter().map(|part| PartRow { part: *part, looks: looks(part) as u64 }).collect()
}

/// Which reduced sampling rates have been reported.
#[derive(Default)]
struct Told(Vec<Option<Part>>);

impl Told {
    fn slower(&mut self, slower: &[(Option<Part>, Duration)], every: Duration) {
        for (part, apart) in slower {
            if self.0.contains(part) {
                continue;
            }
            self.0.push(*part);
            let (what, took) = (part.map_or("kinds", Part::name), seconds(apart.as_secs_f64() / 10.0));
            let (every, apart) = (seconds(every.as_secs_f64()), seconds(apart.as_secs_f64()));
            message(&format!(
                "sampling {what} takes {took}, more than a tenth of {every}, so it is done about every {apart}"
            ));
        }
    }
}

/// Prints a line for each sample, on a terminal.
struct Row {
    terminal: bool,
    shown: u64,
}

impl Row {
    fn new() -> Row {
        Row { terminal: io::stderr().is_terminal(), shown: 0 }
    }

    fn show(&mut self, moment: &Moment) {
        if !self.terminal {
            return;
        }
        if self.shown.is_multiple_of(HEADED) {
            let heading = format!(
                "{:>6}  {:>9}  {:>11}  {:>8}  {:>12}  {:>10}\n",
                "look", "after", "RSS", "threads", "stopped", "took"
            );
            console::print(heading.as_bytes());
        }
        self.shown += 1;
        let readable = moment.kinds.values().map(|k| k.readable).fold(0, u64::saturating_add);
        let rss = moment.kernel.rss.map_or_else(|| format!("({})", human(readable)), human);
        let stopped = moment.cost.stopped_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms"));
        let after = seconds(moment.seconds.round());
        let took = format!("{:.1} ms", moment.cost.wall_ms);
        let (look, threads) = (moment.look, moment.threads);
        let line = format!("{look:>6}  {after:>9}  {rss:>11}  {threads:>8}  {stopped:>12}  {took:>10}\n");
        console::print(line.as_bytes());
    }
}

/// Number of lines between headings.
const HEADED: u64 = 20;
