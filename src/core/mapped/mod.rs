//! The room that maps memory, and the only one with `unsafe` but for the system calls of `live/ptrace.rs`: files mapped into our own
//! memory, the handler that keeps us alive when such a file can't give what it should, and the memory of another process as
//! if it were mapped (`mirror`), and rows of numbers that are too many for memory (`table`).
//!
//! Reading a mapped page that its file does not give raises SIGBUS, which ends the program.
//! Who asks for it ([`handle_sigbus`]) gets a handler that puts zero pages in its place and
//! remembers why, for the owner of the file ([`Losses`]): the file became shorter ([`FileLoss::Shrank`]) or its disk failed
//! ([`FileLoss::Unreadable`]). The command then says that its answer is partial. A hole of a file
//! on a full tmpfs raises SIGBUS too, as there is no page left to read it into: that is a zero
//! page, and no loss. What is not of our mappings goes to the handler that was there before.
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
pub(crate) mod mirror;
pub(crate) mod table;

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::machine::page_size as page;
pub use crate::targets::FileLoss;

/// Losses of the mapped files of one owner: a core, or the `--symbols` files of a process.
///
/// A signal handler can reach only statics, so it records a loss in the slot of the mapping. This value has the
/// slots of its own mappings, and the losses of mappings that are gone.
#[derive(Debug, Default)]
pub struct Losses {
    gone: AtomicU8,
    slots: Mutex<Vec<usize>>,
}

impl Losses {
    /// Losses so far, each kind once.
    pub fn all(&self) -> Vec<FileLoss> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let bits = slots.iter().fold(self.gone.load(Ordering::Relaxed), |bits, &slot| bits | sigbus::lost(slot));
        drop(slots);
        [FileLoss::Shrank, FileLoss::Unreadable].into_iter().filter(|&loss| bits & bit(loss) != 0).collect()
    }

    /// Records a loss that a read other than of mapped memory met.
    pub(crate) fn note(&self, loss: FileLoss) {
        self.gone.fetch_or(bit(loss), Ordering::Relaxed);
    }
}

fn bit(loss: FileLoss) -> u8 {
    1 << loss as u8
}

/// A whole file, mapped read-only.
pub struct MappedFile {
    // Before the map, so that the handler forgets it first.
    _slot: sigbus::Slot,
    map: memmap2::Mmap,
}

impl MappedFile {
    /// Map all of `file`. What can't be read of it is recorded in `losses`.
    ///
    /// # Errors
    /// Those of mmap(2); `OutOfMemory` when too many files are mapped at once.
    pub fn map(file: &File, losses: &Arc<Losses>) -> io::Result<MappedFile> {
        MappedFile::with_holes(file, &[], losses)
    }

    /// The same, where `holes` of the file are known to be zero. They are no pages of the
    /// file then: to read one takes no memory, on a tmpfs neither.
    ///
    /// # Errors
    /// As [`MappedFile::map`].
    pub(crate) fn with_holes(file: &File, holes: &[Range<u64>], losses: &Arc<Losses>) -> io::Result<MappedFile> {
        // SAFETY: the mapping is read-only and private to this struct. Another
        // process may change the file, so its bytes are never trusted to stay
        // the same between two reads; if it shrinks, the SIGBUS handler
        // supplies zero pages, or without it the process ends.
        let map = unsafe { memmap2::Mmap::map(file)? };
        // Structures are read here and there; without this the kernel reads
        // megabytes ahead of each (and fills holes of sparse files with pages).
        // Advice may fail, then it is only slower.
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::Random);
        for hole in holes {
            let hole = hole.start as usize..(hole.end as usize).min(map.len());
            // SAFETY: the range lies in our own mapping, which nobody reads yet.
            // Where it fails, the file's own hole is there still.
            unsafe { zero(map.as_ptr().add(hole.start.min(hole.end)) as usize, hole.len()) };
        }
        let slot = sigbus::Slot::take(map.as_ptr(), map.len(), 0, file, losses)?;
        Ok(MappedFile { _slot: slot, map })
    }

    /// The whole file is about to be read once, front to back.
    pub fn expect_scan(&self) {
        #[cfg(unix)]
        let _ = self.map.advise(memmap2::Advice::Sequential);
    }
}

impl Deref for MappedFile {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.map
    }
}

