//! The heap of one V8, with all its isolates: objects page by page.
//!
//! A first walk over all pages finds two things that no structure records: areas that background allocators reserved,
//! and the sizes of objects without a formula. It also lists the objects from which other analyses start.

mod reader;
pub(in crate::runtimes::v8) mod sizes;
mod survey;
pub(in crate::runtimes::v8) mod types;
mod walk;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub(in crate::runtimes::v8) use survey::{Survey, in_step};

use crate::addr::{Addr, AddrRange};
use crate::map::BaseEntry;
use crate::memory::Memory;
use crate::runtimes::api::linear::LinearWalker;
use crate::runtimes::api::{
    self, Elements, FREE, Generation, HeapRange, Object, ObjectReader, Space, StringContent, StringUnits, TypeIndex,
    TypeInfo, TypeOrigin, UnwalkedRanges, Walker,
};
use crate::runtimes::v8::functions::{Place, place};
use crate::runtimes::v8::heap::types::{Category, KnownTypes, TypeRow};
use crate::runtimes::v8::holders::is_library;
use crate::runtimes::v8::isolates;
use crate::runtimes::v8::properties::FieldAt;
use crate::runtimes::v8::text::{form, part};
use crate::runtimes::v8::vm::Vm;

/// Size in bytes of the smallest object: a filler of one word.
const MIN_OBJECT: u64 = 8;

/// Offset that marks a link as a field of the object's property array.
pub(in crate::runtimes::v8) const OF_PROPERTY_ARRAY: u64 = 1 << 24;

/// Results of the first walk.
struct Surveyed {
    /// Areas without objects, by address.
    gaps: Vec<AddrRange>,
    /// Sizes of objects without a formula, by address.
    irregular: HashMap<u64, u64>,
    survey: Survey,
}

/// The objects of a V8.
pub(in crate::runtimes::v8) struct Heap<'p> {
    pub vm: Arc<Vm<'p>>,
    pub known: KnownTypes,
    parts: Vec<HeapRange>,
    generations: Vec<Generation>,
    /// Starts of areas with a single large object, by address.
    single: Vec<Addr>,
    /// Areas that known allocators reserved, by address.
    areas: Vec<AddrRange>,
    /// `None` until the first walk has ended.
    surveyed: OnceLock<Surveyed>,
    unused: Vec<(&'static str, u64)>,
    words: OnceLock<Space<'p>>,
    searched: AtomicU64,
    lines: Mutex<HashMap<u64, Option<Arc<Vec<u32>>>>>,
    ephemerons: reader::LazyEphemerons,
    /// Functions by their ScopeInfo.
    pub(in crate::runtimes::v8) by_scope: OnceLock<HashMap<u64, u64>>,
    /// Scripts by the ScopeInfos of their functions.
    pub(in crate::runtimes::v8) scripts_by_scope: OnceLock<HashMap<u64, u64>>,
    /// Names of the program's constructors and functions.
    of_program: OnceLock<HashSet<Arc<str>>>,
}

