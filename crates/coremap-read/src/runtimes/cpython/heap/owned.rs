//! Memory that an object owns in addition to its own block. It is freed with the object.

use crate::words::words;

words! {
    /// Purpose of owned memory. Listings of types have a row for each.
    pub enum OwnedKind {
        /// PyDictKeysObject: hash table and entries of a dict, or the attribute names shared by a class's instances.
        DictKeys = "(dict keys)",
        /// PyDictValues: values of instance attributes.
        DictValues = "(dict values)",
        /// Item array of a list.
        ListItems = "(list items)",
        /// Hash table of a set.
        SetTable = "(set table)",
        /// Buffer of a bytearray.
        ByteArrayBuffer = "(bytearray buffer)",
        /// Characters of a str that are outside the object, or its UTF-8 form.
        TextBuffer = "(str buffer)",
        /// A block of a deque.
        DequeBlock = "(deque block)",
        /// Item buffer of an `array.array`.
        ArrayItems = "(array items)",
        /// Data of a numpy array.
        ArrayData = "(ndarray data)",
    }
}

impl OwnedKind {
    /// Name of the owner's field that points to the memory, as in the C sources.
    pub fn field(self) -> &'static str {
        match self {
            OwnedKind::DictKeys => "ma_keys",
            OwnedKind::DictValues => "ma_values",
            OwnedKind::ListItems | OwnedKind::ArrayItems => "ob_item",
            OwnedKind::SetTable => "table",
            OwnedKind::ByteArrayBuffer => "ob_bytes",
            OwnedKind::TextBuffer => "data",
            OwnedKind::DequeBlock => "leftblock",
            OwnedKind::ArrayData => "data",
        }
    }

    /// Index in `ALL`.
    pub(super) fn number(self) -> u8 {
        OwnedKind::ALL.iter().position(|kind| *kind == self).unwrap_or(0) as u8
    }

    /// The kind with this index.
    pub(super) fn of_number(number: u8) -> Option<OwnedKind> {
        OwnedKind::ALL.get(usize::from(number)).copied()
    }
}
