//! Writes the HTML of Telegram's Bot API.

#[cfg(test)]
mod tests;

use super::html::{self, Html, Tag, open_link};
use super::styled::{Code, Dialect, Run, Style, StyledText, has_scheme};

const DIALECT: Dialect = Dialect {
    // Telegram finds bare addresses of web pages and mail by itself. A link to tg://user notifies that person.
    opens: |target, _| has_scheme(target, &["http", "https", "mailto"]),
    code_in_links: false,
    heading_levels: 0,
};

/// Headings are bold, tables are aligned columns in a block of code, raw HTML is text. No name notifies a person.
pub fn write(text: &StyledText) -> String {
    let mut out = String::new();
    html::write::<Telegram>(&runs(text), &mut out);
    out
}

/// The text without tags, which Telegram counts.
pub fn visible_text(text: &StyledText) -> String {
    runs(text).into_iter().map(|run| run.text).collect()
}

/// Telegram looks for names in the text without its tags, so a name can begin in one run and end in the next. It looks for none
/// in code.
fn runs(text: &StyledText) -> Vec<Run> {
    let mut runs = text.in_dialect(&DIALECT);
    for run in runs.iter_mut().filter(|run| run.style.code.is_none()) {
        if run.text.contains('@') {
            run.text = without_mentions(&run.text);
        }
    }
    runs
}

/// The text with an invisible character behind each `@` that can begin a name, so that Telegram notifies no one. Addresses of
/// mail stay as they are.
pub fn without_mentions(text: &str) -> String {
    const WORD_JOINER: char = '\u{2060}';
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len() + 8);
    let mut chars = text.chars().peekable();
    let mut before = None;
    while let Some(c) = chars.next() {
        out.push(c);
        let begins = c == '@' && !before.is_some_and(is_word);
        if begins && chars.peek().is_none_or(|next| is_word(*next)) {
            out.push(WORD_JOINER);
        }
        before = Some(c);
    }
    out
}

struct Telegram;

impl Html for Telegram {
    const LEVELS: usize = 6;

    /// Code may be in a quote, but in no other tag. A quote may not be in a quote.
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
