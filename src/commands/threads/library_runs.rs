//! Folds runs of frames of one library in the tree of stacks, because readers look for the program's own methods.

use std::collections::BTreeSet;

use crate::report::{FrameRow, FrameRowKind};

/// Minimum number of frames that are folded.
const MIN_RUN: usize = 3;

/// A line of the tree: a frame, or several of one library.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StackLine {
    pub(super) text: String,
    /// Greatest doubt of its frames.
    pub(super) doubt: u8,
}

/// Lines of `frames`, outermost first. `libraries`: names of files that contain a runtime and nothing of the program.
pub(super) fn lines(frames: &[(&FrameRow, u8)], libraries: &BTreeSet<String>) -> Vec<StackLine> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some((frame, doubt)) = frames.get(at) {
        let run = run_at(frames.get(at..).unwrap_or_default(), libraries);
        if let (Some(module), true) = (&frame.module, run.len() >= MIN_RUN) {
            out.push(StackLine {
                text: text(module, run),
                doubt: run.iter().map(|(_, doubt)| *doubt).max().unwrap_or(0),
            });
            at += run.len();
        } else {
            out.push(StackLine { text: frame.shown(), doubt: *doubt });
            at += 1;
        }
    }
    out
}

/// The library of a frame that may be folded: one of a runtime, or one without names.
fn library<'f>(frame: &'f FrameRow, libraries: &BTreeSet<String>) -> Option<&'f str> {
    let module: &str = frame.module.as_deref().filter(|_| frame.frame.is_none())?;
    let of_runtime = || frame.kind == FrameRowKind::Native && libraries.contains(module);
    (frame.method.is_none() || of_runtime()).then_some(module)
}

/// Frames from the first one on that are of one library, with the runtime's marks between them.
fn run_at<'f, 'r>(frames: &'f [(&'r FrameRow, u8)], libraries: &BTreeSet<String>) -> &'f [(&'r FrameRow, u8)] {
    let Some(module) = frames.first().and_then(|(frame, _)| library(frame, libraries)) else { return &[] };
    let mut end = 0;
    for (at, (frame, _)) in frames.iter().enumerate() {
        let is_mark = frame.frame.is_some() && frame.method.is_none();
        match library(frame, libraries) {
            Some(other) if other == module => end = at + 1,
            _ if is_mark => {}
            _ => break,
        }
    }
    frames.get(..end).unwrap_or_default()
}

/// A run in words, with the names of its outermost and innermost functions.
fn text(module: &str, run: &[(&FrameRow, u8)]) -> String {
    let mut names = run.iter().filter_map(|(frame, _)| frame.method.as_ref());
    let named = match (names.next(), names.next_back()) {
        (None, _) => String::new(),
        (Some(only), None) => format!(" ({})", only.shown()),
        (Some(first), Some(last)) => format!(" ({} … {})", first.shown(), last.shown()),
    };
    format!("{module}: {} frames{named}", run.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(module: &str, method: Option<&str>) -> FrameRow {
        FrameRow {
            kind: FrameRowKind::Native,
            module: Some(module.into()),
            method: method.map(Into::into),
            ..FrameRow::default()
        }
    }

    fn shown(frames: &[FrameRow]) -> Vec<String> {
        let libraries = BTreeSet::from(["libjvm.so".to_owned()]);
        let frames: Vec<(&FrameRow, u8)> = frames.iter().map(|frame| (frame, 0)).collect();
        lines(&frames, &libraries).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn frames_of_a_runtime_are_one_line() {
        let vm = |name| native("libjvm.so", Some(name));
        let own = native("shop", Some("serve"));
        let frames = [own.clone(), vm("run"), vm("call"), native("libjvm.so", None), vm("park"), own.clone()];
        assert_eq!(shown(&frames), ["shop!serve", "libjvm.so: 4 frames (run … park)", "shop!serve"]);
        // Two say more than a count.
        assert_eq!(shown(&[vm("run"), vm("call"), own]), ["libjvm.so!run", "libjvm.so!call", "shop!serve"]);
    }

    #[test]
    fn the_program_and_its_names_are_never_folded() {
        let own = |name| native("shop", Some(name));
        assert_eq!(shown(&[own("a"), own("b"), own("c")]), ["shop!a", "shop!b", "shop!c"]);
        let unnamed = || native("libc.so.6", None);
        let mark = FrameRow { frame: Some("GCFrame"), ..FrameRow::default() };
        let frames = [unnamed(), mark.clone(), unnamed(), mark];
        assert_eq!(shown(&frames), ["libc.so.6: 3 frames", "[GCFrame]"]);
    }
}
