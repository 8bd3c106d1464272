//! A copy of the process that shares its memory until one of the two writes (copy-on-write), for `--snapshot`.
//!
//! A thread of the process is made to call clone(2). The copy is stopped before its first instruction, and the process
//! goes on. coremap reads the copy, and then it is killed.
//!
//! | file | contents |
//! |---|---|
//! | `mod` | whether a copy can be made; the link to the helper |
//! | `helper` | the process that traces the thread and the copy |
//! | `machine` | registers and instructions of a system call |
//! | `calls` | system calls |

mod calls;
mod helper;
mod machine;

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::addr::Addr;
use crate::live::stop;
use crate::live::{AttachOptions, maps, ptrace};
use crate::targets::residence::{CgroupFigures, Residence};
use crate::targets::{Arch, Registers, Thread};
use crate::units::round;
use helper::{ANSWER, Answer, MAX_CANDIDATES, Plan, order};
use machine::{MACHINE, State};

/// Maximum wait for an answer of the helper. A copy of 100 GB takes a second.
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// Maximum length of the vdso in bytes.
const MAX_VDSO: usize = 64 << 10;

/// Share of the process's anonymous memory that it may change while the copy exists. It needs new pages for these.
const CHANGED_SHARE: u64 = 16;

/// Memory for structures of the copy besides page tables, in bytes.
const SPARE: u64 = 16 << 20;

/// The highest value of oom_score_adj: the kernel ends the copy before any other process.
const FIRST_VICTIM: &str = "1000";

/// Why no copy of a process is made.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum NoSnapshot {
    #[error("it has a seccomp filter, which might kill it for the call, and only CAP_SYS_ADMIN may suspend the filter")]
    Filtered,
    #[error("the program handles page faults itself (userfaultfd), and would have to handle the copy's")]
    UserFaults,
    #[error("the copy may need {} and only {} are left for it, by the {limit}", round(*needed), round(*left))]
    Memory { needed: u64, left: u64, limit: &'static str },
    #[error("none of its threads waits or runs where a call can be added")]
    NoThread,
    #[error("its vdso has no system call")]
    NoInstruction,
    #[error("the system refused it: {0}")]
    Call(String),
    #[error("coremap can't start a process: {0}")]
    Helper(String),
    #[error("the process that makes it ended")]
    HelperEnded,
    #[error("the copy can't be read: {0}")]
    Unreadable(String),
    #[error("the memory that it shares with others is too large to copy, or can't be read")]
    Shared,
}

/// One thread of the process, stopped, and later the copy. When this is dropped, the thread is resumed and the copy ended.
pub(super) struct Snapshot {
    link: Link,
    /// The thread that the helper holds.
    pub(super) thread: Thread,
}

/// The helper, and the link to it.
struct Link {
    stream: Mutex<UnixStream>,
    /// Process ID of the helper.
    helper: u32,
}

impl Snapshot {
    /// Stops one thread of the process, which can later create the copy.
    pub(super) fn begin(pid: u32, arch: Arch, attach: AttachOptions) -> Result<Snapshot, NoSnapshot> {
        let candidates = candidates(pid);
        let plan = Plan {
            pid,
            candidates,
            instruction: instruction(pid).ok_or(NoSnapshot::NoInstruction)?,
            is_filtered: is_filtered(pid, &candidates),
            max_stop: attach.max_stop,
        };
        let cannot_start = |e: io::Error| NoSnapshot::Helper(e.to_string());
        let (link, theirs) = UnixStream::pair().map_err(cannot_start)?;
        link.set_read_timeout(Some(ANSWER_TIME)).map_err(cannot_start)?;
        let helper = calls::spawn(helper::run, theirs, &plan).map_err(cannot_start)?;
        let link = Link { stream: Mutex::new(link), helper };
        let (answer, state) = link.answer().ok_or(NoSnapshot::HelperEnded)?;
        let thread = thread(done(answer)?, arch, &state).ok_or(NoSnapshot::NoThread)?;
        Ok(Snapshot { link, thread })
    }

