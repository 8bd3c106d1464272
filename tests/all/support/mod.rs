//! Shared support of the integration tests: a builder of synthetic cores, a
//! runner for the program, an independent ELF reader, and the real cores.
//!
//! Nothing here may use the library's own parsing: an expectation taken from
//! the code under test would prove nothing.

pub mod builder;
pub mod cases;
pub mod commands;
pub mod cpu;
pub mod dotnet_builder;
pub mod dotnet_code;
pub mod elf;
pub mod gcdump;
pub mod hotspot_builder;
pub mod hprof;
#[cfg(target_os = "linux")]
pub mod live;
pub mod malloc_builder;
pub mod methods;
pub mod notes;
pub mod pty;
pub mod real;
pub mod run;
pub mod terminal;

/// A number from the environment, or the default.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().unwrap_or_else(|_| panic!("{name}={v} is not a number")))
}

/// A small random generator (SplitMix64). A failure can be repeated with its
/// seed.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n` (0 if `n` is 0).
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next() % n }
    }
}
