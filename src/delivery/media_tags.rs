//! Finds the files that an agent wants to send. Hermes' agents name them in their reply as `MEDIA:/absolute/path`:
//! anywhere in a line, with or without quotes, even with blanks. Tags in code, in quotations and in data are examples
//! or old, and stay in the text.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

const TAG: &str = "MEDIA:";
/// Hermes' marks for how to send files. They are not for people either.
const SHAPES: [&str; 2] = ["[[audio_as_voice]]", "[[as_document]]"];
const LONGEST_PATH: usize = 4096;
/// The longest path without quotes, in bytes.
const FAR: usize = 1024;

/// A part of a line that is not for people, and the path in it.
struct Tag {
    span: Range<usize>,
    path: Option<String>,
}

/// The reply without the tags, and the paths in the order of their first mention. A path may begin with `~/`.
pub fn produced(reply: &str) -> (String, Vec<PathBuf>) {
    if !reply.contains(TAG) {
        return (reply.to_owned(), Vec::new());
    }
    let mut fence = None;
    let lines: Vec<(&str, Vec<Tag>)> = reply
        .split('\n')
        .map(|line| match is_protected(line, &mut fence) {
            true => (line, Vec::new()),
            false => (line, tags(line)),
        })
        .collect();
    let mut known = HashSet::new();
    let found = lines.iter().flat_map(|(_, tags)| tags);
    let paths = found.filter_map(|tag| tag.path.as_deref());
    let paths: Vec<PathBuf> = paths
        .map(Path::new)
        .filter(|path| known.insert(*path))
        .map(Path::to_owned)
        .collect();
    if paths.is_empty() {
        return (reply.to_owned(), Vec::new());
    }
    let mut rest = Rest::default();
    for (line, tags) in lines {
        match tags.is_empty() {
            true => rest.keep(line),
            false => rest.keep_of(&without(line, &tags)),
        }
    }
    (rest.text(), paths)
}

/// The part of an unfinished reply that can be shown: without tags, and without a last line that may contain the
/// beginning of one.
pub fn unfinished(reply: &str) -> String {
    let (whole, last) = match reply.rsplit_once('\n') {
        Some((whole, last)) => (whole, last),
        None => ("", reply),
    };
    let mut fence = None;
    for line in whole.split('\n') {
        is_protected(line, &mut fence);
    }
    let begins = |thing: &&str| {
        let begun = (1..thing.len()).filter_map(|length| last.strip_suffix(&thing[..length]));
        let mut begun = begun.filter(|before| !before.ends_with(char::is_alphanumeric));
        last.contains(*thing) || begun.next().is_some()
    };
    let open = !is_protected(last, &mut fence) && [TAG, SHAPES[0], SHAPES[1]].iter().any(begins);
    let shown = match open {
        true => produced(whole).0,
        false => produced(reply).0,
    };
    match shown.contains(char::is_alphanumeric) {
        true => shown,
        false => String::new(),
    }
}

/// Whether a line belongs to a block of code or to a quotation. `fence` is the fence of the open block.
fn is_protected(line: &str, fence: &mut Option<(char, usize)>) -> bool {
    let line = line.trim();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'));
    let length = mark.map_or(0, |mark| line.chars().take_while(|c| *c == mark).count());
    let behind = &line[length..];
    match (*fence, mark) {
        (Some((open, least)), mark) => {
            if mark == Some(open) && length >= least && behind.is_empty() {
                *fence = None;
            }
            true
        }
        (None, Some(mark)) if length >= 3 && !(mark == '`' && behind.contains('`')) => {
            *fence = Some((mark, length));
            true
        }
        (None, _) => line.starts_with('>'),
    }
}

fn tags(line: &str) -> Vec<Tag> {
    let mut found = Vec::new();
    if !line.contains(TAG) && !SHAPES.iter().any(|shape| line.contains(shape)) {
        return found;
    }
    let (last_ticks, data) = (last_ticks(line), data(line));
    // The current position, and the end of the last tag.
    let (mut at, mut free) = (0, 0);
    while let Some((start, what)) = next(line, at) {
        at = start + what.len();
        if what == TAG {
            if start < data
                && let Some(tag) = tag_at(line, free, start)
            {
                free = tag.span.end;
                at = tag.span.end;
                found.push(tag);
            }
        } else if what == "`" {
            let ticks = ticks_at(line, start);
            at = start + ticks;
            let is_closed = last_ticks.get(&ticks).is_some_and(|last| *last > start);
            let Some(end) = is_closed.then(|| closing(line, at, ticks)).flatten() else {
                continue;
            };
            // Code that contains only a tag is a tag.
            let code = &line[at..end];
            let inner = code.trim();
            let alone = tag_at(inner, 0, 0).filter(|tag| tag.span == (0..inner.len()));
            at = end + ticks;
            if let Some(tag) = alone.filter(|_| start < data) {
                free = at;
                found.push(Tag {
                    span: start..at,
                    ..tag
                });
            }
        } else {
            free = at;
            found.push(Tag {
                span: start..at,
                path: None,
            });
        }
    }
    found
}

