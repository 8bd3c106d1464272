//! `maddress`: the map as SOS `!maddress` prints it. It answers with the rows of `regions`.

mod table;

pub use table::{maddress, maddress_summary_csv};

use crate::commands::command::{Command, answer, of_process};
use crate::commands::regions::RegionsReport;

/// Its row in the table of commands.
pub(super) const COMMAND: Command = of_process(
    "maddress",
    &[answer::<RegionsReport>],
    "Show the memory map as the .NET debugger extension SOS does (maddress)",
);
