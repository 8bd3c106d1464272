//! Equal stacks as a tree, and folded for flame graphs.

use std::collections::{BTreeMap, HashMap};

use crate::report::{FrameRow, GroupRow};

/// Folded stacks: the outermost frame first, with how many threads have it.
pub(super) fn fold(groups: &[GroupRow]) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for group in groups {
        let titles: Vec<String> = group.frames.iter().rev().map(|f| f.title().replace(';', ":")).collect();
        let line = if titles.is_empty() { "(no frames)".to_owned() } else { titles.join(";") };
        *out.entry(line).or_insert(0) += group.count;
    }
    out
}

/// A part of the tree of stacks: frames that the same threads have, the
/// outermost first.
pub(super) struct Branch<'a> {
    /// How deep in the tree.
    pub(super) depth: usize,
    /// Threads that go through here.
    pub(super) count: usize,
    /// Their frames from here on, as far as they are the same.
    pub(super) frames: Vec<&'a FrameRow>,
    /// Threads whose stacks end here.
    pub(super) tids: Vec<u32>,
}

/// The groups as a tree from the outermost frames on; where stacks part, the
/// branch of most threads comes first.
pub(super) fn tree(groups: &[GroupRow]) -> Vec<Branch<'_>> {
    let mut out = Vec::new();
    let all: Vec<usize> = (0..groups.len()).collect();
    let titles: Vec<Vec<String>> =
        groups.iter().map(|g| g.frames.iter().rev().map(FrameRow::title).collect()).collect();
    // An explicit stack: a core may be made to branch at every frame.
    let mut work = split(groups, &titles, &all, 0, 0);
    while let Some((members, from, depth)) = work.pop() {
        let Some(first) = members.first().and_then(|&i| titles.get(i)) else { continue };
        let same = |at: usize| {
            let title = first.get(at);
            title.is_some() && members.iter().all(|&i| titles.get(i).and_then(|t| t.get(at)) == title)
        };
        let to = (from..first.len()).find(|&at| !same(at)).unwrap_or(first.len());
        let (ended, going): (Vec<usize>, Vec<usize>) =
            members.iter().copied().partition(|&i| titles.get(i).is_none_or(|t| t.len() <= to));
        let of = |i: usize| groups.get(i);
        let frames =
            members.first().and_then(|&i| of(i)).map(|g| g.frames.iter().rev().skip(from).take(to - from).collect());
        out.push(Branch {
            depth,
            count: members.iter().filter_map(|&i| of(i)).map(|g| g.count).sum(),
            frames: frames.unwrap_or_default(),
            tids: ended.iter().filter_map(|&i| of(i)).flat_map(|g| g.tids.iter().copied()).collect(),
        });
        work.extend(split(groups, &titles, &going, to, depth + 1));
    }
    out
}

/// Members of a part of the tree, where it begins, how deep it is.
type Part = (Vec<usize>, usize, usize);

/// Groups by their frame at `from`; that of most threads last, as it is taken first.
fn split(groups: &[GroupRow], titles: &[Vec<String>], members: &[usize], from: usize, depth: usize) -> Vec<Part> {
    let mut index: HashMap<Option<&String>, usize> = HashMap::new();
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for &i in members {
        let title = titles.get(i).and_then(|t| t.get(from));
        let at = *index.entry(title).or_insert_with(|| {
            parts.push(Vec::new());
            parts.len() - 1
        });
        if let Some(part) = parts.get_mut(at) {
            part.push(i);
        }
    }
    let threads = |part: &Vec<usize>| part.iter().filter_map(|&i| groups.get(i)).map(|g| g.count).sum::<usize>();
    parts.reverse();
    parts.sort_by_key(threads);
    parts.into_iter().map(|part| (part, from, depth)).collect()
}
