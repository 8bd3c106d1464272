//! Threads in NT_PRSTATUS: thread ID, signal, registers.
//!
//! The layout is `struct elf_prstatus` (linux/elfcore.h). It is the same from kernel, gdb and createdump, and on all
//! 64-bit machines up to the registers, which are [`Registers`] in their order.

use std::time::Duration;

use crate::bytes;
use crate::targets::dump_notes::{DumpNotes, ThreadNotes};
use crate::targets::{Arch, CpuTime, ProcessInfo, Producer, Registers, Thread};

/// Offsets in an NT_PRSTATUS descriptor, in bytes.
mod at {
    /// `pr_cursig`, i16
    pub(super) const SIGNAL: usize = 12;
    /// `pr_sigpend`, u64
    pub(super) const PENDING: usize = 16;
    /// `pr_sighold`, u64
    pub(super) const BLOCKED: usize = 24;
    /// `pr_pid`, i32: the thread ID
    pub(super) const TID: usize = 32;
    /// `pr_ppid`, i32
    pub(super) const PARENT: usize = 36;
    /// `pr_pgrp`, i32
    pub(super) const GROUP: usize = 40;
    /// `pr_sid`, i32
    pub(super) const SESSION: usize = 44;
    /// `pr_utime`, two i64: seconds and microseconds
    pub(super) const USER: usize = 48;
    /// `pr_stime`, the same
    pub(super) const SYSTEM: usize = 64;
    /// `pr_reg`
    pub(super) const REGISTERS: usize = 112;
}

/// Parses an NT_PRSTATUS descriptor. `None` if it is too short.
pub(super) fn parse(desc: &[u8], arch: Arch) -> Option<Thread> {
    let places = (0..Registers::count(arch)).map(|i| at::REGISTERS + 8 * i);
    let values: Option<Vec<u64>> = places.map(|place| bytes::u64_at(desc, place)).collect();
    let registers = Registers::new(arch, values?)?;
    Some(Thread {
        tid: bytes::u32_at(desc, at::TID)?,
        signal: bytes::u16_at(desc, at::SIGNAL)?,
        thread_pointer: registers.thread_pointer(),
        registers,
        cpu: time_at(desc, at::USER).zip(time_at(desc, at::SYSTEM)).map(|(user, system)| CpuTime { user, system }),
        call: None,
    })
}

