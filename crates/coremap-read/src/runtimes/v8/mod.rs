//! V8, the JavaScript engine of Node.js.
//!
//! Node.js exports V8's own constants for postmortem debuggers (`v8dbg_`): offsets of fields and numbers of types. What
//! they lack is in a small table of forms, and each form is checked against the memory before it is believed.
//! docs/node.md describes what is read, from where, and by which version.
//!
//! | module | contents |
//! |---|---|
//! | `constants`, `forms`, `root_maps`, `detect` | recognition and layout |
//! | `vm`, `pages`, `isolates` | memory of the heaps, and reads of its words |
//! | `text`, `functions`, `properties`, `naming` | strings, functions and scopes, properties, names by constructor |
//! | `heap` | objects: sizes, types, the walk, references |
//! | `buffers` | memory outside of the heap |
//! | `roots` | what keeps objects alive |
//! | `holders`, `census` | variables of modules; timers, listeners, async functions, requests |
//! | `stack` | JavaScript frames, their functions and lines |
//! | `claim` | labels of memory |
//!
//! Terms are from V8 (src/objects, src/heap, src/execution).

mod buffers;
mod census;
mod claim;
mod constants;
mod detect;
mod forms;
mod functions;
mod heap;
mod holders;
mod isolates;
mod naming;
mod node_v8;
mod pages;
mod properties;
mod root_maps;
mod roots;
mod stack;
mod text;
mod vm;

pub use node_v8::V8;
