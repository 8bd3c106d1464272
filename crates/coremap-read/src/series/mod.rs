//! Samples of one process over time: what a sample stores, the recording file, and verdicts on the growth of its
//! figures.
//!
//! | file | contents |
//! |---|---|
//! | `moment` | a sample, and a list of them: plain data |
//! | `line` | the lines of the file, as JSON (docs/trend.md) |
//! | `write`, `keep` | writes the file sample by sample, and selects the rows of long lists |
//! | `read` | reads the file, and trusts nothing in it |
//! | `identity` | identifies a process across reuse of its id |
//! | `shape` | decides whether a series of values grows, or is noise |
//!
//! This room queries no process. The command `record` takes the samples.

mod identity;
mod keep;
mod line;
mod moment;
mod read;
pub mod shape;
#[cfg(test)]
mod tests;
mod write;

pub use identity::start_ticks;
pub use moment::{BlockSize, Blocks, Cost, KernelFigures, KindFigures, Moment, Objects, Recording, Rest, Subject, Sum};
pub use read::{ReadRecording, RecordingError, is_recording, read_recording};
pub use write::RecordingWriter;
