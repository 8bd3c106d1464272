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

/// Returns the regular expression that matches this name and no other, for options such as `--type`. Names of nested
/// and generic types contain characters with a meaning in regular expressions.
pub fn whole_name(name: &str) -> String {
    format!("^{}$", regex::escape(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_name_matches_itself_only() -> Result<(), regex::Error> {
        for name in ["Loader$ScriptLoader", "List<A.B[]>", "a+b.c", "App.Cache"] {
            let re = regex::Regex::new(&whole_name(name))?;
            let others = [format!("x{name}"), format!("{name}x"), name.replace(['.', '$'], "x")];
            assert!(re.is_match(name) && !others.iter().any(|other| re.is_match(other)), "{name}");
        }
        Ok(())
    }

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