/// The next backtick, tag or mark in a line.
fn next(line: &str, mut from: usize) -> Option<(usize, &'static str)> {
    const THINGS: [&str; 4] = ["`", TAG, SHAPES[0], SHAPES[1]];
    loop {
        let start = from + line[from..].find(['`', 'M', '['])?;
        let thing = THINGS
            .into_iter()
            .find(|thing| line[start..].starts_with(thing));
        if let Some(thing) = thing {
            return Some((start, thing));
        }
        from = start + 1;
    }
}

/// Where data begins in a line. Texts in data are not part of this reply.
fn data(line: &str) -> usize {
    let signs = ["\":", "\" :", "{\"", "[\""].into_iter();
    let found = signs.filter_map(|sign| line.find(sign));
    found.min().unwrap_or(line.len())
}

fn ticks_at(line: &str, at: usize) -> usize {
    line[at..].bytes().take_while(|b| *b == b'`').count()
}

/// The last position of each length of backticks. It tells cheaply whether a code span is closed.
fn last_ticks(line: &str) -> HashMap<usize, usize> {
    let (mut last, mut at) = (HashMap::new(), 0);
    while let Some(found) = line[at..].find('`') {
        let start = at + found;
        let ticks = ticks_at(line, start);
        last.insert(ticks, start);
        at = start + ticks;
    }
    last
}

/// The position of the backticks that close a code span.
fn closing(line: &str, mut at: usize, wanted: usize) -> Option<usize> {
    loop {
        let start = at + line[at..].find('`')?;
        let ticks = ticks_at(line, start);
        if ticks == wanted {
            return Some(start);
        }
        at = start + ticks;
    }
}

/// The tag that begins at `start`, if there is one. Text before `free` belongs to other tags.
fn tag_at(line: &str, free: usize, start: usize) -> Option<Tag> {
    if !line[start..].starts_with(TAG) {
        return None;
    }
    let before = &line[free..start];
    let is_other = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/');
    if before.ends_with(is_other) {
        return None;
    }
    let behind = start + TAG.len();
    let rest = line[behind..].trim_start_matches([' ', '\t']);
    let from = line.len() - rest.len();
    let quote = |c: &char| matches!(c, '"' | '\'' | '`');
    if let Some(quote) = rest.chars().next().filter(quote) {
        let path = rest[1..].split_once(quote)?.0;
        let end = from + 1 + path.len() + 1;
        return tag(line, free, start..end, path);
    }
    // The quotes may also be around the whole tag.
    if let Some(quote) = before.chars().next_back().filter(quote)
        && let Some((path, _)) = rest.split_once(quote)
        && let Some(tag) = tag(line, free, start - 1..from + path.len() + 1, path)
    {
        return Some(tag);
    }
    let path = bare(rest)?;
    tag(line, free, start..from + path.len(), path)
}

fn tag(line: &str, free: usize, mut span: Range<usize>, path: &str) -> Option<Tag> {
    let path = path.trim();
    let name = path.strip_prefix("~/").or(path.strip_prefix('/'))?;
    let is_path = name.contains(|c| !matches!(c, '/' | '.'))
        && path.len() <= LONGEST_PATH
        && !path.contains(char::is_control)
        && !path.contains(TAG);
    if !is_path {
        return None;
    }
    // Removes brackets and emphasis around the tag, since they would be empty.
    let pairs = [("*", "*"), ("_", "_"), ("(", ")"), ("[", "]"), ("<", ">")];
    while pairs.iter().any(|(open, close)| {
        line[free..span.start].ends_with(open) && line[span.end..].starts_with(close)
    }) {
        span = span.start - 1..span.end + 1;
    }
    let path = Some(path.to_owned());
    Some(Tag { span, path })
}

