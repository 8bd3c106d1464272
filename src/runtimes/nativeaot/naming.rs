//! What types are called: by the program's metadata, by symbols, or by where their MethodTables are.
//!
//! Names are written as .NET's listings have them, but for nested types, which stand behind a dot as in C#:
//! `System.Collections.Generic.Dictionary<System.String, P.CacheEntry>`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::addr::{Addr, AddrRange};
use crate::bytes::printable;
use crate::diag::WarningCode;
use crate::image::ModuleKind;
use crate::limits;
use crate::native::NativeSymbols;
use crate::phase::Phase;
use crate::runtimes::nativeaot::heap::{element_type, read_method_table};
use crate::runtimes::nativeaot::metadata::{Kinds, Metadata, Sections};
use crate::runtimes::nativeaot::runtime::Runtime;

/// Symbols of MethodTables: how they begin, before the length of the name.
const VTABLE: &str = "_ZTV";

/// How symbols of types of objects that hold static fields begin.
const STATIC_BASE: &str = "__GCStaticEEType";

/// What such types are called.
const STATICS: &str = "(static fields)";

/// Arrays and pointers in symbols.
const ARRAY: &str = "__Array<";

/// What begins the parameters' number in the name of a generic type.
const ARITY: char = '`';

/// Type arguments within each other that are written out.
const MAX_DEPTH: u32 = 8;

/// Type arguments of a type.
const MAX_ARGUMENTS: u32 = 64;

/// Bytes of a relative pointer, and of an absolute one.
const RELATIVE: u64 = 4;
const ABSOLUTE: u64 = 8;

/// The names of a runtime's types.
pub(super) struct Names<'p> {
    runtime: Arc<Runtime<'p>>,
    sections: OnceLock<Option<Sections>>,
    metadata: OnceLock<Option<Metadata>>,
    symbols: OnceLock<NativeSymbols<'p>>,
    version: OnceLock<Option<(String, &'static str)>>,
    known: Mutex<HashMap<Addr, Option<String>>>,
}

impl<'p> Names<'p> {
    /// Nothing is read yet.
    pub(super) fn new(runtime: Arc<Runtime<'p>>) -> Names<'p> {
        let (sections, metadata, symbols, version) = Default::default();
        Names { runtime, sections, metadata, symbols, version, known: Mutex::default() }
    }

    /// The runtime.
    pub(super) fn runtime(&self) -> &Arc<Runtime<'p>> {
        &self.runtime
    }

    fn sections(&self) -> Option<&Sections> {
        self.sections.get_or_init(|| Sections::find(&self.runtime)).as_ref()
    }

    fn metadata(&self) -> Option<&Metadata> {
        let read = || {
            let _phase = self.runtime.process.enter(Phase::Types);
            let found = self.sections().and_then(|sections| Metadata::read(&self.runtime, sections));
            if found.is_none() {
                let name = crate::image::file_name(&self.runtime.path);
                let why = format!(
                    "{}: types have no names, because the program's metadata is not in the core. Give the folder of \
                     {name} with --symbols DIR",
                    self.runtime.name()
                );
                self.runtime.process.diag.note(WarningCode::NativeaotNames, why);
            }
            found
        };
        self.metadata.get_or_init(read).as_ref()
    }

    /// The version of .NET, and what it is known from.
    pub(super) fn version(&self) -> Option<(&str, &'static str)> {
        let read = || {
            let release = self.runtime.release?;
            self.said_version(release)
                .map(|version| (version, "attributes in its metadata"))
                .or_else(|| self.version_text(release).map(|version| (version, "a string among its constants")))
        };
        let found = self.version.get_or_init(read).as_ref();
        found.map(|(version, from)| (version.as_str(), *from))
    }

    /// As attributes in the metadata have it.
    fn said_version(&self, release: &str) -> Option<String> {
        // Without it nothing is missing that anybody asked for.
        let (_, bytes) = self.sections()?.bytes(&self.runtime, "EmbeddedMetadata")?;
        Metadata::new(bytes, Kinds::of(&self.runtime.layout)?, &[], |_| None).version(release)
    }

    /// The runtime has its own version as a text among its constants, `9.0.22`; a program may have trimmed the attributes away.
    fn version_text(&self, release: &str) -> Option<String> {
        let module = self.runtime.process.modules.get(self.runtime.module)?;
        let ModuleKind::Elf(image) = &module.kind else { return None };
        let begins = [&[0][..], release.as_bytes(), b"."].concat();
        let finder = memchr::memmem::Finder::new(&begins);
        let mut found: Option<String> = None;
        for segment in image.segments.iter().filter(|s| !s.perms.write && !s.perms.exec) {
            let range = AddrRange::sized(segment.range.start, segment.range.len().min(limits::MAX_AOT_SECTION));
            for part in self.runtime.memory.readable_parts(range, limits::MAX_AOT_SECTION) {
                let Ok(bytes) = self.runtime.memory.look(part.start, part.len() as usize) else { continue };
                for at in finder.find_iter(&bytes) {
                    let rest = bytes.get(at + begins.len()..).unwrap_or_default();
                    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
                    if !(1..=3).contains(&digits) || rest.get(digits) != Some(&0) {
                        continue;
                    }
                    let len = begins.len() + digits + 1;
                    self.runtime.memory.keep(part.start.saturating_add(at as u64), len as u64);
                    let version = format!("{release}.{}", String::from_utf8_lossy(rest.get(..digits)?));
                    // Two of them say nothing.
                    if found.as_ref().is_some_and(|other| *other != version) {
                        return None;
                    }
                    found = Some(version);
                }
            }
        }
        found
    }

