//! Maps memory. This is the only room with `unsafe`, apart from the system calls of `live/ptrace.rs`. It has mapped
//! files with a handler for their read errors, another process's memory as if it were mapped (`mirror`), and arrays of
//! numbers too large for memory (`table`).
//!
//! Reading a mapped page that its file can't provide raises SIGBUS, which ends the program. After [`handle_sigbus`], a
//! handler maps zero pages instead, and records the reason: the file became shorter ([`FileLoss::Shrank`]), or its
//! disk failed ([`FileLoss::Unreadable`]). The command then reports a partial answer. A hole of a file on a full tmpfs
//! raises SIGBUS too, because no page is left to read it into. That is a zero page, and no loss. Faults outside our
//! mappings go to the previous handler.
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
use crate::targets::FileLoss;

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

    /// Records a loss found by a read that does not go through a mapping.
    pub(crate) fn note(&self, loss: FileLoss) {
        self.gone.fetch_or(bit(loss), Ordering::Relaxed);
    }
}

fn bit(loss: FileLoss) -> u8 {
    1 << loss as u8
}

/// A whole file, mapped read-only.
pub struct MappedFile {
    // Before the map, so that the handler's entry is dropped first.
    _slot: sigbus::Slot,
    map: memmap2::Mmap,
}

impl MappedFile {
    /// Maps all of `file`. Pages that can't be read are recorded in `losses`.
    ///
    /// # Errors
    /// Errors of mmap(2); `OutOfMemory` if too many files are mapped at once.
    pub fn map(file: &File, losses: &Arc<Losses>) -> io::Result<MappedFile> {
        MappedFile::with_holes(file, &[], losses)
    }

    /// Maps all of `file`, whose `holes` are known to be zero. They are mapped as zero pages, so that reading them
    /// takes no memory, even on a tmpfs.
    ///
    /// # Errors
    /// As [`MappedFile::map`].
    pub(crate) fn with_holes(file: &File, holes: &[Range<u64>], losses: &Arc<Losses>) -> io::Result<MappedFile> {
        // SAFETY: the mapping is read-only and private to this struct. Another
        // process may change the file, so its bytes are never trusted to stay
        // the same between two reads; if it shrinks, the SIGBUS handler
        // supplies zero pages, or without it the process ends.
        let map = unsafe { memmap2::Mmap::map(file)? };
        // Structures are read at random. Without this, the kernel reads megabytes ahead of each (and fills holes of
        // sparse files with pages). If the advice fails, reading is only slower.
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::Random);
        for hole in holes {
            let hole = hole.start as usize..(hole.end as usize).min(map.len());
            // SAFETY: the range is in our own mapping, which nobody reads yet. If it fails, the file's own hole is
            // still there.
            unsafe { zero(map.as_ptr().add(hole.start.min(hole.end)) as usize, hole.len()) };
        }
        let slot = sigbus::Slot::take(map.as_ptr(), map.len(), 0, file, losses)?;
        Ok(MappedFile { _slot: slot, map })
    }

    /// Hint: the whole file is about to be read once, front to back.
    pub fn expect_scan(&self) {
        #[cfg(unix)]
        let _ = self.map.advise(memmap2::Advice::Sequential);
    }

    /// Unmaps the whole pages within `place`. They are read from the file again when they are needed. If that fails,
    /// they only use more memory.
    pub(crate) fn forget(&self, place: Range<u64>) {
        #[cfg(target_os = "linux")]
        {
            let page = page();
            let start = (place.start as usize).next_multiple_of(page);
            let end = (place.end as usize).min(self.map.len()) / page * page;
            if start < end {
                // SAFETY: the mapping is read-only, and shared with the file or zero pages in place of its holes. So
                // the pages have the same contents when they are read again.
                let _ =
                    unsafe { self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start) };
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = place;
    }
}

impl Deref for MappedFile {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.map
    }
}

