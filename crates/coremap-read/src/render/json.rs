//! Writes JSON that is safe to display. Control characters and invisible characters are written as escapes, which have
//! the same meaning for every reader.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, PrettyFormatter, Serializer};

use crate::bytes::is_harmful;

pub(crate) fn pretty<T: Serialize>(value: &T, out: &mut dyn Write) -> io::Result<()> {
    let form = Escaped(PrettyFormatter::new());
    value.serialize(&mut Serializer::with_formatter(out, form)).map_err(io::Error::from)
}

struct Escaped<'a>(PrettyFormatter<'a>);

impl Formatter for Escaped<'_> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        if text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            return out.write_all(text.as_bytes());
        }
        let mut done = 0;
        for (at, c) in text.char_indices().filter(|&(_, c)| is_harmful(c)) {
            out.write_all(text.as_bytes().get(done..at).unwrap_or_default())?;
            // Above 16 bits, a surrogate pair of escapes represents the character (RFC 8259, 7).
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            done = at + c.len_utf8();
        }
        out.write_all(text.as_bytes().get(done..).unwrap_or_default())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, out: &mut W, escape: CharEscape) -> io::Result<()> {
        self.0.write_char_escape(out, escape)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_harm_is_an_escape_and_reads_back_the_same() -> io::Result<()> {
        let text = "a\u{1b}[2J\u{7f}\u{9b}\u{202e}\u{200b}\u{e0041}\u{feff} \"q\" \\ ä 😀\n";
        let value = serde_json::json!({ text: [text, 1, null], "list": [] });
        let mut out = Vec::new();
        pretty(&value, &mut out)?;
        let written = String::from_utf8_lossy(&out);
        assert!(!written.chars().any(|c| c != '\n' && is_harmful(c)), "{written}");
        assert!(written.contains("\\u001b[2J\\u007f\\u009b\\u202e\\u200b\\udb40\\udc41\\ufeff"), "{written}");
        assert!(written.contains("ä 😀"), "{written}");
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&out)?, value);
        // Otherwise the output equals serde_json's.
        let plain = serde_json::json!({ "a": [1, 2, { "b": {} }], "c": "d", "e": 1.5 });
        let mut out = Vec::new();
        pretty(&plain, &mut out)?;
        assert_eq!(String::from_utf8_lossy(&out), serde_json::to_string_pretty(&plain)?);
        Ok(())
    }
}