    /// What the type of strings at `at` is called: it is told by its form.
    pub(super) fn string(&self, at: Addr) -> String {
        self.known(at).unwrap_or_else(|| "System.String".to_owned())
    }

    /// What the type at `at` is called; where nobody knows, where it is.
    pub(super) fn of(&self, at: Addr) -> String {
        self.known(at).unwrap_or_else(|| format!("MethodTable_{at}"))
    }

    /// What the type at `at` is called, where that is known.
    pub(super) fn known(&self, at: Addr) -> Option<String> {
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(name) = known.get(&at) {
                return name.clone();
            }
        }
        let name = self.find(at, 0, &mut { limits::MAX_NAME_PARTS }).map(|name| printable(&name).into_owned());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < limits::MAX_METHOD_TABLES {
            known.insert(at, name.clone());
        }
        name
    }

    /// `left`: how many types more the name may be made of.
    fn find(&self, at: Addr, depth: u32, left: &mut u32) -> Option<String> {
        if depth > MAX_DEPTH || *left == 0 {
            return None;
        }
        *left -= 1;
        if let Some(chain) = self.metadata().and_then(|metadata| metadata.chain(at)) {
            return Some(chain.join("."));
        }
        self.made_of_others(at, depth, left).or_else(|| self.by_symbol(at)).or_else(|| self.by_form(at))
    }

    /// An array, or a generic type with its arguments.
    fn made_of_others(&self, at: Addr, depth: u32, left: &mut u32) -> Option<String> {
        let runtime = &*self.runtime;
        let info = read_method_table(runtime, at).ok().flatten()?;
        let element = element_type(runtime, info.flags);
        if [runtime.flag("ElementSzArray"), runtime.flag("ElementArray")].contains(&element) {
            let of = runtime.view("MethodTable", at).ptr("m_pRelatedParameterType").ok()?;
            let name = self.find(of, depth + 1, left)?;
            // Each dimension has two numbers of four bytes in front of the elements.
            let rank = info.base_size.saturating_sub(24).checked_div(8).unwrap_or(0).clamp(1, 32) as usize;
            return Some(format!("{name}[{}]", ",".repeat(rank - 1)));
        }
        if info.flags & runtime.flag("IsGeneric") == 0 || info.flags & runtime.flag("IsDynamicType") != 0 {
            return None;
        }
        let field = self.generic_definition_field(at, info.flags)?;
        let definition = self.reference(field)?;
        let chain = self.metadata()?.chain(definition)?;
        let arguments = self.arguments(definition, field.checked_add(RELATIVE)?);
        let names: Vec<String> = match arguments {
            Some(all) => {
                all.into_iter().map(|at| self.find(at, depth + 1, left).unwrap_or_else(|| "?".to_owned())).collect()
            }
            None => vec!["?".to_owned()],
        };
        Some(instantiated(&chain, &names))
    }

    /// Where the relative pointer to the definition of a generic type is: behind the slots of virtual methods, the
    /// interfaces and some pointers, of which flags tell that they are there. The first of these is the same in all types
    /// of a module, which tells whether interfaces are relative pointers (they are not in 9.0) and proves the place.
    fn generic_definition_field(&self, at: Addr, flags: u32) -> Option<Addr> {
        let runtime = &*self.runtime;
        let view = runtime.view("MethodTable", at);
        let (slots, interfaces) =
            (u64::from(view.u16("m_usNumVtableSlots").ok()?), u64::from(view.u16("m_usNumInterfaces").ok()?));
        let behind_slots = view.addr_of("m_VTable").ok()?.checked_add(slots.checked_mul(ABSOLUTE)?)?;
        let manager = self.sections()?.place(runtime, "TypeManagerIndirection")?.start;
        let proven = |size: u64| {
            let field = behind_slots.checked_add(interfaces.checked_mul(size)?)?;
            (self.relative(field)? == manager).then_some(field)
        };
        let first = proven(ABSOLUTE).or_else(|| proven(RELATIVE))?;
        let optional = ["HasDispatchMap", "HasFinalizer", "HasSealedVTableEntries"];
        let more = optional.iter().filter(|name| flags & runtime.flag(name) != 0).count() as u64;
        // The pointer to writable data is in all.
        first.checked_add((2 + more).checked_mul(RELATIVE)?)
    }

    /// The type arguments: one stands in the field, more in a list that it leads to.
    fn arguments(&self, definition: Addr, field: Addr) -> Option<Vec<Addr>> {
        let runtime = &*self.runtime;
        let view = runtime.view("MethodTable", definition);
        // A definition has no objects: their size is the number of its parameters.
        let (flags, count) = (view.u32("m_uFlags").ok()?, view.u32("m_uBaseSize").ok()?);
        if flags & runtime.flag("KindMask") != runtime.flag("GenericDefinition")
            || !(1..=MAX_ARGUMENTS).contains(&count)
        {
            return None;
        }
        let list = if count == 1 { field } else { self.relative(field)? };
        (0..u64::from(count)).map(|i| self.reference(list.checked_add(i * RELATIVE)?)).collect()
    }

    /// Where the relative pointer at `at` leads.
    fn relative(&self, at: Addr) -> Option<Addr> {
        at.checked_offset(i64::from(self.runtime.memory.u32(at).ok()? as i32))
    }

    /// The type that the relative pointer at `at` leads to: directly, or with its lowest bit set by way of a cell.
    fn reference(&self, at: Addr) -> Option<Addr> {
        let target = self.relative(at)?;
        if target.is_aligned(2) { Some(target) } else { self.runtime.memory.ptr(target.checked_sub(1)?).ok() }
    }

    /// By the symbol of its MethodTable, as the compiler writes it.
    fn by_symbol(&self, at: Addr) -> Option<String> {
        let symbols = self.symbols.get_or_init(|| NativeSymbols::new(self.runtime.process));
        let found = symbols.resolve_data(at).filter(|symbol| symbol.offset == 0)?;
        if found.raw.starts_with(STATIC_BASE) {
            return Some(STATICS.to_owned());
        }
        let name = found.raw.strip_prefix(VTABLE)?.trim_start_matches(|c: char| c.is_ascii_digit());
        (!name.is_empty()).then(|| of_symbol(name))
    }

    /// Objects that hold static fields have a type of their own without a class: it has nothing but its size, whether
    /// there are references, and System.Object before it.
    fn by_form(&self, at: Addr) -> Option<String> {
        let info = read_method_table(&self.runtime, at).ok().flatten()?;
        (info.flags & !self.runtime.flag("HasPointers") == 0).then(|| STATICS.to_owned())
    }
}

