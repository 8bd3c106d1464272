//! Fields of collections whose elements are in an array, by type.
//!
//! Sources: System.Private.CoreLib and System.Collections of .NET, java.util of OpenJDK. A row applies only if the type
//! has all its fields, so that a version with other fields is left out.

use std::collections::HashMap;

use crate::runtimes::api::fields::{Class, Classes, Field};

/// How the number of elements is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// In a field.
    Field(&'static str),
    /// In one field, less another.
    Less(&'static str, &'static str),
    /// As the first and last index of a ring.
    Ring(&'static str, &'static str),
}

/// Fields of a collection.
#[derive(Debug)]
pub(super) struct Shape {
    types: &'static [&'static str],
    count: Count,
    array: &'static str,
    /// Number of slots of an element.
    slots_per_element: u64,
    /// Field with the binary logarithm of an element's slots. Not all versions have it.
    scale: Option<&'static str>,
    /// Field that is null unless the count is incomplete.
    complete_without: Option<&'static str>,
}

const fn shape(types: &'static [&'static str], count: Count, array: &'static str) -> Shape {
    Shape { types, count, array, slots_per_element: 1, scale: None, complete_without: None }
}

const SHAPES: &[Shape] = &[
    shape(
        &["System.Collections.Generic.Dictionary", "System.Collections.Generic.HashSet"],
        Count::Less("_count", "_freeCount"),
        "_entries",
    ),
    // HashSet up to .NET Core 3.1.
    shape(&["System.Collections.Generic.HashSet"], Count::Field("_count"), "_slots"),
    shape(&["System.Collections.Generic.List", "System.Collections.ArrayList"], Count::Field("_size"), "_items"),
    shape(
        &[
            "System.Collections.Generic.Queue",
            "System.Collections.Generic.Stack",
            "System.Collections.Queue",
            "System.Collections.Stack",
        ],
        Count::Field("_size"),
        "_array",
    ),
    shape(&["System.Collections.Generic.PriorityQueue"], Count::Field("_size"), "_nodes"),
    shape(&["System.Collections.Generic.SortedList"], Count::Field("_size"), "keys"),
    shape(&["System.Collections.Hashtable"], Count::Field("_count"), "_buckets"),
    shape(&["System.Text.StringBuilder"], Count::Field("m_ChunkLength"), "m_ChunkChars"),
    shape(&["System.IO.MemoryStream"], Count::Field("_length"), "_buffer"),
    shape(&["java.util.HashMap", "java.util.LinkedHashMap", "java.util.WeakHashMap"], Count::Field("size"), "table"),
    Shape { slots_per_element: 2, ..shape(&["java.util.IdentityHashMap"], Count::Field("size"), "table") },
    Shape {
        complete_without: Some("counterCells"),
        ..shape(&["java.util.concurrent.ConcurrentHashMap"], Count::Field("baseCount"), "table")
    },
    shape(&["java.util.Hashtable"], Count::Field("count"), "table"),
    shape(&["java.util.ArrayList"], Count::Field("size"), "elementData"),
    shape(&["java.util.Vector", "java.util.Stack"], Count::Field("elementCount"), "elementData"),
    shape(&["java.util.ArrayDeque"], Count::Ring("head", "tail"), "elements"),
    shape(&["java.util.PriorityQueue", "java.util.concurrent.PriorityBlockingQueue"], Count::Field("size"), "queue"),
    Shape {
        scale: Some("coder"),
        ..shape(&["java.lang.StringBuilder", "java.lang.StringBuffer"], Count::Field("count"), "value")
    },
];

/// A type's collection fields with their positions.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    pub(super) count: FieldCount,
    pub(super) array: u64,
    pub(super) slots_per_element: u64,
    pub(super) scale: Option<Field>,
    pub(super) complete_without: Option<u64>,
}

/// [`Count`] with positions.
#[derive(Clone, Debug)]
pub(super) enum FieldCount {
    Field(Field),
    Less(Field, Field),
    Ring(Field, Field),
}

