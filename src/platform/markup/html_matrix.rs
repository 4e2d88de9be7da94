//! Writes the HTML of Matrix messages: the format `org.matrix.custom.html`.

use super::html::{self, Html, Tag, escape, open_link};
use super::lines::{Content, Line, lines};
use super::styled::{Dialect, Style, StyledText, has_scheme};

const DIALECT: Dialect = Dialect {
    // The schemes that the specification lists for `href`.
    opens: |target, _| has_scheme(target, &["https", "http", "ftp", "mailto", "magnet"]),
    code_in_links: true,
    heading_levels: 0,
};

/// Headings are bold, lists and rules are text, tables are aligned columns in a block of code. A text of one paragraph
/// has no tags for it.
pub fn write(text: &StyledText) -> String {
    let runs = text.in_dialect(&DIALECT);
    let lines = lines(&runs);
    let is_paragraph = |line: &Line| {
        line.quotes.is_empty() && !line.is_blank() && matches!(line.content, Content::Text(_))
    };
    let mut out = String::new();
    if lines.iter().all(is_paragraph) {
        write_lines(&lines, &mut out);
    } else {
        write_blocks(&lines, 0, &mut out);
    }
    out
}

fn write_blocks(lines: &[Line], depth: usize, out: &mut String) {
    for group in lines.chunk_by(|a, b| a.quotes.get(depth) == b.quotes.get(depth)) {
        if group[0].quotes.len() > depth {
            out.push_str("<blockquote>");
            write_blocks(group, depth + 1, out);
            out.push_str("</blockquote>");
        } else {
            write_paragraphs(group, out);
        }
    }
}

fn write_paragraphs(lines: &[Line], out: &mut String) {
    let is_text = |line: &Line| !line.is_blank() && matches!(line.content, Content::Text(_));
    for group in lines.chunk_by(|a, b| is_text(a) && is_text(b)) {
        match &group[0].content {
            Content::Code { language, text } => write_code(*language, text, out),
            Content::Text(_) if group[0].is_blank() => {}
            Content::Text(_) => {
                out.push_str("<p>");
                write_lines(group, out);
                out.push_str("</p>");
            }
        }
    }
}

/// Spaces at the start of a line are the indentation of a list. HTML would not show them.
fn write_lines(lines: &[Line], out: &mut String) {
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            out.push_str("<br>");
        }
        let Content::Text(runs) = &line.content else {
            continue;
        };
        let mut runs = runs.clone();
        if let Some(first) = runs.first_mut() {
            let indent = first.text.len() - first.text.trim_start_matches(' ').len();
            first.text.replace_range(..indent, &"\u{a0}".repeat(indent));
        }
        html::write::<Matrix>(&runs, out);
    }
}

fn write_code(language: Option<&str>, text: &str, out: &mut String) {
    out.push_str("<pre><code");
    if let Some(language) = language {
        out.push_str(" class=\"language-");
        escape(language, out);
        out.push('"');
    }
    out.push('>');
    escape(text, out);
    out.push_str("</code></pre>");
}

/// The tags within a line.
struct Matrix;

impl Html for Matrix {
    const LEVELS: usize = 5;

