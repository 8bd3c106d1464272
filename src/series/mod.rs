//! Rows of looks at one process: what a look keeps, the file that looks are kept in, and what becomes of a figure from
//! look to look.
//!
//! | file | holds |
//! |---|---|
//! | `moment` | what a look keeps, and a row of them: plain data |
//! | `line` | the lines of the file, as JSON has them (docs/trend.md) |
//! | `write`, `keep` | writing it look by look, and which rows of long lists are kept |
//! | `read` | reading it, and trusting nothing |
//! | `identity` | whether the process of a number is still the same |
//! | `shape` | whether a row of values grows, or is noise |
//!
//! Nothing in here asks a process: a look is made by the command `record`.

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
