//! Imported modules: `sys.modules`, and the dict with each module's globals.

use super::Objects;
use crate::addr::Addr;
use crate::limits;

/// An imported module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PyModule {
    /// Name in `sys.modules`.
    pub name: String,
    /// Address of the module object.
    pub object: Addr,
    /// Address of its `__dict__`.
    pub dict: Addr,
    /// Whether the module is written in C: built into the interpreter, or a shared object.
    pub is_native: bool,
}

/// Suffix of the files of modules written in C.
const SHARED_OBJECT: &str = ".so";

/// The modules in the dict `sys.modules`. `md_dict`: offset of the dict in a module object.
pub(crate) fn modules(objects: &Objects<'_>, sys_modules: Addr, md_dict: u64) -> Vec<PyModule> {
    let mut all = Vec::new();
    objects.each_entry(sys_modules, limits::MAX_PY_LOOKUP, |entry| {
        let name = objects.name(entry.key).filter(|_| objects.is_str(entry.key));
        // Programs may put anything into `sys.modules`. Skip what has no dict at that offset.
        let dict = objects.ptr_at(entry.value, md_dict).filter(|dict| objects.is_dict(*dict));
        if let (Some(name), Some(dict)) = (name, dict) {
            let file = objects.lookup(dict, "__file__").filter(|file| objects.is_str(*file));
            let is_native = file.and_then(|file| objects.name(file)).is_none_or(|file| file.ends_with(SHARED_OBJECT));
            all.push(PyModule { name, object: entry.value, dict, is_native });
        }
        true
    });
    all
}
