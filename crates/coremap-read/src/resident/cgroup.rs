//! Parses the memory controller's files of control groups, version 2 (Documentation/admin-guide/cgroup-v2.rst) and
//! version 1 (cgroup-v1/memory.rst). Each file is passed as text, or as `None` if it could not be read.

use super::text::{lines, number};
use crate::targets::residence::CgroupFigures;

/// Values from here on mean no limit. Version 1 writes the largest number of pages, in bytes, if no limit is set.
const NO_LIMIT: u64 = 1 << 62;

/// Files of a version 2 group.
#[derive(Clone, Copy, Debug, Default)]
pub struct V2<'a> {
    /// memory.current
    pub current: Option<&'a [u8]>,
    /// memory.max; `max` if there is no limit
    pub max: Option<&'a [u8]>,
    /// memory.peak (since 5.19)
    pub peak: Option<&'a [u8]>,
    /// memory.swap.current
    pub swap: Option<&'a [u8]>,
    /// memory.stat
    pub stat: Option<&'a [u8]>,
}

/// Parses the files of version 2. The root group has none of the first three.
pub fn v2(files: V2<'_>) -> CgroupFigures {
    let mut out = CgroupFigures {
        version: 2,
        current: files.current.and_then(alone),
        max: files.max.and_then(alone).filter(|&max| max < NO_LIMIT),
        peak: files.peak.and_then(alone),
        swap: files.swap.and_then(alone),
        ..CgroupFigures::default()
    };
    for (key, value) in files.stat.into_iter().flat_map(pairs) {
        let field = match key {
            b"anon" => &mut out.anon,
            b"file" => &mut out.file,
            b"file_mapped" => &mut out.file_mapped,
            b"shmem" => &mut out.shmem,
            b"kernel" => &mut out.kernel,
            b"kernel_stack" => &mut out.kernel_stack,
            b"pagetables" => &mut out.page_tables,
            b"slab" => &mut out.slab,
            b"sock" => &mut out.sock,
            _ => continue,
        };
        *field = Some(value);
    }
    out
}

/// Files of a version 1 group.
#[derive(Clone, Copy, Debug, Default)]
pub struct V1<'a> {
    /// memory.usage_in_bytes
    pub usage: Option<&'a [u8]>,
    /// memory.limit_in_bytes
    pub limit: Option<&'a [u8]>,
    /// memory.max_usage_in_bytes
    pub max_usage: Option<&'a [u8]>,
    /// memory.kmem.usage_in_bytes
    pub kernel: Option<&'a [u8]>,
    /// memory.stat
    pub stat: Option<&'a [u8]>,
}

/// Parses the files of version 1. From memory.stat it uses the sums that include child groups (`total_…`), as the usage
/// does.
pub fn v1(files: V1<'_>) -> CgroupFigures {
    let mut out = CgroupFigures {
        version: 1,
        current: files.usage.and_then(alone),
        max: files.limit.and_then(alone).filter(|&max| max < NO_LIMIT),
        peak: files.max_usage.and_then(alone),
        kernel: files.kernel.and_then(alone),
        ..CgroupFigures::default()
    };
    for (key, value) in files.stat.into_iter().flat_map(pairs) {
        let field = match key {
            b"total_rss" => &mut out.anon,
            b"total_cache" => &mut out.file,
            b"total_mapped_file" => &mut out.file_mapped,
            b"total_shmem" => &mut out.shmem,
            b"total_swap" => &mut out.swap,
            _ => continue,
        };
        *field = Some(value);
    }
    out
}

/// The number in a file that contains nothing else. `None` for `max`.
fn alone(text: &[u8]) -> Option<u64> {
    number(text.trim_ascii()).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

/// Lines of `key value`. Skips a last line that is cut off.
fn pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], u64)> {
    lines(text).filter(|(_, ended)| *ended).filter_map(|(line, _)| {
        let (key, value) = line.split_at(memchr::memchr(b' ', line)?);
        Some((key, alone(value)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2() {
        let parsed = v2(V2 {
            current: Some(b"73400320\n"),
            max: Some(b"134217728\n"),
            peak: Some(b"80000000\n"),
            swap: Some(b"4096\n"),
            stat: Some(
                b"anon 52428800\nfile 10485760\nkernel 6291456\nkernel_stack 163840\npagetables 1048576\nsec_pagetables 0\n\
                percpu 4320\nsock 8192\nvmalloc 12288\nshmem 4096\nfile_mapped 2097152\nanon_thp 0\nslab 3145728\npgfault 7\n",
            ),
        });
        let expected = CgroupFigures {
            version: 2,
            current: Some(73_400_320),
            max: Some(134_217_728),
            peak: Some(80_000_000),
            swap: Some(4096),
            anon: Some(52_428_800),
            file: Some(10_485_760),
            file_mapped: Some(2_097_152),
            shmem: Some(4096),
            kernel: Some(6_291_456),
            kernel_stack: Some(163_840),
            page_tables: Some(1_048_576),
            slab: Some(3_145_728),
            sock: Some(8192),
        };
        assert_eq!(parsed, expected);
    }

    #[test]
    fn version_1_with_the_groups_below_it() {
        // From a 6.18 kernel, shortened.
        let stat = b"cache 262025216\nrss 27889664\nrss_huge 0\nshmem 0\nmapped_file 20480\nswap 0\n\
            hierarchical_memory_limit 9223372036854771712\ntotal_cache 262025300\ntotal_rss 27889700\ntotal_shmem 5\n\
            total_mapped_file 20481\ntotal_swap 6\n";
        let parsed = v1(V1 {
            usage: Some(b"300000000\n"),
            limit: Some(b"9223372036854771712\n"),
            max_usage: Some(b"310000000\n"),
            kernel: Some(b"5000000\n"),
            stat: Some(stat),
        });
        let expected = CgroupFigures {
            version: 1,
            current: Some(300_000_000),
            peak: Some(310_000_000),
            swap: Some(6),
            anon: Some(27_889_700),
            file: Some(262_025_300),
            file_mapped: Some(20_481),
            shmem: Some(5),
            kernel: Some(5_000_000),
            ..CgroupFigures::default()
        };
        assert_eq!(parsed, expected);
    }

    #[test]
    fn no_limit_and_no_file_are_unknown() {
        assert_eq!(v2(V2 { max: Some(b"max\n"), ..V2::default() }).max, None);
        assert_eq!(v2(V2::default()), CgroupFigures { version: 2, ..CgroupFigures::default() });
        let cut = v2(V2 { stat: Some(b"anon 52428800\nfile 104"), current: Some(b""), ..V2::default() });
        assert_eq!((cut.anon, cut.file, cut.current), (Some(52_428_800), None, None), "a cut number is none");
        let odd = v2(V2 { stat: Some(b"anon many\nfile\nkernel -1\n\n 5\n"), ..V2::default() });
        assert_eq!(odd, CgroupFigures { version: 2, ..CgroupFigures::default() });
    }
}
