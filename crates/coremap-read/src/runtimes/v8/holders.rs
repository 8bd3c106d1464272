//! Variables of modules, and roles of types in the search for what retains memory.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::addr::Addr;
use crate::image::file_name;
use crate::limits;
use crate::runtimes::api::{Heap as _, NamedStatics, StaticRoot, TypeIndex, TypeRole};
use crate::runtimes::v8::heap::Heap;
use crate::runtimes::v8::heap::types::Category;
use crate::runtimes::v8::vm::{count, strong};

/// Collections of the language. A plain object counts as one: programs use it as a dictionary.
const COLLECTIONS: [&str; 6] = ["Array", "Map", "Set", "WeakMap", "WeakSet", "Object"];

/// Parameters of the function that Node.js wraps around a module.
const OF_WRAPPER: [&str; 5] = ["exports", "require", "module", "__filename", "__dirname"];

/// Offset in a NativeContext of its global object.
const GLOBAL: u64 = 32;

/// Fields of a SharedFunctionInfo that may be a scope, in bytes.
const SHARED_FIELDS: u64 = 64;

/// Maximum number of outer scopes of a function that are visited.
const MAX_SCOPES: usize = 256;

/// Maximum number of words of a table of global variables.
const MAX_GLOBALS: u64 = 1 << 20;

/// Offsets in a PropertyCell (property-cell.tq).
mod cell {
    pub(super) const NAME: u64 = 8;
    pub(super) const VALUE: u64 = 24;
}

/// Offset in a context of the outer context.
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

    /// Returns scripts by the scopes of their functions, and by the scopes around these. The function around a module
    /// runs once and is collected before the closures inside it, so only the scopes remain.
    fn scripts_by_scope(&self) -> &HashMap<u64, u64> {
        self.scripts_by_scope.get_or_init(|| {
            let vm = &*self.vm;
            let mut out = HashMap::new();
            for &shared in &self.survey().shared {
                let Some(script) = vm.script(shared) else { continue };
                // A function that was not compiled has its outer scope instead of its own.
                let around = || {
                    let fields = (8..SHARED_FIELDS).step_by(8).filter_map(|offset| vm.object(shared, offset));
                    fields.into_iter().find(|field| vm.is(*field, "SCOPE_INFO"))
                };
                let mut scope = vm.scope_of(shared).or_else(around);
                for _ in 0..MAX_SCOPES {
                    let Some(at) = scope.filter(|at| out.insert(*at, script).is_none()) else { break };
                    scope = vm.outer_scope(at);
                }
            }
            out
        })
    }

    /// Returns the script that a context's function is in.
    pub(super) fn script_of_context(&self, context: u64) -> Option<String> {
        let scope = self.vm.object(context, 16)?;
        self.vm.script_name(*self.scripts_by_scope().get(&scope)?)
    }

    /// Returns the suffix that names the isolate of a variable. Empty for the main isolate.
    fn isolate_text(&self, object: u64) -> String {
        let page = self.vm.page_of(object);
        let isolate = page.and_then(|page| self.vm.isolates.get(self.vm.isolate_of(page.heap)?));
        isolate.filter(|isolate| isolate.name != "main").map_or_else(String::new, |of| format!(", {}", of.name))
    }

    /// Adds the variables of the global objects of `contexts`: properties that the program added to globalThis.
    fn global_variables(&self, contexts: &BTreeSet<u64>, out: &mut NamedStatics) {
        let vm = &*self.vm;
        let mut reader = self.reader();
        let globals = contexts.iter().filter_map(|context| vm.object(*context, GLOBAL));
        for global in globals.filter(|global| vm.is(*global, "JS_GLOBAL_OBJECT")) {
            let Some(dictionary) = vm.object(global, vm.offsets.properties) else { continue };
            let words = vm.field(dictionary, 8).and_then(count).unwrap_or(0).min(MAX_GLOBALS);
            let cells: Vec<u64> = vm.words(dictionary.wrapping_add(16), words).into_iter().filter_map(strong).collect();
            let mut found = false;
            for cell in cells.into_iter().filter(|cell| vm.is(*cell, "PROPERTY_CELL")) {
                found = true;
                let name = vm.object(cell, cell::NAME).and_then(|name| vm.key_text(name));
                let Some((name, value)) = name.zip(vm.object(cell, cell::VALUE)) else { continue };
                let Some(node) = reader.node(value) else { continue };
                // Node.js and the language have their own functions and namespaces there.
                let library = !matches!(self.role(node.kind), TypeRole::Program | TypeRole::Collection);
                let is_global = vm.is(value, "JS_GLOBAL_PROXY") || vm.is(value, "JS_GLOBAL_OBJECT");
                if !is_global && out.roots.len() < limits::MAX_V8_LISTED {
                    let name: Arc<str> = format!("global variable {name}{}", self.isolate_text(global)).into();
                    out.roots.push(StaticRoot { name, object: Addr::new(value), library });
                }
            }
            if found {
                out.containers.push(Addr::new(dictionary));
            }
        }
    }

    /// Returns the variables of modules that closures use, and global variables. Module variables are in the contexts
    /// of their modules.
    pub(super) fn variables(&self) -> NamedStatics {
        let vm = &*self.vm;
        let (mut out, mut natives) = (NamedStatics::default(), BTreeSet::new());
        for &context in &self.survey().contexts {
            let Some(scope) = vm.object(context, 16).filter(|scope| vm.is(*scope, "SCOPE_INFO")) else { continue };
            let Some(parts) = vm.scope(scope).filter(|parts| parts.is_function || parts.is_module) else { continue };
            // The function around a module has no outer function of the program.
            let outer = vm.object(context, PREVIOUS);
            let is_outermost = outer
                .and_then(|outer| vm.type_of(outer))
                .is_some_and(|number| number == vm.native_context() || number == vm.script_context());
            let Some(script) = self.script_of_context(context).filter(|_| is_outermost || parts.is_module) else {
                continue;
            };
            out.containers.push(Addr::new(context));
            let library = is_library(&script);
            // A function without variables leads to the context of Node.js itself, and from there to everything.
            if let Some(native) = outer.filter(|outer| library && vm.type_of(*outer) == Some(vm.native_context())) {
                natives.insert(native);
            }
            let first = 32 + 8 * u64::from(parts.extension);
            for (i, name) in (0..).zip(vm.variables(scope, &parts)) {
                let value = vm.field(context, first + 8 * i).and_then(strong);
                let Some((name, value)) = name.zip(value).filter(|(name, _)| !OF_WRAPPER.contains(&name.as_str()))
                else {
                    continue;
                };
                let name: Arc<str> =
                    format!("module variable {name} ({}{})", file_name(&script), self.isolate_text(context)).into();
                if out.roots.len() < limits::MAX_V8_LISTED {
                    out.roots.push(StaticRoot { name, object: Addr::new(value), library });
                }
            }
        }
        self.global_variables(&natives, &mut out);
        out.containers.extend(natives.into_iter().map(Addr::new));
        out
    }

    /// Whether a type is one of plain objects. Their properties are entries with names.
    pub(super) fn is_plain_object(&self, kind: TypeIndex) -> bool {
        self.known.get(kind).is_some_and(|row| row.category == Category::Object && &*row.name == "Object")
    }

    /// Returns the role of a type.
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
                    // Node.js links timers with the same period in a list, so a timer is a list node.
                    Some(_) if &*row.name == "Timeout" => TypeRole::ListNode,
                    Some(_) if &*row.name == "TimersList" => TypeRole::Collection,
                    _ => TypeRole::Library,
                }
            }
        }
    }
}
