//! Lists every method with code.

use std::collections::HashSet;
use std::sync::Arc;

use crate::addr::Addr;
use crate::diag::WarningCode;
use crate::limits;
use crate::runtimes::coreclr::code::{CodeBlock, CodeHeap, CodeRange, CodeRangeKind};

use super::{CodeAt, Method, Methods};

/// A block of stubs among jitted code.
#[derive(Clone, Copy, Debug)]
pub struct StubBlock {
    /// Start address.
    pub start: Addr,
    /// Bytes up to the next block.
    pub size: u64,
    /// StubCodeBlockKind (codeman.h).
    pub kind: u64,
}

struct Walk<F> {
    /// Remaining part of [`limits::MAX_METHODS`].
    left: usize,
    /// Whether the receiver asked to stop.
    stopped: bool,
    /// Number of read failures, and the first reason.
    lost: usize,
    why: Option<String>,
    each: F,
}

impl<'p, F: FnMut(Result<Arc<Method<'p>>, StubBlock>) -> bool> Walk<F> {
    fn give(&mut self, found: Result<Arc<Method<'p>>, StubBlock>) {
        if !(self.each)(found) {
            self.stopped = true;
        }
    }

    fn lose(&mut self, why: impl std::fmt::Display) {
        self.lost += 1;
        self.why.get_or_insert_with(|| why.to_string());
    }

    /// Whether to continue with an item of this weight.
    fn take(&mut self, weight: usize) -> bool {
        if self.stopped {
            return false;
        }
        if self.left == 0 {
            self.stopped = true;
            self.lose("more methods than the limit");
            return false;
        }
        self.left = self.left.saturating_sub(weight);
        true
    }
}

impl<'p> Methods<'p> {
    /// Visits every method with code, and every block of stubs among jitted code, while `each` returns true. Visits at
    /// most [`limits::MAX_METHODS`].
    ///
    /// Failures to read are counted and reported as one warning.
    pub fn all(&self, each: impl FnMut(Result<Arc<Method<'p>>, StubBlock>) -> bool) {
        let mut walk = Walk { left: limits::MAX_METHODS, stopped: false, lost: 0, why: None, each };
        let mut visited = HashSet::new();
        for range in self.ranges.iter() {
            match range.kind {
                CodeRangeKind::Heap(node) if visited.insert(node) => match &*self.heap(range, node) {
                    Ok(heap) => self.all_of_heap(range, node, heap, &mut walk),
                    Err(e) => walk.lose(e),
                },
                CodeRangeKind::ReadyToRun(module) if visited.insert(module) => match &*self.image(range, module) {
                    Ok(image) => {
                        for found in image.methods() {
                            if !walk.take(1) {
                                break;
                            }
                            match self.precompiled(module, found) {
                                Ok(Some(method)) => walk.give(Ok(Arc::new(method))),
                                Ok(None) => {}
                                Err(e) => walk.lose(&e),
                            }
                        }
                    }
                    Err(e) => walk.lose(e),
                },
                _ => {}
            }
        }
        if let Some(first) = walk.why {
            let (name, lost) = (self.types.runtime.name(), walk.lost);
            let why = format!("{name}: {lost} heaps, images or blocks of code can't be read; the first: {first}");
            self.types.process.diag.partial(WarningCode::Dotnet, why);
        }
    }

    fn all_of_heap<F>(&self, range: &CodeRange, node: Addr, heap: &CodeHeap, walk: &mut Walk<F>)
    where
        F: FnMut(Result<Arc<Method<'p>>, StubBlock>) -> bool,
    {
        for (i, &start) in heap.starts().iter().enumerate() {
            let next = heap.starts().get(i + 1).copied().unwrap_or(range.range.end);
            match heap.block(self.memory(), &self.types.runtime, start) {
                Ok(CodeBlock::Method { unwind, .. }) => {
                    if !walk.take(1 + unwind.1 as usize) {
                        return;
                    }
                    match self.in_heap(range, node, start) {
                        CodeAt::Method(method) => walk.give(Ok(method)),
                        CodeAt::Nothing(why) => walk.lose(&why),
                        CodeAt::Stub(..) | CodeAt::StubBlock(_) => {}
                    }
                }
                Ok(CodeBlock::Stubs { kind }) => {
                    walk.give(Err(StubBlock { start, size: next.since(start), kind }));
                }
                Err(e) => walk.lose(e),
            }
            if !walk.take(1) {
                return;
            }
        }
    }
}
