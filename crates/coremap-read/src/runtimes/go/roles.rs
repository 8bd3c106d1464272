//! Roles of types in the search for what retains memory, by the type's name.

use crate::runtimes::api::TypeRole;
use crate::runtimes::go::code::is_program;

/// Types of the runtime that reach nearly everything.
const HUBS: [&str; 5] = ["runtime.g", "runtime.m", "runtime.p", "runtime.sudog", "runtime._defer"];

/// Prefixes of the names of a map's internal types.
const PARTS: [&str; 3] = ["map.group[", "map.bucket[", "map.table"];

/// The role of a type. `module`: path of the program's own module.
pub(super) fn role(name: &str, module: Option<&str>) -> TypeRole {
    let plain = name.strip_prefix("[]").unwrap_or(name);
    if PARTS.iter().any(|part| plain.starts_with(part)) {
        return TypeRole::Part;
    }
    if name.starts_with("map[") || name.starts_with("chan ") || name.starts_with("[]") {
        return TypeRole::Collection;
    }
    if HUBS.contains(&name) {
        return TypeRole::Hub;
    }
    if name.starts_with('(') || name == "string data" {
        return TypeRole::Part;
    }
    let function = name.strip_prefix("closure ").unwrap_or(name).trim_start_matches('*');
    if is_program(function, module) { TypeRole::Program } else { TypeRole::Library }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_by_name() {
        let all = [
            ("main.Session", TypeRole::Program),
            ("map[string]*main.Session", TypeRole::Collection),
            ("[]map.group[string]*main.Session", TypeRole::Part),
            ("[]main.Record", TypeRole::Collection),
            ("chan *main.Job", TypeRole::Collection),
            ("net/http.conn", TypeRole::Library),
            ("runtime.g", TypeRole::Hub),
            ("(type unknown, 48 bytes)", TypeRole::Part),
            ("closure main.counter.func1", TypeRole::Program),
        ];
        for (name, of) in all {
            assert_eq!(role(name, None), of, "{name}");
        }
    }
}
