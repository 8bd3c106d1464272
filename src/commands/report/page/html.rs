//! The one place where text of a core becomes part of a page. Tags and names of attributes are words of this program
//! (`&'static str`); every value and every text goes through [`Html::write_escaped`], so no name can end an element.

use std::fmt::{Display, Write};

use crate::bytes::printable;

/// Characters of a text that a page shows; a name may have megabytes.
const SHOWN: usize = 400;

/// A page, or a part of one, as it is written.
#[derive(Default)]
pub(super) struct Html {
    text: String,
}

/// An attribute: its name, and its value.
pub(super) type Attribute<'a> = (&'static str, &'a dyn Display);

impl Html {
    /// What was written.
    pub(super) fn into_string(self) -> String {
        self.text
    }

    /// The start of an element.
    pub(super) fn open(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) -> &mut Html {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.write_escaped(&value.to_string());
            self.text.push('"');
        }
        self.text.push('>');
        self
    }

    /// Its end.
    pub(super) fn close(&mut self, tag: &'static str) -> &mut Html {
        self.text.push_str("</");
        self.text.push_str(tag);
        self.text.push('>');
        self
    }

    /// Text.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Html {
        self.write_escaped(&text.to_string());
        self
    }

    /// An element that holds no more than text.
    pub(super) fn leaf(&mut self, tag: &'static str, attributes: &[Attribute<'_>], text: impl Display) -> &mut Html {
        self.open(tag, attributes).text(text).close(tag)
    }

    /// Another part, escaped when it was written.
    pub(super) fn part(&mut self, part: Html) -> &mut Html {
        self.text.push_str(&part.text);
        self
    }

    /// Characters that mean something in HTML become references, those that nobody sees or that move the line are
    /// shown as escapes, and of what is very long the beginning stands.
    fn write_escaped(&mut self, text: &str) {
        let shown = text.char_indices().nth(SHOWN).map(|(end, _)| text.get(..end).unwrap_or_default());
        for c in printable(shown.unwrap_or(text)).chars() {
            match c {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\'' => self.text.push_str("&#39;"),
                c => self.text.push(c),
            }
        }
        if shown.is_some() {
            self.text.push('…');
        }
    }
}

/// JSON within a `script` element: whatever could end that, or begin another, is written as an escape, which means the
/// same to every reader of JSON (RFC 8259, 7).
pub(super) fn json_in_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 64);
    for c in json.chars() {
        match c {
            '<' | '>' | '&' => {
                // Writing to a String can't fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c if crate::bytes::is_harmful(c) && c != '\n' => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_an_element() {
        let mut html = Html::default();
        let evil = "</script><script>alert(1)</script>\"' onload=x & \u{202e}\u{0}";
        html.leaf("td", &[("title", &evil)], evil);
        let text = html.into_string();
        let told = "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39; onload=x &amp; \\u{202e}\\x00";
        assert_eq!(text, format!("<td title=\"{told}\">{told}</td>"));
    }

    #[test]
    fn a_name_of_megabytes_is_its_beginning() {
        let mut html = Html::default();
        html.text("<".repeat(3 << 20));
        assert_eq!(html.into_string(), format!("{}…", "&lt;".repeat(SHOWN)));
    }

    #[test]
    fn json_means_the_same_and_ends_no_script() -> Result<(), serde_json::Error> {
        let value = serde_json::json!({ "</script>": ["<!--", "\u{2028}\u{202e}\u{e0041}", "a & b > c"] });
        let told = json_in_script(&serde_json::to_string(&value)?);
        assert!(!told.contains(['<', '>', '&', '\u{2028}', '\u{202e}']), "{told}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&told)?, value);
        Ok(())
    }
}