/// Memory that a decoder writes front to back and reads from at any distance, of which
/// only the end is memory: what is done is in a file, and read from there.
pub(crate) struct Window {
    _slot: sigbus::Slot,
    map: memmap2::MmapMut,
    /// Bytes before the first one, which make its place in a page that of the file.
    lead: usize,
    /// Where in the file the first byte is.
    #[cfg(target_os = "linux")]
    offset: u64,
    /// How many bytes the file stands for.
    done: usize,
}

impl Window {
    /// Address space for `len` bytes that are to be in `file` from `offset` on.
    ///
    /// # Errors
    /// Those of mmap(2), where there is no such address space.
    pub(crate) fn reserve(file: &File, offset: u64, len: usize, losses: &Arc<Losses>) -> io::Result<Window> {
        let lead = (offset % page() as u64) as usize;
        let len = len.checked_add(lead).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = memmap2::MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
        // All of it is written once: half the time is spent on the faults of small pages.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let slot = sigbus::Slot::take(map.as_ptr(), map.len(), offset - lead as u64, file, losses)?;
        Ok(Window {
            _slot: slot,
            map,
            lead,
            #[cfg(target_os = "linux")]
            offset,
            done: 0,
        })
    }

    /// All of it. What [`Window::settle`] was told of must not be written any more: that
    /// would end the program.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.map[self.lead..]
    }

    /// The first `upto` bytes are in `file` now, but for its `holes`, and are read from there: they are no memory
    /// of ours any more. Not so on other systems than Linux, where they stay where they are.
    ///
    /// # Errors
    /// Those of mmap(2).
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn settle(&mut self, _: &File, upto: usize, _: &[Range<u64>]) -> io::Result<()> {
        self.done = upto;
        Ok(())
    }

    /// The first `upto` bytes are in `file` now, but for its `holes`, and are read from there.
    ///
    /// # Errors
    /// Those of mmap(2).
    #[cfg(target_os = "linux")]
    pub(crate) fn settle(&mut self, file: &File, upto: usize, holes: &[Range<u64>]) -> io::Result<()> {
        let whole = |n: usize| n / page() * page();
        let (from, to) = (whole(self.lead + self.done), whole(self.lead + upto));
        if from >= to {
            return Ok(());
        }
        let base = self.map.as_ptr() as usize;
        let first = self.offset - self.lead as u64;
        // SAFETY: whole pages of our own mapping, for which no reference is out. The file
        // holds the bytes that are there, so that nothing changes for who reads them.
        unsafe {
            let got = libc::mmap(
                (base + from) as *mut libc::c_void,
                to - from,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_FIXED,
                file.as_raw_fd(),
                (first + from as u64) as libc::off_t,
            );
            if got == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            for hole in holes {
                let inside = |at: u64| (at.saturating_sub(first) as usize).clamp(from, to);
                let (start, end) = (inside(hole.start).next_multiple_of(page()), whole(inside(hole.end)));
                zero(base + start, end.saturating_sub(start));
            }
            // What was read again at a distance counts as memory of ours until it is let go.
            libc::madvise(base as *mut libc::c_void, to, libc::MADV_DONTNEED);
        }
        self.done = upto;
        Ok(())
    }
}

/// Put zero pages there, whole ones within the range; whether that was done.
///
/// # Safety
/// The range lies in a mapping of ours, and what it held is not needed.
#[cfg(not(target_os = "linux"))]
unsafe fn zero(_: usize, _: usize) -> bool {
    false
}

