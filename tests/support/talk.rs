//! Words in a terminal and in the embedded chat, with the built hermesctl.

use serde_json::Value;

use super::Home;

/// A conversation that has ended: its session, and what became of each line.
#[derive(Debug)]
pub struct Talk {
    pub session: String,
    pub turns: Vec<Value>,
}

impl Talk {
    pub fn replies(&self) -> Vec<&str> {
        let turns = self.turns.iter();
        turns
            .map(|turn| turn["reply"].as_str().expect("a reply"))
            .collect()
    }

    /// Why a line has no answer.
    pub fn error(&self, at: usize) -> &str {
        let error = &self.turns[at]["error"];
        error
            .as_str()
            .unwrap_or_else(|| panic!("no error: {self:?}"))
    }
}

impl Home {
    /// Says lines in `hermesctl chat`; without flags in a session of their own.
    pub fn talk(&self, flags: &[&str], lines: &str) -> Talk {
        let ran = self
            .pipe_into_hermesctl(lines, &[&["--json", "chat"], flags].concat())
            .end();
        // 4 tells that a line got no answer, which the turns tell too.
        assert!([0, 4].contains(&ran.code), "{ran:?}");
        let mut values = ran.stdout.lines().map(|line| {
            serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e} in {ran:?}"))
        });
        let opened = values.next().expect("a session");
        Talk {
            session: opened["session"]["id"].as_str().expect("an id").to_owned(),
            turns: values.collect(),
        }
    }

    /// Types lines into a place of the embedded platform and returns all that the agent's side has said there by the end.
    pub fn type_into(&self, place: &str, lines: &str) -> Vec<String> {
        let ran = self
            .pipe_into_hermesctl(lines, &["--json", "attach", place])
            .end();
        assert_eq!(ran.code, 0, "{ran:?}");
        let messages = ran
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let said = messages.filter(|m| m["author"] == "agent");
        said.map(|m| m["text"].as_str().expect("text").to_owned())
            .collect()
    }
}