/// ``Dictionary`2`` with two arguments; the last name has what is left.
fn instantiated(chain: &[String], arguments: &[String]) -> String {
    let mut rest = arguments;
    let mut out = String::new();
    for (i, name) in chain.iter().enumerate() {
        if i > 0 {
            out.push('.');
        }
        let split = name.rsplit_once(ARITY).and_then(|(bare, count)| Some((bare, count.parse::<usize>().ok()?)));
        let (bare, arity) = split.unwrap_or((name, 0));
        out.push_str(bare);
        let arity = if i + 1 == chain.len() { rest.len() } else { arity };
        let (own, others) = rest.split_at_checked(arity).unwrap_or((rest, &[]));
        if !own.is_empty() {
            out.push('<');
            out.push_str(&own.join(", "));
            out.push('>');
        }
        rest = others;
    }
    out
}

/// A type's name in a symbol: `__Array<X>` is an array; what an underscore stands for there is not known.
fn of_symbol(name: &str) -> String {
    let mut inner = name;
    let mut arrays = 0;
    while let Some(of) = inner.strip_prefix(ARRAY).and_then(|rest| rest.strip_suffix('>')) {
        inner = of;
        arrays += 1;
    }
    format!("{inner}{}", "[]".repeat(arrays))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(chain: &[&str], arguments: &[&str]) -> String {
        let owned = |list: &[&str]| list.iter().map(|&s| s.to_owned()).collect::<Vec<_>>();
        instantiated(&owned(chain), &owned(arguments))
    }

    #[test]
    fn arguments_stand_behind_the_name_that_counts_them() {
        assert_eq!(written(&["A.List`1"], &["P.CacheEntry"]), "A.List<P.CacheEntry>");
        assert_eq!(written(&["A.Dictionary`2", "Entry"], &["K", "V"]), "A.Dictionary<K, V>.Entry");
        assert_eq!(written(&["A.Outer`1", "Inner`1"], &["K", "V"]), "A.Outer<K>.Inner<V>");
        assert_eq!(written(&["A.List`1"], &["?"]), "A.List<?>");
    }

    #[test]
    fn symbols_of_arrays() {
        assert_eq!(of_symbol("__Array<__Array<UInt8>>"), "UInt8[][]");
        assert_eq!(of_symbol("aot_P_CacheEntry"), "aot_P_CacheEntry");
    }
}
