//! A session's messages for an agent: live rows in row order, with each tool result behind its call.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

/// Precedes the JSON of a multimodal list of parts in `messages.content`.
const PARTS_PREFIX: &str = "\0json:";

/// The `display_kind` of rows that only models read.
pub const HIDDEN: &str = "hidden";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }

    pub fn parse(text: &str) -> Option<Role> {
        [Role::System, Role::User, Role::Assistant, Role::Tool]
            .into_iter()
            .find(|r| r.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Text(String),
    /// Multimodal parts in the format of the model's API (`{"type": "text", …}`, `{"type": "image_url", …}`).
    Parts(Vec<Value>),
}

impl Content {
    /// Decodes a column: text, or a list of parts behind its prefix. Invalid JSON stays text.
    pub fn decode(column: String) -> Content {
        match column
            .strip_prefix(PARTS_PREFIX)
            .map(serde_json::from_str::<Vec<Value>>)
        {
            Some(Ok(parts)) => Content::Parts(parts),
            _ => Content::Text(column),
        }
    }

    /// From the beginning of a column that is too long to read. A truncated list of parts is only named.
    pub fn cut(beginning: &str, more: usize) -> Content {
        Content::Text(match beginning.starts_with(PARTS_PREFIX) {
            true => format!("[{} bytes, too long to read]", beginning.len() + more),
            false => format!("{beginning}… ({more} bytes more)"),
        })
    }

    pub fn encode(&self) -> String {
        match self {
            Content::Text(text) => text.clone(),
            Content::Parts(parts) => format!("{PARTS_PREFIX}{}", Value::from(parts.clone())),
        }
    }

    /// The text, for people and previews. Parts that are not text appear as their type in brackets.
    pub fn plain(&self) -> String {
        match self {
            Content::Text(text) => text.clone(),
            Content::Parts(parts) => parts.iter().map(plain_part).collect::<Vec<_>>().join(" "),
        }
    }
}

fn plain_part(part: &Value) -> String {
    match (
        part.get("text").and_then(Value::as_str),
        part.get("type").and_then(Value::as_str),
    ) {
        (Some(text), _) => text.to_owned(),
        (None, Some(kind)) => format!("[{kind}]"),
        (None, None) => "[attachment]".to_owned(),
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The row id. It orders a transcript, because timestamps are not monotonic.
    pub id: i64,
    pub role: Role,
    pub content: Option<Content>,
    /// The exact text to send to a model, if it differs from `content`.
    pub api_content: Option<String>,
    pub tool_call_id: Option<String>,
    pub tool_name: Option<String>,
    pub tool_calls: Vec<Value>,
    pub finish_reason: Option<String>,
    pub reasoning: Option<String>,
    pub reasoning_content: Option<String>,
    pub reasoning_details: Option<Value>,
    pub timestamp: f64,
    /// The kind of note, if a program wrote the message. Models get it like any other message.
    pub display_kind: Option<String>,
    /// The writer marked it as hidden from people.
    pub model_only: bool,
}

impl Message {
    /// The content for a model: `api_content` if it is set.
    pub fn for_model(&self) -> Option<Content> {
        self.api_content
            .clone()
            .map(Content::Text)
            .or_else(|| self.content.clone())
    }

    /// Whether only models may see it.
    pub fn is_hidden(&self) -> bool {
        self.model_only || self.display_kind.as_deref() == Some(HIDDEN)
    }

    #[cfg(test)]
    pub(crate) fn of(id: i64, role: Role, text: &str) -> Message {
        Message {
            id,
            role,
            content: Some(Content::Text(text.to_owned())),
            api_content: None,
            tool_call_id: None,
            tool_name: None,
            tool_calls: Vec::new(),
            finish_reason: None,
            reasoning: None,
            reasoning_content: None,
            reasoning_details: None,
            timestamp: 0.0,
            display_kind: None,
            model_only: false,
        }
    }

    pub fn plain(&self) -> String {
        self.content
            .as_ref()
            .map(Content::plain)
            .unwrap_or_default()
    }
}

/// The messages of a conversation, and the number of tool results that were dropped because their call is missing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transcript {
    pub messages: Vec<Message>,
    pub orphans: usize,
}

impl Transcript {
    /// Puts each tool result behind its call, and drops results without a call: models reject any other order. A call
    /// without a result stays. The caller decides about it, because models differ.
    pub fn from_rows(rows: Vec<Message>) -> Transcript {
        // Most histories are in order already and need no copy.
        if already_grouped(&rows) {
            return Transcript {
                messages: rows,
                orphans: 0,
            };
        }
        group(rows)
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

/// The ids by which a result may name a call. Some backends give a call two.
fn call_ids(message: &Message) -> impl Iterator<Item = &str> {
    message.tool_calls.iter().flat_map(|call| {
        let id = call.get("id").and_then(Value::as_str);
        let other = call
            .get("call_id")
            .and_then(Value::as_str)
            .filter(|other| Some(*other) != id);
        id.into_iter().chain(other)
    })
}

fn already_grouped(rows: &[Message]) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for row in rows {
        match row.role {
            Role::Tool => match open
                .iter()
                .position(|id| Some(*id) == row.tool_call_id.as_deref())
            {
                Some(at) => {
                    open.swap_remove(at);
                }
                None => return false,
            },
            _ => open = call_ids(row).collect(),
        }
    }
    true
}

fn group(rows: Vec<Message>) -> Transcript {
    let mut messages = Vec::with_capacity(rows.len());
    let (results, others): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|row| row.role == Role::Tool);
    let mut by_id: HashMap<String, VecDeque<Message>> = HashMap::new();
    let mut orphans = 0;
    for result in results {
        match result.tool_call_id.clone() {
            Some(id) => by_id.entry(id).or_default().push_back(result),
            None => orphans += 1,
        }
    }
    for row in others {
        let row_id = row.id;
        let ids: Vec<String> = call_ids(&row).map(str::to_owned).collect();
        messages.push(row);
        for id in ids {
            // Ids recur in long histories. The first unused result after the call belongs to it.
            let Some(queue) = by_id.get_mut(&id) else {
                continue;
            };
            while queue.front().is_some_and(|result| result.id < row_id) {
                queue.pop_front();
                orphans += 1;
            }
            messages.extend(queue.pop_front());
        }
    }
    orphans += by_id.values().map(VecDeque::len).sum::<usize>();
    Transcript { messages, orphans }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn row(id: i64, role: Role) -> Message {
        Message::of(id, role, &format!("m{id}"))
    }

    fn call(id: i64, calls: &[&str]) -> Message {
        Message {
            tool_calls: calls.iter().map(|c| json!({"id": c})).collect(),
            ..row(id, Role::Assistant)
        }
    }

    fn result(id: i64, of: &str) -> Message {
        Message {
            tool_call_id: Some(of.into()),
            ..row(id, Role::Tool)
        }
    }

    fn ids(rows: Vec<Message>) -> (Vec<i64>, usize) {
        let transcript = Transcript::from_rows(rows);
        (
            transcript.messages.iter().map(|m| m.id).collect(),
            transcript.orphans,
        )
    }

    #[test]
    fn an_ordered_history_is_left_alone() {
        let rows = vec![
            row(1, Role::User),
            call(2, &["a", "b"]),
            result(3, "b"),
            result(4, "a"),
            row(5, Role::Assistant),
        ];
        assert_eq!(ids(rows), (vec![1, 2, 3, 4, 5], 0));
    }

    #[test]
    fn a_late_result_moves_to_its_call_and_an_orphan_goes() {
        let rows = vec![
            call(1, &["a"]),
            row(2, Role::User),
            result(3, "a"),
            result(4, "gone"),
        ];
        assert_eq!(ids(rows), (vec![1, 3, 2], 1));
    }

    #[test]
    fn an_id_that_recurs_answers_once_each() {
        let rows = vec![
            call(1, &["a"]),
            row(2, Role::User),
            result(3, "a"),
            call(4, &["a"]),
            result(5, "a"),
        ];
        assert_eq!(ids(rows), (vec![1, 3, 2, 4, 5], 0));
    }

    #[test]
    fn parts_are_decoded_and_damaged_ones_stay_text() {
        let parts = Content::decode(
            "\0json:[{\"type\": \"text\", \"text\": \"hi\"}, {\"type\": \"image_url\"}]".into(),
        );
        assert_eq!(parts.plain(), "hi [image_url]");
        assert_eq!(
            Content::decode("\0json:[oops".into()),
            Content::Text("\0json:[oops".into())
        );
    }

    #[test]
    fn replayed_bytes_win_for_the_model_and_not_for_people() {
        let message = Message {
            api_content: Some("exact".into()),
            ..row(1, Role::User)
        };
        assert_eq!(message.for_model(), Some(Content::Text("exact".into())));
        assert_eq!(message.plain(), "m1");
    }

    proptest! {
        /// Every result follows its call, with only results between them, for any order of rows.
        #[test]
        fn results_always_follow_their_calls(kinds in prop::collection::vec(0u8..4, 0..24)) {
            let rows: Vec<Message> = kinds.iter().enumerate().map(|(i, kind)| {
                let id = i as i64 + 1;
                match kind {
                    0 => row(id, Role::User),
                    1 => call(id, &["a"]),
                    2 => call(id, &["a", "b"]),
                    _ => result(id, if i % 2 == 0 { "a" } else { "b" }),
                }
            }).collect();
            let total = rows.len();
            let transcript = Transcript::from_rows(rows);
            prop_assert_eq!(transcript.messages.len() + transcript.orphans, total);
            let mut open: Vec<String> = Vec::new();
            for message in &transcript.messages {
                if message.role == Role::Tool {
                    let id = message.tool_call_id.clone().unwrap();
                    let at = open.iter().position(|o| *o == id);
                    prop_assert!(at.is_some(), "a result without an open call");
                    open.remove(at.unwrap());
                } else {
                    open = call_ids(message).map(str::to_owned).collect();
                }
            }
        }
    }
}
