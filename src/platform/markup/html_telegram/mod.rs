//! The HTML of Telegram's Bot API.

#[cfg(test)]
mod tests;

use super::html::{self, Html, Tag, open_link};
use super::styled::{Code, Dialect, Run, Style, StyledText, has_scheme};

const DIALECT: Dialect = Dialect {
    // Telegram finds bare addresses of web pages and mail by itself.
    opens: |target, _| has_scheme(target, &["http", "https", "mailto", "tg"]),
    code_in_links: false,
    heading_levels: 0,
};

/// Headings are bold, tables are aligned columns in a block of code, raw HTML is text.
pub fn write(text: &StyledText) -> String {
    let mut out = String::new();
    html::write::<Telegram>(&text.in_dialect(&DIALECT), &mut out);
    out
}

/// The text without tags, which Telegram counts.
pub fn visible_text(text: &StyledText) -> String {
    let runs = text.in_dialect(&DIALECT).into_iter();
    runs.map(|run: Run| run.text).collect()
}

struct Telegram;

impl Html for Telegram {
    const LEVELS: usize = 6;

    /// Code can be in a quote, and in no other tag. A quote can be in no quote.
    fn tag(style: &Style, level: usize) -> Option<Tag<'_>> {
        let is_text = style.code.is_none();
        let link = style.link.as_ref().filter(|_| is_text);
        match level {
            0 => style.quotes.first().copied().map(Tag::Quote),
            1 => link.map(|link| Tag::Link(&link.target)),
            2 => (style.bold && is_text).then_some(Tag::Bold),
            3 => (style.italic && is_text).then_some(Tag::Italic),
            4 => (style.strikethrough && is_text).then_some(Tag::Strikethrough),
            _ => style.code.as_ref().map(Tag::Code),
        }
    }

    fn open(tag: &Tag, out: &mut String) {
        match tag {
            Tag::Quote(_) => out.push_str("<blockquote>"),
            Tag::Link(target) => open_link(target, out),
            Tag::Bold => out.push_str("<b>"),
            Tag::Italic => out.push_str("<i>"),
            Tag::Strikethrough => out.push_str("<s>"),
            Tag::Code(Code::Inline) => out.push_str("<code>"),
            Tag::Code(Code::Block { language: None }) => out.push_str("<pre>"),
            Tag::Code(Code::Block {
                language: Some(language),
            }) => {
                out.push_str("<pre><code class=\"language-");
                html::escape(language, out);
                out.push_str("\">");
            }
        }
    }

    fn close(tag: &Tag) -> &'static str {
        match tag {
            Tag::Quote(_) => "</blockquote>",
            Tag::Link(_) => "</a>",
            Tag::Bold => "</b>",
            Tag::Italic => "</i>",
            Tag::Strikethrough => "</s>",
            Tag::Code(Code::Inline) => "</code>",
            Tag::Code(Code::Block { language: None }) => "</pre>",
            Tag::Code(Code::Block { language: Some(_) }) => "</code></pre>",
        }
    }
}
