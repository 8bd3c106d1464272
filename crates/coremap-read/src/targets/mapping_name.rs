//! Meaning of the names of mappings. Not everything in NT_FILE is a file.
//!
//! The names come from the kernel: mm/shmem.c (`/dev/zero (deleted)`, `/memfd:`), ipc/shm.c (`/SYSV`), mm/hugetlb.c
//! (`/anon_hugepage`), fs/anon_inodes.c (`anon_inode:`), fs/aio.c (`/[aio]`), drivers/char/mem.c (`/dev/zero`),
//! net/socket.c (`socket:`), drivers/dma-buf/dma-buf.c (`/dmabuf:`).

/// The kind of memory that a name identifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingName {
    /// A file, or a device.
    File,
    /// Private memory of the process, despite its name. The text says what it is.
    Anonymous(&'static str),
    /// Memory that can only be mapped shared.
    Shared,
    /// Memory with a descriptor or a path of its own (memfd_create, POSIX shared memory). It is usually shared, but a
    /// private copy of it has the same name.
    Memory,
    /// Memory that the kernel shares with the process. The text says what it is.
    Kernel(&'static str),
}

impl MappingName {
    /// Classifies a path in NT_FILE.
    pub fn of(path: &str) -> MappingName {
        let name = path.strip_suffix(" (deleted)").unwrap_or(path);
        match name {
            // MAP_HUGETLB | MAP_ANONYMOUS.
            "/anon_hugepage" => MappingName::Anonymous("huge pages (MAP_HUGETLB)"),
            // MAP_SHARED, or MAP_SHARED | MAP_ANONYMOUS, creates a deleted file of this name. Without MAP_SHARED it is
            // anonymous memory.
            "/dev/zero" if name == path => MappingName::Anonymous("private mapping of /dev/zero"),
            "/dev/zero" => MappingName::Shared,
            // The rings of packet sockets (packet(7)) and AF_XDP; received data of TCP.
            _ if name.starts_with("socket:[") => MappingName::Kernel("socket buffer"),
            _ if name.starts_with("/dmabuf:") => MappingName::Kernel("DMA buffer"),
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

    /// Whether this is named memory instead of a file.
    pub fn is_shared_memory(self) -> bool {
        matches!(self, MappingName::Shared | MappingName::Memory | MappingName::Kernel(_))
    }

    /// Whether this path is a file's whose bytes are on a disk. Devices are not.
    pub fn is_on_disk(self, path: &str) -> bool {
        self == MappingName::File && !path.starts_with("/dev/")
    }

    /// `s` (shared) or `p` (private), as in /proc/PID/maps, if the name determines it. Otherwise `?`.
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
        // From /proc/PID/maps of a 6.1 and a 6.18 kernel.
        assert_eq!(of("/anon_hugepage (deleted)").sharing(), 'p');
        assert_eq!(of("/dev/zero (deleted)"), MappingName::Shared);
        assert!(matches!(of("/dev/zero"), MappingName::Anonymous(_)));
        assert_eq!(of("/SYSV00000000 (deleted)").sharing(), 's');
        assert_eq!(of("/memfd:doublemapper (deleted)"), MappingName::Memory);
        assert_eq!(of("/dev/shm/sem.x").sharing(), '?');
        assert!(of("anon_inode:[io_uring]").is_shared_memory());
        assert!(of("/[aio] (deleted)").is_shared_memory());
        assert_eq!(of("socket:[2655390]").sharing(), 's');
        assert!(of("/dmabuf:").is_shared_memory() && of("socket:[1]").is_shared_memory());
        // Files, despite their names.
        for path in ["/tmp/memfd:x", "/usr/lib/libc.so.6", "/tmp/data.bin (deleted)", "/dev/dri/card0", ""] {
            assert_eq!(of(path), MappingName::File, "{path}");
            assert_eq!(of(path).is_on_disk(path), path != "/dev/dri/card0", "{path}");
        }
    }
}
