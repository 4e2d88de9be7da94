//! Nests the tags and escapes the text of HTML, for Telegram and Matrix.

use super::styled::{Code, Run, Style, is_blank};

#[derive(Debug, PartialEq)]
pub(super) enum Tag<'a> {
    Quote(usize),
    Link(&'a str),
    Bold,
    Italic,
    Strikethrough,
    Code(&'a Code),
}

/// The tags of a vendor.
pub(super) trait Html {
    /// The most tags around a text.
    const LEVELS: usize;

    /// The tag that a style has at a level, from the outside in.
    fn tag(style: &Style, level: usize) -> Option<Tag<'_>>;

    fn open(tag: &Tag, out: &mut String);

    fn close(tag: &Tag) -> &'static str;
}

/// Tags come from styles, so they are closed in order for every source. Blank text has no tags.
pub(super) fn write<H: Html>(runs: &[Run], out: &mut String) {
    write_level::<H>(runs, 0, out);
}

fn write_level<H: Html>(runs: &[Run], level: usize, out: &mut String) {
    if level == H::LEVELS {
        return runs.iter().for_each(|run| escape(&run.text, out));
    }
    let has_same_tag = |a: &Run, b: &Run| H::tag(&a.style, level) == H::tag(&b.style, level);
    for group in runs.chunk_by(has_same_tag) {
        match H::tag(&group[0].style, level).filter(|_| !is_blank(group)) {
            Some(tag) => {
                H::open(&tag, out);
                write_level::<H>(group, level + 1, out);
                out.push_str(H::close(&tag));
            }
            None => write_level::<H>(group, level + 1, out),
        }
    }
}

pub(super) fn open_link(target: &str, out: &mut String) {
    out.push_str("<a href=\"");
    escape(target, out);
    out.push_str("\">");
}

pub(super) fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}
