//! Cuts lists to what fits in a page, and counts what it omits.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::commands::diff::DiffReport;
use crate::commands::report::gather::{Answers, Limits};
use crate::report::RegionRow;

/// Rows of an answer that are omitted from the page. Bytes are the sum of the list's size column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Command of the answer.
    pub part: String,
    /// The list.
    pub list: String,
    /// Number of omitted rows.
    pub rows: u64,
    /// Their bytes. `null` if its rows have no size.
    pub bytes: Option<u64>,
}

/// Cuts lists and records what it cut.
#[derive(Default)]
struct Cutter {
    left_out: Vec<LeftOut>,
}

impl Cutter {
    fn cut<T>(&mut self, place: (&str, &str), list: &mut Vec<T>, most: usize, bytes: Option<fn(&T) -> u64>) {
        let gone = list.split_off(most.min(list.len()));
        self.add_left_out(place, gone.len(), bytes.map(|of| gone.iter().map(of).fold(0, u64::saturating_add)));
    }

    fn add_left_out(&mut self, (part, list): (&str, &str), rows: usize, bytes: Option<u64>) {
        if rows > 0 {
            self.left_out.push(LeftOut { part: part.to_owned(), list: list.to_owned(), rows: rows as u64, bytes });
        }
    }
}

/// Cuts all lists of the answers. Lists sorted by bytes keep their largest rows.
pub(in crate::commands::report) fn cut(answers: &mut Answers, limits: &Limits) -> Vec<LeftOut> {
    let mut c = Cutter::default();
    regions(&mut c, &mut answers.regions.regions, limits.regions);
    c.cut(("info", "modules"), &mut answers.info.modules, limits.modules, Some(|m| m.size));
    c.cut(("triage", "unnamed"), &mut answers.triage.unnamed, limits.rows, Some(|u| u.bytes));
    c.cut(("stacks", "stacks"), &mut answers.stacks.stacks, limits.threads, Some(|s| s.reserved.unwrap_or(0)));
    c.cut(("stacks", "groups"), &mut answers.stacks.groups, limits.threads, Some(|g| g.reserved));
    c.cut(("threads", "threads"), &mut answers.threads.threads, limits.threads, None);
    if let Some(groups) = &mut answers.threads.groups {
        let mut frames = 0;
        let fit = groups.iter().take_while(|group| {
            frames += group.frames.len();
            frames <= limits.frames
        });
        let most = fit.count().min(limits.groups);
        c.cut(("threads", "groups"), groups, most, None);
    }
    c.cut(("anon", "clusters"), &mut answers.anon.clusters, limits.rows, Some(|b| b.bytes));
    if let Some(heapstat) = &mut answers.heapstat {
        c.cut(("heapstat", "types"), &mut heapstat.types, limits.types, Some(|t| t.size));
        c.cut(("heapstat", "fragmentation"), &mut heapstat.fragmentation, limits.rows, Some(|f| f.size));
        if let Some(strings) = &mut heapstat.strings {
            c.cut(("heapstat", "strings.duplicates"), &mut strings.duplicates, limits.rows, Some(|d| d.wasted));
        }
    }
    if let Some(retained) = &mut answers.retained {
        c.cut(("retained", "unreachable_types"), &mut retained.unreachable_types, limits.rows, Some(|t| t.size));
        // The list of the largest retainers is never complete, so cutting it is not recorded.
        retained.objects.truncate(limits.rows);
    }
    if let Some(heap) = &mut answers.heap {
        c.cut(("heap", "segments"), &mut heap.segments, limits.rows * 2, Some(|s| s.committed));
        for loader in heap.loader.iter_mut().flatten() {
            c.cut(("heap", "loader.blocks"), &mut loader.blocks, 50, Some(|b| b.size));
        }
        if let Some(loader) = &mut heap.loader {
            c.cut(("heap", "loader"), loader, limits.rows, Some(|l| l.size));
        }
    }
    if let Some(malloc) = &mut answers.malloc {
        c.cut(("malloc", "arenas"), &mut malloc.arenas, limits.rows, Some(|a| a.committed));
        c.cut(("malloc", "clusters"), &mut malloc.clusters, limits.rows, Some(|k| k.bytes));
        c.cut(("malloc", "tcaches"), &mut malloc.tcaches, limits.rows, None);
    }
    if let Some(leaks) = &mut answers.leaks {
        c.cut(("leaks", "clusters"), &mut leaks.clusters, limits.rows, Some(|k| k.bytes));
    }
    if let Some(holders) = &mut answers.holders {
        c.cut(("holders", "holders"), &mut holders.holders, limits.holders, Some(|h| h.malloc.bytes + h.mmap.bytes));
        c.cut(("holders", "buffers"), &mut holders.buffers, limits.rows, Some(|b| b.bytes));
    }
    c.left_out
}

