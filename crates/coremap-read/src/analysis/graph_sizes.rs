//! Retained sizes of a heap's graph, for the findings of its runtime.

use crate::addr::Addr;
use crate::analysis::roots::RuntimeRoots;
use crate::runtimes::api::{RetainedSizes, TypeIndex};
use crate::runtimes::graph::Retained;

/// Retained sizes from the graph that `retained` uses.
pub struct GraphSizes<'a, 'g> {
    pub retained: &'a Retained<'g>,
    pub roots: &'a RuntimeRoots<'a>,
}

impl RetainedSizes for GraphSizes<'_, '_> {
    fn total(&self) -> u64 {
        self.retained.total.size
    }

    fn is_complete(&self) -> bool {
        self.roots.not_read.is_empty()
    }

    fn of(&self, objects: &[Addr]) -> Vec<Option<u64>> {
        let numbers = self.retained.live.numbers_of(objects);
        let live = numbers.into_iter().map(|number| number.filter(|&number| number != 0));
        live.map(|number| number.map(|number| self.retained.bytes(number))).collect()
    }

    fn sum_of(&self, objects: &[Addr]) -> u64 {
        let numbers = self.retained.live.numbers_of(objects);
        let numbers: Vec<u32> = numbers.into_iter().flatten().filter(|&number| number != 0).collect();
        self.retained.bytes_of_all(&numbers)
    }

    fn top(&self, limit: usize, pick: &dyn Fn(Addr, TypeIndex) -> bool) -> Vec<(Addr, u64)> {
        let live = &self.retained.live;
        let numbers = self.retained.top(limit, |number, kind| live.object(number).is_some_and(|at| pick(at, kind)));
        numbers.into_iter().filter_map(|number| Some((live.object(number)?, self.retained.bytes(number)))).collect()
    }
}
