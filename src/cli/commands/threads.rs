use std::io::{self, BufWriter, Write};
use std::path::Path;

use coremap::analysis::{self, Names, ThreadOptions};
use coremap::introspect::identify;
use coremap::map::Base;
use coremap::native::stacks;
use coremap::render::folded;

use crate::cli::args::{Common, ThreadsArgs};
use crate::cli::commands::open;
use crate::cli::output::{answer, finish, tell};
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path, args: &ThreadsArgs) -> Result<Exit, Failure> {
    let process = open(core, common, &progress())?;
    let found = identify(&process);
    let names = Names::new(&process, &found);
    let stacks = stacks::find(&process, &Base::of(process.facts()));
    let options =
        ThreadOptions { managed: args.managed, native: args.native, tid: args.tid, group: args.group || args.fold };
    let report = analysis::threads(&process, &names, &stacks, options);
    names.note_missing();
    let nothing = report.threads.is_empty();
    if let (true, Some(tid)) = (nothing, args.tid) {
        let all = process.threads().len();
        tell(&format!("there is no thread {tid} among the {all} of this core; `coremap stacks` lists them"));
    }
    let exit = if args.fold {
        let mut out = BufWriter::new(io::stdout().lock());
        folded(&report, &mut out)?;
        out.flush()?;
        finish(&process)
    } else {
        answer("threads", common, &process, &found, report)?
    };
    Ok(exit.or_nothing(nothing))
}
