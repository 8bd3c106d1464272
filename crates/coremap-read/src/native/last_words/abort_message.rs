//! `__abort_msg` of glibc: the message that glibc wrote to stderr before it called abort.
//!
//! `__libc_message` (sysdeps/posix/libc_fatal.c) and `__assert_fail_base` (assert/assert.c) map a page for the message:
//! `struct abort_msg_s { unsigned int size; char msg[0]; }`. `size` is the length of the mapping.

use crate::addr::Addr;
use crate::bytes;
use crate::image::elf::ElfImage;
use crate::image::{ModuleKind, symbols};
use crate::limits;
use crate::map::Confidence;
use crate::memory::Memory;
use crate::native::libc;
use crate::native::stack_records::Libc;
use crate::process::Process;

/// Private symbol of glibc (GLIBC_PRIVATE) with the address of the message.
const SYMBOL: &str = "__abort_msg";

/// Offset of `msg`, in bytes.
const TEXT: u64 = 4;

/// The message of glibc's abort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbortMessage {
    /// Address of the text.
    pub address: Addr,
    /// The text as written to stderr, without the final line feed.
    pub text: String,
    /// The evidence for the message.
    pub how: &'static str,
    /// `Exact` if the symbol leads to the message.
    pub confidence: Confidence,
}

/// Returns the message of the first glibc that has one.
pub fn abort_message(process: &Process) -> Option<AbortMessage> {
    let images = process.modules.iter().filter_map(|module| match &module.kind {
        ModuleKind::Elf(image) => Some((module, image)),
        ModuleKind::Pe { .. } | ModuleKind::Bundled | ModuleKind::NoHeaders => None,
    });
    let (libcs, others): (Vec<_>, Vec<_>) =
        images.partition(|(module, _)| libc::which(process, module).is_some_and(|(libc, _)| libc == Libc::Glibc));
    // A statically linked program contains the C library itself.
    let is_static = libcs.is_empty();
    let statics = others.into_iter().filter(|(_, image)| is_static && !image.has_interpreter);
    libcs.into_iter().chain(statics).find_map(|(_, image)| of_image(process, image))
}

fn of_image(process: &Process, image: &ElfImage) -> Option<AbortMessage> {
    let memory = &process.memory;
    if let Some(symbol) = symbols::find(memory, image, SYMBOL) {
        let at = memory.ptr(symbol.addr).ok()?;
        let text = message_at(process, at)?;
        return Some(AbortMessage {
            address: at.saturating_add(TEXT),
            text,
            how: "__abort_msg of the C library",
            confidence: Confidence::Exact,
        });
    }
    // Without the symbol table, search its data for a pointer to a mapping of this form.
    for part in image.writable_parts(memory) {
        let Ok(data) = memory.look(part.start, usize::try_from(part.len()).unwrap_or(0)) else { continue };
        let words = (0..data.len()).step_by(8).filter_map(|at| bytes::u64_at(&data, at)).map(Addr::new);
        for at in words.filter(|at| !at.is_null() && at.is_aligned(4096)) {
            if let Some(text) = message_at(process, at) {
                return Some(AbortMessage {
                    address: at.saturating_add(TEXT),
                    text,
                    how: "a mapping in the form of abort_msg_s that the C library's data refers to",
                    confidence: Confidence::Derived,
                });
            }
        }
    }
    None
}

/// Reads the message at `at`. `None` if it does not have the form of one.
fn message_at(process: &Process, at: Addr) -> Option<String> {
    let memory = &process.memory;
    let is_page = !at.is_null() && at.is_aligned(4096) && !process.modules.iter().any(|m| m.range.contains(at));
    let size = u64::from(memory.peek_u32(at).ok().filter(|_| is_page)?);
    if size == 0 || size % 4096 != 0 || size > limits::MAX_ABORT_MESSAGE {
        return None;
    }
    let from = at.checked_add(TEXT)?;
    let have = memory.readable(from, size.checked_sub(TEXT)?);
    let bytes = memory.look(from, usize::try_from(have).ok()?).ok()?;
    let end = memchr::memchr(0, &bytes)?;
    let text = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let line = text.strip_suffix('\n')?;
    let is_text = !line.is_empty() && !line.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
    is_text.then(|| line.to_owned())
}
