//! Code, stack frames, and texts with code addresses.

use super::words;

words! {
    /// How a frame was found, surest first.
    #[derive(Default)]
    pub enum Trust {
        /// The thread's registers.
        #[default]
        Context = "context",
        /// Registers that the kernel saved when it called a signal handler.
        Signal = "signal frame",
        /// Unwind data of a module (.eh_frame) or of the runtime (UNWIND_INFO).
        UnwindData = "unwind data",
        /// An explicit Frame of the runtime.
        Frame = "frame",
        /// A frame pointer.
        FramePointer = "frame pointer",
        /// A frame pointer, where the stack below it has another return address: a function without a frame pointer does
        /// not change it, so that the frame before this one may be missing.
        FramePointerGap = "frame pointer, a frame may be missing",
        /// A word on the stack that is an address right after a call.
        Scan = "scan",
    }
}

impl Trust {
    /// Whether the frame is a guess.
    pub fn is_guess(self) -> bool {
        matches!(self, Trust::FramePointer | Trust::FramePointerGap | Trust::Scan)
    }
}

words! {
    /// Kind of stack frame.
    #[derive(Default)]
    pub enum FrameRowKind {
        /// A managed method.
        Managed = "managed",
        /// Code of a module, a stub, or unknown code.
        #[default]
        Native = "native",
        /// A runtime's own marker on the stack.
        Frame = "frame",
    }
}

words! {
    /// How a method runs in a frame, if the frame shows it.
    #[derive(Default)]
    pub enum Execution {
        /// Its bytecode is interpreted.
        #[default]
        Interpreted = "interpreted",
        /// As compiled code.
        Compiled = "compiled",
        /// Inlined into the code of its caller.
        Inlined = "inlined",
        /// As a native function that its frame leads to.
        Native = "native",
    }
}

words! {
    /// A part of a method's code that is not its main one.
    pub enum CodePart {
        /// Rarely executed code, stored elsewhere.
        Cold = "cold",
        /// A block of stubs.
        Stubs = "stubs",
    }
}

words! {
    /// Kind of code.
    #[derive(Default)]
    pub enum CodeKind {
        /// Code of a managed runtime: jitted, ahead-of-time compiled, its stubs.
        Managed = "managed",
        /// Code of a native module.
        Native = "native",
        /// Unknown.
        #[default]
        Unknown = "unknown",
    }
}

words! {
    /// The tool that wrote a text.
    pub enum TextFormat {
        /// `perf script`
        Perf = "perf",
        /// `heaptrack_print`
        Heaptrack = "heaptrack",
        /// memleak of bcc or libbpf
        Memleak = "memleak",
        /// gdb's `backtrace`
        Gdb = "gdb",
        /// Folded stacks, as heaptrack_print's `-F` or stackcollapse write them
        Folded = "folded",
        /// Any other text
        Plain = "plain",
    }
}
