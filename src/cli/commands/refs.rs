use clap::Args;
use coremap::commands::refs::RefRow;
use coremap::commands::{self, RefsOptions, TargetSpan};
use coremap::map::Kind;
use coremap::render::columns;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask_at;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::values::{kind, size};
use crate::cli::{Exit, Failure, address};

/// Pointers listed without `--top`. All are counted.
const DEFAULT_ROWS: usize = 200;

/// Find what points at an address: registers, stacks, objects and all other memory
#[derive(Args, Debug)]
pub(super) struct Refs {
    /// Address to look for; inside an object or a block, pointers to any byte of it are found
    address: String,
    /// Find only pointers to exactly this address
    #[arg(long, conflicts_with_all = ["length", "region"])]
    exact: bool,
    /// Find pointers into the SIZE bytes that begin at the address, e.g. 64, 4k or 1MB
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "region")]
    length: Option<u64>,
    /// Find pointers into the whole region that contains the address
    #[arg(long)]
    region: bool,
    /// Find only pointers in regions of this kind (repeatable)
    #[arg(long, value_name = "KIND", value_parser = kind(), hide_possible_values = true)]
    kind: Vec<Kind>,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Refs {
    const NAME: &'static str = "refs";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let span = match (self.exact, self.length, self.region) {
            (true, _, _) => TargetSpan::Exact,
            (_, Some(length), _) => TargetSpan::Length(length),
            (_, _, true) => TargetSpan::Region,
            _ => TargetSpan::ObjectOrBlock,
        };
        let order = self.list.among(common, &columns::<RefRow>())?;
        let options = RefsOptions { span, kinds: self.kind.clone(), limit: order.most().unwrap_or(DEFAULT_ROWS) };
        ask_at(
            common,
            &self.core.core,
            Self::NAME,
            &self.address,
            |session, addr, progress| order.of(commands::refs(session, addr, &options, progress)),
            |r, addr| address::inside(addr, r.target.start, r.target.name.as_ref()),
            |r| r.total == 0,
        )
    }
}
