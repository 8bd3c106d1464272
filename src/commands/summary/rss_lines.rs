//! Lines about resident memory: how the kinds agree with the kernel's totals, and what else counts as memory.

use crate::commands::summary::report::{CgroupRow, RssReport};
use crate::render::Document;
use crate::units::{exact, human};

pub(super) fn rss_lines(doc: &mut Document<'_>, report: &RssReport) {
    let kinds = match report.not_in_core {
        0 => format!("kinds {}", kib(report.kinds)),
        more => format!("kinds {} + mappings not in the core {}", kib(report.kinds), kib(more)),
    };
    let smaps = format!("RSS: {kinds} = smaps {} ({})", kib(report.smaps), report.source);
    doc.titled(smaps + &counted(report), 5);
    let beside: Vec<String> = [
        ("page tables", report.page_tables),
        ("swap", report.swap),
        ("hugetlb", report.hugetlb.filter(|&bytes| bytes > 0)),
    ]
    .into_iter()
    .filter_map(|(name, bytes)| Some(format!("{name} {}", kib(bytes?))))
    .collect();
    if !beside.is_empty() {
        let oom = report.oom.map(|oom| format!("; the OOM killer counts RSS + swap + page tables = {}", kib(oom)));
        doc.titled(format!("     not in RSS: {}{}", beside.join(" · "), oom.unwrap_or_default()), 5);
    }
    if let Some(lazy) = report.lazy_free.filter(|&bytes| bytes > 0) {
        let text = "     in RSS, but freed with MADV_FREE (the kernel reclaims it when memory is short):";
        doc.titled(format!("{text} {}", kib(lazy)), 5);
    }
    if let Some(group) = &report.cgroup {
        doc.titled(cgroup(group, report), 5);
    }
}

/// Compares VmRSS with the sum of smaps.
fn counted(report: &RssReport) -> String {
    let (Some(vm_rss), Some(counting)) = (report.vm_rss, report.counting) else { return String::new() };
    let why = "the kernel updates it in batches, or it was read at another time";
    match counting {
        0 => format!(" = VmRSS {}", kib(vm_rss)),
        less if less < 0 => format!("; VmRSS {} is {} less: {why}", kib(vm_rss), kib(less.unsigned_abs())),
        more => format!("; VmRSS {} is {} more: {why}", kib(vm_rss), kib(more.unsigned_abs())),
    }
}

/// Lists what a control group is charged for.
fn cgroup(group: &CgroupRow, report: &RssReport) -> String {
    let part = |name: &str, bytes: Option<u64>| bytes.map(|bytes| format!("{name} {}", human(bytes)));
    let within = |whole: Option<String>, parts: Vec<Option<String>>| {
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        whole.map(|whole| if parts.is_empty() { whole } else { format!("{whole} ({})", parts.join(", ")) })
    };
    let other = group.other.filter(|&other| other > 0).map(i64::unsigned_abs);
    let parts = [
        within(part("anonymous", group.anon), vec![part("of this process", report.anonymous)]),
        within(
            part("page cache", group.file),
            vec![part("mapped", group.file_mapped), part("shared memory", group.shmem)],
        ),
        within(
            part("kernel", group.kernel),
            vec![part("page tables", group.page_tables), part("stacks", group.kernel_stack), part("slab", group.slab)],
        ),
        part("sockets", group.sock),
        part("other", other),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let charged = group.current.map_or_else(|| "charge unknown".to_owned(), |n| format!("{} charged", human(n)));
    let limit = match (group.current, group.max) {
        (_, None) => String::new(),
        (Some(current), Some(max)) if max > 0 => {
            format!(" of a limit of {} ({:.1} %)", human(max), current as f64 * 100.0 / max as f64)
        }
        (_, Some(max)) => format!(", limit {}", human(max)),
    };
    let swap = part(" · swap", group.swap.filter(|&swap| swap > 0)).unwrap_or_default();
    format!("cgroup v{} (all its processes): {charged}{limit} = {}{swap}", group.version, parts.join(" + "))
}

/// Formats a size: `1,234 KiB`, or bytes if it is not a whole number of KiB, as with shares of a page.
fn kib(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) { format!("{} KiB", exact(bytes / 1024)) } else { format!("{} bytes", exact(bytes)) }
}
