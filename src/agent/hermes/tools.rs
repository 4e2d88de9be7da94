//! Collects what Hermes reports about its tools: a begin, and an end with the time that it took.

use std::collections::HashMap;

use serde_json::Value;

use crate::domain::{ToolReport, ToolState};

/// The limit of remembered tools: a backend that never ends them must not fill our memory.
const MOST_TOOLS: usize = 256;

/// The tools of a turn that have not ended, with what they work on. Hermes says that only at the begin.
#[derive(Default)]
pub(super) struct Tools(HashMap<String, String>);

impl Tools {
    /// `None` if the event is about something else.
    pub(super) fn receive(&mut self, kind: &str, payload: &Value) -> Option<ToolReport> {
        let text = |name: &str| payload[name].as_str().unwrap_or_default();
        let (id, name) = (text("tool_id"), text("name"));
        match kind {
            "tool.start" => {
                let what = text("context");
                if self.0.len() < MOST_TOOLS {
                    self.0.insert(id.to_owned(), what.to_owned());
                }
                Some(ToolReport::new(id, name, what, ToolState::Running))
            }
            "tool.complete" => {
                let what = self.0.remove(id).unwrap_or_default();
                let what = Some(what).filter(|what| !what.is_empty());
                let what = what.unwrap_or_else(|| text("summary").to_owned());
                let state = match payload["error"].is_null() {
                    true => ToolState::Completed,
                    false => ToolState::Failed,
                };
                let mut report = ToolReport::new(id, name, &what, state);
                report.took = payload["duration_s"].as_f64();
                Some(report)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_end_of_a_tool_says_what_it_worked_on_and_how_long() {
        let mut tools = Tools::default();
        let begin = json!({"tool_id": "1", "name": "terminal", "context": "ls -l\nx"});
        let begun = tools.receive("tool.start", &begin).unwrap();
        assert_eq!(
            (begun.state, begun.what.as_str()),
            (ToolState::Running, "ls -l x")
        );
        let end = json!({"tool_id": "1", "name": "terminal", "duration_s": 0.5});
        let ended = tools.receive("tool.complete", &end).unwrap();
        assert_eq!((ended.state, ended.took), (ToolState::Completed, Some(0.5)));
        assert_eq!(ended.what, "ls -l x");
        assert_eq!(tools.receive("thinking.delta", &json!({})), None);
    }
}
