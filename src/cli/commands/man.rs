use std::io;
use std::path::PathBuf;

use clap::Args;

use crate::cli::args::Common;
use crate::cli::commands::{Command, reference};
use crate::cli::output::write_text;
use crate::cli::{Exit, Failure};

/// Print the manual page, or write a page for each command
#[derive(Args, Debug)]
pub(super) struct Man {
    /// Write the manual pages of coremap and of every command into DIR
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print docs/commands.md
    #[arg(long, hide = true, conflicts_with = "dir")]
    markdown: bool,
}

impl Command for Man {
    const NAME: &'static str = "man";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let program = common.program.0();
        if self.markdown {
            return write_text(Self::NAME, common, reference::markdown(program).as_bytes());
        }
        if let Some(dir) = &self.dir {
            let failure = |e: io::Error| Failure::Usage(format!("{}: {e}", dir.display()));
            std::fs::create_dir_all(dir).map_err(failure)?;
            clap_mangen::generate_to(program, dir).map_err(failure)?;
            return Ok(Exit::Done);
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(program).render(&mut page)?;
        write_text(Self::NAME, common, &page)
    }
}
