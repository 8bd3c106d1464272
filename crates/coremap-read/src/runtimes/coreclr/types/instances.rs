//! Generic types at their use: resolves signatures for one object, and finds the loaded MethodTable with a struct's
//! layout.
//!
//! Each module has a table of the instantiations of which it is the loader module (src/coreclr/vm: typehash.h,
//! clsload.cpp ComputeLoaderModule). A struct is often loaded only in its canonical form, with `System.__Canon` for
//! references (generics.cpp). The layout is the same.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use crate::addr::Addr;
use crate::bytes::u64_at;
use crate::diag::WarningCode;
use crate::image::metadata::sig::{ElementType, Type};
use crate::image::metadata::{Table, Token};
use crate::limits;
use crate::memory::walk::{Broken, Stop, Walks};
use crate::phase::Phase;
use crate::runtimes::coreclr::types::{FieldDesc, Shape, TypeHandle, TypeSystem};

/// Marks the end of a list of entries (dacenumerablehash.h). Up to .NET Core 3.1 it also marks a hot entry.
const MARK: u64 = 1;

/// Type arguments, by index of the type parameter.
pub type Scope = Arc<[TypeArg]>;

/// A type argument.
#[derive(Clone, Debug)]
pub enum TypeArg {
    /// A loaded type.
    Loaded(TypeHandle),
    /// A type from a module's signature, which may not be loaded.
    Signature(Arc<SignatureType>),
}

/// A type of a signature, with its module and type arguments.
#[derive(Debug)]
pub struct SignatureType {
    pub(in crate::runtimes::coreclr) module: Addr,
    pub(in crate::runtimes::coreclr) ty: Type,
    pub(in crate::runtimes::coreclr) scope: Scope,
}

/// A struct type with its type arguments.
#[derive(Clone, Debug)]
pub struct Struct {
    /// MethodTable with the struct's layout: its own, or the canonical one.
    pub method_table: Addr,
    /// Type arguments.
    pub scope: Scope,
}

/// Instantiations in a module's table: by module and TypeDef of the generic type, the MethodTables with their
/// arguments.
pub(super) type Instantiations = HashMap<(Addr, Token), Vec<(Addr, Vec<TypeHandle>)>>;

/// Recursion depth of a type comparison, and its remaining steps. Without a bound, nested arguments could recurse
/// endlessly.
#[derive(Clone, Copy)]
struct Steps<'f> {
    depth: u32,
    left: &'f Cell<u32>,
}

impl Steps<'_> {
    fn deeper(self) -> Option<Self> {
        let left = self.left.get().checked_sub(1)?;
        self.left.set(left);
        (self.depth < limits::MAX_TYPE_DEPTH).then_some(Steps { depth: self.depth + 1, ..self })
    }
}

impl<'p> TypeSystem<'p> {
    /// Type arguments of a MethodTable's type.
    pub fn scope_of(&self, method_table: Addr) -> Scope {
        self.class_instantiation(method_table).unwrap_or_default().into_iter().map(TypeArg::Loaded).collect()
    }

    /// The struct type of a field, where `scope` has the type arguments of the field's owner. `None` if it is not
    /// loaded.
    pub fn field_struct(&self, field: &FieldDesc, scope: &Scope) -> Option<Struct> {
        let module = self.module(self.module_of(field.method_table).ok()?);
        let signature = self.field_signature(&module, field)?;
        self.struct_of(module.addr, &signature, scope, 0)
    }

    /// A loaded type as a struct. `None` if it is no value type.
    pub fn loaded_struct(&self, handle: TypeHandle) -> Option<Struct> {
        let Ok(Shape::Named { method_table, .. }) = self.shape(handle) else { return None };
        let scope = self.scope_of(method_table);
        (self.is_value_type(method_table) == Ok(true)).then_some(Struct { method_table, scope })
    }

