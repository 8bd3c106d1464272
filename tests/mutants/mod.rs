//! What the mutation run is made of: cores that are damaged and mended, or moved, the
//! commands that must stand it, and a watch on time and memory.

#![allow(unreachable_pub, reason = "one test file uses it")]

pub mod commands;
pub mod damage;
pub mod moving;
pub mod patient;
pub mod watch;

/// A number that the environment gives, or what is usual.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().unwrap_or_else(|_| panic!("{name}={v} is not a number")))
}
