//! Limits the files that may be read to regular files within one folder, after links are resolved.

use std::io;
use std::path::{Path, PathBuf};

/// The folder that is served.
pub(super) struct Root(PathBuf);

/// Reason to refuse a file. It does not reveal whether something exists outside of the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FileError {
    #[error("there is no such file in the folder that this server reads")]
    Outside,
    #[error("this is not a regular file")]
    NotAFile,
    #[error("the name of this file is not valid UTF-8")]
    NotText,
}

impl Root {
    /// # Errors
    /// Fails if there is no such folder.
    pub(super) fn new(folder: &Path) -> io::Result<Root> {
        let folder = folder.canonicalize()?;
        if !folder.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        Ok(Root(folder))
    }

    /// Returns the absolute path of a file, without links.
    ///
    /// # Errors
    /// Fails if it is outside of the folder, or no regular file.
    pub(super) fn file(&self, name: &str) -> Result<PathBuf, FileError> {
        let path = self.0.join(name).canonicalize().map_err(|_| FileError::Outside)?;
        if !path.starts_with(&self.0) {
            return Err(FileError::Outside);
        }
        if !path.metadata().is_ok_and(|meta| meta.is_file()) {
            return Err(FileError::NotAFile);
        }
        if path.to_str().is_none() {
            return Err(FileError::NotText);
        }
        Ok(path)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_files_within_the_folder_are_read() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let (root, beside) = (dir.path().join("root"), dir.path().join("root-beside"));
        for folder in [&root, &beside, &root.join("sub")] {
            std::fs::create_dir(folder)?;
            std::fs::write(folder.join("core"), "x")?;
        }
        symlink("/etc/passwd", root.join("out"))?;
        symlink("sub/core", root.join("in"))?;
        symlink(&beside, root.join("folder"))?;
        symlink("loop", root.join("loop"))?;
        let served = Root::new(&root)?;
        let real = root.canonicalize()?;
        assert_eq!(served.file("core"), Ok(real.join("core")));
        assert_eq!(served.file("in"), Ok(real.join("sub/core")));
        assert_eq!(served.file("sub/../core"), Ok(real.join("core")));
        assert_eq!(served.file(&real.join("core").to_string_lossy()), Ok(real.join("core")));
        let beside = beside.join("core");
        let outside =
            ["out", "folder/core", "../root-beside/core", "/etc/passwd", "/proc/self/mem", "loop", "none", "4711"];
        for name in outside.into_iter().chain(beside.to_str()) {
            assert_eq!(served.file(name), Err(FileError::Outside), "{name}");
        }
        for name in ["", ".", "sub"] {
            assert_eq!(served.file(name), Err(FileError::NotAFile), "{name}");
        }
        assert!(Root::new(&real.join("core")).is_err());
        Ok(())
    }
}
