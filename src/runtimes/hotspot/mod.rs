//! HotSpot, the Java VM of OpenJDK, read by the tables that libjvm exports of its own structures (vmStructs): no
//! version's offsets are known here. docs/java.md tells what is read, from where, and how sure it is.
//!
//! Terms are those of the VM (openjdk/jdk, src/hotspot/share).

mod anatomy;
mod buffers;
mod claim;
pub mod classes;
pub mod code;
mod fields;
mod findings;
pub mod heap;
mod hot_spot;
mod nmt;
mod object;
mod roots;
pub mod threads;
pub mod vm;

pub use hot_spot::HotSpot;
pub use nmt::Nmt;
