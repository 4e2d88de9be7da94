//! Performs the slash commands of a terminal.

use super::editor::InputEvent;
use super::{Chat, Next, Sent};
use crate::cli::handoff::{self, WaitLimits};
use crate::cli::{CliError, sessions};
use crate::domain::TERMINAL_SOURCES;
use crate::domain::slash_command::{self, Command, Place};
use crate::protocol::{
    Call, ChatView, HandoffRequest, HandoffView, ResumedView, SessionName, SessionRename,
    SessionResume, SessionView,
};

/// The number of sessions that /sessions lists.
const LISTED: usize = 10;

impl Chat<'_> {
    pub(super) async fn perform(&mut self, command: Command, rest: &str) -> Result<Next, CliError> {
        match command {
            // The parser refuses these in a terminal.
            Command::Retry | Command::Status | Command::Sethome => {}
            Command::Help => self.out.line(slash_command::help(Place::Terminal))?,
            Command::Quit => return Ok(Next::Leave),
            // This runs between turns only.
            Command::Stop => self.out.line("There is nothing to stop.")?,
            Command::Handoff => return self.hand_off(rest).await,
            Command::Sessions => {
                sessions::list(self.backend.as_ref(), self.out, None, false, LISTED).await?;
            }
            Command::Title => self.title(rest).await?,
            Command::New => self.open(None).await?,
            Command::Resume => self.resume(rest).await?,
        }
        Ok(Next::Continue)
    }

    async fn hand_off(&mut self, rest: &str) -> Result<Next, CliError> {
        let (platform, note) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if platform.is_empty() {
            self.out
                .line("Name a platform: /handoff PLATFORM. Tab lists the platforms that are up.")?;
            return Ok(Next::Continue);
        }
        let wish = HandoffRequest {
            platform: platform.to_owned(),
            session: Some(self.session.id.clone()),
            note: Some(note.trim().to_owned()).filter(|note| !note.is_empty()),
            ..HandoffRequest::default()
        };
        let backend = self.backend.clone();
        let client = backend.daemon()?;
        let call = Call::HandoffRequest(wish.clone());
        let asked: HandoffView = match client.call(call).await.map_err(CliError::from) {
            Err(CliError::Refused { kind, message, .. })
                if kind == handoff::CHAT_TAKEN && self.input.is_interactive() =>
            {
                let question = handoff::replace_question(&message);
                if !self.agrees(&question).await? {
                    return Err(handoff::not_replaced());
                }
                let replace = true;
                let wish = HandoffRequest { replace, ..wish };
                client.call(Call::HandoffRequest(wish)).await?
            }
            asked => asked?,
        };
        let id = asked.id;
        let followed = handoff::follow(client, self.config, self.out, asked, WaitLimits::default());
        tokio::select! {
            outcome = followed => outcome.map(|()| Next::Leave),
            sent = self.signals.next() => match sent {
                Sent::Interrupt => {
                    self.out.line(format!(
                        "The handoff continues in the background. `hermesctl handoffs cancel {id}` cancels it."
                    ))?;
                    Ok(Next::Continue)
                }
                Sent::End(ended) => self.end_by(ended).await,
            },
        }
    }

    /// Asks a question whose default is no.
    async fn agrees(&mut self, question: &str) -> Result<bool, CliError> {
        loop {
            tokio::select! {
                event = self.input.typed_during_turn(true) => match event {
                    InputEvent::Answering => self.out.ask(&format!("{question} [y/N] "))?,
                    InputEvent::TypedAhead(line) => self.queued.push_back(line),
                    InputEvent::Line(line) => {
                        let line = line.trim().to_lowercase();
                        return Ok(matches!(line.as_str(), "y" | "yes"));
                    }
                    InputEvent::Interrupt | InputEvent::End => return Ok(false),
                },
                sent = self.signals.next() => match sent {
                    Sent::Interrupt => {
                        self.out.line("")?;
                        return Ok(false);
                    }
                    Sent::End(ended) => return Err(CliError::Reported { code: ended.code() }),
                },
            }
        }
    }

    async fn title(&mut self, title: &str) -> Result<(), CliError> {
        if title.is_empty() {
            return match &self.session.title {
                Some(title) => self.out.line(format!("This is \"{title}\".")),
                None => self
                    .out
                    .line("This session has no title. /title TEXT sets one."),
            };
        }
        let wish = SessionRename {
            session: self.session.id.clone(),
            title: title.to_owned(),
        };
        let session: SessionView = self
            .backend
            .daemon()?
            .call(Call::SessionRename(wish))
            .await?;
        self.session = session;
        let name = self.session.title.as_deref().unwrap_or(&self.session.id);
        self.out.line(format!("This is \"{name}\" now."))
    }

    async fn resume(&mut self, name: &str) -> Result<(), CliError> {
        let session = if name.is_empty() {
            let wish = SessionResume {
                session: self.away().await?,
            };
            let call = Call::SessionResume(wish);
            let resumed: ResumedView = self.backend.daemon()?.call(call).await?;
            if let Some(platform) = &resumed.came_from {
                self.out.line(format!("Brought back from {platform}."))?;
            }
            resumed.session.id
        } else {
            name.to_owned()
        };
        self.open(Some(session)).await
    }

    /// The session of this terminal, if it is in a chat now.
    async fn away(&self) -> Result<Option<String>, CliError> {
        let name = SessionName {
            session: self.session.id.clone(),
        };
        let shown = self.backend.daemon()?.call(Call::SessionShow(name)).await;
        match shown.map_err(CliError::from) {
            Ok::<SessionView, _>(session) => {
                let is_away = !TERMINAL_SOURCES.contains(&session.source.as_str());
                Ok(is_away.then_some(session.id))
            }
            // A session without a message has no row.
            Err(CliError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Continues with another session. The present one ends.
    async fn open(&mut self, session: Option<String>) -> Result<(), CliError> {
        let wish = super::opening(session)?;
        self.wish = wish.clone();
        let opened: ChatView = self.backend.daemon()?.call(Call::ChatOpen(wish)).await?;
        self.session = opened.session.clone();
        self.spoken = opened.resumed;
        self.welcome(&opened).await
    }
}
