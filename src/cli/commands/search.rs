use clap::{Args, ValueEnum};
use coremap::commands::search::{self, HitRow, Pattern, PatternOptions};
use coremap::commands::{self, SearchOptions};
use coremap::map::Kind;
use coremap::progress::Progress;
use coremap::render::columns;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::ask::{in_order, last_line, on_core, respond};
use crate::cli::commands::Command;
use crate::cli::list::{ListArgs, Order};
use crate::cli::values::kind;
use crate::cli::{Exit, Failure, address};

/// Encodings of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Encoding {
    /// UTF-8 and UTF-16LE
    Both,
    /// UTF-8
    Utf8,
    /// UTF-16, little-endian
    Utf16,
}

/// Find text (UTF-8 and UTF-16), a regular expression or bytes in memory
#[derive(Args, Debug)]
pub(super) struct Search {
    /// Text, regular expression, bytes or address to find
    pattern: String,
    /// Ignore case
    #[arg(short = 'i', long)]
    ignore_case: bool,
    /// Read PATTERN as a regular expression
    #[arg(long, conflicts_with_all = ["hex", "pointer"])]
    regex: bool,
    /// Read PATTERN as bytes in hexadecimal; ?? matches any byte
    #[arg(long)]
    hex: bool,
    /// Read PATTERN as an address, and find aligned 8-byte words that contain it
    #[arg(long, conflicts_with_all = ["hex", "ignore_case", "encoding"])]
    pointer: bool,
    /// Search for text in this encoding
    #[arg(long, value_enum, default_value_t = Encoding::Both, value_name = "ENC")]
    encoding: Encoding,
    /// Search only regions of this kind (repeatable)
    #[arg(long, value_name = "KIND", value_parser = kind(), hide_possible_values = true)]
    kind: Vec<Kind>,
    /// Show the text around each hit
    #[arg(long)]
    context: bool,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    core: CoreArg,
}

impl Command for Search {
    const NAME: &'static str = "search";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let (text, core) = in_order(&self.pattern, &self.core.core);
        let order = self.list.among(common, &columns::<HitRow>())?;
        let options = SearchOptions { kinds: self.kind.clone(), limit: order.most(), context: self.context };
        if self.pointer {
            // The address of a module is known only with the process open.
            return on_core(common, core, |session, progress| {
                let pattern = Pattern::pointer(address::parse(text, session.process)?);
                Self::answer(common, session, progress, (text, &pattern), &options, &order)
            });
        }
        // Reject a bad pattern before opening a large core.
        let pattern = Pattern::new(
            text,
            PatternOptions {
                ignore_case: self.ignore_case,
                regex: self.regex,
                hex: self.hex,
                encoding: match self.encoding {
                    Encoding::Both => search::Encoding::Both,
                    Encoding::Utf8 => search::Encoding::Utf8,
                    Encoding::Utf16 => search::Encoding::Utf16,
                },
            },
        )
        .map_err(|e| Failure::Usage(format!("bad pattern: {}", last_line(&e.to_string()))))?;
        on_core(common, core, |session, progress| {
            Self::answer(common, session, progress, (text, &pattern), &options, &order)
        })
    }
}

impl Search {
    fn answer(
        common: &Common,
        session: &Session<'_>,
        progress: &Progress,
        (text, pattern): (&str, &Pattern),
        options: &SearchOptions,
        order: &Order,
    ) -> Result<Exit, Failure> {
        respond(
            common,
            session,
            progress,
            <Self as Command>::NAME,
            |session, progress| order.of(commands::search(session, text, pattern, options, progress)),
            |r| r.total == 0,
        )
    }
}