/// A path without quotes: one word, or several words if only these have an extension.
fn bare(rest: &str) -> Option<&str> {
    if !rest.starts_with('/') && !rest.starts_with("~/") {
        return None;
    }
    let far = rest
        .char_indices()
        .find(|(at, c)| *at >= FAR || c.is_control() || matches!(c, '"' | '`' | '<' | '>' | '|'));
    let rest = &rest[..far.map_or(rest.len(), |(at, _)| at)];
    let rest = rest.split_once(TAG).map_or(rest, |(before, _)| before);
    let word = rest.split(char::is_whitespace).next().unwrap_or_default();
    let is_mark = |c: char| c.is_ascii_punctuation() && !matches!(c, '/' | '_' | '-' | '+' | '~');
    let word_alone =
        word.trim_end_matches(|c| is_mark(c) || "。，、；：！？）】」』》".contains(c));
    if let Some(end) = ending(word) {
        return Some(&rest[..end]);
    }
    if has_extension(word_alone) {
        return Some(word_alone);
    }
    let is_of_the_name = |more: &str| {
        let mut words = more.split_whitespace().skip(1);
        !words.any(|word| word.starts_with(['/', '~']) || word.contains("://"))
    };
    let long = ending(rest).map(|end| &rest[..end]);
    Some(
        long.filter(|long| is_of_the_name(long))
            .unwrap_or(word_alone),
    )
}

/// The end of the first name with a usual extension.
fn ending(text: &str) -> Option<usize> {
    text.match_indices('.').find_map(|(dot, _)| {
        let behind = &text[dot + 1..];
        let length = behind.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let mut after = behind[length..].chars();
        // The name continues in "a.tar.gz" and "a.d/b", but not after the dot of a sentence.
        let goes_on = match after.next() {
            Some('.') => after.next().is_some_and(|c| c.is_ascii_alphanumeric()),
            Some(c) => matches!(c, '/' | '_' | '-' | '+' | '~'),
            None => false,
        };
        let extension = behind[..length].to_ascii_lowercase();
        (!goes_on && USUAL.contains(&extension.as_str())).then_some(dot + 1 + length)
    })
}

fn has_extension(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').is_some_and(|(_, extension)| {
        (1..=8).contains(&extension.len())
            && extension.starts_with(|c: char| c.is_ascii_alphabetic())
            && extension.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

/// The extensions of files that agents make for people. A path ends after one of them.
#[rustfmt::skip]
const USUAL: [&str; 58] = [
    "7z", "avi", "bmp", "bz2", "csv", "doc", "docx", "epub", "flac", "gif", "gz", "heic", "htm", "html", "ics", "ipynb",
    "jpeg", "jpg", "json", "log", "m4a", "md", "mkv", "mov", "mp3", "mp4", "odp", "ods", "odt", "oga", "ogg", "opus",
    "pdf", "png", "ppt", "pptx", "py", "rar", "rtf", "srt", "svg", "tar", "tex", "tgz", "tiff", "tsv", "txt", "vcf",
    "wav", "webm", "webp", "xls", "xlsx", "xml", "xz", "yaml", "yml", "zip",
];

/// A line without its tags and without the spaces around them.
fn without(line: &str, tags: &[Tag]) -> String {
    let (mut kept, mut at) = (String::new(), 0);
    for piece in tags
        .iter()
        .map(|tag| &tag.span)
        .chain([&(line.len()..line.len())])
    {
        let next = &line[at..piece.start];
        let is_joined = at > 0;
        let next = match kept.is_empty() || kept.ends_with(char::is_whitespace) {
            true if is_joined => next.trim_start(),
            _ => next,
        };
        if is_joined && next.starts_with(['.', ',', ';', ':', '!', '?']) {
            kept.truncate(kept.trim_end().len());
        }
        kept.push_str(next);
        at = piece.end;
    }
    kept.truncate(kept.trim_end().len());
    kept
}

/// The rest of a reply, without the gaps that tags leave.
#[derive(Default)]
struct Rest {
    lines: Vec<String>,
    /// The last line was removed.
    gap: bool,
}

impl Rest {
    fn keep(&mut self, line: &str) {
        let is_blank = line.trim().is_empty();
        let after_blank = self.lines.last().is_none_or(|last| last.trim().is_empty());
        if self.gap && is_blank && after_blank {
            return;
        }
        self.gap = false;
        self.lines.push(line.to_owned());
    }

    /// Adds the rest of a line that had tags. Drops it if only punctuation is left.
    fn keep_of(&mut self, line: &str) {
        let marks = line.trim().trim_start_matches(|c: char| c.is_ascii_digit());
        match marks.chars().all(|c| "-*+•–—|,.;:!)".contains(c)) {
            true => self.gap = true,
            false => self.keep(line),
        }
    }

    fn text(mut self) -> String {
        while self.gap && self.lines.last().is_some_and(|last| last.trim().is_empty()) {
            self.lines.pop();
        }
        self.lines.join("\n")
    }
}

#[cfg(test)]
mod tests;
