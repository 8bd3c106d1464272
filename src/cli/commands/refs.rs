use clap::Args;
use coremap::commands::{self, RefsOptions, Span};
use coremap::map::Kind;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::ask_at;
use crate::cli::commands::Command;
use crate::cli::values::{kind, size};
use crate::cli::{Exit, Failure};

/// Who points at an address: registers, stacks, objects, all other memory
#[derive(Args, Debug)]
pub(super) struct Refs {
    /// The address; the whole object or block that it is in, where it is in one
    address: String,
    /// Only pointers to this very address
    #[arg(long, conflicts_with_all = ["length", "region"])]
    exact: bool,
    /// Pointers into so much memory from the address on, as 64, 4k or 1MB
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "region")]
    length: Option<u64>,
    /// Pointers into the whole region that holds the address
    #[arg(long)]
    region: bool,
    /// Only pointers in regions of this kind (repeatable)
    #[arg(long, value_name = "KIND", value_parser = kind(), hide_possible_values = true)]
    kind: Vec<Kind>,
    /// List at most this many (all are counted)
    #[arg(long, value_name = "N", default_value_t = 200)]
    limit: usize,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Refs {
    const NAME: &'static str = "refs";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let span = match (self.exact, self.length, self.region) {
            (true, _, _) => Span::Exact,
            (_, Some(length), _) => Span::Length(length),
            (_, _, true) => Span::Region,
            _ => Span::Thing,
        };
        let options = RefsOptions { span, kinds: self.kind.clone(), limit: self.limit };
        ask_at(
            common,
            &self.core.core,
            Self::NAME,
            &self.address,
            |session, addr, progress| commands::refs(session, addr, &options, progress),
            |r| r.total == 0,
        )
    }
}
