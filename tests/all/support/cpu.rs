//! Processor time, which other work on the machine does not affect, unlike
//! wall-clock time.

use std::time::Duration;

use rustix::process::Pid;
use rustix::time::ClockId;

/// Processor time of all threads of a child, including one that has ended but
/// was not waited for.
pub fn of_process(pid: Pid) -> Duration {
    of_stat(&format!("/proc/{}/stat", pid.as_raw_nonzero()))
}

/// Processor time of another thread of this process.
pub fn of_thread(tid: Pid) -> Duration {
    of_stat(&format!("/proc/self/task/{}/stat", tid.as_raw_nonzero()))
}

/// Processor time of the calling thread.
pub fn of_this_thread() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// utime and stime of proc(5), in ticks; zero if the process is gone.
fn of_stat(path: &str) -> Duration {
    let Ok(text) = std::fs::read_to_string(path) else { return Duration::ZERO };
    // The second field is a name in parentheses, which may contain anything.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|f| f.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}
