//! Collects what an agent reports about its tool calls, and shows it to the person who is asked for permission.

use std::collections::HashMap;
use std::time::Instant;

use agent_client_protocol::v1::schema::{
    ContentBlock, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};

use super::diff;
use crate::domain::{QuestionPart, ToolReport, ToolState};

/// The limit of remembered calls: an agent that never ends its calls must not fill our memory.
const MOST_CALLS: usize = 256;

/// The calls of a turn that have not ended. A request for permission may contain only the id of a call that was
/// described before.
#[derive(Default)]
pub(super) struct Calls(HashMap<String, (ToolCallUpdateFields, Instant)>);

impl Calls {
    /// Returns what a person may see of it: the begin of a call, and its end.
    pub(super) fn receive(&mut self, update: ToolCallUpdate) -> Option<ToolReport> {
        let id = update.tool_call_id.0.to_string();
        let state = match update.fields.status {
            Some(ToolCallStatus::Completed) => ToolState::Completed,
            Some(ToolCallStatus::Failed) => ToolState::Failed,
            _ => ToolState::Running,
        };
        let known = self.0.remove(&id);
        let (since, is_new) = (known.as_ref().map(|(_, since)| *since), known.is_none());
        let fields = merged(
            known.map(|(fields, _)| fields).unwrap_or_default(),
            update.fields,
        );
        let mut report = report(&id, &fields, state);
        if state != ToolState::Running {
            report.took = since.map(|since| since.elapsed().as_secs_f64());
            return Some(report);
        }
        if self.0.len() < MOST_CALLS {
            self.0
                .insert(id, (fields, since.unwrap_or_else(Instant::now)));
        }
        is_new.then_some(report)
    }

    /// Everything known about the call that a request refers to.
    pub(super) fn about(&self, request: &ToolCallUpdate) -> ToolCallUpdateFields {
        let known = self.0.get(&*request.tool_call_id.0);
        let known = known.map(|(fields, _)| fields.clone());
        merged(known.unwrap_or_default(), request.fields.clone())
    }
}

fn merged(known: ToolCallUpdateFields, new: ToolCallUpdateFields) -> ToolCallUpdateFields {
    let mut fields = ToolCallUpdateFields::default();
    fields.kind = new.kind.or(known.kind);
    fields.title = new.title.or(known.title);
    fields.name = new.name.or(known.name);
    fields.content = new.content.or(known.content);
    fields.locations = new.locations.or(known.locations);
    fields.raw_input = new.raw_input.or(known.raw_input);
    fields
}

fn report(id: &str, call: &ToolCallUpdateFields, state: ToolState) -> ToolReport {
    let kind = call.kind.and_then(|kind| serde_json::to_value(kind).ok());
    let kind = kind.as_ref().and_then(|kind| kind.as_str());
    let kind = kind.filter(|kind| *kind != "other");
    let name = call.name.as_deref().or(kind).unwrap_or("tool");
    let place = call.locations.iter().flatten().next();
    let place = place.map(|place| place.path.display().to_string());
    let title = call.title.as_deref().filter(|title| *title != name);
    let what = title.or(place.as_deref()).unwrap_or_default();
    ToolReport::new(id, name, what, state)
}

/// The subject of the question: the whole call, verbatim.
pub(super) fn subject(call: &ToolCallUpdateFields) -> Vec<QuestionPart> {
    let kind = call.kind.and_then(|kind| serde_json::to_value(kind).ok());
    let kind = kind.and_then(|kind| Some(format!("Tool ({})", kind.as_str()?)));
    let title = match (&call.title, &call.name) {
        (Some(title), Some(name)) if title != name => Some(format!("{title}\n{name}")),
        (title, name) => title.clone().or_else(|| name.clone()),
    };
    let title = title.unwrap_or_else(|| "(the agent does not name it)".to_owned());
    let mut parts = vec![QuestionPart::new(
        kind.unwrap_or_else(|| "Tool".to_owned()),
        title,
    )];
    let input = call.raw_input.as_ref().filter(|input| !input.is_null());
    parts.extend(input.map(|input| QuestionPart::new("Input", in_words(input))));
    for content in call.content.iter().flatten() {
        parts.push(match content {
            ToolCallContent::Diff(diff) => {
                let path = diff.path.display().to_string();
                let old = diff.old_text.as_deref();
                QuestionPart::new("Change", diff::unified(&path, old, &diff.new_text))
            }
            ToolCallContent::Content(content) => match &content.content {
                ContentBlock::Text(text) => QuestionPart::new("Content", text.text.as_str()),
                other => QuestionPart::new("Content", json(other)),
            },
            other => QuestionPart::new("Content", json(other)),
        });
    }
    let places = call.locations.iter().flatten();
    let places: Vec<String> = places
        .map(|place| match place.line {
            Some(line) => format!("{}:{line}", place.path.display()),
            None => place.path.display().to_string(),
        })
        .collect();
    if !places.is_empty() {
        parts.push(QuestionPart::new("Files", places.join("\n")));
    }
    parts
}

fn in_words(input: &serde_json::Value) -> String {
    match input {
        serde_json::Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}

fn json(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value);
    value.map_or_else(|error| error.to_string(), |value| in_words(&value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn update(value: serde_json::Value) -> ToolCallUpdate {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_request_is_about_all_that_was_said_of_its_call() {
        let mut calls = Calls::default();
        calls.receive(update(json!({
            "toolCallId": "1", "title": "Edit", "kind": "edit", "rawInput": {"path": "/a"},
        })));
        calls.receive(update(json!({
            "toolCallId": "1",
            "content": [{"type": "diff", "path": "/a", "oldText": "x\n", "newText": "y\n"}],
        })));
        let request = update(json!({"toolCallId": "1", "title": "Edit a"}));
        let parts = subject(&calls.about(&request));
        let expected = [
            ("Tool (edit)", "Edit a"),
            ("Input", "{\n  \"path\": \"/a\"\n}"),
            ("Change", "--- /a\n+++ /a\n@@ -1,1 +1,1 @@\n-x\n+y"),
        ];
        assert_eq!(
            parts,
            expected.map(|(label, text)| QuestionPart::new(label, text))
        );
        calls.receive(update(json!({"toolCallId": "1", "status": "completed"})));
        let bare = update(json!({"toolCallId": "1"}));
        let parts = subject(&calls.about(&bare));
        assert_eq!(
            parts,
            [QuestionPart::new("Tool", "(the agent does not name it)")]
        );
    }
}
