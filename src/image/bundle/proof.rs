//! Whether a single-file program under `--symbols` holds the files that the process ran.
//!
//! All single-file programs that one SDK makes begin with the same host: the same build id, the
//! same bytes up to the marker. Which files are behind it only the manifest tells, in memory
//! and in the file.

use crate::diag::{Diagnostics, WarningCode};
use crate::image::bundle::{Bundle, in_file, program};
use crate::image::identity::Proven;
use crate::image::modules::{Module, ModuleKind, file_name};
use crate::targets::Target;

/// What `proven` files say of the program's bundle, where that is what its host lists in memory.
/// Of another bundle no assembly is used, which is told: then the program's number in `modules`.
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
        // The dump lacks the host's memory.
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
