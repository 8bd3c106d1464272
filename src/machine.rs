//! The machine that coremap itself runs on: its pages, its memory and its processors.
//!
//! The room uses no other. Files of the system are in [`host`](crate::host).

/// Time that all threads of this program have had on processors; `None` where the system is not asked.
pub(crate) fn processor_time() -> Option<std::time::Duration> {
    #[cfg(unix)]
    return rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).try_into().ok();
    #[cfg(not(unix))]
    return None;
}

/// Bytes of a page of this machine's memory; where the system tells none, of the smallest that there are. Async-signal-safe on Linux: it
/// asks the auxiliary vector or a number kept of it.
pub(crate) fn page_size() -> usize {
    #[cfg(unix)]
    return rustix::param::page_size();
    #[cfg(not(unix))]
    return 4096;
}

/// Bytes of memory that this process has taken for itself: what is resident without pages
/// of files (proc(5), /proc/PID/statm: resident and shared). `None` where the system does
/// not tell.
pub(crate) fn taken() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared).saturating_mul(page_size() as u64))
}

/// Bytes of memory that nobody uses now: what the machine has to spare (`MemAvailable`), and what the control group of this process may still take.
#[cfg(target_os = "linux")]
pub(crate) fn spare() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0);
    let group = || {
        let (max, current) = (group_figure("memory.max")?, group_figure("memory.current")?);
        Some(max.saturating_sub(current))
    };
    available.saturating_mul(1024).min(group().unwrap_or(u64::MAX))
}

/// A figure of the control group of this process; `None`: it has none, or is without a limit (`max`).
fn group_figure(name: &str) -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    std::fs::read_to_string(format!("/sys/fs/cgroup/{path}/{name}")).ok()?.trim().parse::<u64>().ok()
}

/// Bytes of memory that this process may have: the machine's, or its control group's.
pub(crate) fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    [total.map(|kib: u64| kib.saturating_mul(1024)), group_figure("memory.max")].into_iter().flatten().min()
}
