//! mallocng's offsets and constants as one struct, and how a group's sizes follow from its meta.

use crate::layout::{self, Layout, LayoutError};

/// Unit of sizes and offsets in bytes (UNIT), and size in bytes of a slot's header (IB). The header is at the end of
/// the previous slot.
pub(super) const UNIT: u64 = 16;
pub(super) const HEADER: u64 = 4;

/// Sizes of slots in units, by class (`__malloc_size_classes`).
const CLASSES: [u64; 48] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31, 36, 42, 50, 63, 72, 84, 102, 127, 146, 170, 204, 255, 292,
    340, 409, 511, 584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552, 8191,
];

pub(super) const CLASS_COUNT: u64 = CLASSES.len() as u64;

/// Class of a block that is too large for every class (128 KiB and more).
const NO_CLASS: u64 = 63;

/// `meta.maplen` counts pages of this size, whatever the system's page size is.
const MAP_PAGE: u64 = 4096;

/// Offsets of a form of `struct malloc_context`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContextShape {
    pub(super) secret: u64,
    pub(super) init_done: u64,
    pub(super) avail_meta: u64,
    pub(super) avail_meta_count: u64,
    pub(super) area_head: u64,
    pub(super) area_tail: u64,
    pub(super) usage_by_class: u64,
    pub(super) size: u64,
}

/// Offsets and constants of all of mallocng's structs.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) contexts: [ContextShape; 2],
    pub(super) check: u64,
    pub(super) next: u64,
    pub(super) count: u64,
    pub(super) metas: u64,
    /// Size of an area in bytes.
    pub(super) area: u64,
    pub(super) memory: u64,
    pub(super) avail: u64,
    pub(super) freed: u64,
    pub(super) bits: u64,
    /// Size of a meta in bytes.
    pub(super) meta: u64,
    pub(super) back: u64,
    /// Offset of the first slot in a group.
    pub(super) storage: u64,
}

/// The fields of `meta.bits`: last_idx (5 bits), freeable (1), sizeclass (6), maplen (52).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    /// Number of slots in the group, 1 to 32.
    pub(super) slots: u32,
    pub(super) freeable: bool,
    pub(super) class: u8,
    /// Bytes of the group's own mapping. 0 if the group is in a slot of another one, or was donated.
    pub(super) mapped: u64,
    /// Size of a slot in bytes.
    pub(super) stride: u64,
}

impl Shape {
    /// Reads the bundled table.
    ///
    /// # Errors
    /// If the table lacks a field.
    pub(super) fn bundled() -> Result<Shape, LayoutError> {
        Shape::of(layout::MUSL_MALLOCNG.layout()?)
    }

    fn of(table: &Layout) -> Result<Shape, LayoutError> {
        let area = |field| table.positive("meta_area", field);
        let meta = |field| table.positive("meta", field);
        let group = |field| table.positive("group", field);
        Ok(Shape {
            contexts: [context(table, "malloc_context")?, context(table, "malloc_context_with_pagesize")?],
            check: area("check")?,
            next: area("next")?,
            count: area("nslots")?,
            metas: area("slots")?,
            area: table.size("meta_area")?,
            memory: meta("mem")?,
            avail: meta("avail_mask")?,
            freed: meta("freed_mask")?,
            bits: meta("bits")?,
            meta: table.size("meta")?,
            back: group("meta")?,
            storage: group("storage")?,
        })
    }

    pub(super) fn metas_of_area(&self) -> u64 {
        self.area.saturating_sub(self.metas).checked_div(self.meta).unwrap_or(0)
    }

    /// Decodes the bits of a meta. `None` if no group can have them.
    pub(super) fn bits(&self, word: u64) -> Option<Bits> {
        let (last, class) = (word & 31, word >> 6 & 63);
        let mapped = (word >> 12).checked_mul(MAP_PAGE)?;
        // As in `get_stride`: the slot of a group of one fills its mapping, whatever its class.
        let stride = match CLASSES.get(class as usize) {
            _ if last == 0 && mapped > 0 => mapped.checked_sub(self.storage)?,
            Some(units) => UNIT * units,
            None => return None,
        };
        let sane = class == NO_CLASS || class < CLASS_COUNT;
        let bits = Bits { slots: last as u32 + 1, freeable: word >> 5 & 1 != 0, class: class as u8, mapped, stride };
        (sane && (mapped == 0 || self.len(bits) <= mapped)).then_some(bits)
    }

    /// Returns the bytes from a group's start to the end of its last slot.
    pub(super) fn len(&self, bits: Bits) -> u64 {
        self.storage.saturating_add(bits.stride.saturating_mul(u64::from(bits.slots)))
    }
}

fn context(table: &Layout, name: &str) -> Result<ContextShape, LayoutError> {
    let field = |field| table.positive(name, field);
    Ok(ContextShape {
        secret: field("secret")?,
        init_done: field("init_done")?,
        avail_meta: field("avail_meta")?,
        avail_meta_count: field("avail_meta_count")?,
        area_head: field("meta_area_head")?,
        area_tail: field("meta_area_tail")?,
        usage_by_class: field("usage_by_class")?,
        size: field("!")?,
    })
}

pub(super) fn classes() -> std::ops::Range<u64> {
    0..CLASS_COUNT
}
