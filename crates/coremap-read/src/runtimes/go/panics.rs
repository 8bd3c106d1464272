//! The panic that ended the process.
//!
//! Source: runtime/runtime2.go (`_panic`: argp, then the value as an interface), error.go (`boundsError`). A goroutine
//! that panics has its panic in its `g`.

use crate::addr::Addr;
use crate::facts::ThreadRow;
use crate::image::file_name;
use crate::limits;
use crate::memory::Memory;
use crate::runtimes::api::{LastWords, MethodRole, OutOfMemory, OwnEnd};
use crate::runtimes::go::Go;
use crate::runtimes::go::goroutines::Goroutine;
use crate::runtimes::go::record::Record;
use crate::runtimes::go::types::TypeKind;

/// Offset of the value's type in a `_panic`; its data follows.
const ARG: u64 = 8;

/// Prefix of the texts of the runtime's own errors.
const RUNTIME_ERROR: &str = "runtime error: ";

/// Functions with which the runtime ends a process for a panic that nobody recovered.
const FATAL: [&str; 3] = ["runtime.fatalpanic", "runtime.dopanic_m", "runtime.preprintpanics"];

/// Texts of a `boundsError`, by its code: an index, or the bounds of a slice. `x` and `y` are placeholders for its
/// numbers.
const BOUNDS: [&str; 9] = [
    "index out of range [x] with length y",
    "slice bounds out of range [:x] with length y",
    "slice bounds out of range [:x] with capacity y",
    "slice bounds out of range [x:y]",
    "slice bounds out of range [::x] with length y",
    "slice bounds out of range [::x] with capacity y",
    "slice bounds out of range [:x:y]",
    "slice bounds out of range [x:y:]",
    "cannot convert slice with length x to array or pointer to array with length y",
];

impl LastWords for Go<'_> {
    fn out_of_memory(&self, _thread: &ThreadRow) -> Option<OutOfMemory> {
        None
    }

    fn heap_limit(&self) -> Option<u64> {
        self.figures().limit
    }

    fn own_end(&self) -> Option<OwnEnd> {
        let memory = self.runtime().memory();
        let shape = &self.runtime().shape().g;
        self.list().all.iter().find_map(|g| {
            let panic = memory.ptr(g.at.checked_add(shape.panic)?).ok().filter(|panic| !panic.is_null())?;
            let frames = self.frames_of(g);
            // A g may also have a panic that a deferred function is about to recover.
            let fatal = frames.iter().any(|frame| FATAL.contains(&frame.method.name.as_str()));
            let value = Record::read(memory, panic.checked_add(ARG)?, 16).filter(|_| fatal)?;
            let own = frames.iter().filter(|frame| frame.method.role == MethodRole::Program);
            let place = |frame: &crate::runtimes::api::Activation| {
                let source = &frame.position.source;
                let at = source.file.as_deref().zip(source.line);
                let at = at.map_or_else(String::new, |(file, line)| format!(" ({}:{line})", file_name(file)));
                format!("{}{at}", frame.method.name)
            };
            let (name, text) = self.panic_value(value.ptr(0), value.ptr(8));
            Some(OwnEnd {
                tid: self.list().thread_of(g).map(|m| m.tid).filter(|tid| *tid != 0),
                call: None,
                message: None,
                exception: Some((format!("panic ({name}) of goroutine {}", g.id), text)),
                stack: own.map(place).collect(),
                evidence: "the goroutine's _panic and its stack",
            })
        })
    }
}

impl Go<'_> {
    /// Frames of a goroutine, innermost first.
    fn frames_of(&self, g: &Goroutine) -> Vec<crate::runtimes::api::Activation> {
        crate::runtimes::go::goroutines::frames_of(self.runtime().process, self.all_code(), self.list(), g)
    }

    /// Returns the type of a panic's value, and its text if the text is a constant or the runtime's own.
    fn panic_value(&self, of: Addr, data: Addr) -> (String, Option<String>) {
        let memory = self.runtime().memory();
        let Some(found) = self.types().get(of) else { return ("type unknown".to_owned(), None) };
        let name = found.name.to_string();
        let text = match (name.as_str(), found.kind) {
            ("runtime.boundsError", _) => bounds(memory, data),
            // A text in the program's file is a constant, and not data that the process received.
            (_, TypeKind::Text) => Record::read(memory, data, 16).and_then(|r| self.constant(r.ptr(0), r.u64(8))),
            _ => None,
        };
        (name, text)
    }

    fn constant(&self, at: Addr, len: u64) -> Option<String> {
        let len = usize::try_from(len).ok().filter(|len| *len <= limits::MAX_GO_NAME)?;
        let text = String::from_utf8(self.runtime().memory().look(at, len).ok()?).ok()?;
        // Before the process ends, the runtime replaces an error by its text. Show the text only if it is a constant or
        // of the runtime's own error.
        (self.runtime().range.contains(at) || text.starts_with(RUNTIME_ERROR)).then_some(text)
    }
}

/// Text of a `boundsError`: x, y, whether x is signed, and its code.
fn bounds(memory: &dyn Memory, at: Addr) -> Option<String> {
    let r = Record::read(memory, at, 24)?;
    let x = if r.u8(16) != 0 { (r.u64(0) as i64).to_string() } else { r.u64(0).to_string() };
    let form = BOUNDS.get(usize::from(r.u8(17)))?;
    Some(filled(form, &x, &r.u64(8).to_string()))
}

/// Replaces the placeholders `x` and `y` in a text. These letters inside a word stay.
fn filled(form: &str, x: &str, y: &str) -> String {
    let mut out = String::new();
    let chars: Vec<char> = form.chars().collect();
    for (i, c) in chars.iter().enumerate() {
        let alone = |at: Option<&char>| at.is_none_or(|c| !c.is_alphabetic());
        let number = alone(i.checked_sub(1).and_then(|i| chars.get(i))) && alone(chars.get(i + 1));
        match c {
            'x' if number => out.push_str(x),
            'y' if number => out.push_str(y),
            c => out.push(*c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_as_go_prints_them() {
        assert_eq!(filled(BOUNDS[0], "9", "4"), "index out of range [9] with length 4");
        assert_eq!(filled(BOUNDS[3], "5", "2"), "slice bounds out of range [5:2]");
        assert_eq!(
            filled(BOUNDS[8], "3", "4"),
            "cannot convert slice with length 3 to array or pointer to array with length 4"
        );
    }
}
