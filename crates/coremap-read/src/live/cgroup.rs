//! Memory figures of a process's control group, from the files below /sys/fs/cgroup.

use std::fs;
use std::path::PathBuf;

use crate::resident::cgroup::{V1, V2, v1, v2};
use crate::targets::residence::CgroupFigures;

/// Mount point of control groups (systemd, Docker and Kubernetes agree).
const ROOT: &str = "/sys/fs/cgroup";

/// Figures of the control group of `pid`. `None` if there is none, or if its files can't be read.
pub(super) fn of(pid: u32) -> Option<CgroupFigures> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    // Lines are HIERARCHY:CONTROLLERS:PATH. In version 2, HIERARCHY is 0 and CONTROLLERS is empty.
    let path = |wanted: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            wanted(controllers).then_some(path)
        })
    };
    let within = |folder: &str, path: &str| {
        let folder = PathBuf::from(format!("{ROOT}{folder}"));
        // In a container the path may be the host's. Then the mounted directory is the group.
        [folder.join(path.trim_start_matches('/')), folder].into_iter().find(|dir| dir.join("memory.stat").is_file())
    };
    if let Some(dir) =
        path(&|controllers| controllers.split(',').any(|c| c == "memory")).and_then(|p| within("/memory", p))
    {
        let text = |name: &str| fs::read(dir.join(name)).ok();
        let (usage, limit) = (text("memory.usage_in_bytes"), text("memory.limit_in_bytes"));
        let (peak, kernel, stat) =
            (text("memory.max_usage_in_bytes"), text("memory.kmem.usage_in_bytes"), text("memory.stat"));
        return Some(v1(V1 {
            usage: usage.as_deref(),
            limit: limit.as_deref(),
            max_usage: peak.as_deref(),
            kernel: kernel.as_deref(),
            stat: stat.as_deref(),
        }));
    }
    let dir = path(&str::is_empty).and_then(|path| within("", path))?;
    let text = |name: &str| fs::read(dir.join(name)).ok();
    let (current, max, peak) = (text("memory.current"), text("memory.max"), text("memory.peak"));
    let (swap, stat) = (text("memory.swap.current"), text("memory.stat"));
    Some(v2(V2 {
        current: current.as_deref(),
        max: max.as_deref(),
        peak: peak.as_deref(),
        swap: swap.as_deref(),
        stat: stat.as_deref(),
    }))
}
