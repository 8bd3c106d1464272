use std::io::{self, Read};
use std::path::Path;

use clap::Args;
use coremap::addr::Addr;
use coremap::commands;
use coremap::commands::ip2method::Short;
use coremap::limits;
use coremap::process::Process;
use coremap::session::Session;

use crate::cli::args::Common;
use crate::cli::ask::open;
use crate::cli::commands::Command;
use crate::cli::output::answer;
use crate::cli::progress::progress;
use crate::cli::{Exit, Failure, address};

/// The method that each code address is of, as SOS ip2md tells it
// One list, since clap would take what stands before an option for the core.
#[derive(Args, Debug)]
#[command(override_usage = "coremap ip2method [OPTIONS] <ADDR>... <CORE>")]
pub(super) struct Ip2method {
    /// Addresses, - for those on standard input; and last the core file, plain or compressed, - for standard input
    #[arg(required = true, value_name = "ADDR... CORE")]
    words: Vec<String>,
    /// One line an address
    #[arg(long)]
    short: bool,
}

impl Command for Ip2method {
    const NAME: &'static str = "ip2method";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        let (core, texts) = match self.words.split_last() {
            Some((core, texts)) if !texts.is_empty() => (Path::new(core), texts),
            _ => return Err(Failure::Usage("addresses, then the core: `coremap ip2method ADDR… CORE`".into())),
        };
        if texts.iter().any(|t| t == "-") && core == Path::new("-") {
            return Err(Failure::Usage("standard input can't be both the addresses and the core".into()));
        }
        if let Some(file) = texts.iter().find(|t| *t != "-" && Path::new(t).is_file())
            && !core.exists()
        {
            return Err(Failure::Usage(format!(
                "'{file}' is a file and '{}' is not: the core comes last, `coremap ip2method ADDR… CORE`",
                core.display()
            )));
        }
        let process = open(core, common, &progress())?;
        let ips = addresses(texts, &process)?;
        let session = Session::new(&process);
        let report = commands::ip2method(&session, &ips);
        let nothing = report.results.iter().all(|r| !r.found);
        let exit = if self.short {
            answer(Self::NAME, common, &session, Short(report))?
        } else {
            answer(Self::NAME, common, &session, report)?
        };
        Ok(exit.or_nothing(nothing))
    }
}

/// The addresses given; `-` stands for those on standard input, apart by
/// spaces or lines.
fn addresses(texts: &[String], process: &Process) -> Result<Vec<Addr>, Failure> {
    let mut out = Vec::new();
    for text in texts {
        if text != "-" {
            out.push(address::parse(text, process).map_err(Failure::Usage)?);
            continue;
        }
        let mut input = Vec::new();
        io::stdin().lock().take(limits::MAX_ADDRESS_INPUT).read_to_end(&mut input)?;
        for word in String::from_utf8_lossy(&input).split_whitespace() {
            out.push(address::parse(word, process).map_err(Failure::Usage)?);
        }
    }
    Ok(out)
}
