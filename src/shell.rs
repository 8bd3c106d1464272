//! Quoting for a POSIX shell's command line.

/// Quotes `word` for a shell, with single quotes if it needs any.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_if_a_shell_would_change_them() {
        for plain in ["/var/core.1234", "--sort=size", "a,b", "é"] {
            assert_eq!(quoted(plain), plain);
        }
        for (word, expected) in [("my core", "'my core'"), ("it's", r"'it'\''s'"), ("", "''"), ("$x", "'$x'")] {
            assert_eq!(quoted(word), expected);
        }
    }
}
