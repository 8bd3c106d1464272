//! Merges equal stacks into a tree, or folds them for flame graphs.

use std::collections::HashMap;

use crate::commands::threads::report::GroupRow;
use crate::report::{FrameNames, FrameRow, FrameRowKind};
use crate::sums::{SaturatingAdd, SaturatingSum};

/// Doubt of each frame of each group, outermost frame first. Frames with a common path have the greatest doubt of all
/// of them, so that one name does not appear twice.
fn frame_doubts(groups: &[GroupRow], names: &mut FrameNames) -> Vec<Vec<u8>> {
    let mut nodes: HashMap<(usize, FrameRowKind, u32), usize> = HashMap::new();
    let mut doubt: Vec<u8> = vec![0];
    let paths: Vec<Vec<usize>> = groups
        .iter()
        .map(|group| {
            let mut at = 0;
            let step = |frame: &FrameRow| {
                at = *nodes.entry((at, frame.kind, names.number(frame))).or_insert_with(|| {
                    doubt.push(0);
                    doubt.len() - 1
                });
                if let Some(most) = doubt.get_mut(at) {
                    *most = frame.doubt().max(*most);
                }
                at
            };
            group.frames.iter().rev().map(step).collect()
        })
        .collect();
    let of = |node: usize| doubt.get(node).copied().unwrap_or_default();
    paths.into_iter().map(|path| path.into_iter().map(of).collect()).collect()
}

/// Folded stacks in alphabetical order, outermost frame first, with their numbers of threads.
pub(super) fn fold(groups: &[GroupRow]) -> Vec<(FoldedStack<'_>, usize)> {
    let mut names = FrameNames::default();
    let mut counts: HashMap<Vec<(u32, u8)>, (FoldedStack<'_>, usize)> = HashMap::new();
    for (group, doubts) in groups.iter().zip(frame_doubts(groups, &mut names)) {
        let frames = || group.frames.iter().rev().zip(doubts.iter().copied());
        let key = frames().map(|(f, doubt)| (names.number(f), doubt)).collect();
        counts.entry(key).or_insert_with(|| (FoldedStack(frames().collect()), 0)).1.add_saturating(group.count);
    }
    let mut out: Vec<_> = counts.into_values().collect();
    out.sort_by(|(a, _), (b, _)| a.titles().cmp(b.titles()));
    out
}

/// A stack whose line is formatted only when it is written.
pub(super) struct FoldedStack<'a>(Vec<(&'a FrameRow, u8)>);

impl FoldedStack<'_> {
    fn titles(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(f, doubt)| format!("{}{}", f.shown().replace(';', ":"), FrameRow::mark(*doubt)))
    }

    pub(super) fn line(&self) -> String {
        if self.0.is_empty() { "(no frames)".to_owned() } else { self.titles().collect::<Vec<_>>().join(";") }
    }
}

/// A branch of the tree of stacks: frames shared by the same threads, outermost first.
pub(super) struct Branch<'a> {
    pub(super) depth: usize,
    /// Number of threads that pass through this branch.
    pub(super) count: usize,
    /// Frames of the branch, with their doubt.
    pub(super) frames: Vec<(&'a FrameRow, u8)>,
    /// Ids of the threads whose stacks end here.
    pub(super) tids: Vec<u32>,
}

/// Builds the tree from the outermost frames on. At each fork, the branch with most threads comes first.
pub(super) fn tree(groups: &[GroupRow]) -> Vec<Branch<'_>> {
    let mut out = Vec::new();
    let all: Vec<usize> = (0..groups.len()).collect();
    let mut names = FrameNames::default();
    let titles: Vec<Vec<u32>> =
        groups.iter().map(|g| g.frames.iter().rev().map(|f| names.number(f)).collect()).collect();
    let doubts = frame_doubts(groups, &mut names);
    // An explicit stack, because a hostile core may branch at every frame.
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
        let first = members.first().and_then(|&i| of(i).zip(doubts.get(i)));
        let frames = first.map(|(g, doubts)| {
            g.frames.iter().rev().zip(doubts.iter().copied()).skip(from).take(to.saturating_sub(from)).collect()
        });
        out.push(Branch {
            depth,
            count: members.iter().filter_map(|&i| of(i)).map(|g| g.count).saturating_sum(),
            frames: frames.unwrap_or_default(),
            tids: ended.iter().filter_map(|&i| of(i)).flat_map(|g| g.tids.iter().copied()).collect(),
        });
        work.extend(split(groups, &titles, &going, to, depth + 1));
    }
    out
}

/// Members of a branch, index of its first frame, and depth.
type BranchWork = (Vec<usize>, usize, usize);

/// Divides groups by their frame at index `from`. The branch with most threads comes last, because it is popped first.
fn split(groups: &[GroupRow], titles: &[Vec<u32>], members: &[usize], from: usize, depth: usize) -> Vec<BranchWork> {
    let mut index: HashMap<Option<u32>, usize> = HashMap::new();
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for &i in members {
        let title = titles.get(i).and_then(|t| t.get(from).copied());
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
