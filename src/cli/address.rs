//! Address arguments: `0x7f42d256e000`, bare hex, WinDbg's back-tick,
//! `module+0x10`.

use coremap::addr::Addr;
use coremap::process::Process;

/// The address that `text` means in this process.
///
/// # Errors
/// In words, where it means none.
pub(crate) fn parse(text: &str, process: &Process) -> Result<Addr, String> {
    if let Some(addr) = hex(text) {
        return Ok(addr);
    }
    if let Some((name, offset)) = text.rsplit_once('+') {
        let offset = hex(offset).ok_or_else(|| format!("{text}: '{offset}' is not a hexadecimal offset"))?;
        let module = process
            .modules
            .iter()
            .find(|m| m.name() == name || *m.path == *name)
            .ok_or_else(|| format!("{text}: no module named '{name}' in this core"))?;
        return module
            .range
            .start
            .checked_add(offset.0)
            .ok_or_else(|| format!("{text}: past the end of the address space"));
    }
    Err(format!("'{text}' is not an address; write 0x7f42d256e000, 7f42d256e000, 00007f42`d256e000 or libc.so.6+0x10"))
}

fn hex(text: &str) -> Option<Addr> {
    let digits: String = text.chars().filter(|&c| c != '`' && c != '\'' && c != '_').collect();
    let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")).unwrap_or(&digits);
    u64::from_str_radix(digits, 16).ok().map(Addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_an_address() {
        assert_eq!(hex("0x7f42d256e000"), Some(Addr(0x7f42_d256_e000)));
        assert_eq!(hex("00007f42`d256e000"), Some(Addr(0x7f42_d256_e000)));
        assert_eq!(hex("00007f42'd256e000"), Some(Addr(0x7f42_d256_e000)));
        assert_eq!(hex("7F42"), Some(Addr(0x7f42)));
        assert_eq!(hex("10000000000000000"), None);
        assert_eq!(hex("core"), None);
    }
}
