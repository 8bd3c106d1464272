//! Values of custom attributes (ECMA-335 II.23.3), as far as they name types.

use crate::bytes::get;
use crate::limits;

/// Prolog of every attribute value.
const PROLOG: &[u8] = &[1, 0];

/// Returns the first argument of an attribute, if it is a text. A type is written as a text. An assembly after a
/// type's name is removed.
pub fn first_text(value: &[u8]) -> Option<&str> {
    let rest = value.strip_prefix(PROLOG)?;
    // Compressed length (II.23.2) of one or two bytes.
    let (len, at) = match *rest.first()? {
        n if n & 0x80 == 0 => (usize::from(n), 1),
        n if n & 0xc0 == 0x80 => (usize::from(n & 0x3f) << 8 | usize::from(*rest.get(1)?), 2),
        _ => return None,
    };
    let text = std::str::from_utf8(get(rest, at, len.min(limits::MAX_NAME))?).ok()?;
    Some(text.split(',').next().unwrap_or(text))
}

/// Whether a compiler gave this name to a state machine.
pub fn is_machine(name: &str) -> bool {
    name.contains('<') || name.contains("VB$StateMachine")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_names_a_state_machine() {
        // [AsyncStateMachine(typeof(A.B.<C>d__1))], as the compiler writes it.
        let name = first_text(b"\x01\x00\x0bA.B+<C>d__1\x00\x00");
        assert!(name == Some("A.B+<C>d__1") && name.is_some_and(is_machine));
        assert_eq!(first_text(b"\x01\x00\x05A, Bx"), Some("A"));
        // No text; no prolog; a length past the end.
        assert_eq!(first_text(b"\x01\x00\xff\x00\x00"), None);
        assert_eq!(first_text(b"\x00\x00"), None);
        assert_eq!(first_text(b"\x01\x00\x40abc"), None);
    }
}
