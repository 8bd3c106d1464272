//! Output files with memory of a process. Only their owner may read them, and they get their name only when complete.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::cli::{Failure, interrupt};

/// Fails early if `out` exists. `command` is the command that would write it, and `way` what to type instead.
///
/// # Errors
/// [`Failure::Usage`]
pub(crate) fn refuse_existing(out: &Path, command: &str, way: Option<&str>) -> Result<(), Failure> {
    let Ok(there) = out.symlink_metadata() else { return Ok(()) };
    let what = if there.is_dir() {
        "is a directory".to_owned()
    } else {
        format!("exists already, and {command} never overwrites a file")
    };
    let way = way.map_or(String::new(), |way| format!(", {way}"));
    Err(Failure::Usage(format!("'{}' {what}; name a new file{way}", out.display())))
}

/// The error that the file could not be created or completely written.
pub(crate) fn not_written(out: &Path, e: &io::Error) -> Failure {
    let why = match e.kind() {
        io::ErrorKind::FileTooLarge => "the file size limit is reached (ulimit -f)".to_owned(),
        _ => e.to_string(),
    };
    Failure::Beside(format!("cannot write {}: {why}; the incomplete file was removed", out.display()))
}

/// A file that is being written and has no name yet, or only a temporary one.
pub(crate) struct NewFile {
    out: PathBuf,
    form: Form,
}

enum Form {
    /// The system removes it when the program ends in any way (O_TMPFILE).
    #[cfg(target_os = "linux")]
    Nameless(File),
    /// For file systems and operating systems without O_TMPFILE.
    Named(NamedTempFile),
}

impl NewFile {
    /// Creates a file that will become `out`, in the same folder.
    ///
    /// # Errors
    /// Fails if `out` exists, or no file can be created there.
    pub(crate) fn create(out: &Path) -> io::Result<NewFile> {
        if out.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let name = out.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let form = match nameless(folder) {
            Some(form) => form,
            None => {
                let mut prefix = std::ffi::OsString::from(".");
                prefix.push(name);
                let mut unfinished = interrupt::unfinished();
                let file = tempfile::Builder::new()
                    .prefix(&prefix)
                    .suffix(".part")
                    .tempfile_in(folder)
                    .map_err(without_path)?;
                *unfinished = Some(file.path().to_owned());
                Form::Named(file)
            }
        };
        let new = NewFile { out: out.to_owned(), form };
        for_its_owner_alone(new.file())?;
        Ok(new)
    }

    /// Creates the file, with an error for the user.
    ///
    /// # Errors
    /// [`Failure::Usage`]
    pub(crate) fn begin(out: &Path) -> Result<NewFile, Failure> {
        NewFile::create(out).map_err(|e| Failure::Usage(format!("{}: {e}", out.display())))
    }

    pub(crate) fn file(&self) -> &File {
        match &self.form {
            #[cfg(target_os = "linux")]
            Form::Nameless(file) => file,
            Form::Named(file) => file.as_file(),
        }
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    /// Fails if the file cannot be written to the disk, or the name is taken by now.
    pub(crate) fn keep(self) -> io::Result<()> {
        // Some file systems report a full disk only now.
        self.file().sync_data()?;
        match self.form {
            #[cfg(target_os = "linux")]
            Form::Nameless(file) => {
                use rustix::fs::{AtFlags, CWD, linkat};

                linkat(CWD, proc_path(&file), CWD, &self.out, AtFlags::SYMLINK_FOLLOW)?;
            }
            Form::Named(file) => {
                let kept = file.persist_noclobber(&self.out);
                *interrupt::unfinished() = None;
                kept.map_err(|e| e.error)?;
            }
        }
        Ok(())
    }
}

/// The same error without the path that tempfile adds: the temporary name means nothing to the reader.
fn without_path(e: io::Error) -> io::Error {
    match e.to_string().split_once(" at path \"") {
        Some((why, _)) => io::Error::new(e.kind(), why.to_owned()),
        None => e,
    }
}

/// Creates a file without a name in this folder.
#[cfg(target_os = "linux")]
fn nameless(folder: &Path) -> Option<Form> {
    use rustix::fs::{CWD, Mode, OFlags, openat};

    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR).ok()?);
    proc_path(&file).exists().then_some(Form::Nameless(file))
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path) -> Option<Form> {
    None
}

/// The path by which such a file can be given a name (proc(5)).
#[cfg(target_os = "linux")]
fn proc_path(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;

    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Makes the file readable only by its owner, regardless of the umask. A core contains passwords and keys.
#[cfg(unix)]
fn for_its_owner_alone(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

/// On Windows the folder determines who may read its files.
#[cfg(not(unix))]
fn for_its_owner_alone(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    fn of_each_form(out: &Path) -> io::Result<Vec<NewFile>> {
        let named = NamedTempFile::new_in(out.parent().unwrap_or(out))?;
        Ok(vec![NewFile::create(out)?, NewFile { out: out.to_owned(), form: Form::Named(named) }])
    }

    #[test]
    fn it_appears_whole_and_for_its_owner_alone() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let out = dir.path().join("out");
        for new in of_each_form(&out)? {
            new.file().write_all(b"all of it")?;
            assert!(!out.exists());
            new.keep()?;
            assert_eq!(std::fs::read(&out)?, b"all of it");
            assert_eq!(out.metadata()?.permissions().mode() & 0o7777, 0o600);
            std::fs::remove_file(&out)?;
        }
        Ok(())
    }

    #[test]
    fn what_is_not_kept_is_gone_and_what_is_there_stays() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let out = dir.path().join("out");
        drop(of_each_form(&out)?);
        assert_eq!(std::fs::read_dir(dir.path())?.count(), 0);
        for new in of_each_form(&out)? {
            // Another program is faster: with a file, or with a dangling link.
            std::os::unix::fs::symlink("nothing", &out)?;
            assert_eq!(new.keep().map_err(|e| e.kind()), Err(io::ErrorKind::AlreadyExists));
            assert!(!dir.path().join("nothing").exists() && out.is_symlink());
            assert!(NewFile::create(&out).is_err());
            std::fs::remove_file(&out)?;
        }
        assert_eq!(std::fs::read_dir(dir.path())?.count(), 0);
        Ok(())
    }
}
