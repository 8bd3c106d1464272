//! `report`: one page that answers by looking: the findings, pictures of where the memory is, tables, and the answers
//! of the other commands as JSON, in one file that needs no network and no program but a browser.
//!
//! `gather` asks the other commands and cuts what they answer to what a page can carry; `pictures` makes of that what
//! has to be drawn, as plain numbers; `page` writes it, and has the only place where text becomes HTML. `verify`
//! compares the data of a page with a core.

mod analysis;
mod answer;
mod gather;
mod page;
mod pictures;
mod table;
mod verify;

pub use analysis::{Page, PageOptions, report, report_pair};
pub use answer::*;
pub use gather::LeftOut;
pub use verify::{PageData, PageDataError, read_page, verify};

use crate::commands::command::{Command, answer, of_process};

/// Its row in the table of commands.
pub(super) const COMMAND: Command = of_process(
    "report",
    &[answer::<ReportReport>],
    "Write a self-contained HTML report of a core, or of the difference between two",
);