impl<'p> Heap<'p> {
    /// Lists the pages of `vm`.
    pub(in crate::runtimes::v8) fn open(vm: Arc<Vm<'p>>) -> Heap<'p> {
        let generations: Vec<Generation> = vm.form.spaces.iter().zip(0..).map(generation).collect();
        let (mut gaps, mut stale) = (Vec::new(), std::collections::BTreeSet::new());
        for isolate in &vm.isolates {
            let areas = isolates::allocation_areas(&vm, isolate);
            stale.extend(isolates::stale_pages(&vm, isolate, &areas));
            gaps.extend(areas);
        }
        gaps.sort();
        let (mut parts, mut single, mut from, mut left_over) = (Vec::new(), Vec::new(), 0_u64, 0_u64);
        for page in &vm.pages {
            if page.is_from() && vm.space_name(page.space) == "new_space" {
                from = from.saturating_add(page.area.len());
                continue;
            }
            if stale.contains(&page.range.start) {
                left_over = left_over.saturating_add(page.area.len());
                continue;
            }
            let Some(generation) = generations.get(usize::from(page.space)).copied() else { continue };
            if vm.is_large(page) {
                single.push(page.area.start);
            }
            let heap = vm.isolate_of(page.heap).and_then(|i| u32::try_from(i).ok()).unwrap_or(0);
            if vm.is_large(page) {
                parts.push(HeapRange { heap, generation, range: page.area });
                continue;
            }
            // V8 removes access to parts of read-only pages, whose contents can't be read.
            let base = vm.process.base();
            let readable = |entry: &&BaseEntry| entry.perms.is_none_or(|perms| perms.read);
            let mut ranges: Vec<AddrRange> = Vec::new();
            for entry in base.entries.overlapping(page.area).filter(readable) {
                match (ranges.last_mut(), entry.range.intersect(&page.area)) {
                    (Some(last), Some(next)) if last.end == next.start => last.end = next.end,
                    (_, Some(next)) => ranges.push(next),
                    (_, None) => {}
                }
            }
            parts.extend(ranges.into_iter().map(|range| HeapRange { heap, generation, range }));
        }
        let unused = [
            ("in the half of the new space that awaits the next collection", from),
            ("in pages of the new space that are not filled yet", left_over),
        ];
        Heap {
            vm,
            known: KnownTypes::new(),
            parts,
            generations,
            single,
            areas: gaps,
            surveyed: OnceLock::new(),
            unused: unused.into_iter().filter(|(_, bytes)| *bytes > 0).collect(),
            words: OnceLock::new(),
            searched: AtomicU64::new(0),
            lines: Mutex::default(),
            ephemerons: OnceLock::new(),
            by_scope: OnceLock::new(),
            scripts_by_scope: OnceLock::new(),
            of_program: OnceLock::new(),
        }
    }

    fn surveyed(&self) -> &Surveyed {
        self.surveyed.get_or_init(|| {
            let survey = Survey::read(self);
            self.searched.store(0, Ordering::Relaxed);
            let mut gaps: Vec<AddrRange> = self.areas.iter().chain(&survey.gaps).copied().collect();
            gaps.sort();
            Surveyed { gaps, irregular: survey.sizes.iter().copied().collect(), survey }
        })
    }

    /// Returns the objects from which other analyses start. The first call walks all pages.
    pub(in crate::runtimes::v8) fn survey(&self) -> &Survey {
        &self.surveyed().survey
    }

    /// Returns the start of the object that contains `addr`. Only its page is walked.
    pub(in crate::runtimes::v8) fn containing(&self, addr: Addr) -> Option<u64> {
        let part = self.parts.iter().find(|part| part.range.contains(addr))?;
        let mut found = None;
        LinearWalker::new(self).walk(part, &mut UnwalkedRanges::default(), &mut |object| {
            if object.addr <= addr && addr < object.addr.saturating_add(object.size) {
                found = Some(object.addr.get());
            }
        });
        found
    }

    /// Returns the line breaks of a Script, read once.
    pub(in crate::runtimes::v8) fn line_ends(&self, script: u64) -> Option<Arc<Vec<u32>>> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || self.vm.line_ends(script).map(Arc::new);
        lines.entry(script).or_insert_with(read).clone()
    }

    /// Returns the script of a type's constructor or function, if it is part of Node.js.
    fn library_script(&self, row: &TypeRow) -> Option<String> {
        let script = self.vm.script_name(self.vm.script(row.function?)?)?;
        is_library(&script).then_some(script)
    }

    fn names_of_program(&self) -> &HashSet<Arc<str>> {
        self.of_program.get_or_init(|| {
            self.surveyed();
            let rows = api::all_types(self).filter_map(|kind| self.known.get(kind));
            let own = rows.filter(|row| row.category == Category::Object && row.function.is_some());
            own.filter(|row| self.library_script(row).is_none()).map(|row| row.name).collect()
        })
    }

    /// Returns the script of a function, and where the function begins in it.
    pub(in crate::runtimes::v8) fn origin(&self, shared: u64) -> Option<(String, Option<Place>)> {
        let script = self.vm.script(shared)?;
        let name = self.vm.script_name(script)?;
        let at = self.vm.start(shared).and_then(|start| place(self.line_ends(script)?.as_slice(), start));
        Some((name, at))
    }

    fn field_of(&self, row: &TypeRow, offset: u64) -> Option<String> {
        let vm = &*self.vm;
        let at = match offset.checked_sub(OF_PROPERTY_ARRAY) {
            Some(offset) => FieldAt::Array(offset),
            None => FieldAt::Object(offset),
        };
        let by_map = row.maps.iter().find_map(|map| self.property_of(*map, at));
        let fixed = |offset: u64| {
            let is = |field: u64| offset == field;
            let number = row.number;
            if row.category == Category::Closure && is(vm.offsets.function_shared) {
                return Some("shared");
            }
            if row.category == Category::Closure && is(vm.offsets.function_context) {
                return Some("context");
            }
            let collection = ["JS_MAP", "JS_SET", "JS_WEAK_MAP", "JS_WEAK_SET"];
            if is(24) && collection.iter().any(|name| vm.types.is(number, name)) {
                return Some("table");
            }
            match row.category {
                Category::Object | Category::Prototype | Category::Closure => match offset {
                    offset if is(vm.offsets.properties) && offset != 0 => Some("properties"),
                    _ if is(vm.offsets.elements) => Some("elements"),
                    _ => None,
                },
                Category::OtherString if is(part::FIRST) => Some("first"),
                Category::OtherString if is(part::SECOND) => Some("second"),
                Category::Internal if vm.is_context_type(number) => match offset {
                    16 => Some("scope_info"),
                    24 => Some("previous"),
                    _ => None,
                },
                _ => None,
            }
        };
        by_map.or_else(|| fixed(offset).map(str::to_owned))
    }

