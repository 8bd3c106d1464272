//! Figures of a collector, and the heap profile that a runtime samples itself.

use crate::addr::Addr;
use crate::runtimes::api::Activation;

/// Numbers and bytes of sampled objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationCounts {
    /// Objects in use as of the end of the last collection.
    pub inuse_objects: u64,
    /// Their bytes.
    pub inuse_bytes: u64,
    /// Objects that were ever allocated.
    pub alloc_objects: u64,
    /// Their bytes.
    pub alloc_bytes: u64,
}

impl AllocationCounts {
    /// Estimates all objects from sampled ones. `rate`: bytes between samples. An object of `s` bytes is sampled with
    /// probability 1 − e^(−s/rate), as pprof computes it.
    #[must_use]
    pub fn scaled(&self, rate: u64) -> AllocationCounts {
        let (inuse_objects, inuse_bytes) = scaled(self.inuse_objects, self.inuse_bytes, rate);
        let (alloc_objects, alloc_bytes) = scaled(self.alloc_objects, self.alloc_bytes, rate);
        AllocationCounts { inuse_objects, inuse_bytes, alloc_objects, alloc_bytes }
    }
}

fn scaled(objects: u64, bytes: u64, rate: u64) -> (u64, u64) {
    if objects == 0 || bytes == 0 || rate <= 1 {
        return (objects, bytes);
    }
    let mean = bytes as f64 / objects as f64;
    let scale = 1.0 / (1.0 - (-mean / rate as f64).exp());
    ((objects as f64 * scale) as u64, (bytes as f64 * scale) as u64)
}

/// Objects that one stack allocated.
#[derive(Clone, Debug)]
pub struct AllocationSite {
    /// As the runtime sampled them.
    pub sampled: AllocationCounts,
    /// Estimate of all objects.
    pub scaled: AllocationCounts,
    /// Frames of the allocation, innermost first. Empty if no names are known.
    pub frames: Vec<Activation>,
    /// Code addresses of the stack, innermost first. Each is a return address.
    pub addresses: Vec<Addr>,
}

/// The heap profile that a runtime samples.
#[derive(Clone, Debug, Default)]
pub struct AllocationProfile {
    /// Stacks, those with most bytes in use first.
    pub sites: Vec<AllocationSite>,
    /// Bytes between samples.
    pub rate: u64,
    /// Whether this rate is assumed, because the process does not record another one.
    pub rate_is_default: bool,
    /// Why records are missing. `None` if none are.
    pub broken: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `scaleHeapSample` of github.com/google/pprof for a rate of 512 KiB.
    #[test]
    fn samples_are_scaled_by_their_probability() {
        assert_eq!(scaled(1, 524_288, 512 << 10), (1, 829_411));
        assert_eq!(scaled(2, 2048, 512 << 10), (1025, 1_049_600));
        assert_eq!(scaled(0, 0, 512 << 10), (0, 0));
        assert_eq!(scaled(7, 70, 1), (7, 70));
    }
}
