//! The blocks of a message: what Slack refuses about them, and the texts in them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::errors::ApiError;

const MOST_BLOCKS: usize = 50;

/// The blocks that a message can have.
const KINDS: &[&str] = &[
    "actions",
    "context",
    "context_actions",
    "divider",
    "file",
    "header",
    "image",
    "markdown",
    "plan",
    "rich_text",
    "section",
    "table",
    "task_card",
    "video",
];

/// Collects what is wrong, each with a pointer to its place.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn add(&mut self, at: &str, why: impl AsRef<str>) {
        let why = why.as_ref();
        self.0.push(format!("{why} [json-pointer:{at}]"));
    }

    /// A text of so many characters.
    fn length(&mut self, at: &str, text: &Value, least: usize, most: usize) {
        let Some(text) = text.as_str() else {
            return self.add(at, "must be a string");
        };
        let length = text.chars().count();
        if length > most {
            self.add(at, format!("must be less than {} characters", most + 1));
        }
        if length < least {
            self.add(at, format!("must be more than {} characters", least - 1));
        }
    }

    /// A text object.
    fn text(&mut self, at: &str, text: &Value, kinds: &[&str], most: usize) {
        let kind = text["type"].as_str().unwrap_or_default();
        if !kinds.contains(&kind) {
            self.add(&format!("{at}/type"), "unsupported type");
        }
        self.length(&format!("{at}/text"), &text["text"], 1, most);
    }

    fn optional(&mut self, at: &str, holder: &Value, name: &str, most: usize) {
        if let Some(text) = holder.get(name) {
            self.length(&format!("{at}/{name}"), text, 0, most);
        }
    }

    fn button(&mut self, at: &str, button: &Value) {
        self.text(&format!("{at}/text"), &button["text"], &["plain_text"], 75);
        self.optional(at, button, "value", 2000);
        self.optional(at, button, "url", 3000);
        let style = button.get("style").and_then(Value::as_str);
        if style.is_some_and(|style| style != "primary" && style != "danger") {
            self.add(&format!("{at}/style"), "must be a valid enum value");
        }
    }

    fn elements(&mut self, at: &str, block: &Value, most: usize) {
        let at = format!("{at}/elements");
        let Some(elements) = block["elements"].as_array() else {
            return self.add(&at, "missing required field: elements");
        };
        if elements.is_empty() || elements.len() > most {
            self.add(&at, format!("must have between 1 and {most} items"));
        }
        let mut seen = BTreeSet::new();
        for (number, element) in elements.iter().enumerate() {
            let at = format!("{at}/{number}");
            match element["type"].as_str() {
                Some("button") => self.button(&at, element),
                Some("plain_text" | "mrkdwn") if block["type"] == "context" => {
                    self.length(&format!("{at}/text"), &element["text"], 1, 3000);
                }
                Some(_) => {}
                None => self.add(&at, "missing required field: type"),
            }
            self.optional(&at, element, "action_id", 255);
            let id = element.get("action_id").and_then(Value::as_str);
            if id.is_some_and(|id| !seen.insert(id.to_owned())) {
                self.add(&format!("{at}/action_id"), "`action_id` already exists");
            }
        }
    }

    fn section(&mut self, at: &str, block: &Value) {
        let any = &["plain_text", "mrkdwn"];
        let fields = block.get("fields").and_then(Value::as_array);
        match (block.get("text"), fields) {
            (None, None) => self.add(at, "missing required field: text"),
            (Some(text), _) => self.text(&format!("{at}/text"), text, any, 3000),
            (None, Some(_)) => {}
        }
        let fields = fields.map(Vec::as_slice).unwrap_or_default();
        if fields.len() > 10 {
            self.add(&format!("{at}/fields"), "no more than 10 items allowed");
        }
        for (number, field) in fields.iter().enumerate() {
            self.text(&format!("{at}/fields/{number}"), field, any, 2000);
        }
        if block["accessory"]["type"] == "button" {
            self.button(&format!("{at}/accessory"), &block["accessory"]);
        }
    }

    fn block(&mut self, at: &str, block: &Value) {
        self.optional(at, block, "block_id", 255);
        match block["type"].as_str() {
            Some("section") => self.section(at, block),
            Some("actions") => self.elements(at, block, 25),
            Some("context") => self.elements(at, block, 10),
            Some("header") => {
                self.text(&format!("{at}/text"), &block["text"], &["plain_text"], 150);
            }
            Some("markdown") => self.length(&format!("{at}/text"), &block["text"], 1, 12_000),
            Some(kind) if KINDS.contains(&kind) => {}
            Some(kind) => self.add(&format!("{at}/type"), format!("unsupported type: {kind}")),
            None => self.add(at, "missing required field: type"),
        }
    }
}

