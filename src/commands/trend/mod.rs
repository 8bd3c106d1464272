//! `trend`: finds what grows between the samples of recordings or a series of cores (`crate::series`).

mod analysis;
mod figures;
mod report;
mod sentences;
mod table;

pub use analysis::{Source, TrendError, trend};
pub use report::*;

pub use crate::series::{ReadRecording, RecordingError, is_recording, read_recording};

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command =
    of_process("trend", &[answer::<TrendReport>], "Find what grows over time, from recordings or a series of cores");
