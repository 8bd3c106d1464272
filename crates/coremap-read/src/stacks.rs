//! Thread stacks: where they are, how much of them is in use, and their frames.
//!
//! ```
//! # use std::path::Path;
//! # use coremap::process::{Options, Process};
//! # use coremap::progress::Progress;
//! # use coremap::session::Session;
//! let core = Path::new("testdata/cores/dotnet8-threads/core.zst");
//! let process = Process::open(core, &Options::default(), &Progress::silent())?;
//! let session = Session::new(&process);
//! let stacks = session.stacks();
//! let walker = session.walker(stacks);
//! let mut managed = 0;
//! for thread in process.threads() {
//!     if let Some(stack) = stacks.of(thread.tid) {
//!         println!("thread {}: stack {}, {} bytes unused", thread.tid, stack.stack, stack.left_over().len());
//!     }
//!     // Native and managed frames in one list, that of the latest call first.
//!     let walk = session.walk(&walker, thread);
//!     let methods = walk.frames.iter().filter_map(|frame| frame.method());
//!     managed += methods.inspect(|method| println!("    {}", method.name)).count();
//! }
//! assert!(managed > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `coremap::commands::threads` adds names, lines, locks and roles.

pub use crate::native::stacks::{StackState, Stacks, ThreadStack, ThreadWithoutStack};
pub use crate::native::unwind::{End, Trust};
pub use crate::stackwalk::Walker;
