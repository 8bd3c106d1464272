//! `coremap shrink --scrub` as a program that uses the library. Tests use it to scrub several cores with one key, or
//! without one of the rules.
//!
//! ```text
//! cargo run --release --example scrub -- [--without RULE]... [--by-length] CORE OUT [CORE OUT]...
//! cargo run --release --example scrub -- --rules
//! ```
//!
//! All cores of one run are scrubbed with the same key, so equal inputs become equal outputs. `--by-length` overwrites
//! strings by their length only, `--without` skips a rule, and `--rules` lists the rules.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use coremap::commands::shrink::scrub_plan;
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::scrub::{Fill, LeftTexts, Level, Rule};
use coremap::session::Session;
use coremap::shrink;

type Fallible<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible {
    let mut fill = Fill::default();
    let mut without = Vec::new();
    let mut files = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rules" => {
                let rules: Vec<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
                return Ok(writeln!(std::io::stdout(), "{}", rules.join("\n"))?);
            }
            "--by-length" => fill = Fill::ByLength,
            "--without" => {
                let name = args.next().unwrap_or_default();
                let rule = Rule::ALL.iter().find(|rule| rule.name() == name);
                without.push(*rule.ok_or_else(|| format!("unknown rule '{name}'; --rules lists the rules"))?);
            }
            _ => files.push(arg),
        }
    }
    if files.is_empty() || files.len() % 2 != 0 {
        return Err("usage: scrub [--without RULE]... [--by-length] CORE OUT [CORE OUT]...".into());
    }
    files.as_chunks::<2>().0.iter().try_for_each(|[core, out]| scrub(core.as_ref(), out.as_ref(), &fill, &without))
}

fn scrub(core: &Path, out: &Path, fill: &Fill, without: &[Rule]) -> Fallible {
    let options = Options { record_bytes: true, alone: true, handle_sigbus: true, ..Options::default() };
    let process = Process::open(core, &options, &Progress::silent())?;
    let session = Session::new(&process);
    let mut plan = scrub_plan(&session, fill.clone(), Level::Values, &Progress::silent());
    without.iter().for_each(|&rule| plan.without(rule));
    let mut writer = BufWriter::new(File::create_new(out)?);
    shrink::write_scrubbed(&process, None, &plan, LeftTexts::default(), &mut writer)?;
    Ok(writer.flush()?)
}
