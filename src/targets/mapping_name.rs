//! What the path of a mapping says that it is: not everything that NT_FILE lists is a
//! file.
//!
//! Names are the kernel's: mm/shmem.c (`/dev/zero (deleted)`, `/memfd:`), ipc/shm.c
//! (`/SYSV`), mm/hugetlb.c (`/anon_hugepage`), fs/anon_inodes.c (`anon_inode:`), fs/aio.c
//! (`/[aio]`), drivers/char/mem.c (`/dev/zero`).

/// What is mapped under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingName {
    /// A file, or a device.
    File,
    /// Private memory of the process, whatever its name says.
    Anonymous(&'static str),
    /// Memory that can only be mapped shared.
    Shared,
    /// Memory with a descriptor or a path of its own (memfd_create, POSIX shared
    /// memory): shared as a rule, but a private copy of it is listed alike.
    Memory,
    /// Memory that the kernel shares with the process, in words.
    Kernel(&'static str),
}

impl MappingName {
    /// Of a path in NT_FILE.
    pub fn of(path: &str) -> MappingName {
        let name = path.strip_suffix(" (deleted)").unwrap_or(path);
        match name {
            // MAP_HUGETLB | MAP_ANONYMOUS.
            "/anon_hugepage" => MappingName::Anonymous("huge pages (MAP_HUGETLB)"),
            // With MAP_SHARED, or MAP_SHARED | MAP_ANONYMOUS, a deleted file of that
            // name is made; without, it is anonymous memory.
            "/dev/zero" if name == path => MappingName::Anonymous("private mapping of /dev/zero"),
            "/dev/zero" => MappingName::Shared,
            "/[aio]" => MappingName::Kernel("asynchronous I/O ring"),
            "anon_inode:[io_uring]" => MappingName::Kernel("io_uring rings"),
            "anon_inode:[perf_event]" | "anon_inode:[perf]" => MappingName::Kernel("perf event buffer"),
            _ if name.starts_with("anon_inode:") => MappingName::Kernel("kernel object memory"),
            _ if name.starts_with("/SYSV") => MappingName::Shared,
            _ if ["/dev/shm/", "/run/shm/", "/memfd:"].iter().any(|start| name.starts_with(start)) => {
                MappingName::Memory
            }
            _ => MappingName::File,
        }
    }

    /// Whether it is memory under a name, and no file.
    pub fn is_shared_memory(self) -> bool {
        matches!(self, MappingName::Shared | MappingName::Memory | MappingName::Kernel(_))
    }

    /// `s` as in /proc/PID/maps where it can't be private, else `?`.
    pub fn sharing(self) -> char {
        match self {
            MappingName::Shared | MappingName::Kernel(_) => 's',
            MappingName::Anonymous(_) => 'p',
            MappingName::Memory | MappingName::File => '?',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_files() {
        let of = MappingName::of;
        // As /proc/PID/maps of a 6.1 and a 6.18 kernel had them.
        assert_eq!(of("/anon_hugepage (deleted)").sharing(), 'p');
        assert_eq!(of("/dev/zero (deleted)"), MappingName::Shared);
        assert!(matches!(of("/dev/zero"), MappingName::Anonymous(_)));
        assert_eq!(of("/SYSV00000000 (deleted)").sharing(), 's');
        assert_eq!(of("/memfd:doublemapper (deleted)"), MappingName::Memory);
        assert_eq!(of("/dev/shm/sem.x").sharing(), '?');
        assert!(of("anon_inode:[io_uring]").is_shared_memory());
        assert!(of("/[aio] (deleted)").is_shared_memory());
        // Files, whatever they are called.
        for path in ["/tmp/memfd:x", "/usr/lib/libc.so.6", "/tmp/data.bin (deleted)", "/dev/dri/card0", ""] {
            assert_eq!(of(path), MappingName::File, "{path}");
        }
    }
}
