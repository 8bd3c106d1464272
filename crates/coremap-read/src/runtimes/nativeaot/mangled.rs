//! Names of types as the compiler mangles them in symbols and debug files: `harbor_Ledger_Shelf_1<String>` is
//! `Ledger.Shelf<System.String>`.
//!
//! Each character that is no letter or digit became `_`, and the assembly precedes the name. So names are not taken
//! apart: names that the metadata has are mangled, and compared.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::limits;
use crate::runtimes::nativeaot::naming::{ARITY, instantiated};

/// Prefix of arrays.
const ARRAY: &str = "__Array<";

/// Separates type arguments.
const ARGUMENT: &str = "__";

/// Separates an assembly or a namespace from what follows.
const SEPARATOR: &str = "_";

/// Namespace of the types that have no prefix.
const SYSTEM: &str = "System_";

/// Known names by their mangled form.
#[derive(Default)]
pub(super) struct Mangled {
    /// `None` for a form that several names have.
    known: HashMap<String, Option<Vec<String>>>,
    /// Mangled names of assemblies, each with the separator.
    assemblies: BTreeSet<String>,
    /// Namespaces of the known types by their mangled form, with the separator.
    namespaces: BTreeMap<String, String>,
}

/// The form of a name without its assembly.
fn mangle(chain: &[String]) -> String {
    chain.join(".").chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

impl Mangled {
    /// Adds the name of a type: outer types first, with numbers of parameters.
    pub(super) fn add(&mut self, chain: Vec<String>) {
        let namespace = chain.first().and_then(|outermost| outermost.rsplit_once('.')).map(|(namespace, _)| namespace);
        if let Some(namespace) = namespace {
            let form = mangle(&[namespace.to_owned()]) + SEPARATOR;
            self.namespaces.entry(form).or_insert_with(|| namespace.to_owned());
        }
        let known = self.known.entry(mangle(&chain)).or_insert_with(|| Some(chain.clone()));
        if known.as_ref().is_some_and(|before| *before != chain) {
            *known = None;
        }
    }

    /// Learns an assembly from a symbol of the type with this name.
    pub(super) fn learn(&mut self, symbol: &str, chain: &[String]) {
        let assembly = symbol.strip_suffix(&*mangle(chain)).filter(|rest| rest.ends_with('_'));
        if let Some(assembly) = assembly.filter(|_| self.assemblies.len() < limits::MAX_AOT_ASSEMBLIES) {
            self.assemblies.insert(assembly.to_owned());
        }
    }

    /// The name that a symbol means. `None` if it is not known.
    pub(super) fn name(&self, symbol: &str) -> Option<String> {
        self.parse(symbol, &mut { limits::MAX_NAME_PARTS })
    }

    fn parse(&self, symbol: &str, left: &mut u32) -> Option<String> {
        *left = left.checked_sub(1)?;
        if let Some(element) = symbol.strip_prefix(ARRAY).and_then(|rest| rest.strip_suffix('>')) {
            return Some(format!("{}[]", self.parse(element, left)?));
        }
        let Some(open) = symbol.find('<') else { return Some(instantiated(&self.plain(symbol)?, &[])) };
        let (own, arguments) = (symbol.get(..open)?, symbol.get(open + 1..)?.strip_suffix('>')?);
        let chain = self.plain(own)?;
        let count = chain.iter().filter_map(|name| name.rsplit_once(ARITY)?.1.parse::<usize>().ok()).sum();
        Some(instantiated(&chain, &self.arguments(arguments, count, left)?))
    }

    /// Takes arguments apart, where the separator may be part of a name.
    fn arguments(&self, text: &str, count: usize, left: &mut u32) -> Option<Vec<String>> {
        if count <= 1 {
            return self.parse(text, left).map(|one| vec![one]).filter(|_| count == 1);
        }
        let mut depth = 0_i32;
        for (i, c) in text.char_indices() {
            depth += match c {
                '<' => 1,
                '>' => -1,
                _ => 0,
            };
            if depth != 0 || !text.get(i..).is_some_and(|rest| rest.starts_with(ARGUMENT)) {
                continue;
            }
            let (Some(first), Some(rest)) = (text.get(..i), text.get(i + ARGUMENT.len()..)) else { continue };
            let Some(first) = self.parse(first, left) else { continue };
            if let Some(others) = self.arguments(rest, count - 1, left) {
                return Some([vec![first], others].concat());
            }
        }
        None
    }

    fn plain(&self, symbol: &str) -> Option<Cow<'_, [String]>> {
        let known = |text: &str| self.known.get(text)?.as_deref();
        let in_assembly = || self.assemblies.iter().filter_map(|assembly| symbol.strip_prefix(&**assembly));
        let found = in_assembly().find_map(known).or_else(|| known(&format!("{SYSTEM}{symbol}")));
        found.map(Cow::Borrowed).or_else(|| in_assembly().find_map(|rest| self.by_namespace(rest)).map(Cow::Owned))
    }

    /// Returns the name of a type that no metadata has, such as a static class without reflection. The text after a
    /// namespace of other types is the type's name, if no character of it was replaced.
    fn by_namespace(&self, text: &str) -> Option<Vec<String>> {
        if self.known.contains_key(text) {
            return None;
        }
        let (form, rest) = text.rsplit_once(SEPARATOR).map(|(form, rest)| (format!("{form}{SEPARATOR}"), rest))?;
        // The text before may also contain an enclosing type.
        let around = form.trim_end_matches(SEPARATOR);
        if rest.is_empty() || self.known.contains_key(around) {
            return None;
        }
        Some(vec![format!("{}.{rest}", self.namespaces.get(&form)?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_compared_with_names() {
        let mut mangled = Mangled::default();
        let chain = |parts: &[&str]| parts.iter().map(|&s| s.to_owned()).collect::<Vec<_>>();
        let all: [&[&str]; 8] = [
            &["Ledger.Cache"],
            &["Ledger.Shelf`1"],
            &["Ledger.Harbor", "<>c"],
            &["System.String"],
            &["System.Collections.Generic.KeyValuePair`2"],
            &["A.B_C"],
            &["A_B.C"],
            &["Ledger.Entry"],
        ];
        all.into_iter().for_each(|parts| mangled.add(chain(parts)));
        mangled.learn("harbor_Ledger_Cache", &chain(&["Ledger.Cache"]));
        mangled.learn("S_P_CoreLib_System_String", &chain(&["System.String"]));
        mangled.learn("String", &chain(&["System.String"]));
        for (symbol, name) in [
            ("harbor_Ledger_Cache", Some("Ledger.Cache")),
            ("harbor_Ledger_Shelf_1<String>", Some("Ledger.Shelf<System.String>")),
            ("harbor_Ledger_Harbor___c", Some("Ledger.Harbor.<>c")),
            ("harbor_Ledger_Shelf_1<__Array<harbor_Ledger_Entry>>", Some("Ledger.Shelf<Ledger.Entry[]>")),
            (
                "harbor_Ledger_Shelf_1<S_P_CoreLib_System_Collections_Generic_KeyValuePair_2<String__harbor_Ledger_Entry>>",
                Some("Ledger.Shelf<System.Collections.Generic.KeyValuePair<System.String, Ledger.Entry>>"),
            ),
            // Not in the metadata: a namespace of other types, and what may be a nested type or have an underscore.
            ("harbor_Ledger_Hidden", Some("Ledger.Hidden")),
            ("harbor_Ledger_Cache_Inner", None),
            ("harbor_Ledger_Some_Name", None),
            // Two names have this form; no assembly of this name; an unknown argument.
            ("harbor_A_B_C", None),
            ("other_Ledger_Cache", None),
            ("harbor_Ledger_Shelf_1<harbor_Nobody>", None),
        ] {
            assert_eq!(mangled.name(symbol).as_deref(), name, "{symbol}");
        }
    }
}
