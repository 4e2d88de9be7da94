//! Generates the manual of the control socket (methods, objects, events) from the comments of the wire types.

use super::roff::{literal, prose, sentence};
use crate::protocol::METHODS;

const CALLS: &str = include_str!("../protocol/calls.rs");
const VIEWS: &str = include_str!("../protocol/views.rs");
const CODES: &str = include_str!("../protocol/mod.rs");

/// The result of each method: a view, a list of views, or a description if it has no type.
const RESULTS: [(&str, Answer); 32] = [
    ("hello", Answer::One("HelloView")),
    ("status", Answer::One("StatusView")),
    ("metrics", Answer::One("MetricsView")),
    ("config.reload", Answer::One("ReloadView")),
    ("platform.list", Answer::List("PlatformView")),
    ("platform.examine", Answer::List("FindingView")),
    ("agent.list", Answer::List("AgentView")),
    ("agent.test", Answer::One("AgentTestView")),
    ("pair.list", Answer::List("PersonView")),
    ("pair.approve", Answer::One("PersonView")),
    (
        "pair.revoke",
        Answer::Words("An object with the `platform` and `user` of the request."),
    ),
    ("session.list", Answer::List("SessionView")),
    ("session.show", Answer::One("SessionView")),
    ("session.transcript", Answer::One("TranscriptView")),
    ("session.search", Answer::List("HitView")),
    ("session.rename", Answer::One("SessionView")),
    ("session.resume", Answer::One("ResumedView")),
    ("chat.open", Answer::One("ChatView")),
    ("chat.say", Answer::One("ChatTurnView")),
    (
        "chat.answer",
        Answer::Words("An object with `question`, the id of the answered question."),
    ),
    (
        "chat.stop",
        Answer::Words("An object with `stopped`: whether a reply was in progress."),
    ),
    ("chat.leave", Answer::Words("An empty object.")),
    ("handoff.request", Answer::One("HandoffView")),
    ("handoff.wait", Answer::One("HandoffView")),
    ("handoff.list", Answer::List("HandoffView")),
    ("handoff.show", Answer::One("HandoffView")),
    ("handoff.cancel", Answer::One("HandoffView")),
    ("handoff.retry", Answer::One("HandoffView")),
    (
        "events.subscribe",
        Answer::Words("An empty object. Events follow."),
    ),
    ("local.threads", Answer::List("LocalThreadView")),
    ("local.read", Answer::List("LocalMessageView")),
    ("local.say", Answer::One("LocalMessageView")),
];

