//! `mcp`: answers an assistant's questions about cores, over the Model Context Protocol on stdin and stdout.
//!
//! A tool is a command of the registry with fixed options. A call becomes the command line that a person would type.
//! The answer is that command's JSON, cut to a page.
//!
//! The server reads no core itself. Each open core has a process of its own, called worker: this program in another
//! role, which keeps what it has read. A core on which coremap crashes, a call that takes too long, and a cancelled
//! call end the worker, and never the server.
//!
//! | file | contents |
//! |---|---|
//! | `tools` | the table of tools, and their schemas from the commands' own arguments |
//! | `arguments` | from a call's arguments to a command line |
//! | `files` | which files may be read |
//! | `server` | the protocol |
//! | `open_cores` | the workers, from the server's side |
//! | `worker` | a worker: one open core, many questions |
//! | `answer` | the answer to a call: what is known about it, apart from text of the process |
//! | `fields` | the fields of a command's answer, for the tool `schema` |
//! | `page` | the part of a long answer that fits |
//! | `prompts` | questions for the usual incidents |

mod answer;
mod arguments;
mod fields;
mod files;
mod open_cores;
mod page;
mod prompts;
mod server;
mod tools;
mod worker;

use crate::cli::args::Common;
use crate::cli::commands::McpArgs;
use crate::cli::{Exit, Failure};

/// Serves until stdin ends.
///
/// # Errors
/// Fails if the folder cannot be read, or the protocol cannot be started.
pub(crate) fn serve(args: &McpArgs, common: &Common) -> Result<Exit, Failure> {
    match &args.worker {
        Some(cores) => worker::work(cores, args.show_data, common),
        None => server::serve(args, common),
    }
}
