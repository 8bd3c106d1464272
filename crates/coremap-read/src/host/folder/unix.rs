//! Opens files relative to directory descriptors.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open, openat, readlinkat};
use rustix::io::Errno;

use crate::limits;

/// An open directory.
pub(crate) struct Folder(OwnedFd);

impl Folder {
    /// Opens the directory at any path.
    ///
    /// # Errors
    /// Fails if it is not a directory, or may not be read.
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder(open(path, flags, Mode::empty())?))
    }

    /// Opens a file below the directory for reading. Links are followed as if the directory were the root of a file
    /// system.
    ///
    /// # Errors
    /// Fails if there is no such file, or if a link is broken.
    pub(crate) fn file(&self, relative: &Path) -> io::Result<File> {
        beneath(&self.0, relative)
    }

    /// Whether the last component of the path is a link.
    pub(crate) fn is_link(&self, relative: &Path) -> bool {
        is_link(&self.0, relative)
    }
}

/// Read, without waiting for the writer of a pipe.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Open a directory on the way. If possible, it need not be readable.
#[cfg(target_os = "linux")]
const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const PASS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a file below `dir`, by openat2 if available (Linux 5.6).
fn beneath(dir: &OwnedFd, relative: &Path) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};

        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        match openat2(dir, relative, READ, Mode::empty(), resolve) {
            Ok(file) => return Ok(file.into()),
            // An old kernel; a container that does not know the call; directories moved meanwhile.
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {}
            Err(e) => return Err(e.into()),
        }
    }
    walked(dir, relative)
}

/// Opens a file below `root` one path component at a time. The kernel never follows a link, so none can lead out.
fn walked(root: &OwnedFd, relative: &Path) -> io::Result<File> {
    let part = |name: &OsStr| name.to_owned();
    let mut left: Vec<OsString> = relative.components().rev().map(|c| part(c.as_os_str())).collect();
    // Directories from the root to the current one.
    let mut inside: Vec<OwnedFd> = Vec::new();
    let mut links = 0;
    while let Some(name) = left.pop() {
        let here = inside.last().unwrap_or(root).as_fd();
        match name.as_bytes() {
            b"." => continue,
            b".." => {
                inside.pop();
                continue;
            }
            b"/" => {
                inside.clear();
                continue;
            }
            _ => {}
        }
        let flags = if left.is_empty() { READ } else { PASS };
        match openat(here, &name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(file) if left.is_empty() => return Ok(file.into()),
            Ok(dir) => inside.push(dir),
            Err(e @ (Errno::LOOP | Errno::NOTDIR)) => {
                let target = readlinkat(here, &name, Vec::new()).map_err(|_| e)?;
                links += 1;
                if links > limits::MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                left.extend(target.components().rev().map(|c| part(c.as_os_str())));
            }
            Err(e) => return Err(e.into()),
        }
    }
    Err(Errno::ISDIR.into())
}

fn is_link(dir: &OwnedFd, relative: &Path) -> bool {
    let (Some(name), parent) = (relative.file_name(), relative.parent().unwrap_or(Path::new(""))) else {
        return false;
    };
    if parent.as_os_str().is_empty() {
        return readlinkat(dir, name, Vec::new()).is_ok();
    }
    beneath(dir, parent).is_ok_and(|folder| readlinkat(&folder, name, Vec::new()).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    type Way = fn(&OwnedFd, &Path) -> io::Result<File>;

    fn text(way: Way, dir: &OwnedFd, path: &str) -> Option<String> {
        let mut text = String::new();
        way(dir, Path::new(path)).ok()?.read_to_string(&mut text).ok()?;
        Some(text)
    }

    #[test]
    fn nothing_is_opened_but_beneath() -> io::Result<()> {
        let outer = tempfile::tempdir()?;
        let at = |path: &str| outer.path().join(path);
        std::fs::create_dir_all(at("root/usr/lib/deep"))?;
        std::fs::create_dir_all(at("root/.build-id/ab"))?;
        std::fs::write(at("secret"), "secret")?;
        std::fs::write(at("root/usr/lib/libx.so.1"), "x")?;
        std::fs::write(at("root/secret"), "of the image")?;
        let links = [
            ("libx.so.1", "root/usr/lib/libx.so"),
            ("../../usr/lib/libx.so", "root/.build-id/ab/cd"),
            ("/usr/lib/libx.so.1", "root/absolute"),
            ("usr/lib", "root/lib"),
            ("../secret", "root/out"),
            ("../../../../../../secret", "root/usr/lib/deep/out"),
            ("loop", "root/loop"),
            ("nothing", "root/nowhere"),
        ];
        for (target, link) in links {
            symlink(target, at(link))?;
        }
        symlink(at("secret"), at("root/straight"))?;
        symlink(outer.path(), at("root/up"))?;
        symlink("/proc/self/root", at("root/magic"))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, at("root"), flags, Mode::empty())?;
        for way in [beneath as Way, walked as Way] {
            for path in ["usr/lib/libx.so", ".build-id/ab/cd", "absolute", "lib/libx.so", "./lib/deep/../libx.so"] {
                assert_eq!(text(way, &dir, path).as_deref(), Some("x"), "{path}");
            }
            // The directory is the root: higher paths stay there.
            for path in ["out", "usr/lib/deep/out", "../secret"] {
                assert_eq!(text(way, &dir, path).as_deref(), Some("of the image"), "{path}");
            }
            for path in ["straight", "up/secret", "magic/etc/passwd", "loop", "nowhere", "usr/lib", "no/such", ""] {
                assert_eq!(text(way, &dir, path), None, "{path}");
            }
        }
        Ok(())
    }
}
