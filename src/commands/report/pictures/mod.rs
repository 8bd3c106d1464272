//! Computes what a page draws, as numbers without HTML: the tree of boxes, merged stacks, and the strip of addresses.

pub(super) mod boxes;
pub(super) mod family;
pub(super) mod flame;
pub(super) mod squarify;
pub(super) mod strip;

pub(super) use boxes::TreemapBox;
pub(super) use family::{Family, Look};
