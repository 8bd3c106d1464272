//! Resident memory by kind, and how it agrees with the kernel's own totals.

use crate::analysis::resident::{ByKind, by_kind, resident};
use crate::analysis::zero::ZeroMap;
use crate::commands::summary::report::{CgroupRow, KindRow, RssReport, TotalRow};
use crate::session::Session;
use crate::targets::Residence;
use crate::targets::residence::{CgroupFigures, Figure, StatusFigures};

/// Adds the resident figures to the rows, and to the sums where they are known.
pub(super) fn add_figures(
    session: &Session<'_>,
    kinds: &mut [KindRow],
    total: &mut TotalRow,
    zeros: Option<&ZeroMap>,
) -> Option<RssReport> {
    let residence = session.process.residence()?;
    let divided = by_kind(session, residence, zeros);
    for row in kinds {
        row.resident = divided.of(row.kind).map(|share| resident(residence, share)).unwrap_or_default();
    }
    total.resident = resident(residence, &divided.total());
    Some(sums(residence, &divided))
}

/// Compares the sum of the kinds with the kernel's totals.
fn sums(residence: &Residence, divided: &ByKind) -> RssReport {
    let (all, kinds) = (residence.total(), divided.total());
    let reported = |figure: Figure| residence.reported.has(figure).then(|| all.get(figure));
    let StatusFigures { vm_rss, vm_hwm, rss_anon, rss_file, rss_shmem, vm_swap, page_tables, hugetlb, .. } =
        residence.status;
    let rss = kinds.figures.get(Figure::Rss);
    let smaps = all.get(Figure::Rss);
    let swap = vm_swap.or(reported(Figure::Swap));
    let hugetlb = hugetlb.or_else(|| reported(Figure::PrivateHugetlb).map(|_| all.hugetlb()));
    RssReport {
        source: residence.source.clone(),
        vm_rss,
        kinds: rss,
        page_tables,
        difference: vm_rss.and_then(|vm_rss| less(vm_rss, rss)),
        not_in_core: divided.rest.figures.get(Figure::Rss),
        smaps,
        counting: vm_rss.and_then(|vm_rss| less(vm_rss, smaps)),
        vm_hwm,
        rss_anon,
        rss_file,
        rss_shmem,
        pss: reported(Figure::Pss),
        anonymous: reported(Figure::Anonymous),
        lazy_free: reported(Figure::LazyFree),
        swap,
        hugetlb,
        oom: page_tables
            .zip(swap)
            .map(|(tables, swap)| vm_rss.unwrap_or(smaps).saturating_add(tables).saturating_add(swap)),
        cgroup: residence.cgroup.as_ref().map(cgroup),
    }
}

/// Returns `a` − `b`. `None` if the result does not fit.
fn less(a: u64, b: u64) -> Option<i64> {
    i64::try_from(a).ok()?.checked_sub_unsigned(b)
}

/// Figures of a control group, with the remainder that is in no other counter.
fn cgroup(figures: &CgroupFigures) -> CgroupRow {
    let CgroupFigures { version, current, max, peak, swap, anon, file, file_mapped, shmem, .. } = *figures;
    let CgroupFigures { kernel, kernel_stack, page_tables, slab, sock, .. } = *figures;
    let parts = anon.zip(file).map(|(anon, file)| {
        // Parts that the kernel does not report separately remain in `other`.
        [anon, file, kernel.unwrap_or(0), sock.unwrap_or(0)].into_iter().fold(0, u64::saturating_add)
    });
    let other = current.zip(parts).and_then(|(current, parts)| less(current, parts));
    CgroupRow {
        version,
        current,
        max,
        peak,
        swap,
        anon,
        file,
        file_mapped,
        shmem,
        kernel,
        kernel_stack,
        page_tables,
        slab,
        sock,
        other,
    }
}
