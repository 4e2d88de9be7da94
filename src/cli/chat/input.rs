//! Where lines come from: a person with a line editor, or a pipe.

use std::io::IsTerminal;

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use super::editor::{Editor, Heard, Offers};
use crate::cli::output::Output;
use crate::client::Client;
use crate::protocol::{Call, Nothing, PlatformView, SessionList, SessionView};

/// How many sessions Tab offers.
const OFFERED: usize = 50;

pub(super) enum Input {
    Person(Editor),
    Pipe(Lines<BufReader<Stdin>>),
}

/// Whether somebody sits at both ends.
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

    /// Asks the daemon what Tab is to offer.
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

    pub(super) async fn line(&mut self) -> Heard {
        match self {
            Input::Person(editor) => editor.line().await,
            Input::Pipe(lines) => match lines.next_line().await {
                Ok(Some(line)) => Heard::Line(line),
                Ok(None) | Err(_) => Heard::End,
            },
        }
    }

    /// What a person types while an answer comes; with a prompt when the agent waits for it. A pipe waits for its turn.
    pub(super) async fn hear(&mut self, asked: bool) -> Heard {
        match self {
            _ if asked => self.line().await,
            Input::Person(editor) => editor.typed().await,
            Input::Pipe(_) => std::future::pending().await,
        }
    }
}
