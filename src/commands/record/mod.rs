//! `record`: samples a process repeatedly and stores the samples in a file (`crate::series`).

mod analysis;
mod meter;
mod pace;
mod report;
mod table;

pub use analysis::{moment, subject};
pub use meter::Meter;
pub use pace::Pace;
pub use report::*;

pub use crate::series::{
    BlockSize, Blocks, Cost, KernelFigures, KindFigures, Moment, Objects, Recording, RecordingWriter, Rest, Subject,
    Sum, start_ticks,
};

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "record",
    &[answer::<RecordReport>],
    "Sample the memory of a running process at intervals, into a small file",
);
