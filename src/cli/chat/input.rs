//! Reads lines from a person with a line editor, or from a pipe.

use std::io::IsTerminal;

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use super::completing::{Offers, PromptMark};
use super::editor::{Editor, InputEvent, Listener};
use crate::cli::output::Output;
use crate::client::Client;
use crate::protocol::{Call, Nothing, PlatformView, SessionList, SessionView};

/// The number of sessions that Tab offers.
const OFFERED: usize = 50;

pub(super) enum Input {
    Person(Editor),
    Pipe(Lines<BufReader<Stdin>>),
}

/// Whether both input and output are a terminal.
pub(in crate::cli) fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

impl Input {
    pub(super) fn open(out: &Output) -> Input {
        if is_terminal() && !out.is_json() {
            Input::Person(Editor::start())
        } else {
            Input::Pipe(BufReader::new(tokio::io::stdin()).lines())
        }
    }

    pub(super) fn is_interactive(&self) -> bool {
        matches!(self, Input::Person(_))
    }

    /// Asks the daemon for the words that Tab offers.
    pub(super) async fn offer(&self, client: &Client) {
        let Input::Person(editor) = self else { return };
        let platforms: Vec<PlatformView> = client
            .call(Call::PlatformList(Nothing {}))
            .await
            .unwrap_or_default();
        let wish = SessionList {
            limit: Some(OFFERED),
            ..SessionList::default()
        };
        let sessions: Vec<SessionView> = client
            .call(Call::SessionList(wish))
            .await
            .unwrap_or_default();
        editor.offer(Offers {
            platforms: platforms
                .into_iter()
                .filter(|p| p.state == "up" && p.home_channel.is_some())
                .map(|p| p.name)
                .collect(),
            sessions: sessions
                .into_iter()
                .flat_map(|s| s.title.into_iter().chain([s.id]))
                .collect(),
        });
    }

    pub(super) async fn line(&mut self) -> InputEvent {
        match self {
            Input::Person(editor) => editor.line().await,
            Input::Pipe(lines) => match lines.next_line().await {
                Ok(Some(line)) => InputEvent::Line(line),
                Ok(None) | Err(_) => InputEvent::End,
            },
        }
    }

    /// The next line that a person types during a turn, with a prompt if the agent has `asked` a question. A pipe is
    /// not read during a turn, unless the agent has asked.
    pub(super) async fn typed_during_turn(&mut self, asked: bool) -> InputEvent {
        match self {
            Input::Person(editor) if asked => editor.typed(Listener::Answer).await,
            Input::Pipe(_) if asked => self.line().await,
            Input::Person(editor) => editor.typed(Listener::Ahead).await,
            Input::Pipe(_) => std::future::pending().await,
        }
    }

    /// The next line that a person types while no daemon answers. The prompt stays if it is there. A pipe is not read.
    pub(super) async fn typed_meanwhile(&mut self) -> InputEvent {
        match self {
            Input::Person(editor) if editor.is_editing() => editor.line().await,
            Input::Person(editor) => editor.typed(Listener::Ahead).await,
            Input::Pipe(_) => std::future::pending().await,
        }
    }

    /// Whether the prompt is on the screen.
    pub(super) fn is_prompting(&self) -> bool {
        matches!(self, Input::Person(editor) if editor.is_editing())
    }

    /// Whether the next line answers the open question.
    pub(super) fn is_answering(&self) -> bool {
        matches!(self, Input::Person(editor) if editor.is_answering())
    }

    /// Prints lines above the prompt. Returns false if there is no prompt.
    pub(super) fn print_above(&self, lines: &str) -> bool {
        matches!(self, Input::Person(editor) if editor.print_above(lines))
    }

    pub(super) fn mark(&self, mark: PromptMark) {
        if let Input::Person(editor) = self {
            editor.mark(mark);
        }
    }
}
