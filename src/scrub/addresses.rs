//! Whether a word is taken for an address: it leads into mapped memory, and to where an address would.
//!
//! A number of 15 digits leads into some mapping by a chance of one in millions. Below [`LOW`] that is no longer so: programs that
//! are not position-independent, heaps of Java and Go, and what maps itself low have addresses that are numbers of 7 to 12 digits, or texts of
//! a few letters. There more is asked. So it is with memory that was only set aside, of which sanitizers have many TiB.

use crate::addr::{Addr, WORD};
use crate::map::Kind;
use crate::map::kind_facts::Backing;
use crate::native::unwind::code::{follows_call, is_signal_return};
use crate::scrub::letters::{is_printable, is_readable};
use crate::scrub::plan::{Part, Use};
use crate::scrub::{Plan, Rule};
use crate::targets::{Piece, PieceState};

/// Addresses below this are numbers of up to 12 digits, and can be read as a text of a few letters.
pub(super) const LOW: u64 = 1 << 40;

/// Memory of which the core has nothing is a reservation from this size on: numbers lead there by chance, and no answer goes there. What is
/// smaller keeps stacks and heaps apart.
const RESERVATION: u64 = 64 << 20;

/// Where tables of virtual functions are pointed to: behind two words of their own (Itanium C++ ABI, 2.5.2).
const VTABLE_HEAD: u64 = 16;

impl Plan<'_> {
    /// The rule by which a word that leads into mapped memory is no address for all we know; `None` where it is taken for one.
    ///
    /// `after_text`: whether the word before was text, of which this may be the end.
    pub(super) fn is_no_address(&self, word: [u8; 8], used: Use, after_text: bool) -> Option<Rule> {
        let value = u64::from_le_bytes(word);
        let part = self.part(Addr::new(value));
        if self.has(Rule::Numbers) {
            let is_object = part.is_some_and(|part| part.used == Use::Objects || part.kind == Kind::GCHeapReserve);
            let is_number = self.objects.is_number(used, value)
                || is_object && self.objects.is_outside(value)
                || part.is_some_and(|part| self.is_reservation(part, value))
                || value < LOW && !self.leads_where_addresses_do(value, used, part);
            if is_number {
                return Some(Rule::Numbers);
            }
        }
        (self.has(Rule::Readable) && self.is_text_for_all_we_know(word, used, after_text, part))
            .then_some(Rule::Readable)
    }

    /// Whether what a register has is taken for an address, as on a stack. One that leads to an object which tells a value is none.
    pub(super) fn is_address(&self, value: u64) -> bool {
        let tells = |other: u64| self.has(Rule::Alike) && other != value;
        self.leads_somewhere(value)
            && self.is_no_address(value.to_le_bytes(), Use::Stack, false).is_none()
            && !self.objects.alike(value).is_some_and(tells)
    }

    /// Whether an address is of memory that was set aside, and of which nothing is in the core: of no file, whose bytes are on disk.
    fn is_reservation(&self, part: &Part, value: u64) -> bool {
        let is_file = matches!(part.kind.facts().backing, Backing::Image | Backing::File | Backing::Shared);
        let piece = || self.process.space().pieces.at(Addr::new(value));
        let is_large = |piece: &Piece| piece.state == PieceState::NotDumped && piece.range.len() >= RESERVATION;
        !is_file && part.range.len() >= RESERVATION && piece().is_some_and(is_large)
    }

    /// Whether a low address leads to something that addresses lead to: a name of the program's, the instruction after a call, a word of
    /// variables or of a heap; and to what the process had there, not just set aside.
    fn leads_where_addresses_do(&self, value: u64, used: Use, part: Option<&Part>) -> bool {
        let at = Addr::new(value);
        let starts = |at: Option<u64>| at.is_some_and(|at| self.low_symbols.binary_search(&at).is_ok());
        match part {
            Some(part) if part.used == Use::Image && part.is_writable => at.is_aligned(WORD),
            Some(Part { used: Use::Image, .. }) | None => {
                let is_code = || used == Use::Stack && self.is_return_address(at);
                starts(Some(value)) || at.is_aligned(WORD) && starts(value.checked_sub(VTABLE_HEAD)) || is_code()
            }
            Some(part) => part.is_held && at.is_aligned(WORD),
        }
    }

    /// Whether a word that may be text leads to where only text leads: into a program file, or data without a form. On a stack most of
    /// those that lead into a file are return addresses.
    fn is_text_for_all_we_know(&self, word: [u8; 8], used: Use, after_text: bool, part: Option<&Part>) -> bool {
        let value = u64::from_le_bytes(word);
        let place = Addr::new(value);
        // A text that ends within an address of former times: its last letters and a NUL, and what it left of the address.
        let letters = word.iter().take_while(|b| is_printable(**b)).count();
        let ends = (1..=3).contains(&letters) && word.get(letters) == Some(&0);
        if ends && value >= LOW && !matches!(used, Use::Image | Use::Dead) {
            // One return address in some hundreds reads so, and n8-mixed has one that no answer reads by itself.
            let is_code = || used == Use::Stack && self.is_return_address(place);
            return !place.is_aligned(WORD) && !is_code();
        }
        if value >= LOW || !is_readable(word) {
            return false;
        }
        match part.map(|part| part.used) {
            Some(Use::Blocks | Use::Objects) => !place.is_aligned(WORD),
            Some(Use::Image) if used == Use::Stack && !after_text => !self.is_return_address(place),
            _ => true,
        }
    }

    /// Whether the instruction before this one is a call, as far as the code can be read, or a signal's handler returns here.
    fn is_return_address(&self, at: Addr) -> bool {
        let (memory, arch) = (&self.process.memory, self.process.arch());
        follows_call(memory, arch, at) != Some(false) || is_signal_return(memory, arch, at)
    }

    /// Whether a word is an address of mapped memory.
    pub(super) fn leads_somewhere(&self, value: u64) -> bool {
        let after = self.mapped.partition_point(|&(start, _)| start <= value);
        after.checked_sub(1).and_then(|i| self.mapped.get(i)).is_some_and(|&(_, end)| value < end)
    }

    /// The part of memory that has an address.
    pub(super) fn part(&self, at: Addr) -> Option<&Part> {
        let i = self.parts.partition_point(|part| part.range.end <= at);
        self.parts.get(i).filter(|part| part.range.contains(at))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::scrub::tests::{open, plan};
    use crate::session::Session;

    #[test]
    fn where_handlers_of_signals_return_is_an_address() {
        // A program that is not position-independent, with code of its own to return there: mov rax, 15; syscall.
        const RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05];
        let process = open("go-gcore/core.zst");
        let session = Session::new(&process);
        let plan = plan(&session);
        let images = plan.parts.iter().filter(|part| part.used == Use::Image && !part.is_writable);
        let places = images.flat_map(|part| {
            let bytes = process.memory.look(part.range.start, part.range.len() as usize).unwrap_or_default();
            let found: Vec<usize> = memchr::memmem::find_iter(&bytes, &RETURN).collect();
            found.into_iter().map(|i| part.range.start.saturating_add(i as u64)).collect::<Vec<_>>()
        });
        let places: Vec<Addr> = places.filter(|at| at.get() < 1 << 40).collect();
        assert!(!places.is_empty());
        for at in places {
            assert_eq!(plan.is_no_address(at.get().to_le_bytes(), Use::Stack, false), None, "{at}");
        }
    }
}
