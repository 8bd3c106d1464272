//! Program files as they are in memory: ELF modules, PE files and the vdso, with their
//! sections and build ids. Also finds the files on disk that are proven to be the same.

pub mod bundle;
pub mod elf;
mod elf_identity;
pub mod identity;
pub mod known_files;
pub mod metadata;
pub mod modules;
pub mod pdb;
pub mod pe;
mod pe_identity;
mod section;
pub mod symbol_dirs;
pub mod symbols;
pub(crate) mod unfiled;

pub(crate) use modules::file_name;
pub use modules::{Module, ModuleKind};
pub use section::Section;
