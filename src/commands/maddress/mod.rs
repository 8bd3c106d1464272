//! `maddress`: the map as SOS `!maddress` prints it. Its JSON has the rows of `regions`.

mod table;

pub use table::{maddress, maddress_summary_csv};

use crate::commands::command::{Command, answer, of_process};
use crate::commands::regions::RegionsReport;

pub(super) const COMMAND: Command = of_process(
    "maddress",
    &[answer::<RegionsReport>],
    "Show the memory map as the .NET debugger extension SOS does (maddress)",
);
