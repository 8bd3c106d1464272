//! The shrunk cores for methods, and what the official data-access library
//! answered of sampled addresses over the whole cores.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::run::{Output, run};

/// Name, and whether the core has the metadata of its modules.
pub const METHODS: &[(&str, bool)] = &[
    ("dotnet31-methods", true),
    ("dotnet8-methods", true),
    ("dotnet9-methods", false),
    ("dotnet10-methods", true),
    ("dotnet10-kernel-methods", false),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cores")
}

/// Path of the core.
pub fn core(name: &str) -> String {
    folder().join(format!("{name}.core.zst")).to_str().unwrap().to_owned()
}

/// The official rows.
pub fn official(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder().join(format!("{name}.official.json"))).unwrap();
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(rows.len() >= 50, "{name}: {} rows", rows.len());
    rows
}

/// The official row of an address.
#[track_caller]
pub fn row(name: &str, ip: &str) -> Value {
    official(name).into_iter().find(|r| r["ip"] == ip).unwrap_or_else(|| panic!("{name}: no row of {ip}"))
}

/// All sampled addresses.
pub fn ips(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|r| r["ip"].as_str().unwrap().to_owned()).collect()
}

/// `ip2method` of these addresses.
#[track_caller]
pub fn ip2method(options: &[&str], ips: &[impl AsRef<str>], core: &str) -> Output {
    let ips = ips.iter().map(|ip| ip.as_ref());
    let out = run(["ip2method"].into_iter().chain(options.iter().copied()).chain(ips).chain([core]));
    out.is_sound();
    out
}
