use std::path::Path;

use clap::Args;
use coremap::commands;

use crate::cli::args::Common;
use crate::cli::ask::{ask, ask_at, type_pattern};
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure, address};

/// Show why objects are alive: shortest paths from roots, with field names
// A single list, because clap would take an argument before an option for the core.
#[derive(Args, Debug)]
#[command(
    override_usage = "coremap gcroot [OPTIONS] <ADDR> <CORE>\n       coremap gcroot [OPTIONS] --type <RE> <CORE>"
)]
pub(super) struct Gcroot {
    /// ADDR is the address of an object, or an address inside it. With --type, leave out ADDR. CORE is one core
    /// file (plain or compressed), '-' for standard input, or the PID of a running process
    #[arg(required = true, num_args = 1..=2, value_name = "ADDR CORE")]
    words: Vec<String>,
    /// Show up to 4,096 paths, one from each root that reaches the object, shortest first. Without --all: 32
    #[arg(long, conflicts_with = "type")]
    all: bool,
    /// Show paths to all objects of types whose name matches the regular expression RE, grouped by path
    #[arg(long, value_name = "RE")]
    r#type: Option<String>,
    /// With --type: list at most N groups, most retained bytes first
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

impl Command for Gcroot {
    const NAME: &'static str = "gcroot";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        match (self.r#type.as_deref(), self.words.as_slice()) {
            (Some(types), [core]) => self.of_types(common, Path::new(core), types),
            (None, [text, core]) => self.of_object(common, Path::new(core), text),
            (Some(_), _) => Err(Failure::Usage("give either an address or --type: `coremap gcroot --type RE CORE`".into())),
            (None, _) => Err(Failure::Usage("give an address or a type, then the core: `coremap gcroot ADDR CORE` or `coremap gcroot --type RE CORE`".into())),
        }
    }
}

impl Gcroot {
    fn of_object(&self, common: &Common, core: &Path, text: &str) -> Result<Exit, Failure> {
        ask_at(
            common,
            core,
            Self::NAME,
            text,
            |session, addr, _| commands::gcroot(session, addr, self.all),
            |r, addr| address::inside(addr, r.object, r.name.as_ref()),
            |r| r.paths.is_empty(),
        )
    }

    fn of_types(&self, common: &Common, core: &Path, text: &str) -> Result<Exit, Failure> {
        let name = type_pattern(text)?;
        ask(
            common,
            core,
            Self::NAME,
            |session, _| commands::gcroot_types(session, &name, self.top),
            |r| r.groups.is_empty(),
        )
    }
}
