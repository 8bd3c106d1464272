//! Names of objects by their constructors, as in V8's heap snapshots (JSReceiver::GetConstructorName).

use crate::runtimes::v8::vm::{MapInfo, Vm, strong};

/// Maximum number of back pointers from a map to its constructor.
const MAX_BACK_POINTERS: usize = 2048;

/// Maximum number of prototypes that are visited.
const MAX_PROTOTYPES: usize = 64;

/// Maximum length of a name in characters.
const MAX_NAME: usize = 256;

/// The symbol whose value names an object.
const TAG: &str = "Symbol(Symbol.toStringTag)";

/// Name of the objects of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClassName {
    pub name: String,
    /// SharedFunctionInfo of the constructor. `None` if the name comes from elsewhere.
    pub constructor: Option<u64>,
}

impl Vm<'_> {
    /// Returns the constructor of a map: a function, a template, or another object.
    fn constructor(&self, map: u64) -> Option<u64> {
        let mut at = self.object(map, self.offsets.map_constructor)?;
        for _ in 0..MAX_BACK_POINTERS {
            if self.type_of(at) != Some(self.map_type) {
                break;
            }
            at = self.object(at, self.offsets.map_constructor)?;
        }
        // A map with a function for a non-instance prototype stores both as a pair.
        if self.is(at, "TUPLE2") { self.object(at, 8) } else { Some(at) }
    }

    fn named_function(&self, function: u64) -> Option<ClassName> {
        let shared = self.is_function(function).then(|| self.shared(function)).flatten()?;
        let name = self.function_name(shared);
        (!name.is_empty()).then_some(ClassName { name, constructor: Some(shared) })
    }

    /// Returns the name of a template's class: its first field that is a string.
    fn template_name(&self, template: u64) -> Option<ClassName> {
        self.is(template, "FUNCTION_TEMPLATE_INFO").then_some(())?;
        let mut fields = (8..120).step_by(8).filter_map(|offset| self.object(template, offset));
        let name = self.text(fields.find(|field| self.is_string(*field))?, MAX_NAME)?;
        (!name.is_empty()).then_some(ClassName { name, constructor: None })
    }

    /// Returns the name of objects with a map. `object` is one of them, if one is known.
    pub(super) fn class_name(&self, map: u64, info: &MapInfo, object: Option<u64>) -> ClassName {
        let constructor = self.constructor(map);
        let by_constructor = constructor
            .and_then(|constructor| self.named_function(constructor).or_else(|| self.template_name(constructor)));
        // Whether the constructor created the object itself (new.target is the base).
        let is_base = info.bit_field2 & 1 != 0 && !info.is_prototype();
        if let Some(class) = by_constructor.as_ref().filter(|class| is_base && class.name != "Object") {
            return class.clone();
        }
        let first = object.or_else(|| self.object(map, self.offsets.map_prototype));
        for at in self.prototypes(first) {
            let tag = self.own(at, TAG).and_then(strong).filter(|tag| self.is_string(*tag));
            if let Some(name) = tag.and_then(|tag| self.text(tag, MAX_NAME)) {
                return ClassName { name, constructor: None };
            }
        }
        let first = if info.is_prototype() { first } else { self.object(map, self.offsets.map_prototype) };
        for at in self.prototypes(first) {
            let constructor = self.own(at, "constructor").and_then(strong);
            if let Some(class) = constructor.and_then(|constructor| self.named_function(constructor)) {
                return class;
            }
        }
        let is = |name: &str| self.types.is(info.instance_type, name);
        if is("JS_ASYNC_FUNCTION_OBJECT") || is("JS_GENERATOR_OBJECT") || is("JS_ASYNC_GENERATOR_OBJECT") {
            return ClassName { name: "Generator".to_owned(), constructor: None };
        }
        if is("JS_GLOBAL_PROXY") || is("JS_GLOBAL_OBJECT") {
            return ClassName { name: "global".to_owned(), constructor: None };
        }
        by_constructor.unwrap_or_else(|| ClassName { name: "Object".to_owned(), constructor: None })
    }

    /// Returns `first` and its prototypes.
    fn prototypes(&self, first: Option<u64>) -> impl Iterator<Item = u64> {
        let is_object = |at: &u64| self.type_of(*at).is_some_and(|number| number >= self.first_object);
        let next = move |at: &u64| self.object(self.map_of(*at)?.0, self.offsets.map_prototype).filter(is_object);
        std::iter::successors(first.filter(is_object), next).take(MAX_PROTOTYPES)
    }

    /// Returns the name of an object that is not a JavaScript object, as in V8's heap snapshots: `system / Map`.
    pub(super) fn internal_name(&self, number: u16) -> String {
        if number == self.native_context() {
            return "system / NativeContext".to_owned();
        }
        if self.is_context_type(number) {
            return "system / Context".to_owned();
        }
        match self.types.name(number) {
            Some(name) => format!("system / {}", camel(name)),
            None => format!("system / type {number}"),
        }
    }
}

/// Returns `FIXED_ARRAY` as `FixedArray`.
fn camel(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        format!("{first}{}", rest.to_ascii_lowercase())
    };
    name.split('_').map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::camel;

    #[test]
    fn types_are_written_as_v8_writes_them() {
        assert_eq!([camel("FIXED_ARRAY"), camel("BIGINT"), camel("TUPLE2")], ["FixedArray", "Bigint", "Tuple2"]);
    }
}