    /// Returns the name of the property that objects of a map have at `at`.
    fn property_of(&self, map: u64, at: FieldAt) -> Option<String> {
        let info = self.vm.map(map).filter(|info| info.instance_type >= self.vm.first_object)?;
        let all = self.vm.descriptors(map, &info);
        let found = all.iter().find(|descriptor| descriptor.field == Some(at))?;
        self.vm.key_text(found.key)
    }

    /// Returns the name of the variable at `offset` of a context.
    pub(in crate::runtimes::v8) fn variable(&self, context: u64, offset: u64) -> Option<String> {
        let vm = &*self.vm;
        let scope = vm.object(context, 16).filter(|scope| vm.is(*scope, "SCOPE_INFO"))?;
        let parts = vm.scope(scope)?;
        let first = 32 + 8 * u64::from(parts.extension);
        let slot = usize::try_from(offset.checked_sub(first)? / 8).ok()?;
        vm.variables(scope, &parts).into_iter().nth(slot).flatten()
    }
}

fn generation((name, number): (&&'static str, u8)) -> Generation {
    Generation { number, name, frozen: *name == "read_only_space" }
}

impl api::Heap for Heap<'_> {
    fn ranges(&self) -> &[HeapRange] {
        &self.parts
    }

    fn generations(&self) -> &[Generation] {
        &self.generations
    }

    fn space(&self) -> &Space<'_> {
        self.words
            .get_or_init(|| Space::new(self.vm.process.target(), self.parts.iter().map(|part| part.range), MIN_OBJECT))
    }

    fn unused_space(&self) -> &[(&'static str, u64)] {
        &self.unused
    }

    fn types(&self) -> usize {
        self.known.len()
    }

    fn has_too_many_types(&self) -> bool {
        self.known.is_full()
    }

    fn type_info(&self, kind: TypeIndex) -> Option<TypeInfo> {
        let row = self.known.get(kind)?;
        let elements = (row.category == Category::Array).then_some(Elements { start: 16, size: 8 });
        Some(TypeInfo {
            address: row.address,
            free: kind == FREE,
            string: row.category == Category::String,
            represents_types: false,
            elements,
        })
    }

    fn type_name(&self, kind: TypeIndex) -> String {
        let Some(row) = self.known.get(kind) else { return String::new() };
        match self.library_script(&row) {
            // Node.js has classes of its own whose names programs use too.
            Some(script) if self.names_of_program().contains(&row.name) => format!("{} [{script}]", row.name),
            _ => row.name.to_string(),
        }
    }

    fn type_origin(&self, kind: TypeIndex) -> Option<TypeOrigin> {
        let row = self.known.get(kind)?;
        let origin = row.function.and_then(|shared| self.origin(shared));
        let isolate = row.isolate.and_then(|i| self.vm.isolates.get(i)).map(|isolate| isolate.name.clone());
        let (script, place) = origin.map_or((None, None), |(script, place)| (Some(script), place));
        Some(TypeOrigin { script, line: place.map(|place| place.line), isolate })
    }

    fn field_name(&self, kind: TypeIndex, offset: u64) -> Option<String> {
        self.field_of(&self.known.get(kind)?, offset)
    }

    /// Returns the name that the object's own map, scope or dictionary has for a link.
    fn own_link_name(&self, object: Addr, offset: u64) -> Option<String> {
        let vm = &*self.vm;
        let (map, info) = vm.map_of(object.get())?;
        let number = info.instance_type;
        if number >= vm.first_object {
            let at = match offset.checked_sub(OF_PROPERTY_ARRAY) {
                Some(offset) => FieldAt::Array(offset),
                None => FieldAt::Object(offset),
            };
            return self.property_of(map, at);
        }
        if vm.is_context_type(number) && number != vm.native_context() {
            return self.variable(object.get(), offset);
        }
        let is = |name: &str| vm.types.is(number, name);
        let key = |key: Option<u64>| vm.key_text(key?);
        if is("NAME_DICTIONARY") {
            return key(vm.key_at(object.get(), offset));
        }
        if is("PROPERTY_CELL") && offset != 8 {
            return key(vm.object(object.get(), 8));
        }
        None
    }

    fn string_type(&self) -> Option<TypeIndex> {
        self.known.find(Category::String)
    }

    fn string_content(&self, string: &Object) -> Option<StringContent<'_>> {
        let at = string.addr.get();
        let number = self.vm.type_of(at)?;
        let length = u32::try_from(self.vm.text_length(at)?).ok()?;
        let (units, width) =
            if number & form::ONE_BYTE != 0 { (StringUnits::Latin1, 1) } else { (StringUnits::Utf16, 2) };
        let len = usize::try_from(length).ok()?.checked_mul(width)?;
        let bytes = self.vm.memory.borrow_to_look(string.addr.checked_add(part::FIRST)?, len)?;
        Some(StringContent { length, bytes, units, storage: None })
    }

    fn walker(&self) -> Box<dyn Walker + '_> {
        Box::new(LinearWalker::new(self))
    }

    fn reader(&self) -> Box<dyn ObjectReader + '_> {
        Box::new(reader::Reader::new(self))
    }
}
