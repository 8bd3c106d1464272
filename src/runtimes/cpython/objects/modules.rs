//! Modules of an interpreter: `sys.modules`, and the dict that each module has its globals in.

use super::Objects;
use crate::addr::Addr;
use crate::limits;

/// A module that was imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PyModule {
    /// Its name in `sys.modules`.
    pub name: String,
    /// The module.
    pub object: Addr,
    /// Its `__dict__`.
    pub dict: Addr,
    /// Whether it is written in C: part of the interpreter, or a shared object.
    pub is_native: bool,
}

/// What files of modules written in C end with.
const SHARED_OBJECT: &str = ".so";

/// The modules in the dict `sys.modules`; `md_dict`: where a module has its dict.
pub(crate) fn modules(objects: &Objects<'_>, sys_modules: Addr, md_dict: u64) -> Vec<PyModule> {
    let mut all = Vec::new();
    objects.each_entry(sys_modules, limits::MAX_PY_LOOKUP, |entry| {
        let name = objects.name(entry.key).filter(|_| objects.is_str(entry.key));
        // A program may put anything there; what has no dict at that place is no module.
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
