//! `explore` and `top`: an interactive screen for a core or a running process, from kinds of memory down to single
//! regions, types, stacks and malloc blocks.
//!
//! The screen analyses nothing. All figures are fields of the library's reports (`look.rs`). For anything else it runs
//! a coremap command on request and shows its output (`asked.rs`).
//!
//! | file | contents |
//! |---|---|
//! | `look` | the reports of one sample |
//! | `worker` | the thread that makes them, so that keys are answered at once |
//! | `clock` | when a running process is sampled next |
//! | `level`, `levels` | a list on the screen; how each is built from the reports |
//! | `state`, `cursor`, `keys` | the user's position, and the effect of keys |
//! | `asked`, `page`, `words` | a requested command, and its output |
//! | `draw` | drawing |
//! | `terminal` | taking the terminal, and restoring it in any case |
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
