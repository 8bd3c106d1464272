//! A version's field offsets as one struct. Walks need them for every object, so they are looked up once.

use crate::layout::{Layout, LayoutError, NUMPY};

/// Offsets in PyTypeObject and PyHeapTypeObject.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypeShape {
    pub(crate) name: u64,
    pub(crate) basicsize: u64,
    pub(crate) itemsize: u64,
    pub(crate) flags: u64,
    pub(crate) weaklistoffset: u64,
    pub(crate) dictoffset: u64,
    pub(crate) base: u64,
    pub(crate) dict: u64,
    pub(crate) qualname: u64,
    pub(crate) cached_keys: u64,
    /// Size of a PyHeapTypeObject. The PyMemberDefs of its slots follow.
    pub(crate) heap_size: u64,
}

/// Offsets in PyASCIIObject, PyCompactUnicodeObject and PyUnicodeObject.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextShape {
    pub(crate) length: u64,
    pub(crate) state: u64,
    /// Offset of the characters in a compact ASCII string (`ascii`), and in other compact strings (`compact`).
    pub(crate) ascii: u64,
    pub(crate) compact: u64,
    pub(crate) utf8_length: u64,
    pub(crate) utf8: u64,
    /// Offset of the pointer to the characters, in a string that is not compact.
    pub(crate) data: u64,
}

/// Offsets in PyDictObject, PyDictKeysObject, its entries, and PyDictValues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DictShape {
    /// Offset of the number of entries.
    pub(crate) used: u64,
    pub(crate) keys: u64,
    pub(crate) values: u64,
    /// Offset of the hash table's number of slots. Only up to 3.10.
    pub(crate) size: Option<u64>,
    /// Offset of the log2 of the hash table's size in bytes. Since 3.11.
    pub(crate) log2_index_bytes: Option<u64>,
    /// Offset of the kind of the entries that follow. Since 3.11; before, all entries store a hash.
    pub(crate) kind: Option<u64>,
    pub(crate) usable: u64,
    pub(crate) nentries: u64,
    pub(crate) indices: u64,
    /// PyDictKeyEntry: size, offset of the key, offset of the value.
    pub(crate) entry: (u64, u64, u64),
    /// PyDictUnicodeEntry: the same. Since 3.11.
    pub(crate) unicode_entry: Option<(u64, u64, u64)>,
    /// Offset of the first value in a PyDictValues.
    pub(crate) first_value: u64,
    /// Offset of the number of values. Since 3.13.
    pub(crate) capacity: Option<u64>,
    /// Offset of the flag for values that are inside the instance. Since 3.13.
    pub(crate) embedded: Option<u64>,
}

/// Offsets in PySetObject and setentry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetShape {
    pub(crate) mask: u64,
    pub(crate) table: u64,
    pub(crate) smalltable: u64,
    pub(crate) entry: u64,
    pub(crate) key: u64,
}

/// Offsets in PyGenObject, which contains a frame since 3.11.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GenShape {
    pub(crate) frame: u64,
    pub(crate) frame_state: u64,
}

/// Offsets in PyFrameObject, for versions with `_PyInterpreterFrame` (since 3.11).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameObjectShape {
    /// Offset of the pointer to the frame.
    pub(crate) frame: u64,
    /// Offset of the space for a frame that outlives its function.
    pub(crate) own: u64,
    /// Offset in the frame of its code.
    pub(crate) code: u64,
    /// Two offsets in a code object: number of variables, and size of the operand stack. 32 bits each.
    pub(crate) slots: [u64; 2],
}

/// Offsets in dequeobject and its blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DequeShape {
    pub(crate) left: u64,
    pub(crate) right: u64,
    pub(crate) left_index: u64,
    pub(crate) right_link: u64,
    pub(crate) data: u64,
    /// Size of a block in bytes.
    pub(crate) block: u64,
}

/// The reference count. All versions store it in the lower half of `ob_refcnt`; 3.14 has flags above it.
pub(crate) const REFCNT: u64 = 0xffff_ffff;

/// Bits of `ob_refcnt` that no count sets. Modules built for an older version may overflow the counts of immortal
/// objects into the bits below these (PEP 683). 3.14 has 16 bits for that (`ob_overflow`).
const ABOVE_COUNT: u64 = !0xff_ffff_ffff;

/// The upper 16 bits of the word, which are flags since 3.14 (`ob_flags`).
const OB_FLAGS: u64 = 0xffff << 48;

/// First minor version with these flags.
const FLAGS_SINCE: u32 = 14;

/// Whether `word` can be the `ob_refcnt` of an object in this minor version. Other data often has an address or a hash
/// at that offset.
pub(crate) fn is_count(word: u64, minor: u32) -> bool {
    let flags = if minor >= FLAGS_SINCE { OB_FLAGS } else { 0 };
    word & REFCNT != 0 && word & ABOVE_COUNT & !flags == 0
}

/// Bits of a word in a frame that are tags, not address (`_PyStackRef` of 3.14, Include/internal/pycore_stackref.h). In
/// older versions these bits are always 0, because objects are aligned.
pub(crate) const STACK_REF_TAGS: u64 = 3;

