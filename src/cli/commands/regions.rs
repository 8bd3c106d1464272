use clap::Args;
use coremap::commands::{self, RegionOptions};
use coremap::map::Kind;
use coremap::render::columns;
use coremap::report::RegionRow;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::on_core;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::output::answer;
use crate::cli::progress::watched;
use crate::cli::values::kind;
use crate::cli::{Exit, Failure};

/// List every memory region with its kind, owner and confidence
#[derive(Args, Debug)]
pub(super) struct Regions {
    /// List only regions of this kind (repeatable)
    #[arg(long, value_name = "KIND", value_parser = kind(), hide_possible_values = true)]
    kind: Vec<Kind>,
    /// Describe the contents of memory without a known owner, and split regions where the contents change.
    /// Reads all of that memory
    #[arg(long)]
    contents: bool,
    /// Count zero and written bytes, by page; reads all memory
    #[arg(long, conflicts_with = "contents")]
    zero_fill: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

/// Alias of the column `start`.
const ADDRESS: &str = "address";

impl Command for Regions {
    const NAME: &'static str = "regions";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let by_address = self.list.sort().is_some_and(|column| column.eq_ignore_ascii_case(ADDRESS));
        let mut columns = columns::<RegionRow>();
        columns.push(ADDRESS.to_owned());
        let order = self.list.among(common, &columns)?;
        let order = if by_address { order.by("start") } else { order };
        on_core(common, &self.core.core, |session, progress| {
            let process = session.process;
            let options = RegionOptions {
                kinds: self.kind.clone(),
                by_size: false,
                contents: self.contents,
                zero_fill: self.zero_fill,
            };
            let report = watched(process, progress, || commands::regions(session, &options, progress));
            answer(Self::NAME, common, session, order.of(report))
        })
    }
}
