use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use coremap::commands::diff::{DiffReport, DiffSide};
use coremap::commands::heapstat::HeapStatReport;
use coremap::commands::summary::SummaryReport;
use coremap::commands::{self, Baseline, Condition, DiffInput, HeapStatOptions, MallocOptions};
use coremap::limits;
use coremap::process::Process;
use coremap::progress::Progress;
use coremap::session::Session;

use crate::cli::args::Common;
use crate::cli::ask::open;
use crate::cli::commands::Command;
use crate::cli::output::{answer, finish, held, tell};
use crate::cli::progress::{progress, watched};
use crate::cli::values::diff_condition;
use crate::cli::{Exit, Failure};

/// Two cores side by side: counts and sizes by kind, types, blocks of malloc
#[derive(Args, Debug)]
pub(super) struct Diff {
    /// Exit with 1 if this holds, as 'gcheap.delta>20%' or 'threads.new>200' (repeatable)
    #[arg(long, value_name = "CONDITION", value_parser = diff_condition(), hide_possible_values = true, long_help = CONDITION)]
    fail_if: Vec<Condition>,
    /// The older core, or what summary --json said of it
    old: PathBuf,
    /// The newer core
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
            let why = "--smaps is of one core, and diff compares what two cores hold: ask summary of each";
            return Err(Failure::Usage(why.into()));
        }
        if read_if_json(new)?.is_some() {
            let name = new.display();
            return Err(Failure::Usage(format!(
                "{name} is JSON; a baseline is the older side: coremap diff BASELINE CORE"
            )));
        }
        let progress = progress();
        let before = match read_if_json(old)? {
            Some(text) => {
                let name = old.display().to_string();
                let base = Baseline::parse(&name, &text).map_err(|e| Failure::Beside(format!("{name}: {e}")))?;
                Old::Baseline(name, Box::new(base))
            }
            None => Old::Core(Box::new(open(old, common, &progress)?)),
        };
        let after = open(new, common, &progress)?;
        let session = Session::new(&after);
        let (report, partial) = match &before {
            Old::Baseline(name, base) => {
                let summary = watched(&after, &progress, || commands::summary(&session, false, &progress));
                let core = commands::side(&after);
                let report = commands::diff(
                    DiffInput { core: &base.core, summary: &base.summary, heap: None, malloc: None },
                    DiffInput { core: &core, summary: &summary, heap: None, malloc: None },
                );
                if base.core.truncated {
                    tell(&format!("warning: truncated: {name}: the core that it was made of was cut off"));
                }
                (report, base.core.truncated)
            }
            Old::Core(before) => {
                let report = two_cores(&Session::new(before), &session, &progress);
                // The envelope and its warnings are the newer core's; the older's go first.
                (report, finish(before) == Exit::Partial)
            }
        };
        let conditions = commands::judge_diff(&self.fail_if, &report);
        let report = DiffReport { conditions: conditions.clone(), ..report };
        let exit = answer(Self::NAME, common, &session, report)?;
        Ok(held(&conditions, if partial { Exit::Partial } else { exit }))
    }
}

/// What a core is compared with.
enum Old {
    /// An earlier answer, and the name of its file.
    Baseline(String, Box<Baseline>),
    /// Another core.
    Core(Box<Process>),
}

/// What is told of one of two cores.
struct Side<'a, 'p> {
    core: DiffSide,
    summary: SummaryReport,
    heap: HeapStatReport,
    session: &'a Session<'p>,
}

impl<'a, 'p> Side<'a, 'p> {
    fn of(session: &'a Session<'p>, progress: &Progress) -> Side<'a, 'p> {
        watched(session.process, progress, || Side {
            core: commands::side(session.process),
            summary: commands::summary(session, false, progress),
            heap: commands::heapstat(session, &HeapStatOptions::default(), progress),
            session,
        })
    }
}

fn two_cores(old: &Session<'_>, new: &Session<'_>, progress: &Progress) -> DiffReport {
    let (old, new) = (Side::of(old, progress), Side::of(new, progress));
    // Blocks of different allocators have different sizes, and that is no news here.
    let both = old.session.malloc().is_like(new.session.malloc());
    let malloc = |s: &Session<'_>| commands::malloc(s, &MallocOptions::default(), progress);
    let blocks = |s: &Side<'_, '_>| both.then(|| watched(s.session.process, progress, || malloc(s.session)));
    let (old_malloc, new_malloc) = (blocks(&old), blocks(&new));
    commands::diff(
        DiffInput { core: &old.core, summary: &old.summary, heap: Some(&old.heap), malloc: old_malloc.as_ref() },
        DiffInput { core: &new.core, summary: &new.summary, heap: Some(&new.heap), malloc: new_malloc.as_ref() },
    )
}

/// The file's text where it is JSON. What can't be read is left to who opens cores.
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
        return Err(failed("too long for a summary".into()));
    }
    Ok(Some(text))
}

const CONDITION: &str = "\
Exit with 1 if this holds, and say so on stderr and in the JSON. Repeatable.

KIND.COLUMN, one of > >= < <= ==, and a limit: 'gcheap.delta>20%', 'total.delta>100MiB',
'threads.new>200'.
KIND: a kind in any case of letters, total, or threads.
COLUMN: old, new, delta; old_count, new_count, delta_count; old_in_core, new_in_core,
delta_in_core; of threads old, new, delta.
Limit: a number, a size (KiB MiB GiB TiB, KB MB GB TB), or a percentage of the old figure.";
