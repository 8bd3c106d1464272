//! Code objects: names, files and lines.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::chain::PyFrame;
use super::lines::LineFormat;
use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::{Activation, Method, MethodRole, Position, Source};
use crate::runtimes::cpython::runtime::Runtime;

/// Functions of `threading` that every thread begins with.
const STARTS: [&str; 6] = [
    "Thread._bootstrap",
    "Thread._bootstrap_inner",
    "Thread.run",
    // Up to 3.10 code objects have no qualified name.
    "_bootstrap",
    "_bootstrap_inner",
    "run",
];

pub(in crate::runtimes::cpython) struct Codes<'p> {
    runtime: Arc<Runtime<'p>>,
    known: Mutex<HashMap<Addr, Option<Arc<Code>>>>,
    /// Remaining bytes of line tables that may be read.
    left: AtomicU64,
}

#[derive(Debug)]
pub(in crate::runtimes::cpython) struct Code {
    method: Arc<Method>,
    file: String,
    first_line: i64,
    /// Address of the line table, a bytes object.
    table: Addr,
}

impl Code {
    /// Qualified name. Up to 3.10, the name.
    pub(in crate::runtimes::cpython) fn name(&self) -> &str {
        &self.method.name
    }

    pub(in crate::runtimes::cpython) fn file(&self) -> &str {
        &self.file
    }
}

impl<'p> Codes<'p> {
    pub(in crate::runtimes::cpython) fn new(runtime: Arc<Runtime<'p>>) -> Codes<'p> {
        let left = AtomicU64::new(limits::MAX_PY_LINE_TABLES);
        Codes { runtime, known: Mutex::default(), left }
    }

    /// The method and position of a frame. If the code object can't be read, the method's name says so.
    pub(in crate::runtimes::cpython) fn activation(&self, frame: &PyFrame) -> Activation {
        let Some(code) = self.code(frame.code) else {
            let name = format!("unreadable code object at {}", frame.code);
            return Activation { method: Arc::new(method(name, "", frame.code)), position: Position::default() };
        };
        let source = Source {
            il_offset: Some(frame.offset),
            file: Some(code.file.clone()),
            line: self.line(&code, frame.offset),
            column: None,
        };
        Activation { method: code.method.clone(), position: Position { source, how: None } }
    }

    /// The code object at `at`. `None` if it can't be read.
    pub(in crate::runtimes::cpython) fn code(&self, at: Addr) -> Option<Arc<Code>> {
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&at) {
            return known.clone();
        }
        let found = self.read(at).map(Arc::new);
        self.known.lock().unwrap_or_else(PoisonError::into_inner).entry(at).or_insert(found).clone()
    }

    fn read(&self, at: Addr) -> Option<Code> {
        let objects = self.runtime.objects();
        let view = self.runtime.view("PyCodeObject", at);
        let text = |field: &str| {
            let name = view.ptr(field).ok().filter(|name| objects.is_str(*name))?;
            objects.name(name)
        };
        let name = text("co_qualname").or_else(|| text("co_name"))?;
        let file = text("co_filename")?;
        let table = view.ptr("co_linetable").or_else(|_| view.ptr("co_lnotab")).ok()?;
        let first_line = i64::from(view.u32("co_firstlineno").ok()?.cast_signed());
        Some(Code { method: Arc::new(method(name, &file, at)), file, first_line, table })
    }

    fn line(&self, code: &Code, offset: i64) -> Option<u32> {
        // A frame before its first instruction is at the function's first line.
        let Ok(offset) = u64::try_from(offset) else { return u32::try_from(code.first_line).ok() };
        let objects = self.runtime.objects();
        let bytes = u64::try_from(objects.ob_size(code.table)?).ok()?;
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.ok()?;
        let table = objects.bytes(code.table, usize::try_from(bytes).ok()?)?;
        LineFormat::of(self.runtime.minor()).line(&table, code.first_line, offset)
    }
}

fn method(name: String, file: &str, id: Addr) -> Method {
    let role = role(&name, file);
    let module = file.rsplit('/').next().unwrap_or(file).to_owned();
    Method { name, module, id: Some(id), token: None, start: Addr::NULL, size: 0, cold: None, role }
}

fn role(name: &str, file: &str) -> MethodRole {
    if !is_of_the_library(file) {
        MethodRole::Program
    } else if file.ends_with("/threading.py") && STARTS.contains(&name) {
        MethodRole::ThreadStart
    } else {
        MethodRole::Framework
    }
}

/// Whether a file belongs to the standard library: it is below `lib/python3.N` but not in a folder of installed
/// packages, or it is frozen into the interpreter.
pub(in crate::runtimes::cpython) fn is_of_the_library(file: &str) -> bool {
    if file.starts_with("<frozen ") {
        return true;
    }
    let mut folders = file.split('/');
    let in_library = folders.any(|folder| {
        let version = folder.strip_prefix("python3");
        version.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    in_library && !folders.any(|folder| folder == "site-packages" || folder == "dist-packages")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_functions_these_are() {
        for (name, file, expected) in [
            ("Thread.run", "/usr/lib/python3.11/threading.py", MethodRole::ThreadStart),
            ("_bootstrap", "/opt/py/lib/python3.9/threading.py", MethodRole::ThreadStart),
            ("Condition.wait", "/usr/lib/python3.11/threading.py", MethodRole::Framework),
            ("_find_and_load", "<frozen importlib._bootstrap>", MethodRole::Framework),
            ("worker", "/usr/lib/python3/dist-packages/gunicorn/sync.py", MethodRole::Program),
            ("run", "/home/lab/python3.x/site-packages/a.py", MethodRole::Program),
            ("main", "/srv/app.py", MethodRole::Program),
        ] {
            assert_eq!(role(name, file), expected, "{file}");
        }
    }
}