    fn struct_of(&self, module: Addr, ty: &Type, scope: &Scope, depth: u32) -> Option<Struct> {
        if depth > limits::MAX_TYPE_DEPTH {
            return None;
        }
        match ty {
            Type::Modified { inner, .. } | Type::Pinned(inner) => self.struct_of(module, inner, scope, depth + 1),
            Type::ValueType(token) => self.loaded_struct(TypeHandle(self.mapped_type(module, *token)?)),
            Type::Internal(handle) => self.loaded_struct(TypeHandle(Addr::new(*handle))),
            Type::Var(n) => match scope.get(*n as usize)? {
                TypeArg::Loaded(handle) => self.loaded_struct(*handle),
                TypeArg::Signature(w) => self.struct_of(w.module, &w.ty, &w.scope, depth + 1),
            },
            Type::GenericInst { definition, arguments } => {
                let Type::ValueType(token) = **definition else { return None };
                let open = self.mapped_type(module, token)?;
                let definition = (self.module_of(open).ok()?, self.type_token(open).ok()?);
                let scope: Scope = arguments.iter().map(|a| bind(module, a, scope)).collect();
                let method_table = self.instantiation(definition, &scope)?;
                Some(Struct { method_table, scope })
            }
            _ => None,
        }
    }

    /// MethodTable of a generic type with these arguments. Prefers the exact instantiation, and falls back to the
    /// canonical one.
    fn instantiation(&self, definition: (Addr, Token), arguments: &Scope) -> Option<Addr> {
        let left = Cell::new(limits::MAX_TYPE_STEPS);
        let steps = Steps { depth: 0, left: &left };
        let mut modules = vec![definition.0];
        for argument in arguments.iter() {
            self.modules_of(argument, &mut modules, steps);
        }
        let tables: Vec<_> = modules.iter().map(|&m| self.instantiations(m)).collect();
        let all = || tables.iter().filter_map(|t| t.get(&definition)).flatten();
        [true, false].into_iter().find_map(|exact| {
            let fits = |(_, of): &&(Addr, Vec<TypeHandle>)| {
                of.len() == arguments.len() && arguments.iter().zip(of).all(|(a, &h)| self.matches(a, h, exact, steps))
            };
            all().find(fits).map(|&(method_table, _)| method_table)
        })
    }

    /// Collects the modules that a type is made of. Its loader module is one of them.
    fn modules_of(&self, argument: &TypeArg, out: &mut Vec<Addr>, steps: Steps<'_>) {
        let Some(steps) = steps.deeper().filter(|_| out.len() < limits::MAX_TYPE_MODULES) else { return };
        let mut add = |module: Option<Addr>| {
            if let Some(module) = module.filter(|m| !out.contains(m)) {
                out.push(module);
            }
        };
        match argument {
            TypeArg::Loaded(handle) => match self.shape(*handle) {
                Ok(Shape::Named { method_table, module, arguments, .. }) => {
                    add(Some(module));
                    add(self.loader_module(method_table));
                    for inner in arguments {
                        self.modules_of(&TypeArg::Loaded(inner), out, steps);
                    }
                }
                Ok(Shape::SzArray(of) | Shape::Array(of, _) | Shape::Ptr(of)) => {
                    self.modules_of(&TypeArg::Loaded(of), out, steps);
                }
                _ => {}
            },
            TypeArg::Signature(w) => {
                add(Some(w.module));
                self.modules_of_signature(w, &w.ty, out, steps);
            }
        }
    }

    fn modules_of_signature(&self, w: &SignatureType, ty: &Type, out: &mut Vec<Addr>, steps: Steps<'_>) {
        let Some(steps) = steps.deeper() else { return };
        match ty {
            Type::ValueType(token) | Type::Class(token) => {
                if let Some(loaded) = self.mapped_type(w.module, *token) {
                    self.modules_of(&TypeArg::Loaded(TypeHandle(loaded)), out, steps);
                }
            }
            Type::Var(n) => {
                if let Some(argument) = w.scope.get(*n as usize) {
                    self.modules_of(argument, out, steps);
                }
            }
            Type::SzArray(of) | Type::Ptr(of) | Type::Array { element: of, .. } | Type::Modified { inner: of, .. } => {
                self.modules_of_signature(w, of, out, steps);
            }
            Type::GenericInst { definition, arguments } => {
                self.modules_of_signature(w, definition, out, steps);
                for argument in arguments {
                    self.modules_of_signature(w, argument, out, steps);
                }
            }
            _ => {}
        }
    }

