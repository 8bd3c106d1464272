//! Names of types as SOS `dumpheap` and ClrMD show them:
//! `System.Collections.Generic.List<Lab.CacheEntry>`.
//!
//! They differ from the runtime's own names (`names`): arguments stand in `<>`
//! behind the name whose arity counts them, also in the middle of a chain of
//! nested types, and without their assemblies.

use crate::addr::Addr;
use crate::dotnet::naming::names::{Text, dimensions, unnamed};
use crate::dotnet::types::{ModuleInfo, Shape, TypeHandle, TypeSystem};
use crate::image::metadata::Token;
use crate::limits;

/// Before the number of a type's own parameters in its name.
const ARITY: char = '`';

impl<'p> TypeSystem<'p> {
    /// A type's name, as heap listings show it; what can't be read is left out.
    pub fn display_name(&self, method_table: Addr) -> String {
        let mut out = Text::default();
        self.display(&mut out, TypeHandle(method_table), 0);
        out.into_string()
    }

    fn display(&self, out: &mut Text, handle: TypeHandle, depth: u32) {
        if depth > limits::MAX_TYPE_DEPTH || out.is_full() {
            return out.push("…");
        }
        let suffixed = |out: &mut Text, of: TypeHandle, suffix: &str| {
            self.display(out, of, depth + 1);
            out.push(suffix);
        };
        match self.shape(handle) {
            Err(_) => out.push(&format!("(type {})", handle.0)),
            Ok(Shape::SzArray(of)) => suffixed(out, of, "[]"),
            Ok(Shape::Ptr(of)) => suffixed(out, of, "*"),
            Ok(Shape::ByRef(of)) => suffixed(out, of, "&"),
            // One dimension that is not counted from 0: both tools read `[*]`
            // as a list of arguments.
            Ok(Shape::Array(of, 0 | 1)) => suffixed(out, of, "<*>"),
            Ok(Shape::Array(of, rank)) => suffixed(out, of, &dimensions(rank)),
            Ok(Shape::FnPtr(_)) => out.push("(fnptr)"),
            Ok(Shape::Parameter(module, token)) => out.push(&self.parameter_name(module, token)),
            Ok(Shape::Named { module, token, arguments, .. }) => {
                if token.is_nil() {
                    return out.push("(dynamicClass)");
                }
                self.display_type_def(out, &self.module(module), token, &arguments, depth);
            }
        }
    }

    fn display_type_def(
        &self,
        out: &mut Text,
        module: &ModuleInfo<'p>,
        token: Token,
        mut arguments: &[TypeHandle],
        depth: u32,
    ) {
        let chain = module.metadata.as_ref().map(|metadata| self.enclosing_chain(metadata, token));
        let Some((metadata, chain)) = module.metadata.as_ref().zip(chain) else {
            out.push(&format!("{}!{token}", module.name()));
            return self.display_arguments(out, arguments, depth);
        };
        for (i, &rid) in chain.iter().rev().enumerate() {
            if i > 0 {
                out.push("+");
            }
            // Each type has a name (II.22.37); none is found where memory was lost.
            let Some(row) = metadata.type_def(rid).filter(|row| !row.name.is_empty()) else {
                out.push(&unnamed(module, rid, i));
                continue;
            };
            if !row.namespace.is_empty() {
                out.escaped(&row.namespace);
                out.push(".");
            }
            let (name, arity) = split_arity(&row.name);
            out.escaped(name);
            let (own, rest) = arguments.split_at_checked(arity).unwrap_or((arguments, &[]));
            self.display_arguments(out, own, depth);
            arguments = rest;
        }
        // Names that count no parameters, as F# and obfuscators make them.
        self.display_arguments(out, arguments, depth);
    }

    fn display_arguments(&self, out: &mut Text, arguments: &[TypeHandle], depth: u32) {
        if arguments.is_empty() {
            return;
        }
        out.push("<");
        for (i, &argument) in arguments.iter().enumerate() {
            if i > 0 {
                out.push(", ");
            }
            self.display(out, argument, depth + 1);
        }
        out.push(">");
    }
}

/// ``Dictionary`2`` is `Dictionary` with two parameters of its own.
pub(in crate::dotnet) fn split_arity(name: &str) -> (&str, usize) {
    let split = name.rsplit_once(ARITY).and_then(|(head, count)| Some((head, count.parse::<u16>().ok()?)));
    split.map_or((name, 0), |(head, count)| (head, usize::from(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arity_is_at_the_end_and_a_number() {
        assert_eq!(split_arity("Dictionary`2"), ("Dictionary", 2));
        assert_eq!(split_arity("Entry"), ("Entry", 0));
        assert_eq!(split_arity("A`b"), ("A`b", 0));
        assert_eq!(split_arity("A`99999"), ("A`99999", 0));
        assert_eq!(split_arity("<Run>d__3`1"), ("<Run>d__3", 1));
    }
}
