//! `threads`: shows the activity of every thread: its frames, names and role, and what it waits for.
//!
//! ```
//! # use std::path::Path;
//! # use coremap::process::{Options, Process};
//! # use coremap::progress::Progress;
//! # use coremap::session::Session;
//! use coremap::commands::{self, ThreadOptions};
//!
//! let core = Path::new("testdata/cores/dotnet8-threads/core.zst");
//! let process = Process::open(core, &Options::default(), &Progress::silent())?;
//! let session = Session::new(&process);
//! let report = commands::threads(&session, ThreadOptions::default());
//! for thread in &report.threads {
//!     println!("{} {}", thread.tid, thread.name.as_deref().unwrap_or_default());
//!     for frame in &thread.frames {
//!         println!("    {}", frame.method.as_deref().unwrap_or("?"));
//!     }
//! }
//! assert_eq!(report.threads.len(), process.threads().len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod analysis;
mod library_runs;
mod report;
mod table;
mod tree;

pub(in crate::commands) use analysis::with_waits;
pub use analysis::{Doing, ThreadOptions, doing, threads};
pub use report::*;
pub use table::folded;

use crate::commands::command::{Command, answer, of_process};

pub(super) const COMMAND: Command = of_process(
    "threads",
    &[answer::<ThreadsReport>],
    "Show what every thread is doing, native and managed frames in one stack",
);
