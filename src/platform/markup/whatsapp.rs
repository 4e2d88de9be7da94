//! Writes the format of WhatsApp messages.

use super::lines::{Content, Line, lines};
use super::marks::{self, LEVELS, Mark, Marks, Neighbours, ZERO_WIDTH_SPACE, break_backticks};
use super::styled::{Dialect, Style, StyledText};

const DIALECT: Dialect = Dialect {
    opens: |_, _| false,
    code_in_links: true,
    heading_levels: 0,
};

/// Headings are bold, links are `label (target)`, tables are aligned columns in a block of code. Code in a quote leaves
/// the quote. WhatsApp has no escape for its marks: a text like `*a*`, which the source has escaped, is bold.
pub fn write(text: &StyledText) -> String {
    let runs = text.in_dialect(&DIALECT);
    let lines: Vec<String> = lines(&runs).iter().map(write_line).collect();
    lines.join("\n")
}

fn write_line(line: &Line) -> String {
    match &line.content {
        Content::Code { text, .. } => monospace(text),
        Content::Text(runs) if line.quotes.is_empty() => marks::write::<WhatsApp>(runs),
        Content::Text(runs) => format!("> {}", marks::write::<WhatsApp>(runs)),
    }
}

fn monospace(code: &str) -> String {
    let space = |is_backtick: bool| match is_backtick {
        true => ZERO_WIDTH_SPACE.to_string(),
        false => String::new(),
    };
    let [start, end] = [code.starts_with('`'), code.ends_with('`')].map(space);
    format!("```{start}{}{end}```", break_backticks(code, 2))
}

struct WhatsApp;

impl Marks for WhatsApp {
    /// Code has no other marks.
    fn marks(style: &Style) -> [Option<Mark<'_>>; LEVELS] {
        let is_text = style.code.is_none();
        [
            (style.bold && is_text).then_some(Mark::Bold),
            (style.italic && is_text).then_some(Mark::Italic),
            (style.strikethrough && is_text).then_some(Mark::Strikethrough),
            None,
            style.code.as_ref().map(|_| Mark::Code),
        ]
    }

    fn text(text: &str) -> String {
        text.to_owned()
    }

    /// WhatsApp shows a mark as it is when it is next to a letter or to another mark, so there the text stays plain.
    fn wrap(mark: Mark, text: &str, beside: Neighbours) -> String {
        let mark = match mark {
            _ if beside.any(|c| c.is_alphanumeric() || "*_~`".contains(c)) => "",
            Mark::Bold => "*",
            Mark::Italic => "_",
            Mark::Strikethrough => "~",
            Mark::Code if text.contains('`') => return monospace(text),
            Mark::Code => "`",
            Mark::Link(_) => "",
        };
        format!("{mark}{text}{mark}")
    }
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
    fn marks_within_a_word_are_left_out() {
        shows("a**b**c **d**", "abc *d*");
        shows("(**a**), **b**.", "(*a*), *b*.");
        shows("**a***b*", "ab");
        shows("**a**`(b)`", "*a*(b)");
    }

    #[test]
    fn links_show_where_they_lead() {
        shows("[a b](https://c)", "a b (https://c)");
        shows("[**a**](https://c)", "*a* (https://c)");
        shows("**[a](https://c)**", "*a (https://c)*");
        shows("<https://a> <b@c.d>", "https://a b@c.d");
        shows("![a](https://b)", "a (https://b)");
    }

    #[test]
    fn blocks_are_lines() {
        shows("- a\n  - b\n1. c", "• a\n  ◦ b\n\n1. c");
        shows("> a\n>\n> > b\n\nc", "> a\n> \n> b\n\nc");
        shows("> ```\n> x\n> ```\n> y", "```x```\n> \n> y");
        shows("```rs\na < b\n\n  c\n```", "```a < b\n\n  c```");
        shows("|a|b|\n|-|-|\n|c|d|", "```a │ b\n──┼──\nc │ d```");
    }

    #[test]
    fn backticks_do_not_end_code() {
        shows("`` a`b ``", "```a`b```");
        shows("````\n```\n````", "```\u{200b}``\u{200b}`\u{200b}```");
    }

    proptest! {
        #[test]
        fn no_letter_is_lost(text in prop_oneof![markdownish(), any::<String>()]) {
            let styled = parse(&text);
            let expected: String = styled.in_dialect(&DIALECT).into_iter().map(|run| run.text).collect();
            prop_assert_eq!(letters(&write(&styled)), letters(&expected));
        }
    }
}
