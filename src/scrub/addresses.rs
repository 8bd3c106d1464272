//! Decides whether a word is an address: it points into mapped memory, and to something that addresses point to.
//!
//! A number of 15 digits points into a mapping by a chance of one in millions. Below [`LOW_END`] the chance is higher.
//! Programs that are not position-independent, heaps of Java and Go, and programs that map low memory themselves have
//! addresses of 7 to 12 digits, which can also be texts of a few letters. Stricter conditions apply there. They also
//! apply to memory that is only reserved, of which sanitizers have many TiB.

use crate::addr::{Addr, WORD};
use crate::map::Kind;
use crate::map::kind_facts::Backing;
use crate::native::unwind::code::{follows_call, is_signal_return};
use crate::scrub::letters::{is_printable, is_readable};
use crate::scrub::plan::{MemoryPart, Use};
use crate::scrub::{Plan, Rule};
use crate::targets::{Piece, PieceState};

/// Addresses below this value are numbers of up to 12 digits. They can be read as texts of a few letters.
pub(super) const LOW_END: u64 = 1 << 40;

/// Minimum size in bytes of a reservation: memory of which the core has no byte. Numbers point into it by chance, and
/// no answer uses such a pointer. Smaller gaps separate stacks and heaps.
const MIN_RESERVATION: u64 = 64 << 20;

/// Offset of the address point in a virtual function table, after two words (Itanium C++ ABI, 2.5.2).
const VTABLE_HEAD: u64 = 16;

impl Plan<'_> {
    /// Returns the rule by which a word is no address, given that it points into mapped memory. `None` if it is one.
    ///
    /// `after_text` is whether the previous word was text, so that this word may be its end.
    pub(super) fn is_no_address(&self, word: [u8; 8], used: Use, after_text: bool) -> Option<Rule> {
        let value = u64::from_le_bytes(word);
        let part = self.part(Addr::new(value));
        if self.has(Rule::Numbers) {
            let is_object = part.is_some_and(|part| part.used == Use::Objects || part.kind == Kind::GCHeapReserve);
            let is_number = self.objects.is_number(used, value)
                || is_object && self.objects.is_outside(value)
                || part.is_some_and(|part| self.is_reservation(part, value))
                || value < LOW_END && !self.has_address_target(value, used, part);
            if is_number {
                return Some(Rule::Numbers);
            }
        }
        (self.has(Rule::Readable) && self.is_likely_text(word, used, after_text, part)).then_some(Rule::Readable)
    }

    /// Whether a register's value is an address, by the rules for stacks. An address of an object that reveals a value
    /// is none.
    pub(super) fn is_address(&self, value: u64) -> bool {
        let reveals = |other: u64| self.has(Rule::Alike) && other != value;
        self.is_mapped(value)
            && self.is_no_address(value.to_le_bytes(), Use::Stack, false).is_none()
            && !self.objects.substitute(value).is_some_and(reveals)
    }

    /// Whether an address is in reserved memory of which the core has nothing. Files are excluded, because their bytes
    /// are on disk.
    fn is_reservation(&self, part: &MemoryPart, value: u64) -> bool {
        let is_file = matches!(part.kind.facts().backing, Backing::Image | Backing::File | Backing::Shared);
        let piece = || self.process.space().pieces.at(Addr::new(value));
        let is_large = |piece: &Piece| piece.state == PieceState::NotDumped && piece.range.len() >= MIN_RESERVATION;
        !is_file && part.range.len() >= MIN_RESERVATION && piece().is_some_and(is_large)
    }

    /// Whether a low address points to something that addresses point to: a named symbol of the program, the
    /// instruction after a call, or a word of variables or of a heap. Memory that is only reserved is excluded.
    fn has_address_target(&self, value: u64, used: Use, part: Option<&MemoryPart>) -> bool {
        let at = Addr::new(value);
        let starts = |at: Option<u64>| at.is_some_and(|at| self.low_symbols.binary_search(&at).is_ok());
        match part {
            Some(part) if part.used == Use::Image && part.is_writable => at.is_aligned(WORD),
            Some(MemoryPart { used: Use::Image, .. }) | None => {
                let is_code = || used == Use::Stack && self.is_return_address(at);
                starts(Some(value)) || at.is_aligned(WORD) && starts(value.checked_sub(VTABLE_HEAD)) || is_code()
            }
            Some(part) => part.is_held && at.is_aligned(WORD),
        }
    }

    /// Whether a word that may be text points only to where texts point: into a program file, or into data without
    /// structure. On a stack, most words that point into a file are return addresses.
    fn is_likely_text(&self, word: [u8; 8], used: Use, after_text: bool, part: Option<&MemoryPart>) -> bool {
        let value = u64::from_le_bytes(word);
        let at = Addr::new(value);
        // A text that ends within an old address: its last letters, a NUL, and the rest of the address.
        let letters = word.iter().take_while(|b| is_printable(**b)).count();
        let ends = (1..=3).contains(&letters) && word.get(letters) == Some(&0);
        if ends && value >= LOW_END && !matches!(used, Use::Image | Use::Dead) {
            // One in some hundred return addresses reads so. n8-mixed has one that no answer reads by itself.
            let is_code = || used == Use::Stack && self.is_return_address(at);
            return !at.is_aligned(WORD) && !is_code();
        }
        if value >= LOW_END || !is_readable(word) {
            return false;
        }
        match part.map(|part| part.used) {
            Some(Use::Blocks | Use::Objects) => !at.is_aligned(WORD),
            Some(Use::Image) if used == Use::Stack && !after_text => !self.is_return_address(at),
            _ => true,
        }
    }

    /// Whether the instruction before `at` is a call, or `at` is where a signal handler returns to. Also true if the
    /// code can't be read.
    fn is_return_address(&self, at: Addr) -> bool {
        let (memory, arch) = (&self.process.memory, self.process.arch());
        follows_call(memory, arch, at) != Some(false) || is_signal_return(memory, arch, at)
    }

    /// Whether a word is an address of mapped memory.
    pub(super) fn is_mapped(&self, value: u64) -> bool {
        let after = self.mapped.partition_point(|&(start, _)| start <= value);
        after.checked_sub(1).and_then(|i| self.mapped.get(i)).is_some_and(|&(_, end)| value < end)
    }

    /// Returns the part of memory that contains an address.
    pub(super) fn part(&self, at: Addr) -> Option<&MemoryPart> {
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
        // A program that is not position-independent, with its own code for that return: mov rax, 15; syscall.
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
