//! What the line editor shows around the typed text: completions, and the mark of the prompt.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::editor::locked;
use crate::domain::slash_command::{self, Place};

/// The prompt while a question is open, and while no daemon answers. They are as wide as the usual one, because the line
/// editor measures that one.
const ASKED_PROMPT: &str = "? ";
const WAITING_PROMPT: &str = "… ";

/// The words that Tab offers.
#[derive(Debug, Clone, Default)]
pub(super) struct Offers {
    /// Platforms that a handoff can go to.
    pub(super) platforms: Vec<String>,
    /// Titles and ids of sessions.
    pub(super) sessions: Vec<String>,
}

/// What the prompt says.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum PromptMark {
    #[default]
    Usual,
    /// A question of the agent is open.
    Asked,
    /// No daemon answers.
    Waiting,
}

/// Completes commands, the platforms of `/handoff` and the sessions of `/resume`.
pub(super) struct Completing(
    pub(super) Arc<Mutex<Offers>>,
    pub(super) Arc<Mutex<PromptMark>>,
);

impl Completer for Completing {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(&line[..at], &locked(&self.0)))
    }
}

impl Hinter for Completing {
    type Hint = String;
}
impl Highlighter for Completing {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        default: bool,
    ) -> Cow<'b, str> {
        match *locked(&self.1) {
            PromptMark::Asked if default => Cow::Borrowed(ASKED_PROMPT),
            PromptMark::Waiting if default => Cow::Borrowed(WAITING_PROMPT),
            _ => Cow::Borrowed(prompt),
        }
    }
}
impl Validator for Completing {}
impl Helper for Completing {}

/// The start of the word to complete, and its candidates.
fn complete(typed: &str, offers: &Offers) -> (usize, Vec<String>) {
    let (start, words) = match typed.split_once(' ') {
        None => (0, slash_command::words(Place::Terminal)),
        Some(("/handoff", _)) => (9, offers.platforms.clone()),
        Some(("/resume", _)) => (8, offers.sessions.clone()),
        Some(_) => return (0, Vec::new()),
    };
    let begun = &typed[start..];
    let fits = |word: &String| word.starts_with(begun) && typed.starts_with('/');
    (start, words.into_iter().filter(fits).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tab_completes_commands_platforms_and_sessions() {
        let offers = Offers {
            platforms: vec!["local".into(), "telegram".into()],
            sessions: vec!["Fix the parser".into()],
        };
        let all = |typed| complete(typed, &offers);
        assert_eq!(all("/ha"), (0, vec!["/handoff ".to_owned()]));
        assert_eq!(all("/handoff t"), (9, vec!["telegram".to_owned()]));
        assert_eq!(all("/handoff ").1.len(), 2);
        assert_eq!(all("/resume Fix t"), (8, vec!["Fix the parser".to_owned()]));
        assert_eq!(all("hello /ha").1, Vec::<String>::new());
        assert_eq!(all("").1, Vec::<String>::new());
    }
}
