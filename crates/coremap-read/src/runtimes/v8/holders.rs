//! Variables of modules, and the part that each type plays in the question who holds memory.

use std::collections::HashMap;
use std::sync::Arc;

use crate::addr::Addr;
use crate::image::file_name;
use crate::limits;
use crate::runtimes::api::{NamedStatics, StaticRoot, TypeIndex, TypeRole};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::heap::types::Category;
use crate::runtimes::v8::vm::strong;

/// Collections of the language. A plain object is one: programs use it as a dictionary.
const COLLECTIONS: [&str; 6] = ["Array", "Map", "Set", "WeakMap", "WeakSet", "Object"];

/// Parameters of the function that Node.js wraps around a module.
const OF_WRAPPER: [&str; 5] = ["exports", "require", "module", "__filename", "__dirname"];

/// Offset in a context of the context around it.
const PREVIOUS: u64 = 24;

/// Whether a script is part of Node.js.
pub(super) fn is_library(script: &str) -> bool {
    script.starts_with("node:") || script.starts_with("internal/")
}

impl Heap<'_> {
    /// Functions by their scopes.
    pub(super) fn functions_by_scope(&self) -> &HashMap<u64, u64> {
        self.by_scope.get_or_init(|| {
            let of = |shared: &u64| Some((self.vm.scope_of(*shared)?, *shared));
            self.survey().shared.iter().filter_map(of).collect()
        })
    }

    /// Returns the script that a context's function is in.
    pub(super) fn script_of_context(&self, context: u64) -> Option<String> {
        let scope = self.vm.object(context, 16)?;
        let shared = self.functions_by_scope().get(&scope)?;
        self.vm.script_name(self.vm.script(*shared)?)
    }

    /// Variables of modules that closures use. The contexts of the modules contain them.
    pub(super) fn module_variables(&self) -> NamedStatics {
        let vm = &*self.vm;
        let mut out = NamedStatics::default();
        for &context in &self.survey().contexts {
            let Some(scope) = vm.object(context, 16).filter(|scope| vm.is(*scope, "SCOPE_INFO")) else { continue };
            let Some(parts) = vm.scope(scope).filter(|parts| parts.is_function || parts.is_module) else { continue };
            // The function around a module's source is called from no other function of the program.
            let outer = vm.object(context, PREVIOUS).and_then(|outer| vm.type_of(outer));
            let is_outermost =
                outer.is_some_and(|number| number == vm.native_context() || number == vm.script_context());
            let Some(script) = self.script_of_context(context).filter(|_| is_outermost || parts.is_module) else {
                continue;
            };
            out.containers.push(Addr::new(context));
            let library = is_library(&script);
            let first = 32 + 8 * u64::from(parts.extension);
            for (i, name) in (0..).zip(vm.variables(scope, &parts)) {
                let value = vm.field(context, first + 8 * i).and_then(strong);
                let Some((name, value)) = name.zip(value).filter(|(name, _)| !OF_WRAPPER.contains(&name.as_str()))
                else {
                    continue;
                };
                let name: Arc<str> = format!("module variable {name} ({})", file_name(&script)).into();
                if out.roots.len() < limits::MAX_V8_LISTED {
                    out.roots.push(StaticRoot { name, object: Addr::new(value), library });
                }
            }
        }
        out
    }

    /// The part that a type plays.
    pub(super) fn role(&self, kind: TypeIndex) -> TypeRole {
        let Some(row) = self.known.get(kind) else { return TypeRole::Library };
        match row.category {
            Category::Array => TypeRole::Part,
            Category::Internal if self.vm.is_context_type(row.number) && row.number != self.vm.native_context() => {
                TypeRole::Library
            }
            Category::Internal => TypeRole::Hub,
            Category::Prototype => TypeRole::Hub,
            Category::Free | Category::String | Category::OtherString | Category::Closure => TypeRole::Library,
            Category::Object if COLLECTIONS.contains(&&*row.name) => TypeRole::Collection,
            Category::Object => {
                let script = row.function.and_then(|shared| self.vm.script_name(self.vm.script(shared)?));
                match script {
                    Some(script) if !is_library(&script) => TypeRole::Program,
                    // Timers of one period are a list, which its elements refer to as well.
                    Some(_) if &*row.name == "Timeout" => TypeRole::ListNode,
                    Some(_) if &*row.name == "TimersList" => TypeRole::Collection,
                    _ => TypeRole::Library,
                }
            }
        }
    }
}
