//! The map: a base of every byte the core knows of, claims on it with evidence
//! and confidence, and the one label for each byte that follows from them.

mod address_map;
pub mod audit;
mod base;
mod claim;
mod kind;
pub(crate) mod kind_facts;

pub use address_map::{AddressMap, Region};
pub use base::{Base, BaseEntry};
pub use claim::{Claim, Claims, Confidence, Owner};
pub use kind::Kind;
