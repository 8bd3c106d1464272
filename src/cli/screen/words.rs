//! coremap commands as lists of words, and as shell command lines.

use coremap::program::quoted;

/// Splits a line into words like a POSIX shell, but without variables and patterns.
pub(super) fn parted(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' => words.extend(word.take()),
            '\'' => word.get_or_insert_default().extend(chars.by_ref().take_while(|&c| c != '\'')),
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Words of a finding's command, without the program and the core.
pub(super) fn of_finding(command: &str) -> Option<Vec<String>> {
    let mut words = parted(command);
    words.pop()?;
    (words.len() > 1).then(|| words.split_off(1))
}

/// The command line to type.
pub(super) fn line(words: &[String], core: &str) -> String {
    let all = words.iter().map(String::as_str).chain([core]);
    all.fold("coremap".to_owned(), |line, word| format!("{line} {}", quoted(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_parted_as_a_shell_does() {
        let words = parted(r"coremap gcroot --type '^A''s $' 'it'\''s core'  ''");
        assert_eq!(words, ["coremap", "gcroot", "--type", "^As $", "it's core", ""]);
        assert_eq!(parted("  "), [""; 0]);
        for word in ["/var/core.1", "my core", "it's", "", "a\\b", "$(rm)", "é"] {
            assert_eq!(parted(&quoted(word)), [word]);
        }
    }

    #[test]
    fn the_command_of_a_finding_is_without_program_and_core() {
        let words = of_finding("coremap stacks --zero-fill 'my core'").unwrap_or_default();
        assert_eq!(words, ["stacks", "--zero-fill"]);
        assert_eq!(line(&words, "my core"), "coremap stacks --zero-fill 'my core'");
        assert_eq!(of_finding("coremap core"), None);
    }
}
