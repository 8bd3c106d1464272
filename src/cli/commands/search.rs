use std::path::Path;

use coremap::analysis::{self, SearchOptions};
use coremap::introspect::introspect;
use coremap::search::{self, Pattern, PatternOptions};

use crate::cli::args::{Common, Encoding, SearchArgs};
use crate::cli::commands::{last_line, not_swapped, open};
use crate::cli::output::answer;
use crate::cli::progress::{clear, progress};
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
    let progress = progress();
    let process = open(core, common, &progress)?;
    let found = introspect(&process);
    let options = SearchOptions { kinds: args.kind.clone(), limit: args.limit, context: args.context };
    let report = analysis::search(&process, &found, &args.pattern, &pattern, &options, &progress);
    clear();
    let nothing = report.total == 0;
    let exit = answer("search", common, &process, &found, report)?;
    Ok(exit.or_nothing(nothing))
}
