//! Names of types: from the program's metadata, from symbols, or else from the address of the MethodTable.
//!
//! Names have the form of .NET's heap listings, except that nested types follow a dot, as in C#:
//! `System.Collections.Generic.Dictionary<System.String, P.CacheEntry>`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::addr::{Addr, AddrRange};
use crate::bytes::printable;
use crate::diag::WarningCode;
use crate::image::ModuleKind;
use crate::limits;
use crate::native::NativeSymbols;
use crate::native::symbols::{DebugClass, debug_classes};
use crate::phase::Phase;
use crate::runtimes::nativeaot::generics;
use crate::runtimes::nativeaot::heap::{element_type, read_method_table};
use crate::runtimes::nativeaot::metadata::{Kinds, Metadata, Sections};
use crate::runtimes::nativeaot::runtime::Runtime;

/// Prefix of MethodTable symbols. The length of the name follows.
const VTABLE: &str = "_ZTV";

/// Prefix of symbols for the types of objects with static fields.
const STATIC_BASE: &str = "__GCStaticEEType";

/// Shown name of such types.
const STATICS: &str = "(static fields)";

/// Base type of objects with the stored values of suspended methods (runtime async), and the shown name for types
/// derived from it.
const CONTINUATION: &str = "System.Runtime.CompilerServices.Continuation";
const CONTINUATION_OBJECT: &str = "(continuation)";

/// Prefix of arrays in symbols.
const ARRAY: &str = "__Array<";

/// Separates a generic type's name from its number of parameters.
pub(super) const ARITY: char = '`';

/// Maximum number of classes from a class to System.Object.
const MAX_BASES: usize = 64;

/// Maximum nesting of type arguments that are printed.
const MAX_DEPTH: u32 = 8;

/// Names of a runtime's types, read on demand.
pub(super) struct Names<'p> {
    runtime: Arc<Runtime<'p>>,
    sections: OnceLock<Option<Sections>>,
    metadata: OnceLock<Option<Metadata>>,
    symbols: OnceLock<NativeSymbols<'p>>,
    version: OnceLock<Option<(String, &'static str)>>,
    classes: OnceLock<HashMap<String, DebugClass>>,
    known: Mutex<HashMap<Addr, Option<String>>>,
}

impl<'p> Names<'p> {
    pub(super) fn new(runtime: Arc<Runtime<'p>>) -> Names<'p> {
        let (sections, metadata, symbols, version, classes) = Default::default();
        Names { runtime, sections, metadata, symbols, version, classes, known: Mutex::default() }
    }

    pub(super) fn runtime(&self) -> &Arc<Runtime<'p>> {
        &self.runtime
    }

    pub(super) fn sections(&self) -> Option<&Sections> {
        self.sections.get_or_init(|| Sections::find(&self.runtime)).as_ref()
    }

