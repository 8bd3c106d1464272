//! Who points at memory, and at memory that nobody claims.

use std::path::Path;

use coremap::analysis::{self, RefsOptions, Span};
use coremap::introspect::introspect;

use crate::cli::args::{Common, RefsArgs};
use crate::cli::commands::{ask, not_swapped, open};
use crate::cli::output::answer;
use crate::cli::progress::{clear, progress};
use crate::cli::{Exit, Failure, address};

pub(super) fn run(common: &Common, core: &Path, args: &RefsArgs) -> Result<Exit, Failure> {
    not_swapped(&args.address, core, "address", "refs ADDR CORE")?;
    let progress = progress();
    let process = open(core, common, &progress)?;
    let addr = address::parse(&args.address, &process).map_err(Failure::Usage)?;
    let found = introspect(&process);
    let span = match (args.exact, args.length, args.region) {
        (true, _, _) => Span::Exact,
        (_, Some(length), _) => Span::Length(length),
        (_, _, true) => Span::Region,
        _ => Span::Thing,
    };
    let options = RefsOptions { span, kinds: args.kind.clone(), limit: args.limit };
    let report = analysis::refs(&process, &found, addr, &options, &progress);
    clear();
    let nothing = report.total == 0;
    Ok(answer("refs", common, &process, &found, report)?.or_nothing(nothing))
}

pub(super) fn anon(common: &Common, core: &Path) -> Result<Exit, Failure> {
    ask(common, core, "anon", analysis::anon, |r| r.clusters.is_empty())
}

pub(super) fn holders(common: &Common, core: &Path, limit: Option<usize>) -> Result<Exit, Failure> {
    ask(
        common,
        core,
        "holders",
        |process, found, progress| analysis::holders(process, found, limit, progress),
        |r| r.holders.is_empty(),
    )
}
