//! Stacks of threads, each unwound once.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::addr::{Addr, AddrRange};
use crate::session::Session;
use crate::stackwalk::Walker;

/// Prefixes of names of functions that every program has.
const STANDARD: [&str; 5] = ["std::", "core::", "alloc::", "__", "_start"];

/// Unwound stacks by thread.
pub(super) struct UnwoundStacks<'s, 'p> {
    session: &'s Session<'p>,
    walker: Walker<'s, 'p>,
    known: RefCell<HashMap<u32, Option<Rc<UnwoundStack>>>>,
}

/// Frames of one thread.
pub(super) struct UnwoundStack {
    /// Stack pointer and code address of each frame, innermost first.
    pub(super) frames: Vec<(Addr, Addr)>,
    /// Address range and index of each frame, by address. Frames are disjoint.
    spans: Vec<(AddrRange, usize)>,
    /// For each frame, the first function of the program itself, from this frame outward.
    names: OnceCell<Vec<Option<Arc<str>>>>,
}

impl<'s, 'p> UnwoundStacks<'s, 'p> {
    pub(super) fn new(session: &'s Session<'p>) -> UnwoundStacks<'s, 'p> {
        let walker = session.walker(session.known_stacks());
        UnwoundStacks { session, walker, known: RefCell::default() }
    }

    /// Returns the stack of a thread. `None` if there is no such thread.
    pub(super) fn of(&self, tid: u32) -> Option<Rc<UnwoundStack>> {
        if let Some(known) = self.known.borrow().get(&tid) {
            return known.clone();
        }
        let walk = self.session.walk_tid(&self.walker, tid);
        let found = walk.map(|walk| {
            let frames: Vec<(Addr, Addr)> = walk.frames.iter().map(|frame| (frame.sp, frame.code())).collect();
            let ends = frames.iter().skip(1);
            let spans = frames.iter().zip(ends).map(|((from, _), (to, _))| (*from, *to)).enumerate();
            let up = spans.filter(|(_, (from, to))| from < to);
            let mut spans: Vec<_> = up.map(|(frame, (from, to))| (AddrRange::new(from, to), frame)).collect();
            spans.sort_by_key(|(range, _)| range.start);
            Rc::new(UnwoundStack { frames, spans, names: OnceCell::new() })
        });
        self.known.borrow_mut().insert(tid, found.clone());
        found
    }

    /// Returns the function whose frame contains `at`, and the distance in bytes from `at` to the frame's end.
    pub(super) fn function_at(&self, tid: u32, at: Addr) -> Option<(Arc<str>, u64)> {
        let stack = self.of(tid)?;
        let i = stack.spans.partition_point(|(range, _)| range.end <= at);
        let (range, frame) = stack.spans.get(i).filter(|(range, _)| range.contains(at))?;
        let name = stack.names.get_or_init(|| self.names(&stack.frames)).get(*frame)?.clone()?;
        Some((name, range.end.since(at)))
    }

    /// Returns the names for [`UnwoundStack::names`]. A library function may have the program's variable in its frame,
    /// as an argument. So its frame gets the name of the program's function that called it.
    fn names(&self, frames: &[(Addr, Addr)]) -> Vec<Option<Arc<str>>> {
        let is_own = |name: &str| !STANDARD.iter().any(|start| name.trim_start_matches('<').starts_with(start));
        let own = |code: Addr| self.session.symbols().resolve(code).map(|s| s.name).filter(|name| is_own(name));
        let mut last = None;
        let outward = frames.iter().rev().map(|(_, code)| {
            last = own(*code).or(last.take());
            last.clone()
        });
        let mut names: Vec<Option<Arc<str>>> = outward.collect();
        names.reverse();
        names
    }
}
