//! HotSpot, the Java VM of OpenJDK.
//!
//! Its structures are read through the tables that libjvm exports (vmStructs), so no version's offsets are needed here.
//! docs/java.md says what is read, from where, and with which confidence. Terms are the VM's (openjdk/jdk,
//! src/hotspot/share).

mod anatomy;
mod buffers;
mod claim;
pub mod classes;
pub mod code;
mod fields;
mod findings;
pub mod heap;
mod holders;
mod hot_spot;
mod keys;
mod last_words;
mod nmt;
mod object;
mod roots;
pub mod threads;
pub mod vm;

pub use hot_spot::HotSpot;
pub use nmt::Nmt;
