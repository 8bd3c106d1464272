//! Text of limited length.

use crate::limits;

/// Characters that are escaped in type names (IsTypeNameReservedChar).
const RESERVED: &[char] = &[',', '[', ']', '&', '*', '+', '\\'];

/// Text that stops growing at a limit.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn push(&mut self, text: &str) {
        if self.0.len() < limits::MAX_TYPE_NAME {
            self.0.push_str(text);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= limits::MAX_TYPE_NAME
    }

    pub(super) fn into_string(mut self) -> String {
        if self.is_full() {
            let cut = (0..=limits::MAX_TYPE_NAME).rev().find(|&at| self.0.is_char_boundary(at));
            self.0.truncate(cut.unwrap_or(0));
            self.0.push('…');
        }
        self.0
    }

    pub(super) fn escaped(&mut self, name: &str) {
        if !name.contains(RESERVED) {
            return self.push(name);
        }
        let mut out = String::with_capacity(name.len() + 4);
        for c in name.chars() {
            if RESERVED.contains(&c) {
                out.push('\\');
            }
            out.push(c);
        }
        self.push(&out);
    }
}
