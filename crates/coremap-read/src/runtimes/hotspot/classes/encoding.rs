//! How references and class pointers are stored: plain, compressed or coloured.
//!
//! src/hotspot/share/oops: compressedOops.hpp, compressedKlass.hpp, markWord.hpp; gc/z: zAddress.hpp; facts of JDK 11
//! to 25 by their tables.

use crate::addr::Addr;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::WORD;
use crate::runtimes::hotspot::vm::{Vm, VmError};
use crate::targets::Arch;

/// `markWord::klass_shift` of JDK 24 and 25, where the tables lack it.
const KLASS_SHIFT: u32 = 42;

/// Form of full-width references in the heap and in the VM's handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OopEncoding {
    /// An address.
    Plain,
    /// Non-generational ZGC: bits above `mask` are the colour, and current addresses begin at `base`.
    Coloured { mask: u64, base: u64 },
    /// Generational ZGC: the address is shifted up, with colour bits below. `bits` is the current shift. On x86_64 the
    /// address begins above the set bit of `remapped`. In references that were not loaded since the last relocation,
    /// another bit is set than in new ones.
    Shifted { bits: u32, remapped: u64, base: u64 },
}

/// How the VM stores references and class pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// Whether references in objects have 32 bits (`UseCompressedOops`).
    pub narrow: bool,
    oop_base: u64,
    oop_shift: u32,
    wide: OopEncoding,
    klass: KlassLocation,
    klass_base: u64,
    klass_shift: u32,
    /// Offset of an array's length in bytes.
    pub length_at: u64,
    /// Size of the smallest object in bytes.
    pub min_object: u64,
}

/// Where an object stores its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KlassLocation {
    /// 32 bits at this offset (`UseCompressedClassPointers`).
    Narrow(u64),
    /// A pointer at this offset.
    Pointer(u64),
    /// In its first word, from this bit on (`UseCompactObjectHeaders`).
    Mark(u32),
}

impl Encoding {
    /// Reads the encoding from the VM's flags and statics.
    pub(super) fn read(vm: &Vm<'_>) -> Result<Encoding, VmError> {
        let base = |names: &[(&str, &str)]| {
            let at = vm.first_static(names)?;
            vm.memory.u64(at).map_err(VmError::fault("CompressedOops", "_base"))
        };
        let shift = |names: &[(&str, &str)]| {
            let at = vm.first_static(names)?;
            let bits = vm.memory.u32(at).map_err(VmError::fault("CompressedOops", "_shift"))?;
            if bits < 32 { Ok(bits) } else { Err(VmError::Invalid { what: "an invalid shift", at }) }
        };
        let narrow = vm.is_set("UseCompressedOops");
        let (oop_base, oop_shift) = if narrow {
            (
                base(&[
                    ("CompressedOops", "_narrow_oop._base"),
                    ("CompressedOops", "_base"),
                    ("Universe", "_narrow_oop._base"),
                ])?,
                shift(&[
                    ("CompressedOops", "_narrow_oop._shift"),
                    ("CompressedOops", "_shift"),
                    ("Universe", "_narrow_oop._shift"),
                ])?,
            )
        } else {
            (0, 0)
        };
        let compact = vm.is_set("UseCompactObjectHeaders");
        let (klass_base, klass_shift) = if compact || vm.is_set("UseCompressedClassPointers") {
            let of =
                |field, old| [("CompressedKlassPointers", field), ("CompressedKlassPointers", old), ("Universe", old)];
            (base(&of("_base", "_narrow_klass._base"))?, shift(&of("_shift", "_narrow_klass._shift"))?)
        } else {
            (0, 0)
        };
        let klass = if compact {
            KlassLocation::Mark(
                vm.constant("markWord::klass_shift").and_then(|s| u32::try_from(s).ok()).unwrap_or(KLASS_SHIFT),
            )
        } else if vm.is_set("UseCompressedClassPointers") {
            KlassLocation::Narrow(vm.tables.offset("oopDesc", "_metadata._compressed_klass")?)
        } else {
            KlassLocation::Pointer(vm.tables.offset("oopDesc", "_metadata._klass")?)
        };
        let length_at = match klass {
            KlassLocation::Narrow(at) => at + 4,
            KlassLocation::Pointer(at) => at + WORD,
            KlassLocation::Mark(_) => WORD,
        };
        if matches!(klass, KlassLocation::Mark(bit) if bit >= 64) {
            return Err(VmError::MissingField { kind: "markWord".into(), field: "klass_shift".into() });
        }
        let min_object = if compact { WORD } else { 2 * WORD };
        let wide = oop_encoding(vm)?;
        Ok(Encoding { narrow, oop_base, oop_shift, wide, klass, klass_base, klass_shift, length_at, min_object })
    }

    /// Returns the bytes of a reference in an object.
    pub fn unit(&self) -> u64 {
        if self.narrow { 4 } else { 8 }
    }

