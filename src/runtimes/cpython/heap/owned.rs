//! Memory that an object owns beside its own: it goes when the object does.

use crate::words::words;

words! {
    /// What memory that an object owns is for. Listings of types have each as a row of its own.
    pub enum OwnedKind {
        /// PyDictKeysObject: hash table and entries of a dict, or the names that instances of a class share.
        DictKeys = "(dict keys)",
        /// PyDictValues: values of instance attributes.
        DictValues = "(dict values)",
        /// Items of a list.
        ListItems = "(list items)",
        /// Entries of a set.
        SetTable = "(set table)",
        /// Bytes of a bytearray.
        ByteArrayBuffer = "(bytearray buffer)",
        /// Characters of a str that are not in the object, or their form in UTF-8.
        TextBuffer = "(str buffer)",
        /// A block of a deque.
        DequeBlock = "(deque block)",
        /// Numbers of an array.
        ArrayItems = "(array items)",
        /// Data of an array of numpy.
        ArrayData = "(ndarray data)",
    }
}

impl OwnedKind {
    /// The field of its owner that leads to it, in CPython's words, or those of the module that has the type.
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

    /// Its place among all.
    pub(super) fn number(self) -> u8 {
        OwnedKind::ALL.iter().position(|kind| *kind == self).unwrap_or(0) as u8
    }

    /// The kind of that number.
    pub(super) fn of_number(number: u8) -> Option<OwnedKind> {
        OwnedKind::ALL.get(usize::from(number)).copied()
    }
}
