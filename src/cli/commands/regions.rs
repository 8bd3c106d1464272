use clap::Args;
use coremap::commands::{self, RegionOptions};
use coremap::map::Kind;
use coremap::render::columns;
use coremap::report::RegionRow;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::open;
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::output::answer;
use crate::cli::progress::{progress, watched};
use crate::cli::values::kind;
use crate::cli::{Exit, Failure};

/// The whole map: every region with its kind, owner and how sure that is
#[derive(Args, Debug)]
pub(super) struct Regions {
    /// Only this kind (repeatable)
    #[arg(long, value_name = "KIND", value_parser = kind(), hide_possible_values = true)]
    kind: Vec<Kind>,
    /// Tell what fills memory that nobody claims, cut where that changes: reads all of it
    #[arg(long)]
    contents: bool,
    /// Count pages that are all zero, and what was written: reads all of it
    #[arg(long, conflicts_with = "contents")]
    zero_fill: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

/// Another name of a region's start.
const ADDRESS: &str = "address";

impl Command for Regions {
    const NAME: &'static str = "regions";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        // `address` is what the start of a region is called elsewhere.
        let by_address = self.list.sort().is_some_and(|column| column.eq_ignore_ascii_case(ADDRESS));
        let mut columns = columns::<RegionRow>();
        columns.push(ADDRESS.to_owned());
        let order = self.list.among(common, &columns)?;
        let order = if by_address { order.by("start") } else { order };
        let progress = progress();
        let process = open(&self.core.core, common, &progress)?;
        let session = Session::new(&process);
        let options = RegionOptions {
            kinds: self.kind.clone(),
            by_size: false,
            contents: self.contents,
            zero_fill: self.zero_fill,
        };
        let report = watched(&process, &progress, || commands::regions(&session, &options, &progress));
        answer(Self::NAME, common, &session, order.of(report))
    }
}
