use std::collections::HashMap;

use crate::report::{GroupRow, ThreadRow};

/// Move frames out of rows into one group for each different stack.
pub(super) fn merge(rows: &mut [ThreadRow]) -> Vec<GroupRow> {
    let mut index: HashMap<Vec<(&'static str, String)>, usize> = HashMap::new();
    let mut out: Vec<GroupRow> = Vec::new();
    for row in rows {
        let frames = std::mem::take(&mut row.frames);
        let key = frames.iter().map(|f| (f.kind, f.title())).collect();
        let at = *index.entry(key).or_insert_with(|| {
            out.push(GroupRow { count: 0, tids: Vec::new(), frames });
            out.len() - 1
        });
        if let Some(group) = out.get_mut(at) {
            group.count += 1;
            group.tids.push(row.tid);
        }
    }
    // A stable sort: groups of one size keep the core's order.
    out.sort_by_key(|g| std::cmp::Reverse(g.count));
    out
}
