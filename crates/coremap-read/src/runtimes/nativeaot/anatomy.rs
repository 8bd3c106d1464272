//! Which bytes of NativeAOT's objects are structure and which are values, as in CoreCLR. Fields have no names.

use crate::runtimes::api::anatomy::{Anatomy, ScrubRules};
use crate::runtimes::clr_gc;
use crate::runtimes::nativeaot::NativeAot;

impl Anatomy for NativeAot<'_> {
    fn rules(&self) -> Option<ScrubRules> {
        Some(clr_gc::forms(self.objects()?, |_| Vec::new()))
    }

    fn names_stay(&self) -> Option<&'static str> {
        Some("NativeAOT")
    }
}
