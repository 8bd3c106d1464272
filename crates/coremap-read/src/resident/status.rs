//! Parses /proc/PID/status: the kernel's sums for a process (fs/proc/array.c, fs/proc/task_mmu.c `task_mem`).

use super::text::{kib, lines, number};
use crate::targets::residence::StatusFigures;

/// Parses the text of /proc/PID/status. Missing figures are `None`. A kernel thread or an ending process has none,
/// because it has no memory.
pub fn parse(text: &[u8]) -> StatusFigures {
    let mut out = StatusFigures::default();
    for (line, _) in lines(text) {
        take_line(&mut out, line);
    }
    out
}

/// Parses one line. Returns whether it is a known line of status.
pub(super) fn take_line(out: &mut StatusFigures, line: &[u8]) -> bool {
    let Some(colon) = memchr::memchr(b':', line) else { return false };
    let (key, value) = line.split_at(colon);
    let value = value.get(1..).unwrap_or_default();
    let field = match key {
        b"VmRSS" => &mut out.vm_rss,
        b"VmHWM" => &mut out.vm_hwm,
        b"RssAnon" => &mut out.rss_anon,
        b"RssFile" => &mut out.rss_file,
        b"RssShmem" => &mut out.rss_shmem,
        b"VmSwap" => &mut out.vm_swap,
        b"HugetlbPages" => &mut out.hugetlb,
        b"VmPTE" | b"VmPMD" => {
            let sum = |more: u64| out.page_tables.unwrap_or(0).saturating_add(more);
            out.page_tables = kib(value).map(sum).or(out.page_tables);
            return true;
        }
        b"Pid" => {
            let pid = number(value.trim_ascii()).filter(|(_, rest)| rest.is_empty());
            out.pid = pid.and_then(|(pid, _)| u32::try_from(pid).ok());
            return true;
        }
        _ => return false,
    };
    *field = kib(value);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// status of `cat` on a 6.18 kernel, without lines that are not read.
    const NEW: &str = "Name:\tcat\nUmask:\t0022\nState:\tR (running)\nTgid:\t7397\nNgid:\t0\nPid:\t7397\nPPid:\t7393\n\
        VmPeak:\t    3060 kB\nVmSize:\t    3060 kB\nVmLck:\t       0 kB\nVmPin:\t       0 kB\nVmHWM:\t    1668 kB\n\
        VmRSS:\t    1668 kB\nRssAnon:\t     112 kB\nRssFile:\t    1556 kB\nRssShmem:\t       0 kB\n\
        VmData:\t     360 kB\nVmPTE:\t      44 kB\nVmSwap:\t       0 kB\nHugetlbPages:\t       0 kB\nThreads:\t1\n";

    #[test]
    fn of_a_new_kernel() {
        let kib = |n: u64| Some(n << 10);
        let parsed = parse(NEW.as_bytes());
        let expected = StatusFigures {
            pid: Some(7397),
            vm_rss: kib(1668),
            vm_hwm: kib(1668),
            rss_anon: kib(112),
            rss_file: kib(1556),
            rss_shmem: kib(0),
            vm_swap: kib(0),
            page_tables: kib(44),
            hugetlb: kib(0),
        };
        assert_eq!(parsed, expected);
    }

    #[test]
    fn of_an_old_kernel_that_tells_page_tables_by_level() {
        let parsed = parse(b"Pid:\t12\nVmRSS:\t    1528 kB\nVmPTE:\t      44 kB\nVmPMD:\t      12 kB\n");
        assert_eq!((parsed.vm_rss, parsed.page_tables), (Some(1528 << 10), Some(56 << 10)));
        assert_eq!((parsed.rss_anon, parsed.vm_swap, parsed.hugetlb), (None, None, None));
    }

    #[test]
    fn a_thread_of_the_kernel_has_no_memory() {
        let parsed = parse(b"Name:\tkthreadd\nPid:\t2\nThreads:\t1\n");
        assert_eq!(parsed, StatusFigures { pid: Some(2), ..StatusFigures::default() });
    }

    #[test]
    fn what_is_cut_or_no_number_is_unknown() {
        let cut = NEW.as_bytes().split_at(NEW.find("1668 kB\nRssAnon").unwrap_or(0) + 2).0;
        assert_eq!(parse(cut).vm_rss, None, "digits may be missing");
        for text in ["VmRSS:\tmany kB\n", "VmRSS\n", ":\n", "Pid:\t-1\n", "Pid:\t99999999999\n", "\u{fffd}:\n"] {
            assert_eq!(parse(text.as_bytes()), StatusFigures::default(), "{text}");
        }
    }
}
