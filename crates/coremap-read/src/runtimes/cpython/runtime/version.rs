//! The version, as the interpreter itself reports it in `sys.hexversion`.

use crate::addr::Addr;
use crate::runtimes::cpython::objects::Objects;
use crate::runtimes::cpython::runtime::PyError;

/// PY_VERSION_HEX as text. Its parts are major, minor, micro, level (0xf is final) and serial (Include/patchlevel.h).
pub(super) fn text(hex: u32) -> String {
    let [major, minor, micro, rest] = hex.to_be_bytes();
    let (level, serial) = (rest >> 4, rest & 0xf);
    let level = match level {
        0xa => "a",
        0xb => "b",
        0xc => "rc",
        _ => return format!("{major}.{minor}.{micro}"),
    };
    format!("{major}.{minor}.{micro}{level}{serial}")
}

/// Reads `sys.hexversion` of an interpreter.
///
/// # Errors
/// The dict of module `sys` can't be read.
pub(super) fn hexversion(objects: &Objects<'_>, sysdict: Addr) -> Result<u32, PyError> {
    let nonsense = || PyError::Nonsense { what: "no sys.hexversion in the dict of module sys", at: sysdict };
    let value = objects.lookup(sysdict, "hexversion").ok_or_else(nonsense)?;
    let number = objects.integer(value).ok_or_else(nonsense)?;
    u32::try_from(number).map_err(|_| nonsense())
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn versions_are_written_as_python_does() {
        assert_eq!(text(0x030b_07f0), "3.11.7");
        assert_eq!(text(0x030e_00c2), "3.14.0rc2");
    }
}
