//! Files under `--symbols`: candidates for a module, and opening one without leaving the folder.
//!
//! A core contains file names, and whoever made the core chose them. A folder of symbols may come from an archive,
//! with any links in it. So only regular files within the folder are opened. Links are followed as if the folder were
//! the root of a file system: `.build-id` trees consist of links, and in an unpacked image or a sysroot an absolute
//! link means a file of that image.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::core::mapped::Losses;
use crate::host::Folder;
use crate::image::modules::Module;
use crate::limits;

/// Folders of files given by the user, searched by name and by build id.
#[derive(Default)]
pub struct SymbolDirs {
    roots: Vec<Root>,
    by_name: HashMap<String, Vec<Location>>,
    /// Read errors of mapped files.
    losses: Arc<Losses>,
}

struct Root {
    path: PathBuf,
    dir: Folder,
}

/// A possible location of a file within one of the folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    root: usize,
    relative: PathBuf,
}

/// The result of opening a location.
pub enum Opened {
    /// A regular file.
    File(File),
    /// A link that leads out of the folder or to nothing.
    StrayLink,
    /// Nothing, or no regular file.
    Nothing,
}

impl SymbolDirs {
    /// Lists the given directories. Subdirectories are not listed; files in `.build-id` are found by build id.
    ///
    /// # Errors
    /// Fails if one of them can't be listed.
    pub fn open(roots: &[PathBuf]) -> io::Result<SymbolDirs> {
        let mut dirs = SymbolDirs::default();
        for (index, path) in roots.iter().enumerate() {
            let with_path = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
            let dir = Folder::open(path).map_err(with_path)?;
            for entry in std::fs::read_dir(path).map_err(with_path)?.take(limits::MAX_SYMBOL_FILES) {
                let name = entry?.file_name();
                if let Some(text) = name.to_str() {
                    let place = Location { root: index, relative: PathBuf::from(&name) };
                    dirs.by_name.entry(text.to_owned()).or_default().push(place);
                }
            }
            dirs.roots.push(Root { path: path.clone(), dir });
        }
        Ok(dirs)
    }

    /// Returns these folders, with losses recorded together with those of `other`.
    #[must_use]
    pub(crate) fn with_losses_of(self, other: &SymbolDirs) -> SymbolDirs {
        SymbolDirs { losses: other.losses.clone(), ..self }
    }

    /// The record of what could not be read of its files.
    pub(crate) fn losses(&self) -> &Arc<Losses> {
        &self.losses
    }

    /// Whether none was given.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Opens the file at a location.
    pub fn look(&self, place: &Location) -> Opened {
        let Some(root) = self.roots.get(place.root) else { return Opened::Nothing };
        match root.dir.file(&place.relative) {
            Ok(file) => match file.metadata() {
                Ok(meta) if meta.is_file() => Opened::File(file),
                _ => Opened::Nothing,
            },
            Err(_) if root.dir.is_link(&place.relative) => Opened::StrayLink,
            Err(_) => Opened::Nothing,
        }
    }

    /// Returns a location as a path, as the user would write it.
    pub fn path(&self, place: &Location) -> PathBuf {
        self.roots.get(place.root).map_or_else(PathBuf::new, |root| root.path.join(&place.relative))
    }

    /// Returns the possible locations of the module's own file: by build id, by its path or the end of its path below
    /// a root, or by name in a root.
    pub(super) fn candidates(&self, module: &Module) -> Vec<Location> {
        let mut out = self.by_build_id(module, "");
        out.extend(self.places(&module.path, module.name()));
        out.dedup();
        out
    }