    /// Decodes a full-width reference.
    #[inline]
    pub fn wide(&self, word: u64) -> Addr {
        Addr::new(self.wide_raw(word))
    }

    /// Decodes a full-width reference, for loops over millions of references.
    #[inline(always)]
    pub(crate) fn wide_raw(&self, word: u64) -> u64 {
        match self.wide {
            OopEncoding::Plain => word,
            _ if word == 0 => 0,
            OopEncoding::Coloured { mask, base } => word & mask | base,
            OopEncoding::Shifted { bits, remapped, .. } => match word & remapped {
                0 => word >> bits,
                colour => word >> colour.trailing_zeros() >> 1,
            },
        }
    }

    /// Decodes a compressed reference.
    #[inline]
    pub fn narrow(&self, word: u32) -> Addr {
        Addr::new(self.narrow_raw(word))
    }

    /// Decodes a compressed reference, for loops over millions of references.
    #[inline(always)]
    pub(crate) fn narrow_raw(&self, word: u32) -> u64 {
        if word == 0 { 0 } else { self.oop_base.wrapping_add(u64::from(word) << self.oop_shift) }
    }

    /// Returns the class of an object. `word` reads the object's words by offset.
    #[inline(always)]
    pub(crate) fn klass_in(&self, word: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let narrow = match self.klass {
            KlassLocation::Pointer(at) => return word(at),
            KlassLocation::Narrow(at) => word(at & !7)? >> (8 * (at & 7)) & u64::from(u32::MAX),
            KlassLocation::Mark(bit) => word(0)? >> bit,
        };
        Some(self.klass_base.wrapping_add(narrow << self.klass_shift))
    }

    /// Returns the class of the object at `object`. The address is not checked to be a class.
    pub fn klass_of(&self, memory: &dyn Memory, object: Addr) -> Option<Addr> {
        self.klass_in(|at| memory.u64(object.wrapping_add(at)).ok()).map(Addr::new)
    }

    /// Returns offset and length of an object's class pointer.
    pub fn klass_word(&self) -> (u64, u64) {
        match self.klass {
            KlassLocation::Narrow(at) => (at, 4),
            KlassLocation::Pointer(at) => (at, WORD),
            KlassLocation::Mark(_) => (0, WORD),
        }
    }

    /// Returns the address at an offset in ZGC's own tables. For other collectors this is the offset itself.
    pub fn at_heap_offset(&self, offset: u64) -> Addr {
        match self.wide {
            OopEncoding::Plain => Addr::new(offset),
            OopEncoding::Coloured { base, .. } | OopEncoding::Shifted { base, .. } => Addr::new(offset | base),
        }
    }

    /// Returns the size in bytes of ZGC's address space. `None` for other collectors.
    pub fn heap_offsets(&self) -> Option<u64> {
        match self.wide {
            OopEncoding::Plain => None,
            OopEncoding::Coloured { mask, .. } => mask.checked_add(1),
            OopEncoding::Shifted { base, .. } => Some(base),
        }
    }
}

/// Returns the prefix of ZGC's types. In JDK 21 to 23 non-generational ZGC has `X`, and `Z` is the generational one.
pub(crate) fn z_prefix(vm: &Vm<'_>) -> &'static str {
    if vm.tables.has_type("XGlobalsForVMStructs") && !vm.is_set("ZGenerational") { "X" } else { "Z" }
}

fn oop_encoding(vm: &Vm<'_>) -> Result<OopEncoding, VmError> {
    if !vm.is_set("UseZGC") {
        return Ok(OopEncoding::Plain);
    }
    let prefix = z_prefix(vm);
    let kind = format!("{prefix}GlobalsForVMStructs");
    let instance_at = vm.static_addr(&kind, "_instance_p")?;
    let instance = vm.memory.ptr(instance_at).map_err(VmError::fault(&kind, "_instance_p"))?;
    let globals = vm.at(&kind, instance);
    let global = |field: &str| {
        let at = globals.ptr(field)?;
        vm.memory.u64(at).map_err(VmError::fault(&kind, field))
    };
    let mask = global(&format!("_{prefix}AddressOffsetMask"))?;
    let good = format!("_{prefix}AddressGoodMask");
    if globals.has(&good) {
        return Ok(OopEncoding::Coloured { mask, base: global(&good)? });
    }
    let bits = global("_ZPointerLoadShift")?;
    let at = globals.addr;
    let bits = u32::try_from(bits).ok().filter(|&bits| bits < 64);
    let bits = bits.ok_or(VmError::Invalid { what: "an invalid shift", at })?;
    // zAddress.hpp: the colours that a loaded reference may have, and all others.
    let colours = ["_ZPointerLoadGoodMask", "_ZPointerLoadBadMask"];
    let by_colour = vm.process.arch() == Arch::X86_64 && colours.iter().all(|field| globals.has(field));
    let remapped = if by_colour { global(colours[0])? | global(colours[1])? } else { 0 };
    Ok(OopEncoding::Shifted { bits, remapped, base: mask.wrapping_add(1) })
}
