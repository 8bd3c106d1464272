//! The only module that writes text of a core into a page. Tags and attribute names are `&'static str` of this program.
//! Every value and text passes [`Html::write_escaped`], so no name can end an element.

use std::fmt::{Display, Write};

use crate::bytes::printable;

/// Maximum number of characters of a text in a page; a name may have megabytes.
const MAX_TEXT: usize = 400;

/// HTML that is being written.
#[derive(Default)]
pub(super) struct Html {
    text: String,
}

/// Name and value of an attribute.
pub(super) type Attribute<'a> = (&'static str, &'a dyn Display);

impl Html {
    pub(super) fn into_string(self) -> String {
        self.text
    }

    /// Writes a start tag.
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

    /// Writes an end tag.
    pub(super) fn close(&mut self, tag: &'static str) -> &mut Html {
        self.text.push_str("</");
        self.text.push_str(tag);
        self.text.push('>');
        self
    }

    /// Writes text, escaped.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Html {
        self.write_escaped(&text.to_string());
        self
    }

    /// Writes an element that contains only text.
    pub(super) fn leaf(&mut self, tag: &'static str, attributes: &[Attribute<'_>], text: impl Display) -> &mut Html {
        self.open(tag, attributes).text(text).close(tag)
    }

    /// Appends HTML that is already escaped.
    pub(super) fn part(&mut self, part: Html) -> &mut Html {
        self.text.push_str(&part.text);
        self
    }

    /// Writes text. Characters with a meaning in HTML become character references. Invisible ones, and line breaks,
    /// become escapes. Long text is cut.
    fn write_escaped(&mut self, text: &str) {
        let shown = text.char_indices().nth(MAX_TEXT).map(|(end, _)| text.get(..end).unwrap_or_default());
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

/// Escapes JSON for a `script` element. Characters that could end the element or begin another are written as `\u`
/// escapes, which mean the same in JSON (RFC 8259, section 7).
pub(super) fn json_in_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 64);
    for c in json.chars() {
        match c {
            '<' | '>' | '&' => {
                // Writing to a String cannot fail.
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
        let escaped = "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39; onload=x &amp; \\u{202e}\\x00";
        assert_eq!(text, format!("<td title=\"{escaped}\">{escaped}</td>"));
    }

    #[test]
    fn a_name_of_megabytes_is_its_beginning() {
        let mut html = Html::default();
        html.text("<".repeat(3 << 20));
        assert_eq!(html.into_string(), format!("{}…", "&lt;".repeat(MAX_TEXT)));
    }

    #[test]
    fn json_means_the_same_and_ends_no_script() -> Result<(), serde_json::Error> {
        let value = serde_json::json!({ "</script>": ["<!--", "\u{2028}\u{202e}\u{e0041}", "a & b > c"] });
        let escaped = json_in_script(&serde_json::to_string(&value)?);
        assert!(!escaped.contains(['<', '>', '&', '\u{2028}', '\u{202e}']), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped)?, value);
        Ok(())
    }
}
