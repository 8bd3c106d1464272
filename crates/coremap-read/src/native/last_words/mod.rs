//! Texts and objects that a native process leaves when it ends itself.
//!
//! | file | contents |
//! |---|---|
//! | `abort_message` | the message of glibc's abort: failed checks of malloc, assert, fortify, the stack protector |
//! | `cxx_exception` | the C++ exception that a thread handles |
//! | `stack_text` | messages that remain on a stack: Rust's panics, musl's assert |
//! | `operand` | the memory operand of an instruction |

mod abort_message;
mod cxx_exception;
mod operand;
mod stack_text;

pub use abort_message::abort_message;
pub use cxx_exception::{CxxException, class_name, cxx_exception};
pub use operand::operand;
pub use stack_text::{StackText, StackTextKind, stack_texts};
