//! Contents of java.lang.String objects, and which bytes of single objects a scrubbed core keeps.

use crate::addr::Addr;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::{Classes, KlassShape};
use crate::targets::reads::Script;

/// The characters of a string.
struct Text {
    /// Address of the array with the characters.
    array: Addr,
    /// Offset of the first character in the array.
    header: u64,
    /// Bytes per character.
    unit: usize,
    bytes: Vec<u8>,
}

impl Text {
    fn decoded(&self) -> String {
        if self.unit == 1 {
            return self.bytes.iter().map(|&b| char::from(b)).collect();
        }
        let units = self.bytes.as_chunks::<2>().0.iter().map(|u| u16::from_le_bytes(*u));
        char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }
}

impl Classes<'_> {
    /// Returns the contents of the `java.lang.String` at `object`, which is a name, up to `limit` characters. `None` if
    /// it is no string.
    ///
    /// It is declared a name wherever the object is. A reference may be older than the object's last move, as with ZGC,
    /// and the old address is no longer in the heap.
    pub fn name(&self, object: Addr, limit: usize) -> Option<String> {
        let text = self.text(object, limit)?;
        let klass = self.class_of(object)?;
        self.keep_class(object);
        self.keep_class(text.array);
        self.keep_reference(object.wrapping_add(self.field(&klass, "value")?.offset));
        self.vm.memory.keep(object.wrapping_add(self.field(&klass, "coder")?.offset), 1);
        self.vm.memory.keep(text.array.wrapping_add(self.encoding.length_at), 4);
        let script = Script::Units(text.unit as u8);
        self.vm.memory.keep_name(text.array.wrapping_add(text.header), text.bytes.len() as u64, script);
        Some(text.decoded())
    }

    /// Keeps an object's class pointer for `scrub`, wherever the object is.
    pub(crate) fn keep_class(&self, object: Addr) {
        let (at, len) = self.encoding.klass_word();
        self.vm.memory.keep(object.wrapping_add(at), len);
    }

    /// Keeps the reference at `at` for `scrub`.
    pub(crate) fn keep_reference(&self, at: Addr) {
        self.vm.memory.keep(at, self.encoding.unit());
    }

    /// Returns the contents of the `java.lang.String` at `object`, up to `limit` characters. `None` if it is no string.
    pub fn string(&self, object: Addr, limit: usize) -> Option<String> {
        self.text(object, limit).map(|text| text.decoded())
    }

    fn text(&self, object: Addr, limit: usize) -> Option<Text> {
        let klass = self.class_of(object).filter(|k| k.name == "java.lang.String")?;
        let array = self.reference(object.wrapping_add(self.field(&klass, "value")?.offset)).ok()?;
        let coder_at = object.wrapping_add(self.field(&klass, "coder")?.offset);
        let mut coder = [0];
        self.vm.memory.read(coder_at, &mut coder).ok()?;
        let KlassShape::TypeArray { header, .. } = self.class_of(array)?.shape else { return None };
        let count = self.vm.memory.u32(array.wrapping_add(self.encoding.length_at)).ok()?;
        let unit = if coder == [0] { 1 } else { 2 };
        let len = (count as usize).min(limit.saturating_mul(unit));
        let bytes = self.vm.memory.bytes(array.wrapping_add(header), len).ok()?;
        Some(Text { array, header, unit, bytes })
    }
}