/// Reads a `struct timeval`. `None` if it is no time.
fn time_at(desc: &[u8], at: usize) -> Option<Duration> {
    let (seconds, micros) = (bytes::u64_at(desc, at)?, bytes::u64_at(desc, at.checked_add(8)?)?);
    (seconds <= MAX_SECONDS && micros < 1_000_000)
        .then(|| Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
}

/// Maximum processor time of a process in seconds: 3,000 years.
const MAX_SECONDS: u64 = 100_000_000_000;

/// Makes the processor times those of the threads, and returns the sum of the process.
///
/// The kernel writes the time of the whole process into the first thread's note (fs/binfmt_elf.c `fill_prstatus`), so
/// the time of the others is subtracted there. gdb, createdump and QEMU leave all times 0.
pub(super) fn settle_times(threads: &mut [Thread], pid: u32, producer: Producer) -> Option<Duration> {
    let total = |thread: &Thread| thread.cpu.map(|time| time.total()).unwrap_or_default();
    let leaves_zeros = !matches!(producer, Producer::Kernel | Producer::Coremap | Producer::Live);
    if leaves_zeros && threads.iter().all(|thread| total(thread).is_zero()) {
        threads.iter_mut().for_each(|thread| thread.cpu = None);
        return None;
    }
    match producer {
        // Its own notes have the times of each thread (`crate::dump`).
        Producer::Coremap | Producer::Live => None,
        Producer::Kernel => {
            let others = threads.iter().filter(|thread| thread.tid != pid).filter_map(|thread| thread.cpu);
            let add = |sum: CpuTime, time: CpuTime| CpuTime {
                user: sum.user.saturating_add(time.user),
                system: sum.system.saturating_add(time.system),
            };
            let others = others.fold(CpuTime::default(), add);
            let first = threads.iter_mut().find(|thread| thread.tid == pid)?.cpu.as_mut()?;
            let sum = first.total();
            first.user = first.user.saturating_sub(others.user);
            first.system = first.system.saturating_sub(others.system);
            Some(sum)
        }
        // Whether the first thread's time is a sum is not known.
        Producer::Createdump | Producer::Gcore | Producer::Unknown => {
            threads.iter_mut().filter(|thread| thread.tid == pid).for_each(|thread| thread.cpu = None);
            None
        }
    }
}

/// Overwrites registers that point nowhere and are not part of the machine's state: values of variables.
pub(super) fn scrub(desc: &mut [u8], arch: Arch, leads_somewhere: &dyn Fn(u64) -> bool) {
    let Some(thread) = parse(desc, arch) else { return desc.fill(0) };
    for (i, (name, value)) in thread.registers.iter().enumerate() {
        let place = at::REGISTERS + 8 * i;
        let stays = STATE.contains(&name) || name == NUMBER && is_system_call(value) || leads_somewhere(value);
        if !stays {
            desc.get_mut(place..place + 8).unwrap_or_default().fill(0);
        }
    }
}

/// Registers with the state of the machine.
const STATE: [&str; 10] = ["cs", "eflags", "ss", "ds", "es", "fs", "gs", "pstate", "pc", "rip"];

/// The register with the number of the thread's system call.
const NUMBER: &str = "orig_rax";

/// Whether a value is the number of a system call (there are less than 600), or means that there is none.
fn is_system_call(value: u64) -> bool {
    value < 1024 || value == u64::MAX
}

/// The descriptor of `thread`: the fields that [`parse`] reads, and the rest for other readers.
pub(super) fn bytes_of(thread: &Thread, more: &ThreadNotes, process: &ProcessInfo, notes: &DumpNotes) -> Vec<u8> {
    let registers = thread.registers.iter().flat_map(|(_, value)| value.to_le_bytes());
    let mut out = vec![0; at::REGISTERS];
    out.extend(registers);
    // pr_fpvalid, and padding to 8 bytes.
    out.extend(u64::from(!more.sets.is_empty()).to_le_bytes());
    let mut put = |at: usize, bytes: &[u8]| out.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
    put(at::SIGNAL, &thread.signal.to_le_bytes());
    put(at::PENDING, &more.pending.to_le_bytes());
    put(at::BLOCKED, &more.blocked.to_le_bytes());
    put(at::TID, &thread.tid.to_le_bytes());
    put(at::PARENT, &process.ppid.to_le_bytes());
    put(at::GROUP, &notes.group.to_le_bytes());
    put(at::SESSION, &notes.session.to_le_bytes());
    put(at::USER, &timeval(more.user));
    put(at::SYSTEM, &timeval(more.system));
    out
}

/// `struct timeval`
fn timeval(time: Duration) -> [u8; 16] {
    let words = u128::from(time.as_secs()) | u128::from(time.subsec_micros()) << 64;
    words.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            let values = (0..Registers::count(arch) as u64).map(|n| n << 32 | 7).collect();
            let registers = Registers::new(arch, values);
            let Some(registers) = registers else { panic!("as many as there are") };
            let pointer = registers.thread_pointer();
            let thread = Thread { tid: 4711, signal: 0, thread_pointer: pointer, registers, cpu: None, call: None };
            let more = ThreadNotes { blocked: 0x11, user: Duration::from_micros(3_000_007), ..ThreadNotes::default() };
            let process = ProcessInfo { ppid: 5, ..ProcessInfo::default() };
            let desc = bytes_of(&thread, &more, &process, &DumpNotes::default());
            // `struct elf_prstatus` of these machines.
            assert_eq!(desc.len(), if arch == Arch::X86_64 { 336 } else { 392 });
            let Some(read) = parse(&desc, arch) else { panic!("it is not short") };
            assert_eq!((read.tid, read.signal, read.thread_pointer), (4711, 0, thread.thread_pointer));
            assert!(read.registers.iter().eq(thread.registers.iter()));
            assert_eq!(read.registers.sp(), thread.registers.sp());
            let word = |at| bytes::u64_at(&desc, at);
            assert_eq!((word(at::BLOCKED), word(at::USER), word(at::USER + 8)), (Some(0x11), Some(3), Some(7)));
            assert_eq!(read.cpu.map(|time| time.total()), Some(Duration::from_micros(3_000_007)));
        }
    }

    fn spent(tid: u32, millis: u64) -> Thread {
        let Some(registers) = Registers::new(Arch::X86_64, vec![0; Registers::count(Arch::X86_64)]) else {
            panic!("as many as there are")
        };
        let cpu = Some(CpuTime { user: Duration::from_millis(millis), system: Duration::ZERO });
        Thread { tid, signal: 0, registers, thread_pointer: None, cpu, call: None }
    }

    #[test]
    fn the_kernel_writes_the_time_of_the_process_into_its_first_thread() {
        let millis = |threads: &[Thread]| -> Vec<Option<u128>> {
            threads.iter().map(|thread| thread.cpu.map(|time| time.total().as_millis())).collect()
        };
        // The crashed thread comes first, not the process's first thread.
        let mut threads = [spent(8, 1500), spent(7, 2100), spent(9, 500)];
        let sum = settle_times(&mut threads, 7, Producer::Kernel);
        assert_eq!(
            (sum, millis(&threads)),
            (Some(Duration::from_millis(2100)), vec![Some(1500), Some(100), Some(500)])
        );
        // Times that contradict each other don't overflow.
        let mut threads = [spent(7, 1), spent(8, 5)];
        settle_times(&mut threads, 7, Producer::Kernel);
        assert_eq!(millis(&threads), [Some(0), Some(5)]);
        let mut threads = [spent(7, 0), spent(8, 0)];
        assert_eq!(settle_times(&mut threads, 7, Producer::Gcore), None);
        assert_eq!(millis(&threads), [None, None], "gdb writes no times");
        let mut threads = [spent(7, 30), spent(8, 20)];
        assert_eq!(settle_times(&mut threads, 7, Producer::Unknown), None);
        assert_eq!(millis(&threads), [None, Some(20)], "may be a sum");
    }
}
