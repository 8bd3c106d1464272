//! Opens files by whole paths, on systems without descriptors for directories. The path is resolved first, and then
//! opened. Whoever can change the directory in between can have another file opened; but the directory is the user's
//! own.

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

/// A directory, by its canonical path.
pub(crate) struct Folder(PathBuf);

/// Names that open a Windows device in any directory, whatever follows a dot.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

impl Folder {
    /// Opens the directory at any path.
    ///
    /// # Errors
    /// Fails if it is not a directory, or may not be read.
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        let real = path.canonicalize()?;
        if !real.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Folder(real))
    }

    /// Opens a file below the directory for reading. Does not follow a link that leads out of it.
    ///
    /// # Errors
    /// Fails if there is no such file, or if a link leads out.
    pub(crate) fn file(&self, relative: &Path) -> io::Result<File> {
        let real = self.0.join(plain(relative)?).canonicalize()?;
        if !real.starts_with(&self.0) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        File::open(real)
    }

    pub(crate) fn is_link(&self, relative: &Path) -> bool {
        plain(relative).is_ok_and(|relative| self.0.join(relative).is_symlink())
    }
}

/// Checks that each component is a plain name. Rejects a parent directory, a stream of a file (`a:b`) and a device.
fn plain(relative: &Path) -> io::Result<&Path> {
    let is_name = |part: Component<'_>| match part {
        Component::Normal(name) => name.to_str().is_some_and(|name| {
            let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_lowercase();
            let numbered = ["com", "lpt"].iter().any(|d| stem.strip_prefix(d).is_some_and(|n| n.chars().count() == 1));
            !name.contains(':') && !numbered && !DEVICES.contains(&stem.as_str())
        }),
        Component::CurDir => true,
        _ => false,
    };
    if relative.components().all(is_name) { Ok(relative) } else { Err(io::ErrorKind::InvalidInput.into()) }
}
