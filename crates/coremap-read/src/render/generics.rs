//! Shortens long names of generic types in sentences. JSON has the full names.

use std::borrow::Cow;

/// Maximum number of characters of a type argument list that is shown in full.
const MAX_FULL: usize = 48;

/// Removes namespaces within long lists of type arguments: `Box<VoidTaskResult, Shop.Cart>` becomes
/// `Box<VoidTaskResult, Cart>`. The last part of each name remains, so no type of the program is hidden.
pub(crate) fn shorten_generics(text: &str) -> Cow<'_, str> {
    let lists = long_lists(text);
    if lists.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for (start, end) in lists {
        out.push_str(text.get(at..start).unwrap_or_default());
        shorten_list(text.get(start..end).unwrap_or_default(), &mut out);
        at = end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    Cow::Owned(out)
}

/// Outermost `<…>` lists that follow a name and are longer than [`MAX_FULL`]: start and end offsets.
fn long_lists(text: &str) -> Vec<(usize, usize)> {
    let mut open: Vec<usize> = Vec::new();
    let mut lists: Vec<(usize, usize)> = Vec::new();
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        match byte {
            b'<' if before.is_some_and(|b| is_part(char::from(*b))) || !open.is_empty() => open.push(at),
            b'>' if before != Some(&b'-') => {
                let Some(start) = open.pop() else { continue };
                // A list that contains others replaces them.
                while lists.last().is_some_and(|last| last.0 > start) {
                    lists.pop();
                }
                lists.push((start, at + 1));
            }
            // A sign that is never closed is no list.
            b'\n' => open.clear(),
            _ => {}
        }
    }
    lists.retain(|(start, end)| end - start > MAX_FULL);
    lists
}

/// Characters of a qualified name.
fn is_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | ':' | '+' | '`' | '$' | '@')
}

/// Appends a list with the last part of each qualified name.
fn shorten_list(list: &str, out: &mut String) {
    let mut start = 0;
    for (at, c) in list.char_indices() {
        if is_part(c) {
            continue;
        }
        out.push_str(last_part(list.get(start..at).unwrap_or_default()));
        out.push(c);
        start = at + c.len_utf8();
    }
    out.push_str(last_part(list.get(start..).unwrap_or_default()));
}

/// The name after its last namespace. Nested types keep the type around them.
fn last_part(name: &str) -> &str {
    let name = name.rsplit("::").next().unwrap_or(name);
    let begin = name.rfind('.').map_or(0, |at| at + 1);
    match name.get(begin..) {
        // A number, or the end of a sentence.
        Some("") | None => name,
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => name,
        Some(rest) => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_go_and_types_of_the_program_stay() {
        let name = "static Shop.Index (System.Collections.Generic.Dictionary<System.String,System.Collections.Generic.\
                    List<Shop.Orders.Order>>) retains 3";
        let short = "static Shop.Index (System.Collections.Generic.Dictionary<String,List<Order>>) retains 3";
        assert_eq!(shorten_generics(name), short);
        let boxed = "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<System.Threading.Tasks.VoidTaskResult>+\
                     AsyncStateMachineBox<Shop.Desk+<Pay>d__3, Shop.A.B, Shop.A.C>";
        let short = "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<System.Threading.Tasks.VoidTaskResult>+\
                     AsyncStateMachineBox<Shop.Desk+<Pay>d__3, Shop.A.B, Shop.A.C>";
        // Short lists stay as they are.
        assert_eq!(shorten_generics(boxed), short);
        let cpp = "std::unordered_map<std::__cxx11::basic_string<char, std::char_traits<char>>, shop::Order, \
                   std::hash<int>>";
        assert_eq!(
            shorten_generics(cpp),
            "std::unordered_map<basic_string<char, char_traits<char>>, Order, hash<int>>"
        );
    }

    #[test]
    fn signs_that_are_no_list_stay() {
        let long = "x".repeat(80);
        for text in [
            format!("a < b, and {long}.y > c"),
            format!("Outer.Inner<{long}.y"),
            format!("a > b {long}"),
            format!("p->{long}.q <none>"),
            "1.5 MiB (System.Int32)".to_owned(),
        ] {
            assert_eq!(shorten_generics(&text), text);
        }
        assert_eq!(shorten_generics(&"<".repeat(100_000)).len(), 100_000);
        assert_eq!(shorten_generics(&"a<".repeat(50_000)).len(), 100_000);
    }
}
