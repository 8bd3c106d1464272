//! A page of memory, as far as anything is known of its bytes: what sets have of it is joined once for all its words.

use crate::addr::{Addr, PAGE};
use crate::scrub::heaps::Within;
use crate::scrub::plan::Use;
use crate::scrub::{Plan, Rule};
use crate::targets::byte_set::WORDS;

/// For each word of a page one byte, whose lowest bit is the word's first byte.
type Bits = [u8; WORDS];

/// What stays of a page and what never does.
pub(super) struct Page {
    at: Addr,
    used: Use,
    /// Bytes that stay whatever they are.
    keep: Bits,
    /// Of these, what a reader said to be a structure or a name.
    found: Bits,
    /// Of these, what nobody may take for a text: heads of blocks and objects too.
    sure: Bits,
    /// Bytes of values.
    values: Bits,
}

impl Page {
    /// One of which nothing is known yet.
    pub(super) fn none() -> Page {
        let none = [0; WORDS];
        Page { at: Addr::MAX, used: Use::Data, keep: none, found: none, sure: none, values: none }
    }

    /// Whether it is the page that has `addr`, used so.
    pub(super) fn is_of(&self, addr: Addr, used: Use) -> bool {
        self.at == addr.align_down(PAGE) && self.used == used
    }

    /// What is known of the page that has `addr`.
    ///
    /// `within`: what is known of the objects there.
    pub(super) fn of(plan: &Plan<'_>, addr: Addr, used: Use, within: &Within) -> Page {
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
            within.join_values(at, &mut own, &mut page.values);
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
                within.join_page(at, keep, &mut plain);
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
        // A control block may lie in data, and a signal's frame on a stack in a block of malloc.
        if !matches!(used, Use::Objects | Use::Dead) {
            plan.stacks.join_page(at, keep);
        }
        page.values.iter_mut().zip(own).for_each(|(values, own)| *values &= !own);
        page.found.iter_mut().zip(own).for_each(|(found, own)| *found |= own);
        for ((keep, found), (values, own)) in page.keep.iter_mut().zip(page.found).zip(page.values.iter().zip(own)) {
            *keep = (*keep | found) & !values | own;
        }
        if !plan.has(used.rule()) {
            page.keep = [u8::MAX; WORDS];
        }
        page
    }

    /// What is known of a word of it.
    pub(super) fn word(&self, addr: Addr) -> Word {
        let i = (addr.since(self.at) / 8) as usize;
        let of = |bits: &Bits| bits.get(i).copied().unwrap_or(0);
        Word { keep: of(&self.keep), found: of(&self.found), sure: of(&self.sure), values: of(&self.values) }
    }
}

/// What is known of a word: bytes, the lowest bit the first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Word {
    /// What stays whatever it is.
    pub(super) keep: u8,
    /// Of that, what a reader said to be a structure or a name.
    pub(super) found: u8,
    /// Of that, what is no text though it may read as one.
    pub(super) sure: u8,
    /// Values.
    pub(super) values: u8,
}