/// Offsets in numpy's PyArrayObject_fields and PyArray_Descr.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NdArrayShape {
    pub(crate) data: u64,
    pub(crate) nd: u64,
    pub(crate) dimensions: u64,
    pub(crate) strides: u64,
    pub(crate) descr: u64,
    pub(crate) flags: u64,
    /// Size in bytes of an array object, without fields added by subclasses.
    pub(crate) size: u64,
    /// Offsets in the descr of the number kind and the byte order, one character each.
    pub(crate) kind: u64,
    pub(crate) byte_order: u64,
    /// Bit in `flags` of an array that owns its data.
    pub(crate) owns: u64,
    pub(crate) max_dimensions: u64,
}

impl NdArrayShape {
    fn bundled() -> Result<NdArrayShape, LayoutError> {
        let table = NUMPY.layout()?;
        Ok(NdArrayShape {
            data: table.positive("PyArrayObject_fields", "data")?,
            nd: table.positive("PyArrayObject_fields", "nd")?,
            dimensions: table.positive("PyArrayObject_fields", "dimensions")?,
            strides: table.positive("PyArrayObject_fields", "strides")?,
            descr: table.positive("PyArrayObject_fields", "descr")?,
            flags: table.positive("PyArrayObject_fields", "flags")?,
            size: table.size("PyArrayObject_fields")?,
            kind: table.positive("PyArray_Descr", "kind")?,
            byte_order: table.positive("PyArray_Descr", "byteorder")?,
            owns: table.constant("numpy", "NPY_ARRAY_OWNDATA")?,
            max_dimensions: table.constant("numpy", "NPY_MAXDIMS")?,
        })
    }
}

/// Offsets that walks over all objects need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) refcnt: u64,
    pub(crate) ob_type: u64,
    /// Size in bytes of a bare `PyObject`.
    pub(crate) object: u64,
    pub(crate) ob_size: u64,
    /// Size of PyGC_Head in bytes.
    pub(crate) gc_head: u64,
    /// Size in bytes of what precedes PyGC_Head in instances with a managed dict or weak references; and the dict's
    /// offset from the object.
    pub(crate) pre_header: u64,
    pub(crate) managed_dict: Option<i64>,
    /// Offset from the object of the values of a managed dict that was not created yet. A separate word only in 3.11.
    pub(crate) managed_values: Option<i64>,
    pub(crate) types: TypeShape,
    pub(crate) text: TextShape,
    pub(crate) dict: DictShape,
    pub(crate) set: SetShape,
    pub(crate) generator: Option<GenShape>,
    pub(crate) frame_object: Option<FrameObjectShape>,
    pub(crate) deque: Option<DequeShape>,
    pub(crate) bytes: u64,
    pub(crate) bytearray_alloc: u64,
    pub(crate) bytearray_bytes: u64,
    pub(crate) list_items: u64,
    pub(crate) list_allocated: u64,
    /// Offset of an integer's `lv_tag`. Since 3.12; before, `ob_size` encodes the number of digits and the sign.
    pub(crate) long_tag: Option<u64>,
    pub(crate) long_digits: u64,
    pub(crate) float: u64,
    pub(crate) weakref_callback: u64,
    pub(crate) array_items: Option<u64>,
    pub(crate) array_descr: Option<u64>,
    pub(crate) array_itemsize: Option<u64>,
    pub(crate) ndarray: NdArrayShape,
}

