use std::fmt::Write;

use proptest::prelude::*;

use super::*;

/// smaps of `sleep` on a 6.18 kernel: two file mappings, the heap, one without a name, and the kernel's mappings.
const NEW: &str = include_str!("smaps_tests/sleep-6.18.txt");

/// The format of a 3.10 kernel (fs/proc/task_mmu.c of that release): no Pss_Dirty, no huge pages of files, no SwapPss.
const OLD: &str = include_str!("smaps_tests/form-3.10.txt");

fn kib(smaps: &Smaps, at: u64, figure: Figure) -> Option<u64> {
    smaps.mappings.at(Addr::new(at)).map(|m| m.figures.get(figure) >> 10)
}

#[test]
fn of_a_new_kernel() {
    let smaps = parse(NEW.as_bytes());
    let rows = NEW.lines().filter(|l| l.contains(" fe:00 ") || l.contains(" 00:00 ")).count();
    assert_eq!(smaps.mappings.len(), rows);
    assert!(Figure::ALL.into_iter().all(|figure| smaps.reported.has(figure)));
    assert!(!smaps.cut && smaps.left_out == 0);
    // The sum of the lines, computed independently of the parser.
    let rss: u64 =
        NEW.lines().filter_map(|l| l.strip_prefix("Rss:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()).sum();
    let total: u64 = smaps.mappings.iter().map(|m| m.figures.get(Figure::Rss)).sum();
    assert_eq!(total, rss << 10);
    for m in smaps.mappings.iter() {
        let sum = [Figure::SharedClean, Figure::SharedDirty, Figure::PrivateClean, Figure::PrivateDirty];
        let sum: u64 = sum.into_iter().map(|f| m.figures.get(f)).sum();
        assert_eq!(sum, m.figures.get(Figure::Rss), "{}", m.range);
        assert_eq!(m.page_size, 4096);
    }
}

#[test]
fn of_an_old_kernel() {
    let smaps = parse(OLD.as_bytes());
    assert_eq!(smaps.mappings.len(), 3);
    assert_eq!(kib(&smaps, 0x0040_0000, Figure::Rss), Some(444));
    assert_eq!(kib(&smaps, 0x0040_0000, Figure::Pss), Some(37));
    assert_eq!(kib(&smaps, 0x01ce_1000, Figure::PrivateDirty), Some(120));
    assert_eq!(kib(&smaps, 0x01ce_1000, Figure::Swap), Some(16));
    assert!(smaps.reported.has(Figure::Swap) && smaps.reported.has(Figure::AnonHuge));
    assert!(!smaps.reported.has(Figure::SwapPss) && !smaps.reported.has(Figure::PrivateHugetlb), "unknown, not 0");
}

fn mapping(range: &str, perms: &str, inode: u64, name: &str, lines: &str) -> String {
    format!("{range} {perms} 00000000 00:0e {inode:<26} {name}\n{lines}")
}

#[test]
fn names_are_no_headers_and_headers_are_by_their_form() {
    let rss = "Rss:                   4 kB\n";
    let mut text = String::new();
    let names =
        ["/tmp/with space (deleted)", r"/tmp/new\012line", "[anon:dalvik-main space]", "/tmp/Rss: 9 kB", "[vdso]", ""];
    for (i, name) in names.iter().enumerate() {
        text += &mapping(&format!("{:x}000-{:x}000", i + 0x10, i + 0x11), "rw-p", 5, name, rss);
    }
    let smaps = parse(text.as_bytes());
    assert_eq!(smaps.mappings.len(), names.len());
    assert!(smaps.mappings.iter().all(|m| m.figures.get(Figure::Rss) == 4096 && m.file.is_some() && !m.shared));
    for wrong in
        ["10-20 rw-p", "10-20", "10-20 rwxq 0 00:00 0", "g-20 rw-p 0 0:0 0", "20-10 rw-p 0 0:0 0 ", "10-20 rw 0 0:0 0"]
    {
        let smaps = parse(format!("{wrong}\n{rss}").as_bytes());
        assert!(smaps.mappings.is_empty(), "{wrong}");
    }
}

#[test]
fn access_and_flags() {
    let lines = "KernelPageSize:     2048 kB\nRss:                   0 kB\nShared_Hugetlb:        0 kB\n\
        Private_Hugetlb:    4096 kB\nVmFlags: rd wr mr mw me de ht sd \n";
    let text = mapping("7effff000000-7effff001000", "--xp", 0, "", "Rss: 0 kB\nVmFlags: ex dd io pf lo hg\n")
        + &mapping("7f0000000000-7f0000400000", "rw-s", 77, "/dev/hugepages/x", lines);
    let smaps = parse(text.as_bytes());
    let [device, huge] = &smaps.mappings[..] else { panic!("{:?}", smaps.mappings) };
    assert!(huge.shared && huge.file.is_some() && huge.flags.hugetlb && !huge.flags.dont_dump);
    assert_eq!((huge.page_size, huge.figures.hugetlb(), huge.figures.huge()), (2 << 20, 4 << 20, 4 << 20));
    assert_eq!(huge.perms, Perms { read: true, write: true, exec: false });
    let expected = VmFlags { hugetlb: false, dont_dump: true, device: true, locked: true, huge_advised: true };
    assert_eq!(device.flags, expected);
    assert_eq!(device.perms, Perms { read: false, write: false, exec: true });
    assert!(!smaps.reported.has(Figure::PrivateHugetlb), "the first file does not contain it");
}

#[test]
fn status_may_stand_before_and_behind() {
    let status = "Name:\tsleep\nPid:\t4711\nVmRSS:\t    1528 kB\nVmPTE:\t      44 kB\n";
    for text in [format!("{status}{NEW}"), format!("{NEW}{status}")] {
        let smaps = parse(text.as_bytes());
        assert_eq!((smaps.status.pid, smaps.status.vm_rss), (Some(4711), Some(1528 << 10)));
        assert_eq!(smaps.mappings.len(), parse(NEW.as_bytes()).mappings.len());
        assert_eq!(smaps.reported, parse(NEW.as_bytes()).reported);
    }
}

#[test]
fn rollup_is_no_mapping() {
    let rollup = "564998d27000-7fffc1efc000 ---p 00000000 00:00 0                          [rollup]\n\
        Rss:                1528 kB\nPss:                 270 kB\nPss_Anon:             96 kB\n";
    let smaps = parse(rollup.as_bytes());
    assert!(smaps.mappings.is_empty());
    assert_eq!(smaps.rollup.map(|figures| figures.get(Figure::Rss)), Some(1528 << 10));
    let both = parse(format!("{rollup}{NEW}").as_bytes());
    assert_eq!(both.mappings.len(), parse(NEW.as_bytes()).mappings.len());
    assert!(both.rollup.is_some());
}

#[test]
fn lines_of_maps_before_it_give_way_to_figures() {
    let maps: String =
        NEW.lines().filter(|l| l.contains(" fe:00 ") || l.contains(" 00:00 ")).fold(String::new(), |mut s, l| {
            let _ = writeln!(s, "{l}");
            s
        });
    let alone = parse(NEW.as_bytes());
    let both = parse(format!("{maps}{NEW}").as_bytes());
    assert_eq!(both.left_out, alone.mappings.len() as u64);
    assert_eq!((both.mappings.len(), both.reported), (alone.mappings.len(), alone.reported));
    let twice = parse(format!("{NEW}{NEW}").as_bytes());
    assert_eq!((twice.mappings.len(), twice.left_out), (alone.mappings.len(), alone.mappings.len() as u64));
}

#[test]
fn wherever_it_is_cut_what_is_left_is_whole() {
    let whole = parse(NEW.as_bytes());
    // Start after the first mapping. Before it there is nothing to compare with.
    let first = NEW.find("VmFlags").and_then(|at| NEW.get(at..)?.find('\n').map(|n| at + n + 1)).unwrap_or(0);
    assert!(first > 0);
    for end in first..NEW.len() {
        let text = NEW.as_bytes().split_at(end).0;
        let cut = parse(text);
        for (left, right) in cut.mappings.iter().zip(whole.mappings.iter()) {
            assert_eq!((left.range, left.figures), (right.range, right.figures), "cut at {end}");
        }
        let begun = NEW.get(..end).map_or(0, |t| t.lines().filter(|l| l.contains("-p ") || l.contains("xp ")).count());
        let left_out = begun.saturating_sub(cut.mappings.len());
        assert!(left_out <= 1, "cut at {end}");
        assert_eq!(cut.cut, left_out == 1 || !text.ends_with(b"\n") && begun_in_header(NEW, end), "cut at {end}");
    }
}

/// Whether a cut at `end` is within the first line of a mapping.
fn begun_in_header(text: &str, end: usize) -> bool {
    let line = text.get(..end).and_then(|t| t.rsplit('\n').next()).unwrap_or_default();
    line.starts_with(|c: char| matches!(c, '0'..='9' | 'a'..='f'))
}

/// No mapping is larger than itself. The sum of two such figures exceeds 64 bits.
#[test]
fn mappings_with_impossible_figures_are_left_out() {
    let whole = mapping("1000-2000", "rw-p", 0, "", "Rss: 4 kB\n");
    let rss = mapping("2000-3000", "rw-p", 0, "", "Rss: 9007199254740991 kB\n");
    let pss = mapping("3000-4000", "rw-p", 0, "", "Rss: 4 kB\nPss: 18014398509481983 kB\n");
    let smaps = parse(format!("{whole}{rss}{pss}").as_bytes());
    assert_eq!((smaps.mappings.len(), smaps.left_out, smaps.impossible), (1, 0, 2));
    assert_eq!(kib(&smaps, 0x1000, Figure::Rss), Some(4));
    let warning = smaps.warning("smaps").map(|warning| warning.message).unwrap_or_default();
    assert!(warning.contains("the residence of 2 mappings is unknown"), "{warning}");
}

#[test]
fn read_bit_by_bit_it_is_the_same() -> std::io::Result<()> {
    let long = format!("{}\nRss: 4 kB\n{NEW}", "10-20 rw-p 0 0:0 0 /".to_owned() + &"x".repeat(200_000));
    for text in [NEW, OLD, &long, NEW.trim_end(), ""] {
        let (whole, read) =
            (parse(text.as_bytes()), read(&mut std::io::BufReader::with_capacity(77, text.as_bytes()))?);
        let of = |smaps: &Smaps| smaps.mappings.iter().map(|m| (m.range, m.figures, m.page_size)).collect::<Vec<_>>();
        assert_eq!(of(&whole), of(&read));
        assert_eq!((whole.reported, whole.cut, whole.left_out), (read.reported, read.cut, read.left_out));
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_text_breaks_it(text in proptest::collection::vec(any::<u8>(), 0..300), at in 0usize..2000, with in any::<u8>()) {
        parse(&text);
        let mut damaged = NEW.as_bytes().to_vec();
        if let Some(byte) = damaged.get_mut(at) {
            *byte = with;
        }
        let smaps = parse(&damaged);
        prop_assert!(smaps.mappings.windows(2).all(|w| w[0].range.end <= w[1].range.start));
    }
}
