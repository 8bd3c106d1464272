//! What may stand in a field, and answers whose envelope is as promised.

use serde_json::Value;

use crate::support::builder::small_core;
use crate::support::cases::names;
use crate::support::real;
use crate::support::run::run;

/// What may stand in a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// `"0x7f42d256e000"`: lower case, no leading zeros
    Address,
    /// Whole number from 0 on
    Number,
    /// Whole number, may be below 0
    Delta,
    Text,
    Bool,
    List,
    Object,
    /// Not filled by this version of any command on these cores
    Null,
}
pub(crate) use Form::*;

pub(crate) fn has_form(v: &Value, form: Form) -> bool {
    match form {
        Address => v.as_str().and_then(|s| s.strip_prefix("0x")).is_some_and(|hex| {
            let number = u64::from_str_radix(hex, 16);
            number.is_ok_and(|n| format!("{n:x}") == hex)
        }),
        Number => v.is_u64(),
        Delta => v.is_i64() || v.is_u64(),
        Text => v.is_string(),
        Bool => v.is_boolean(),
        List => v.is_array(),
        Object => v.is_object(),
        Null => v.is_null(),
    }
}

/// Each field is there and has its form; with `?` before the name it may be
/// null, which says: unknown.
#[track_caller]
pub(crate) fn holds(what: &str, v: &Value, fields: &[(&str, Form)]) {
    for &(name, form) in fields {
        let (name, unknown) = name.strip_prefix('?').map_or((name, false), |n| (n, true));
        let field = v.get(name).unwrap_or_else(|| panic!("{what}: no field {name} in {v}"));
        assert!(has_form(field, form) || (unknown && field.is_null()), "{what}: {name} is {field}, not {form:?}");
    }
}

#[track_caller]
pub(crate) fn all_hold(what: &str, list: &Value, fields: &[(&str, Form)]) {
    let list = list.as_array().unwrap_or_else(|| panic!("{what}: not a list"));
    assert!(!list.is_empty(), "{what}: empty, so nothing was checked");
    for v in list {
        holds(what, v, fields);
    }
}

/// The answer, its envelope checked.
#[track_caller]
pub(crate) fn answer(args: &[&str], core: &str) -> Value {
    let out = run(args.iter().copied().chain(["--json", core]));
    out.is_sound();
    let v = out.json();
    let what = args.join(" ");
    let fields =
        [("schema_version", Number), ("coremap", Text), ("command", Text), ("core", Object), ("warnings", List)];
    holds(&what, &v, &fields);
    assert_eq!(v["schema_version"], 1);
    assert_eq!(v["coremap"], env!("CARGO_PKG_VERSION"));
    assert_eq!(v["command"], args[0]);
    let core = [
        ("path", Text),
        ("size", Number),
        ("producer", Text),
        ("arch", Text),
        ("?pid", Number),
        ("truncated", Bool),
        ("threads", Number),
        ("runtimes", List),
    ];
    holds(&what, &v["core"], &core);
    assert!(
        ["kernel", "gcore", "createdump", "coremap", "live", "unknown"].iter().any(|p| v["core"]["producer"] == *p)
    );
    assert!(["x86_64", "aarch64"].iter().any(|a| v["core"]["arch"] == *a));
    for w in v["warnings"].as_array().unwrap() {
        holds(&what, w, &[("code", Text), ("message", Text)]);
    }
    v
}

/// Every core, so that every unknown is met once.
pub(crate) fn on_each_core(test: impl Fn(&str, &str)) {
    for name in names("process") {
        test(name, real::plain(name).to_str().unwrap());
    }
    test("synthetic", small_core().write().path().to_str().unwrap());
}
