//! Bytes at a place of a file, whatever its cursor.

/// Reads and writes that name their place: pread(2) and pwrite(2).
#[cfg(unix)]
pub(crate) use std::os::unix::fs::FileExt as FileAt;

/// The same on Windows, where each moves the cursor too. Nobody here goes by the cursor.
#[cfg(windows)]
pub(crate) trait FileAt {
    /// Read up to as much as there is room for; 0 at the end.
    fn read_at(&self, out: &mut [u8], place: u64) -> std::io::Result<usize>;

    /// Write all of it.
    fn write_all_at(&self, bytes: &[u8], place: u64) -> std::io::Result<()>;

    /// Fill all of it.
    fn read_exact_at(&self, mut out: &mut [u8], mut place: u64) -> std::io::Result<()> {
        while !out.is_empty() {
            match self.read_at(out, place) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    out = &mut out[n..];
                    place += n as u64;
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

#[cfg(windows)]
impl FileAt for std::fs::File {
    fn read_at(&self, out: &mut [u8], place: u64) -> std::io::Result<usize> {
        // Behind the end it is no error elsewhere.
        match std::os::windows::fs::FileExt::seek_read(self, out, place) {
            Err(e) if e.raw_os_error() == Some(ERROR_HANDLE_EOF) => Ok(0),
            read => read,
        }
    }

    fn write_all_at(&self, mut bytes: &[u8], mut place: u64) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let n = std::os::windows::fs::FileExt::seek_write(self, bytes, place)?;
            bytes = &bytes[n..];
            place += n as u64;
        }
        Ok(())
    }
}

/// winerror.h.
#[cfg(windows)]
const ERROR_HANDLE_EOF: i32 = 38;
