use clap::Args;
use coremap::commands::heapstat::DuplicateRow;
use coremap::commands::{self, HeapStatOptions};
use coremap::render::columns;
use coremap::report::TypeRow;
use coremap::runtimes::api::Selection;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::{ask, type_pattern};
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
        let selection = Selection { generation: self.generation, heap: self.heap, min: self.min, max: self.max };
        let options = HeapStatOptions { name, selection, strings: self.strings };
        ask(
            common,
            &self.core.core,
            Self::NAME,
            |session, progress| order.of(commands::heapstat(session, &options, progress)),
            |r| r.types.is_empty(),
        )
    }
}
