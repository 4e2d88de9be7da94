//! Builds the request from a transcript: roles, tool calls and results, reasoning, and replayed content unchanged.
//! Corrects what every endpoint would refuse. The stored transcript stays as it is.

use serde_json::{Map, Value, json};

use super::parts;
use crate::agent::Prompt;
use crate::domain::transcript::{Content, Message, Role};

/// The result of a tool call that has none.
const NO_RESULT: &str = "(interrupted: there is no result)";
/// An estimate of the bytes per token. It is low, so that too much is left out rather than too little.
const BYTES_A_TOKEN: usize = 3;
/// One part in this many of the context is reserved for the reply.
const FOR_THE_REPLY: usize = 4;
/// An estimate of a picture's share of the context, in bytes of text. Its file size does not matter.
const IMAGE: usize = 1500 * BYTES_A_TOKEN;

pub(super) struct Request {
    body: Value,
    /// The number of messages in the history.
    pub(super) history: usize,
    /// The number of messages that were left out.
    pub(super) cut: usize,
}

impl Request {
    /// `along` has the content parts of the attachments.
    pub(super) fn new(
        prompt: &Prompt<'_>,
        along: Vec<Value>,
        model: &str,
        context: usize,
    ) -> Request {
        let mut system = Vec::new();
        let has_system = |m: &&Message| m.role == Role::System;
        let own = prompt.transcript.messages.iter().find(has_system);
        if let (None, Some(text)) = (own, &prompt.session.system_prompt) {
            system.push(json!({"role": "system", "content": text}));
        }
        let (leading, rest): (Vec<&Message>, Vec<&Message>) = prompt
            .transcript
            .messages
            .iter()
            .partition(|m| m.role == Role::System);
        system.extend(leading.into_iter().map(message));
        let mut exchanges = exchanges(&rest);
        let mut words = json!({"role": "user", "content": prompt.message});

        let room =
            (context * BYTES_A_TOKEN).saturating_sub(context * BYTES_A_TOKEN / FOR_THE_REPLY);
        let mut fixed = size(&system) + size(std::slice::from_ref(&words));
        // The message only names an attachment that does not fit.
        let fits = |part: &Value| {
            let more = part["text"].as_str().map_or(IMAGE, str::len);
            let fits = fixed + more <= room;
            fixed += if fits { more } else { 0 };
            fits
        };
        let along: Vec<Value> = along.into_iter().filter(fits).collect();
        if !along.is_empty() {
            let mut content = vec![parts::text(prompt.message)];
            content.extend(along);
            words["content"] = Value::Array(content);
        }
        let history = exchanges.iter().map(Vec::len).sum();
        let cut = cut(&mut exchanges, room.saturating_sub(fixed));
        let mut messages = system;
        messages.extend(exchanges.into_iter().flatten());
        messages.push(words);
        Request {
            body: json!({
                "model": model,
                "messages": messages,
                "stream": true,
                "stream_options": {"include_usage": true},
            }),
            history,
            cut,
        }
    }

    pub(super) fn body(&self) -> &Value {
        &self.body
    }

    /// Removes the fields that some endpoints refuse. Returns false if there were none.
    pub(super) fn simplify(&mut self) -> bool {
        let Some(body) = self.body.as_object_mut() else {
            return false;
        };
        let mut simpler = body.remove("stream_options").is_some();
        let messages = body.get_mut("messages").and_then(Value::as_array_mut);
        for message in messages.into_iter().flatten() {
            if let Some(message) = message.as_object_mut() {
                for name in ["reasoning_content", "reasoning_details"] {
                    simpler |= message.remove(name).is_some();
                }
            }
        }
        simpler
    }

    /// Whether it contains more than text.
    pub(super) fn has_parts(&self) -> bool {
        let messages = self.body["messages"].as_array();
        let mut messages = messages.into_iter().flatten();
        messages.any(|message| message["content"].is_array())
    }

    /// Reduces all messages to text. The text of a message names its pictures.
    pub(super) fn put_in_words(&mut self) {
        let messages = self.body["messages"].as_array_mut();
        for message in messages.into_iter().flatten() {
            if let Some(parts) = message["content"].as_array() {
                let words = match parts::words(parts) {
                    words if words.is_empty() => "[image]".to_owned(),
                    words => words,
                };
                message["content"] = json!(words);
            }
        }
    }
}

