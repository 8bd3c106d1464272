//! Masks of the bytes of one page, joined once for all its words.

use crate::addr::{Addr, PAGE};
use crate::scrub::heaps::RunMasks;
use crate::scrub::plan::Use;
use crate::scrub::{Plan, Rule};
use crate::targets::byte_set::WORDS;

/// A mask of a page: one byte per word, the lowest bit for the first byte.
type Bits = [u8; WORDS];

/// The bytes of a page that stay, and those that never do.
pub(super) struct Page {
    at: Addr,
    used: Use,
    /// Bytes that stay, whatever their values.
    keep: Bits,
    /// Bytes of `keep` that a reader declared to be a structure or a name.
    found: Bits,
    /// Bytes of `found`, and headers of blocks and objects, which can't be texts.
    sure: Bits,
    /// Bytes of values.
    values: Bits,
}

impl Page {
    /// A page with empty masks.
    pub(super) fn none() -> Page {
        let none = [0; WORDS];
        Page { at: Addr::MAX, used: Use::Data, keep: none, found: none, sure: none, values: none }
    }

    /// Whether it is the page that contains `addr`, with this use.
    pub(super) fn is_of(&self, addr: Addr, used: Use) -> bool {
        self.at == addr.align_down(PAGE) && self.used == used
    }

    /// Joins the masks of the page that contains `addr`. `masks` has those of its objects.
    pub(super) fn of(plan: &Plan<'_>, addr: Addr, used: Use, masks: &RunMasks) -> Page {
        let at = addr.align_down(PAGE);
        let mut page = Page { at, used, ..Page::none() };
        let (read, objects) = (&plan.read, &plan.objects);
        read.kept.join_page(at, &mut page.found);
        page.sure = page.found;
        let mut own = [0; WORDS];
        if used != Use::Dead {
            plan.blocks.join_page(at, &mut page.sure);
            objects.own.join_page(at, &mut own);
            objects.values.join_page(at, &mut page.values);
            masks.join_values(at, &mut own, &mut page.values);
            page.sure.iter_mut().zip(own).for_each(|(sure, own)| *sure |= own);
            if !plan.has(Rule::Values) {
                page.values = [0; WORDS];
            }
        }
        let keep = &mut page.keep;
        match used {
            Use::Image => {
                for set in [&read.images, &read.structures, &read.blocks, &plan.debuggers] {
                    set.join_page(at, keep);
                }
            }
            Use::Structures => {
                for set in [&read.structures, &read.blocks] {
                    set.join_page(at, keep);
                }
            }
            Use::Blocks => {
                for set in [&read.structures, &plan.blocks] {
                    set.join_page(at, keep);
                }
            }
            Use::Objects => {
                for set in [&objects.heads, &read.heaps] {
                    set.join_page(at, keep);
                }
                let (mut threads, mut plain) = ([0; WORDS], [0; WORDS]);
                masks.join_page(at, keep, &mut plain);
                if read.threads.join_page(at, &mut threads) {
                    for ((keep, threads), plain) in keep.iter_mut().zip(threads).zip(plain) {
                        *keep |= threads & plain;
                    }
                }
            }
            Use::Stack => {
                read.threads.join_page(at, keep);
            }
            Use::Data => {
                read.structures.join_page(at, keep);
            }
            Use::Dead => {}
        }
        // A control block may be in data, and a signal frame on a stack within a malloc block.
        if !matches!(used, Use::Objects | Use::Dead) {
            plan.stacks.join_page(at, keep);
        }
        page.values.iter_mut().zip(own).for_each(|(values, own)| *values &= !own);
        page.found.iter_mut().zip(own).for_each(|(found, own)| *found |= own);
        for ((keep, found), (values, own)) in page.keep.iter_mut().zip(page.found).zip(page.values.iter().zip(own)) {
            *keep = (*keep | found) & !values | own;
        }
        if !plan.has(Rule::of(used)) {
            page.keep = [u8::MAX; WORDS];
        }
        page
    }

    /// Returns the masks of one word.
    pub(super) fn word(&self, addr: Addr) -> WordMasks {
        let i = (addr.since(self.at) / 8) as usize;
        let of = |bits: &Bits| bits.get(i).copied().unwrap_or(0);
        WordMasks { keep: of(&self.keep), found: of(&self.found), sure: of(&self.sure), values: of(&self.values) }
    }
}

/// Masks of a word's bytes. The lowest bit is the first byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WordMasks {
    /// Bytes that stay, whatever their values.
    pub(super) keep: u8,
    /// Bytes of `keep` that a reader declared to be a structure or a name.
    pub(super) found: u8,
    /// Bytes of `keep` that are no text, even if they look like one.
    pub(super) sure: u8,
    /// Bytes of values.
    pub(super) values: u8,
}
