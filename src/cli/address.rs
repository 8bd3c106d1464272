//! Address arguments: `0x7f42d256e000`, bare hex, WinDbg's back-tick,
//! `module+0x10`.

use std::collections::BTreeSet;

use coremap::addr::Addr;
use coremap::process::Process;

/// The address that `text` means in this process.
///
/// # Errors
/// In words, where it means none.
pub(crate) fn parse(text: &str, process: &Process) -> Result<Addr, String> {
    if let Some(addr) = hex(text) {
        return not_decimal(text, addr, process);
    }
    if let Some((name, offset)) = text.rsplit_once('+') {
        let offset = hex(offset).ok_or_else(|| format!("{text}: '{offset}' is not a hexadecimal offset"))?;
        let module = process
            .modules
            .iter()
            .find(|m| m.name() == name || *m.path == *name)
            .ok_or_else(|| format!("{text}: no module named '{name}' in this core{}", like(name, process)))?;
        return module
            .range
            .start
            .checked_add(offset.get())
            .ok_or_else(|| format!("{text}: past the end of the address space"));
    }
    if process.modules.iter().any(|m| m.name() == text) {
        return Err(format!("'{text}' is a module: write {text}+0x0 for its first byte"));
    }
    Err(format!("'{text}' is not an address; write 0x7f42d256e000, 7f42d256e000, 00007f42`d256e000 or libc.so.6+0x10"))
}

/// Digits that mean nothing as hexadecimal, and something as decimal: exact, and
/// said rather than guessed.
fn not_decimal(text: &str, addr: Addr, process: &Process) -> Result<Addr, String> {
    let Some(decimal) = text.parse().ok().filter(|_| !text.starts_with('0')).map(Addr::new) else { return Ok(addr) };
    let mapped = |at: Addr| process.space().pieces.at(at).is_some() || process.space().is_listed(at);
    if !mapped(addr) && mapped(decimal) {
        return Err(format!(
            "addresses are hexadecimal, and {addr} is not mapped; in decimal {text} is {decimal}: write that"
        ));
    }
    Ok(addr)
}

/// Modules whose name begins like `name`, in words.
fn like(name: &str, process: &Process) -> String {
    let near = |m: &&str| !name.is_empty() && m.to_lowercase().starts_with(&name.to_lowercase());
    let found: BTreeSet<&str> = process.modules.iter().map(|m| m.name()).filter(near).take(LIKE).collect();
    if found.is_empty() {
        return "; `coremap info` lists them".into();
    }
    format!("; there is {}", found.into_iter().collect::<Vec<_>>().join(", "))
}

/// Modules that are named where one was not found.
const LIKE: usize = 4;

fn hex(text: &str) -> Option<Addr> {
    let digits: String = text.chars().filter(|&c| c != '`' && c != '\'' && c != '_').collect();
    let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")).unwrap_or(&digits);
    u64::from_str_radix(digits, 16).ok().map(Addr::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_an_address() {
        assert_eq!(hex("0x7f42d256e000"), Some(Addr::new(0x7f42_d256_e000)));
        assert_eq!(hex("00007f42`d256e000"), Some(Addr::new(0x7f42_d256_e000)));
        assert_eq!(hex("00007f42'd256e000"), Some(Addr::new(0x7f42_d256_e000)));
        assert_eq!(hex("7F42"), Some(Addr::new(0x7f42)));
        assert_eq!(hex("10000000000000000"), None);
        assert_eq!(hex("core"), None);
    }
}
