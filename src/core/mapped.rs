//! The only file with `unsafe`: files mapped into our own memory, and the
//! handler that keeps us alive when such a file shrinks under us.
//!
//! Reading a mapped page that its file no longer has raises SIGBUS. The handler
//! puts a zero page in its place and remembers that it did; [`shrank`] is then
//! true and the command says that its answer is partial.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Mappings the handler knows. The core, and files that `--symbols` brought in.
const SLOTS: usize = 4096;

static STARTS: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
static LENGTHS: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
static SHRANK: AtomicBool = AtomicBool::new(false);
static INSTALL: Once = Once::new();

/// Whether a mapped file turned out shorter than when it was opened.
pub fn shrank() -> bool {
    SHRANK.load(Ordering::Relaxed)
}

/// A whole file, mapped read-only.
pub struct MappedFile {
    map: memmap2::Mmap,
    slot: usize,
}

impl MappedFile {
    /// Map all of `file`.
    ///
    /// # Errors
    /// Those of mmap(2); `OutOfMemory` when too many files are mapped at once.
    pub fn map(file: &File) -> io::Result<MappedFile> {
        INSTALL.call_once(install_handler);
        // SAFETY: the mapping is read-only and private to this struct. Another
        // process may change the file, so its bytes are never trusted to stay
        // the same between two reads; if it shrinks, the SIGBUS handler
        // supplies zero pages.
        let map = unsafe { memmap2::Mmap::map(file)? };
        // Structures are read here and there; without this the kernel reads
        // megabytes ahead of each (and fills holes of sparse files with pages).
        // Advice may fail, then it is only slower.
        let _ = map.advise(memmap2::Advice::Random);
        for slot in 0..SLOTS {
            let taken =
                STARTS[slot].compare_exchange(0, map.as_ptr() as usize, Ordering::AcqRel, Ordering::Relaxed).is_err();
            if !taken {
                LENGTHS[slot].store(map.len(), Ordering::Release);
                return Ok(MappedFile { map, slot });
            }
        }
        Err(io::Error::new(io::ErrorKind::OutOfMemory, "too many files mapped"))
    }
}

impl MappedFile {
    /// The whole file is about to be read once, front to back.
    pub fn expect_scan(&self) {
        let _ = self.map.advise(memmap2::Advice::Sequential);
    }
}

impl Deref for MappedFile {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        LENGTHS[self.slot].store(0, Ordering::Release);
        STARTS[self.slot].store(0, Ordering::Release);
    }
}

fn install_handler() {
    // SAFETY: sigaction is called with a zero-initialised struct filled in
    // below; the handler only uses async-signal-safe calls (mmap is a bare
    // system call in every libc we build for) and atomics.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

extern "C" fn on_sigbus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo for SIGBUS. MAP_FIXED replaces
    // one page that lies wholly inside one of our own read-only mappings.
    unsafe {
        let addr = (*info).si_addr() as usize;
        for slot in 0..SLOTS {
            let start = STARTS[slot].load(Ordering::Acquire);
            let len = LENGTHS[slot].load(Ordering::Acquire);
            if start != 0 && addr.wrapping_sub(start) < len {
                let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
                let at = addr & !(page - 1);
                let got = libc::mmap(
                    at as *mut libc::c_void,
                    page,
                    libc::PROT_READ,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                    -1,
                    0,
                );
                if got != libc::MAP_FAILED {
                    SHRANK.store(true, Ordering::Relaxed);
                    return;
                }
            }
        }
        // Not ours: let it kill the process as it would have.
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_cut_while_mapped_reads_as_zero_and_is_noticed() -> io::Result<()> {
        let mut file = tempfile::tempfile()?;
        file.write_all(&vec![7u8; 64 << 10])?;
        let map = MappedFile::map(&file)?;
        file.set_len(4096)?;
        assert_eq!(map[100], 7);
        assert_eq!(map[60 << 10], 0);
        assert!(shrank());
        Ok(())
    }
}
