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

/// Returns the addresses as the user wrote them. For `-` it reads them from standard input, separated by spaces or
/// lines. Call this before the core is opened: a stopped process must not wait for whoever writes them.
///
/// # Errors
/// [`Failure`] if standard input can't be read.
pub(super) fn read(texts: &[String]) -> Result<Vec<String>, Failure> {
    let mut out = Vec::new();
    for text in texts {
        if text != "-" {
            out.push(text.clone());
            continue;
        }
        let mut input = Vec::new();
        io::stdin().lock().take(limits::MAX_ADDRESS_INPUT).read_to_end(&mut input)?;
        out.extend(String::from_utf8_lossy(&input).split_whitespace().map(str::to_owned));
    }
    Ok(out)
}

/// Parses addresses that [`read`] returned.
///
/// # Errors
/// [`Failure::Usage`] for the first text that is not an address.
pub(super) fn parse(texts: &[String], process: &Process) -> Result<Vec<Addr>, Failure> {
    texts.iter().map(|text| address::read(text, process)).collect()
}