    /// Whether `argument` is the type of `handle`. If not `exact`, the same canonical form is enough.
    fn matches(&self, argument: &TypeArg, handle: TypeHandle, exact: bool, steps: Steps<'_>) -> bool {
        let Some(steps) = steps.deeper() else { return false };
        match argument {
            TypeArg::Loaded(own) if *own == handle => true,
            TypeArg::Loaded(_) if exact => false,
            TypeArg::Loaded(own) => match (self.shape(*own), self.shape(handle)) {
                (Ok(own), Ok(other)) if self.is_canon(&other) => self.is_reference(&own),
                (
                    Ok(Shape::Named { module, token, arguments, method_table, .. }),
                    Ok(Shape::Named { module: m, token: t, arguments: a, .. }),
                ) => {
                    (module, token, arguments.len()) == (m, t, a.len())
                        && self.is_value_type(method_table) == Ok(true)
                        && arguments.into_iter().zip(a).all(|(x, y)| self.matches(&TypeArg::Loaded(x), y, false, steps))
                }
                _ => false,
            },
            TypeArg::Signature(w) => self.signature_matches(w, &w.ty, handle, exact, steps),
        }
    }

    fn signature_matches(
        &self,
        w: &SignatureType,
        ty: &Type,
        handle: TypeHandle,
        exact: bool,
        steps: Steps<'_>,
    ) -> bool {
        let Some(steps) = steps.deeper() else { return false };
        let inner = |ty: &Type, handle: TypeHandle| self.signature_matches(w, ty, handle, exact, steps);
        match ty {
            Type::Var(n) => return w.scope.get(*n as usize).is_some_and(|a| self.matches(a, handle, exact, steps)),
            Type::Modified { inner: ty, .. } | Type::Pinned(ty) => return inner(ty, handle),
            Type::Internal(own) => {
                return self.matches(&TypeArg::Loaded(TypeHandle(Addr::new(*own))), handle, exact, steps);
            }
            _ => {}
        }
        let Ok(shape) = self.shape(handle) else { return false };
        if !exact && self.is_canon(&shape) {
            return is_reference_signature(ty);
        }
        match (ty, shape) {
            (Type::SzArray(of), Shape::SzArray(own)) | (Type::Ptr(of), Shape::Ptr(own)) => inner(of, own),
            (Type::Array { element, rank, .. }, Shape::Array(own, dimensions)) => {
                *rank == dimensions && inner(element, own)
            }
            (Type::Primitive(element), Shape::Named { primitive, .. }) => {
                primitive == *element as u8 || self.display_name(handle.0) == element.type_name()
            }
            (Type::ValueType(token) | Type::Class(token), Shape::Named { arguments, .. }) => {
                arguments.is_empty() && self.is_definition(w.module, *token, handle.0)
            }
            (Type::GenericInst { definition, arguments }, Shape::Named { module, token, arguments: own, .. }) => {
                let (Type::ValueType(of) | Type::Class(of)) = **definition else { return false };
                let open = self.mapped_type(w.module, of);
                let definition = open.and_then(|o| Some((self.module_of(o).ok()?, self.type_token(o).ok()?)));
                definition == Some((module, token))
                    && arguments.len() == own.len()
                    && arguments.iter().zip(own).all(|(a, h)| inner(a, h))
            }
            _ => false,
        }
    }

    /// Whether a module's token is the type of a MethodTable: by the module's map, or by name if the map has no entry.
    fn is_definition(&self, module: Addr, token: Token, method_table: Addr) -> bool {
        if let Some(mapped) = self.mapped_type(module, token) {
            return mapped == method_table;
        }
        let info = self.module(module);
        let name = info.metadata.as_ref().and_then(|m| m.full_name(token));
        token.table() == Some(Table::TypeRef) && name.is_some_and(|name| name == self.display_name(method_table))
    }

    /// Whether it is `System.__Canon`, which represents any reference type.
    fn is_canon(&self, shape: &Shape) -> bool {
        let Shape::Named { module, token, arguments, .. } = shape else { return false };
        let info = self.module(*module);
        let row = info.metadata.as_ref().and_then(|m| m.type_def(token.rid()));
        arguments.is_empty() && row.is_some_and(|row| row.name == "__Canon" && row.namespace == "System")
    }

    fn is_reference(&self, shape: &Shape) -> bool {
        match shape {
            Shape::Named { method_table, .. } => self.is_value_type(*method_table) == Ok(false),
            Shape::SzArray(_) | Shape::Array(..) => true,
            _ => false,
        }
    }

