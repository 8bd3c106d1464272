//! Parses address arguments: `0x7f42d256e000`, bare hex, WinDbg's back-tick, `module+0x10`.

use std::collections::BTreeSet;

use coremap::addr::Addr;
use coremap::process::Process;
use coremap::report::Name;

use crate::cli::Failure;
use crate::cli::output::message;

/// Reasons why a text means no address in this process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("{text}: '{offset}' is not a hexadecimal offset")]
    Offset { text: String, offset: String },
    #[error("{text}: no module named '{name}' in this core{hint}")]
    NoModule { text: String, name: String, hint: String },
    #[error("{text} is past the end of the address space")]
    TooHigh { text: String },
    #[error("'{text}' is a module; write {text}+0x0 for its first byte")]
    OnlyModule { text: String },
    #[error("'{text}' is not an address; write 0x7f42d256e000, 7f42d256e000, 00007f42`d256e000 or libc.so.6+0x10")]
    NotAnAddress { text: String },
    #[error("addresses are hexadecimal, and {addr} is not mapped; decimal {text} is {decimal}, so write that")]
    Decimal { text: String, addr: Addr, decimal: Addr },
}

impl From<AddressError> for Failure {
    fn from(e: AddressError) -> Failure {
        Failure::Usage(e.to_string())
    }
}

/// Returns the address that `text` means in this process. If it is in the null page, a note on stderr says so.
///
/// # Errors
/// [`Failure::Usage`] if it means none.
pub(crate) fn read(text: &str, process: &Process) -> Result<Addr, Failure> {
    let pointer = parse(text, process)?;
    let addr = Addr::new(process.arch().address_in(pointer.get()));
    if addr != pointer {
        let tag = process.arch().tag_in(pointer.get());
        message(&format!("{pointer} has the tag {tag:#x} in its top byte, which the processor ignores: {addr}"));
    }
    if addr < Addr::new(NULL_PAGE) && !is_mapped(addr, process) {
        message(&format!("{addr} is in the null page, where nothing is mapped: a null pointer, or an offset from one"));
    }
    Ok(addr)
}

/// Size of the null page in bytes. By default no process can map it (vm.mmap_min_addr is 4 KiB or more).
const NULL_PAGE: u64 = 4096;

/// A note for the reader if `addr` is inside the object of type `name` at `object`.
pub(crate) fn inside(addr: Addr, object: Addr, name: Option<&Name>) -> Option<String> {
    let name = name.filter(|_| addr != object)?;
    Some(format!("{addr} is inside the {} at {object}; see it with `coremap object {object}`", name.shown()))
}

/// Returns the address that `text` means in this process.
///
/// # Errors
/// [`AddressError`] if it means none.
pub(crate) fn parse(text: &str, process: &Process) -> Result<Addr, AddressError> {
    if let Some(addr) = hex(text) {
        return not_decimal(text, addr, process);
    }
    if let Some((name, offset)) = text.rsplit_once('+') {
        let offset =
            hex(offset).ok_or_else(|| AddressError::Offset { text: text.to_owned(), offset: offset.to_owned() })?;
        let module = process.modules.iter().find(|m| m.name() == name || *m.path == *name).ok_or_else(|| {
            AddressError::NoModule { text: text.to_owned(), name: name.to_owned(), hint: like(name, process) }
        })?;
        return module
            .range
            .start
            .checked_add(offset.get())
            .ok_or_else(|| AddressError::TooHigh { text: text.to_owned() });
    }
    if process.modules.iter().any(|m| m.name() == text) {
        return Err(AddressError::OnlyModule { text: text.to_owned() });
    }
    Err(AddressError::NotAnAddress { text: text.to_owned() })
}

fn is_mapped(at: Addr, process: &Process) -> bool {
    process.space().pieces.at(at).is_some() || process.space().is_listed(at)
}

/// Rejects digits that are mapped only if read as decimal, instead of guessing.
fn not_decimal(text: &str, addr: Addr, process: &Process) -> Result<Addr, AddressError> {
    let Some(decimal) = text.parse().ok().filter(|_| !text.starts_with('0')).map(Addr::new) else { return Ok(addr) };
    if !is_mapped(addr, process) && is_mapped(decimal, process) {
        return Err(AddressError::Decimal { text: text.to_owned(), addr, decimal });
    }
    Ok(addr)
}

/// A hint with modules whose name begins like `name`.
fn like(name: &str, process: &Process) -> String {
    let near = |m: &&str| !name.is_empty() && m.to_lowercase().starts_with(&name.to_lowercase());
    let found: BTreeSet<&str> = process.modules.iter().map(|m| m.name()).filter(near).take(LIKE).collect();
    if found.is_empty() {
        return "; `coremap info` lists them".into();
    }
    format!("; there is {}", found.into_iter().collect::<Vec<_>>().join(", "))
}

/// Maximum number of similar modules in a hint.
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
