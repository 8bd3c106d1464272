//! All tests over whole cores and over the program, in one program: the library is linked once.
//! Its tests are threads of one process, so none may change or count what the process has: its
//! environment, folder, limits, signals, memory, files read. What needs that runs the program, or
//! itself, as a child (`support::run`), or counts what its own thread does (`watch`, `support::cpu`).
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![allow(unreachable_pub, reason = "what a module shares is said by `pub`, and nobody uses this program's")]

mod support;

mod amplification;
mod async_chains;
mod bundle;
mod caps;
mod causes;
mod cli;
mod console;
mod contents;
mod contract;
mod cores;
mod csv;
mod documents;
mod dotnet11;
mod dotnet_cores;
mod dotnet_detect;
mod dotnet_libraries;
#[cfg(target_os = "linux")]
mod dump;
#[cfg(target_os = "linux")]
mod endings;
mod evil_dotnet;
mod evil_graph;
mod evil_heap;
mod evil_lists;
mod evil_methods;
mod executable_memory;
mod export;
mod export_hprof;
mod faults;
mod fences;
mod foreign;
mod fuzz;
mod go_runtime;
mod hostile;
mod java_code;
mod java_heap;
mod java_map;
mod java_threads;
mod lists;
#[cfg(target_os = "linux")]
mod live;
mod look;
mod malloc;
mod mallocng;
#[cfg(feature = "mcp")]
mod mcp;
mod methods;
mod mistakes;
mod mutations;
mod native_holders;
mod native_symbols;
mod native_waits;
mod nativeaot;
mod node_runtime;
mod not_read;
mod objects;
mod once;
mod package;
mod properties;
mod python_damage;
mod python_heap;
mod python_threads;
mod questions;
mod recorded;
mod refs;
mod report;
mod resident;
mod retained;
mod scan_secrets;
mod schema;
#[cfg(feature = "screen")]
mod screen;
mod search;
mod series;
mod shared_views;
#[cfg(feature = "prompt")]
mod shell;
mod source_rules;
mod speed;
mod stack_roots;
mod stacks;
mod suggested;
mod symbolicate;
mod symbols_elf;
mod symbols_pe;
mod tags;
mod threads;
mod toy_runtime;
mod toy_target;
mod triage;
mod triage_resident;
mod unpacking;
mod warnings;
mod watch;
mod whatis;
mod why;
mod writers;
