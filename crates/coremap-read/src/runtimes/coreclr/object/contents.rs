//! Contents of collections other than List, Dictionary and HashSet, and the text of a StringBuilder.
//!
//! Sources: System.Private.CoreLib, System.Collections and System.Collections.Concurrent: Queue.cs, Stack.cs,
//! PriorityQueue.cs, SortedList.cs, SortedSet.cs, SortedDictionary.cs, LinkedList.cs, ConcurrentDictionary.cs,
//! ConcurrentQueueSegment.cs, StringBuilder.cs. Fields are found by name.

use std::convert::Infallible;

use crate::addr::Addr;
use crate::facts::{CollectionDetail, ElementRow, EntryRow, FieldRow};
use crate::limits;
use crate::memory::walk::Walks;
use crate::phase::Phase;
use crate::runtimes::coreclr::heap::MethodTableInfo;
use crate::runtimes::coreclr::object::ReportBuilder;
use crate::runtimes::coreclr::object::special::{Fields, element};

/// Kinds of collections, by the start of their names. Those of generic types end with `<`.
const KINDS: &[(&str, Contents)] = &[
    ("System.Collections.Generic.Queue<", Contents::Ring),
    ("System.Collections.Generic.Stack<", Contents::Array("_array")),
    ("System.Collections.Generic.PriorityQueue<", Contents::Array("_nodes")),
    ("System.Collections.ArrayList", Contents::Array("_items")),
    ("System.Collections.Generic.SortedList<", Contents::KeysAndValues),
    ("System.Collections.Generic.SortedSet<", Contents::Tree),
    ("System.Collections.Generic.SortedDictionary<", Contents::TreeIn("_set")),
    ("System.Collections.Generic.LinkedList<", Contents::Linked),
    ("System.Collections.Concurrent.ConcurrentDictionary<", Contents::Buckets),
    ("System.Collections.Concurrent.ConcurrentQueue<", Contents::Segments),
];

const BUILDER: &str = "System.Text.StringBuilder";

/// Where a collection has its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    /// In an array, from its start.
    Array(&'static str),
    /// In an array, from an index on.
    Ring,
    KeysAndValues,
    /// In the nodes of a binary tree.
    Tree,
    /// In the tree of the object in a field.
    TreeIn(&'static str),
    /// In a ring of nodes.
    Linked,
    /// In the nodes of a hash table.
    Buckets,
    /// In a list of arrays with slots.
    Segments,
}

/// What a class is a collection of. A nested type has more after the type arguments.
fn contents_of(name: &str) -> Option<Contents> {
    let is_whole = |start: &str| !start.ends_with('<') || name.ends_with('>');
    let found = KINDS.iter().find(|(start, _)| match start.ends_with('<') {
        true => name.starts_with(start) && is_whole(start) && !nested(name),
        false => name == *start,
    });
    found.map(|(_, contents)| *contents)
}

/// Whether a name goes on after its first type arguments.
fn nested(name: &str) -> bool {
    let mut depth = 0_u32;
    for (at, c) in name.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == '>' && depth == 0 {
            return at + 1 != name.len();
        }
    }
    false
}

impl ReportBuilder<'_, '_> {
    /// The contents of a collection of the class `name`. `None` if it is none, or if its fields are unknown.
    pub(super) fn contents(&mut self, name: &str, fields: &Fields<'_>) -> Option<CollectionDetail> {
        match contents_of(name)? {
            Contents::Array(array) => {
                let count = u64::from(self.int(fields, "_size")?);
                let array = self.object_in(fields, array);
                Some(CollectionDetail { count, entries: values(self.items(array, 0, count)) })
            }
            Contents::Ring => {
                let count = u64::from(self.int(fields, "_size")?);
                let head = u64::from(self.int(fields, "_head")?);
                let array = self.object_in(fields, "_array");
                Some(CollectionDetail { count, entries: values(self.items(array, head, count)) })
            }
            Contents::KeysAndValues => {
                let count = u64::from(self.int(fields, "_size")?);
                let [keys, values] = ["keys", "values"].map(|name| self.object_in(fields, name));
                let keys = self.items(keys, 0, count);
                let values = self.items(values, 0, count);
                let entry = |(key, value)| EntryRow { key: Some(key), value };
                Some(CollectionDetail { count, entries: keys.into_iter().zip(values).map(entry).collect() })
            }
            Contents::Tree => {
                let count = u64::from(self.int(fields, "count").or_else(|| self.int(fields, "_count"))?);
                let root = self.object_in(fields, "root").or_else(|| self.object_in(fields, "_root"));
                Some(CollectionDetail { count, entries: self.tree(root) })
            }
            Contents::TreeIn(field) => {
                let set = self.object_in(fields, field)?;
                let count = self.row_in(set, &["count", "_count"])?.value?.parse().ok()?;
                let root = self.row_in(set, &["root", "_root"]).and_then(|row| row.object);
                Some(CollectionDetail { count, entries: self.tree(root) })
            }
            Contents::Linked => {
                let count = u64::from(self.int(fields, "count")?);
                let head = self.object_in(fields, "head");
                let mut entries = Vec::new();
                self.each_of_list(head, count, "next", |builder, node| {
                    entries.extend(
                        builder.row_in(node, &["item"]).map(|row| EntryRow { key: None, value: element(&row) }),
                    );
                });
                Some(CollectionDetail { count, entries })
            }
            Contents::Buckets => self.buckets(self.object_in(fields, "_tables")?),
            Contents::Segments => self.segments(self.object_in(fields, "_head")?),
        }
    }

