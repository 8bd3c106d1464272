//! Memory of another process, as if it were mapped here: address space whose pieces are fetched on first access, with a
//! limited number of pieces in memory at once.
//!
//! Linux can't map one process's memory into another. A scan that borrows slices, and a graph walk with random access,
//! would need a copy of all of it, but a process of 20 GB may be read on a machine without 20 GB to spare. So the
//! mirror is a reservation without access. An access raises SIGSEGV. The handler fetches the piece, makes it readable
//! in one step, and evicts the oldest piece if there are too many. An evicted piece is fetched again on the next
//! access. The holder of a slice notices nothing while the other process is stopped. (If it runs, the bytes change like
//! those of a mapped file that somebody writes to.)
//!
//! The fault comes from an ordinary load or store of our own, so no allocator lock is held in the handler. It takes
//! only its own locks, which no code holds while it accesses a mirror. System calls don't raise signals. They fail with
//! EFAULT for a slice of a mirror, so it is never passed to one.
//!
//! The memory is a file without a name (memfd_create), mapped twice: without access for the readers, and writable for
//! the handler. So a piece is complete before anybody sees it, and adjacent pieces are one mapping (a process may have
//! 65,530).

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

/// Length of a piece in bytes: large enough that a fault costs little compared with the copy, small enough that many
/// fit.
pub(crate) const PIECE: usize = 128 << 10;

/// Maximum number of mirrors. Each process being read has one.
const MIRRORS: usize = 64;

/// Minimum number of pieces in memory: each thread may access two, and a scan goes back and forth.
const LEAST: usize = 64;

/// States of a piece: absent, being fetched or evicted, present, present and never evicted.
const ABSENT: u8 = 0;
const COMING: u8 = 1;
const THERE: u8 = 2;
const KEPT: u8 = 3;

static TABLE: [AtomicPtr<Inner>; MIRRORS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MIRRORS];
/// The action for SIGSEGV before our handler, once that is installed.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Fetches the bytes from this offset of the mirror on into the slice, which is zero. May only make system calls.
/// Returns `false` if some bytes could not be read; they stay zero.
pub(crate) type Fill = Box<dyn Fn(u64, &mut [u8]) -> bool + Send + Sync>;

/// Address space in which another process's memory appears.
pub(crate) struct Mirror {
    inner: Box<Inner>,
    slot: usize,
}

struct Inner {
    /// Start of the mapping for readers.
    start: usize,
    /// Start of the writable mapping of the same memory.
    behind: usize,
    /// The memory.
    file: File,
    /// Length in bytes, a multiple of [`PIECE`].
    len: usize,
    fill: Fill,
    states: Vec<AtomicU8>,
    /// Pieces in memory, oldest first.
    there: Mutex<VecDeque<usize>>,
    most: AtomicUsize,
    fetched: AtomicU64,
    lost: AtomicBool,
}

