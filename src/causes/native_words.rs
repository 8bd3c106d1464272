//! The end of a native process, from data that it left: message, exception, panic, fault and damaged block.

use crate::causes::last_words::NULL_PAGE;
use crate::report::{InvolvedBlockRow, LastWordsRow, OperandRow};
use crate::units::count;
use crate::words::{BlockRole, FaultCause, LastWordsKind};

/// Returns id and sentence of the finding on such an end. `None` if these data say no more than the signal. `thread`:
/// the thread and where it was. `signal`: the signal's name.
pub(super) fn finding(words: &LastWordsRow, signal: &str, thread: &str) -> Option<(&'static str, String)> {
    let aborted = format!("The process aborted ({signal}).");
    let said = said(words);
    let at = words.position.as_ref().map_or_else(String::new, |position| format!(" at {position}"));
    let mut id = "crash";
    let text = match words.kind {
        LastWordsKind::Requested | LastWordsKind::Abort if words.text.is_none() => return None,
        LastWordsKind::Requested | LastWordsKind::Signal => return None,
        LastWordsKind::Fault => fault(words, signal, thread),
        LastWordsKind::StackOverflow => {
            id = "stack-overflow";
            let at = words.address.map_or_else(String::new, |at| format!(" at {at}"));
            format!("Stack overflow: thread {thread} used up its stack ({signal}{at}).")
        }
        LastWordsKind::Assert => format!("Failed assert{said} in thread {thread}{at}. {aborted}"),
        LastWordsKind::Malloc => format!("malloc found damage{said} in thread {thread}. {aborted}"),
        LastWordsKind::Fortify => format!("A check of the C library failed{said} in thread {thread}. {aborted}"),
        LastWordsKind::Exception if words.private => {
            format!("Abort while an exception {} was handled{said}, in thread {thread}. {aborted}", kind(words))
        }
        LastWordsKind::Exception => {
            format!(
                "Uncaught exception {}{said} in thread {thread}. std::terminate ended the process ({signal}).",
                kind(words)
            )
        }
        LastWordsKind::Panic => {
            let name = words.thread_name.as_ref().filter(|name| !thread.starts_with(name.as_str()));
            let name = name.map_or_else(String::new, |name| format!("'{name}' "));
            format!("Panic{said}{at} in thread {name}{thread}. {aborted}")
        }
        LastWordsKind::OutOfMemory => {
            id = "out-of-memory";
            format!("Out of memory{said}: thread {thread} failed to allocate. {aborted}")
        }
        LastWordsKind::Abort => format!("The process aborted ({signal}){said} in thread {thread}."),
    };
    let blocks: String = words.blocks.iter().map(|found| format!(" {}", block(found))).collect();
    Some((id, text + &blocks))
}

/// Returns the message, if it may be shown.
fn said(words: &LastWordsRow) -> String {
    match (&words.text, words.private) {
        (Some(text), _) => format!(": \"{}\"", text.trim_end()),
        (None, true) => ", whose text --show-data shows".to_owned(),
        (None, false) => String::new(),
    }
}

fn kind(words: &LastWordsRow) -> &str {
    words.r#type.as_deref().unwrap_or("of C++ (its type name is not in the core)")
}

fn fault(words: &LastWordsRow, signal: &str, thread: &str) -> String {
    let at = words.address.map_or_else(String::new, |at| format!(" at {at}"));
    let cause = match words.cause {
        Some(FaultCause::Null) if words.address.is_some_and(|at| at.is_null()) => ", a null pointer",
        Some(FaultCause::Null) => ", a null pointer plus an offset",
        Some(FaultCause::NotCanonical) => ", through a value that is no address",
        Some(FaultCause::FreedBlock) => ", through a block that was freed (use after free)",
        Some(FaultCause::Tag) => {
            ", a tag check failed: the pointer's tag is not that of the memory (overflow, or use after free)"
        }
        Some(FaultCause::StackGuard) => ", in the guard of a stack",
        Some(FaultCause::NotCode) if words.address.is_some_and(|at| at.get() < NULL_PAGE) => {
            ", a call through a null pointer"
        }
        Some(FaultCause::NotCode) => ", a call or jump to what is no code",
        Some(FaultCause::ReadOnly) => ", a write to memory that must only be read",
        Some(FaultCause::Unmapped) => ", where no memory is mapped",
        Some(FaultCause::Refused) | None => "",
    };
    let operand = words.operand.as_ref().map_or_else(String::new, operand);
    format!("{signal}{at}{cause}: thread {thread}.{operand}")
}

fn operand(operand: &OperandRow) -> String {
    let text = operand.text.as_ref().map_or_else(String::new, |text| format!(", the text \"{text}\""));
    let plus = match operand.displacement {
        0 => String::new(),
        bytes if bytes < 0 => format!(", used with offset -{:#x}", bytes.unsigned_abs()),
        bytes => format!(", used with offset {bytes:#x}"),
    };
    format!(" Register {} is {}{text}{plus}.", operand.register, operand.value)
}

/// Describes a block in a sentence.
fn block(found: &InvolvedBlockRow) -> String {
    let size = found.size.map_or_else(String::new, |size| format!(" of {}", count(size, "byte")));
    let text = found.text.as_ref().map_or_else(String::new, |text| format!(" (text \"{text}\")"));
    let over = found
        .overrun
        .map_or_else(String::new, |over| format!("; its text goes on {} past its end", count(over, "byte")));
    let block = format!("block {}{size}{text}", found.address);
    match found.role {
        BlockRole::Damaged => format!("The header of {block} was overwritten."),
        BlockRole::Before => {
            format!("The {block} ends before the damage{over}: a write past its end is the likely cause.")
        }
        BlockRole::After => format!("The next intact {block}."),
        BlockRole::Freed => format!("The {block} was already free."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Addr;
    use crate::map::Confidence;

    fn text(words: &LastWordsRow) -> Option<String> {
        finding(words, "SIGABRT", "lane (7) in scan").map(|(_, text)| text)
    }

    #[test]
    fn damage_names_the_message_the_function_and_the_block() {
        let before = InvolvedBlockRow {
            role: BlockRole::Before,
            address: Addr::new(0x10),
            size: Some(24),
            used: Some(true),
            text: Some("collecto".into()),
            overrun: Some(30),
            confidence: Confidence::Derived,
        };
        let message = Some("free(): invalid size".to_owned());
        let words = LastWordsRow {
            kind: LastWordsKind::Malloc,
            text: message,
            blocks: vec![before],
            ..LastWordsRow::default()
        };
        let wanted = "malloc found damage: \"free(): invalid size\" in thread lane (7) in scan. The process aborted \
                      (SIGABRT). The block 0x10 of 24 bytes (text \"collecto\") ends before the damage; its text goes on \
                      30 bytes past its end: a write past its end is the likely cause.";
        assert_eq!(text(&words).as_deref(), Some(wanted));
    }

    #[test]
    fn what_the_process_did_not_print_is_hidden_and_a_request_is_no_crash() {
        let words = LastWordsRow {
            kind: LastWordsKind::Exception,
            private: true,
            text: Some("card 4711".into()),
            r#type: Some("till::Missing".into()),
            ..LastWordsRow::default()
        };
        let hidden = text(&words.clone().shown(false)).unwrap_or_default();
        assert!(hidden.contains("till::Missing") && !hidden.contains("4711"), "{hidden}");
        assert!(text(&words.shown(true)).is_some_and(|text| text.contains("card 4711")));
        let requested = LastWordsRow { kind: LastWordsKind::Requested, ..LastWordsRow::default() };
        assert_eq!(text(&requested), None);
    }
}