/// Put zero pages there, whole ones within the range; whether that was done.
///
/// # Safety
/// The range lies in a mapping of ours, and what it held is not needed.
#[cfg(target_os = "linux")]
unsafe fn zero(at: usize, len: usize) -> bool {
    let page = page();
    let (start, end) = (at.next_multiple_of(page), at.saturating_add(len) / page * page);
    if start >= end {
        return false;
    }
    // SAFETY: the caller's promise.
    let got = unsafe {
        libc::mmap(
            start as *mut libc::c_void,
            end - start,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    got != libc::MAP_FAILED
}

/// What is not ours goes to who had the signal before us: its handler and the flags of that.
///
/// # Safety
/// For a handler only, with what the kernel gave it and what sigaction gave back.
#[cfg(target_os = "linux")]
unsafe fn pass_on(
    (handler, flags): (libc::sighandler_t, libc::c_int),
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: a handler that sigaction gave back has the signature that its flags tell.
    unsafe {
        match handler {
            // Let it end the process as it would have: the access is made once more.
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::signal(signal, libc::SIG_DFL);
            }
            handler if flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}

/// Have zero pages taken for what mapped files can't give, from now on, in all of this process:
/// otherwise reading such a page ends it. The handler of SIGBUS that was there before still
/// gets what is no page of ours. It stays until the process ends; a second call does nothing.
///
/// ```
/// # use std::sync::Arc;
/// # use std::sync::atomic::{AtomicBool, Ordering};
/// use signal_hook::consts::SIGBUS;
///
/// let seen = Arc::new(AtomicBool::new(false));
/// signal_hook::flag::register(SIGBUS, seen.clone())?;
/// coremap::core::mapped::handle_sigbus();
/// signal_hook::low_level::raise(SIGBUS)?;
/// assert!(seen.load(Ordering::Relaxed));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn handle_sigbus() {
    sigbus::install();
}

/// The handler, and the table it looks addresses up in.
#[cfg(target_os = "linux")]
mod sigbus {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering};
    use std::sync::{Arc, OnceLock, PoisonError};

    use super::{FileLoss, Losses, bit, page, zero};

    /// Mappings the handler knows. The core, and files that `--symbols` brought in.
    const SLOTS: usize = 4096;

    /// Of these the first keep their file open, so that the handler can ask for its size:
    /// processes may have 1,024 files open as shipped.
    const ASKED: usize = 256;

    /// After so many pages that could not be read, the run that is given up with each
    /// of them doubles: a disk that is gone takes some thousand mappings, and not one a page
    /// (vm.max_map_count is 65,530 as shipped).
    const DOUBLING: usize = 256;

    static STARTS: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
    static LENGTHS: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
    /// Where in the file each mapping begins.
    static OFFSETS: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
    /// Its descriptor, or -1.
    pub(super) static FILES: [AtomicI32; SLOTS] = [const { AtomicI32::new(-1) }; SLOTS];
    /// Losses of each mapping, one bit each.
    static LOST: [AtomicU8; SLOTS] = [const { AtomicU8::new(0) }; SLOTS];
    static UNREAD: AtomicUsize = AtomicUsize::new(0);
    /// What happened on SIGBUS before our handler was there, once it is.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    /// An entry of the handler's table, as long as it lives.
    pub(super) struct Slot {
        pub(super) index: usize,
        /// Open while the handler may ask for it.
        pub(super) _file: Option<File>,
        losses: Arc<Losses>,
    }

    /// Losses of the mapping in a slot.
    pub(super) fn lost(slot: usize) -> u8 {
        LOST.get(slot).map_or(0, |lost| lost.load(Ordering::Relaxed))
    }

    impl Slot {
        pub(super) fn take(
            at: *const u8,
            len: usize,
            offset: u64,
            file: &File,
            losses: &Arc<Losses>,
        ) -> io::Result<Slot> {
            for index in 0..SLOTS {
                if STARTS[index].compare_exchange(0, at as usize, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    // Where descriptors are used up, the handler can do without.
                    let file = (index < ASKED).then(|| file.try_clone().ok()).flatten();
                    FILES[index].store(file.as_ref().map_or(-1, AsRawFd::as_raw_fd), Ordering::Release);
                    OFFSETS[index].store(offset, Ordering::Release);
                    LENGTHS[index].store(len, Ordering::Release);
                    losses.slots.lock().unwrap_or_else(PoisonError::into_inner).push(index);
                    return Ok(Slot { index, _file: file, losses: losses.clone() });
                }
            }
            Err(io::Error::new(io::ErrorKind::OutOfMemory, "too many files are mapped"))
        }
    }

    impl Drop for Slot {
        fn drop(&mut self) {
            let mut slots = self.losses.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.retain(|&slot| slot != self.index);
            self.losses.gone.fetch_or(LOST[self.index].swap(0, Ordering::Relaxed), Ordering::Relaxed);
            drop(slots);
            LENGTHS[self.index].store(0, Ordering::Release);
            FILES[self.index].store(-1, Ordering::Release);
            STARTS[self.index].store(0, Ordering::Release);
        }
    }

    /// Once in a process.
    pub(super) fn install() {
        // Asked for here first, so that the handler finds the number.
        page();
        BEFORE.get_or_init(install_handler);
    }

    /// Returns the action that was there before.
    fn install_handler() -> libc::sigaction {
        // SAFETY: sigaction is called with zero-initialised structs, filled in
        // below or by it; the handler only uses async-signal-safe calls (mmap, fstat and lseek
        // are bare system calls in every libc we build for) and atomics.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
            action.sa_sigaction = handler as usize;
            // On the stack for signals, where a thread has one: as a handler before us may need it.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(libc::SIGBUS, &action, &mut before);
            before
        }
    }

    extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel passes a valid siginfo for SIGBUS; errno is this thread's.
        unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            let addr = (*info).si_addr() as usize;
            // Sent by a process (si_code up to 0) it has no address.
            let slots = if (*info).si_code > 0 { SLOTS } else { 0 };
            for slot in 0..slots {
                let start = STARTS[slot].load(Ordering::Acquire);
                let len = LENGTHS[slot].load(Ordering::Acquire);
                if start != 0 && addr.wrapping_sub(start) < len && replaced(slot, start, len, addr) {
                    *errno = before;
                    return;
                }
            }
            *errno = before;
            // Not known yet: the signal came while the handler was being installed.
            let before = BEFORE.get().map_or((libc::SIG_DFL, 0), |b| (b.sa_sigaction, b.sa_flags));
            super::pass_on(before, signal, info, context);
        }
    }

    /// Put zero pages where the mapping can't be read, and remember why.
    ///
    /// # Safety
    /// For the handler only: `start` and `len` are of a mapping of ours, read-only at `addr`.
    unsafe fn replaced(slot: usize, start: usize, len: usize, addr: usize) -> bool {
        let page = page();
        let at = addr & !(page - 1);
        let rest = (start + len).next_multiple_of(page) - at;
        let offset = OFFSETS[slot].load(Ordering::Acquire) + (at - start) as u64;
        // SAFETY: system calls on a descriptor that the slot holds open; the range is within
        // the mapping.
        unsafe {
            let (run, loss) = match what_is_at(FILES[slot].load(Ordering::Acquire), offset) {
                There::Hole(len) => (usize::try_from(len).unwrap_or(rest) & !(page - 1), None),
                // All behind it is gone too.
                There::Nothing => (rest, Some(FileLoss::Shrank)),
                There::Data => {
                    let doubled = UNREAD.fetch_add(1, Ordering::Relaxed) / DOUBLING;
                    (page << doubled.min(30), Some(FileLoss::Unreadable))
                }
            };
            let exact = zero(at, run.clamp(page, rest));
            if let Some(loss) = loss.or((!exact).then_some(FileLoss::Unreadable)) {
                LOST[slot].fetch_or(bit(loss), Ordering::Relaxed);
            }
            // Where there may be no more mappings, one for all of it: that needs no further one.
            exact || zero(at, rest) || zero(start, rest + (at - start))
        }
    }

    /// What a file has where it could not be read.
    enum There {
        /// Zeros, so many bytes of them.
        Hole(u64),
        /// The file ends before.
        Nothing,
        /// Bytes, or what is not known.
        Data,
    }

    /// # Safety
    /// `file` is an open descriptor, or -1.
    unsafe fn what_is_at(file: libc::c_int, offset: u64) -> There {
        if file < 0 {
            return There::Data;
        }
        // SAFETY: `stat` is written before it is read; the rest are numbers.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::fstat(file, &mut stat) != 0 {
                return There::Data;
            }
            let size = stat.st_size as u64;
            if offset >= size {
                return There::Nothing;
            }
            match libc::lseek(file, offset as libc::off_t, libc::SEEK_DATA) {
                next if next > offset as libc::off_t => There::Hole(next as u64 - offset),
                -1 if *libc::__errno_location() == libc::ENXIO => There::Hole(size - offset),
                _ => There::Data,
            }
        }
    }
}

/// Other systems say in other ways that a file can't be read, and Windows lets nobody cut one that is mapped.
#[cfg(not(target_os = "linux"))]
mod sigbus {
    use std::fs::File;
    use std::io;
    use std::sync::Arc;

    use super::Losses;

    pub(super) struct Slot;

    impl Slot {
        pub(super) fn take(_: *const u8, _: usize, _: u64, _: &File, _: &Arc<Losses>) -> io::Result<Slot> {
            Ok(Slot)
        }
    }

    pub(super) fn lost(_: usize) -> u8 {
        0
    }

    pub(super) fn install() {}
}

#[cfg(test)]
mod tests;
