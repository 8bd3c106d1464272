//! Types of objects: by constructor, by function for closures, by kind of string, and by V8's own type for the rest.
//!
//! A constructor has many maps, and a map has one name. Names are not unique: types with the same name are
//! distinguished by the source position of their constructor, and by isolate.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::addr::Addr;
use crate::limits;
use crate::runtimes::api::{FREE, FREE_NAME, TypeIndex};
use crate::runtimes::v8::heap::sizes::{SizeRule, rule};
use crate::runtimes::v8::text::form;
use crate::runtimes::v8::vm::{FIRST_NONSTRING, MapInfo, Vm};

/// Maximum number of maps of a type from which its field names are taken.
const MAX_MAPS: usize = 32;

/// Instance types whose objects must have a type of their own, even if other objects have the same name. Analyses
/// search for them by type.
const APART: [&str; 3] = ["JS_ARRAY_BUFFER", "JS_ASYNC_FUNCTION_OBJECT", "JS_PROMISE"];

/// The part of an object that decides its type, if its map does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtimes::v8) enum TypeOf {
    Map,
    /// The function's code: closures of one function share a type.
    Function,
    /// The object itself: each prototype has a map of its own.
    Prototype,
}

/// Fields of a map that the walk needs.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtimes::v8) struct MapEntry {
    /// Type of its objects.
    pub kind: TypeIndex,
    pub rule: SizeRule,
    pub of: TypeOf,
    pub number: u16,
}

/// Category of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::runtimes::v8) enum Category {
    Free,
    /// Strings with their own characters.
    String,
    /// Other strings.
    OtherString,
    /// Objects by constructor.
    Object,
    /// A prototype, by its constructor.
    Prototype,
    /// Functions by their code.
    Closure,
    /// Arrays of tagged words that belong to objects.
    Array,
    /// V8's own objects.
    Internal,
}

/// A type.
#[derive(Clone, Debug)]
pub(in crate::runtimes::v8) struct TypeRow {
    /// Address of its first map, or of a function's SharedFunctionInfo.
    pub address: Addr,
    pub name: Arc<str>,
    pub category: Category,
    /// SharedFunctionInfo of the constructor or the function. `None` if the name comes from elsewhere.
    pub function: Option<u64>,
    /// Index of the isolate. `None` if all share the type.
    pub isolate: Option<usize>,
    /// Instance type of the first map.
    pub number: u16,
    pub maps: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    category: Category,
    name: String,
    function: Option<u64>,
    isolate: Option<usize>,
    /// The instance type, if its objects must have a type of their own.
    number: Option<u16>,
}

#[derive(Default)]
struct Tables {
    by_map: HashMap<u64, Option<MapEntry>>,
    by_function: HashMap<u64, TypeIndex>,
    by_prototype: HashMap<u64, TypeIndex>,
    by_key: HashMap<Key, TypeIndex>,
    all: Vec<TypeRow>,
}

/// All types found so far.
pub(in crate::runtimes::v8) struct KnownTypes {
    tables: RwLock<Tables>,
}