    fn tag(style: &Style, level: usize) -> Option<Tag<'_>> {
        match level {
            0 => style.link.as_ref().map(|link| Tag::Link(&link.target)),
            1 => style.bold.then_some(Tag::Bold),
            2 => style.italic.then_some(Tag::Italic),
            3 => style.strikethrough.then_some(Tag::Strikethrough),
            _ => style.code.as_ref().map(Tag::Code),
        }
    }

    fn open(tag: &Tag, out: &mut String) {
        match tag {
            Tag::Link(target) => open_link(target, out),
            Tag::Bold => out.push_str("<strong>"),
            Tag::Italic => out.push_str("<em>"),
            Tag::Strikethrough => out.push_str("<del>"),
            Tag::Code(_) => out.push_str("<code>"),
            // Quotes are blocks: see `write_blocks`.
            Tag::Quote(_) => {}
        }
    }

    fn close(tag: &Tag) -> &'static str {
        match tag {
            Tag::Link(_) => "</a>",
            Tag::Bold => "</strong>",
            Tag::Italic => "</em>",
            Tag::Strikethrough => "</del>",
            Tag::Code(_) => "</code>",
            Tag::Quote(_) => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parse;
    use super::super::samples::{letters, markdownish};
    use super::*;

    fn html(markdown: &str) -> String {
        write(&parse(markdown))
    }

    #[track_caller]
    fn shows(markdown: &str, expected: &str) {
        assert_eq!(html(markdown), expected, "{markdown:?}");
    }

    #[test]
    fn styles_become_tags() {
        shows(
            "**b** *i* ~~s~~ `c` <x>&\"",
            "<strong>b</strong> <em>i</em> <del>s</del> <code>c</code> &lt;x&gt;&amp;&quot;",
        );
        shows("# A `b`", "<strong>A <code>b</code></strong>");
        shows(
            "**a *b* `c`**",
            "<strong>a <em>b</em> <code>c</code></strong>",
        );
    }

    #[test]
    fn paragraphs_are_only_marked_where_there_is_more_than_one() {
        shows("a\nb", "a<br>b");
        shows("a\nb\n\nc", "<p>a<br>b</p><p>c</p>");
        shows("- a\n  - b", "• a<br>\u{a0}\u{a0}◦ b");
        shows("", "");
    }

    #[test]
    fn code_has_its_language() {
        shows(
            "a\n```c++\n<b>\n\n  c\n```\nd",
            "<p>a</p><pre><code class=\"language-c++\">&lt;b&gt;\n\n  c</code></pre><p>d</p>",
        );
        shows("```\nx\n```", "<pre><code>x</code></pre>");
        shows(
            "|a|b|\n|-|-|\n|c|d|",
            "<pre><code>a │ b\n──┼──\nc │ d</code></pre>",
        );
    }

    #[test]
    fn quotes_nest() {
        shows(
            "> a\n>\n> > b\n>\n> c\n\nd",
            "<blockquote><p>a</p><blockquote><p>b</p></blockquote><p>c</p></blockquote><p>d</p>",
        );
        shows(
            "> a\n\n> b",
            "<blockquote><p>a</p></blockquote><blockquote><p>b</p></blockquote>",
        );
        shows(
            "> ```\n> x\n> ```",
            "<blockquote><pre><code>x</code></pre></blockquote>",
        );
    }

    #[test]
    fn links_have_the_schemes_of_the_specification() {
        shows(
            "[a `b`](https://c?d&\"e) [f](magnet:g)",
            "<a href=\"https://c?d&amp;&quot;e\">a <code>b</code></a> <a href=\"magnet:g\">f</a>",
        );
        shows(
            "[a](javascript:b) [c](tg://d) ![e](https://f)",
            "a (javascript:b) c (tg://d) <a href=\"https://f\">e</a>",
        );
        shows("<a@b.c>", "a@b.c");
    }

    /// The text, and a panic at a tag that is not closed in order or not permitted.
    fn shown(html: &str) -> String {
        let permitted = ["p", "strong", "em", "del", "code", "pre", "blockquote", "a"];
        let mut open = Vec::new();
        let mut parts = html.split('<');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (tag, behind) = part.split_once('>').expect("a tag that ends");
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name)),
                None if tag == "br" => {}
                None => {
                    let name = tag.split(' ').next().unwrap_or_default();
                    assert!(permitted.contains(&name), "{name}");
                    open.push(name);
                }
            }
            assert!(open.len() < 100);
            text += behind;
        }
        assert!(open.is_empty(), "left open: {open:?}");
        let text = text.replace("&lt;", "<").replace("&gt;", ">");
        text.replace("&quot;", "\"").replace("&amp;", "&")
    }

    #[test]
    fn deep_nesting_does_no_harm() {
        for part in ["> ", "- ", "- > ", "**", "["] {
            shown(&html(&(part.repeat(5000) + "a")));
        }
    }

    proptest! {
        #[test]
        fn tags_are_balanced_and_no_letter_is_lost(text in prop_oneof![markdownish(), any::<String>()]) {
            let styled = parse(&text);
            let expected: String = styled.in_dialect(&DIALECT).into_iter().map(|run| run.text).collect();
            prop_assert_eq!(letters(&shown(&write(&styled))), letters(&expected));
        }
    }
}