    /// Instantiations of generic types in a module's table. Cached.
    pub(super) fn instantiations(&self, module: Addr) -> Arc<Instantiations> {
        if let Some(known) = self.instantiations.lock().unwrap_or_else(PoisonError::into_inner).get(&module) {
            return known.clone();
        }
        let mut found = Instantiations::new();
        for handle in self.available_types(module) {
            if let Ok(Shape::Named { method_table, module, token, arguments, .. }) = self.shape(handle) {
                found.entry((module, token)).or_default().push((method_table, arguments));
            }
        }
        let found = Arc::new(found);
        let mut all = self.instantiations.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < limits::MAX_MANAGED_MODULES {
            all.insert(module, found.clone());
        }
        found
    }

    /// Types in the module's table that contains instantiations, arrays and pointers.
    fn available_types(&self, module: Addr) -> Vec<TypeHandle> {
        let mut out = Vec::new();
        let walks = Walks::new(Phase::Types, limits::MAX_INSTANTIATIONS);
        let Ok(table) = self.view("Module", module).ptr("AvailableTypeParams") else { return out };
        let view = self.view("EETypeHashTable", table);
        let Ok(buckets) = view.ptr("Buckets") else { return out };
        let end = walks.begin().follow(buckets, |list| {
            // Up to 3.1 the number of buckets is in the table, from .NET 5 on in the bucket list.
            let (count, first, next) = if view.has("BucketCount") {
                (view.u32("BucketCount").map(u64::from).ok(), Some(list), Addr::NULL)
            } else {
                let of =
                    |field| self.runtime.layout.positive("EETypeHashTable", field).ok().map(|o| list.saturating_add(o));
                let count = of("BucketListLength").and_then(|a| self.memory.u64(a).ok());
                let next = of("BucketListNext").and_then(|a| self.memory.ptr(a).ok());
                (count, of("BucketListFirst"), next.unwrap_or(Addr::NULL))
            };
            let (Some(count), Some(first)) = (count, first) else { return Ok(Addr::NULL) };
            let size = count.min(limits::MAX_INSTANTIATIONS as u64) * 8;
            let bytes = self.memory.bytes(first, self.memory.readable(first, size) as usize).unwrap_or_default();
            // Guards against thousands of lists that claim the same buckets.
            walks.spend(first, bytes.len() as u64 / 64)?;
            let unmarked = |at: Addr| if at.masked(MARK).is_null() { at } else { Addr::NULL };
            for i in 0..bytes.len() / 8 {
                let entries = unmarked(Addr::new(u64_at(&bytes, 8 * i).unwrap_or(0)));
                let end = walks.begin().follow(entries, |at| {
                    let entry = self.view("EETypeHashTable", at);
                    if let Ok(value) = entry.u64("VolatileEntryValue") {
                        out.push(TypeHandle(Addr::new(value & !MARK)));
                    }
                    entry.ptr("VolatileEntryNextEntry").map(unmarked)
                });
                if let Err(Broken::Stop(stop)) = end {
                    self.warn_broken_table(module, stop);
                }
            }
            Ok(next)
        });
        if let Err(Broken::Stop(stop) | Broken::Unreadable(_, stop)) = end {
            self.warn_broken_table(module, stop);
        }
        out
    }

    fn warn_broken_table(&self, module: Addr, stop: Stop) {
        let why = format!("a list in the type table of the module at {module} {stop}");
        self.process.diag.partial(WarningCode::Dotnet, why);
    }
}

/// Resolves a type parameter through `scope`; wraps any other type of a signature.
pub(super) fn bind(module: Addr, ty: &Type, scope: &Scope) -> TypeArg {
    let known = if let Type::Var(n) = ty { scope.get(*n as usize).cloned() } else { None };
    known
        .unwrap_or_else(|| TypeArg::Signature(Arc::new(SignatureType { module, ty: ty.clone(), scope: scope.clone() })))
}

fn is_reference_signature(ty: &Type) -> bool {
    match ty {
        Type::Class(_) | Type::SzArray(_) | Type::Array { .. } => true,
        Type::Primitive(element) => matches!(element, ElementType::String | ElementType::Object),
        Type::GenericInst { definition, .. } => matches!(**definition, Type::Class(_)),
        _ => false,
    }
}
