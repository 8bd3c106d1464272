//! The map: the base (every byte of the core's mappings), claims on it with evidence and confidence, and the label of
//! each byte that results from them.
//!
//! ```
//! # use std::path::Path;
//! # use coremap::process::{Options, Process};
//! # use coremap::progress::Progress;
//! # use coremap::session::Session;
//! use coremap::map::Kind;
//!
//! let core = Path::new("testdata/cores/native-glibc-kernel/core.gz");
//! let process = Process::open(core, &Options::default(), &Progress::silent())?;
//! let session = Session::new(&process);
//! let map = session.map();
//! // The regions cover every mapped byte once, by address.
//! assert_eq!(map.regions.covered(), process.base().size());
//! for region in map.regions.iter().filter(|region| region.kind == Kind::Stack) {
//!     println!("{} {} {}", region.range, region.kind, region.detail);
//! }
//! // The region that contains an address, and the claims from which its label was chosen.
//! let at = process.threads()[0].registers.sp();
//! assert!(map.region_at(at).is_some_and(|region| region.range.contains(at)));
//! assert!(map.claims_at(at).iter().all(|(_, claim)| !claim.evidence.is_empty()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address_map;
mod base;
mod claim;
mod kind;
#[doc(hidden)]
pub mod kind_facts;

#[doc(hidden)]
pub mod audit;

pub use address_map::{AddressMap, Region};
pub use base::{Base, BaseEntry};
pub use claim::{Claim, Claims, Confidence, Owner};
pub use kind::Kind;
