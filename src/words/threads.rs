//! Stacks of threads.

use super::words;

words! {
    /// What a stack is used for.
    #[derive(Default)]
    pub enum StackState {
        /// Of the process's first thread; grows down by itself.
        Main = "main",
        /// Of a live thread.
        Thread = "thread",
        /// The alternate signal stack that a handler runs on (sigaltstack).
        Signal = "signal",
        /// One that a thread switched to: a coroutine's, a fiber's, a goroutine's.
        Switched = "switched",
        /// Kept by glibc for reuse after its thread ended.
        Cached = "cached",
        /// Of a thread that the core's notes lack, or kept for reuse: threads are missing
        /// there, so that nothing tells which. Of a thread: its stack was not found.
        #[default]
        Unknown = "unknown",
    }
}

impl StackState {
    /// Whether it is the stack that a thread was made with, or that of the process.
    pub fn is_own(self) -> bool {
        matches!(self, StackState::Main | StackState::Thread)
    }
}