/// The name without type arguments, if the type is no part of another one.
fn bare(name: &str) -> Option<&str> {
    let Some(open) = name.find('<') else { return Some(name) };
    let mut depth = 0_u32;
    for (at, c) in name.char_indices().skip(open) {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == '>' && depth == 0 {
            return (at + 1 == name.len()).then(|| name.get(..open)).flatten();
        }
    }
    None
}

/// Whether objects of a type of this name may be collections.
pub(super) fn is_named(name: &str) -> bool {
    bare(name).is_some_and(|bare| SHAPES.iter().any(|shape| shape.types.contains(&bare)))
}

/// The collection fields of the class at an index. `None` if it is no collection, or of an unknown version.
pub(super) fn fields(name: &str, class: &Class, classes: &Classes, by_id: &HashMap<u64, usize>) -> Option<Fields> {
    let bare = bare(name)?;
    let mut all: Vec<&Field> = class.fields.iter().collect();
    let mut above = class;
    // A hierarchy of classes is not deeper than the list of classes.
    for _ in 0..MAX_DEPTH {
        let Some(next) = by_id.get(&above.superclass).and_then(|at| classes.all.get(*at)) else { break };
        all.extend(&next.fields);
        above = next;
    }
    let field = |name: &str| all.iter().find(|field| field.name == name).map(|field| (*field).clone());
    let of_shape = |shape: &Shape| {
        let count = match shape.count {
            Count::Field(one) => FieldCount::Field(field(one)?),
            Count::Less(all, free) => FieldCount::Less(field(all)?, field(free)?),
            Count::Ring(first, last) => FieldCount::Ring(field(first)?, field(last)?),
        };
        Some(Fields {
            count,
            array: field(shape.array)?.offset,
            slots_per_element: shape.slots_per_element,
            scale: shape.scale.and_then(field),
            complete_without: shape.complete_without.and_then(field).map(|field| field.offset),
        })
    };
    SHAPES.iter().filter(|shape| shape.types.contains(&bare)).find_map(of_shape)
}

/// Maximum number of superclasses searched for a field.
const MAX_DEPTH: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;
    use crate::runtimes::api::fields::{ObjectLayout, ValueType};

    #[test]
    fn only_the_collection_itself_is_one() {
        assert!(is_named("System.Collections.Generic.Dictionary<System.String, A.B<System.Int32>>"));
        assert!(is_named("java.util.HashMap") && is_named("System.Collections.ArrayList"));
        for part in [
            "System.Collections.Generic.Dictionary<System.String, A.B>+Entry[]",
            "System.Collections.Generic.List<A.B>+Enumerator",
            "System.Collections.Generic.List<A.B>[]",
            "java.util.HashMap$Node",
            "My.Collections.Generic.List<A>",
        ] {
            assert!(!is_named(part), "{part}");
        }
    }

    #[test]
    fn fields_of_superclasses_count_and_unknown_versions_do_not() {
        let field = |name: &str, offset| Field { name: name.to_owned(), kind: ValueType::Int, offset };
        let class = |id, superclass, fields| Class {
            id,
            address: Addr::new(id),
            name: String::new(),
            superclass,
            loader: 0,
            size: 0,
            statics: Vec::new(),
            fields,
            layout: ObjectLayout::Instance(Vec::new()),
            is_root: false,
        };
        let map = class(1, 0, vec![field("size", 16), field("table", 24)]);
        let linked = class(2, 1, vec![field("head", 32)]);
        let classes = Classes::new(vec![map, linked]);
        let by_id = HashMap::from([(1, 0), (2, 1)]);
        let found = fields("java.util.LinkedHashMap", &classes.all[1], &classes, &by_id);
        assert!(found.is_some_and(|found| found.array == 24));
        // A list without the expected fields is of another version.
        assert!(fields("java.util.ArrayList", &classes.all[0], &classes, &by_id).is_none());
    }
}
