//! Holes of a sparse file (lseek(2) SEEK_DATA).

use std::fs::File;

use crate::targets::Extents;

/// Queries the file system for the data extents of a file. If that is not possible, the whole file counts
/// as data. The same applies on Windows, where files can have holes, but nobody copies a core in a way that preserves
/// them.
pub(crate) fn extents(file: &File, len: u64) -> Extents {
    #[cfg(unix)]
    return asked(file, len);
    #[cfg(not(unix))]
    {
        let _ = file;
        Extents::new(std::iter::once(0..len).collect())
    }
}

#[cfg(unix)]
fn asked(file: &File, len: u64) -> Extents {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;

    use crate::limits;

    let mut data = Vec::new();
    let mut at = 0;
    while at < len {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(_) => return Extents::dense(len),
        };
        let end = match seek(file, SeekFrom::Hole(start)) {
            Ok(end) if end > start => end.min(len),
            _ => return Extents::dense(len),
        };
        if data.len() == limits::MAX_EXTENTS {
            data.push(start..len);
            break;
        }
        data.push(start..end);
        at = end;
    }
    Extents::new(data)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::host::FileAt;

    #[test]
    fn a_hole_is_not_data() -> std::io::Result<()> {
        let file = tempfile::tempfile()?;
        file.set_len(16 << 20)?;
        file.write_all_at(&[1; 4096], 8 << 20)?;
        let extents = extents(&file, 16 << 20);
        assert!(extents.data_bytes() < 1 << 20);
        let parts: Vec<_> = extents.within(0..16 << 20).collect();
        assert!(parts.iter().any(|p| p.contains(&(8 << 20))));
        assert_eq!(extents.within(0..4096).count(), 0);
        Ok(())
    }
}
