use std::collections::HashMap;

use crate::commands::threads::report::GroupRow;
use crate::report::{FrameNames, FrameRowKind, ThreadRow};

/// Moves the frames of the rows into one group per distinct stack. If a frame was found in several ways, the group has
/// the least certain one.
pub(super) fn merge(rows: &mut [ThreadRow]) -> Vec<GroupRow> {
    let mut names = FrameNames::default();
    let mut index: HashMap<Vec<(FrameRowKind, u32)>, usize> = HashMap::new();
    let mut out: Vec<GroupRow> = Vec::new();
    for row in rows {
        let frames = std::mem::take(&mut row.frames);
        let key = frames.iter().map(|f| (f.kind, names.number(f))).collect();
        let at = *index.entry(key).or_insert(out.len());
        match out.get_mut(at) {
            Some(group) => {
                for (merged, frame) in group.frames.iter_mut().zip(&frames).filter(|(m, f)| f.doubt() > m.doubt()) {
                    merged.trust = frame.trust;
                }
                group.count += 1;
                group.tids.push(row.tid);
            }
            None => out.push(GroupRow { count: 1, tids: vec![row.tid], frames }),
        }
    }
    // A stable sort: groups of one size stay in the core's order.
    out.sort_by_key(|g| std::cmp::Reverse(g.count));
    out
}
