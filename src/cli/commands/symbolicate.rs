use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use coremap::commands;
use coremap::commands::symbolicate::{Options, SymbolicateError};
use coremap::program::{Compression, names_process};
use coremap::session::Session;
use tempfile::spooled_tempfile;

use crate::cli::args::{Common, CoreArg, Format};
use crate::cli::ask::open;
use crate::cli::commands::Command;
use crate::cli::output::{Origin, answer, end, message};
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure};

/// Size of the read buffer in bytes.
const BUFFER: usize = 1 << 18;

/// Add names to the addresses in output of perf, heaptrack, memleak or gdb
#[derive(Args, Debug)]
pub(super) struct Symbolicate {
    /// Print folded stacks, for flame graphs
    #[arg(long)]
    fold: bool,
    /// Text with addresses, or '-' for standard input
    #[arg(value_name = "FILE")]
    text: PathBuf,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Symbolicate {
    const NAME: &'static str = "symbolicate";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let (text, core) = (self.text.as_path(), self.core.core.as_path());
        if text == Path::new("-") && core == Path::new("-") {
            return Err(Failure::Usage("text and core cannot both come from standard input".into()));
        }
        let mut input: Box<dyn BufRead> = if text == Path::new("-") {
            Box::new(BufReader::with_capacity(BUFFER, io::stdin().lock()))
        } else {
            let file = File::open(text).map_err(|e| unreadable(text, &e))?;
            Box::new(BufReader::with_capacity(BUFFER, file))
        };
        is_text(text, core, input.fill_buf().map_err(|e| unreadable(text, &e))?)?;
        // A stopped process must wait neither for the writer of the text nor for the reader of the answer.
        let is_running = names_process(core);
        if is_running {
            let mut whole = spooled_tempfile(BUFFER);
            io::copy(&mut input, &mut whole).and_then(|_| whole.rewind()).map_err(|e| unreadable(text, &e))?;
            input = Box::new(BufReader::with_capacity(BUFFER, whole));
        }
        let process = open(core, common, &progress())?;
        let session = Session::new(&process);
        let options = Options::default();
        let mut symbolicate = |mut out: &mut dyn Write| {
            commands::symbolicate(&session, &mut *input, &mut out, self.fold, &options).map_err(|e| match e {
                SymbolicateError::Write(e) => Failure::Output(e),
                SymbolicateError::Read(e) => unreadable(text, &e),
                e => Failure::Usage(format!("{}: {e}", text.display())),
            })
        };
        if common.form() != Format::Table {
            let report = symbolicate(&mut io::sink())?;
            let nothing = report.named == 0;
            return Ok(answer(Self::NAME, common, &session, report)?.or_nothing(nothing));
        }
        let mut report = None;
        let mut spool = is_running.then(|| spooled_tempfile(BUFFER));
        if let Some(spool) = &mut spool {
            report = Some(symbolicate(spool)?);
            spool.rewind()?;
        }
        let exit = end(common, Self::NAME, &[Origin::Open(&process)], |out| {
            match &mut spool {
                Some(spool) => drop(io::copy(spool, out)?),
                None => report = Some(symbolicate(out)?),
            }
            Ok(())
        })?;
        let Some(report) = report else { return Ok(exit) };
        message(&format!("{} of {} addresses named ({} text)", report.named, report.addresses, report.format));
        Ok(exit.or_nothing(report.named == 0))
    }
}

fn unreadable(text: &Path, e: &io::Error) -> Failure {
    Failure::Beside(format!("{}: {e}", text.display()))
}

/// Rejects input that cannot be text: swapped arguments, or a tool's binary data.
fn is_text(path: &Path, core: &Path, head: &[u8]) -> Result<(), Failure> {
    let name = path.display();
    let what = match head {
        [0x7f, b'E', b'L', b'F', ..] => {
            format!("'{name}' is an ELF file; the text comes first: `coremap symbolicate FILE CORE`")
        }
        [b'P', b'E', b'R', b'F', b'I', b'L', b'E', b'2', ..] => {
            let core = core.display();
            format!("'{name}' is perf's own data; convert it: `perf script -i {name} | coremap symbolicate - {core}`")
        }
        _ => match Compression::detect(head) {
            Some(packing) => format!(
                "'{name}' is compressed (.{}); unpack it, or run heaptrack_print on heaptrack's own data. A compressed core \
                 comes last: `coremap symbolicate FILE CORE`",
                packing.name()
            ),
            None => return Ok(()),
        },
    };
    Err(Failure::Usage(what))
}
