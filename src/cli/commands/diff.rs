use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use coremap::commands::diff::{DiffReport, DiffRow, DiffSide, SizeDelta, TypeDelta};
use coremap::commands::record::Moment;
use coremap::commands::{self, Baseline, Condition, DiffInput, record};
use coremap::diag::{Warning, WarningCode};
use coremap::process::Process;
use coremap::program::{limits, same_allocator};
use coremap::progress::Progress;
use coremap::render::{Listed, columns};
use coremap::report::{Envelope, Part};
use coremap::session::Session;

use crate::cli::args::Common;
use crate::cli::ask::open;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::moments::{self, Row, Which};
use crate::cli::output::{Origin, answer_of, answer_with, held};
use crate::cli::progress::{progress, watched};
use crate::cli::values::diff_condition;
use crate::cli::{Exit, Failure};

/// Compare two cores of one program
#[derive(Args, Debug)]
pub(super) struct Diff {
    /// Exit with 1 if CONDITION is true, e.g. 'gcheap.delta>20%' or 'threads.new>200' (repeatable: one true
    /// condition is enough)
    #[arg(long, value_name = "CONDITION", value_parser = diff_condition(), hide_possible_values = true, long_help = CONDITION)]
    fail_if: Vec<Condition>,
    #[command(flatten)]
    list: ListArgs,
    /// Older core, its `summary --json` output, or a sample of a recording: FILE@first, or FILE@3 for sample 3
    old: PathBuf,
    /// Newer core, or a sample of a recording: FILE@last, or FILE@60 for sample 60
    new: PathBuf,
}

impl Command for Diff {
    const NAME: &'static str = "diff";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let (old, new) = (self.old.as_path(), self.new.as_path());
        if old.as_os_str() == "-" && new.as_os_str() == "-" {
            return Err(Failure::Usage("only one of the two cores can come from standard input".into()));
        }
        if common.smaps.is_some() {
            let why = "--smaps describes one core, and diff compares two; use `coremap summary --smaps` on each";
            return Err(Failure::Usage(why.into()));
        }
        let recorded = moments::look(new, Which::Last)?;
        if recorded.is_none() && read_if_json(new)?.is_some() {
            let name = new.display();
            return Err(Failure::Usage(format!(
                "{name} is JSON, and a baseline must be the older side: `coremap diff BASELINE CORE`"
            )));
        }
        let mut names = columns::<DiffRow>();
        names.extend(columns::<TypeDelta>());
        names.extend(columns::<SizeDelta>());
        let order = self.list.among(common, &names)?;
        let progress = progress();
        let old = match moments::look(old, Which::First)? {
            Some(row) => End::of_look(row),
            None => match baseline(old)? {
                Some(end) => end,
                None => End::Core(Box::new(open(old, common, &progress)?)),
            },
        };
        let new = match recorded {
            Some(row) => End::of_look(row),
            None => End::Core(Box::new(open(new, common, &progress)?)),
        };
        let (before, after) = (old.session(), new.session());
        let parts = parts(&old, &new, before.as_ref(), after.as_ref());
        let (older, newer) =
            (old.side(before.as_ref(), &parts, &progress), new.side(after.as_ref(), &parts, &progress));
        let report = commands::diff(older.input(), newer.input());
        let conditions = commands::judge_diff(&self.fail_if, &report);
        let report = order.of(DiffReport { conditions: conditions.clone(), ..report });
        // The envelope and its warnings are the newer core's; the older's go first.
        let exit = match (&new, &after) {
            (End::Look(row), _) => look_answer(common, &old, row, report)?,
            (_, Some(session)) => answer_with(&[old.source()], Self::NAME, common, session, report)?,
            _ => Exit::Done,
        };
        Ok(held(&conditions, exit))
    }
}

enum End {
    /// A core, or a running process.
    Core(Box<Process>),
    /// A sample of a recording.
    Look(Box<Row>),
    /// An earlier answer, and what is wrong with it.
    Baseline(Box<Side>, Vec<Warning>),
}

#[derive(Clone)]
struct Side {
    core: DiffSide,
    moment: Moment,
}

impl Side {
    fn input(&self) -> DiffInput<'_> {
        DiffInput { core: &self.core, moment: &self.moment }
    }
}

impl End {
    fn of_look(row: Row) -> End {
        End::Look(Box::new(row))
    }

