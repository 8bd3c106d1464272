//! By whole paths, where there are no others: what a path leads to is asked for first, and then opened.
//! Who may change the folder in between can have another file opened than was asked about; the folder is the user's own.

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

/// A folder, as the system itself writes its path.
pub(crate) struct Folder(PathBuf);

/// What opens a device of Windows in any folder, whatever comes behind a point.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

impl Folder {
    /// Find it, wherever it is.
    ///
    /// # Errors
    /// Where it is no folder, or may not be read.
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        let real = path.canonicalize()?;
        if !real.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Folder(real))
    }

    /// Open what is at a path beneath it, to read. A link that leads out of the folder is not followed.
    ///
    /// # Errors
    /// Where nothing is there, or a link leads astray.
    pub(crate) fn file(&self, relative: &Path) -> io::Result<File> {
        let real = self.0.join(plain(relative)?).canonicalize()?;
        if !real.starts_with(&self.0) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        File::open(real)
    }

    /// Whether the path is a link.
    pub(crate) fn is_link(&self, relative: &Path) -> bool {
        plain(relative).is_ok_and(|relative| self.0.join(relative).is_symlink())
    }
}

/// The path, unless a part of it is more than a name: a folder above, a stream of a file (`a:b`), a device.
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
