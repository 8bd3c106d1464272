//! The part that a type plays in the question who holds memory, and names of statics, by the names of .NET's types.

use crate::runtimes::api::TypeRole;

/// Namespaces of the framework.
const LIBRARY: [&str; 4] = ["System.", "Microsoft.", "Internal.", "Interop"];

/// Whether a type or a method belongs to the framework, by its full name.
pub fn is_library(name: &str) -> bool {
    LIBRARY.iter().any(|space| name.starts_with(space))
}

/// Namespaces and types of collections.
const COLLECTIONS: [&str; 4] = [
    "System.Collections.",
    "System.Threading.Channels.",
    "System.Runtime.CompilerServices.ConditionalWeakTable",
    "Microsoft.Extensions.Caching.Memory.",
];

/// Types that lead nearly everywhere.
const HUBS: [&str; 4] =
    ["System.Threading.Thread", "System.RuntimeType", "System.Reflection.LoaderAllocator", "System.AppDomain"];

/// Types of list nodes to which other objects refer as well, and types that own such lists.
const LIST_NODES: [&str; 4] = [
    "System.Threading.TimerQueueTimer",
    "System.Threading.CancellationTokenSource+CallbackNode",
    "System.Collections.Generic.LinkedListNode<",
    "System.Threading.SemaphoreSlim+TaskNode",
];
const LIST_OWNERS: [&str; 3] = [
    "System.Threading.TimerQueue",
    "System.Threading.CancellationTokenSource+Registrations",
    "System.Threading.SemaphoreSlim",
];

/// Types that are parts of collections, but are not nested types: a queue's segments, a node of an immutable
/// dictionary's tree.
const PARTS: [&str; 2] =
    ["System.Collections.Concurrent.ConcurrentQueueSegment<", "System.Collections.Immutable.SortedInt32KeyNode<"];

/// Types without references in their elements.
const PLAIN: [&str; 16] = [
    "Byte", "SByte", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Single", "Double", "Char", "Boolean",
    "IntPtr", "UIntPtr", "Decimal", "DateTime",
];

/// A name without its type arguments.
fn bare(name: &str) -> &str {
    name.find(['<', '`']).and_then(|at| name.get(..at)).unwrap_or(name)
}

/// The part that a type plays, by its name. Nested types follow a `+`, or a dot as in C#.
pub(crate) fn type_role(name: &str) -> TypeRole {
    let same = |a: &str| a.replace('+', ".");
    let plain_name = same(name);
    let is_collection = |name: &str| COLLECTIONS.iter().any(|start| name.starts_with(start));
    if let Some(element) = name.strip_suffix("[]") {
        let plain = element.strip_prefix("System.").is_some_and(|name| PLAIN.contains(&name));
        return if plain { TypeRole::Library } else { TypeRole::Part };
    }
    if HUBS.contains(&name) {
        return TypeRole::Hub;
    }
    if LIST_NODES.iter().any(|start| plain_name.starts_with(&same(start))) {
        return TypeRole::ListNode;
    }
    if LIST_OWNERS.iter().any(|owner| same(owner) == plain_name) {
        return TypeRole::Collection;
    }
    if !is_library(name) {
        return TypeRole::Program;
    }
    // A nested type has its name after the type arguments of the outer one.
    let behind = name.rsplit_once('>').map(|(_, rest)| rest);
    let nested = behind.is_some_and(|rest| rest.contains(['+', '.'])) || bare(name).contains('+');
    match is_collection(name) {
        true if nested || PARTS.iter().any(|start| name.starts_with(start)) => TypeRole::Part,
        true => TypeRole::Collection,
        false => TypeRole::Library,
    }
}

/// End of the name of the field that a compiler makes for a property: `<All>k__BackingField`.
const BACKING_FIELD: &str = ">k__BackingField";

/// A name with its kind: `static App.Cache.All`. A property's field has the property's name.
pub(crate) fn with_kind(name: &std::sync::Arc<str>) -> std::sync::Arc<str> {
    let property = name.strip_suffix(BACKING_FIELD).and_then(|name| name.rsplit_once(".<"));
    match property {
        Some((class, property)) if class.starts_with("static ") => format!("{class}.{property}").into(),
        Some((class, property)) => format!("static {class}.{property}").into(),
        None if name.starts_with("static ") || name.starts_with("thread static ") => name.clone(),
        None => format!("static {name}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_of_a_property_has_its_name() {
        let named = |name: &str| with_kind(&name.into()).to_string();
        assert_eq!(named("static A.Hub.<All>k__BackingField"), "static A.Hub.All");
        assert_eq!(named("thread static A.Hub.s_page"), "thread static A.Hub.s_page");
        assert_eq!([named("A.Hub.All"), named("static A.Hub.All")], ["static A.Hub.All", "static A.Hub.All"]);
    }

    #[test]
    fn roles_of_types_of_the_framework() {
        for (name, is) in [
            ("System.Collections.Generic.Dictionary<System.String, Shop.Cart>", TypeRole::Collection),
            ("System.Collections.Generic.Dictionary<System.String, Shop.Cart>+Entry[]", TypeRole::Part),
            ("System.Collections.Concurrent.ConcurrentDictionary<System.String, A.B>+Node", TypeRole::Part),
            ("System.Collections.Concurrent.ConcurrentDictionary<System.String, A.B>.Node", TypeRole::Part),
            ("System.Collections.Concurrent.ConcurrentQueueSegment<A.B>", TypeRole::Part),
            ("System.Threading.SemaphoreSlim.TaskNode", TypeRole::ListNode),
            ("System.Object[]", TypeRole::Part),
            ("System.Byte[]", TypeRole::Library),
            ("System.String", TypeRole::Library),
            ("Shop.Cart[]", TypeRole::Part),
            ("System.Threading.TimerQueueTimer", TypeRole::ListNode),
            ("System.Threading.Thread", TypeRole::Hub),
            ("Shop.Cart", TypeRole::Program),
        ] {
            assert_eq!(type_role(name), is, "{name}");
        }
    }
}
