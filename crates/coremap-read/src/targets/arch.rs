//! Machine types.

use crate::words::words;

words! {
    /// Machine type of the process.
    pub enum Arch {
        /// x86_64
        X86_64 = "x86_64",
        /// aarch64
        Aarch64 = "aarch64",
    }
}

/// Bits of a pointer below the byte that aarch64 ignores.
const BELOW_TAG: u32 = 56;

impl Arch {
    /// The address in a pointer to data. aarch64 ignores the top byte (Top Byte Ignore), in which programs and the
    /// memory tagging extension keep tags. Return addresses are not such pointers: they may be signed.
    ///
    /// Source: Documentation/arch/arm64/tagged-pointers.rst.
    pub fn address_in(self, pointer: u64) -> u64 {
        match self {
            Arch::Aarch64 => pointer & ((1 << BELOW_TAG) - 1),
            Arch::X86_64 => pointer,
        }
    }

    /// The tag in a pointer to data. 0 if there is none.
    pub fn tag_in(self, pointer: u64) -> u8 {
        match self {
            Arch::Aarch64 => (pointer >> BELOW_TAG) as u8,
            Arch::X86_64 => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_aarch64_has_tags() {
        let pointer = 0x1300_aaaa_e18a_2630;
        assert_eq!((Arch::Aarch64.address_in(pointer), Arch::Aarch64.tag_in(pointer)), (0xaaaa_e18a_2630, 0x13));
        assert_eq!((Arch::X86_64.address_in(pointer), Arch::X86_64.tag_in(pointer)), (pointer, 0));
    }
}