/// Checks the blocks of a message. Gives them with the ids that Slack adds.
pub fn check(blocks: Result<Option<Value>, ()>) -> Result<Option<Vec<Value>>, ApiError> {
    let Ok(blocks) = blocks else {
        return Err("invalid_blocks_format".into());
    };
    let Some(blocks) = blocks else {
        return Ok(None);
    };
    let Value::Array(mut blocks) = blocks else {
        return Err("invalid_blocks_format".into());
    };
    let mut faults = Faults::default();
    if blocks.len() > MOST_BLOCKS {
        faults.add("/blocks", "no more than 50 items allowed [input:51]");
    }
    let mut ids = BTreeSet::new();
    for (number, block) in blocks.iter().enumerate() {
        let at = format!("/blocks/{number}");
        faults.block(&at, block);
        let id = block.get("block_id").and_then(Value::as_str);
        if id.is_some_and(|id| !ids.insert(id.to_owned())) {
            faults.add(&format!("{at}/block_id"), "`block_id` already exists");
        }
    }
    if !faults.0.is_empty() {
        return Err(ApiError::with_messages("invalid_blocks", &faults.0));
    }
    for (number, block) in blocks.iter_mut().enumerate() {
        name_parts(block, number);
    }
    Ok(Some(blocks))
}

/// Slack gives an id to each block and to each element that has none.
fn name_parts(block: &mut Value, number: usize) {
    if block.get("block_id").is_none() {
        block["block_id"] = format!("bLk{number}").into();
    }
    let name = |element: &mut Value, at: usize| {
        if element["type"] == "button" && element.get("action_id").is_none() {
            element["action_id"] = format!("aCt{number}{at}").into();
        }
    };
    let elements = block.get_mut("elements").and_then(Value::as_array_mut);
    for (at, element) in elements.into_iter().flatten().enumerate() {
        name(element, at);
    }
    if let Some(accessory) = block.get_mut("accessory") {
        name(accessory, 0);
    }
}

/// All buttons of a message: the block, and the button itself.
pub fn buttons(blocks: &Value) -> Vec<(&Value, &Value)> {
    let blocks = blocks.as_array().into_iter().flatten();
    let buttons = blocks.flat_map(|block| {
        let elements = block["elements"].as_array().into_iter().flatten();
        let all = elements.chain(block.get("accessory"));
        all.filter(|element| element["type"] == "button")
            .map(move |element| (block, element))
    });
    buttons.collect()
}

/// The texts of blocks in which mentions work.
pub fn formatted_texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| formatted_texts(item, found)),
        Value::Object(fields) => {
            let kind = value["type"].as_str().unwrap_or_default();
            let text = value["text"].as_str();
            match (kind, text) {
                ("mrkdwn" | "markdown", Some(text)) => found.push(text.to_owned()),
                ("user", _) => found.push(format!("<@{}>", plain(&value["user_id"]))),
                ("usergroup", _) => {
                    found.push(format!("<!subteam^{}>", plain(&value["usergroup_id"])));
                }
                ("broadcast", _) => found.push(format!("<!{}>", plain(&value["range"]))),
                _ => fields
                    .values()
                    .for_each(|field| formatted_texts(field, found)),
            }
        }
        _ => {}
    }
}

/// All that people read in blocks, for a message without a text of its own.
pub fn fallback(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| fallback(item, found)),
        Value::Object(fields) => match value["text"].as_str() {
            Some(text) => found.push(text.to_owned()),
            None => fields.values().for_each(|field| fallback(field, found)),
        },
        _ => {}
    }
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
