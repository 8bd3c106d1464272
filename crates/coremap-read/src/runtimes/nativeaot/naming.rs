//! Names of types: from the program's metadata, from symbols, or else from the address of the MethodTable.
//!
//! Names have the form of .NET's heap listings, except that nested types follow a dot, as in C#:
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

/// Prefix of MethodTable symbols. The length of the name follows.
const VTABLE: &str = "_ZTV";

/// Prefix of symbols for the types of objects with static fields.
const STATIC_BASE: &str = "__GCStaticEEType";

/// Name for such types.
const STATICS: &str = "(static fields)";

/// Prefix of arrays in symbols.
const ARRAY: &str = "__Array<";

/// Separates a generic type's name from its number of parameters.
const ARITY: char = '`';

/// Maximum nesting of type arguments that are printed.
const MAX_DEPTH: u32 = 8;

/// Maximum number of type arguments of a type.
const MAX_ARGUMENTS: u32 = 64;

/// Bytes of a relative pointer, and of an absolute one.
const RELATIVE: u64 = 4;
const ABSOLUTE: u64 = 8;

/// Names of a runtime's types, read on demand.
pub(super) struct Names<'p> {
    runtime: Arc<Runtime<'p>>,
    sections: OnceLock<Option<Sections>>,
    metadata: OnceLock<Option<Metadata>>,
    symbols: OnceLock<NativeSymbols<'p>>,
    version: OnceLock<Option<(String, &'static str)>>,
    known: Mutex<HashMap<Addr, Option<String>>>,
}