impl Mirror {
    /// Creates a mirror of `len` bytes, which `fill` fetches, with at most `most` bytes in memory at once.
    ///
    /// # Errors
    /// Errors of mmap(2), if there is not enough address space; `OutOfMemory`, if there are too many mirrors.
    pub(crate) fn new(len: u64, most: u64, fill: Fill) -> io::Result<Mirror> {
        BEFORE.get_or_init(install);
        let len = usize::try_from(len).ok().and_then(|len| len.max(1).checked_next_multiple_of(PIECE));
        let len = len.ok_or(io::ErrorKind::OutOfMemory)?;
        let file = nameless(len as u64)?;
        // SAFETY: new mappings, at no given address, of a file that nobody else has.
        let (start, behind) = unsafe {
            let start = map(&file, len, libc::PROT_NONE)?;
            match map(&file, len, libc::PROT_READ | libc::PROT_WRITE) {
                Ok(behind) => (start, behind),
                Err(e) => {
                    libc::munmap(start as *mut libc::c_void, len);
                    return Err(e);
                }
            }
        };
        let inner = Box::new(Inner {
            start,
            behind,
            file,
            len,
            fill,
            states: (0..len / PIECE).map(|_| AtomicU8::new(ABSENT)).collect(),
            there: Mutex::default(),
            most: AtomicUsize::new(0),
            fetched: AtomicU64::new(0),
            lost: AtomicBool::new(false),
        });
        let at = std::ptr::from_ref::<Inner>(&inner).cast_mut();
        let null = std::ptr::null_mut();
        let free =
            |slot: &AtomicPtr<Inner>| slot.compare_exchange(null, at, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let Some(slot) = TABLE.iter().position(free) else {
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, "too many processes are being read"));
        };
        let mirror = Mirror { inner, slot };
        mirror.hold(most);
        Ok(mirror)
    }

    /// Raises the limit to `most` bytes in memory, but at least [`LEAST`] pieces.
    pub(crate) fn hold(&self, most: u64) {
        let pieces = usize::try_from(most / PIECE as u64).unwrap_or(usize::MAX);
        self.inner.most.fetch_max(pieces.max(LEAST), Ordering::Relaxed);
    }

    /// Fetches the pieces with these numbers, ascending, in parallel, and never evicts them. They do not count towards
    /// the limit. Returns `false` if one of them can't be stored or made readable.
    pub(crate) fn keep(&self, pieces: &[usize]) -> bool {
        let inner = &self.inner;
        let claimed: Vec<usize> = pieces.iter().copied().filter(|&number| inner.claim(number)).collect();
        let store = |buffer: &mut Vec<u8>, &number: &usize| (number, inner.store(number, buffer));
        let stored: Vec<(usize, bool)> = claimed.par_iter().map_init(|| vec![0; PIECE], store).collect();
        let mut whole = true;
        // Handle neighbouring pieces in one call, because each call makes all threads wait.
        for run in stored.chunk_by(|(a, _), (b, _)| a + 1 == *b) {
            let open = run.iter().all(|(_, is_stored)| *is_stored)
                && inner.open(run.first().map_or(0, |first| first.0), run.len());
            run.iter().for_each(|(number, _)| inner.set(*number, if open { KEPT } else { ABSENT }));
            whole &= open;
        }
        whole
    }

    /// All bytes. Access them by instructions only; never pass them to a system call.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the range is our reservation and lives as long as `self`. It is either without access or readable.
        // The handler makes pages without access readable, with the same bytes each time.
        unsafe { std::slice::from_raw_parts(self.inner.start as *const u8, self.inner.len) }
    }

    #[cfg(test)]
    fn fetched(&self) -> u64 {
        self.inner.fetched.load(Ordering::Relaxed)
    }

    /// Whether some bytes could not be read.
    pub(crate) fn lost(&self) -> bool {
        self.inner.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if let Some(slot) = TABLE.get(self.slot) {
            slot.store(std::ptr::null_mut(), Ordering::Release);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: our own mappings; no slice of them outlives the mirror.
        unsafe {
            libc::munmap(self.start as *mut libc::c_void, self.len);
            libc::munmap(self.behind as *mut libc::c_void, self.len);
        }
    }
}

impl Inner {
    /// Makes the piece that contains `addr` readable. Returns `false` if that fails.
    fn fetch(&self, addr: usize) -> bool {
        let number = (addr - self.start) / PIECE;
        let Some(state) = self.states.get(number) else { return false };
        match state.compare_exchange(ABSENT, COMING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {}
            // Another thread is fetching it. The instruction is retried until the piece is present.
            Err(COMING) => {
                std::thread::yield_now();
                return true;
            }
            Err(_) => return true,
        }
        let fetched = self.bring(number);
        state.store(if fetched { THERE } else { ABSENT }, Ordering::Release);
        if fetched {
            self.fetched.fetch_add(PIECE as u64, Ordering::Relaxed);
            self.make_room(number);
        }
        fetched
    }

