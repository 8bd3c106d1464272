//! What the VM's structures say of memory, as claims on it.

use crate::hotspot::HotSpot;
use crate::map::Claims;

/// Claim what is the VM's own.
pub(super) fn claim(_vm: &HotSpot<'_>, _claims: &mut Claims) {}