enum Answer {
    One(&'static str),
    List(&'static str),
    Words(&'static str),
}

struct Field {
    name: String,
    kind: String,
    doc: String,
}

/// A method or an event. `name` is its name on the wire. Its parameters are a type (`takes`) or its own `fields`.
struct Entry {
    name: String,
    doc: String,
    takes: String,
    fields: Vec<Field>,
}

pub(super) fn methods() -> String {
    let entries = entries(CALLS, "Call");
    let names: Vec<&str> = entries.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, METHODS, "Call and METHODS differ");
    let mut text = String::new();
    for entry in entries {
        assert!(!entry.doc.is_empty(), "{} has no comment", entry.name);
        text.push_str(&format!(
            ".SS {}\n{}",
            literal(&entry.name),
            sentence(&entry.doc)
        ));
        for field in fields(CALLS, &entry.takes) {
            text.push_str(&described(&entry.takes, &field));
        }
        let result = RESULTS.iter().find(|(name, _)| *name == entry.name);
        let result = match &result.expect("a result").1 {
            Answer::One(view) => {
                let name = object_name(view);
                let article = if name.starts_with('a') { "an" } else { "a" };
                format!("{article} `{name}` object.")
            }
            Answer::List(view) => format!("a list of `{}` objects.", object_name(view)),
            Answer::Words(words) => {
                let (first, rest) = words.split_at(1);
                format!("{}{rest}", first.to_ascii_lowercase())
            }
        };
        text.push_str(&format!(".PP\n{}", prose(&format!("Result: {result}"))));
    }
    text
}

/// `HandoffView` becomes `handoff`.
fn object_name(view: &str) -> String {
    let mut name = String::new();
    for c in view.strip_suffix("View").unwrap_or(view).chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

pub(super) fn objects() -> String {
    let mut text = String::new();
    for (source, view) in [(CALLS, "HelloView")].into_iter().chain(
        structs(VIEWS)
            .into_iter()
            .filter(|view| *view != "EventView")
            .map(|view| (VIEWS, view)),
    ) {
        text.push_str(&format!(".SS \"{} object\"\n", literal(&object_name(view))));
        let list = fields(source, view);
        assert!(!list.is_empty(), "{view} has no fields");
        for field in list {
            text.push_str(&described(view, &field));
        }
    }
    text
}

pub(super) fn events() -> String {
    let mut text = String::new();
    for entry in entries(VIEWS, "EventKind") {
        assert!(!entry.doc.is_empty(), "{} has no comment", entry.name);
        text.push_str(&format!(
            ".TP\n.B {}\n{}",
            literal(&entry.name),
            sentence(&entry.doc)
        ));
        let list: Vec<String> = entry
            .fields
            .iter()
            .map(|field| match field.doc.as_str() {
                "" => format!("`{}` ({})", field.name, field.kind),
                doc => format!(
                    "`{}` ({}: {})",
                    field.name,
                    field.kind,
                    lowercase(doc.trim_end_matches('.'))
                ),
            })
            .collect();
        text.push_str(&prose(&format!("Fields: {}.", list.join(", "))));
    }
    text
}

fn lowercase(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_ascii_lowercase() + rest
}

fn described(of: &str, field: &Field) -> String {
    assert!(!field.doc.is_empty(), "{of}.{} has no comment", field.name);
    format!(
        ".TP\n.BR {} \" ({})\"\n{}",
        literal(&field.name),
        literal(&field.kind),
        sentence(&field.doc)
    )
}

fn structs(source: &str) -> Vec<&str> {
    source
        .lines()
        .filter_map(|line| line.strip_prefix("pub struct ")?.strip_suffix(" {"))
        .collect()
}

/// The lines between the braces of a type.
fn body<'a>(source: &'a str, head: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let mut lines = source.lines();
    assert!(lines.any(|line| line == head), "there is no `{head}`");
    lines.take_while(|line| *line != "}").map(str::trim)
}

fn fields(source: &str, name: &str) -> Vec<Field> {
    if source.contains(&format!("pub struct {name} {{}}")) {
        return Vec::new();
    }
    read_fields(body(source, &format!("pub struct {name} {{")))
}

fn read_fields<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Field> {
    let mut fields = Vec::new();
    let (mut doc, mut optional) = (String::new(), false);
    for line in lines {
        if let Some(words) = line.strip_prefix("///") {
            doc.push_str(words);
        } else if line.starts_with("#[serde") {
            optional |= line.contains("default") || line.contains("skip_serializing_if");
        } else if let Some((name, kind)) = line.trim_start_matches("pub ").split_once(": ") {
            fields.push(Field {
                name: name.to_owned(),
                kind: kind_of(kind.trim_end_matches(','), optional),
                doc: std::mem::take(&mut doc).trim().to_owned(),
            });
            optional = false;
        }
    }
    fields
}

/// A Rust type in the words of JSON.
fn kind_of(rust: &str, optional: bool) -> String {
    let inside = |rust: &str, of: &str| -> Option<String> {
        let inner = rust
            .strip_prefix(of)?
            .strip_prefix('<')?
            .strip_suffix('>')?;
        Some(inner.to_owned())
    };
    if optional {
        let rust = inside(rust, "Option").unwrap_or_else(|| rust.to_owned());
        return format!("{}, may be missing", kind_of(&rust, false));
    }
    if let Some(inner) = inside(rust, "Option") {
        return format!("{} or null", kind_of(&inner, false));
    }
    if let Some(inner) = inside(rust, "Vec") {
        return format!("list of {}", kind_of(&inner, false));
    }
    match rust {
        "String" => "text".into(),
        "bool" => "true or false".into(),
        "i64" | "u32" | "u64" | "usize" => "number".into(),
        "f64" => "seconds".into(),
        "Value" => "any value".into(),
        view if view.ends_with("View") => object_name(view),
        other => panic!("the type {other} has no name for readers of JSON"),
    }
}

/// The variants of an enum, with their names on the wire.
fn entries(source: &str, name: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut lines = body(source, &format!("pub enum {name} {{"));
    let (mut doc, mut wire) = (String::new(), String::new());
    while let Some(line) = lines.next() {
        if let Some(words) = line.strip_prefix("///") {
            doc.push_str(words);
        } else if let Some(rename) = line.strip_prefix("#[serde(rename = \"") {
            wire = rename.trim_end_matches("\")]").to_owned();
        } else if let Some((_, takes)) = line.split_once('(') {
            entries.push(Entry {
                name: std::mem::take(&mut wire),
                doc: std::mem::take(&mut doc).trim().to_owned(),
                takes: takes.trim_end_matches("),").to_owned(),
                fields: Vec::new(),
            });
        } else if line.ends_with('{') {
            let own: Vec<&str> = lines.by_ref().take_while(|line| *line != "},").collect();
            entries.push(Entry {
                name: std::mem::take(&mut wire),
                doc: std::mem::take(&mut doc).trim().to_owned(),
                takes: String::new(),
                fields: read_fields(own.into_iter()),
            });
        }
    }
    entries
}

/// The error codes.
pub(super) fn codes() -> Vec<String> {
    let code = |line: &str| {
        let (_, number) = line
            .trim()
            .strip_prefix("pub const ")?
            .split_once(": i64 = ")?;
        Some(number.trim_end_matches(';').to_owned())
    };
    CODES.lines().filter_map(code).collect()
}
