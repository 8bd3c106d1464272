use clap::Args;
use coremap::commands::heapstat::{DuplicateRow, Reachability};
use coremap::commands::{self, HeapStatOptions};
use coremap::progress::Progress;
use coremap::render::columns;
use coremap::report::TypeRow;
use coremap::runtimes::api::Selection;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::{on_core, region, respond, type_pattern};
use crate::cli::commands::Command;
use crate::cli::list::ListArgs;
use crate::cli::values::{bytes, generation};
use crate::cli::{Exit, Failure};

/// Count objects on the managed heap by type, largest total first
#[derive(Args, Debug)]
pub(super) struct Heapstat {
    /// List only types whose name matches the regular expression RE
    #[arg(long, value_name = "RE")]
    r#type: Option<String>,
    /// Count only generation G: gen0, gen1, gen2, loh, poh or frozen; in Java eden, survivor, old, humongous, archive, …
    #[arg(long, value_name = "G", value_parser = generation(), hide_possible_values = true)]
    generation: Option<&'static str>,
    /// Count only GC heap number N (server GC has several)
    #[arg(long, value_name = "N")]
    heap: Option<u32>,
    /// Count only objects of at least SIZE, e.g. 85000, 85k or 1MB
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    min: Option<u64>,
    /// Count only objects of at most SIZE
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    max: Option<u64>,
    /// Count only objects in the memory region that contains ADDR
    #[arg(long, value_name = "ADDR")]
    region: Option<String>,
    /// Count only live objects: those that roots reach
    #[arg(long, conflicts_with_all = ["dead", "generation", "heap", "min", "max", "region", "strings"])]
    live: bool,
    /// Count only dead objects: those that no root reaches, which a collection would free
    #[arg(long, conflicts_with_all = ["generation", "heap", "min", "max", "region", "strings"])]
    dead: bool,
    /// Also list duplicate strings: number of copies, wasted bytes and text
    #[arg(long)]
    strings: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Heapstat {
    const NAME: &'static str = "heapstat";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let order = self.list.among(common, &[columns::<TypeRow>(), columns::<DuplicateRow>()].concat())?;
        // Reject a bad expression before opening a large core.
        let name = self.r#type.as_deref().map(type_pattern).transpose()?;
        on_core(common, &self.core.core, |session, progress| {
            let range = self.region.as_deref().map(|text| region(text, session)).transpose()?;
            let (generation, heap) = (self.generation, self.heap);
            let selection = Selection { generation, heap, min: self.min, max: self.max, range };
            let reach = match (self.live, self.dead) {
                (true, _) => Some(Reachability::Live),
                (_, true) => Some(Reachability::Dead),
                _ => None,
            };
            let options = HeapStatOptions { name, selection, strings: self.strings, reach };
            let analyse =
                |session: &Session<'_>, progress: &Progress| order.of(commands::heapstat(session, &options, progress));
            respond(common, session, progress, Self::NAME, analyse, |r| r.types.is_empty())
        })
    }
}
