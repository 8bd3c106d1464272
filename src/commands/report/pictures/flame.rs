//! Merges stacks from the outermost frame on, as for a flame graph.

use std::collections::HashMap;

use crate::commands::threads::GroupRow;
use crate::report::{FrameRow, FrameRowKind};
use crate::sums::SaturatingAdd;

/// Threads whose stacks begin with the same frames.
#[derive(Clone, Debug, Default)]
pub(in crate::commands::report) struct Flame {
    pub(in crate::commands::report) name: String,
    /// Kind of the frame. `None` for the root, and for nodes that are not frames.
    pub(in crate::commands::report) kind: Option<FrameRowKind>,
    pub(in crate::commands::report) threads: u64,
    /// The next frames, most threads first.
    pub(in crate::commands::report) children: Vec<Flame>,
}

/// Merged stacks. `common` has the outermost frames that all stacks share, which are not drawn, outermost first.
#[derive(Clone, Debug, Default)]
pub(in crate::commands::report) struct Merged {
    pub(in crate::commands::report) root: Flame,
    pub(in crate::commands::report) common: Vec<String>,
}

/// Maximum number of frames shown per stack, counted from the outermost. HTML elements nest as deep, and nobody scrolls
/// further.
const MAX_DEPTH: usize = 100;

/// Suffix of a frame that represents several consecutive ones.
const RECURSIVE: &str = " (recursive)";

/// Merges the stacks. With `managed`, only their managed frames.
pub(in crate::commands::report) fn merge(groups: &[GroupRow], managed: bool) -> Merged {
    let mut nodes = vec![Node::default()];
    let mut places: HashMap<(usize, String), usize> = HashMap::new();
    for group in groups {
        let mut at = 0;
        add(&mut nodes, 0, group.count as u64);
        for (name, kind) in steps(&group.frames, managed) {
            let next = match places.get(&(at, name.clone())) {
                Some(&next) => next,
                None => {
                    let next = nodes.len();
                    nodes.push(Node { name: name.clone(), kind, ..Node::default() });
                    if let Some(node) = nodes.get_mut(at) {
                        node.children.push(next);
                    }
                    places.insert((at, name), next);
                    next
                }
            };
            add(&mut nodes, next, group.count as u64);
            at = next;
        }
    }
    let mut common = Vec::new();
    let mut at = 0;
    while let Some((only, node)) = only_child(&nodes, at) {
        common.push(node.name.clone());
        at = only;
    }
    // With a single stack, or all equal, nothing would be left to draw.
    if nodes.get(at).is_none_or(|node| node.children.is_empty()) {
        (at, common) = (0, Vec::new());
    }
    let root = Flame { name: "all threads".to_owned(), kind: None, ..build(&nodes, at) };
    Merged { root, common }
}

#[derive(Default)]
struct Node {
    name: String,
    kind: Option<FrameRowKind>,
    threads: u64,
    children: Vec<usize>,
}

fn add(nodes: &mut [Node], at: usize, threads: u64) {
    if let Some(node) = nodes.get_mut(at) {
        node.threads.add_saturating(threads);
    }
}

/// Returns the only child, if it has all threads of the node and is not a managed frame.
fn only_child(nodes: &[Node], at: usize) -> Option<(usize, &Node)> {
    let node = nodes.get(at)?;
    let &[only] = node.children.as_slice() else { return None };
    let child = nodes.get(only)?;
    (child.threads == node.threads && child.kind != Some(FrameRowKind::Managed)).then_some((only, child))
}

fn build(nodes: &[Node], at: usize) -> Flame {
    let Some(node) = nodes.get(at) else { return Flame::default() };
    let mut children: Vec<Flame> = node.children.iter().map(|&child| build(nodes, child)).collect();
    children.sort_by(|a, b| b.threads.cmp(&a.threads).then_with(|| a.name.cmp(&b.name)));
    Flame { name: node.name.clone(), kind: node.kind, threads: node.threads, children }
}

