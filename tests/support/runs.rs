//! Runs of every command over the packed cores, by their file names.

use crate::support::real;
use crate::support::run::{Output, program};

pub const GLIBC: &str = "native-glibc-kernel.core.gz";
pub const MALLOC: &str = "native-malloc-gcore.core.zst";
pub const LEAKS: &str = "native-leaks.core.zst";
pub const AARCH64: &str = "native-aarch64-qemu.core.zst";
pub const CREATEDUMP: &str = "dotnet31-createdump.core.zst";
pub const PENDING: &str = "dotnet31-pending.core.xz";
pub const OBJECTS: &str = "dotnet8-objects.core.zst";
pub const THREADS: &str = "dotnet8-threads.core.zst";
pub const METHODS: &str = "dotnet8-methods.core.zst";

/// Stands for a text for `symbolicate`: two words of a trace.
pub const FRAMES: &str = "frames.txt";

/// Stands for a file that is to be written.
pub const NEW: &str = "new.core";

/// Where the packed cores are.
pub fn folder() -> std::path::PathBuf {
    real::packed("native-glibc-kernel").parent().unwrap().to_owned()
}

/// Run the program with `args` and then `form`, among the packed cores.
pub fn answer(args: &[&str], form: &[&str]) -> Output {
    let text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(text.path(), "0x7f8e3e84433c 0x7f8e3e8317b9\n").unwrap();
    let text = text.path().to_str().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join(NEW);
    let new = new.to_str().unwrap();
    let args = args.iter().map(|&a| match a {
        FRAMES => text,
        NEW => new,
        a => a,
    });
    let out = program(args.chain(form.iter().copied())).dir(&folder()).go();
    out.is_sound();
    out
}
