use std::collections::HashMap;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use coremap::analysis::{Names, ThreadOptions};
use coremap::core::producer::DIAG_PAGE_SIZE;
use coremap::introspect::{identify, introspect};
use coremap::map::Base;
use coremap::native::stacks;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::report::ShrinkReport;
use coremap::stackwalk::stack_refs;
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
    let map_needed = purpose.iter().any(|p| !matches!(p, Purpose::Ip2method | Purpose::Threads));
    let found = if map_needed { introspect(&process) } else { identify(&process) };
    let ips = addresses.iter().map(|a| address::parse(a, &process)).collect::<Result<Vec<_>, _>>();
    let ips = ips.map_err(Failure::Usage)?;
    let silent = Progress::silent();
    for p in purpose {
        match p {
            Purpose::Info => drop(analysis::info(&process, &found, false)),
            Purpose::Summary => drop(analysis::summary(&process, &found, false, &silent)),
            Purpose::Regions => drop(analysis::regions(&found, &analysis::RegionOptions::default())),
            Purpose::Stacks => drop(analysis::stacks(&process, &found, &HashMap::new(), false, &silent)),
            Purpose::Heap => drop(analysis::heap(&found, true)),
            Purpose::Ip2method => {
                let names = Names::new(&process, &found);
                drop(analysis::ip2method(&names, &ips));
                if ips.is_empty() {
                    drop(analysis::perfmap(&names));
                }
            }
            Purpose::Threads => {
                let names = Names::new(&process, &found);
                let stacks = stacks::find(&process, &Base::of(process.facts()));
                drop(analysis::threads(&process, &names, &stacks, ThreadOptions::default()));
                // Roots of stacks: GC info of their frames.
                for (runtime, _) in &found.runtimes {
                    drop(stack_refs(&process, &stacks, names.runtimes(), runtime));
                }
            }
            Purpose::Async => {
                let names = Names::new(&process, &found);
                drop(analysis::async_chains(&process, &found, &names, true, &silent));
            }
            Purpose::Object => {
                for &at in &ips {
                    drop(analysis::object(&process, &found, at));
                }
            }
            Purpose::Check => drop(analysis::check(&process, &found)),
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
    answer("shrink", common, &process, &found, report)
}
