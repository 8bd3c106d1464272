use clap::Args;
use coremap::commands;
use coremap::limits;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask_at;
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// Everything known of one address, with the evidence
#[derive(Args, Debug)]
pub(super) struct Whatis {
    /// The address
    address: String,
    /// Show this many bytes from there on
    #[arg(long, value_name = "N", default_value_t = 0)]
    bytes: usize,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Whatis {
    const NAME: &'static str = "whatis";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let most = limits::MAX_SHOWN_BYTES;
        ask_at(
            common,
            &self.core.core,
            Self::NAME,
            &self.address,
            |session, addr, progress| {
                let bytes = self.bytes;
                if bytes > most {
                    session.process.diag.note("limit", format!("--bytes {bytes}: the first {most} are shown"));
                }
                commands::whatis(session, addr, bytes.min(most), progress)
            },
            |r| r.region.is_none(),
        )
    }
}
