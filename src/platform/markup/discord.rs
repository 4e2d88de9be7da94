//! Writes Discord's own Markdown.

use super::lines::{Content, Line, lines};
use super::marks::{self, LEVELS, Mark, Marks, Neighbours, break_backticks};
use super::styled::{Dialect, Run, Style, StyledText, has_scheme};

const DIALECT: Dialect = Dialect {
    opens: can_mask,
    code_in_links: true,
    heading_levels: 3,
};

/// Headings deeper than the third level are bold, tables are aligned columns in a block of code, images are links. Text
/// that Discord would read as formatting is escaped. Mentions stay: `allowed_mentions` of the message decides about
/// them.
pub fn write(text: &StyledText) -> String {
    let runs = text.in_dialect(&DIALECT);
    let lines: Vec<String> = lines(&runs).iter().map(write_line).collect();
    lines.join("\n")
}

/// Discord shows no link whose label looks like an address or has brackets that do not match.
fn can_mask(target: &str, label: &str) -> bool {
    let is_plain = !label.contains("://") && !label.contains("](");
    has_scheme(target, &["http", "https"]) && is_plain && label.lines().all(has_matching_brackets)
}

fn has_matching_brackets(text: &str) -> bool {
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '[' => depth += 1,
            ']' if depth == 0 => return false,
            ']' => depth -= 1,
            _ => {}
        }
    }
    depth == 0
}

fn write_line(line: &Line) -> String {
    let text = match &line.content {
        Content::Code { language, text } => write_code(*language, text),
        Content::Text(runs) => write_text(runs),
    };
    match line.quotes.is_empty() {
        true => text,
        false => format!("> {}", text.replace('\n', "\n> ")),
    }
}

fn write_code(language: Option<&str>, text: &str) -> String {
    let is_known = |language: &&str| language.is_ascii();
    let language = language.filter(is_known).unwrap_or_default();
    format!("```{language}\n{}\n```", break_backticks(text, 2))
}

/// A heading that does not begin its line is bold.
fn write_text(runs: &[Run]) -> String {
    let marker = runs.iter().position(|run| run.style.list_marker);
    let (lead, rest) = runs.split_at(marker.map_or(0, |at| at + 1));
    let lead: String = lead.iter().map(|run| bullet(&run.text)).collect();
    let heading = rest.first().and_then(|run| run.style.heading);
    if let Some(level) = heading.filter(|_| lead.is_empty()) {
        let marks = "#".repeat(level.into());
        return format!("{marks} {}", escape_start(marks::write::<Discord>(rest)));
    }
    let mut rest = rest.to_vec();
    for run in &mut rest {
        run.style.bold |= run.style.heading.is_some();
    }
    lead + &escape_start(marks::write::<Discord>(&rest))
}

/// Discord has lists of its own, but no items without text.
fn bullet(marker: &str) -> &str {
    match marker {
        "• " | "◦ " => "- ",
        other => other,
    }
}

struct Discord;

impl Marks for Discord {
    fn marks(style: &Style) -> [Option<Mark<'_>>; LEVELS] {
        let link = style.link.as_ref();
        [
            link.map(|link| Mark::Link(&link.target)),
            style.bold.then_some(Mark::Bold),
            style.italic.then_some(Mark::Italic),
            style.strikethrough.then_some(Mark::Strikethrough),
            style.code.as_ref().map(|_| Mark::Code),
        ]
    }

    fn text(text: &str) -> String {
        escape(text)
    }

