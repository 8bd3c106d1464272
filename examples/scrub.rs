//! Write a scrubbed core that depends on the input alone, so that two versions of coremap can be compared byte by byte.
//!
//! `cargo run --example scrub -- CORE OUT [--names]`
//!
//! It is `coremap shrink --scrub` without a key: each text is overwritten by its length. With `--names` it also prints
//! the names that would be replaced, sorted. Never use the output for anything but a comparison.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use coremap::commands::shrink::{rule_rows, scrub_plan};
use coremap::process::{Options, Process};
use coremap::progress::Progress;
use coremap::scrub::{Fill, LeftTexts, Level};
use coremap::session::Session;
use coremap::shrink::write_scrubbed;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [core, out, rest @ ..] = arguments.as_slice() else {
        return Err("usage: scrub CORE OUT [--names]".into());
    };
    let silent = Progress::silent();
    let options = Options { record_bytes: true, ..Options::default() };
    let process = Process::open(Path::new(core), &options, &silent)?;
    let session = Session::new(&process);
    if rest.iter().any(|option| option == "--names") {
        let plan = scrub_plan(&session, Fill::ByLength, Level::Names, &silent);
        let table = plan.table_of_names().unwrap_or_default();
        // The new names depend on a key.
        let mut names: Vec<&str> = table.lines().filter_map(|line| Some(line.split_once('\t')?.1)).collect();
        names.sort_unstable();
        names.iter().for_each(|name| println!("{name}"));
        return Ok(());
    }
    let plan = scrub_plan(&session, Fill::ByLength, Level::Values, &silent);
    let mut file = BufWriter::new(File::create(out)?);
    let (_, scrubbed) = write_scrubbed(&process, None, &plan, LeftTexts::default(), &mut file)?;
    file.flush()?;
    println!("{}", serde_json::to_string(&rule_rows(&scrubbed.memory))?);
    for warning in process.diag.warnings() {
        println!("{}", serde_json::to_string(&warning)?);
    }
    Ok(())
}