/// Memory that a decoder writes front to back, and reads back at any distance. Only its end is in memory. The finished
/// part is read from a file.
pub(crate) struct Window {
    _slot: sigbus::Slot,
    map: memmap2::MmapMut,
    /// Number of bytes in the mapping before the first byte. They give it the same offset in its page as in the file.
    lead: usize,
    /// File offset of the first byte.
    #[cfg(target_os = "linux")]
    offset: u64,
    /// Bytes that the file now provides.
    done: usize,
}

impl Window {
    /// Reserves address space for `len` bytes that will be in `file` from `offset` on.
    ///
    /// # Errors
    /// Errors of mmap(2), if there is not enough address space.
    pub(crate) fn reserve(file: &File, offset: u64, len: usize, losses: &Arc<Losses>) -> io::Result<Window> {
        let lead = (offset % page() as u64) as usize;
        let len = len.checked_add(lead).ok_or(io::ErrorKind::OutOfMemory)?;
        let map = memmap2::MmapOptions::new().len(len).no_reserve_swap().map_anon()?;
        // The memory is written once, from start to end. With small pages, half of the time would go to page faults.
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

    /// All bytes. Those passed to [`Window::settle`] must not be written any more; that would end the program.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.map[self.lead..]
    }

    /// Declares the first `upto` bytes as written to `file`, except its `holes`. On Linux they are then read from the
    /// file, and are no longer our memory. On other systems they stay in memory.
    ///
    /// # Errors
    /// Errors of mmap(2).
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn settle(&mut self, _: &File, upto: usize, _: &[Range<u64>]) -> io::Result<()> {
        self.done = upto;
        Ok(())
    }

    /// Declares the first `upto` bytes as written to `file`, except its `holes`. They are then read from the file, and
    /// are no longer our memory.
    ///
    /// # Errors
    /// Errors of mmap(2).
    #[cfg(target_os = "linux")]
    pub(crate) fn settle(&mut self, file: &File, upto: usize, holes: &[Range<u64>]) -> io::Result<()> {
        let whole = |n: usize| n / page() * page();
        let (from, to) = (whole(self.lead + self.done), whole(self.lead + upto));
        if from >= to {
            return Ok(());
        }
        let base = self.map.as_ptr() as usize;
        let first = self.offset - self.lead as u64;
        // SAFETY: whole pages of our own mapping, without a live reference. The file contains the same bytes, so
        // nothing changes for readers.
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
            // Pages that were read back count as our memory until they are released.
            libc::madvise(base as *mut libc::c_void, to, libc::MADV_DONTNEED);
        }
        self.done = upto;
        Ok(())
    }
}

/// Maps zero pages over the whole pages within the range. Returns whether it succeeded.
///
/// # Safety
/// The range must be in a mapping of ours, and its contents must not be needed.
#[cfg(not(target_os = "linux"))]
unsafe fn zero(_: usize, _: usize) -> bool {
    false
}

