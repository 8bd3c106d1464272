//! Parses a typed line: words, quoted as for a shell, and the destination of the answer.

/// Destination of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Target {
    /// To the terminal.
    #[default]
    Here,
    /// To a new file.
    File(String),
    /// To a command line of the user's shell.
    Pipe(String),
}

/// A parsed line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) words: Vec<String>,
    pub(super) target: Target,
}

impl Line {
    /// Splits a line. Quotes and backslashes work as in a shell; nothing is expanded.
    ///
    /// # Errors
    /// Returns what is wrong with the line.
    pub(super) fn read(text: &str) -> Result<Line, &'static str> {
        let mut line = Line::default();
        let mut word: Option<String> = None;
        let mut quote = None;
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            match (c, quote) {
                (c, Some(open)) if c == open => quote = None,
                ('\\', None | Some('"')) => word.get_or_insert_default().extend(chars.next().map(|(_, c)| c)),
                (c, Some(_)) => word.get_or_insert_default().push(c),
                ('\'' | '"', None) => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                ('|', None) => {
                    let rest = text.get(at + 1..).unwrap_or_default().trim();
                    if rest.is_empty() {
                        return Err("give a command after |, such as less");
                    }
                    line.target = Target::Pipe(rest.to_owned());
                    break;
                }
                ('>', None) => {
                    let rest = Line::read(text.get(at + 1..).unwrap_or_default())?;
                    let [file] = rest.words.as_slice() else { return Err("give one file after >") };
                    if rest.target != Target::Here {
                        return Err("an answer goes to one place: leave out > or |");
                    }
                    line.target = Target::File(file.clone());
                    break;
                }
                (c, None) if c.is_whitespace() => line.words.extend(word.take()),
                (c, None) => word.get_or_insert_default().push(c),
            }
        }
        if quote.is_some() {
            return Err("a quote is not closed");
        }
        line.words.extend(word);
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_by_a_shell() {
        let words = |text| Line::read(text).map(|line| line.words);
        assert_eq!(
            words("heapstat --type '^A B$' --top=5").unwrap_or_default(),
            ["heapstat", "--type", "^A B$", "--top=5"]
        );
        assert_eq!(words(r#"a "b \" c" d\ e ''"#).unwrap_or_default(), ["a", "b \" c", "d e", ""]);
        assert_eq!(words("  ").unwrap_or_default(), Vec::<String>::new());
        assert!(words("search 'x").is_err());
    }

    #[test]
    fn an_answer_goes_to_a_program_or_a_file() {
        let target = |text| Line::read(text).map(|line| (line.words.join(" "), line.target));
        assert_eq!(target("threads | less -S"), Ok(("threads".into(), Target::Pipe("less -S".into()))));
        assert_eq!(target("triage>'my file'"), Ok(("triage".into(), Target::File("my file".into()))));
        assert_eq!(target("search 'a|b'"), Ok(("search a|b".into(), Target::Here)));
        assert!(
            ["threads |", "threads >", "threads > a b", "threads > a | b"].iter().all(|text| target(text).is_err())
        );
    }
}
