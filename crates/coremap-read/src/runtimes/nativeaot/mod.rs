//! NativeAOT: .NET programs compiled ahead of time.
//!
//! The runtime is linked into the program or library, without a JIT and without a data-access library. Its
//! `DotNetRuntimeDebugHeader` has the offsets of its structures by name. docs/nativeaot.md describes what is read, from
//! where, and with which confidence.
//!
//! The GC is CoreCLR's. It is read by the same code (`runtimes/clr_gc`), with a layout from the header.
//!
//! Terms are from the runtime (dotnet/runtime, src/coreclr/nativeaot).

mod anatomy;
mod bookkeeping;
mod census;
mod claim;
mod code;
mod exceptions;
mod free_regions;
mod generics;
mod heap;
mod locks;
mod mangled;
mod metadata;
mod methods;
mod naming;
mod native_aot;
mod object;
mod roots;
mod runtime;
mod static_names;
mod statics;
mod tasks;
mod threads;
mod threads_objects;

pub use native_aot::NativeAot;
