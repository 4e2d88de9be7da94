//! Parses the command line of bash up to the cursor into words without quotes, and quotes the word to insert.

#[derive(Debug, Clone, Copy, PartialEq)]
enum Quote {
    None,
    Single,
    Double,
}

#[derive(Debug)]
pub(super) struct Line {
    /// The last word is being typed. It may be empty.
    pub(super) words: Vec<String>,
    /// The quote that is open at the end.
    open: Quote,
    /// The part of the last word, without quotes, that bash keeps. Bash replaces only the rest.
    kept: String,
}

/// A parsed line.
struct Words {
    /// The last word is being typed. It may be empty.
    words: Vec<String>,
    /// The start of the last word.
    begin: usize,
    /// The quote that is open at the end, and the part of the last word before it.
    open: Quote,
    before_quote: String,
}

fn read(line: &str) -> Words {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let (mut begin, mut before_quote) = (line.len(), String::new());
    let mut open = Quote::None;
    let mut rest = line.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        if word.is_none() {
            begin = at;
        }
        match (open, c) {
            (Quote::None, c) if c.is_whitespace() => words.extend(word.take()),
            (Quote::None, '\'' | '"') => {
                before_quote = word.get_or_insert_default().clone();
                open = if c == '"' {
                    Quote::Double
                } else {
                    Quote::Single
                };
            }
            (Quote::Single, '\'') | (Quote::Double, '"') => open = Quote::None,
            (Quote::None, '\\') => {
                let next = rest.next().map(|(_, c)| c);
                word.get_or_insert_default().extend(next);
            }
            (Quote::Double, '\\') => {
                let escaped = rest.next_if(|(_, c)| matches!(c, '"' | '\\' | '$' | '`'));
                let c = escaped.map_or('\\', |(_, c)| c);
                word.get_or_insert_default().push(c);
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if word.is_none() {
        begin = line.len();
    }
    words.push(word.unwrap_or_default());
    Words {
        words,
        begin,
        open,
        before_quote,
    }
}

/// A word without its quotes.
pub(super) fn unquoted(word: &str) -> String {
    read(word).words.pop().unwrap_or_default()
}

impl Line {
    /// `replaced` is the word at the cursor as bash splits words.
    pub(super) fn read(line: &str, replaced: &str) -> Line {
        let read = read(line);
        let kept = match read.open {
            Quote::None => {
                let word = &line[read.begin..];
                unquoted(word.strip_suffix(replaced).unwrap_or_default())
            }
            _ => read.before_quote,
        };
        Line {
            words: read.words,
            open: read.open,
            kept,
        }
    }

    /// Quotes the value for insertion, so that bash reads the value.
    pub(super) fn as_typed(&self, value: &str) -> String {
        let value = value.strip_prefix(self.kept.as_str()).unwrap_or(value);
        let mut typed = String::new();
        for c in value.chars() {
            match self.open {
                Quote::Single if c == '\'' => typed.push_str("'\\'"),
                Quote::Double if matches!(c, '"' | '\\' | '$' | '`') => typed.push('\\'),
                Quote::None if c.is_ascii() && !is_plain(c) => typed.push('\\'),
                _ => {}
            }
            typed.push(c);
        }
        typed
    }
}

/// Whether a character has no special meaning in bash.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-./,:@%+=".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_without_their_quotes() {
        for (line, expected) in [
            ("", &[""][..]),
            ("h ", &["h", ""]),
            ("h  a b", &["h", "a", "b"]),
            ("h Fix\\ the", &["h", "Fix the"]),
            ("h \"Fix the", &["h", "Fix the"]),
            ("h 'it is", &["h", "it is"]),
            ("h \"a \\\"b\\x", &["h", "a \"b\\x"]),
            ("h ''", &["h", ""]),
            ("h --s=\"Fix t", &["h", "--s=Fix t"]),
            ("h \\", &["h", ""]),
            ("h 'a'\"b\"c d", &["h", "abc", "d"]),
        ] {
            assert_eq!(Line::read(line, "").words, expected, "{line:?}");
        }
    }

    #[test]
    fn what_is_inserted_fits_what_is_typed() {
        for (line, replaced, value, expected) in [
            ("h ", "", "Fix the parser", "Fix\\ the\\ parser"),
            ("h Fix\\ t", "Fix\\ t", "Fix the", "Fix\\ the"),
            (
                "h \"Fix t",
                "Fix t",
                "Fix the $5 \"deal\"",
                "Fix the \\$5 \\\"deal\\\"",
            ),
            ("h 'Fix t", "Fix t", "Fix the it's", "Fix the it'\\''s"),
            ("h --s=Fi", "Fi", "--s=Fix it", "Fix\\ it"),
            ("h --s=\"Fi", "Fi", "--s=Fix it", "Fix it"),
            ("h --s=Fi", "--s=Fi", "--s=Fix", "--s=Fix"),
            ("h a:b", "b", "a:b c", "b\\ c"),
            ("h ", "", "Füße *?", "Füße\\ \\*\\?"),
        ] {
            assert_eq!(
                Line::read(line, replaced).as_typed(value),
                expected,
                "{line:?}"
            );
        }
    }
}
