//! .NET programs that were compiled ahead of time (NativeAOT): the runtime is inside the program or library, without a
//! JIT and without a data-access library. It tells of itself by `DotNetRuntimeDebugHeader`, which has the offsets of its
//! structures by name. docs/nativeaot.md tells what is read, from where, and how sure it is.
//!
//! Its GC is CoreCLR's, and is read by the same code (`dotnet/gc`, GCDesc of `dotnet/heap`) with a layout from the header.
//!
//! Terms are those of the runtime (dotnet/runtime, src/coreclr/nativeaot).

mod anatomy;
mod bookkeeping;
mod claim;
mod code;
mod heap;
mod metadata;
mod naming;
mod native_aot;
mod object;
mod roots;
mod runtime;
mod threads;

pub use native_aot::NativeAot;