    /// The text of a StringBuilder: its chunks, of which each refers to the one before. `None` for other classes.
    pub(super) fn built_text(&mut self, name: &str, fields: &Fields<'_>) -> Option<String> {
        if name != BUILDER {
            return None;
        }
        let mut chunks: Vec<String> = Vec::new();
        let mut left = limits::MAX_SHOWN_TEXT;
        self.each_of_list(Some(fields.object), u64::MAX, "m_ChunkPrevious", |builder, chunk| {
            let length = builder.row_in(chunk, &["m_ChunkLength"]).and_then(|row| row.value?.parse::<usize>().ok());
            let array = builder.row_in(chunk, &["m_ChunkChars"]).and_then(|row| row.object);
            let Some((array, length)) = array.zip(length) else { return };
            let shown = length.min(left).min(builder.length(array) as usize);
            left = left.saturating_sub(shown);
            let data = builder.data_of(array);
            let bytes = builder.types().memory.bytes(data, shown.saturating_mul(2)).unwrap_or_default();
            let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
            chunks.push(String::from_utf16_lossy(&units));
        });
        chunks.reverse();
        Some(crate::bytes::printable(&chunks.concat()).into_owned())
    }

    /// Returns elements of a ring buffer: from an index to the end of the array, then from the array's start. At most
    /// as many as are shown.
    fn items(&mut self, array: Option<Addr>, first: u64, count: u64) -> Vec<ElementRow> {
        let Some(array) = array else { return Vec::new() };
        let Some(info) = self.info(array).filter(MethodTableInfo::counted) else { return Vec::new() };
        let length = self.length(array);
        let shown = count.min(length).min(limits::MAX_SHOWN_ENTRIES as u64);
        let first = first.min(length);
        let end = first.saturating_add(shown).min(length);
        let mut out = self.elements(array, &info, first..end);
        let rest = shown.saturating_sub(end - first);
        out.extend(self.elements(array, &info, 0..rest));
        out
    }

    /// The field of an object that has one of these names.
    fn row_in(&mut self, object: Addr, names: &[&str]) -> Option<FieldRow> {
        let types = self.types();
        let fields = types.object_fields(self.info(object)?.address);
        let field = fields.iter().find(|field| names.contains(&types.field_name(field).as_str()))?;
        let scope = types.scope_of(field.method_table);
        Some(self.row(field, &scope, object.saturating_add(field.offset), 0))
    }

    /// Visits the nodes of a list, as many as are shown and at most `count`.
    fn each_of_list(&mut self, first: Option<Addr>, count: u64, next: &str, mut visit: impl FnMut(&mut Self, Addr)) {
        let walks = Walks::new(Phase::References, limits::MAX_SHOWN_ENTRIES);
        let mut left = count.min(limits::MAX_SHOWN_ENTRIES as u64);
        let end = walks.begin_own_set().follow(first.unwrap_or(Addr::NULL), |node| {
            if left == 0 {
                return Ok::<_, Infallible>(Addr::NULL);
            }
            left -= 1;
            visit(self, node);
            Ok(self.row_in(node, &[next]).and_then(|row| row.object).unwrap_or(Addr::NULL))
        });
        // A ring ends where it began, and a damaged list at the damage.
        end.ok();
    }

    /// Items of a tree in order.
    fn tree(&mut self, root: Option<Addr>) -> Vec<EntryRow> {
        let mut entries = Vec::new();
        let mut above: Vec<Addr> = Vec::new();
        let mut at = root;
        let mut left = limits::MAX_SLOTS_TRIED;
        while (at.is_some() || !above.is_empty()) && left > 0 && entries.len() < limits::MAX_SHOWN_ENTRIES {
            left -= 1;
            if let Some(node) = at {
                above.push(node);
                at = self.child(node, "Left");
                continue;
            }
            let Some(node) = above.pop() else { break };
            entries.extend(self.row_in(node, &["Item", "<Item>k__BackingField"]).map(|row| entry(&row)));
            at = self.child(node, "Right");
        }
        entries
    }

