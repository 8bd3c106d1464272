//! Go: its goroutines, functions, heap and heap profile, without symbols or DWARF.
//!
//! A Go program contains its runtime. `moduledata`, which the linker writes, leads to the tables of functions and
//! types. It is found by its shape. The runtime's own variables have no address in it, so each is found by its shape
//! too, and is believed only if other structures agree. Offsets come from the tables `layout/tables/go-1.N-x64.json`.
//! An unknown version is read with a known version's table if all these checks pass, and is refused otherwise.
//!
//! | room | contents |
//! |---|---|
//! | `runtime` | detection, version, `moduledata`, the runtime's variables |
//! | `code` | functions, lines and inlining (pclntab); frames of stacks |
//! | `goroutines` | goroutines: state, stack, what they wait for |
//! | `heap` | spans, figures of the collector, the heap profile |
//! | `timers`, `views` | pending timers; slices that use little of their arrays |
//!
//! Terms are from Go's sources (src/runtime). docs/go.md describes what is read, from where, and with which confidence.

mod claim;
mod code;
mod findings;
mod golang;
mod goroutines;
mod heap;
mod panics;
mod record;
mod roles;
mod roots;
mod runtime;
mod shape;
mod timers;
mod types;
mod views;

pub use golang::Go;
