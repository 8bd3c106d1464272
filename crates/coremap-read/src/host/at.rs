//! Reads and writes at an offset of a file.

/// Reads and writes at an offset: pread(2) and pwrite(2).
#[cfg(unix)]
pub(crate) use std::os::unix::fs::FileExt as FileAt;

#[cfg(windows)]
pub(crate) use windows::FileAt;

#[cfg(windows)]
mod windows {
    use std::fs::File;
    use std::io::{self, ErrorKind, Seek, SeekFrom};
    use std::os::windows::fs::FileExt as _;

    /// winerror.h.
    const ERROR_HANDLE_EOF: i32 = 38;

    /// Reads and writes at an offset.
    pub(crate) trait FileAt {
        /// Reads up to `out.len()` bytes. Returns 0 at the end of the file.
        fn read_at(&self, out: &mut [u8], place: u64) -> io::Result<usize>;

        fn write_all_at(&self, bytes: &[u8], place: u64) -> io::Result<()>;

        fn read_exact_at(&self, mut out: &mut [u8], mut place: u64) -> io::Result<()> {
            while !out.is_empty() {
                match self.read_at(out, place) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(n) => {
                        out = &mut out[n..];
                        place += n as u64;
                    }
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(())
        }
    }

    impl FileAt for File {
        fn read_at(&self, out: &mut [u8], place: u64) -> io::Result<usize> {
            // Reading beyond the end is no error on other systems.
            match with_its_cursor(self, |file| file.seek_read(out, place)) {
                Err(e) if e.raw_os_error() == Some(ERROR_HANDLE_EOF) => Ok(0),
                read => read,
            }
        }

        fn write_all_at(&self, mut bytes: &[u8], mut place: u64) -> io::Result<()> {
            while !bytes.is_empty() {
                let n = with_its_cursor(self, |file| file.seek_write(bytes, place))?;
                bytes = &bytes[n..];
                place += n as u64;
            }
            Ok(())
        }
    }

    /// Runs `act` and restores the cursor, which Windows moves with each read and write. Without this, code that looked
    /// up the size at the end of an .xz file continued from there, and lost all of a core but its last part.
    fn with_its_cursor(mut file: &File, act: impl FnOnce(&File) -> io::Result<usize>) -> io::Result<usize> {
        let before = file.stream_position()?;
        let done = act(file);
        file.seek(SeekFrom::Start(before))?;
        done
    }
}
