//! The machine that coremap itself runs on: page size, memory, processors.
//!
//! This room uses no other. Files of the system are in [`host`](crate::host).

/// Processor time of all threads of this program. `None` if the system is not supported.
pub fn processor_time() -> Option<std::time::Duration> {
    #[cfg(unix)]
    return rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().ok();
    #[cfg(not(unix))]
    return None;
}

/// Length of a page of this machine in bytes, or 4096 (the smallest there is) where it can't be determined.
/// Async-signal-safe on Linux: it reads the auxiliary vector or a stored value.
pub(crate) fn page_size() -> usize {
    #[cfg(unix)]
    return rustix::param::page_size();
    #[cfg(not(unix))]
    return 4096;
}

/// Bytes of memory that coremap itself uses: resident pages that are not of files (proc(5), /proc/PID/statm: resident −
/// shared). `None` if the system does not report it.
pub(crate) fn used_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared).saturating_mul(page_size() as u64))
}

/// Bytes of unused memory: the machine's `MemAvailable`, or what is left in this process's control group if that is
/// less.
#[cfg(target_os = "linux")]
pub(crate) fn available_memory() -> u64 {
    let group = || {
        let (max, current) = (group_figure("memory.max")?, group_figure("memory.current")?);
        Some(max.saturating_sub(current))
    };
    machine_figure("MemAvailable:").unwrap_or(0).min(group().unwrap_or(u64::MAX))
}

/// Bytes of a line of /proc/meminfo.
fn machine_figure(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse::<u64>().ok())?;
    Some(kib.saturating_mul(1024))
}

/// A figure of this process's control group. `None` if there is no group or the figure is `max`, no limit.
fn group_figure(name: &str) -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    std::fs::read_to_string(format!("/sys/fs/cgroup/{path}/{name}")).ok()?.trim().parse::<u64>().ok()
}

/// Bytes of memory that this process may use: the machine's, or its control group's limit if that is less.
pub(crate) fn usable_memory() -> Option<u64> {
    [machine_figure("MemTotal:"), group_figure("memory.max")].into_iter().flatten().min()
}
