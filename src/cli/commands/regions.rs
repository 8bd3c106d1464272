use clap::{Args, ValueEnum};
use coremap::commands::{self, RegionOptions};
use coremap::map::Kind;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::open;
use crate::cli::commands::Command;
use crate::cli::output::answer;
use crate::cli::progress::progress;
use crate::cli::values::kind;
use crate::cli::{Exit, Failure};

/// Orders of the region list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    /// By address
    Address,
    /// Biggest first
    Size,
}

/// The whole map: every region with its kind, owner and how sure that is
#[derive(Args, Debug)]
pub(super) struct Regions {
    /// Only this kind (repeatable)
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Vec<Kind>,
    /// Order of the list
    #[arg(long, value_enum, default_value_t = Sort::Address, value_name = "BY")]
    sort: Sort,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Regions {
    const NAME: &'static str = "regions";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let process = open(&self.core.core, common, &progress())?;
        let session = Session::new(&process);
        let options = RegionOptions { kinds: self.kind.clone(), by_size: self.sort == Sort::Size };
        answer(Self::NAME, common, &session, commands::regions(&session, &options))
    }
}
