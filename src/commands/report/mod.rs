//! `report`: writes one HTML file with findings, pictures of the memory, tables, and the answers of other commands as
//! JSON. It needs only a browser and no network.
//!
//! `gather` runs the other commands and cuts their answers to what fits in a page. `pictures` computes what is drawn,
//! as plain numbers. `page` writes the HTML, and is the only room that turns text into HTML. `verify` compares the data
//! of a page with a core.

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

pub(super) const COMMAND: Command = of_process(
    "report",
    &[answer::<ReportReport>],
    "Write a self-contained HTML report of a core, or of the difference between two",
);
