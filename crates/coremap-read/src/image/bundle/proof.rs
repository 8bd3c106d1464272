//! Checks whether a single-file program under `--symbols` contains the files that the process
//! ran.
//!
//! All single-file programs built by one SDK start with the same host: the same build id, and
//! the same bytes up to the marker. Only the manifest, in memory and in the file, shows which
//! files follow.

use crate::diag::{Diagnostics, WarningCode};
use crate::image::bundle::{Bundle, in_file, program};
use crate::image::identity::Proven;
use crate::image::modules::{Module, ModuleKind, file_name};
use crate::targets::Target;

/// Reads the program's bundle from the `proven` files, and checks it against the one that its
/// host lists in memory. If they differ, no assembly of the file is used, a diagnostic is added,
/// and the program's index in `modules` is returned.
pub fn prove(
    target: &dyn Target,
    modules: &[Module],
    listed: &mut Option<Bundle>,
    proven: &[Proven],
    diag: &Diagnostics,
) -> Option<usize> {
    let program = program(target, modules)?;
    let ModuleKind::Elf(image) = &program.kind else { return None };
    let of_program = |p: &&Proven| modules.get(p.module).is_some_and(|m| std::ptr::eq(m, program));
    let proven = proven.iter().find(of_program)?;
    let file = in_file::read(&proven.map, image, &program.path)?;
    let Some(listed) = listed else {
        // The host's memory is not in the dump.
        *listed = Some(file);
        return None;
    };
    if listed.files == file.files && listed.id == file.id {
        listed.source = format!("{}, and {}", listed.source, file.source);
        return None;
    }
    let name = file_name(&program.path);
    let what = "the program is the same build, but its bundled files differ from those of the process";
    diag.note(WarningCode::SymbolsMismatch, format!("--symbols: {name}: not used for assemblies: {what}"));
    Some(proven.module)
}
