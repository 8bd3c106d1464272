//! The shrunk cores for methods, and the official data-access library's answers
//! about sampled addresses in the whole cores.

use serde_json::Value;

use super::real;
use super::run::{Output, run};

/// Path of the decompressed core, as an argument.
pub fn core(name: &str) -> String {
    real::plain(name).to_str().unwrap().to_owned()
}

pub fn official(name: &str) -> Vec<Value> {
    let rows: Vec<Value> = serde_json::from_value(real::official(name)).unwrap();
    assert!(rows.len() >= 50, "{name}: {} rows", rows.len());
    rows
}

#[track_caller]
pub fn row(name: &str, ip: &str) -> Value {
    official(name).into_iter().find(|r| r["ip"] == ip).unwrap_or_else(|| panic!("{name}: no row of {ip}"))
}

pub fn ips(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|r| r["ip"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
pub fn ip2method(options: &[&str], ips: &[impl AsRef<str>], core: &str) -> Output {
    let ips = ips.iter().map(|ip| ip.as_ref());
    let out = run(["ip2method"].into_iter().chain(options.iter().copied()).chain(ips).chain([core]));
    out.is_sound();
    out
}