impl KnownTypes {
    pub(in crate::runtimes::v8) fn new() -> KnownTypes {
        let free = TypeRow {
            address: Addr::NULL,
            name: FREE_NAME.into(),
            category: Category::Free,
            function: None,
            isolate: None,
            number: 0,
            maps: Vec::new(),
        };
        KnownTypes { tables: RwLock::new(Tables { all: vec![free], ..Tables::default() }) }
    }

    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::runtimes::v8) fn get(&self, kind: TypeIndex) -> Option<TypeRow> {
        self.read().all.get(kind.0 as usize).cloned()
    }

    pub(in crate::runtimes::v8) fn len(&self) -> usize {
        self.read().all.len()
    }

    pub(in crate::runtimes::v8) fn is_full(&self) -> bool {
        self.len() >= limits::MAX_V8_TYPES
    }

    /// Returns the first type of a category.
    pub(in crate::runtimes::v8) fn find(&self, category: Category) -> Option<TypeIndex> {
        self.read().all.iter().position(|row| row.category == category).map(|i| TypeIndex(i as u32))
    }

    /// Returns the entry of the map at an address. `None` if it is no map.
    pub(in crate::runtimes::v8) fn map(&self, vm: &Vm<'_>, map: u64) -> Option<MapEntry> {
        if let Some(known) = self.read().by_map.get(&map) {
            return *known;
        }
        let entry = vm.map(map).and_then(|info| self.entry(vm, map, &info));
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        // Damaged memory has any number of words that look like references to maps, so the table is limited.
        if tables.by_map.len() < limits::MAX_V8_MAPS {
            tables.by_map.insert(map, entry);
        }
        entry
    }

    fn entry(&self, vm: &Vm<'_>, map: u64, info: &MapInfo) -> Option<MapEntry> {
        let number = info.instance_type;
        let is_free = vm.types.is(number, "FREE_SPACE") || vm.types.is(number, "FILLER");
        let of = if vm.is_function_type(number) {
            TypeOf::Function
        } else if number >= vm.first_object && info.is_prototype() {
            TypeOf::Prototype
        } else {
            TypeOf::Map
        };
        let rule = rule(vm, info);
        if is_free || of != TypeOf::Map {
            return Some(MapEntry { kind: FREE, rule, of, number });
        }
        let page = vm.page_of(map)?;
        let (category, name, function) = describe(vm, map, info);
        let isolate = vm.isolate_of(page.heap);
        let apart = APART.iter().any(|name| vm.types.is(number, name)).then_some(number);
        let key = Key { category, name, function, isolate, number: apart };
        let kind = self.add(key, Addr::new(map), number, Some(map))?;
        Some(MapEntry { kind, rule, of, number })
    }

    fn add(&self, key: Key, address: Addr, number: u16, map: Option<u64>) -> Option<TypeIndex> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let Tables { by_key, all, .. } = &mut *tables;
        if let Some(kind) = by_key.get(&key) {
            if let Some(row) = all.get_mut(kind.0 as usize).filter(|row| row.maps.len() < MAX_MAPS) {
                row.maps.extend(map);
            }
            return Some(*kind);
        }
        let kind = u32::try_from(all.len()).ok().filter(|n| (*n as usize) < limits::MAX_V8_TYPES).map(TypeIndex)?;
        all.push(TypeRow {
            address,
            name: key.name.as_str().into(),
            category: key.category,
            function: key.function,
            isolate: key.isolate,
            number,
            maps: map.into_iter().collect(),
        });
        by_key.insert(key, kind);
        Some(kind)
    }

    /// Returns the type of the function with this SharedFunctionInfo.
    pub(in crate::runtimes::v8) fn of_function(&self, vm: &Vm<'_>, shared: u64, number: u16) -> Option<TypeIndex> {
        if let Some(kind) = self.read().by_function.get(&shared) {
            return Some(*kind);
        }
        let name = if vm.is(shared, "SHARED_FUNCTION_INFO") { vm.function_name(shared) } else { String::new() };
        let isolate = vm.page_of(shared).and_then(|page| vm.isolate_of(page.heap));
        let name = if name.is_empty() { "(anonymous)".to_owned() } else { name };
        let key = Key { category: Category::Closure, name, function: Some(shared), isolate, number: None };
        let kind = self.add(key, Addr::new(shared), number, None)?;
        self.tables.write().unwrap_or_else(PoisonError::into_inner).by_function.insert(shared, kind);
        Some(kind)
    }

    /// Returns the type of the prototype object at `object`.
    pub(in crate::runtimes::v8) fn of_prototype(&self, vm: &Vm<'_>, map: u64, object: u64) -> Option<TypeIndex> {
        if let Some(kind) = self.read().by_prototype.get(&map) {
            return Some(*kind);
        }
        let info = vm.map(map)?;
        let class = vm.class_name(map, &info, Some(object));
        let isolate = vm.page_of(map).and_then(|page| vm.isolate_of(page.heap));
        let name = format!("{}.prototype", class.name);
        let key = Key { category: Category::Prototype, name, function: class.constructor, isolate, number: None };
        let kind = self.add(key, Addr::new(map), info.instance_type, Some(map))?;
        self.tables.write().unwrap_or_else(PoisonError::into_inner).by_prototype.insert(map, kind);
        Some(kind)
    }
}

/// Returns category, name and constructor for objects with a map.
fn describe(vm: &Vm<'_>, map: u64, info: &MapInfo) -> (Category, String, Option<u64>) {
    let number = info.instance_type;
    if number < FIRST_NONSTRING {
        let (category, name) = match number & form::MASK {
            form::SEQUENTIAL => (Category::String, "(string)"),
            form::CONS => (Category::OtherString, "(concatenated string)"),
            form::SLICED => (Category::OtherString, "(sliced string)"),
            form::EXTERNAL => (Category::OtherString, "(external string)"),
            form::THIN => (Category::OtherString, "(thin string)"),
            _ => (Category::OtherString, "(other string)"),
        };
        return (category, name.to_owned(), None);
    }
    if number >= vm.first_object {
        if vm.types.is(number, "JS_BOUND_FUNCTION") {
            return (Category::Object, "native_bind".to_owned(), None);
        }
        let class = vm.class_name(map, info, None);
        return (Category::Object, class.name, class.constructor);
    }
    let is_array = info.words == 0
        && matches!(rule(vm, info), SizeRule::Counted { header: 16, element: 8, .. })
        && !vm.is_context_type(number)
        && !vm.types.is(number, "FIXED_DOUBLE_ARRAY");
    let category = if is_array { Category::Array } else { Category::Internal };
    (category, vm.internal_name(number), None)
}
