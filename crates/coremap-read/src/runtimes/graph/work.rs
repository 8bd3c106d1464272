//! Counts the steps of graph algorithms, so that tests can compare them with the size of the graph.

/// Counts `steps` steps of this thread. Does nothing outside of unit tests.
#[inline(always)]
pub(super) fn step(steps: usize) {
    #[cfg(test)]
    counter::STEPS.set(counter::STEPS.get() + steps as u64);
    #[cfg(not(test))]
    let _ = steps;
}

/// The result of `run`, and the number of its steps. Everything runs on one thread, because steps are counted by
/// thread.
#[cfg(test)]
pub(super) fn work_of<R: Send>(run: impl FnOnce() -> R + Send) -> (R, u64) {
    let pool = match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
        Ok(pool) => pool,
        Err(e) => panic!("{e}"),
    };
    pool.install(|| {
        let before = counter::STEPS.get();
        let result = run();
        (result, counter::STEPS.get() - before)
    })
}

#[cfg(test)]
mod counter {
    use std::cell::Cell;

    thread_local! {
        pub(super) static STEPS: Cell<u64> = const { Cell::new(0) };
    }
}