/// Names of frames, outermost first. Consecutive frames without a name are merged under the name of their module.
fn steps(frames: &[FrameRow], managed: bool) -> Vec<(String, Option<FrameRowKind>)> {
    let mut out: Vec<(String, Option<FrameRowKind>)> = Vec::new();
    for frame in frames.iter().rev().filter(|f| !managed || f.kind == FrameRowKind::Managed) {
        if frame.kind == FrameRowKind::Frame {
            continue;
        }
        let name = match (&frame.method, &frame.module) {
            (Some(_), _) => frame.shown(),
            (None, Some(module)) => format!("{} …", module.shown()),
            (None, None) => "code without symbols …".to_owned(),
        };
        if let Some((last, _)) = out.last_mut()
            && last.trim_end_matches(RECURSIVE) == name
        {
            // A recursive method is one frame, regardless of its depth.
            if frame.method.is_some() && !last.ends_with(RECURSIVE) {
                last.push_str(RECURSIVE);
            }
            continue;
        }
        out.push((name, Some(frame.kind)));
        if out.len() >= MAX_DEPTH {
            break;
        }
    }
    if managed && out.is_empty() {
        out.push(("no managed frames".to_owned(), None));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sums::SaturatingSum;

    fn frame(kind: FrameRowKind, method: Option<&str>, module: &str) -> FrameRow {
        FrameRow { kind, method: method.map(Into::into), module: Some(module.into()), ..FrameRow::default() }
    }

    fn group(count: usize, frames: Vec<FrameRow>) -> GroupRow {
        GroupRow { count, tids: Vec::new(), frames }
    }

    fn stacks() -> Vec<GroupRow> {
        use FrameRowKind::{Managed, Native};
        let start = || [frame(Native, None, "libc.so"), frame(Native, Some("clone3"), "libc.so")];
        let mut waits = vec![frame(Native, Some("poll"), "libc.so"), frame(Managed, Some("Lab.Wait()"), "lab.dll")];
        waits.extend([frame(Native, None, "libcoreclr.so"), frame(Native, None, "libcoreclr.so")]);
        waits.extend(start());
        let mut native = vec![frame(Native, Some("read"), "libc.so")];
        native.extend(start());
        vec![group(3, waits), group(1, native)]
    }

    #[test]
    fn the_common_start_is_cut_and_frames_without_a_name_are_one() {
        let merged = merge(&stacks(), false);
        assert_eq!(merged.common, ["libc.so!clone3", "libc.so …"]);
        assert_eq!(merged.root.threads, 4);
        let first: Vec<_> = merged.root.children.iter().map(|c| (c.name.as_str(), c.threads)).collect();
        assert_eq!(first, [("libcoreclr.so …", 3), ("libc.so!read", 1)]);
        let below = merged.root.children.first().and_then(|c| c.children.first());
        assert_eq!(below.map(|c| c.name.as_str()), Some("Lab.Wait()"));
    }

    #[test]
    fn a_method_that_calls_itself_is_one_frame() {
        let deep = |n: usize| vec![frame(FrameRowKind::Managed, Some("Lab.Deep()"), "lab.dll"); n];
        let merged = merge(&[group(1, deep(500)), group(2, deep(30)), group(1, deep(1))], true);
        let listed: Vec<_> =
            merged.root.children.iter().map(|c| (c.name.as_str(), c.threads, c.children.len())).collect();
        assert_eq!(listed, [("Lab.Deep() (recursive)", 3, 0), ("Lab.Deep()", 1, 0)]);
    }

    #[test]
    fn managed_frames_alone_still_count_all_threads() {
        let merged = merge(&stacks(), true);
        let listed: u64 = merged.root.children.iter().map(|c| c.threads).saturating_sum();
        assert_eq!((merged.root.threads, listed), (4, 4));
        assert!(merged.root.children.iter().any(|c| c.name == "no managed frames" && c.threads == 1));
    }
}