/// Cuts a comparison of two cores. Rows with the largest change remain.
pub(in crate::commands::report) fn cut_diff(
    diff: &DiffReport,
    limits: &Limits,
    left_out: &mut Vec<LeftOut>,
) -> DiffReport {
    let mut diff = diff.clone();
    let mut c = Cutter::default();
    if let Some(types) = &mut diff.types {
        c.cut(("diff", "types"), types, limits.types, Some(|t| t.new.unwrap_or(0)));
    }
    if let Some(malloc) = &mut diff.malloc {
        c.cut(("diff", "malloc"), malloc, limits.types, Some(|m| m.new.unwrap_or(0)));
    }
    left_out.extend(c.left_out);
    diff
}

/// Maximum number of characters of a text in the data.
const MAX_TEXT: usize = 2000;

/// Cuts texts longer than any real name. Returns the number of cut texts and of omitted bytes.
pub(in crate::commands::report) fn shorten(data: &mut Value) -> Option<LeftOut> {
    let (mut rows, mut bytes) = (0, 0);
    each_text(data, &mut |text| {
        let Some((end, _)) = text.char_indices().nth(MAX_TEXT) else { return };
        (rows, bytes) = (rows + 1, bytes + (text.len() - end) as u64);
        text.truncate(end);
        text.push('…');
    });
    let list = format!("ends of texts longer than {MAX_TEXT} characters");
    (rows > 0).then(|| LeftOut { part: "report".to_owned(), list, rows, bytes: Some(bytes) })
}

fn each_text(value: &mut Value, with: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => with(text),
        Value::Array(rows) => rows.iter_mut().for_each(|row| each_text(row, with)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each_text(field, with)),
        _ => {}
    }
}

/// If there are too many regions, retains the largest, in address order.
fn regions(c: &mut Cutter, regions: &mut Vec<RegionRow>, most: usize) {
    if regions.len() <= most {
        return;
    }
    let mut sizes: Vec<u64> = regions.iter().map(|r| r.size).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let least = sizes.get(most).copied().unwrap_or(0);
    let (rows, bytes) = (regions.len(), regions.iter().map(|r| r.size).fold(0, u64::saturating_add));
    let mut equal = most - sizes.iter().filter(|&&size| size > least).count();
    regions.retain(|r| {
        let last = r.size == least && equal > 0;
        equal -= usize::from(last);
        r.size > least || last
    });
    let kept = regions.iter().map(|r| r.size).fold(0, u64::saturating_add);
    c.add_left_out(("regions", "regions"), rows - regions.len(), Some(bytes - kept));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_is_summed() {
        let mut cutter = Cutter::default();
        let mut list = vec![5_u64, 4, 3, 2];
        cutter.cut(("malloc", "arenas"), &mut list, 2, Some(|n| *n));
        cutter.cut(("malloc", "clusters"), &mut list, 2, Some(|n| *n));
        assert_eq!(list, [5, 4]);
        let left_out = LeftOut { part: "malloc".into(), list: "arenas".into(), rows: 2, bytes: Some(5) };
        assert_eq!(cutter.left_out, [left_out]);
    }

    #[test]
    fn of_regions_the_biggest_stay_in_order() {
        let row = |size| RegionRow { size, ..RegionRow::default() };
        let mut list = vec![row(1), row(9), row(2), row(8)];
        let mut cutter = Cutter::default();
        regions(&mut cutter, &mut list, 2);
        assert_eq!(list.iter().map(|r| r.size).collect::<Vec<_>>(), [9, 8]);
        assert_eq!(cutter.left_out.first().map(|l| (l.rows, l.bytes)), Some((2, Some(3))));
    }
}