    /// Claims a piece that is to be kept. Returns whether it must be fetched.
    fn claim(&self, number: usize) -> bool {
        let Some(state) = self.states.get(number) else { return false };
        let change = |from, to| state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        loop {
            match change(ABSENT, COMING).or_else(|_| change(THERE, KEPT)) {
                Ok(from) => return from == ABSENT,
                Err(KEPT) => return false,
                // Another thread fetches or evicts it.
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    /// Fetches a piece into the file, through `buffer`. A write needs no page fault, and no page that is cleared first.
    fn store(&self, number: usize, buffer: &mut [u8]) -> bool {
        buffer.fill(0);
        let at = (number * PIECE) as u64;
        if !(self.fill)(at, buffer) {
            self.lost.store(true, Ordering::Relaxed);
        }
        self.fetched.fetch_add(PIECE as u64, Ordering::Relaxed);
        self.file.write_all_at(buffer, at).is_ok()
    }

    /// Makes `count` neighbouring pieces readable.
    fn open(&self, first: usize, count: usize) -> bool {
        // SAFETY: pieces of our own mapping. Their bytes are in the file, and nobody changes them.
        unsafe {
            let start = (self.start + first * PIECE) as *mut libc::c_void;
            libc::mprotect(start, count * PIECE, libc::PROT_READ) == 0
        }
    }

    fn set(&self, number: usize, to: u8) {
        if let Some(state) = self.states.get(number) {
            state.store(to, Ordering::Release);
        }
    }

    fn bring(&self, number: usize) -> bool {
        let at = number * PIECE;
        // SAFETY: pieces of our own mappings. Nobody else writes to this one while it is COMING, and nobody sees it,
        // because the mapping for readers has no access.
        unsafe {
            let bytes = std::slice::from_raw_parts_mut((self.behind + at) as *mut u8, PIECE);
            if !(self.fill)(at as u64, bytes) {
                self.lost.store(true, Ordering::Relaxed);
            }
            // The data stays in the file. Mapped here too, it would count twice in our resident memory.
            libc::madvise((self.behind + at) as *mut libc::c_void, PIECE, libc::MADV_DONTNEED);
            libc::mprotect((self.start + at) as *mut libc::c_void, PIECE, libc::PROT_READ) == 0
        }
    }

    /// Records that a piece is present, and evicts the oldest ones if there are too many.
    fn make_room(&self, number: usize) {
        let mut there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        there.push_back(number);
        while there.len() > self.most.load(Ordering::Relaxed) {
            let Some(oldest) = there.pop_front() else { return };
            let Some(state) = self.states.get(oldest) else { continue };
            if state.compare_exchange(THERE, COMING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            let at = oldest * PIECE;
            // SAFETY: pieces of our own mappings. A thread that reads this one gets a fault, and waits until it is
            // absent.
            let gone = unsafe {
                let closed = libc::mprotect((self.start + at) as *mut libc::c_void, PIECE, libc::PROT_NONE) == 0;
                // Its pages are released, and are zero when it is fetched again.
                closed && libc::madvise((self.behind + at) as *mut libc::c_void, PIECE, libc::MADV_REMOVE) == 0
            };
            state.store(if gone { ABSENT } else { THERE }, Ordering::Release);
        }
    }
}

/// Creates a file in memory without a name, of `len` bytes without allocated pages.
fn nameless(len: u64) -> io::Result<File> {
    // SAFETY: the name is a constant, and the descriptor is new and ours.
    let file = unsafe {
        match libc::memfd_create(c"mirror".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => return Err(io::Error::last_os_error()),
            file => File::from_raw_fd(file),
        }
    };
    file.set_len(len)?;
    Ok(file)
}

/// Maps all of `file`, shared, at any address.
///
/// # Safety
/// The caller has to unmap it.
unsafe fn map(file: &File, len: usize, access: libc::c_int) -> io::Result<usize> {
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // SAFETY: a new mapping of an open file.
    let got = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, file.as_raw_fd(), 0) };
    if got == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
}

/// Installs the handler. Returns the previous action.
fn install() -> libc::sigaction {
    // SAFETY: sigaction is called with zero-initialised structs, filled in below or by it.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
        action.sa_sigaction = handler as usize;
        // Use the thread's own stack: the signal stack is small, and fetching needs some KiB.
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGSEGV, &action, &mut before);
        before
    }
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; errno is this thread's; an entry of the table lives as long as slices
    // of its mirror, and the fault is an access to one.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        let addr = (*info).si_addr() as usize;
        // A signal sent by a process (si_code up to 0) has no address.
        let slots = if (*info).si_code > 0 { MIRRORS } else { 0 };
        for slot in TABLE.iter().take(slots) {
            let Some(inner) = slot.load(Ordering::Acquire).as_ref() else { continue };
            if addr.wrapping_sub(inner.start) < inner.len && inner.fetch(addr) {
                *errno = saved;
                return;
            }
        }
        *errno = saved;
        let before = BEFORE.get().map_or((libc::SIG_DFL, 0), |b| (b.sa_sigaction, b.sa_flags));
        super::pass_on(before, signal, info, context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(len: u64, most: u64) -> io::Result<Mirror> {
        Mirror::new(
            len,
            most,
            Box::new(|offset, out| {
                for (i, word) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                    *word = (offset + 8 * i as u64).to_le_bytes();
                }
                offset < 1 << 40
            }),
        )
    }