/// Splits the history into exchanges: a person's message with all answers to it. A call and its results stay together.
fn exchanges(messages: &[&Message]) -> Vec<Vec<Value>> {
    let mut all: Vec<Vec<Value>> = Vec::new();
    let mut calls: &[Value] = &[];
    for (at, one) in messages.iter().enumerate() {
        if one.role == Role::User || all.is_empty() {
            all.push(Vec::new());
        }
        let Some(exchange) = all.last_mut() else {
            continue;
        };
        let mut wire = message(one);
        match &one.tool_call_id {
            // Some calls have two ids. The endpoint gets the first one, whichever the result has.
            Some(id) if one.role == Role::Tool => {
                let call = calls.iter().find(|call| ids(call).any(|known| known == id));
                if let Some(first) = call.and_then(|call| ids(call).next()) {
                    wire["tool_call_id"] = json!(first);
                }
            }
            _ => calls = &one.tool_calls,
        }
        exchange.push(wire);
        // Results directly follow their call. A call without a result there has none.
        let answered: Vec<&str> = messages[at + 1..]
            .iter()
            .take_while(|m| m.role == Role::Tool)
            .filter_map(|m| m.tool_call_id.as_deref())
            .collect();
        let missing = one.tool_calls.iter().filter_map(|call| {
            let has_result = ids(call).any(|id| answered.contains(&id));
            ids(call).next().filter(|_| !has_result)
        });
        exchange.extend(
            missing.map(|id| json!({"role": "tool", "tool_call_id": id, "content": NO_RESULT})),
        );
    }
    all
}

/// Removes the oldest exchanges until the rest fits. Returns the number of removed messages.
fn cut(exchanges: &mut Vec<Vec<Value>>, room: usize) -> usize {
    let mut sizes: usize = exchanges.iter().map(|exchange| size(exchange)).sum();
    let mut first = 0;
    while sizes > room && first < exchanges.len() {
        sizes -= size(&exchanges[first]);
        first += 1;
    }
    exchanges
        .drain(..first)
        .map(|exchange| exchange.len())
        .sum()
}

fn size(messages: &[Value]) -> usize {
    messages
        .iter()
        .map(|message| message.to_string().len())
        .sum()
}

fn message(message: &Message) -> Value {
    let mut wire = Map::new();
    wire.insert("role".into(), json!(message.role.as_str()));
    let content = match message.for_model() {
        Some(Content::Text(text)) => json!(text),
        Some(Content::Parts(parts)) => json!(parts),
        // Endpoints require the key. It may be null only in a message with tool calls.
        None if message.tool_calls.is_empty() => json!(""),
        None => Value::Null,
    };
    wire.insert("content".into(), content);
    if !message.tool_calls.is_empty() {
        wire.insert(
            "tool_calls".into(),
            message.tool_calls.iter().map(call).collect(),
        );
    }
    if let Some(id) = &message.tool_call_id {
        wire.insert("tool_call_id".into(), json!(id));
    }
    if message.role == Role::Assistant {
        if let Some(thought) = message.reasoning_content.as_ref().filter(|t| !t.is_empty()) {
            wire.insert("reasoning_content".into(), json!(thought));
        }
        if let Some(details) = &message.reasoning_details {
            wire.insert("reasoning_details".into(), details.clone());
        }
    }
    Value::Object(wire)
}

/// The ids of a call. The endpoint gets the first.
fn ids(call: &Value) -> impl Iterator<Item = &str> {
    ["id", "call_id"]
        .into_iter()
        .filter_map(|name| call.get(name)?.as_str())
}

