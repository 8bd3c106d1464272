//! The `coremap` program: parses arguments, runs a command, sets the exit status.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