impl<'p> Names<'p> {
    pub(super) fn new(runtime: Arc<Runtime<'p>>) -> Names<'p> {
        let (sections, metadata, symbols, version) = Default::default();
        Names { runtime, sections, metadata, symbols, version, known: Mutex::default() }
    }

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

    /// Version of .NET, and where it was read.
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

    /// Version from attributes in the metadata.
    fn said_version(&self, release: &str) -> Option<String> {
        // Read without `metadata()`, whose warning about missing names does not apply here.
        let (_, bytes) = self.sections()?.bytes(&self.runtime, "EmbeddedMetadata")?;
        Metadata::new(bytes, Kinds::of(&self.runtime.layout)?, &[], |_| None).version(release)
    }

    /// Version from a string constant of the runtime, such as `9.0.22`. Trimming may have removed the program's
    /// attributes.
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
                    // Two different strings are ambiguous.
                    if found.as_ref().is_some_and(|other| *other != version) {
                        return None;
                    }
                    found = Some(version);
                }
            }
        }
        found
    }

    /// Name of the type of strings at `at`, which is recognised by its form.
    pub(super) fn string(&self, at: Addr) -> String {
        self.known(at).unwrap_or_else(|| "System.String".to_owned())
    }

    /// Name of the type at `at`. An unknown type is named by its address.
    pub(super) fn of(&self, at: Addr) -> String {
        self.known(at).unwrap_or_else(|| format!("MethodTable_{at}"))
    }

    /// Name of the type at `at`. `None` if none can be found.
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

    /// Finds the name of a type. `left`: remaining number of types that the name may consist of.
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

    /// Name of an array, or of a generic type with its arguments.
    fn made_of_others(&self, at: Addr, depth: u32, left: &mut u32) -> Option<String> {
        let runtime = &*self.runtime;
        let info = read_method_table(runtime, at).ok().flatten()?;
        let element = element_type(runtime, info.flags);
        if [runtime.flag("ElementSzArray"), runtime.flag("ElementArray")].contains(&element) {
            let of = runtime.view("MethodTable", at).ptr("m_pRelatedParameterType").ok()?;
            let name = self.find(of, depth + 1, left)?;
            // Each dimension has two 4-byte numbers before the elements.
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

    /// Address of the relative pointer to a generic type's definition. It follows the virtual method slots, the
    /// interfaces, and pointers that depend on flags. The first of these pointers has the same target in all types of a
    /// module. That confirms the address, and shows whether interfaces are relative pointers (not in 9.0).
    fn generic_definition_field(&self, at: Addr, flags: u32) -> Option<Addr> {
        let runtime = &*self.runtime;
        let view = runtime.view("MethodTable", at);
        let (slots, interfaces) =
            (u64::from(view.u16("m_usNumVtableSlots").ok()?), u64::from(view.u16("m_usNumInterfaces").ok()?));
        let behind_slots = view.addr_of("m_VTable").ok()?.checked_add(slots.checked_mul(ABSOLUTE)?)?;
        let manager = self.sections()?.section_range(runtime, "TypeManagerIndirection")?.start;
        let proven = |size: u64| {
            let field = behind_slots.checked_add(interfaces.checked_mul(size)?)?;
            (self.relative(field)? == manager).then_some(field)
        };
        let first = proven(ABSOLUTE).or_else(|| proven(RELATIVE))?;
        let optional = ["HasDispatchMap", "HasFinalizer", "HasOptionalFields", "HasSealedVTableEntries"];
        let more = optional.iter().filter(|name| flags & runtime.flag(name) != 0).count() as u64;
        // All types have the pointer to writable data.
        first.checked_add((2 + more).checked_mul(RELATIVE)?)
    }

    /// Type arguments. A single one is in the field itself, several are in a list that it refers to.
    fn arguments(&self, definition: Addr, field: Addr) -> Option<Vec<Addr>> {
        let runtime = &*self.runtime;
        let view = runtime.view("MethodTable", definition);
        let flags = view.u32("m_uFlags").ok()?;
        // A generic definition has no objects. From 9.0 on its base size is the number of parameters.
        let count = match view.u16("GenericParameterCount") {
            Ok(count) => u32::from(count),
            Err(_) => view.u32("m_uBaseSize").ok()?,
        };
        if flags & runtime.flag("KindMask") != runtime.flag("GenericDefinition")
            || !(1..=MAX_ARGUMENTS).contains(&count)
        {
            return None;
        }
        let list = if count == 1 { field } else { self.relative(field)? };
        (0..u64::from(count)).map(|i| self.reference(list.checked_add(i * RELATIVE)?)).collect()
    }

    /// Target of the relative pointer at `at`.
    fn relative(&self, at: Addr) -> Option<Addr> {
        at.checked_offset(i64::from(self.runtime.memory.u32(at).ok()? as i32))
    }

    /// Type that the relative pointer at `at` refers to: directly, or through a cell if its lowest bit is set.
    fn reference(&self, at: Addr) -> Option<Addr> {
        let target = self.relative(at)?;
        if target.is_aligned(2) { Some(target) } else { self.runtime.memory.ptr(target.checked_sub(1)?).ok() }
    }

    /// Name from the symbol of the MethodTable, as the compiler writes it.
    fn by_symbol(&self, at: Addr) -> Option<String> {
        let symbols = self.symbols.get_or_init(|| NativeSymbols::new(self.runtime.process));
        let found = symbols.resolve_data(at).filter(|symbol| symbol.offset == 0)?;
        if found.raw.starts_with(STATIC_BASE) {
            return Some(STATICS.to_owned());
        }
        let name = found.raw.strip_prefix(VTABLE)?.trim_start_matches(|c: char| c.is_ascii_digit());
        (!name.is_empty()).then(|| of_symbol(name))
    }

    /// Name for the types of objects with static fields, which have no class. Such a type has only a size, the flag for
    /// references, and System.Object as base.
    fn by_form(&self, at: Addr) -> Option<String> {
        let info = read_method_table(&self.runtime, at).ok().flatten()?;
        (info.flags & !self.runtime.flag("HasPointers") == 0).then(|| STATICS.to_owned())
    }
}

/// Inserts type arguments into names like ``Dictionary`2``. The last name gets all remaining arguments.
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

/// Name of a type from a symbol: `__Array<X>` is an array. Which characters the underscores replace is unknown.
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
