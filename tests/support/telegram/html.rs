//! Telegram's HTML: a handful of tags, which have to be closed in order.

use serde_json::{Value, json};

/// The visible text, and its formats as entities.
#[derive(Debug, Clone, PartialEq)]
pub struct Formatted {
    pub text: String,
    pub entities: Vec<Value>,
}

/// A text without formats.
pub fn plain(text: &str) -> Formatted {
    trimmed(text.to_owned(), Vec::new())
}

pub fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

struct Open {
    tag: String,
    start: usize,
    /// Where a link leads, or what language a block of code is in.
    argument: Option<String>,
}

struct Parser<'a> {
    source: &'a str,
    at: usize,
    text: String,
    open: Vec<Open>,
    entities: Vec<Value>,
}

/// An error is in the words of Telegram.
pub fn parse(source: &str) -> Result<Formatted, String> {
    let mut parser = Parser {
        source,
        at: 0,
        text: String::new(),
        open: Vec::new(),
        entities: Vec::new(),
    };
    while let Some(next) = parser.peek() {
        match next {
            '<' if parser.source[parser.at..].starts_with("</") => parser.end_tag()?,
            '<' => parser.start_tag()?,
            _ => {
                let character = parser.character();
                parser.text.push(character);
            }
        }
    }
    match parser.open.pop() {
        Some(open) => Err(format!(
            "Can't find end tag corresponding to start tag \"{}\"",
            open.tag
        )),
        None => Ok(trimmed(parser.text, parser.entities)),
    }
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.source[self.at..].chars().next()
    }

    /// Reads characters while they fit.
    fn take(&mut self, fits: impl Fn(char) -> bool) -> &str {
        let rest = &self.source[self.at..];
        let taken = &rest[..rest.find(|c| !fits(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// One character of text, which may be written as an entity. What is no entity is text.
    fn character(&mut self) -> char {
        let rest = &self.source[self.at..];
        let next = rest.chars().next().expect("there is one");
        if next == '&'
            && let Some((name, _)) = rest[1..].split_once(';')
        {
            let number = name.strip_prefix('#').map(|number| {
                match number.strip_prefix('x').or(number.strip_prefix('X')) {
                    Some(hex) => u32::from_str_radix(hex, 16).ok(),
                    None => number.parse().ok(),
                }
            });
            let meant = match (name, number) {
                ("lt", _) => Some('<'),
                ("gt", _) => Some('>'),
                ("amp", _) => Some('&'),
                ("quot", _) => Some('"'),
                (_, Some(number)) => number.and_then(char::from_u32),
                _ => None,
            };
            if let Some(meant) = meant {
                self.at += name.len() + 2;
                return meant;
            }
        }
        self.at += next.len_utf8();
        next
    }

    fn start_tag(&mut self) -> Result<(), String> {
        let begin = self.at;
        self.at += 1;
        let tag = self
            .take(|c| !c.is_whitespace() && c != '>')
            .to_ascii_lowercase();
        if self.peek().is_none() {
            return Err(format!("Unclosed start tag at byte offset {begin}"));
        }
        if kind(&tag).is_none() {
            return Err(format!(
                "Unsupported start tag \"{tag}\" at byte offset {begin}"
            ));
        }
        let mut argument = None;
        loop {
            self.take(char::is_whitespace);
            match self.peek() {
                Some('>') => break,
                Some(_) => {}
                None => {
                    return Err(format!(
                        "Unclosed start tag \"{tag}\" at byte offset {begin}"
                    ));
                }
            }
            let (name, value) = self.attribute(&tag, begin)?;
            match (tag.as_str(), name.as_str()) {
                ("a", "href") | ("tg-emoji", "emoji-id") | ("span", "class") => {
                    argument = Some(value);
                }
                ("code", "class") => {
                    argument = value.strip_prefix("language-").map(str::to_owned);
                }
                ("blockquote", "expandable") => argument = Some(name),
                _ => {}
            }
        }
        self.at += 1;
        if tag == "span" && argument.as_deref() != Some("tg-spoiler") {
            return Err(format!(
                "Tag \"span\" must have class \"tg-spoiler\" at byte offset {begin}"
            ));
        }
        self.open.push(Open {
            tag,
            start: units(&self.text),
            argument,
        });
        Ok(())
    }

    fn attribute(&mut self, tag: &str, begin: usize) -> Result<(String, String), String> {
        let name = self.take(|c| !c.is_whitespace() && c != '=' && c != '>');
        let name = name.to_ascii_lowercase();
        if name.is_empty() {
            return Err(format!(
                "Empty attribute name in the tag \"{tag}\" at byte offset {begin}"
            ));
        }
        self.take(char::is_whitespace);
        if self.peek() != Some('=') {
            if tag == "blockquote" && name == "expandable" {
                return Ok((name, String::new()));
            }
            return Err(format!(
                "Expected equal sign in declaration of an attribute of the tag \"{tag}\" at byte offset {begin}"
            ));
        }
        self.at += 1;
        self.take(char::is_whitespace);
        let quote = self.peek().filter(|c| matches!(c, '"' | '\''));
        let Some(quote) = quote else {
            let bare = self.take(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
            return Ok((name, bare.to_owned()));
        };
        self.at += 1;
        let mut value = String::new();
        loop {
            match self.peek() {
                Some(end) if end == quote => break,
                Some(_) => {
                    let character = self.character();
                    value.push(character);
                }
                None => {
                    return Err(format!("Unclosed start tag at byte offset {begin}"));
                }
            }
        }
        self.at += 1;
        Ok((name, value))
    }

    fn end_tag(&mut self) -> Result<(), String> {
        let begin = self.at;
        self.at += 2;
        let tag = self
            .take(|c| !c.is_whitespace() && c != '>')
            .to_ascii_lowercase();
        self.take(char::is_whitespace);
        if self.peek() != Some('>') {
            return Err(format!("Unclosed end tag at byte offset {begin}"));
        }
        self.at += 1;
        let Some(open) = self.open.pop() else {
            return Err(format!("Unexpected end tag at byte offset {begin}"));
        };
        if !tag.is_empty() && tag != open.tag {
            return Err(format!(
                "Unmatched end tag at byte offset {begin}, expected \"</{}>\", found \"</{tag}>\"",
                open.tag
            ));
        }
        self.entity(open);
        Ok(())
    }

    fn entity(&mut self, open: Open) {
        let length = units(&self.text) - open.start;
        if length == 0 {
            return;
        }
        let mut entity = json!({
            "type": kind(&open.tag).expect("a known tag"),
            "offset": open.start,
            "length": length,
        });
        match (open.tag.as_str(), open.argument) {
            ("a", Some(url)) => {
                let whole = reqwest::Url::parse(&url)
                    .or_else(|_| reqwest::Url::parse(&format!("http://{url}")));
                // A link without an address is text.
                let Ok(whole) = whole else { return };
                entity["url"] = json!(whole.as_str());
            }
            ("a", None) => return,
            ("tg-emoji", id) => entity["custom_emoji_id"] = json!(id),
            ("blockquote", Some(_)) => entity["type"] = json!("expandable_blockquote"),
            ("code", Some(language)) => entity["language"] = json!(language),
            ("pre", _) => {
                // A block of code in a language is a tag in a tag, and one entity.
                let inner = self.entities.last().filter(|inner| {
                    inner["type"] == "code"
                        && inner["offset"] == entity["offset"]
                        && inner["length"] == entity["length"]
                });
                if let Some(language) = inner.map(|inner| inner["language"].clone()) {
                    self.entities.pop();
                    if !language.is_null() {
                        entity["language"] = language;
                    }
                }
            }
            _ => {}
        }
        self.entities.push(entity);
    }
}

fn kind(tag: &str) -> Option<&'static str> {
    Some(match tag {
        "b" | "strong" => "bold",
        "i" | "em" => "italic",
        "u" | "ins" => "underline",
        "s" | "strike" | "del" => "strikethrough",
        "span" | "tg-spoiler" => "spoiler",
        "tg-emoji" => "custom_emoji",
        "a" => "text_link",
        "code" => "code",
        "pre" => "pre",
        "blockquote" => "blockquote",
        _ => return None,
    })
}

/// Removes blanks around the text.
fn trimmed(text: String, mut entities: Vec<Value>) -> Formatted {
    let shown = text.trim_end();
    let end = units(shown);
    let shown = shown.trim_start();
    let start = end - units(shown);
    entities.retain_mut(|entity| {
        let from = entity["offset"].as_u64().expect("an offset") as usize;
        let to = from + entity["length"].as_u64().expect("a length") as usize;
        let (from, to) = (from.clamp(start, end), to.clamp(start, end));
        entity["offset"] = json!(from - start);
        entity["length"] = json!(to - from);
        if entity["type"] == "code" {
            entity
                .as_object_mut()
                .expect("an object")
                .remove("language");
        }
        to > from
    });
    entities.sort_by_key(|entity| {
        let number = |key: &str| entity[key].as_i64().expect("a number");
        (number("offset"), -number("length"))
    });
    Formatted {
        text: shown.to_owned(),
        entities,
    }
}
