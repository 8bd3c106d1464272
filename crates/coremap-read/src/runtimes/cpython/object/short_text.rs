//! Short texts for objects.

use std::sync::Arc;

use crate::addr::Addr;
use crate::facts::ElementRow;
use crate::memory::Memory;
use crate::runtimes::cpython::heap::Heap;
use crate::runtimes::cpython::object::code::function_text;
use crate::runtimes::cpython::objects::{PyType, TypeForm};

/// Maximum length of a value shown next to a field: characters of a text, and four times the bytes of a buffer.
const MAX_FIELD_CHARS: usize = 256;

/// Maximum number of bytes shown of a buffer on its own.
const PREVIEW: usize = 256;

pub(in crate::runtimes::cpython) struct ShortText<'h, 'p> {
    pub(super) heap: &'h Heap<'p>,
}

impl<'h, 'p> ShortText<'h, 'p> {
    pub(in crate::runtimes::cpython) fn new(heap: &'h Heap<'p>) -> ShortText<'h, 'p> {
        ShortText { heap }
    }

    /// Type of a possible object, in the heap or in static data.
    pub(in crate::runtimes::cpython) fn kind_of(&self, object: Addr) -> Option<Arc<PyType>> {
        if object.is_null() || !object.is_aligned(8) {
            return None;
        }
        self.heap.type_at(self.heap.objects().type_of(object)?)
    }

    /// Value of an object: text, number, or the name of a type or function. `limit`: maximum number of characters of a
    /// text.
    pub(super) fn value(&self, object: Addr, kind: &PyType, limit: usize) -> Option<String> {
        match kind.form {
            TypeForm::Text => self.text(object, limit),
            // Contents of containers are listed separately.
            TypeForm::List | TypeForm::Dict | TypeForm::Set | TypeForm::Deque => None,
            _ if kind.name == "tuple" => None,
            _ => self.short(object, kind, PREVIEW),
        }
    }

    /// Value shown next to a field: quoted text, or a container's number of items.
    pub(in crate::runtimes::cpython) fn field_value(&self, object: Addr) -> Option<String> {
        let kind = self.kind_of(object)?;
        match kind.form {
            TypeForm::Text => self.text(object, MAX_FIELD_CHARS).map(|text| format!("{text:?}")),
            _ => self.short(object, &kind, MAX_FIELD_CHARS / 4),
        }
    }

    fn text(&self, object: Addr, limit: usize) -> Option<String> {
        let objects = self.heap.objects();
        let mut text = objects.text(object, limit)?;
        if objects.text_content(object)?.length > limit as u64 {
            text.push('…');
        }
        Some(text)
    }

    fn short(&self, object: Addr, kind: &PyType, limit: usize) -> Option<String> {
        let objects = self.heap.objects();
        match kind.form {
            TypeForm::Integer if kind.name == "bool" => {
                objects.integer(object).map(|value| if value == 0 { "False" } else { "True" }.to_owned())
            }
            TypeForm::Integer => objects.integer_text(object),
            TypeForm::Leaf if kind.name == "float" => objects.float(object).map(|value| format!("{value:?}")),
            TypeForm::Bytes => Some(quoted(&objects.bytes(object, limit)?, self.length(object, kind)?)),
            TypeForm::ByteArray => {
                let length = self.length(object, kind)?;
                let start = self.heap.runtime().view("PyByteArrayObject", object).ptr("ob_start").ok()?;
                let bytes = objects.memory.bytes(start, usize::try_from(length).ok()?.min(limit)).ok()?;
                Some(quoted(&bytes, length))
            }
            TypeForm::Type => self.heap.type_at(object).map(|found| found.name.clone()),
            TypeForm::NdArray => {
                let array = self.heap.ndarray(object)?;
                let shape: Vec<String> = array.shape.iter().map(u64::to_string).collect();
                let whose = if array.owns { "owns its data" } else { "data of another object" };
                Some(format!("{} [{}], {whose}", array.dtype, shape.join(", ")))
            }
            TypeForm::List | TypeForm::Dict | TypeForm::Set | TypeForm::Deque | TypeForm::Array => {
                let length = self.length(object, kind)?;
                Some(format!("of {}", crate::units::exact(length)))
            }
            _ => match kind.name.as_str() {
                "NoneType" => Some("None".to_owned()),
                "tuple" => Some(format!("of {}", crate::units::exact(self.length(object, kind)?))),
                "module" => self.module_name(object),
                "function" | "code" => function_text(self.heap, object, &kind.name),
                _ => None,
            },
        }
    }

    /// Number of items. `None` for objects without items.
    pub(in crate::runtimes::cpython) fn length(&self, object: Addr, kind: &PyType) -> Option<u64> {
        let objects = self.heap.objects();
        match kind.form {
            TypeForm::Text => objects.text_content(object).map(|content| content.length),
            TypeForm::Dict => objects.word_at(object, objects.shape.dict.used),
            TypeForm::Set => self.heap.runtime().view("PySetObject", object).u64("used").ok(),
            TypeForm::Integer | TypeForm::Leaf | TypeForm::Type => None,
            TypeForm::List | TypeForm::Deque | TypeForm::Array | TypeForm::Bytes | TypeForm::ByteArray => {
                objects.ob_size(object).map(i64::unsigned_abs)
            }
            _ if kind.itemsize == 8 => self.heap.item_count(object, kind),
            _ => None,
        }
    }

    /// Name of a module, from `__name__` in its dict.
    pub(in crate::runtimes::cpython) fn module_name(&self, module: Addr) -> Option<String> {
        let objects = self.heap.objects();
        let name = objects.lookup(self.module_dict(module)?, "__name__")?;
        objects.is_str(name).then(|| objects.name(name))?
    }

    pub(in crate::runtimes::cpython) fn module_dict(&self, module: Addr) -> Option<Addr> {
        let at = self.heap.runtime().layout.positive("PyModuleObject", "md_dict").ok()?;
        self.heap.objects().ptr_at(module, at).filter(|dict| !dict.is_null())
    }

    pub(super) fn element(&self, index: u64, object: Addr) -> ElementRow {
        ElementRow {
            index,
            value: self.field_value(object),
            object: Some(object),
            object_type: self.kind_of(object).map(|kind| kind.name.clone().into()),
            ..ElementRow::default()
        }
    }
}

/// Bytes in Python's notation, with their number if they were cut.
fn quoted(bytes: &[u8], length: u64) -> String {
    let text = format!("b\"{}\"", bytes.escape_ascii());
    if length > bytes.len() as u64 { format!("{text}… {} bytes", crate::units::exact(length)) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_cut_and_their_number_told() {
        assert_eq!(quoted(b"ab\0", 3), "b\"ab\\x00\"");
        assert_eq!(quoted(b"ab", 2000), "b\"ab\"… 2,000 bytes");
    }
}
