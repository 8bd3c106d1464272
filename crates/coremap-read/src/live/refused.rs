//! Explains why reading a process was denied, with the remedy. The kernel returns only EPERM or EACCES, whatever the
//! reason (ptrace(2), "Ptrace access mode checking"; Documentation/admin-guide/LSM/Yama.rst).

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Facts that decide whether a process may read another.
#[derive(Clone, Debug, Default)]
pub(super) struct Circumstances {
    /// ID of the other process.
    pub(super) pid: u32,
    /// Real user ID of the other process.
    pub(super) uid: Option<u32>,
    /// Owner of its /proc directory. Root if the process is not dumpable.
    pub(super) owner: Option<u32>,
    /// ID and name of the process that already traces it. `None` if none does.
    pub(super) tracer: Option<(u32, String)>,
    pub(super) own_uid: u32,
    pub(super) capable: bool,
    /// Whether coremap runs under a seccomp filter.
    pub(super) filtered: bool,
    /// Yama's ptrace_scope, if there is Yama.
    pub(super) yama: Option<u32>,
}

const CAP_SYS_PTRACE: u32 = 19;

/// Value of `Seccomp:` in /proc/PID/status under a filter.
const FILTERED: u64 = 2;

impl Circumstances {
    /// Collects the current circumstances.
    pub(super) fn of(pid: u32) -> Circumstances {
        let status = |who: &str| fs::read_to_string(format!("/proc/{who}/status")).unwrap_or_default();
        let (theirs, own) = (status(&pid.to_string()), status("self"));
        let number = |text: &str, key: &str, base| u64::from_str_radix(first(text, key)?, base).ok();
        let tracer = number(&theirs, "TracerPid:", 10).filter(|&tracer| tracer != 0).map(|tracer| {
            let name = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
            (tracer as u32, name.trim_end().to_owned())
        });
        Circumstances {
            pid,
            uid: number(&theirs, "Uid:", 10).map(|uid| uid as u32),
            owner: fs::metadata(format!("/proc/{pid}")).ok().map(|meta| meta.uid()),
            tracer,
            own_uid: number(&own, "Uid:", 10).map_or(u32::MAX, |uid| uid as u32),
            capable: number(&own, "CapEff:", 16).is_some_and(|caps| caps >> CAP_SYS_PTRACE & 1 != 0),
            filtered: number(&own, "Seccomp:", 10) == Some(FILTERED),
            yama: fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok().and_then(|t| t.trim().parse().ok()),
        }
    }

    /// Returns the most likely reason, and the remedy.
    pub(super) fn sentence(&self) -> String {
        let pid = self.pid;
        if let Some((tracer, name)) = &self.tracer {
            return format!(
                "process {pid} is already traced by process {tracer} ({name}), and only one tracer is allowed. End \
                 that tracer, or read without stopping the process: --no-stop"
            );
        }
        if self.yama == Some(3) {
            return "reading other processes is disabled until the next boot (kernel.yama.ptrace_scope is 3). Let the \
                    kernel write a core (kill -ABRT) and read that"
                .to_owned();
        }
        if !self.capable && self.own_uid == 0 {
            return format!(
                "process {pid} can't be read: root has no CAP_SYS_PTRACE here, as in most containers. Grant it (docker \
                 run --cap-add SYS_PTRACE; in Kubernetes securityContext.capabilities.add: [SYS_PTRACE], or kubectl \
                 debug --profile=sysadmin --target=CONTAINER), or run coremap on the host"
            );
        }
        if let (Some(uid), false) = (self.uid, self.capable)
            && uid != self.own_uid
        {
            return format!(
                "process {pid} belongs to user {uid}, and coremap runs as user {}: run it with sudo or as that user",
                self.own_uid
            );
        }
        if !self.capable && self.owner == Some(0) && self.uid != Some(0) {
            return format!(
                "process {pid} is not dumpable (it changed its user, its program file is unreadable, or it called \
                 PR_SET_DUMPABLE): run coremap with sudo"
            );
        }
        match self.yama {
            Some(1) if !self.capable => {
                return format!(
                    "only an ancestor may read process {pid} (kernel.yama.ptrace_scope is 1): run coremap with sudo, \
                     or allow it until the next boot: sudo sysctl kernel.yama.ptrace_scope=0"
                );
            }
            Some(2) if !self.capable => {
                return format!(
                    "reading process {pid} requires CAP_SYS_PTRACE (kernel.yama.ptrace_scope is 2): run coremap with \
                     sudo"
                );
            }
            _ => {}
        }
        if self.filtered {
            return format!(
                "process {pid} can't be read; coremap runs under a seccomp filter, which may forbid it. Run it without \
                 one (docker run --security-opt seccomp=unconfined; in Kubernetes seccompProfile.type: Unconfined)"
            );
        }
        if self.capable {
            return format!(
                "process {pid} can't be read, although coremap has CAP_SYS_PTRACE. It may be in another user \
                 namespace, or a security module (SELinux, AppArmor) may forbid it; check its log (ausearch -m avc, \
                 dmesg). Running coremap on the host may work"
            );
        }
        format!("process {pid} can't be read: run coremap with sudo")
    }
}

fn first<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_way_out() {
        let plain =
            Circumstances { pid: 7, uid: Some(1000), owner: Some(1000), own_uid: 1000, ..Circumstances::default() };
        let says = |c: &Circumstances, words: &str| assert!(c.sentence().contains(words), "{words}: {}", c.sentence());
        says(&plain, "with sudo");
        says(&Circumstances { yama: Some(1), ..plain.clone() }, "sysctl kernel.yama.ptrace_scope=0");
        says(&Circumstances { yama: Some(2), ..plain.clone() }, "CAP_SYS_PTRACE");
        says(&Circumstances { yama: Some(3), capable: true, ..plain.clone() }, "next boot");
        says(&Circumstances { uid: Some(0), owner: Some(0), ..plain.clone() }, "user 0, and coremap runs as user 1000");
        says(&Circumstances { owner: Some(0), ..plain.clone() }, "PR_SET_DUMPABLE");
        says(&Circumstances { own_uid: 0, ..plain.clone() }, "--cap-add SYS_PTRACE");
        says(&Circumstances { filtered: true, ..plain.clone() }, "seccomp=unconfined");
        says(&Circumstances { capable: true, ..plain.clone() }, "user namespace");
        says(&Circumstances { tracer: Some((9, "gdb".into())), ..plain }, "traced by process 9 (gdb)");
    }

    #[test]
    fn our_own_circumstances_can_be_read() {
        let own = Circumstances::of(std::process::id());
        assert_eq!(own.uid, Some(own.own_uid));
        assert!(own.owner.is_some());
    }
}