/// Maps zero pages over the whole pages within the range. Returns whether it succeeded.
///
/// # Safety
/// The range must be in a mapping of ours, and its contents must not be needed.
#[cfg(target_os = "linux")]
unsafe fn zero(at: usize, len: usize) -> bool {
    let page = page();
    let (start, end) = (at.next_multiple_of(page), at.saturating_add(len) / page * page);
    if start >= end {
        return false;
    }
    // SAFETY: the caller guarantees that the range is ours and its contents are not needed.
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

/// Passes a signal that is not ours to the previous handler, which has these flags.
///
/// # Safety
/// For handlers only, with the arguments from the kernel and the action returned by sigaction.
#[cfg(target_os = "linux")]
unsafe fn pass_on(
    (handler, flags): (libc::sighandler_t, libc::c_int),
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: a handler returned by sigaction has the signature that its flags specify.
    unsafe {
        match handler {
            // Restore the default action. The access is repeated, and ends the process.
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

/// Installs a SIGBUS handler that supplies zero pages where mapped files can't be read. Without it, reading such a page
/// ends the process.
///
/// The previous SIGBUS handler still receives faults outside our mappings. The handler stays until the process ends. A
/// second call does nothing.
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

/// The handler, and its table of mappings.
#[cfg(target_os = "linux")]
mod sigbus {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering};
    use std::sync::{Arc, OnceLock, PoisonError};

    use super::{FileLoss, Losses, bit, page, zero};

    /// Maximum number of mappings that the handler knows: the core, and files under `--symbols`.
    const SLOTS: usize = 4096;

    /// Number of slots that keep their file open, so that the handler can query its size. A process may have 1,024 open
    /// files by default.
    const ASKED: usize = 256;

    /// After this many unreadable pages, the range given up with each further one doubles. A disk that is gone then
    /// takes some thousand mappings instead of one per page (vm.max_map_count is 65,530 by default).
    const DOUBLING: usize = 256;

    static STARTS: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
    static LENGTHS: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
    /// File offset of each mapping.
    static OFFSETS: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
    /// File descriptor of each mapping, or -1.
    pub(super) static FILES: [AtomicI32; SLOTS] = [const { AtomicI32::new(-1) }; SLOTS];
    /// Losses of each mapping, one bit each.
    static LOST: [AtomicU8; SLOTS] = [const { AtomicU8::new(0) }; SLOTS];
    static UNREAD: AtomicUsize = AtomicUsize::new(0);
    /// The action for SIGBUS before our handler, once that is installed.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    /// An entry of the handler's table. It is valid as long as this lives.
    pub(super) struct Slot {
        pub(super) index: usize,
        /// The mapped file. It is open as long as the handler may query it.
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
                    // If no descriptors are left, the handler works without one.
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

    pub(super) fn install() {
        // Caches the page size, so that the handler only reads it.
        page();
        BEFORE.get_or_init(install_handler);
    }

    /// Installs the handler. Returns the previous action.
    fn install_handler() -> libc::sigaction {
        // SAFETY: sigaction is called with zero-initialised structs, filled in below or by it. The handler only uses
        // atomics and async-signal-safe calls (mmap, fstat and lseek are bare system calls in every libc we build for).
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
            action.sa_sigaction = handler as usize;
            // Use the signal stack, if the thread has one, because a previous handler may need it.
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
            // A signal sent by a process (si_code up to 0) has no address.
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
            // Not set yet if the signal came while the handler was being installed.
            let before = BEFORE.get().map_or((libc::SIG_DFL, 0), |b| (b.sa_sigaction, b.sa_flags));
            super::pass_on(before, signal, info, context);
        }
    }

    /// Maps zero pages where the mapping can't be read, and records why.
    ///
    /// # Safety
    /// For the handler only: `start` and `len` are of a mapping of ours, read-only at `addr`.
    unsafe fn replaced(slot: usize, start: usize, len: usize, addr: usize) -> bool {
        let page = page();
        let at = addr & !(page - 1);
        let rest = (start + len).next_multiple_of(page) - at;
        let offset = OFFSETS[slot].load(Ordering::Acquire) + (at - start) as u64;
        // SAFETY: system calls on a descriptor that the slot keeps open; the range is within the mapping.
        unsafe {
            let (run, loss) = match what_is_at(FILES[slot].load(Ordering::Acquire), offset) {
                There::Hole(len) => (usize::try_from(len).unwrap_or(rest) & !(page - 1), None),
                // Everything after this offset is gone too.
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
            // If no more mappings are allowed, replace the whole mapping, which needs no further one.
            exact || zero(at, rest) || zero(start, rest + (at - start))
        }
    }

    /// Contents of a file at an offset that could not be read.
    enum There {
        /// A hole with this many bytes left.
        Hole(u64),
        /// Nothing: the file ends before it.
        Nothing,
        /// Data, or unknown.
        Data,
    }

    /// # Safety
    /// `file` must be an open descriptor, or -1.
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

/// Other systems report unreadable files in other ways. Windows lets nobody truncate a mapped file.
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
