use std::path::Path;

use coremap::analysis::{self, SearchOptions};
use coremap::search::{self, Pattern, PatternOptions};

use crate::cli::args::{Common, Encoding, SearchArgs};
use crate::cli::commands::{ask, last_line, not_swapped};
use crate::cli::{Exit, Failure};

pub(super) fn run(common: &Common, core: &Path, args: &SearchArgs) -> Result<Exit, Failure> {
    // A pattern that can't be is told before a big core is opened.
    let pattern = Pattern::new(
        &args.pattern,
        PatternOptions {
            ignore_case: args.ignore_case,
            regex: args.regex,
            hex: args.hex,
            encoding: match args.encoding {
                Encoding::Both => search::Encoding::Both,
                Encoding::Utf8 => search::Encoding::Utf8,
                Encoding::Utf16 => search::Encoding::Utf16,
            },
        },
    )
    .map_err(|e| Failure::Usage(format!("the pattern: {}", last_line(&e.to_string()))))?;
    not_swapped(&args.pattern, core, "pattern", "search PATTERN CORE")?;
    let options = SearchOptions { kinds: args.kind.clone(), limit: args.limit, context: args.context };
    ask(
        common,
        core,
        "search",
        |session, progress| analysis::search(session, &args.pattern, &pattern, &options, progress),
        |r| r.total == 0,
    )
}