/// Reduces a call to the fields of the interface: backends store fields of their own in it.
fn call(call: &Value) -> Value {
    json!({
        "id": ids(call).next(),
        "type": "function",
        "function": {
            "name": call["function"]["name"],
            "arguments": call["function"]["arguments"],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Session;
    use crate::domain::transcript::Transcript;

    fn row(id: i64, role: Role, text: &str) -> Message {
        Message::of(id, role, text)
    }

    fn request_along(messages: Vec<Message>, along: Vec<Value>, context: usize) -> Request {
        let session = Session {
            system_prompt: Some("Be kind.".into()),
            ..Session::unsaved("s", 0.0)
        };
        let transcript = Transcript::from_rows(messages);
        let prompt = Prompt {
            session: &session,
            transcript: &transcript,
            message: "And now?",
            attachments: &[],
            handoff: false,
        };
        Request::new(&prompt, along, "m", context)
    }

    fn request(messages: Vec<Message>, context: usize) -> Request {
        request_along(messages, Vec::new(), context)
    }

    #[test]
    fn what_was_said_is_replayed_as_it_was() {
        let calling = Message {
            content: None,
            tool_calls: vec![
                json!({"id": "c1", "call_id": "x", "response_item_id": "fc", "type": "function",
                                    "function": {"name": "ls", "arguments": "{}"}}),
            ],
            reasoning: Some("hm".into()),
            reasoning_content: Some("I look.".into()),
            reasoning_details: Some(json!([{"type": "t"}])),
            ..row(2, Role::Assistant, "")
        };
        let result = Message {
            tool_call_id: Some("c1".into()),
            tool_name: Some("ls".into()),
            ..row(3, Role::Tool, "a.txt")
        };
        let replayed = Message {
            api_content: Some("exact bytes".into()),
            ..row(1, Role::User, "shown")
        };
        let mut request = request(
            vec![replayed, calling, result, row(4, Role::Assistant, "One.")],
            100_000,
        );
        assert_eq!(
            request.body()["messages"],
            json!([
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": "exact bytes"},
                {"role": "assistant", "content": null,
                 "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
                 "reasoning_content": "I look.", "reasoning_details": [{"type": "t"}]},
                {"role": "tool", "content": "a.txt", "tool_call_id": "c1"},
                {"role": "assistant", "content": "One."},
                {"role": "user", "content": "And now?"},
            ])
        );
        assert!(request.simplify() && !request.simplify());
        assert!(!request.body().to_string().contains("reasoning"));
    }

    #[test]
    fn a_call_that_nobody_answered_gets_an_answer_in_the_request() {
        let calling = Message {
            tool_calls: vec![
                json!({"id": "c1", "function": {"name": "a", "arguments": ""}}),
                json!({"id": "c2", "function": {"name": "b", "arguments": ""}}),
            ],
            ..row(2, Role::Assistant, "wait")
        };
        let result = Message {
            tool_call_id: Some("c2".into()),
            ..row(3, Role::Tool, "done")
        };
        let request = request(vec![row(1, Role::User, "go"), calling, result], 100_000);
        let messages = request.body()["messages"].as_array().unwrap().clone();
        let ids: Vec<&str> = messages
            .iter()
            .filter_map(|m| m["tool_call_id"].as_str())
            .collect();
        assert_eq!(ids.len(), 2);
        assert!(ids.contains(&"c1") && ids.contains(&"c2"));
        assert_eq!(messages.last().unwrap()["content"], "And now?");
    }

    #[test]
    fn a_history_that_is_too_long_loses_whole_exchanges_from_the_oldest() {
        let long = |id| row(id, Role::Assistant, &"x".repeat(3000));
        let rows = vec![
            row(1, Role::User, "one"),
            long(2),
            row(3, Role::User, "two"),
            long(4),
            row(5, Role::User, "three"),
            long(6),
        ];
        let request = request(rows, 3200);
        assert_eq!(request.cut, 2);
        let messages = request.body()["messages"].as_array().unwrap();
        assert_eq!(messages[0]["role"], "system");
        assert_eq!(messages[1]["content"], "two");
    }

    fn image() -> Value {
        let url = format!("data:image/png;base64,{}", "A".repeat(100_000));
        json!({"type": "image_url", "image_url": {"url": url}})
    }

    #[test]
    fn what_goes_along_makes_a_list_of_the_last_message_and_can_be_put_in_words() {
        let pictured = Message {
            content: Some(Content::Parts(vec![image()])),
            ..row(1, Role::User, "")
        };
        let along = vec![parts::text("The file a.txt:\n\nx"), image()];
        let mut request = request_along(vec![pictured], along, 100_000);
        let content =
            |request: &Request, at: usize| request.body()["messages"][at]["content"].clone();
        assert_eq!(
            content(&request, 2),
            json!([
                {"type": "text", "text": "And now?"},
                {"type": "text", "text": "The file a.txt:\n\nx"},
                image(),
            ])
        );
        assert!(request.has_parts());
        request.put_in_words();
        assert!(!request.has_parts());
        assert_eq!(content(&request, 0), "Be kind.");
        assert_eq!(content(&request, 1), "[image]");
        assert_eq!(content(&request, 2), "And now?\n\nThe file a.txt:\n\nx");
    }

    #[test]
    fn a_picture_costs_what_it_is_to_the_model_and_a_file_that_does_not_fit_stays_words() {
        let along = vec![
            image(),
            parts::text(&"x".repeat(60_000)),
            parts::text("short"),
        ];
        let request = request_along(vec![row(1, Role::User, "one")], along, 4000);
        let messages = request.body()["messages"].as_array().unwrap();
        assert_eq!(
            (request.cut, messages.len()),
            (0, 3),
            "the history is all there"
        );
        assert_eq!(
            messages[2]["content"],
            json!([{"type": "text", "text": "And now?"}, image(), {"type": "text", "text": "short"}])
        );
        // Without any room, the attachment is left out.
        let request = request_along(Vec::new(), vec![image()], 100);
        assert_eq!(request.body()["messages"][1]["content"], "And now?");
    }
}
