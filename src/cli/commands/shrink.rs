use std::collections::HashMap;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use coremap::analysis::ThreadOptions;
use coremap::core::producer::DIAG_PAGE_SIZE;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::report::ShrinkReport;
use coremap::session::Session;
use coremap::{analysis, shrink};

use crate::cli::args::{Common, Purpose};
use crate::cli::new_file::NewFile;
use crate::cli::output::answer;
use crate::cli::progress::{clear, progress};
use crate::cli::{Exit, Failure, address};

pub(super) fn run(
    common: &Common,
    core: &Path,
    out: &Path,
    purpose: &[Purpose],
    addresses: &[String],
) -> Result<Exit, Failure> {
    // Before the work, and not after it.
    if let Ok(there) = std::fs::symlink_metadata(out) {
        let (out, core) = (out.display(), core.display());
        let what = if there.is_dir() { "is a directory" } else { "exists already, and shrink overwrites nothing" };
        return Err(Failure::Usage(format!("'{out}' {what}: name a new file, `coremap shrink -o NEW {core}`")));
    }
    let options =
        Options { record: true, memory: common.memory, alone: true, handle_sigbus: true, ..Options::default() };
    let process = Process::open(core, &options, &progress());
    clear();
    let process = process?;
    // The very commands, so that what they read is what is kept.
    let session = Session::new(&process);
    let ips = addresses.iter().map(|a| address::parse(a, &process)).collect::<Result<Vec<_>, _>>();
    let ips = ips.map_err(Failure::Usage)?;
    let silent = Progress::silent();
    for p in purpose {
        match p {
            Purpose::Info => drop(analysis::info(&session, false)),
            Purpose::Summary => drop(analysis::summary(&session, false, &silent)),
            Purpose::Regions => drop(analysis::regions(&session, &analysis::RegionOptions::default())),
            Purpose::Stacks => drop(analysis::stacks(&session, &HashMap::new(), false, &silent)),
            Purpose::Heap => drop(analysis::heap(&session, true)),
            Purpose::Ip2method => {
                drop(analysis::ip2method(&session, &ips));
                if ips.is_empty() {
                    drop(analysis::perfmap(&session));
                }
            }
            Purpose::Threads => {
                drop(analysis::threads(&session, ThreadOptions::default()));
                // Roots of stacks: GC info of their frames.
                for (number, runtime) in session.coreclr().iter().enumerate() {
                    let walker = session.walker(session.known_stacks());
                    let mut walk = |tid| Some(walker.walk(session.thread(tid)?, session.marks(tid)));
                    drop(runtime.stack_refs(number, &mut walk));
                }
            }
            Purpose::Async => drop(analysis::async_chains(&session, true, &silent)),
            Purpose::Object => {
                for &at in &ips {
                    drop(analysis::object(&session, at));
                }
            }
            Purpose::Check => drop(analysis::check(&session)),
        }
    }
    if let Some(page) = process.facts().diag_page {
        process.reads().note(page.range.start, DIAG_PAGE_SIZE);
    }
    let new = NewFile::create(out).map_err(|e| Failure::Usage(format!("{}: {e}", out.display())))?;
    let mut writer = BufWriter::new(new.file());
    let written = shrink::write(&process, &process.reads().ranges(), &mut writer);
    let written = written.and_then(|shrunk| writer.flush().map(|()| shrunk));
    drop(writer);
    let shrunk = written.and_then(|shrunk| new.keep().map(|()| shrunk)).map_err(|e| {
        let why = match e.kind() {
            ErrorKind::FileTooLarge => "a file may not be larger (ulimit -f)".to_owned(),
            _ => e.to_string(),
        };
        Failure::Beside(format!("writing {}: {why}; nothing is left of it", out.display()))
    })?;
    if shrunk.notes_cut {
        process.diag.partial("limit", "the notes claim more bytes than any process has: some are left out");
    }
    let report = ShrinkReport {
        file: out.display().to_string(),
        size: shrunk.size,
        kept: shrunk.kept,
        in_core: shrunk.of,
        segments: shrunk.segments,
    };
    answer("shrink", common, &session, report)
}