    fn child(&mut self, node: Addr, side: &str) -> Option<Addr> {
        let backing = format!("<{side}>k__BackingField");
        self.row_in(node, &[side, &backing])?.object
    }

    /// Entries of a ConcurrentDictionary.
    fn buckets(&mut self, tables: Addr) -> Option<CollectionDetail> {
        let counts = self.row_in(tables, &["_countPerLock"])?.object?;
        let memory = self.types().memory;
        let data = self.data_of(counts);
        let locks = self.length(counts).min(limits::MAX_SLOTS_TRIED);
        let count = (0..locks).map_while(|i| memory.u32(data.saturating_add(4 * i)).ok()).map(u64::from);
        let count = count.fold(0, u64::saturating_add);
        let buckets = self.row_in(tables, &["_buckets"])?.object?;
        let (start, length) = (self.data_of(buckets), self.length(buckets));
        let mut entries = Vec::new();
        for i in 0..length.min(limits::MAX_SLOTS_TRIED) {
            // A bucket is a node, or from .NET 8 on a structure with one.
            let Ok(first) = memory.ptr(start.saturating_add(8 * i)) else { break };
            self.each_of_list(Some(first).filter(|at| !at.is_null()), count, "_next", |builder, node| {
                let key = builder.row_in(node, &["_key"]).map(|row| element(&row));
                let value = builder.row_in(node, &["_value"]);
                entries.extend(value.map(|value| EntryRow { key, value: element(&value) }));
            });
            if entries.len() >= limits::MAX_SHOWN_ENTRIES {
                break;
            }
        }
        entries.truncate(limits::MAX_SHOWN_ENTRIES);
        Some(CollectionDetail { count, entries })
    }

    /// Items of a ConcurrentQueue: those of slots that are not empty. Only items that are references are known.
    fn segments(&mut self, head: Addr) -> Option<CollectionDetail> {
        let mut entries: Vec<EntryRow> = Vec::new();
        let mut count = 0_u64;
        self.each_of_list(Some(head), u64::MAX, "_nextSegment", |builder, segment| {
            let slots = builder.row_in(segment, &["_slots"]).and_then(|row| row.object);
            let Some(slots) = slots else { return };
            let Some(info) = builder.info(slots).filter(MethodTableInfo::counted) else { return };
            let length = builder.length(slots).min(limits::MAX_SLOTS_TRIED);
            for slot in builder.elements(slots, &info, 0..length) {
                let item = slot.fields.iter().find(|field| field.name == "Item").filter(|item| item.object.is_some());
                let Some(item) = item else { continue };
                count = count.saturating_add(1);
                if entries.len() < limits::MAX_SHOWN_ENTRIES {
                    entries.push(EntryRow { key: None, value: element(item) });
                }
            }
        });
        (count > 0).then_some(CollectionDetail { count, entries })
    }
}

fn values(items: Vec<ElementRow>) -> Vec<EntryRow> {
    items.into_iter().map(|value| EntryRow { key: None, value }).collect()
}

/// An item of a tree. That of a SortedDictionary is a pair.
fn entry(item: &FieldRow) -> EntryRow {
    let of = |name: &str| item.fields.iter().find(|field| field.name == name);
    match of("key").zip(of("value")) {
        Some((key, value)) => EntryRow { key: Some(element(key)), value: element(value) },
        None => EntryRow { key: None, value: element(item) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_collection_itself_has_contents() {
        assert_eq!(contents_of("System.Collections.Generic.Queue<System.String>"), Some(Contents::Ring));
        assert_eq!(contents_of("System.Collections.ArrayList"), Some(Contents::Array("_items")));
        let name = "System.Collections.Concurrent.ConcurrentDictionary<System.String, A.B<System.Int32>>";
        assert_eq!(contents_of(name), Some(Contents::Buckets));
        for part in [
            "System.Collections.Generic.Queue<System.String>+Enumerator",
            "System.Collections.Generic.SortedSet<System.String>+Node",
            "System.Collections.Concurrent.ConcurrentDictionary<A, B>+Enumerator<C>",
            "System.Collections.ArrayList+Range",
            "My.Queue<System.String>",
        ] {
            assert_eq!(contents_of(part), None, "{part}");
        }
    }

    #[test]
    fn a_pair_is_key_and_value() {
        let field = |name: &str, value: &str| FieldRow {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            ..FieldRow::default()
        };
        let pair = FieldRow { fields: vec![field("key", "1"), field("value", "2")], ..FieldRow::default() };
        let of = |row: &FieldRow| {
            let row = entry(row);
            (row.key.and_then(|key| key.value), row.value.value)
        };
        assert_eq!(of(&pair), (Some("1".to_owned()), Some("2".to_owned())));
        assert_eq!(of(&field("Item", "7")), (None, Some("7".to_owned())));
    }
}
