//! Strings of V8: sequential, external, and strings composed of other strings.

use crate::runtimes::v8::vm::{FIRST_NONSTRING, Vm, count};

/// Maximum depth of composed strings.
const MAX_DEPTH: u32 = 64;

/// Kinds of strings: the low three bits of their instance type.
pub(super) mod form {
    pub(in crate::runtimes::v8) const SEQUENTIAL: u16 = 0;
    pub(in crate::runtimes::v8) const CONS: u16 = 1;
    pub(in crate::runtimes::v8) const EXTERNAL: u16 = 2;
    pub(in crate::runtimes::v8) const SLICED: u16 = 3;
    pub(in crate::runtimes::v8) const THIN: u16 = 5;
    pub(in crate::runtimes::v8) const MASK: u16 = 7;
    /// Set if a character has one byte.
    pub(in crate::runtimes::v8) const ONE_BYTE: u16 = 8;
    /// Set if an external string doesn't cache the address of its characters.
    pub(in crate::runtimes::v8) const UNCACHED: u16 = 16;
}

/// Offsets of the parts of strings in bytes (string.tq).
pub(super) mod part {
    /// Characters of a sequential string; or the first string, the parent, or the actual string.
    pub(in crate::runtimes::v8) const FIRST: u64 = 16;
    /// Second string; or offset in the parent; or address of external characters.
    pub(in crate::runtimes::v8) const SECOND: u64 = 24;
}

/// Characters of an external string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExternalText {
    pub address: u64,
    pub bytes: u64,
}

impl Vm<'_> {
    /// Length of a string in characters.
    pub(super) fn text_length(&self, string: u64) -> Option<u64> {
        self.half(string.checked_add(self.offsets.string_length)?).map(u64::from)
    }

    /// Returns up to `limit` characters of a string.
    pub(super) fn text(&self, string: u64, limit: usize) -> Option<String> {
        let mut units = Vec::new();
        let mut steps = 0;
        self.add_units(string, 0, limit as u64, &mut units, (0, &mut steps))?;
        Some(String::from_utf16_lossy(&units))
    }

    /// Adds the characters of `string` from `from` on, up to `limit` characters in all.
    fn add_units(
        &self,
        string: u64,
        from: u64,
        limit: u64,
        out: &mut Vec<u16>,
        (depth, steps): (u32, &mut u64),
    ) -> Option<()> {
        *steps += 1;
        let kind = self.type_of(string).filter(|kind| *kind < FIRST_NONSTRING)?;
        let room = limit.saturating_sub(out.len() as u64);
        // A composed string may use one part many times, so the number of steps is limited too.
        if room == 0 || depth > MAX_DEPTH || *steps > 4 * limit.saturating_add(64) {
            return Some(());
        }
        let length = self.text_length(string)?;
        let wanted = length.saturating_sub(from).min(room);
        match kind & form::MASK {
            form::SEQUENTIAL => self.add_characters(string.checked_add(part::FIRST)?, kind, from, wanted, out),
            form::EXTERNAL => self.add_characters(self.external(string)?.address, kind, from, wanted, out),
            form::CONS => {
                let first = self.object(string, part::FIRST)?;
                let in_first = self.text_length(first)?;
                if from < in_first {
                    self.add_units(first, from, limit, out, (depth + 1, steps))?;
                }
                let rest = from.saturating_sub(in_first);
                self.add_units(self.object(string, part::SECOND)?, rest, limit, out, (depth + 1, steps))
            }
            form::SLICED => {
                let offset = count(self.field(string, part::SECOND)?)?;
                let end = (out.len() as u64).saturating_add(wanted);
                let parent = self.object(string, part::FIRST)?;
                self.add_units(parent, offset.checked_add(from)?, end, out, (depth + 1, steps))
            }
            form::THIN => self.add_units(self.object(string, part::FIRST)?, from, limit, out, (depth + 1, steps)),
            _ => None,
        }
    }

    fn add_characters(&self, at: u64, kind: u16, from: u64, wanted: u64, out: &mut Vec<u16>) -> Option<()> {
        if kind & form::ONE_BYTE != 0 {
            out.extend(self.bytes(at.checked_add(from)?, wanted)?.into_iter().map(u16::from));
        } else {
            let bytes = self.bytes(at.checked_add(from.checked_mul(2)?)?, wanted.checked_mul(2)?)?;
            out.extend(bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)));
        }
        Some(())
    }

    /// Returns where the characters of an external string are.
    pub(super) fn external(&self, string: u64) -> Option<ExternalText> {
        let kind =
            self.type_of(string).filter(|kind| *kind < FIRST_NONSTRING && kind & form::MASK == form::EXTERNAL)?;
        let width = if kind & form::ONE_BYTE != 0 { 1 } else { 2 };
        let cached = (kind & form::UNCACHED == 0).then(|| self.field(string, part::SECOND)).flatten();
        let address = match cached.filter(|at| *at != 0) {
            Some(at) => at,
            // In the resource, the pointer to the characters follows the vtable.
            None => self.word(self.field(string, part::FIRST)?.checked_add(8)?)?,
        };
        Some(ExternalText { address, bytes: self.text_length(string)?.checked_mul(width)? })
    }
}