    fn session(&self) -> Option<Session<'_>> {
        match self {
            End::Core(process) => Some(Session::new(process)),
            End::Look(_) | End::Baseline(..) => None,
        }
    }

    fn side(&self, session: Option<&Session<'_>>, parts: &[Part], progress: &Progress) -> Side {
        match (self, session) {
            (End::Core(process), Some(session)) => watched(process, progress, || {
                let moment = record::moment(session, parts, progress);
                process.target().finish();
                Side { core: commands::side(process), moment }
            }),
            (End::Look(row), _) => {
                Side { core: side_of(row), moment: row.recording.moments.first().cloned().unwrap_or_default() }
            }
            (End::Baseline(side, _), _) => (**side).clone(),
            (End::Core(process), None) => Side { core: commands::side(process), moment: Moment::default() },
        }
    }

    /// Whether this side has the data of a part.
    fn has(&self, part: Part) -> bool {
        match self {
            End::Core(_) => true,
            End::Look(row) => row.recording.moments.iter().any(|m| match part {
                Part::Types => m.types.is_some(),
                Part::Malloc => m.malloc.is_some(),
                Part::Written => m.kinds.values().all(|k| k.written.is_some()),
            }),
            End::Baseline(..) => false,
        }
    }

    /// Where its warnings are.
    fn source(&self) -> Origin<'_> {
        match self {
            End::Core(process) => Origin::Open(process),
            End::Look(row) => Origin::Read(&row.warnings),
            End::Baseline(_, warnings) => Origin::Read(warnings),
        }
    }
}

/// Parts compared in addition to kinds. Different allocators have different block sizes, so comparing these is useless.
fn parts(old: &End, new: &End, before: Option<&Session<'_>>, after: Option<&Session<'_>>) -> Vec<Part> {
    let alike = before.zip(after).is_none_or(|(old, new)| same_allocator(old, new));
    let both = |part| old.has(part) && new.has(part) && (part != Part::Malloc || alike);
    [Part::Types, Part::Malloc].into_iter().filter(|part| both(*part)).collect()
}

/// Describes a sample of a recording for `diff`: `FILE@3`.
fn side_of(row: &Row) -> DiffSide {
    let look = row.recording.moments.first().map_or(0, |m| m.look);
    DiffSide {
        path: format!("{}@{look}", row.core.path),
        pid: row.core.pid,
        producer: row.core.producer,
        threads: row.core.threads,
        truncated: false,
    }
}

fn look_answer(common: &Common, old: &End, row: &Row, body: Listed<DiffReport>) -> Result<Exit, Failure> {
    let report = Envelope::new(Diff::NAME, row.core.clone(), row.warnings.clone(), body);
    answer_of(common, &report, &[old.source(), Origin::Read(&report.warnings)])
}

/// Reads the output of `summary --json`. `None` if the file is something else.
fn baseline(path: &Path) -> Result<Option<End>, Failure> {
    let Some(text) = read_if_json(path)? else { return Ok(None) };
    let name = path.display().to_string();
    let base = Baseline::parse(&name, &text).map_err(|e| Failure::Beside(format!("{name}: {e}")))?;
    let moment = commands::moment_of(&base.summary, base.core.threads as u64);
    let text = format!("{name}: it describes a core that was cut off");
    let warnings = base.core.truncated.then(|| Warning::partial(WarningCode::Truncated, text));
    Ok(Some(End::Baseline(Box::new(Side { core: base.core, moment }), Vec::from_iter(warnings))))
}

/// Reads the file if it is JSON. Opening it as a core reports why it cannot be read.
fn read_if_json(path: &Path) -> Result<Option<Vec<u8>>, Failure> {
    if path.as_os_str() == "-" || !path.is_file() {
        return Ok(None);
    }
    let Ok(file) = File::open(path) else { return Ok(None) };
    let mut start = Vec::new();
    if file.take(64).read_to_end(&mut start).is_err() || !Baseline::is_json(&start) {
        return Ok(None);
    }
    let failed = |what: String| Failure::Beside(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|e| failed(e.to_string()))?;
    let mut text = Vec::new();
    file.take(limits::MAX_BASELINE + 1).read_to_end(&mut text).map_err(|e| failed(e.to_string()))?;
    if text.len() as u64 > limits::MAX_BASELINE {
        return Err(failed("the file is too large to be a summary".into()));
    }
    Ok(Some(text))
}

const CONDITION: &str = "\
Exit with 1 if CONDITION is true, and report it on stderr and in the JSON. Repeatable: one true condition is \
enough.

A condition is KIND.COLUMN, an operator (> >= < <= ==) and a limit, e.g. 'gcheap.delta>20%', \
'total.delta>100MiB' or 'threads.new>200'.

KIND is a kind of region, such as gcheap (upper and lower case are the same), or 'total', or 'threads'.

COLUMN depends on what you compare. Sizes: old, new, delta. Numbers of regions: old_count, new_count, \
delta_count. Bytes in the core: old_in_core, new_in_core, delta_in_core. With KIND threads: old, new, delta.

The limit is a number, a size (KiB MiB GiB TiB, KB MB GB TB), or a percentage of the old value.";
