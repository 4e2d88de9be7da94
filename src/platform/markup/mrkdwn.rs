//! Writes Slack's mrkdwn.

use super::lines::{Content, Line, lines};
use super::marks::{self, LEVELS, Mark, Marks, Neighbours, ZERO_WIDTH_SPACE, break_backticks};
use super::styled::{Dialect, Style, StyledText, has_scheme};

const DIALECT: Dialect = Dialect {
    opens: |target, _| has_scheme(target, &["http", "https", "mailto", "tel"]),
    code_in_links: false,
    heading_levels: 0,
};

/// Headings are bold, tables are aligned columns in a block of code. Code in a quote leaves the quote: Slack has none
/// there.
///
/// `&`, `<` and `>` are escaped, so no text can mention a person, a channel or everyone. Slack has no escape for its
/// marks: a text like `*a*`, which the source has escaped, is bold.
pub fn write(text: &StyledText) -> String {
    let runs = text.in_dialect(&DIALECT);
    let lines: Vec<String> = lines(&runs).iter().map(write_line).collect();
    lines.join("\n")
}

fn write_line(line: &Line) -> String {
    match &line.content {
        Content::Code { text, .. } => format!("```\n{}\n```", escape(&break_backticks(text, 2))),
        Content::Text(runs) if line.quotes.is_empty() => marks::write::<Mrkdwn>(runs),
        Content::Text(runs) => format!("> {}", marks::write::<Mrkdwn>(runs)),
    }
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

/// Bars and brackets would end the target.
fn escape_target(target: &str) -> String {
    let target = target.replace('|', "%7C");
    target
        .replace('<', "%3C")
        .replace('>', "%3E")
        .replace('&', "&amp;")
}

struct Mrkdwn;

impl Marks for Mrkdwn {
    /// The label of a link has no marks, so its marks are around the link. Code has no other marks.
    fn marks(style: &Style) -> [Option<Mark<'_>>; LEVELS] {
        let is_text = style.code.is_none();
        let link = style.link.as_ref();
        [
            (style.bold && is_text).then_some(Mark::Bold),
            (style.italic && is_text).then_some(Mark::Italic),
            (style.strikethrough && is_text).then_some(Mark::Strikethrough),
            link.map(|link| Mark::Link(&link.target)),
            style.code.as_ref().map(|_| Mark::Code),
        ]
    }

    fn text(text: &str) -> String {
        escape(text)
    }

    fn wrap(mark: Mark, text: &str, beside: Neighbours) -> String {
        let mark = match mark {
            Mark::Link(target) => return format!("<{}|{text}>", escape_target(target)),
            // There is no way to write a backtick within code.
            Mark::Code if text.contains('`') => return escape(text),
            Mark::Code => return set_apart(&format!("`{}`", escape(text)), beside),
            Mark::Bold => '*',
            Mark::Italic => '_',
            Mark::Strikethrough => '~',
        };
        set_apart(&format!("{mark}{text}{mark}"), beside)
    }
}

/// Slack shows a mark as it is when it is next to a letter or to another mark.
fn set_apart(marked: &str, beside: Neighbours) -> String {
    let space = |beside: Option<char>| match beside {
        Some(c) if is_too_close(c) => ZERO_WIDTH_SPACE.to_string(),
        _ => String::new(),
    };
    space(beside.before) + marked + &space(beside.after)
}

fn is_too_close(c: char) -> bool {
    let is_apart = c.is_whitespace() || c == ZERO_WIDTH_SPACE || c.is_ascii_punctuation();
    !is_apart || "*_~`".contains(c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parse;
    use super::super::samples::{letters, markdownish};
    use super::*;

    #[track_caller]
    fn shows(markdown: &str, expected: &str) {
        assert_eq!(write(&parse(markdown)), expected, "{markdown:?}");
    }

    #[test]
    fn styles_become_marks() {
        shows("**b** *i* ~~s~~ `c`", "*b* _i_ ~s~ `c`");
        shows("***x*** **a *b* c**", "*_x_* *a _b_ c*");
        shows("# A *b*\ntext", "*A _b_*\n\ntext");
        shows("**a `b` c**", "*a* `b` *c*");
        shows("**a\nb**", "*a*\n*b*");
    }

    #[test]
    fn marks_are_kept_apart_from_letters() {
        shows("a**b**c", "a\u{200b}*b*\u{200b}c");
        shows("**字**字", "*字*\u{200b}字");
        shows("(**a**), **b**.", "(*a*), *b*.");
        shows("**a***b*", "*a*\u{200b}_b_");
        shows("**a*b*c**", "*a\u{200b}_b_\u{200b}c*");
        shows("a***b***c", "a\u{200b}*_b_*\u{200b}c");
        shows("`a`b", "`a`\u{200b}b");
        shows("**a**`(b)`", "*a*\u{200b}`(b)`");
    }

    #[test]
    fn nothing_can_mention() {
        shows("a & b", "a &amp; b");
        shows(
            "\\<!channel> <@U123> `<!here>`",
            "&lt;!channel&gt; &lt;@U123&gt; `&lt;!here&gt;`",
        );
        shows("```\n<!everyone>\n```", "```\n&lt;!everyone&gt;\n```");
        shows("[a](!channel) [b](<@U123>)", "a (!channel) b (@U123)");
        shows("[<!here>](https://a)", "<https://a|&lt;!here&gt;>");
        shows("&lt;!channel&gt;", "&lt;!channel&gt;");
    }

    #[test]
    fn links_have_their_label() {
        shows("[a b](https://c?d&e)", "<https://c?d&amp;e|a b>");
        shows("[a **b**](https://c)", "<https://c|a> *<https://c|b>*");
        shows("[`a`](https://b)", "<https://b|a>");
        shows("[a](https://b|c%3E)", "<https://b%7Cc%3E|a>");
        shows("<https://a>", "<https://a|https://a>");
        shows("[a](b.md)", "a (b.md)");
        shows("![a](https://b)", "<https://b|a>");
    }

    #[test]
    fn blocks_are_lines() {
        shows("- a\n  - b\n1. c", "• a\n  ◦ b\n\n1. c");
        shows("> a\n>\n> > **b**\n\nc", "> a\n> \n> *b*\n\nc");
        shows("> ```\n> x\n> ```\n> y", "```\nx\n```\n> \n> y");
        shows("```rs\na < b\n\n  c\n```", "```\na &lt; b\n\n  c\n```");
        shows("|a|b|\n|-|-|\n|c|d|", "```\na │ b\n──┼──\nc │ d\n```");
    }

    #[test]
    fn backticks_do_not_end_code() {
        shows("`` a`b ``", "a`b");
        shows("````\n```\n````", "```\n``\u{200b}`\n```");
    }

    /// The text that Slack shows: the label of each link, and no entities.
    fn shown(mrkdwn: &str) -> String {
        let mut parts = mrkdwn.split('<');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (link, behind) = part.split_once('>').expect("a link that ends");
            let (target, label) = link.split_once('|').expect("a label");
            assert!(!target.starts_with(['!', '@', '#']), "{target}");
            text += label;
            text += behind;
        }
        for line in text.split('\n') {
            let line = line.strip_prefix("> ").unwrap_or(line);
            assert!(!line.contains('>'), "{line:?}");
        }
        let text = text.replace("&lt;", "<").replace("&gt;", ">");
        text.replace("&amp;", "&")
    }

    proptest! {
        #[test]
        fn no_letter_is_lost_and_none_is_a_mention(text in prop_oneof![markdownish(), any::<String>()]) {
            let styled = parse(&text);
            let expected: String = styled.in_dialect(&DIALECT).into_iter().map(|run| run.text).collect();
            prop_assert_eq!(letters(&shown(&write(&styled))), letters(&expected));
        }
    }
}
