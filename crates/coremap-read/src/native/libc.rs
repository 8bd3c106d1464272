//! Decides which C library a module is.

use crate::image::{Module, ModuleKind, elf};
use crate::native::stack_records::Libc;
use crate::process::Process;

/// Returns the C library that `module` is, with the evidence. `None` if it is no C library.
///
/// musl's libc is also its dynamic linker (`ld-musl-x86_64.so.1`, `libc.musl-x86_64.so.1`). Debian's musl is a
/// `libc.so` in a folder named `*-linux-musl*`. glibc's libc is `libc.so.6`, or `libc-2.31.so` before 2.34.
pub fn which(process: &Process, module: &Module) -> Option<(Libc, &'static str)> {
    let name = module.name();
    if let Some(start) = ["ld-musl-", "libc.musl-"].into_iter().find(|start| name.starts_with(start)) {
        return Some((
            Libc::Musl,
            if start == "ld-musl-" { "a module named ld-musl-" } else { "a module named libc.musl-" },
        ));
    }
    if name.starts_with("libc.so.") || name.starts_with("libc-2.") {
        return Some((Libc::Glibc, "a module with glibc's libc name"));
    }
    let ModuleKind::Elf(image) = &module.kind else { return None };
    let soname = elf::soname(&process.memory, image);
    let soname = soname.as_deref().is_some_and(|n| n.starts_with("libc.musl") || n == "libc.so");
    let folder = name == "libc.so" && module.path.contains("-linux-musl");
    match (soname, folder) {
        (true, _) => Some((Libc::Musl, "a libc with musl's DT_SONAME")),
        (_, true) => Some((Libc::Musl, "libc.so in a musl folder")),
        _ => None,
    }
}
