//! Methods that a runtime lists besides the stack, matched to the frames that run them.

use std::collections::VecDeque;

use crate::addr::{Addr, AddrRange};
use crate::native::unwind::Trust;
use crate::registers::Regs;
use crate::runtimes::api::{FrameKind, ManagedRun, RuntimeId, StackFrame};
use crate::targets::Arch;

/// Runs not yet matched to a frame, newest first, each with its runtime.
pub(super) struct ListedRuns(VecDeque<(RuntimeId, ManagedRun)>);

impl ListedRuns {
    pub(super) fn new(runs: Vec<(RuntimeId, ManagedRun)>) -> ListedRuns {
        ListedRuns(runs.into())
    }

    /// Takes the runs of a frame. `frame` is its range of the stack, if known. `runs_methods`: whether the frame's code
    /// runs listed methods of a runtime. Runs before a match in the list were called later, and are returned before it.
    pub(super) fn take(
        &mut self,
        frame: Option<AddrRange>,
        runs_methods: impl Fn(RuntimeId) -> bool,
    ) -> Vec<(RuntimeId, ManagedRun)> {
        let inside = |run: &ManagedRun| run.anchor.zip(frame).is_some_and(|(anchor, frame)| frame.contains(anchor));
        let last = self.0.iter().rposition(|(_, run)| inside(run));
        let next = self.0.front().filter(|(runtime, run)| {
            // A run with an anchor is matched by that, unless the frame's range is unknown.
            (run.anchor.is_none() || frame.is_none()) && runs_methods(*runtime)
        });
        let count = last.map_or(usize::from(next.is_some()), |last| last + 1);
        self.0.drain(..count).collect()
    }

    /// Takes all remaining runs.
    pub(super) fn rest(&mut self) -> Vec<(RuntimeId, ManagedRun)> {
        self.0.drain(..).collect()
    }
}

/// Inserts the methods of `runs` before frame `at`, which runs them, or at the end if `at` is `None`. Returns `false`
/// if there are more than `limit` frames.
pub(super) fn insert(
    frames: &mut Vec<StackFrame>,
    at: Option<usize>,
    runs: Vec<(RuntimeId, ManagedRun)>,
    limit: usize,
) -> bool {
    let nowhere = |anchor: Option<Addr>| {
        let regs = Regs::new(Arch::X86_64, Addr::NULL, anchor.unwrap_or(Addr::NULL));
        let (ip, sp, kind) = (regs.ip(), regs.sp(), FrameKind::Native);
        StackFrame { regs, ip, sp, exact: false, trust: Trust::Frame, kind, position: None }
    };
    let runner = at.and_then(|at| frames.get(at).cloned());
    let room = limit.saturating_sub(frames.len());
    let all: usize = runs.iter().map(|(_, run)| run.methods.len()).sum();
    let methods = runs.into_iter().flat_map(|(runtime, run)| {
        let like = runner.clone().unwrap_or_else(|| nowhere(run.anchor));
        run.methods.into_iter().map(move |activation| StackFrame {
            kind: FrameKind::Managed(runtime, activation.method),
            position: Some(Box::new(activation.position)),
            trust: Trust::Frame,
            ..like.clone()
        })
    });
    let at = at.unwrap_or(frames.len()).min(frames.len());
    drop(frames.splice(at..at, methods.take(room)));
    all <= room
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn run(anchor: Option<u64>) -> (RuntimeId, ManagedRun) {
        (RuntimeId::of(0).next().unwrap(), ManagedRun { anchor: anchor.map(Addr::new), methods: Vec::new() })
    }

    fn anchors(runs: &[(RuntimeId, ManagedRun)]) -> Vec<Option<u64>> {
        runs.iter().map(|(_, run)| run.anchor.map(Addr::get)).collect()
    }

    fn frame(start: u64, end: u64) -> Option<AddrRange> {
        Some(AddrRange::new(Addr::new(start), Addr::new(end)))
    }

    #[test]
    fn a_run_is_of_the_frame_that_its_place_is_in() {
        let mut runs = ListedRuns::new(vec![run(Some(0x100)), run(Some(0x300)), run(Some(0x500))]);
        assert!(runs.take(frame(0x80, 0x100), |_| true).is_empty());
        assert_eq!(anchors(&runs.take(frame(0x100, 0x180), |_| false)), [Some(0x100)]);
        // The frame of one run was missed, so it is returned with the next, in order.
        assert_eq!(anchors(&runs.take(frame(0x480, 0x600), |_| false)), [Some(0x300), Some(0x500)]);
        assert!(runs.rest().is_empty());
    }

    #[test]
    fn without_a_place_order_tells() {
        let mut runs = ListedRuns::new(vec![run(None), run(None), run(Some(0x100))]);
        assert!(runs.take(frame(0, 0x10), |_| false).is_empty());
        assert_eq!(runs.take(frame(0x10, 0x20), |_| true).len(), 1);
        assert_eq!(runs.take(None, |_| true).len(), 1);
        assert!(runs.take(frame(0x20, 0x30), |_| true).is_empty(), "what has a place elsewhere is not of this frame");
        assert_eq!(runs.take(None, |_| true).len(), 1, "the stack is lost, and this is the loop");
    }
}
