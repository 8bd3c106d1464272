//! `explore` and `top`: a core, or a process that runs, on a screen to look around in, from kinds of memory down to single regions, types, stacks and
//! blocks of malloc.
//!
//! The screen analyses nothing. All figures are fields of reports that the library makes (`look.rs`); what goes beyond
//! them is a command of ours that is run when it is asked for (`asked.rs`), and its own answer is shown.
//!
//! | file | holds |
//! |---|---|
//! | `look` | the reports of one look at the process |
//! | `worker` | the thread that makes them, so that keys are answered at once |
//! | `clock` | when the next look at a process that runs is due |
//! | `level`, `levels` | a list on the screen; how each comes from the reports |
//! | `state`, `cursor`, `keys` | where one is, and what a key does there |
//! | `asked`, `page`, `words` | a command that was asked for, and its text |
//! | `draw` | how all of it looks |
//! | `terminal` | taking the terminal and giving it back, whatever happens |
//! | `run` | the loop |

mod asked;
mod clock;
mod cursor;
mod draw;
mod keys;
mod level;
mod levels;
mod look;
mod page;
mod run;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod words;
mod worker;

pub(crate) use run::{explore, top};
pub(crate) use terminal::give_back;
