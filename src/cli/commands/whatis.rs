use clap::Args;
use coremap::commands;
use coremap::commands::whatis::WhatisReport;
use coremap::diag::WarningCode;
use coremap::program::limits;
use coremap::progress::Progress;
use coremap::session::Session;

use crate::cli::addresses;
use crate::cli::args::Common;
use crate::cli::ask::{on_core, respond};
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// Explain what is at one or more addresses, with the evidence
// A single list, because clap would take an argument before an option for the core.
#[derive(Args, Debug)]
#[command(override_usage = "coremap whatis [OPTIONS] <ADDR>... <CORE>")]
pub(super) struct Whatis {
    /// One or more addresses, or '-' to read them from standard input. Then the core: a file (plain or
    /// compressed), '-' for standard input, or the PID of a running process
    #[arg(required = true, value_name = "ADDR... CORE")]
    words: Vec<String>,
    /// Show N bytes that begin at the address
    #[arg(long, value_name = "N", default_value_t = 0)]
    bytes: usize,
}

impl Command for Whatis {
    const NAME: &'static str = "whatis";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let most = limits::MAX_SHOWN_BYTES;
        let (core, texts) = addresses::split_either_way(Self::NAME, &self.words)?;
        let texts = addresses::read(texts)?;
        on_core(common, core, |session, progress| {
            let addrs = addresses::parse(&texts, session.process)?;
            let (bytes, shown) = (self.bytes, most / addrs.len().max(1));
            let analyse = |session: &Session<'_>, progress: &Progress| {
                if bytes > shown {
                    let text = format!("--bytes {bytes}: only the first {shown} are shown");
                    session.process.diag.note(WarningCode::Limit, text);
                }
                commands::whatis(session, &addrs, bytes.min(shown), progress)
            };
            let is_empty = |r: &WhatisReport| r.results.iter().all(|r| r.region.is_none());
            respond(common, session, progress, Self::NAME, analyse, is_empty)
        })
    }
}