    /// Creates the copy. Returns its process ID. All other threads of the process must be stopped.
    pub(super) fn clone_process(&self) -> Result<u32, NoSnapshot> {
        let copy = done(self.link.order(order::CLONE).ok_or(NoSnapshot::HelperEnded)?)?;
        // If this fails, the kernel still ends the larger of the two first, and they are equal.
        let _ = fs::write(format!("/proc/{copy}/oom_score_adj"), FIRST_VICTIM);
        Ok(copy)
    }

    /// Resumes the thread.
    pub(super) fn release(&self) {
        let _ = self.link.order(order::RELEASE);
    }
}

impl Link {
    fn order(&self, order: u8) -> Option<Answer> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(&[order]).ok()?;
        Some(self.answer()?.0)
    }

    fn answer(&self) -> Option<(Answer, State)> {
        let mut bytes = [0; ANSWER];
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).read_exact(&mut bytes).ok()?;
        Some(Answer::decode(&bytes))
    }

    /// Whether the helper has closed the link.
    fn is_closed(&self) -> bool {
        let read = self.stream.lock().unwrap_or_else(PoisonError::into_inner).read(&mut [0]);
        matches!(read, Ok(0)) || read.is_err_and(|e| e.kind() == io::ErrorKind::ConnectionReset)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // It ends after its answer, or has ended before. If it does neither in time, nobody waits for it.
        if self.order(order::END).is_some() || self.is_closed() {
            calls::await_exit(self.helper);
        }
    }
}

fn done(answer: Answer) -> Result<u32, NoSnapshot> {
    match answer {
        Answer::Done(id) if id != 0 => Ok(id),
        Answer::Done(_) | Answer::NoThread => Err(NoSnapshot::NoThread),
        Answer::Filtered => Err(NoSnapshot::Filtered),
        Answer::Failed(error) => Err(NoSnapshot::Call(io::Error::from_raw_os_error(error).to_string())),
    }
}

fn thread(tid: u32, arch: Arch, state: &State) -> Option<Thread> {
    let mut registers = Registers::new(arch, state.get().to_vec())?;
    let [pointer, mask] = state.more;
    if mask != 0 {
        registers.set_signature(mask);
    }
    let thread_pointer = registers.thread_pointer().or((pointer != 0).then_some(Addr::new(pointer)));
    Some(Thread { tid, signal: 0, registers, thread_pointer, cpu: None, call: None })
}

/// Checks whether a copy would harm the process or the machine. `left`: memory that is left for new processes.
pub(super) fn check(residence: &Residence, left: u64) -> Result<(), NoSnapshot> {
    if residence.mappings.iter().any(|mapping| mapping.flags.user_faults) {
        return Err(NoSnapshot::UserFaults);
    }
    let figure = |figure: Option<u64>| figure.unwrap_or(0);
    let changed = figure(residence.status.rss_anon) / CHANGED_SHARE;
    let needed = figure(residence.status.page_tables).saturating_add(changed).saturating_add(SPARE);
    let group = residence.cgroup.as_ref().and_then(left_in_group);
    let (left, limit) = match group {
        Some(group) if group < left => (group, "limit of its control group"),
        _ => (left, "memory of the machine"),
    };
    if needed > left { Err(NoSnapshot::Memory { needed, left, limit }) } else { Ok(()) }
}

/// Bytes that a control group may still be charged with. Its page cache can be dropped. `None` without a limit.
fn left_in_group(group: &CgroupFigures) -> Option<u64> {
    let cache = group.file.unwrap_or(0).saturating_sub(group.shmem.unwrap_or(0));
    Some(group.max?.saturating_sub(group.current?.saturating_sub(cache)))
}

