//! Names of functions and code objects, with file and line.

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::cpython::heap::Heap;

/// Qualified name of the function or code object at `object`, with file and line.
pub(super) fn function_text(heap: &Heap<'_>, object: Addr, kind: &str) -> Option<String> {
    let objects = heap.objects();
    let runtime = heap.runtime();
    let (name, code) = match kind {
        "function" => {
            let view = runtime.view("PyFunctionObject", object);
            (view.ptr("func_qualname").or_else(|_| view.ptr("func_name")).ok()?, view.ptr("func_code").ok()?)
        }
        _ => {
            let view = runtime.view("PyCodeObject", object);
            (view.ptr("co_qualname").or_else(|_| view.ptr("co_name")).ok()?, object)
        }
    };
    let name = objects.is_str(name).then(|| objects.name(name))??;
    let view = runtime.view("PyCodeObject", code);
    let file = view.ptr("co_filename").ok().filter(|file| objects.is_str(*file));
    let file = file.and_then(|file| objects.text(file, limits::MAX_PY_NAME));
    Some(match (file, view.u32("co_firstlineno")) {
        (Some(file), Ok(line)) => format!("{name} ({file}:{line})"),
        (Some(file), Err(_)) => format!("{name} ({file})"),
        (None, _) => name,
    })
}

/// Qualified name of a function with its module. `None` if the object is not a function written in Python.
pub(in crate::runtimes::cpython) fn function_name(heap: &Heap<'_>, object: Addr) -> Option<String> {
    let objects = heap.objects();
    let kind = heap.type_at(objects.type_of(object)?)?;
    if kind.name != "function" {
        return None;
    }
    let view = heap.runtime().view("PyFunctionObject", object);
    let text = |field: &str| view.ptr(field).ok().filter(|at| objects.is_str(*at)).and_then(|at| objects.name(at));
    let name = text("func_qualname").or_else(|| text("func_name"))?;
    Some(match text("func_module") {
        Some(module) => format!("{module}.{name}"),
        None => name,
    })
}