    pub(super) fn metadata(&self) -> Option<&Metadata> {
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
            for part in self.runtime.memory().readable_parts(range, limits::MAX_AOT_SECTION) {
                let Ok(bytes) = self.runtime.memory().look(part.start, part.len() as usize) else { continue };
                for at in finder.find_iter(&bytes) {
                    let rest = bytes.get(at + begins.len()..).unwrap_or_default();
                    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
                    if !(1..=3).contains(&digits) || rest.get(digits) != Some(&0) {
                        continue;
                    }
                    let len = begins.len() + digits + 1;
                    self.runtime.memory().keep(part.start.saturating_add(at as u64), len as u64);
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
        let manager = self.sections().and_then(|all| all.section_range(runtime, "TypeManagerIndirection"));
        let found = generics::instance(runtime, manager.map(|range| range.start), at, info.flags)?;
        let chain = self.metadata()?.chain(found.definition)?;
        let names: Vec<String> = match found.arguments {
            Some(all) => {
                all.into_iter().map(|at| self.find(at, depth + 1, left).unwrap_or_else(|| "?".to_owned())).collect()
            }
            None => vec!["?".to_owned()],
        };
        Some(instantiated(&chain, &names))
    }

    /// Symbols of the process.
    pub(super) fn symbols(&self) -> &NativeSymbols<'p> {
        self.symbols.get_or_init(|| NativeSymbols::new(self.runtime.process))
    }

    /// Classes of the debug file, by their mangled names.
    pub(super) fn classes(&self) -> &HashMap<String, DebugClass> {
        self.classes.get_or_init(|| {
            let module = self.runtime.process.modules.get(self.runtime.module);
            let all = module.map_or_else(Vec::new, |module| debug_classes(self.runtime.process, module));
            // A class may be in several units, and have its variables in one of them.
            let mut out: HashMap<String, DebugClass> = HashMap::new();
            for class in all {
                match out.entry(class.name.clone()) {
                    Entry::Vacant(new) => drop(new.insert(class)),
                    Entry::Occupied(mut known) if known.get().places.is_empty() && !class.places.is_empty() => {
                        known.insert(class);
                    }
                    Entry::Occupied(_) => {}
                }
            }
            out
        })
    }

    /// Name of the field at `offset` of a class, by the debug file: inside a value type with the distance from its
    /// start.
    pub(super) fn field(&self, at: Addr, offset: u64) -> Option<String> {
        let flags = read_method_table(&self.runtime, at).ok().flatten()?.flags;
        // Fields of value types are counted from another place.
        if element_type(&self.runtime, flags) != self.runtime.flag("ElementClass") {
            return None;
        }
        let symbol = self.symbols().resolve_data(at).filter(|symbol| symbol.offset == 0)?;
        let class = symbol.raw.strip_prefix(VTABLE)?.trim_start_matches(|c: char| c.is_ascii_digit());
        field_of(self.classes(), class, offset)
    }

    /// Name from the symbol of the MethodTable, as the compiler writes it.
    fn by_symbol(&self, at: Addr) -> Option<String> {
        let found = self.symbols().resolve_data(at).filter(|symbol| symbol.offset == 0)?;
        if found.raw.starts_with(STATIC_BASE) {
            return Some(STATICS.to_owned());
        }
        let name = found.raw.strip_prefix(VTABLE)?.trim_start_matches(|c: char| c.is_ascii_digit());
        (!name.is_empty()).then(|| of_symbol(name))
    }

    /// Name for types of objects that have no class: static variables, and continuations of runtime async.
    fn by_form(&self, at: Addr) -> Option<String> {
        let flags = read_method_table(&self.runtime, at).ok().flatten()?.flags;
        if self.is_of_statics(at, flags) {
            return Some(STATICS.to_owned());
        }
        let base = self.runtime.view("MethodTable", at).ptr("m_pBaseType").ok()?;
        let continues = || self.metadata()?.chain(base).filter(|chain| chain.join(".") == CONTINUATION);
        (self.has_no_class(flags) && continues().is_some()).then(|| CONTINUATION_OBJECT.to_owned())
    }

    /// Whether a type has only a size and the flag for references, and no class.
    fn has_no_class(&self, flags: u32) -> bool {
        flags & !self.runtime.flag("HasPointers") == 0
    }

    /// Whether objects of a type contain static variables: it has no class, and System.Object as base.
    pub(super) fn is_of_statics(&self, at: Addr, flags: u32) -> bool {
        let base = |at: Addr| self.runtime.view("MethodTable", at).ptr("m_pBaseType").ok();
        self.has_no_class(flags) && base(at).and_then(base).is_some_and(Addr::is_null)
    }
}

/// The field at `offset` of a class or of its bases.
fn field_of(classes: &HashMap<String, DebugClass>, class: &str, offset: u64) -> Option<String> {
    let mut best: Option<&(u64, String)> = None;
    let mut next = Some(class);
    for _ in 0..MAX_BASES {
        let Some(class) = next.and_then(|name| classes.get(name)) else { break };
        let before = class.fields.iter().filter(|(at, _)| *at <= offset);
        best = before.chain(best).max_by_key(|(at, _)| *at);
        next = class.base.as_deref();
    }
    let (at, name) = best?;
    match offset - at {
        0 => Some(name.clone()),
        more => Some(format!("{name}.+{more:#x}")),
    }
}

/// A type's name without the numbers of its parameters.
pub(super) fn without_arity(chain: &[String]) -> String {
    instantiated(chain, &[])
}

/// Inserts type arguments into names like ``Dictionary`2``. The last name gets all remaining arguments.
pub(super) fn instantiated(chain: &[String], arguments: &[String]) -> String {
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
    fn fields_of_a_class_and_of_its_bases() {
        let class = |base: Option<&str>, fields: &[(u64, &str)]| DebugClass {
            base: base.map(str::to_owned),
            fields: fields.iter().map(|&(at, name)| (at, name.to_owned())).collect(),
            ..DebugClass::default()
        };
        let classes = HashMap::from([
            ("Derived".to_owned(), class(Some("Base"), &[(24, "Own"), (48, "Last")])),
            ("Base".to_owned(), class(Some("Base"), &[(8, "Name"), (16, "Next")])),
        ]);
        let field = |name: &str, at| field_of(&classes, name, at);
        assert_eq!(field("Derived", 16).as_deref(), Some("Next"));
        assert_eq!(field("Derived", 24).as_deref(), Some("Own"));
        assert_eq!(field("Derived", 40).as_deref(), Some("Own.+0x10"));
        assert_eq!((field("Derived", 4), field("Unknown", 8)), (None, None));
    }

    #[test]
    fn symbols_of_arrays() {
        assert_eq!(of_symbol("__Array<__Array<UInt8>>"), "UInt8[][]");
        assert_eq!(of_symbol("aot_P_CacheEntry"), "aot_P_CacheEntry");
    }
}