    /// Returns the possible locations of a file with this path. These are below a root; below a root that is a copy of
    /// a folder on the path, such as a .NET installation moved elsewhere; or by name in a root.
    pub fn places(&self, path: &str, name: &str) -> Vec<Location> {
        let mut out = Vec::new();
        let relative = relative(path);
        self.below_each(&relative, &mut out);
        let parts: Vec<Component<'_>> = relative.components().collect();
        let least = parts.len().saturating_sub(limits::MAX_PATH_ENDS).max(1);
        for first in least..parts.len().saturating_sub(1) {
            let end: PathBuf = parts.iter().skip(first).collect();
            self.below_each(&end, &mut out);
        }
        out.extend(self.by_name.get(name).into_iter().flatten().cloned());
        out
    }

    /// Returns the possible locations of the symbols stripped from the module. These are by build id, in the layout of
    /// gdb's manual; next to it or in a root as `NAME.debug`, or as `NAME.dbg` in .NET's packages; and under its own
    /// path below a root's usr/lib/debug.
    pub(super) fn debug_candidates(&self, module: &Module) -> Vec<Location> {
        let mut out = self.by_build_id(module, ".debug");
        let relative = relative(&module.path);
        for ending in ["debug", "dbg"] {
            let name = format!("{}.{ending}", module.name());
            if relative.as_os_str().len() > 1 {
                let beside = relative.with_file_name(&name);
                self.below_each(&beside, &mut out);
                self.below_each(&Path::new("usr/lib/debug").join(&beside), &mut out);
            }
            out.extend(self.by_name.get(&name).into_iter().flatten().cloned());
        }
        out.dedup();
        out
    }

    fn by_build_id(&self, module: &Module, ending: &str) -> Vec<Location> {
        let mut out = Vec::new();
        if let Some(id) = module.build_id() {
            let (head, tail) = id.split_at(id.len().min(2));
            for dir in [".build-id", "usr/lib/debug/.build-id"] {
                self.below_each(&Path::new(dir).join(head).join(format!("{tail}{ending}")), &mut out);
            }
        }
        out
    }

    fn below_each(&self, relative: &Path, out: &mut Vec<Location>) {
        if relative.as_os_str().len() > 1 {
            out.extend((0..self.roots.len()).map(|root| Location { root, relative: relative.to_owned() }));
        }
    }
}

/// Returns the plain parts of a path, never `..`. The core's paths are not trusted.
fn relative(path: &str) -> PathBuf {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    Path::new(path).components().filter(|c| matches!(c, Component::Normal(_))).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode};
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_no_file_is_nothing_and_stray_links_are_told() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "x")?;
        std::fs::create_dir(at("folder"))?;
        symlink("file", at("link"))?;
        symlink("/etc/passwd", at("stray"))?;
        // Opening a pipe without a writer must not block.
        rustix::fs::mknodat(CWD, at("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0)?;
        let dirs = SymbolDirs::open(&[dir.path().to_owned()])?;
        let kind = |name: &str| match dirs.places("", name).first().map(|place| dirs.look(place)) {
            Some(Opened::File(_)) => "file",
            Some(Opened::StrayLink) => "astray",
            _ => "nothing",
        };
        let names = ["file", "link", "stray", "folder", "pipe", "missing"];
        assert_eq!(names.map(kind), ["file", "file", "astray", "nothing", "nothing", "nothing"]);
        Ok(())
    }

    #[test]
    fn a_folder_may_be_a_copy_of_any_on_the_path() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        std::fs::create_dir_all(dir.path().join("shared/App/3.1"))?;
        std::fs::write(dir.path().join("shared/App/3.1/lib.dll"), "x")?;
        let dirs = SymbolDirs::open(&[dir.path().to_owned()])?;
        let found =
            |path: &str| dirs.places(path, "lib.dll").iter().any(|place| matches!(dirs.look(place), Opened::File(_)));
        assert!(found("/shared/App/3.1/lib.dll") && found("/usr/share/dotnet/shared/App/3.1/lib.dll"));
        assert!(!found("/usr/share/dotnet/shared/App/8.0/lib.dll") && !found("/3.1/lib.dll"));
        Ok(())
    }
}
