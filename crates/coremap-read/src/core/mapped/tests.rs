use super::*;
use std::io::Write;

#[test]
fn a_file_cut_while_mapped_reads_as_zero_and_is_noticed() -> io::Result<()> {
    let mut file = tempfile::tempfile()?;
    file.write_all(&vec![7u8; 64 << 10])?;
    handle_sigbus();
    let (losses, others) = Default::default();
    let map = MappedFile::map(&file, &losses)?;
    let other = MappedFile::map(&tempfile_of(&[1; 4096])?, &others)?;
    file.set_len(4096)?;
    assert_eq!((map[100], other[100]), (7, 1));
    assert!(losses.all().is_empty());
    assert_eq!(map[60 << 10], 0);
    assert_eq!(losses.all(), [FileLoss::Shrank]);
    // The owner keeps its losses after the mapping is gone. The slot's next user does not get them.
    drop(map);
    let next = MappedFile::map(&tempfile_of(&[1; 4096])?, &others)?;
    assert_eq!(
        (next[0], losses.all().as_slice(), others.all().as_slice()),
        (1, [FileLoss::Shrank].as_slice(), [].as_slice())
    );
    Ok(())
}

/// Resident bytes of the mapping that contains `at` (proc(5), /proc/PID/smaps).
#[cfg(target_os = "linux")]
fn resident(at: usize) -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps")?;
    let begins = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
    };
    let mut of_it = text.lines().skip_while(|line| !begins(line).is_some_and(|range| range.contains(&at)));
    let rss =
        of_it.find_map(|line| line.strip_prefix("Rss:")).map(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>());
    rss.and_then(Result::ok).map(|kib| kib << 10).ok_or(io::ErrorKind::NotFound.into())
}

#[cfg(target_os = "linux")]
#[test]
fn forgotten_pages_are_not_resident_and_can_be_read_again() -> io::Result<()> {
    let mut bytes = vec![0u8; 8 << 20];
    bytes[(4 << 20) + 5] = 7;
    let losses = Arc::default();
    let map = MappedFile::map(&tempfile_of(&bytes)?, &losses)?;
    let sum = || map.iter().map(|&b| u64::from(b)).sum::<u64>();
    assert_eq!(sum(), 7);
    let at = map.as_ptr() as usize;
    assert_eq!(resident(at)?, 8 << 20);
    map.forget(100..(6 << 20) + 100);
    assert!(resident(at)? <= (2 << 20) + (64 << 10), "{}", resident(at)?);
    assert_eq!((sum(), losses.all().as_slice()), (7, [].as_slice()));
    // Beyond the end, and less than a page.
    map.forget(0..u64::MAX);
    map.forget(1..4000);
    assert_eq!(sum(), 7);
    Ok(())
}

fn tempfile_of(bytes: &[u8]) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Lines of /proc/self/maps within these bytes.
fn mappings(bytes: &[u8]) -> io::Result<usize> {
    let range = bytes.as_ptr_range();
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let starts = maps.lines().filter_map(|l| usize::from_str_radix(l.split('-').next()?, 16).ok());
    Ok(starts.filter(|at| (range.start as usize..range.end as usize).contains(at)).count())
}

#[test]
fn what_is_cut_off_is_one_mapping_whatever_is_read_of_it() -> io::Result<()> {
    handle_sigbus();
    let pages = 1000;
    let file = tempfile::tempfile()?;
    file.set_len(pages * 4096)?;
    let map = MappedFile::map(&file, &Arc::default())?;
    file.set_len(4096)?;
    // Every other page: separate mappings for them would be hundreds.
    for page in (2..pages as usize).step_by(2) {
        assert_eq!(map[page * 4096], 0);
    }
    assert!(mappings(&map)? <= 3, "{}", mappings(&map)?);
    Ok(())
}

#[test]
fn a_disk_that_is_gone_takes_no_mapping_for_each_page() -> io::Result<()> {
    // Without a descriptor, the handler treats each page as unreadable.
    handle_sigbus();
    let pages = 60_000;
    let file = tempfile::tempfile()?;
    file.set_len(pages as u64 * 4096)?;
    let losses = Arc::default();
    let mut map = MappedFile::map(&file, &losses)?;
    sigbus::FILES[map._slot.index].store(-1, Ordering::Release);
    map._slot._file = None;
    file.set_len(0)?;
    for page in (0..pages).step_by(2).chain((1..pages).step_by(2)) {
        assert_eq!(map[page * 4096], 0);
    }
    assert!(mappings(&map)? < 10_000, "{}", mappings(&map)?);
    assert_eq!(losses.all(), [FileLoss::Unreadable]);
    Ok(())
}

#[test]
fn holes_are_no_pages_of_the_file() -> io::Result<()> {
    let mut file = tempfile::tempfile()?;
    file.write_all(&vec![7; 100_000])?;
    // Only whole pages within a declared hole read as zero.
    let map = MappedFile::with_holes(&file, &[5000..20_000, 90_000..200_000], &Arc::default())?;
    assert_eq!((map[8191], map[8192], map[16_383], map[16_384]), (7, 0, 0, 7));
    assert_eq!((map[90_112 - 1], map[90_112], map[98_304 - 1], map.len()), (7, 0, 0, 100_000));
    Ok(())
}

#[test]
fn a_window_reads_back_what_its_file_has() -> io::Result<()> {
    use crate::host::FileAt;
    let file = tempfile::tempfile()?;
    let bytes: Vec<u8> = (0..200_000u32).map(|i| (i / 7) as u8).collect();
    file.write_all_at(&bytes, 1234)?;
    let mut window = Window::reserve(&file, 1234, 300_000, &Arc::default())?;
    window.bytes()[..200_000].copy_from_slice(&bytes);
    for upto in [10, 100_000, 150_001, 150_002] {
        window.settle(&file, upto, &[])?;
        assert!(window.bytes()[..200_000] == bytes);
        // Bytes that are not settled can still be written.
        window.bytes()[upto..].fill(9);
        window.bytes()[upto..200_000].copy_from_slice(&bytes[upto..]);
    }
    Ok(())
}