impl Shape {
    /// Looks up all offsets in `layout`.
    ///
    /// # Errors
    /// The table lacks a field that every version has.
    pub(crate) fn of(layout: &Layout) -> Result<Shape, LayoutError> {
        let table = layout;
        let types = TypeShape {
            name: table.positive("PyTypeObject", "tp_name")?,
            basicsize: table.positive("PyTypeObject", "tp_basicsize")?,
            itemsize: table.positive("PyTypeObject", "tp_itemsize")?,
            flags: table.positive("PyTypeObject", "tp_flags")?,
            weaklistoffset: table.positive("PyTypeObject", "tp_weaklistoffset")?,
            dictoffset: table.positive("PyTypeObject", "tp_dictoffset")?,
            base: table.positive("PyTypeObject", "tp_base")?,
            dict: table.positive("PyTypeObject", "tp_dict")?,
            qualname: table.positive("PyHeapTypeObject", "ht_qualname")?,
            cached_keys: table.positive("PyHeapTypeObject", "ht_cached_keys")?,
            heap_size: table.size("PyHeapTypeObject")?,
        };
        let text = TextShape {
            length: table.positive("PyASCIIObject", "length")?,
            state: table.positive("PyASCIIObject", "state")?,
            ascii: table.size("PyASCIIObject")?,
            compact: table.size("PyCompactUnicodeObject")?,
            utf8_length: table.positive("PyCompactUnicodeObject", "utf8_length")?,
            utf8: table.positive("PyCompactUnicodeObject", "utf8")?,
            data: table.positive("PyUnicodeObject", "data")?,
        };
        let entry =
            |kind: &str| Ok((table.size(kind)?, table.positive(kind, "me_key")?, table.positive(kind, "me_value")?));
        let dict = DictShape {
            used: table.positive("PyDictObject", "ma_used")?,
            keys: table.positive("PyDictObject", "ma_keys")?,
            values: table.positive("PyDictObject", "ma_values")?,
            size: table.positive("PyDictKeysObject", "dk_size").ok(),
            log2_index_bytes: table.positive("PyDictKeysObject", "dk_log2_index_bytes").ok(),
            kind: table.positive("PyDictKeysObject", "dk_kind").ok(),
            usable: table.positive("PyDictKeysObject", "dk_usable")?,
            nentries: table.positive("PyDictKeysObject", "dk_nentries")?,
            indices: table.positive("PyDictKeysObject", "dk_indices")?,
            entry: entry("PyDictKeyEntry")?,
            unicode_entry: entry("PyDictUnicodeEntry").ok(),
            first_value: table.positive("PyDictValues", "values").unwrap_or(0),
            capacity: table.positive("PyDictValues", "capacity").ok(),
            embedded: table.positive("PyDictValues", "embedded").ok(),
        };
        let set = SetShape {
            mask: table.positive("PySetObject", "mask")?,
            table: table.positive("PySetObject", "table")?,
            smalltable: table.positive("PySetObject", "smalltable")?,
            entry: table.size("setentry")?,
            key: table.positive("setentry", "key")?,
        };
        let generator = || {
            let frame = table.positive("PyGenObject", "gi_iframe")?;
            Ok::<_, LayoutError>(GenShape { frame, frame_state: table.positive("PyGenObject", "gi_frame_state")? })
        };
        let frame_object = || {
            let frame = table.positive("PyFrameObject", "f_frame")?;
            let own = table.positive("PyFrameObject", "_f_frame_data")?;
            let code = table.positive("_PyInterpreterFrame", "f_executable");
            let code = code.or_else(|_| table.positive("_PyInterpreterFrame", "f_code"))?;
            let count = |field| table.positive("PyCodeObject", field);
            let slots = [count("co_nlocalsplus")?, count("co_stacksize")?];
            Ok::<_, LayoutError>(FrameObjectShape { frame, own, code, slots })
        };
        let deque = || {
            Ok::<_, LayoutError>(DequeShape {
                left: table.positive("dequeobject", "leftblock")?,
                right: table.positive("dequeobject", "rightblock")?,
                left_index: table.positive("dequeobject", "leftindex")?,
                right_link: table.positive("block", "rightlink")?,
                data: table.positive("block", "data")?,
                block: table.size("block")?,
            })
        };
        Ok(Shape {
            refcnt: table.positive("PyObject", "ob_refcnt")?,
            ob_type: table.positive("PyObject", "ob_type")?,
            object: table.size("PyObject")?,
            ob_size: table.positive("PyVarObject", "ob_size")?,
            gc_head: table.size("PyGC_Head")?,
            pre_header: table.size("PreHeader").unwrap_or(0),
            managed_dict: table.field("PreHeader", "dict").ok(),
            managed_values: table.field("PreHeader", "values").ok(),
            types,
            text,
            dict,
            set,
            generator: generator().ok(),
            frame_object: frame_object().ok(),
            deque: deque().ok(),
            bytes: table.positive("PyBytesObject", "ob_sval")?,
            bytearray_alloc: table.positive("PyByteArrayObject", "ob_alloc")?,
            bytearray_bytes: table.positive("PyByteArrayObject", "ob_bytes")?,
            list_items: table.positive("PyListObject", "ob_item")?,
            list_allocated: table.positive("PyListObject", "allocated")?,
            long_tag: table.positive("PyLongObject", "long_value.lv_tag").ok(),
            long_digits: table
                .positive("PyLongObject", "ob_digit")
                .or_else(|_| table.positive("PyLongObject", "long_value.ob_digit"))?,
            float: table.positive("PyFloatObject", "ob_fval")?,
            weakref_callback: table.positive("PyWeakReference", "wr_callback")?,
            array_items: table.positive("arrayobject", "ob_item").ok(),
            array_descr: table.positive("arrayobject", "ob_descr").ok(),
            array_itemsize: table.positive("arraydescr", "itemsize").ok(),
            ndarray: NdArrayShape::bundled()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::is_count;

    #[test]
    fn counts_are_told_from_addresses_and_hashes() {
        for minor in [9, 11, 13, 14] {
            for count in [1, 40_000_000, u64::from(u32::MAX), (1 << 32) + 5] {
                assert!(is_count(count, minor), "{count:#x} in 3.{minor}");
            }
            for word in [0, 0x5624_8138_2760, 0x7fa1_a590_1670, 0xffff_ffff_01ff_ff00, 1 << 32] {
                assert!(!is_count(word, minor), "{word:#x} in 3.{minor}");
            }
        }
        // `ob_refcnt` of an immortal, statically allocated object in 3.14.
        let flagged = 4 << 48 | 3 << 30;
        assert!(is_count(flagged, 14) && !is_count(flagged, 13));
    }
}
