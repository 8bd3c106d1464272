//! Memory of another process as if it were mapped here: address space in which a piece is fetched when it is first
//! looked at, and of which no more than a given number of pieces are there at once.
//!
//! Linux maps no memory of one process into another. A scan that borrows slices, and a walk of a graph that goes here and
//! there, would need a copy of all of it, and a process of 20 GB is looked at where there are no 20 GB to spare. So
//! the mirror is a reservation without access. A look at it raises SIGSEGV; the handler fetches the piece, makes it
//! readable in one step, and takes the oldest away where there are too many. What was taken away is fetched again at the next look: who
//! holds a slice of it notices nothing, as long as the other process stands still. (Where it does not, its bytes
//! change as those of a mapped file do that somebody writes to.)
//!
//! The fault is one of our own loads and stores of an ordinary instruction, so the handler runs in a known place: no
//! lock of an allocator is held there. It takes locks of its own only, which nothing takes while it looks at a mirror. System calls do
//! not raise signals: given a slice of a mirror they fail with EFAULT, so it is never passed to one.
//!
//! The memory is a file without a name (memfd_create) that is mapped twice: once without access, for those who look, and once to be
//! written, for the handler. So a piece is whole before anybody sees it, and pieces side by side are one mapping of ours (a
//! process may have 65,530).

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Bytes of a piece: large enough that a fault costs little beside the copy, small enough that many fit.
pub(crate) const PIECE: usize = 128 << 10;

/// Mirrors at once: one a process that is looked at.
const MIRRORS: usize = 64;

/// Pieces that may be there at the least: each thread may be at two, and a scan goes back and forth.
const LEAST: usize = 64;

/// The states of a piece.
const ABSENT: u8 = 0;
const COMING: u8 = 1;
const THERE: u8 = 2;

static TABLE: [AtomicPtr<Inner>; MIRRORS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MIRRORS];
/// What happened on SIGSEGV before our handler was there, once it is.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// How bytes are had: from this offset of the mirror on, all of the slice, which is zero before. Makes system calls
/// only. What can't be had stays zero; `false` says that there was such.
pub(crate) type Fill = Box<dyn Fn(u64, &mut [u8]) -> bool + Send + Sync>;

/// Address space in which another process's memory shows.
pub(crate) struct Mirror {
    inner: Box<Inner>,
    slot: usize,
}

struct Inner {
    /// Where it is looked at.
    start: usize,
    /// The same memory, to be written.
    behind: usize,
    /// Whole pieces.
    len: usize,
    fill: Fill,
    states: Vec<AtomicU8>,
    /// Pieces that are there, oldest first.
    there: Mutex<VecDeque<usize>>,
    most: AtomicUsize,
    fetched: AtomicU64,
    lost: AtomicBool,
}

impl Mirror {
    /// A mirror of `len` bytes, which `fill` fetches, with at most `most` bytes of them at once.
    ///
    /// # Errors
    /// Those of mmap(2) where there is no such address space, and `OutOfMemory` where there are too many mirrors.
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

    /// From now on at most so many bytes at once, if that is more than [`LEAST`] pieces.
    pub(crate) fn hold(&self, most: u64) {
        let pieces = usize::try_from(most / PIECE as u64).unwrap_or(usize::MAX);
        self.inner.most.fetch_max(pieces.max(LEAST), Ordering::Relaxed);
    }

    /// All of it. To be read by instructions only, never given to a system call.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the range is our reservation and lives as long as `self`. It has no access or is readable, and
        // where it has none the handler makes it readable, with the bytes of the same place each time.
        unsafe { std::slice::from_raw_parts(self.inner.start as *const u8, self.inner.len) }
    }

    /// Bytes that were fetched so far.
    #[cfg(test)]
    fn fetched(&self) -> u64 {
        self.inner.fetched.load(Ordering::Relaxed)
    }

    /// Whether some could not be had.
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
    /// Make the piece that holds `addr` readable; `false` where that can't be done.
    fn fetch(&self, addr: usize) -> bool {
        let number = (addr - self.start) / PIECE;
        let Some(state) = self.states.get(number) else { return false };
        match state.compare_exchange(ABSENT, COMING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {}
            // Another thread is at it: the instruction is tried again until it is there.
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

    fn bring(&self, number: usize) -> bool {
        let at = number * PIECE;
        // SAFETY: pieces of our own mappings. Nobody else writes to this one while it is COMING, and nobody sees it: it has no
        // access where it is looked at.
        unsafe {
            let bytes = std::slice::from_raw_parts_mut((self.behind + at) as *mut u8, PIECE);
            if !(self.fill)(at as u64, bytes) {
                self.lost.store(true, Ordering::Relaxed);
            }
            // It stays in the file. Seen here too it would count twice among what is resident of ours.
            libc::madvise((self.behind + at) as *mut libc::c_void, PIECE, libc::MADV_DONTNEED);
            libc::mprotect((self.start + at) as *mut libc::c_void, PIECE, libc::PROT_READ) == 0
        }
    }

    /// Remember that a piece is there, and take away the oldest where there are too many.
    fn make_room(&self, number: usize) {
        let mut there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        there.push_back(number);
        while there.len() > self.most.load(Ordering::Relaxed) {
            let Some(oldest) = there.pop_front() else { return };
            let Some(state) = self.states.get(oldest) else { continue };
            state.store(COMING, Ordering::Release);
            let at = oldest * PIECE;
            // SAFETY: pieces of our own mappings. Who is reading this one gets a fault, and waits until it is absent.
            let gone = unsafe {
                let closed = libc::mprotect((self.start + at) as *mut libc::c_void, PIECE, libc::PROT_NONE) == 0;
                // Its pages are given back, and are zero when they come again.
                closed && libc::madvise((self.behind + at) as *mut libc::c_void, PIECE, libc::MADV_REMOVE) == 0
            };
            state.store(if gone { ABSENT } else { THERE }, Ordering::Release);
        }
    }
}

/// A file in memory, without a name, of so many bytes that are not there yet.
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

/// All of `file`, shared, wherever there is room.
///
/// # Safety
/// Who gets it has to unmap it.
unsafe fn map(file: &File, len: usize, access: libc::c_int) -> io::Result<usize> {
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // SAFETY: a new mapping of a file that is open.
    let got = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, file.as_raw_fd(), 0) };
    if got == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
}

/// Returns the action that was there before.
fn install() -> libc::sigaction {
    // SAFETY: sigaction is called with zero-initialised structs, filled in below or by it.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
        action.sa_sigaction = handler as usize;
        // On the thread's own stack: the one for signals is small, and fetching needs some KiB.
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGSEGV, &action, &mut before);
        before
    }
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; errno is this thread's; an entry of the table lives as long as slices of
    // its mirror, and the fault is a look at one.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        let addr = (*info).si_addr() as usize;
        // Sent by a process (si_code up to 0) it has no address.
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
