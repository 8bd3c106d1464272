//! Values of `AsyncLocal` variables in an ExecutionContext.
//!
//! Source: System.Private.CoreLib, AsyncLocal.cs: `AsyncLocalValueMap`. Maps of up to four values have the fields
//! `_key1`, `_value1` and so on, from .NET 11 on `_item0.key`, `_item0.value`. Larger ones have an array of keys with
//! values, or are a Dictionary.

use std::collections::HashMap;

use crate::addr::{Addr, WORD};
use crate::runtimes::api::{Heap as _, TypeIndex};
use crate::runtimes::coreclr::heap::Heap;

/// Part of the names of the types of maps, of their arrays, and of the keys.
const ASYNC_LOCAL: &str = "AsyncLocal";

/// Words in the names of a value's field and of its key's.
const VALUE: &str = "value";
const KEY: &str = "key";

/// Static variables by the object that they reference.
pub(super) type ByObject = HashMap<Addr, String>;

impl Heap<'_> {
    /// The AsyncLocal whose value is at `offset` in a map, with the static variable that declares it.
    pub(super) fn async_local(&self, map: Addr, kind: TypeIndex, offset: u64) -> Option<String> {
        let info = self.method_table(kind)?;
        if info.free || !self.type_name(kind).contains(ASYNC_LOCAL) {
            return None;
        }
        let key_at = if info.counted() {
            offset.checked_sub(WORD)?
        } else {
            let field = self.name_of_field(kind, offset)?;
            let (before, after) = field.rsplit_once(VALUE)?;
            let key = format!("{before}{KEY}{after}");
            let mut references = self.references_in(&info).into_iter();
            references.find(|&at| self.name_of_field(kind, at).as_deref() == Some(&*key))?
        };
        let memory = self.types.memory;
        let key = memory.ptr(map.checked_add(key_at)?).ok().filter(|key| !key.is_null())?;
        if !self.types.display_name(self.types.type_of(key)?).contains(ASYNC_LOCAL) {
            return None;
        }
        let statics = self.by_object.get_or_init(|| {
            let all = self.statics().into_iter();
            all.filter_map(|(at, name)| Some((memory.ptr(at).ok()?, name.to_string()))).collect()
        });
        Some(match statics.get(&key) {
            Some(name) => format!("AsyncLocal {name}"),
            None => format!("AsyncLocal at {key}"),
        })
    }
}
