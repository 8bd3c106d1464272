//! Who points at memory, and at memory that nobody claims.

use std::path::Path;

use coremap::analysis::{self, RefsOptions, Span};

use crate::cli::args::{Common, RefsArgs};
use crate::cli::commands::{ask, ask_at};
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path, args: &RefsArgs) -> Result<Exit, Failure> {
    let span = match (args.exact, args.length, args.region) {
        (true, _, _) => Span::Exact,
        (_, Some(length), _) => Span::Length(length),
        (_, _, true) => Span::Region,
        _ => Span::Thing,
    };
    let options = RefsOptions { span, kinds: args.kind.clone(), limit: args.limit };
    ask_at(
        common,
        core,
        "refs",
        &args.address,
        |session, addr, progress| analysis::refs(session, addr, &options, progress),
        |r| r.total == 0,
    )
}

pub(super) fn anon(common: &Common, core: &Path) -> Result<Exit, Failure> {
    ask(common, core, "anon", analysis::anon, |r| r.clusters.is_empty())
}

pub(super) fn holders(common: &Common, core: &Path, limit: Option<usize>) -> Result<Exit, Failure> {
    ask(
        common,
        core,
        "holders",
        |session, progress| analysis::holders(session, limit, progress),
        |r| r.holders.is_empty(),
    )
}