    fn wrap(mark: Mark, text: &str, beside: Neighbours) -> String {
        match mark {
            Mark::Link(target) => format!("[{text}]({})", escape_target(target)),
            Mark::Bold => format!("**{text}**"),
            Mark::Strikethrough => format!("~~{text}~~"),
            // An underscore does not end within a word.
            Mark::Italic if beside.any(is_word) || text.contains('_') => format!("*{text}*"),
            Mark::Italic => format!("_{text}_"),
            Mark::Code => write_inline_code(text),
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Three backticks would begin a block.
fn write_inline_code(code: &str) -> String {
    if !code.contains('`') {
        return format!("`{code}`");
    }
    let space = |is_backtick: bool| if is_backtick { " " } else { "" };
    let [start, end] = [code.starts_with('`'), code.ends_with('`')].map(space);
    format!("``{start}{}{end}``", break_backticks(code, 1))
}

fn escape_target(target: &str) -> String {
    let mut out = String::new();
    for c in target.chars() {
        match c {
            '(' => out.push_str("%28"),
            ')' => out.push_str("%29"),
            '<' => out.push_str("%3C"),
            '>' => out.push_str("%3E"),
            '\\' => out.push_str("%5C"),
            c if c.is_whitespace() => out.push_str("%20"),
            c => out.push(c),
        }
    }
    out
}

/// The address of a web page stays unescaped. Discord makes it a link, and would include a backslash in it.
fn escape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let mut before = None;
    while let Some(c) = rest.chars().next() {
        let address = address_at_start(rest);
        if !address.is_empty() {
            out.push_str(address);
            before = address.chars().next_back();
            rest = &rest[address.len()..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        let after = rest.chars().next();
        let has_same_beside = before == Some(c) || after == Some(c);
        let is_within_word = [before, after].iter().all(|c| c.is_some_and(is_word));
        let is_mark = match c {
            '\\' | '*' | '`' | '[' => true,
            '~' | '|' => has_same_beside,
            '_' => !is_within_word || has_same_beside,
            // Mentions stay.
            '<' => !matches!(after, Some('@' | '#')),
            _ => false,
        };
        if is_mark {
            out.push('\\');
        }
        out.push(c);
        before = Some(c);
    }
    out
}

fn address_at_start(text: &str) -> &str {
    let scheme = ["http://", "https://"]
        .into_iter()
        .find(|s| text.starts_with(s));
    let is_end = |c: char| c.is_whitespace() || "<>[]*`|\\".contains(c);
    let end = text.find(is_end).unwrap_or(text.len());
    if scheme.is_some() { &text[..end] } else { "" }
}

/// Escapes a mark at the start of a line that begins a heading, a list, a quote or small text.
fn escape_start(mut line: String) -> String {
    let indent = line.len() - line.trim_start().len();
    let text = &line[indent..];
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let behind = |at: usize| text[at..].chars().next();
    let mark = match behind(digits) {
        Some('.') if digits > 0 => Some(digits),
        Some('>') if digits == 0 => Some(0),
        Some('#' | '-' | '+') if digits == 0 => {
            let next = behind(1);
            next.is_none_or(|c| c == '#' || c.is_whitespace())
                .then_some(0)
        }
        _ => None,
    };
    if let Some(mark) = mark {
        line.insert(indent + mark, '\\');
    }
    line
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
        shows("**b** *i* ~~s~~ `c`", "**b** _i_ ~~s~~ `c`");
        shows("***x*** **a *b* c**", "**_x_** **a _b_ c**");
        shows("**a `b` c**", "**a `b` c**");
        shows("a*b*c *a\\_b*", "a*b*c *a_b*");
        shows("**a\nb**", "**a**\n**b**");
    }

    #[test]
    fn three_levels_of_headings_are_known() {
        shows(
            "# A *b*\n## C\n### D **e**",
            "# A _b_\n\n## C\n\n### D **e**",
        );
        shows("#### A *b*", "**A _b_**");
        shows("- # a", "- **a**");
        shows("> # a", "> # a");
        shows("a\nb\n===", "# a\n# b");
    }

    #[test]
    fn lists_are_discords() {
        shows("* a\n  * b\n* c", "- a\n  - b\n- c");
        shows("7. a\n   - b\n1. c", "7. a\n  - b\n8. c");
        shows("- [ ] a\n- [x] b", "☐ a\n☑ b");
        shows("- - a", "•\n  - a");
        shows("- 1\\. a", "- 1\\. a");
    }

    #[test]
    fn text_is_not_read_as_formatting() {
        shows(r"\*a\* \_b\_ \`c\` \[d](e)", r"\*a\* \_b\_ \`c\` \[d](e)");
        shows("snake_case __init__ _a", "snake_case **init** \\_a");
        shows(r"a\_\_b || c | d ~ e \~~f", r"a\_\_b \|\| c | d ~ e \~\~f");
        shows(r"C:\\dir \\_", r"C:\\dir \\\_");
        shows("a <t:0> <:b:1> <div>", r"a \<t:0> \<:b:1> \<div>");
        shows(r"\# a", r"\# a");
        shows(r"\#a \-b", "#a -b");
        shows(
            "\\- a\n\\> b\n1\\. c\n\\-# d\n-1",
            "\\- a\n\\> b\n1\\. c\n\\-# d\n-1",
        );
    }

    #[test]
    fn mentions_stay() {
        shows(
            r"\<@123> \<@&4> \<#5> @everyone",
            "<@123> <@&4> <#5> @everyone",
        );
    }

    #[test]
    fn links_are_masked() {
        shows("[a *b*](https://c_d)", "[a _b_](https://c_d)");
        shows("[[1]](https://a)", r"[\[1]](https://a)");
        shows("[a](<https://b(c) d>)", "[a](https://b%28c%29%20d)");
        shows("[a](b.md) [c](tg://d)", "a (b.md) c (tg://d)");
        shows("<https://a_b_> https://c__d", "https://a_b_ https://c__d");
        shows("[https://a](https://b)", "https://a (https://b)");
        shows("[a\\[](https://b)", r"a\[ (https://b)");
        shows(r"[\[a\](b)](https://c)", r"\[a](b) (https://c)");
        shows("![a](https://b)", "[a](https://b)");
    }

    #[test]
    fn code_is_code() {
        shows("```rs\n*a*\n\n  b\n```\nc", "```rs\n*a*\n\n  b\n```\n\nc");
        shows("```é\na\n```", "```\na\n```");
        shows("````\n```\n````", "```\n``\u{200b}`\n```");
        shows("`` a`b `` `` ` ``", "``a`b`` `` ` ``");
        shows("``` a``b ```", "``a`\u{200b}`b``");
        shows("|a|b|\n|-|-|\n|c|d|", "```\na │ b\n──┼──\nc │ d\n```");
    }

    #[test]
    fn quotes_are_flat() {
        shows("> a\n>\n> > b\n\nc", "> a\n> \n> b\n\nc");
        shows("> ```\n> x\n> y\n> ```", "> ```\n> x\n> y\n> ```");
    }

    /// The text that Discord shows: no escapes, no languages, only the labels of links.
    fn shown(discord: &str) -> String {
        let mut out = String::new();
        let mut in_code = false;
        for line in discord.split('\n') {
            let line = line.strip_prefix("> ").unwrap_or(line);
            if line.starts_with("```") {
                in_code = !in_code;
            } else if in_code {
                out += line;
            } else {
                show_line(line, &mut out);
            }
        }
        assert!(!in_code, "code that ends");
        out
    }

    fn show_line(line: &str, out: &mut String) {
        let mut rest = line;
        let mut in_link = false;
        while let Some(c) = rest.chars().next() {
            let run = rest.len() - rest.trim_start_matches('`').len();
            if c == '\\' {
                let next = rest[1..].chars().next().expect("an escaped character");
                assert!(next.is_ascii_punctuation(), "{line}");
                out.push(next);
                rest = &rest[2..];
            } else if run > 0 {
                assert!(run < 3, "{line}");
                let (code, behind) = rest[run..]
                    .split_once(&rest[..run])
                    .expect("code that ends");
                *out += code;
                rest = behind;
            } else if in_link && rest.starts_with("](") {
                let (target, behind) = rest[2..].split_once(')').expect("a target that ends");
                assert!(!target.contains(char::is_whitespace), "{target}");
                in_link = false;
                rest = behind;
            } else {
                assert!(c != '[' || !in_link, "{line}");
                in_link |= c == '[';
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        assert!(!in_link, "a link that ends");
    }

    proptest! {
        #[test]
        fn no_letter_is_lost(text in prop_oneof![markdownish(), any::<String>()]) {
            let styled = parse(&text);
            let expected: String = styled.in_dialect(&DIALECT).into_iter().map(|run| run.text).collect();
            prop_assert_eq!(letters(&shown(&write(&styled))), letters(&expected));
        }
    }
}
