use std::collections::HashMap;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use coremap::addr::Addr;
use coremap::commands::shrink::ShrinkReport;
use coremap::commands::{self, HeapStatOptions, RetainedOptions, ThreadOptions};
use coremap::core::producer::DIAG_PAGE_SIZE;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::session::Session;
use coremap::shrink;
use regex::Regex;

use crate::cli::args::{Common, CoreArg};
use crate::cli::commands::Command;
use crate::cli::new_file::NewFile;
use crate::cli::output::answer;
use crate::cli::progress::{progress, watched, while_doing};
use crate::cli::{Exit, Failure, address};

/// Commands that a shrunk core can be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Purpose {
    /// info
    Info,
    /// summary, without --zero-fill
    Summary,
    /// regions and maddress
    Regions,
    /// stacks, without --zero-fill and what the threads do (that takes threads)
    Stacks,
    /// heap
    Heap,
    /// check
    Check,
    /// ip2method, symbolicate and perfmap
    Ip2method,
    /// threads
    Threads,
    /// threads --virtual: all that the heap of a Java VM holds
    VirtualThreads,
    /// async
    Async,
    /// object, of each --address
    Object,
    /// heapstat, objects, object, gcroot, retained and holders: the whole managed heap
    Objects,
}

impl Purpose {
    /// Run the very commands, so that what they read is what is kept.
    fn read(self, session: &Session<'_>, ips: &[Addr], progress: &Progress) {
        match self {
            Purpose::Info => drop(commands::info(session, false)),
            Purpose::Summary => drop(commands::summary(session, false, progress)),
            Purpose::Regions => {
                drop(commands::regions(session, &commands::RegionOptions::default(), &Progress::silent()))
            }
            Purpose::Stacks => drop(commands::stacks(session, &HashMap::new(), false, progress)),
            Purpose::Heap => drop(commands::heap(session, true)),
            Purpose::Ip2method => {
                drop(commands::ip2method(session, ips));
                if ips.is_empty() {
                    drop(commands::perfmap(session));
                }
            }
            Purpose::Threads => {
                drop(commands::threads(session, ThreadOptions::default()));
                // Roots of stacks: GC info of their frames.
                for (number, runtime) in session.coreclr().iter().enumerate() {
                    let walker = session.walker(session.known_stacks());
                    drop(runtime.stack_refs(number, &mut |tid| session.walk_tid(&walker, tid)));
                }
            }
            Purpose::VirtualThreads => {
                let options = ThreadOptions { virtual_threads: true, ..ThreadOptions::default() };
                drop(commands::threads(session, options));
            }
            Purpose::Async => drop(commands::async_chains(session, true, progress)),
            Purpose::Object => {
                for &at in ips {
                    drop(commands::object(session, at));
                }
            }
            Purpose::Objects => {
                let options = HeapStatOptions { strings: true, ..HeapStatOptions::default() };
                drop(commands::heapstat(session, &options, progress));
                drop(commands::retained(session, &RetainedOptions::default()));
                // Ways to all types have all names in them.
                if let Ok(all) = Regex::new("") {
                    drop(commands::gcroot_types(session, &all, usize::MAX));
                }
                drop(commands::holders(session, None, progress));
            }
            Purpose::Check => drop(commands::check(session)),
        }
    }
}

/// Write a smaller core that still answers some commands
#[derive(Args, Debug)]
pub(super) struct Shrink {
    /// File to write; must not exist
    #[arg(short, long, value_name = "OUT")]
    out: PathBuf,
    /// Commands it must answer as the whole core does
    #[arg(
        long = "for",
        value_enum,
        value_delimiter = ',',
        value_name = "COMMANDS",
        default_value = "info,summary,regions,stacks,heap"
    )]
    purpose: Vec<Purpose>,
    /// For ip2method: keep what tells these addresses, not all methods (repeatable)
    #[arg(long, value_name = "ADDR")]
    address: Vec<String>,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Shrink {
    const NAME: &'static str = "shrink";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let (core, out) = (self.core.core.as_path(), self.out.as_path());
        // Before the work, and not after it.
        if let Ok(there) = std::fs::symlink_metadata(out) {
            let (out, core) = (out.display(), core.display());
            let what = if there.is_dir() { "is a directory" } else { "exists already, and shrink overwrites nothing" };
            return Err(Failure::Usage(format!("'{out}' {what}: name a new file, `coremap shrink -o NEW {core}`")));
        }
        let options =
            Options { record: true, memory: common.memory, alone: true, handle_sigbus: true, ..Options::default() };
        let progress = progress();
        let process = while_doing(&|| "opening", &progress, || Process::open(core, &options, &progress))?;
        let session = Session::new(&process);
        let ips = self.address.iter().map(|a| address::parse(a, &process)).collect::<Result<Vec<_>, _>>();
        let ips = ips.map_err(Failure::Usage)?;
        watched(&process, &progress, || {
            for p in &self.purpose {
                p.read(&session, &ips, &progress);
            }
        });
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
        answer(Self::NAME, common, &session, report)
    }
}

#[cfg(test)]
mod tests {
    use coremap::commands::Subject;

    use super::*;

    #[test]
    fn purposes_are_commands_of_cores() {
        for purpose in Purpose::value_variants().iter().filter_map(ValueEnum::to_possible_value) {
            // What a command reads with an option of its own.
            let name = match purpose.get_name() {
                "virtual-threads" => "threads",
                name => name,
            };
            let command = coremap::commands::named(name);
            assert!(
                command.is_some_and(|c| c.subject == Subject::Process || c.subject == Subject::Runtime),
                "{}",
                purpose.get_name()
            );
        }
    }
}
