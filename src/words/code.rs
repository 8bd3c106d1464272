//! Code, frames of stacks, and texts with addresses of code.

use super::words;

words! {
    /// How a frame was found, surest first.
    #[derive(Default)]
    pub enum Trust {
        /// The thread's own registers.
        #[default]
        Context = "context",
        /// What the kernel kept of it when it called a signal handler.
        Signal = "signal frame",
        /// By unwind data: of a module (.eh_frame) or of the runtime (UNWIND_INFO).
        UnwindData = "unwind data",
        /// By one of the runtime's explicit Frames.
        Frame = "frame",
        /// By a frame pointer.
        FramePointer = "frame pointer",
        /// A word on the stack that is an address right after a call.
        Scan = "scan",
    }
}

impl Trust {
    /// Whether nothing but a likeness led to the frame.
    pub fn is_guess(self) -> bool {
        matches!(self, Trust::FramePointer | Trust::Scan)
    }
}

words! {
    /// What a frame of a stack is of.
    #[derive(Default)]
    pub enum FrameRowKind {
        /// A managed method.
        Managed = "managed",
        /// Code of a module, a stub, or nothing known.
        #[default]
        Native = "native",
        /// A runtime's own mark on the stack.
        Frame = "frame",
    }
}

words! {
    /// How a method runs in a frame, where the frame itself tells that.
    #[derive(Default)]
    pub enum Execution {
        /// Instruction by instruction of its bytecode.
        #[default]
        Interpreted = "interpreted",
        /// As code that was made of it.
        Compiled = "compiled",
        /// Within the code of a method that called it.
        Inlined = "inlined",
        /// It is native, and its frame leads to the native function.
        Native = "native",
    }
}

words! {
    /// A part of a method's code that is not its main one.
    pub enum CodePart {
        /// What seldom runs, and lies elsewhere.
        Cold = "cold",
        /// A block of stubs.
        Stubs = "stubs",
    }
}

words! {
    /// What kind of code a name stands for.
    #[derive(Default)]
    pub enum CodeKind {
        /// Code of a managed runtime: jitted, ahead-of-time compiled, its stubs.
        Managed = "managed",
        /// Code of a native module.
        Native = "native",
        /// Not known.
        #[default]
        Unknown = "unknown",
    }
}

words! {
    /// Which tool wrote a text.
    pub enum TextFormat {
        /// `perf script`
        Perf = "perf",
        /// `heaptrack_print`
        Heaptrack = "heaptrack",
        /// memleak, bcc's or libbpf's
        Memleak = "memleak",
        /// gdb's `backtrace`
        Gdb = "gdb",
        /// Folded stacks, as heaptrack_print's `-F` or stackcollapse write them
        Folded = "folded",
        /// Any other
        Plain = "plain",
    }
}
