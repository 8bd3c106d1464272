//! Commands that take many addresses: `coremap COMMAND ADDR… CORE`.

use std::io::{self, Read};
use std::path::Path;

use coremap::addr::Addr;
use coremap::process::Process;
use coremap::program::limits;

use crate::cli::{Failure, address};

/// Splits the arguments into the core, which comes last, and the addresses before it.
pub(super) fn split<'w>(command: &str, words: &'w [String]) -> Result<(&'w Path, &'w [String]), Failure> {
    let (core, texts) = match words.split_last() {
        Some((core, texts)) if !texts.is_empty() => (Path::new(core), texts),
        _ => return Err(Failure::Usage(format!("give addresses, then the core: `coremap {command} ADDR… CORE`"))),
    };
    if texts.iter().any(|t| t == "-") && core == Path::new("-") {
        return Err(Failure::Usage("addresses and core cannot both come from standard input".into()));
    }
    if let Some(file) = texts.iter().find(|t| *t != "-" && Path::new(t).is_file())
        && !core.exists()
    {
        return Err(Failure::Usage(format!(
            "'{file}' is a file and '{}' is not; the core comes last: `coremap {command} ADDR… CORE`",
            core.display()
        )));
    }
    Ok((core, texts))
}

/// Splits the arguments of a command that also accepts the core first: `coremap COMMAND CORE ADDR…`.
pub(super) fn split_either_way<'w>(command: &str, words: &'w [String]) -> Result<(&'w Path, &'w [String]), Failure> {
    if let ([first, texts @ ..], Some(last)) = (words, words.last())
        && last != "-"
        && !Path::new(last).exists()
        && Path::new(first).is_file()
        && !texts.is_empty()
    {
        return Ok((Path::new(first), texts));
    }
    split(command, words)
}

/// Parses addresses of the command line. `-` reads more from standard input, separated by spaces or lines.
pub(super) fn parse(texts: &[String], process: &Process) -> Result<Vec<Addr>, Failure> {
    let mut out = Vec::new();
    for text in texts {
        if text != "-" {
            out.push(address::read(text, process)?);
            continue;
        }
        let mut input = Vec::new();
        io::stdin().lock().take(limits::MAX_ADDRESS_INPUT).read_to_end(&mut input)?;
        for word in String::from_utf8_lossy(&input).split_whitespace() {
            out.push(address::read(word, process)?);
        }
    }
    Ok(out)
}
