//! Makes hidden characters visible: control, format and direction characters, and all spaces but the plain one. A
//! question for approval has to show every character of its subject.

use std::borrow::Cow;

/// The text with codes such as `\x1b` or `\u{202e}` in place of hidden characters. Line ends and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    coded(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'))
}

/// Like [`visible`], but line ends and tabs become codes too.
pub fn visible_line(text: &str) -> Cow<'_, str> {
    coded(text, is_hidden)
}

/// For text of people, who may use joiners, marks and wide spaces. Only control characters, and characters that reorder
/// or break lines, become codes.
pub fn printable(text: &str) -> Cow<'_, str> {
    coded(text, |c| {
        (c.is_control() && !matches!(c, '\n' | '\t')) || steers(c)
    })
}

/// The text as Markdown that shows exactly this text.
pub fn markdown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_punctuation() && !matches!(c, ',' | '.' | ':' | ';' | '?' | '\'' | '"' | '/')
        {
            shown.push('\\');
        }
        shown.push(c);
    }
    shown
}

fn coded(text: &str, is_coded: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_coded) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match u32::from(c) {
            _ if !is_coded(c) => shown.push(c),
            code @ 0..=0xff => shown.push_str(&format!("\\x{code:02x}")),
            code => shown.push_str(&format!("\\u{{{code:x}}}")),
        }
    }
    Cow::Owned(shown)
}

/// Whether the character changes the direction of the text, or begins a line.
fn steers(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

fn is_hidden(c: char) -> bool {
    c.is_control() || (c != ' ' && c.is_whitespace()) || is_format(c)
}

/// Format characters, and others that fonts do not show.
fn is_format(c: char) -> bool {
    matches!(c,
        '\u{ad}'
        | '\u{34f}'
        | '\u{600}'..='\u{605}'
        | '\u{61c}'
        | '\u{6dd}'
        | '\u{70f}'
        | '\u{890}'..='\u{891}'
        | '\u{8e2}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{110bd}'
        | '\u{110cd}'
        | '\u{13430}'..='\u{1345f}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hidden_characters_become_codes_and_all_others_stay() {
        for (text, shown) in [
            ("rm -rf *.o __pycache__", "rm -rf *.o __pycache__"),
            ("ls\u{1b}[2K", "ls\\x1b[2K"),
            ("a\r\n\tb", "a\\x0d\n\tb"),
            ("\u{202e}fdp.exe\u{9b}1A", "\\u{202e}fdp.exe\\x9b1A"),
            ("a\u{200b}b\u{a0}c\u{e0041}", "a\\u{200b}b\\xa0c\\u{e0041}"),
            ("Grüße, 世界", "Grüße, 世界"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!(visible_line("No\n2. Yes"), "No\\x0a2. Yes");
        assert_eq!(printable("👨\u{200d}👩\u{1b}[0m"), "👨\u{200d}👩\\x1b[0m");
        assert_eq!(printable("a\u{2067}b"), "a\\u{2067}b");
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left(text in any::<String>()) {
            prop_assert!(!visible_line(&text).contains(is_hidden));
            prop_assert!(!visible(&text).contains(|c| is_hidden(c) && c != '\n' && c != '\t'));
        }
    }
}
