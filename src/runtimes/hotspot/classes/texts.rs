//! What objects of java.lang.String say, and what is told to stay of objects that are read one by one.

use crate::addr::Addr;
use crate::memory::Memory;
use crate::runtimes::hotspot::classes::{Classes, KlassShape};
use crate::targets::reads::Script;

/// The characters of a string.
struct Text {
    /// What has them.
    array: Addr,
    /// From where on it does.
    header: u64,
    /// Bytes of each.
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
    /// The name that the `java.lang.String` at `object` is, at most `most` characters; `None` where it is none. It is told to be a name
    /// wherever it lies: what leads to it may be older than the last move of it, as ZGC leaves references, and where it was is no
    /// heap any more.
    pub fn name(&self, object: Addr, most: usize) -> Option<String> {
        let text = self.text(object, most)?;
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

    /// That an object's class stays, wherever the object lies.
    pub(crate) fn keep_class(&self, object: Addr) {
        let (at, len) = self.encoding.klass_word();
        self.vm.memory.keep(object.wrapping_add(at), len);
    }

    /// The same of the reference at `at`.
    pub(crate) fn keep_reference(&self, at: Addr) {
        self.vm.memory.keep(at, self.encoding.unit());
    }

    /// The text of the `java.lang.String` at `object`, at most `most` characters; `None` where it is none.
    pub fn string(&self, object: Addr, most: usize) -> Option<String> {
        self.text(object, most).map(|text| text.decoded())
    }

    fn text(&self, object: Addr, most: usize) -> Option<Text> {
        let klass = self.class_of(object).filter(|k| k.name == "java.lang.String")?;
        let array = self.reference(object.wrapping_add(self.field(&klass, "value")?.offset)).ok()?;
        let coder_at = object.wrapping_add(self.field(&klass, "coder")?.offset);
        let mut coder = [0];
        self.vm.memory.read(coder_at, &mut coder).ok()?;
        let KlassShape::TypeArray { header, .. } = self.class_of(array)?.shape else { return None };
        let count = self.vm.memory.u32(array.wrapping_add(self.encoding.length_at)).ok()?;
        let unit = if coder == [0] { 1 } else { 2 };
        let len = (count as usize).min(most.saturating_mul(unit));
        let bytes = self.vm.memory.bytes(array.wrapping_add(header), len).ok()?;
        Some(Text { array, header, unit, bytes })
    }
}