/// Threads that may make the call, the best first: threads that wait in a system call, then those that run.
fn candidates(pid: u32) -> [u32; MAX_CANDIDATES] {
    let mut ranked: Vec<(u8, u32)> = Vec::new();
    for tid in stop::tids(pid).unwrap_or_default() {
        let rank = match stop::state(pid, tid) {
            Some('S' | 'T' | 't') => 0,
            Some('R') => 1,
            _ => continue,
        };
        ranked.push((rank, tid));
        if ranked.len() >= 4 * MAX_CANDIDATES {
            break;
        }
    }
    ranked.sort_by_key(|&(rank, _)| rank);
    let mut out = [0; MAX_CANDIDATES];
    out.iter_mut().zip(ranked).for_each(|(to, (_, tid))| *to = tid);
    out
}

/// Address of an instruction in the vdso that makes a system call.
fn instruction(pid: u32) -> Option<u64> {
    let vmas = maps::parse(&fs::read(format!("/proc/{pid}/maps")).ok()?);
    let vdso = vmas.iter().find(|vma| &*vma.name == "[vdso]")?.range;
    let mut bytes = vec![0; usize::try_from(vdso.len()).unwrap_or(MAX_VDSO).min(MAX_VDSO)];
    let have = ptrace::read(pid, vdso.start, &mut bytes);
    let wanted = MACHINE.instruction;
    let found = memchr::memmem::find_iter(bytes.get(..have)?, wanted).find(|at| at % MACHINE.alignment == 0)?;
    Some(vdso.start.saturating_add(found as u64).get())
}

/// Whether one of these threads has a seccomp filter.
fn is_filtered(pid: u32, tids: &[u32]) -> bool {
    tids.iter().any(|tid| {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() != "0"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::ptrace::MAX_REGISTERS;
    use crate::targets::residence::StatusFigures;

    #[test]
    fn answers_arrive_as_they_were_sent() {
        let mut state = State { count: 3, more: [5, 6], ..State::EMPTY };
        state.words.iter_mut().zip(7..).for_each(|(word, value)| *word = value);
        for answer in [Answer::Done(u32::MAX), Answer::NoThread, Answer::Filtered, Answer::Failed(libc::EAGAIN)] {
            let (decoded, registers) = Answer::decode(&answer.encode(Some(&state)));
            assert_eq!((decoded, registers.get(), registers.more), (answer, state.get(), state.more));
        }
    }

    #[test]
    fn a_call_has_its_registers_and_nothing_is_repeated() {
        let state = State { count: MAX_REGISTERS, words: [u64::MAX >> 1; MAX_REGISTERS], ..State::EMPTY };
        let call = state.for_call(0x1000, MACHINE.wait4, &[1, 2, 3, 4, 5, 6]);
        let mut changed = state.get().iter().zip(call.get()).filter(|(a, b)| a != b).count();
        // The arguments, the number, the address, the flags, and the call that was interrupted.
        changed -= usize::from(state.is_in_call().is_some());
        assert_eq!(changed, 9);
        assert_ne!(call.is_in_call(), Some(true));
    }

    #[test]
    fn what_could_harm_is_refused() {
        let gib = 1 << 30;
        let status =
            StatusFigures { rss_anon: Some(16 * gib), page_tables: Some(32 << 20), ..StatusFigures::default() };
        let cgroup = |current, file| CgroupFigures {
            max: Some(20 * gib),
            current: Some(current),
            file: Some(file),
            shmem: Some(gib),
            ..CgroupFigures::default()
        };
        let of = |cgroup| Residence { status, cgroup, ..Residence::default() };
        assert!(check(&of(None), 2 * gib).is_ok());
        assert!(matches!(check(&of(None), gib), Err(NoSnapshot::Memory { limit: "memory of the machine", .. })));
        assert!(check(&of(Some(cgroup(18 * gib, gib))), 64 * gib).is_ok());
        let refused = check(&of(Some(cgroup(19 * gib, gib))), 64 * gib);
        assert!(refused.is_err_and(|why| why.to_string().contains("limit of its control group")));
        // Its cache can be dropped, but not its shared memory.
        assert!(check(&of(Some(cgroup(19 * gib, 3 * gib))), 64 * gib).is_ok());
    }
}
