//! Makes text of strangers and agents safe for a terminal. Characters that control the terminal, or reverse the
//! direction of the text, become visible symbols. Our own styles are marked with a random number, so that no text can
//! fake them.

use std::fmt::Write;
use std::sync::LazyLock;

use anstyle::Style;

/// They enclose the code of a style. Both are noncharacters of Unicode, which no text contains.
const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';
const ESCAPE: char = '\u{1b}';

/// The beginning of our own styles. It differs in each process.
static MARK: LazyLock<String> = LazyLock::new(|| format!("{OPEN}{:032x}", fastrand::u128(..)));

/// Text in a style. [`visible`] converts the marks to the codes of the terminal.
pub(super) fn styled(style: Style, text: &str) -> String {
    let mark = |codes: String| {
        let codes = codes.split(ESCAPE).filter(|code| !code.is_empty());
        codes.fold(String::new(), |mut marked, code| {
            let code = code.trim_start_matches('[').trim_end_matches('m');
            let _ = write!(marked, "{}{code}{CLOSE}", *MARK);
            marked
        })
    };
    let (begin, end) = (
        mark(style.render().to_string()),
        mark(style.render_reset().to_string()),
    );
    format!("{begin}{text}{end}")
}

/// Makes all characters visible that control a terminal, except line ends and tabs.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(style) = rest.strip_prefix(MARK.as_str())
            && let Some((code, behind)) = style.split_once(CLOSE)
        {
            let _ = write!(shown, "{ESCAPE}[{code}m");
            rest = behind;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\n' | '\t' => shown.push(c),
            '\r' if rest.starts_with('\n') => {}
            c if !steers(c) => shown.push(c),
            '\0'..='\u{1f}' => shown.extend(char::from_u32(0x2400 + u32::from(c))),
            '\u{7f}' => shown.push('\u{2421}'),
            c => {
                let _ = write!(shown, "<U+{:04X}>", u32::from(c));
            }
        }
    }
    shown
}

/// Like [`visible`], in one line.
pub(super) fn in_one_line(text: &str) -> String {
    visible(text).replace(['\n', '\t'], " ")
}

/// Escapes all characters in the strings of JSON that control a terminal. The value does not change.
pub(super) fn escaped(json: &str) -> String {
    if !json.contains(|c| steers(c) && c != '\n') {
        return json.to_owned();
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => escaped.push(c),
            c if steers(c) => {
                // All of these characters fit into four digits.
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// Whether a character controls a terminal or reverses the direction of text.
pub(super) fn steers(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        )
        || matches!(c, '\u{2066}'..='\u{206f}' | '\u{fdd0}'..='\u{fdef}')
}

#[cfg(test)]
mod tests {
    use anstyle::AnsiColor;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown_as_a_sign() {
        for (text, expected) in [
            ("plain, Ünïcödé, 👍🏽, 日本", "plain, Ünïcödé, 👍🏽, 日本"),
            ("a\tb\nc\r\nd", "a\tb\nc\nd"),
            ("over\rwritten", "over␍written"),
            ("\u{1b}[2Kgone", "␛[2Kgone"),
            ("\u{7}\u{8}\u{7f}\0", "␇␈␡␀"),
            ("\u{9b}2K", "<U+009B>2K"),
            ("\u{202e}txt.exe", "<U+202E>txt.exe"),
            ("\u{fdd0}1\u{fdd1}", "<U+FDD0>1<U+FDD1>"),
        ] {
            assert_eq!(visible(text), expected, "{text:?}");
        }
        assert_eq!(in_one_line("a\nb\u{1b}"), "a b␛");
    }

    #[test]
    fn a_style_of_ours_reaches_the_terminal() {
        let style = AnsiColor::Green.on_default().bold();
        let text = visible(&styled(style, "good \u{1b}[31mbad"));
        assert_eq!(text, format!("{style}good ␛[31mbad{style:#}"));
        assert_eq!(visible(&styled(Style::new(), "plain")), "plain");
    }

    #[test]
    fn json_says_the_same_when_it_is_escaped() {
        let value = serde_json::json!({"a\u{9b}": "\u{202e}\u{1b}\u{7f} ü"});
        let json = escaped(&value.to_string());
        assert!(json.contains("\\u202e"), "{json}");
        assert!(!json.contains(steers));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&json).unwrap(),
            value
        );
    }

    proptest! {
        #[test]
        fn nothing_steers_the_terminal(text in "(?s).*") {
            prop_assert!(!visible(&text).contains(|c| steers(c) && !matches!(c, '\n' | '\t')));
            prop_assert!(!in_one_line(&text).contains(steers));
        }
    }
}
