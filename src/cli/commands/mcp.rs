use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::args::Common;
use crate::cli::commands::Command;
use crate::cli::values::duration;
use crate::cli::{Exit, Failure, mcp};

/// Serve the cores in a folder to an AI assistant, read-only (Model Context Protocol)
#[derive(Args, Debug)]
pub(crate) struct Mcp {
    /// Read only files within DIR. Links that lead out of it are refused
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,
    /// Answer a call after at most TIME, e.g. 30s. The core stays open, and the same call again gets the answer once it
    /// is there
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub(crate) budget: Duration,
    /// Also answer with data of the program: command line, environment, contents of strings, messages of exceptions
    #[arg(long)]
    pub(crate) show_data: bool,
    /// Answer the questions of a server about these cores; the server starts this itself
    #[arg(long, hide = true, num_args = 0.., value_name = "CORE")]
    pub(crate) worker: Option<Vec<PathBuf>>,
}

impl Command for Mcp {
    const NAME: &'static str = "mcp";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        mcp::serve(self, common)
    }
}
