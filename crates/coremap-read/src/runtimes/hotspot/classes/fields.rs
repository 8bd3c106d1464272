//! Fields that a class declares. Up to JDK 20 they are an array of six 16-bit numbers each, from 21 on a packed stream
//! (src/hotspot/share/oops/fieldInfo.hpp, fieldStreams.hpp of both).

use byteorder::{ByteOrder, LittleEndian};

use crate::addr::Addr;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::{Classes, Unsigned5, WORD};
use crate::runtimes::hotspot::vm::VmError;

/// A field of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaField {
    /// The field's name.
    pub name: String,
    /// The field's descriptor: `I`, `Ljava/lang/String;`.
    pub descriptor: String,
    /// Offset in bytes from the start of the instance. For a static field, from the start of the class's mirror.
    pub offset: u64,
    /// Whether the field is static.
    pub is_static: bool,
    /// Whether the VM injected the field. No source declares it.
    pub injected: bool,
}

impl JavaField {
    /// Whether the field is a reference.
    pub fn is_reference(&self) -> bool {
        self.descriptor.starts_with(['L', '['])
    }
}

/// `JVM_ACC_STATIC` (JVMS 4.5).
const STATIC: u32 = 0x8;

/// The six numbers of a field up to JDK 20 (FieldInfo): flags, name, descriptor, initial value, and two halves of the
/// offset, shifted by the two bits of its tag.
mod old {
    pub(super) const SLOTS: usize = 6;
    pub(super) const LOW: usize = 4;
    pub(super) const HIGH: usize = 5;
    pub(super) const TAG_BITS: u32 = 2;
    /// `JVM_ACC_FIELD_INTERNAL`: the names are the VM's own.
    pub(super) const INTERNAL: u32 = 0x400;
}

/// Flag bits of a field from JDK 21 on (FieldInfo::FieldFlags). INITIALIZED, GENERIC and CONTENDED add a number each.
mod stream {
    pub(super) const INITIALIZED: u32 = 1;
    pub(super) const INJECTED: u32 = 1 << 1;
    pub(super) const GENERIC: u32 = 1 << 2;
    pub(super) const CONTENDED: u32 = 1 << 4;
}

impl Classes<'_> {
    pub(super) fn read_fields(&self, at: Addr) -> Result<Vec<JavaField>, VmError> {
        let klass = self.vm.at("InstanceKlass", at);
        let pool = klass.ptr("_constants")?;
        if klass.has("_fieldinfo_stream") {
            return self.fields_of_stream(klass.ptr("_fieldinfo_stream")?, pool);
        }
        let (array, count) = (klass.ptr("_fields")?, klass.number("_java_fields_count")?);
        let len = 2 * old::SLOTS * usize::try_from(count).unwrap_or(0).min(limits::MAX_JAVA_FIELDS);
        let data = array.wrapping_add(self.vm.tables.offset("Array<u2>", "_data")?);
        let bytes = self.vm.memory.bytes(data, len).map_err(VmError::fault("InstanceKlass", "_fields"))?;
        let field = |slots: &[u8]| {
            let slot = |i: usize| slots.get(2 * i..2 * i + 2).map(|s| u32::from(LittleEndian::read_u16(s)));
            let (flags, name, descriptor) = (slot(0)?, slot(1)?, slot(2)?);
            let offset = (slot(old::HIGH)? << 16 | slot(old::LOW)?) >> old::TAG_BITS;
            self.java_field(pool, flags & old::INTERNAL != 0, name, descriptor, offset, flags)
        };
        Ok(bytes.chunks_exact(2 * old::SLOTS).filter_map(field).collect())
    }

    fn fields_of_stream(&self, array: Addr, pool: Addr) -> Result<Vec<JavaField>, VmError> {
        let fault = VmError::fault("InstanceKlass", "_fieldinfo_stream");
        let len = self.vm.memory.u32(array).map_err(fault)? as usize;
        // A field has at most eight numbers of five bytes.
        let len = len.min(40 * limits::MAX_JAVA_FIELDS);
        let data = array.wrapping_add(self.vm.tables.offset("Array<u1>", "_data")?);
        let bytes = self.vm.memory.bytes(data, len).map_err(fault)?;
        let mut numbers = Unsigned5::new(&bytes, 0, self.vm.major);
        let mut out = Vec::new();
        let mut next = || numbers.next();
        let (Some(java), Some(injected)) = (next(), next()) else { return Ok(out) };
        let count = (java as usize).saturating_add(injected as usize).min(limits::MAX_JAVA_FIELDS);
        for _ in 0..count {
            let (Some(name), Some(descriptor), Some(offset), Some(access), Some(flags)) =
                (next(), next(), next(), next(), next())
            else {
                break;
            };
            let more = [stream::INITIALIZED, stream::GENERIC, stream::CONTENDED];
            for _ in more.iter().filter(|&&bit| flags & bit != 0) {
                next();
            }
            let injected = flags & stream::INJECTED != 0;
            out.extend(self.java_field(pool, injected, name, descriptor, offset, access));
        }
        Ok(out)
    }

    fn java_field(
        &self,
        pool: Addr,
        injected: bool,
        name: u32,
        descriptor: u32,
        offset: u32,
        access: u32,
    ) -> Option<JavaField> {
        let text = |index: u32| {
            if injected { self.vm_symbol(u64::from(index)) } else { self.pool_symbol(pool, u64::from(index)) }
        };
        Some(JavaField {
            name: text(name)?,
            descriptor: text(descriptor)?,
            offset: u64::from(offset),
            is_static: access & STATIC != 0,
            injected,
        })
    }

    /// Returns one of the VM's own names (vmSymbols).
    fn vm_symbol(&self, index: u64) -> Option<String> {
        let first = self.vm.static_addr("Symbol", "_vm_symbols[0]").ok()?;
        self.symbol(self.vm.memory.ptr(first.wrapping_add(index * WORD)).ok()?)
    }
}
