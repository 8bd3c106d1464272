//! Thread stacks.

use super::words;

words! {
    /// What a stack is used for.
    #[derive(Default)]
    pub enum StackState {
        /// The first thread's stack; it grows automatically.
        Main = "main",
        /// A live thread.
        Thread = "thread",
        /// The alternate signal stack that a handler runs on (sigaltstack).
        Signal = "signal",
        /// A stack that a thread switched to: of a coroutine, fiber or goroutine.
        Switched = "switched",
        /// Of a fiber that waits (`makecontext`).
        Fiber = "fiber",
        /// Cached by glibc for reuse after its thread ended.
        Cached = "cached",
        /// A copy, made by fork, of a stack of the parent process. Its thread does not run here.
        Inherited = "inherited",
        /// Either cached, or of a thread that is missing from the core's notes. For a thread: its stack was not found.
        #[default]
        Unknown = "unknown",
    }
}

impl StackState {
    /// Whether it is a thread's original stack, or the process's.
    pub fn is_own(self) -> bool {
        matches!(self, StackState::Main | StackState::Thread)
    }
}
