use std::path::Path;

use clap::Args;
use coremap::commands;
use coremap::commands::why::WhyReport;
use coremap::report::Kept;

use crate::cli::args::Common;
use crate::cli::ask::{ask, ask_at, type_pattern};
use crate::cli::commands::Command;
use crate::cli::{Exit, Failure};

/// Explain what keeps an object or the objects of a type alive, and what they retain
// A single list, because clap would take an argument before an option for the core.
#[derive(Args, Debug)]
#[command(override_usage = "coremap why [OPTIONS] <ADDR> <CORE>\n       coremap why [OPTIONS] --type <RE> <CORE>")]
pub(super) struct Why {
    /// ADDR is any address: of an object or a malloc block, inside one, or elsewhere. With --type, leave out ADDR. CORE
    /// is one core file (plain or compressed), '-' for standard input, or the PID of a running process
    #[arg(required = true, num_args = 1..=2, value_name = "ADDR CORE")]
    words: Vec<String>,
    /// Explain all objects of types whose name matches the regular expression RE, grouped by path
    #[arg(long, value_name = "RE")]
    r#type: Option<String>,
    /// With --type: list at most N groups, most retained bytes first
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

impl Command for Why {
    const NAME: &'static str = "why";

    fn run(&self, common: &Common) -> Result<Exit, Failure> {
        match (self.r#type.as_deref(), self.words.as_slice()) {
            (Some(types), [core]) => {
                let name = type_pattern(types)?;
                ask(
                    common,
                    Path::new(core),
                    Self::NAME,
                    |session, _| commands::why_types(session, &name, self.top),
                    |r| r.roots.groups.is_empty() && r.roots.unreachable.objects == 0,
                )
            }
            (None, [text, core]) => ask_at(
                common,
                Path::new(core),
                Self::NAME,
                text,
                commands::why,
                |_, _| None,
                |r: &WhyReport| r.kept == Kept::Absent,
            ),
            _ => Err(Failure::Usage(
                "give an address or a type, then the core: `coremap why ADDR CORE` or `coremap why --type RE CORE`"
                    .into(),
            )),
        }
    }
}
