use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use coremap::commands::Purpose;
use coremap::commands::shrink::{
    self, Fill, LeftTexts, Level, Plan, ShrinkReport, left_texts, rule_rows, scrub_plan, text_left,
};
use coremap::diag::WarningCode;
use coremap::process::{Options, Process};
use coremap::program::DIAG_PAGE_SIZE;
use coremap::session::Session;

use crate::cli::args::{Common, CoreArg};
use crate::cli::commands::Command;
use crate::cli::new_file::{NewFile, not_written, refuse_existing};
use crate::cli::output::answer;
use crate::cli::progress::{progress, watched, while_doing};
use crate::cli::{Exit, Failure, address};

/// Write a new core: smaller (--for), or with private data overwritten (--scrub)
///
/// Without --scrub, the smaller core contains the memory of the process unchanged, including strings and
/// passwords. Use --scrub before you share a core.
#[derive(Args, Debug)]
pub(super) struct Shrink {
    /// Write the core to OUT, a file that does not exist yet
    #[arg(short, long, value_name = "OUT")]
    out: PathBuf,
    /// Keep what these commands (separated by commas) read, so that their output is the same as on the full core
    #[arg(
        long = "for",
        value_enum,
        value_delimiter = ',',
        value_name = "COMMANDS",
        default_value = "info,summary,regions,stacks,heap"
    )]
    purpose: Vec<Purpose>,
    /// With --for ip2method or object: keep only the data for this address (repeatable)
    #[arg(long, value_name = "ADDR")]
    address: Vec<String>,
    /// Keep all regions, but overwrite the data in them, such as strings and numbers. Only pointers,
    /// the structures that coremap reads, and the names of types, methods and files stay. Most commands still
    /// give the same output. LEVEL defaults to 'values'. --scrub and --for exclude each other
    #[arg(
        long,
        value_enum,
        value_name = "LEVEL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "values",
        conflicts_with_all = ["purpose", "address"]
    )]
    scrub: Option<ScrubLevel>,
    /// With --scrub=names: write the original name of each replacement to FILE, a new file. Without it the
    /// replacements cannot be translated back
    #[arg(long, value_name = "FILE", requires = "scrub")]
    map: Option<PathBuf>,
    /// With --scrub: print every string of six or more characters that is left in the core. Before you send
    /// the core, check that all of them are names
    #[arg(long, requires = "scrub")]
    list_text: bool,
    #[command(flatten)]
    core: CoreArg,
}

/// Data that is overwritten.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum ScrubLevel {
    /// Overwrite strings, numbers and other data
    Values,
    /// Also replace the names of the program's own types, methods, fields, modules, threads and files. Names of
    /// the system and of runtimes stay
    Names,
}

impl From<ScrubLevel> for Level {
    fn from(level: ScrubLevel) -> Level {
        match level {
            ScrubLevel::Values => Level::Values,
            ScrubLevel::Names => Level::Names,
        }
    }
}

impl Command for Shrink {
    const NAME: &'static str = "shrink";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let (core, out) = (self.core.core.as_path(), self.out.as_path());
        refuse_existing(out, Self::NAME, Some(&format!("`coremap shrink -o NEW {}`", core.display())))?;
        if let Some(map) = &self.map {
            if self.scrub != Some(ScrubLevel::Names) {
                return Err(Failure::Usage(
                    "--map needs --scrub=names, which is the only option that changes names".to_owned(),
                ));
            }
            refuse_existing(map, Self::NAME, None)?;
            if *map == self.out {
                return Err(Failure::Usage("--map and --out name the same file".to_owned()));
            }
        }
        let is_scrubbed = self.scrub.is_some();
        let (record, record_bytes) = (!is_scrubbed, is_scrubbed);
        let options = Options {
            record,
            record_bytes,
            // Answers may need files that the core lacks, but only the core's own memory is kept.
            symbols: if is_scrubbed { common.symbols.clone() } else { Vec::new() },
            memory: common.memory,
            alone: true,
            handle_sigbus: true,
            ..Options::default()
        };
        let progress = progress();
        let process = while_doing(&|| "opening", &progress, || Process::open(core, &options, &progress))?;
        let session = Session::new(&process);
        let ips = self.address.iter().map(|a| address::parse(a, &process)).collect::<Result<Vec<_>, _>>()?;
        if self.scrub == Some(ScrubLevel::Names) {
            let unmapped = shrink::unmapped(&session);
            if !unmapped.is_empty() {
                let what = unmapped.join(", ");
                return Err(Failure::Usage(format!(
                    "--scrub=names cannot replace names of {what} yet; --scrub overwrites data and leaves names as they are"
                )));
            }
        }
        let plan = watched(&process, &progress, || {
            if let Some(level) = self.scrub {
                return Some(scrub_plan(&session, Fill::default(), level.into(), &progress));
            }
            for p in &self.purpose {
                p.read(&session, &ips, &progress);
            }
            None
        });
        if let Some(page) = process.facts().diag_page {
            process.reads().note(page.range.start, DIAG_PAGE_SIZE);
        }
        let new = NewFile::begin(out)?;
        let new_map = self.map.as_deref().map(NewFile::begin).transpose()?;
        let mut writer = BufWriter::new(new.file());
        let left = if self.list_text { LeftTexts::listing() } else { LeftTexts::default() };
        let written = match &plan {
            Some(plan) => {
                shrink::write_scrubbed(&process, None, plan, left, &mut writer).map(|(s, scrubbed)| (s, Some(scrubbed)))
            }
            None => shrink::write(&process, &process.reads().ranges(), &mut writer).map(|s| (s, None)),
        };
        let written = written.and_then(|shrunk| writer.flush().map(|()| shrunk));
        drop(writer);
        // The map is written first: without it the core cannot be translated back.
        if let (Some(map), Some(new)) = (&self.map, new_map.filter(|_| written.is_ok())) {
            let table = plan.as_ref().and_then(Plan::table_of_names).unwrap_or_default();
            let kept = new.file().write_all(table.as_bytes()).and_then(|()| new.keep());
            kept.map_err(|e| not_written(map, &e))?;
        }
        let (shrunk, scrubbed) =
            written.and_then(|shrunk| new.keep().map(|()| shrunk)).map_err(|e| not_written(out, &e))?;
        if shrunk.notes_cut {
            process
                .diag
                .partial(WarningCode::Limit, "the notes are larger than those of any process; some are left out");
        }
        let report = ShrinkReport {
            file: out.display().to_string(),
            size: shrunk.size,
            kept: shrunk.written,
            in_core: shrunk.total,
            segments: shrunk.segments,
            text_utf8: shrunk.text.utf8,
            text_utf16: shrunk.text.utf16,
            rules: scrubbed.as_ref().map(|s| rule_rows(&s.memory)),
            beside: scrubbed.as_ref().map(|s| rule_rows(&s.outside_memory)),
            text_left: scrubbed.as_ref().map(|s| text_left(&s.left)),
            left_texts: scrubbed.and_then(|s| left_texts(&session, s.left)),
        };
        answer(Self::NAME, common, &session, report)
    }
}
