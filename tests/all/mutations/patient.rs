//! A core in a file of its own that is damaged and mended again and again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::damage::Places;
use crate::support::{elf, real};

pub const PAGE: usize = 4096;

pub struct Patient {
    file: tempfile::NamedTempFile,
    pub len: u64,
    /// What can be damaged, and where it is.
    pub places: Places,
    /// What was there before, newest last.
    undo: Vec<(u64, Vec<u8>)>,
    /// The core as it was.
    whole: File,
    cut: Option<u64>,
}

/// In memory where that can be had: each mutant writes to it.
fn folder() -> std::path::PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

impl Patient {
    pub fn new(name: &str) -> Patient {
        let bytes = real::bytes(name);
        let headers = elf::read(&bytes);
        let mut file = tempfile::NamedTempFile::new_in(folder()).unwrap();
        real::write_sparse(file.as_file_mut(), &bytes);
        let mut whole = tempfile::tempfile_in(folder()).unwrap();
        real::write_sparse(&mut whole, &bytes);
        let places = Places::find(&bytes, &headers, file.path());
        Patient { file, len: bytes.len() as u64, places, undo: Vec::new(), whole, cut: None }
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut old = vec![0; len.min(self.len.saturating_sub(at) as usize)];
        self.file.as_file().read_exact_at(&mut old, at).unwrap();
        old
    }

    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let old = self.read(at, bytes.len());
        self.file.as_file().write_all_at(&bytes[..old.len()], at).unwrap();
        self.undo.push((at, old));
    }

    /// Cut the file off; what goes comes back from `whole`.
    pub fn cut(&mut self, at: u64) {
        self.cut = Some(at);
        self.file.as_file().set_len(at).unwrap();
    }

    pub fn mend(&mut self) {
        if let Some(at) = self.cut.take() {
            self.file.as_file().set_len(self.len).unwrap();
            let mut page = vec![0; PAGE];
            for &p in self.places.pages.iter().filter(|&&p| p + PAGE as u64 > at) {
                let part = &mut page[..PAGE.min((self.len - p) as usize)];
                self.whole.read_exact_at(part, p).unwrap();
                self.file.as_file().write_all_at(part, p).unwrap();
            }
        }
        for (at, old) in self.undo.drain(..).rev() {
            self.file.as_file().write_all_at(&old, at).unwrap();
        }
    }
}
