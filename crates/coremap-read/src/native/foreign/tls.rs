//! TLS of the main thread, which the dynamic linker puts into a small mapping.
//!
//! Source: the x86_64 TLS ABI: the word at the thread pointer is the thread pointer.

use super::findings::{Findings, Label};
use super::scene::Scene;
use crate::addr::{AddrRange, PAGE};
use crate::limits;
use crate::map::{Kind, Owner};

pub(super) fn find(scene: &Scene<'_>, found: &mut Findings) {
    let Some(block) = scene.thread_pointer else { return };
    let Some(mapping) = scene.unclaimed_at(block) else { return };
    if !scene.memory.peek_u64(block).is_ok_and(|this| this == block.get()) {
        return;
    }
    let small = mapping.len() <= limits::MAX_TLS_MAPPING;
    let range = if small { mapping } else { AddrRange::sized(block.align_down(PAGE), PAGE) };
    let evidence = format!("the main thread's thread pointer is {block}, and the word there points to itself");
    let detail = "main thread, and data of ld.so next to it";
    found.add(vec![range], &Label::derived(Kind::Tls, Owner::None, detail, evidence));
}
