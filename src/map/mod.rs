//! The map: the base (every byte of the core's mappings), claims on it with evidence and confidence, and the label of
//! each byte that results from them.

mod address_map;
mod base;
mod claim;
mod kind;
pub(crate) mod kind_facts;

cfg_if! {
    if #[cfg(feature = "internals")] {
        pub mod audit;
    } else {
        pub(crate) mod audit;
    }
}

pub use address_map::{AddressMap, Region};
pub use base::{Base, BaseEntry};
pub use claim::{Claim, Claims, Confidence, Owner};
pub use kind::Kind;