    fn word(mirror: &Mirror, at: u64) -> u64 {
        mirror.bytes().get(at as usize..).and_then(|b| b.first_chunk()).map_or(0, |w| u64::from_le_bytes(*w))
    }

    #[test]
    fn a_piece_is_fetched_when_it_is_looked_at() -> io::Result<()> {
        let mirror = counting(1 << 40, 1 << 30)?;
        assert_eq!(mirror.fetched(), 0);
        let far = (1 << 40) - 4096;
        assert_eq!((word(&mirror, 0x1238), word(&mirror, far)), (0x1238, far));
        assert_eq!(mirror.fetched(), 2 * PIECE as u64);
        assert!(!mirror.lost());
        Ok(())
    }

    #[test]
    fn what_was_taken_away_comes_again() -> io::Result<()> {
        let most = LEAST;
        let mirror = counting((PIECE * most * 3) as u64, 0)?;
        for _ in 0..2 {
            for piece in 0..3 * most {
                let at = (piece * PIECE + 64) as u64;
                assert_eq!(word(&mirror, at), at);
            }
        }
        let held = mirror.inner.there.lock().unwrap_or_else(PoisonError::into_inner).len();
        assert_eq!(held, most);
        assert_eq!(mirror.fetched(), (6 * most * PIECE) as u64);
        Ok(())
    }

    #[test]
    fn kept_pieces_stay_and_do_not_count() -> io::Result<()> {
        let mirror = counting((PIECE * LEAST * 3) as u64, 0)?;
        // One piece is present already. It would be the first to be evicted.
        assert_eq!(word(&mirror, 64), 64);
        let kept: Vec<usize> = (0..LEAST).collect();
        assert!(mirror.keep(&kept) && mirror.keep(&kept));
        let fetched = mirror.fetched();
        for piece in (0..3 * LEAST).chain(0..LEAST) {
            let at = (piece * PIECE + 64) as u64;
            assert_eq!(word(&mirror, at), at);
        }
        assert_eq!(mirror.fetched() - fetched, (2 * LEAST * PIECE) as u64);
        Ok(())
    }

    #[test]
    fn many_threads_see_the_same() -> io::Result<()> {
        let mirror = counting((PIECE * 1000) as u64, 0)?;
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let mirror = &mirror;
                scope.spawn(move || {
                    for i in 0..2000u64 {
                        let at = (i * 7919 + thread * 13) % 1000 * PIECE as u64 + 8 * thread;
                        assert_eq!(word(mirror, at), at);
                    }
                });
            }
        });
        Ok(())
    }
}
